"""``gpu-node``: the operator's tool, one subcommand for each job."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_device_plugin import __version__
from gpu_device_plugin.programs.gpu_node_cdi_parser import Parser


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand."""

    name: str
    summary: str
    """A line for the list of subcommands."""
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    """A parser with the default ``takes_options_of_plugin`` leaves what it does not know to
    ``options_of_plugin``, and one with the default ``parser`` is told of mistakes."""
    run: Callable[[argparse.Namespace], int]
    """Does the work; the exit code. What it needs is imported in there."""


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Runs a subcommand; its exit code, or 2 if there is no such one."""
    if argv[:1] == [AGENT]:
        # Its options have the grammar of the programs that it stands for.
        return _run_agent(argv[1:])
    parser = make_parser()
    given, rest = parser.parse_known_args(argv)
    if rest and not given.takes_options_of_plugin:
        given.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if given.command is None:
        parser.print_help(sys.stderr)
        return 2
    given.options_of_plugin = rest
    command: Command = given.command
    return command.run(given)


def make_parser() -> argparse.ArgumentParser:
    """The grammar of all subcommands."""
    parser = Parser(
        prog="gpu-node",
        description="Shows, checks and explains how this node offers its GPUs to Kubernetes.",
        formatter_class=_HelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"gpu-node version v{__version__}", help=VERSION_HELP
    )
    parser.set_defaults(command=None, parser=parser, takes_options_of_plugin=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=_HelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(command=command, parser=sub)
    return parser


VERSION_HELP = "print the version and exit"


class _HelpFormatter(argparse.HelpFormatter):
    """Room for the names, and no more than 80 columns however wide the terminal is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=20, width=80)


def _add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--speed",
        type=_speed,
        metavar="N",
        help="how many times faster the pauses are, 0 for none (default: 1 on a terminal, else 0)",
    )
    parser.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        help="where page and metrics are served meanwhile; empty for nowhere (default: a free "
        "port on loopback)",
    )


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 <= speed <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return speed


def _run_demo(given: argparse.Namespace) -> int:
    from gpu_device_plugin.errors import UsageError  # noqa: PLC0415 - for this command only
    from gpu_device_plugin.simulation.demo import run_demo  # noqa: PLC0415 - as above
    from gpu_device_plugin.simulation.page_address import FREE_LOOPBACK  # noqa: PLC0415 - as above
    from gpu_device_plugin.web.address import read_address  # noqa: PLC0415 - as above

    address = FREE_LOOPBACK if given.metrics_address is None else given.metrics_address
    try:
        if address:
            read_address(address, "--metrics-address")
    except UsageError as error:
        given.parser.error(str(error))
    return run_demo(given.speed, page_address=address)


def _add_cdi_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_cdi import add_arguments  # noqa: PLC0415 - as below

    add_arguments(parser)


def _run_cdi(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_cdi import run_cdi  # noqa: PLC0415 - for this command

    return run_cdi(given)


def _add_topology_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_topology import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_topology(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_topology import (  # noqa: PLC0415 - for this command
        run_topology,
    )

    return run_topology(given)


def _add_labels_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_labels import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_labels(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_labels import (  # noqa: PLC0415 - for this command
        run_labels,
    )

    return run_labels(given)


def _add_status_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_status import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_status(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_status import (  # noqa: PLC0415 - for this command
        run_status,
    )

    return run_status(given)


def _add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_validate import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_validate(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_validate import (  # noqa: PLC0415 - for this command
        run_validate,
    )

    return run_validate(given)


def _add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_doctor import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_doctor(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_doctor import (  # noqa: PLC0415 - for this command
        run_doctor,
    )

    return run_doctor(given)


def _run_agent(argv: Sequence[str]) -> int:
    from gpu_device_plugin.programs.entry import hold_signals  # noqa: PLC0415 - for this command

    hold_signals()
    from gpu_device_plugin.programs.gpu_node_agent import run_agent  # noqa: PLC0415 - as above

    return run_agent(argv)


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    """For a command that parses its own."""
    del parser


AGENT = "agent"


def _add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_explain import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_explain(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_explain import (  # noqa: PLC0415 - for this command
        run_explain,
    )

    return run_explain(given)


def _add_simulate_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_simulate import (  # noqa: PLC0415 - as below
        add_arguments,
    )

    add_arguments(parser)


def _run_simulate(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_simulate import (  # noqa: PLC0415 - for this command
        run_simulate,
    )

    return run_simulate(given)


def _add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    from gpu_device_plugin.programs.gpu_node_options import (  # noqa: PLC0415 - 2 ms
        PROGRAM_NAMES,
    )

    parser.allow_abbrev = False
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"
    )
    parser.add_argument(
        "--program",
        choices=("gpu-node", *PROGRAM_NAMES),
        metavar="NAME",
        default="gpu-node",
        help="the program whose command line is completed: gpu-node or one of the four others "
        "(default: gpu-node)",
    )


def _run_completion(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.gpu_node_completion import (  # noqa: PLC0415 - for this command
        run_completion,
    )

    return run_completion(given, make_parser())


COMMANDS = (
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
        add_arguments=_add_doctor_arguments,
        run=_run_doctor,
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
        add_arguments=_add_demo_arguments,
        run=_run_demo,
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
        add_arguments=_add_simulate_arguments,
        run=_run_simulate,
    ),
    Command(
        name="cdi",
        summary="make, list, check and compare CDI specifications",
        description=(
            "Works with the CDI specifications (Container Device Interface) by which container "
            "runtimes give GPUs to containers: those of the plugin and those of others. The NVIDIA "
            "Container Toolkit is not needed."
        ),
        add_arguments=_add_cdi_arguments,
        run=_run_cdi,
    ),
    Command(
        name="topology",
        summary="show how GPUs are connected and which ones go together",
        description=(
            "Shows the GPUs of this node, what connects every two of them and what the plugin "
            "scores that, and with --size the set that it would prefer and why. The exit code is 1 "
            "if the node cannot be read or has no such GPUs."
        ),
        add_arguments=_add_topology_arguments,
        run=_run_topology,
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
        add_arguments=_add_labels_arguments,
        run=_run_labels,
    ),
    Command(
        name="status",
        summary="show how the node is doing: health, resources, what is wrong",
        description=(
            "Shows what is wrong with this node, its resources and its GPUs with their health and "
            "who holds them. By default the hardware is read here and the kubelet is asked; with "
            "--address a running program is. The exit code is 1 if nothing can be told, and with "
            "--check 3 if something is wrong."
        ),
        add_arguments=_add_status_arguments,
        run=_run_status,
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
        add_arguments=_add_status_arguments,
        run=_run_status,
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
        add_arguments=_add_status_arguments,
        run=_run_status,
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
        add_arguments=_add_validate_arguments,
        run=_run_validate,
    ),
    Command(
        name=AGENT,
        summary="serve the devices of this node, label it, follow its configuration",
        description="See gpu-node agent --help.",
        add_arguments=_no_arguments,
        run=lambda _: _run_agent(()),
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
        add_arguments=_add_explain_arguments,
        run=_run_explain,
    ),
    Command(
        name="completion",
        summary="print a script by which a shell completes command lines",
        description=(
            "Prints a completion script for gpu-node, or with --program for one of the other "
            "programs. In bash: source <(gpu-node completion bash); in zsh: source <(gpu-node "
            "completion zsh); in fish: gpu-node completion fish | source."
        ),
        add_arguments=_add_completion_arguments,
        run=_run_completion,
    ),
)
