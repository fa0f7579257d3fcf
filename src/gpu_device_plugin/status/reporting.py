"""The option ``--report-health``, for every program that has a device plugin in it.

What it takes is imported only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.plugin.observation import Observation
from gpu_device_plugin.telemetry import Listener, nobody

Observe = Callable[[], Observation]


def _nothing(_: Observe) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Reporting:
    """How a program lets the health of its GPUs be reported to Kubernetes."""

    tell: Listener = nobody
    """Has to hear what happens."""
    running: Callable[[Observe], AbstractAsyncContextManager[None]] = _nothing
    """Makes, of `Supervisor.observe`, a context in which reports are made; around the program."""


def health_reporting(parsed: Parsed, component: str) -> Reporting:
    """What the options ask for; nothing is done yet.

    Args:
        parsed: the options ``report-health``, ``kubeconfig`` and ``node-name``.
        component: name of the program, under which it reports.

    Raises:
        UsageError: the node has no name.
    """
    asked = parsed.strings("report-health")
    if not asked:
        return Reporting()
    node = parsed.text("node-name")
    if not node:
        raise UsageError(
            "report-health: the node has to be named, but --node-name is empty",
            "set NODE_NAME from the field spec.nodeName of the pod, or --node-name",
        )
    from gpu_device_plugin.kube.access import load_access  # noqa: PLC0415 - only where asked for
    from gpu_device_plugin.kube.client import KubeClient  # noqa: PLC0415 - as above
    from gpu_device_plugin.reports.model import Report  # noqa: PLC0415 - as above
    from gpu_device_plugin.reports.reporter import HealthReporter  # noqa: PLC0415 - as above
    from gpu_device_plugin.status.node_health import node_health  # noqa: PLC0415 - as above

    reporter = HealthReporter(
        lambda: KubeClient(load_access(parsed.text("kubeconfig")), program=component),
        node=node,
        component=component,
        reports=[Report(word) for word in asked],
    )
    return Reporting(
        tell=reporter.tell, running=lambda observe: reporter.running(lambda: node_health(observe()))
    )
