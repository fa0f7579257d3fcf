"""``gpu-node simulate``: a simulated node that runs, and what is done to it meanwhile."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpu_device_plugin.errors import UsageError

if TYPE_CHECKING:
    from gpu_device_plugin.simulation.node_place import NodePlace, NodeState

DEFAULT_PROFILE = "dgx-a100"
RESCAN = "2s"
"""How often the plugin looks for changed hardware, unless the user says otherwise."""

OPTIONS_OF_PLUGIN = (
    "config-file",
    "mig-strategy",
    "rescan-interval",
    "fail-on-init-error",
    "device-list-strategy",
    "device-id-strategy",
    "pass-device-specs",
    "shared-devices-allocation-policy",
)
"""Those that make sense on a simulated node."""

_POD = re.compile(r"(?:([a-z0-9.-]+)/)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)=(.+)")
_LIMIT = re.compile(r"([A-Za-z0-9.-]+/[A-Za-z0-9._-]+):([0-9]{1,6})")


class _Action(argparse.Action):
    """Collects what is to be done, in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        name = (option_string or "").removeprefix("--")
        given = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*given, (name, values or "")])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of ``gpu-node simulate``."""
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.programs.commands.options import add_options_of

    parser.add_argument(
        "profile",
        nargs="?",
        metavar="PROFILE",
        help="the node: name of a built-in profile, or path of a YAML file "
        f"(default: {DEFAULT_PROFILE})",
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        help="where the node has its files; tells several nodes apart (default: a directory of "
        "yours below XDG_RUNTIME_DIR or /tmp)",
    )
    parser.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        help="where page and metrics are served; empty for nowhere (default: a free port on "
        "loopback)",
    )
    group = parser.add_argument_group("what is done to a node that runs, in this order")
    for name, metavar, text in (
        ("fault", "LINE", "make something go wrong: 'xid 3 79', 'lost 3', 'mig 0 1g.5gb,3g.20gb'"),
        ("pod", "[NS/]NAME=RESOURCE:N,...", "run a pod, such as train=nvidia.com/gpu:2"),
        ("delete-pod", "NAME", "end a pod"),
    ):
        group.add_argument(f"--{name}", dest="acts", action=_Action, metavar=metavar, help=text)
    for name, text in (
        ("restart-kubelet", "restart the kubelet"),
        ("reload", "send SIGHUP to the plugin"),
        ("show", "show the node as JSON: its sockets, resources, devices and pods"),
        ("stop", "end the node"),
    ):
        group.add_argument(f"--{name}", dest="acts", action=_Action, nargs=0, help=text)
    add_options_of(Program.DEVICE_PLUGIN, OPTIONS_OF_PLUGIN, parser, "for_plugin")


def run_simulate(given: argparse.Namespace) -> int:
    """Runs the command; errors are one line each on stderr.

    Returns:
        0, 1 if the node cannot be run or refuses, or 2 if the options make no sense.
    """
    from gpu_device_plugin.programs.commands.console import run_command

    return run_command(lambda: _act(given) if given.acts else _run(given))


def _place(given: argparse.Namespace) -> NodePlace:
    from gpu_device_plugin.simulation.node_place import NodePlace, default_directory

    return NodePlace(os.path.abspath(given.directory or default_directory(os.environ)))


def _act(given: argparse.Namespace) -> int:
    """Does things to a node that runs; nothing is done unless all of them are understood."""
    if given.profile or given.metrics_address is not None or given.for_plugin:
        raise UsageError(
            f"--{given.acts[0][0]} is for a node that runs; a profile and options start one",
            "first gpu-node simulate [PROFILE], then this in another terminal",
        )
    place = _place(given)
    state = place.running()
    works = [_prepare(name, text, place, state) for name, text in given.acts]
    for work in works:
        work()
    return 0


def _prepare(name: str, text: str, place: NodePlace, state: NodeState) -> Any:
    """What an option asks for, ready to be done.

    Raises:
        UsageError: it cannot be understood.
    """
    from gpu_device_plugin.simulation.node_control import ask

    if name == "fault":
        return _fault(text, state)
    if name == "pod":
        request = _pod(text)
        return lambda: _tell_pod(request, ask(place.control, request))
    if name == "delete-pod":
        return lambda: _tell(f"pod {text} deleted", ask(place.control, {"do": name, "name": text}))
    if name == "show":
        return lambda: _show(ask(place.control, {"do": name}))
    done = {
        "restart-kubelet": "the kubelet has been restarted",
        "reload": "the plugin reloads",
        "stop": "the node ends",
    }
    return lambda: _tell(done[name], ask(place.control, {"do": name}))


def _fault(text: str, state: NodeState) -> Any:
    from gpu_device_plugin.simulation.node_faults import AT_ONCE, append_fault, check_fault

    action = check_fault(text, state.profile)
    when = "seen within 0.2 s" if action in AT_ONCE else "seen when the node is read next"

    def work() -> None:
        append_fault(text, state.events_file)
        _tell(f"{text.strip()}: {when}")

    return work


def _pod(text: str) -> dict[str, Any]:
    found = _POD.fullmatch(text)
    limits = [_LIMIT.fullmatch(part) for part in found[3].split(",")] if found else []
    if found is None or None in limits:
        raise UsageError(
            f"--pod: {text!r} is no pod", "such as train=nvidia.com/gpu:2, or team-a/train=…"
        )
    return {
        "do": "pod",
        "namespace": found[1] or "default",
        "name": found[2],
        "limits": {limit[1]: int(limit[2]) for limit in limits if limit is not None},
    }


def _tell(text: str, _answer: object = None) -> None:
    from gpu_device_plugin.programs.commands.console import write_out

    write_out(f"{text}\n")


def _tell_pod(request: dict[str, Any], answer: dict[str, Any]) -> None:
    devices = [one for ids in answer["devices"].values() for one in ids]
    _tell(f"pod {request['name']} runs with {', '.join(devices)}")


def _show(answer: dict[str, Any]) -> None:
    import json

    del answer["ok"]
    _tell(json.dumps(answer, indent=2))


def _run(given: argparse.Namespace) -> int:
    """Runs a node until Ctrl-C or SIGTERM."""
    import asyncio

    from gpu_device_plugin.hardware.simulated.profile import load_profile, profile_path
    from gpu_device_plugin.simulation.demo.print import Printer
    from gpu_device_plugin.simulation.node_run import SimulatedNodeRun
    from gpu_device_plugin.simulation.page_address import FREE_LOOPBACK
    from gpu_device_plugin.watch.signals import on_signals

    profile = given.profile or DEFAULT_PROFILE
    load_profile(profile)
    if "/" in profile or profile.endswith((".yaml", ".yml")):
        profile = os.path.abspath(profile_path(profile))
    address = FREE_LOOPBACK if given.metrics_address is None else given.metrics_address
    wanted = _wanted(given, _place(given), profile, address)

    printer = Printer(sys.stdout)

    async def run() -> None:
        node = SimulatedNodeRun(
            wanted,
            printer.line,
            lambda state: printer.say(_introduction(given, state, wanted.place)),
        )
        # A terminal that is closed ends it as well.
        on_signals(stop=lambda _: node.stop(), reload=node.stop)
        await node.run()

    asyncio.run(run())
    return 0


def _wanted(given: argparse.Namespace, place: NodePlace, profile: str, address: str) -> Any:
    """The node that the options ask for.

    Raises:
        UsageError: the plugin would not take them.
    """
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.config.options import PROGRAMS
    from gpu_device_plugin.programs.commands.cdi_options import parse_options_of_plugin
    from gpu_device_plugin.simulation.node_run import Wanted

    arguments = list(given.for_plugin or ())
    parsed = parse_options_of_plugin(arguments)
    if address:
        from gpu_device_plugin.web.address import read_address

        read_address(address, "--metrics-address")
    if not parsed.is_set("rescan-interval"):
        arguments.append(f"--rescan-interval={RESCAN}")
    known = PROGRAMS[Program.DEVICE_PLUGIN]
    names = [env for name in OPTIONS_OF_PLUGIN for env in known.option(name).env]
    variables = {name: os.environ[name] for name in names if name in os.environ}
    return Wanted(place, profile, arguments, variables, address)


def _introduction(given: argparse.Namespace, state: NodeState, place: NodePlace) -> str:
    """What there is and what can be done with it."""
    command = "gpu-node simulate"
    if given.directory:
        command += f" --directory {given.directory}"
    lines = [
        f"simulated node {state.profile} in {place.directory}",
        f"  kubelet        {state.kubelet_socket}",
        f"  pod resources  {state.pod_resources_socket}",
    ]
    if state.url:
        lines.append(f"  page           {state.url}")
        lines.append(f"  metrics        {state.url}metrics")
        lines.append(f"  look           gpu-node status --address {state.url}")
    lines += [
        f"  faults         {command} --fault 'xid 3 79'",
        f"  pods           {command} --pod train=nvidia.com/gpu:2",
        "Ctrl-C ends it.",
    ]
    return "\n".join(lines)
