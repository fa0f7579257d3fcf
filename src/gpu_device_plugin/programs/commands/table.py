"""The subcommands of ``gpu-node``; what each needs is imported when it is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parts:
    """What a subcommand consists of."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    """A parser with the default ``takes_options_of_plugin`` leaves what it does not know to
    ``options_of_plugin``, and one with the default ``parser`` is told of mistakes."""
    run: Callable[[argparse.Namespace], int]
    """Does the work; the exit code."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand."""

    name: str
    summary: str
    """A line for the list of subcommands."""
    description: str
    load: Callable[[], Parts]
    """Imports what it consists of."""


AGENT = "agent"
"""Has the grammar of the programs that it stands for, and is not parsed like the others."""


def _status() -> Parts:
    from gpu_device_plugin.programs.commands import status

    return Parts(status.add_arguments, status.run_status)


def _topology() -> Parts:
    from gpu_device_plugin.programs.commands import topology

    return Parts(topology.add_arguments, topology.run_topology)


def _labels() -> Parts:
    from gpu_device_plugin.programs.commands import labels

    return Parts(labels.add_arguments, labels.run_labels)


def _cdi() -> Parts:
    from gpu_device_plugin.programs.commands import cdi

    return Parts(cdi.add_arguments, cdi.run_cdi)


def _doctor() -> Parts:
    from gpu_device_plugin.programs.commands import doctor

    return Parts(doctor.add_arguments, doctor.run_doctor)


def _validate() -> Parts:
    from gpu_device_plugin.programs.commands import validate

    return Parts(validate.add_arguments, validate.run_validate)


def _explain() -> Parts:
    from gpu_device_plugin.programs.commands import explain

    return Parts(explain.add_arguments, explain.run_explain)


def _demo() -> Parts:
    from gpu_device_plugin.programs.commands import demo

    return Parts(demo.add_arguments, demo.run_demo_command)


def _simulate() -> Parts:
    from gpu_device_plugin.programs.commands import simulate

    return Parts(simulate.add_arguments, simulate.run_simulate)


def _completion() -> Parts:
    from gpu_device_plugin.programs.commands import completion

    return Parts(completion.add_arguments, completion.run_completion)


def _agent() -> Parts:
    """For the list of commands; see `AGENT`."""
    return Parts(lambda _: None, lambda _: 2)


COMMANDS = (
    Command(
        name="status",
        summary="show how the node is doing: health, resources, what is wrong",
        description=(
            "Shows what is wrong with this node, its resources and its GPUs with their health and "
            "who holds them. By default the hardware is read here and the kubelet is asked; with "
            "--address a running program is. The exit code is 1 if nothing can be told, and with "
            "--check 3 if something is wrong."
        ),
        load=_status,
    ),
    Command(
        name="devices",
        summary="show each device: health and cause, who holds it",
        description=(
            "Shows a line for each GPU or MIG device that this node offers: health and cause, how "
            "much of it is in use, which pods hold it. By default the hardware is read here and "
            "the kubelet is asked; with --address a running program is. The exit code is 1 if "
            "nothing can be told, and with --check 3 if something is wrong."
        ),
        load=_status,
    ),
    Command(
        name="pods",
        summary="show which containers hold which GPUs",
        description=(
            "Shows a line for each GPU, MIG device or share of one that a container holds, with "
            "the health of the device. By default the kubelet on this node is asked; with "
            "--address a running program is. The exit code is 1 if it is not known who holds "
            "what, and with --check 3 if something is wrong with the node."
        ),
        load=_status,
    ),
    Command(
        name="topology",
        summary="show how GPUs are connected and which ones go together",
        description=(
            "Shows the GPUs of this node, what connects every two of them and what the plugin "
            "scores that, and with --size the set that it would prefer and why. The exit code is 1 "
            "if the node cannot be read or has no such GPUs."
        ),
        load=_topology,
    ),
    Command(
        name="labels",
        summary="show which labels the node would get and why",
        description=(
            "Shows the labels that gpu-feature-discovery would publish with the same options, "
            "each with where it comes from. Nothing is written or published. Labels that are "
            "missing are told on standard error with the reason; the exit code is 1 if nothing "
            "can be told of GPUs because the driver or the configuration does not allow it."
        ),
        load=_labels,
    ),
    Command(
        name="cdi",
        summary="make, list, check and compare CDI specifications",
        description=(
            "Works with the CDI specifications (Container Device Interface) by which container "
            "runtimes give GPUs to containers: those of the plugin and those of others. The NVIDIA "
            "Container Toolkit is not needed."
        ),
        load=_cdi,
    ),
    Command(
        name="doctor",
        summary="find what is wrong with this node, and what to do about it",
        description=(
            "Looks at everything that GPUs on a node depend on: driver, NVML, container runtime, "
            "kubelet, Kubernetes, MPS, limits and rights of the system, configuration. Each check "
            "has a verdict, what was seen, and the next step. Nothing is changed. Works on the "
            "host as root, inside the plugin's pod, and with --host-root in a debug pod. The exit "
            "code is 0 if nothing has failed, 1 if something has, 2 if the options make no sense."
        ),
        load=_doctor,
    ),
    Command(
        name="validate",
        summary="find every problem of configurations, ConfigMaps and manifests",
        description=(
            "Checks configuration files, ConfigMaps, manifests and rendered charts (helm template "
            "NAME CHART | gpu-node validate -) by the rules of the programs that read them, and "
            "tells every problem with file, line and key. The exit code is 1 if there is any "
            "error, or with --strict any warning."
        ),
        load=_validate,
    ),
    Command(
        name="explain",
        summary="tell what the node offers with a configuration, and why",
        description=(
            "Tells which resources, devices, CDI names and labels result from a configuration on "
            "this node or on a simulated one, and which line, flag, variable or rule is the cause "
            "of each. With --request, what a container would get; with --diff, what another "
            "configuration would change. Nothing is written or registered. The exit code is 1 if "
            "the node or the configuration cannot be used."
        ),
        load=_explain,
    ),
    Command(
        name=AGENT,
        summary="serve the devices of this node, label it, follow its configuration",
        description="See gpu-node agent --help.",
        load=_agent,
    ),
    Command(
        name="demo",
        summary="watch the plugin at work on a simulated DGX",
        description=(
            "Runs the real nvidia-device-plugin on a simulated DGX A100 with a simulated kubelet: "
            "pods that ask for GPUs and for time-sliced replicas, errors of GPUs, a restart of "
            "the kubelet, new configurations. Takes half a minute on a terminal and ends by itself "
            "or on Ctrl-C; without a terminal, or with NO_COLOR set or TERM=dumb, it prints plain "
            "lines. The exit code is 1 if anything does not come out as it should."
        ),
        load=_demo,
    ),
    Command(
        name="simulate",
        summary="run a simulated node, and make things go wrong on it",
        description=(
            "Runs a simulated node until Ctrl-C: the real nvidia-device-plugin with simulated GPUs "
            "and a simulated kubelet, with page and metrics. With --fault, --pod and the like it "
            "does something to the node that runs: errors of GPUs, GPUs that get lost, other MIG "
            "layouts, pods, restarts. The exit code is 1 if the node cannot be run or refuses, 2 "
            "if the options make no sense."
        ),
        load=_simulate,
    ),
    Command(
        name="completion",
        summary="print a script by which a shell completes command lines",
        description=(
            "Prints a completion script for gpu-node, or with --program for one of the other "
            "programs. In bash: source <(gpu-node completion bash); in zsh: source <(gpu-node "
            "completion zsh); in fish: gpu-node completion fish | source."
        ),
        load=_completion,
    ),
)
