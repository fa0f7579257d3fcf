"""A genuine Prometheus scrapes the real programs, and runs every query of dashboard and rules."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.aio import run
from support.apiserver import ApiServer
from support.inventories import a_gpu, a_node
from support.metrics import GPU, HOSTILE, Stage, an_ailment, gpus
from support.mps import MpsTools
from support.process import PluginProcess, plugin
from support.profiles import Stage as ProfileStage
from support.programs import program
from support.prometheus import (
    MONITORING,
    PATIENCE,
    Prometheus,
    Target,
    alert_rules,
    expressions,
    needs_prometheus,
    port_of,
    prometheus,
    promtool,
)
from support.serving import allocatable
from support.targets import counting
from support.web import fetch, server

from gpu_device_plugin.hardware.model import UnreadableGpu
from gpu_device_plugin.plugin.ailment import Severity
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import PodSpec
from gpu_device_plugin.status.model import Check, MpsStatus, Pods
from gpu_device_plugin.telemetry import (
    Answered,
    Call,
    DaemonStarted,
    HealthChanged,
    Labelled,
    Outcome,
    ProfileApplied,
    Registered,
    Reloaded,
    Turn,
)
from gpu_device_plugin.web.messages import Request, Response, Route

pytestmark = needs_prometheus

LISTEN = "--metrics-address=127.0.0.1:0"
LIMIT = 90.0
"""Seconds of a test; a busy machine takes some for each program that starts."""
SHARED = f"sharing: {{mps: {{resources: [{{name: {GPU}, replicas: 2}}]}}}}\n"


@dataclass
class Fleet:
    """Every program on one simulated node."""

    kubelet: SimulatedKubelet
    events: Path
    targets: tuple[Target, ...]

    @property
    def plugin(self) -> Target:
        return self.targets[0]


@pytest.fixture
def profiles(tmp_path: Path) -> Iterator[ProfileStage]:
    name = f"target-{os.getpid()}-{tmp_path.name[-30:]}"
    directory = tmp_path / "profiles"
    directory.mkdir()
    with ApiServer() as api, counting(name, directory) as target:
        yield ProfileStage(directory, api, target, name)


@pytest.fixture
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MpsTools]:
    tools = MpsTools.make(tmp_path_factory.mktemp("m"))  # names of sockets are limited
    yield tools
    tools.clean_up()


@asynccontextmanager
async def fleet(directory: Path, profiles: ProfileStage, tools: MpsTools) -> AsyncIterator[Fleet]:
    """Starts all programs."""
    events, config = directory / "events", directory / "mps.yaml"
    events.touch()
    config.write_text(SHARED)
    profiles.label("a")
    async with AsyncExitStack() as stack:
        pods = str(directory / "pods.sock")
        kubelet = SimulatedKubelet(str(directory), pod_resources_socket=pods)
        await stack.enter_async_context(kubelet)
        devices = plugin(
            directory,
            *(LISTEN, f"--pod-resources-socket={pods}"),
            environ={"GPU_NODE_SIMULATE_EVENTS": str(events)},
        )
        labels = program(
            "gpu_feature_discovery",
            *("--use-node-feature-api=false", f"--output-file={directory / 'labels'}"),
            *("--sleep-interval=1s", LISTEN),
            environ={"GPU_NODE_SIMULATE": "t4x4"},
        )
        daemons = program(
            "mps_control_daemon",
            *(f"--config-file={config}", f"--mps-control-binary={tools.control}", LISTEN),
            environ={"GPU_NODE_SIMULATE": "t4x4"},
            before=f"program.MPS_ROOT = {str(tools.root)!r}",
        )
        programs: list[PluginProcess] = [
            await stack.enter_async_context(each)
            for each in (devices, labels, daemons, profiles.running(LISTEN))
        ]
        await kubelet.until(allocatable(4), "four GPUs", PATIENCE)
        ports = [await port_of(each) for each in programs]
        yield Fleet(kubelet, events, tuple(Target("node-a", port) for port in ports))


MAY_BE_EMPTY = {
    "Unhealthy GPUs A",  # all are well
    "XIDs A",
    "Time for a preference A",  # nobody wants a shared device
}
"""Queries of the dashboard that have nothing to tell of a healthy node."""


def test_every_query_of_the_dashboard_runs_on_the_real_programs(tmp_path, profiles, tools):
    async def work():
        async with (
            fleet(tmp_path, profiles, tools) as it,
            prometheus(tmp_path, *it.targets, rules=MONITORING / "prometheus-rules.yaml") as prom,
        ):
            await prom.until_scraped(len(it.targets), 2)
            await it.kubelet.admit(PodSpec.of("a", {GPU: 1}))
            await prom.until('increase(gpu_node_allocations_total{outcome="ok"}[10s]) > 0')
            await prom.until("gpu_node_devices_in_use == 1")
            await prom.until("increase(gpu_node_label_pass_duration_seconds_count[10s]) > 0")
            for name, expr in expressions().items():
                found = await prom.query(expr)
                assert found or name in MAY_BE_EMPTY, f"{name}: {expr}"
            await check_values(prom)
            await no_alerts(prom)
            it.events.write_text("xid 1 79\n")
            await prom.until('gpu_node_gpu_unhealthy_xid{gpu="1", xid="79"} == 1')
            (bad,) = await prom.query(expressions()["Unhealthy GPUs A"])
            assert bad[0]["model"] == "Tesla T4"
            assert (bad[0]["gpu"], bad[0]["cause"]) == ("1", "xid")
            await prom.until('ALERTS{alertname="GpuNodeGpuUnhealthyXid", gpu="1", xid="79"}')
            assert await prom.alerts() == {("GpuNodeGpuUnhealthyXid", "node-a")}

    run(work(), LIMIT)


async def check_values(prom: Prometheus) -> None:
    """What is shown is what is there."""
    wanted = {
        "sum(gpu_node_gpus)": 4,
        f'gpu_node_devices_allocatable{{resource="{GPU}"}}': 4,
        'gpu_node_allocations_total{outcome="ok"}': 1,
        'gpu_node_registrations_total{outcome="ok"}': 1,
        "gpu_node_streams_open": 1,
        "gpu_node_pod_resources_up": 1,
        "gpu_node_mps_daemon_ready": 1,
        'gpu_node_mps_daemon_starts_total{outcome="ok"}': 1,
        'gpu_node_profile_changes_total{outcome="ok"}': 1,
        "min(gpu_node_ready)": 1,
        "min(gpu_node_live)": 1,
        "count(gpu_node_build_info)": 4,
        'count(gpu_node_config_info{profile="a"})': 1,
    }
    for expr, value in wanted.items():
        assert [number for _, number in await prom.query(expr)] == [value], expr
    ((_, labels),) = await prom.query("gpu_node_labels")
    assert labels > 20


async def no_alerts(prom: Prometheus) -> None:
    """Nothing is wrong with the node, and every rule could be evaluated."""
    groups = (await prom.get("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(alert_rules())
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    assert await prom.alerts() == set()


def test_the_metrics_of_real_programs_have_nothing_that_a_linter_objects_to(
    tmp_path, profiles, tools
):
    async def work():
        async with fleet(tmp_path, profiles, tools) as it:
            for target in it.targets:
                reply = await fetch(target.port, "/metrics")
                assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
                assert await promtool("check", "metrics", stdin=reply.body) == (0, "")

    run(work(), LIMIT)


@asynccontextmanager
async def staged(stage: Stage) -> AsyncIterator[int]:
    """Serves the metrics of what a test makes up."""

    def answer(request: Request) -> Response:
        made = stage.metrics.render(request.accept)
        return Response(200, made.content_type, made.body)

    async with server({"/metrics": Route(answer)}) as running:
        yield running.port


def an_ailing_node() -> Stage:
    """One on which everything is wrong that can be wrong at a time."""
    stage = Stage(
        inventory=a_node([a_gpu(n) for n in range(4)]),
        watch=WatchState.BLIND,
        offer_problem="more than one MIG type",
        pods=Pods(asked=True, problem="no such socket"),
        mps=(MpsStatus(GPU, ready=False, detail="no driver"),),
        now=1.0,
    )
    assert stage.inventory is not None
    stage.inventory = a_node([*stage.inventory.gpus[:3], a_gpu(3, lost="GPU is lost")])
    stage.inventory = stage.inventory.__class__(
        stage.inventory.platform, stage.inventory.gpus, (UnreadableGpu(4, "Unknown Error"),)
    )
    stage.serve(
        gpus(4),
        {
            "GPU-0": an_ailment("XID 79"),
            "GPU-1": an_ailment("cannot be watched", Severity.UNWATCHABLE),
            "GPU-2": an_ailment("the monitor failed"),
            "GPU-3": an_ailment("GPU is lost", Severity.LOST),
        },
        streams=0,
    )
    stage.serve(gpus(1, name="nvidia.com/refused"), state=State.REFUSED)
    stage.reporter.live = lambda: Check(ok=False, reasons=("a part has ended",))
    return stage


def make_things_happen(stage: Stage) -> None:
    """What counters tell of that node."""
    for _ in range(20):
        stage.tell(Registered(GPU, Outcome.OK))
        stage.tell(HealthChanged(Turn.IGNORED, "GPU-0", "XID 13", xid=13))
        stage.tell(DaemonStarted(GPU, Outcome.OK))
        stage.tell(Answered(Call.ALLOCATE, GPU, 3.0, Outcome.OK))
        stage.tell(Answered(Call.ALLOCATE, GPU, 3.0, Outcome.REFUSED))
    stage.tell(Labelled(Outcome.FAILED, 1.0, 0, 1.0))
    stage.tell(Reloaded(Outcome.FAILED, "line 3: it is wrong"))
    stage.tell(ProfileApplied("typo", Outcome.FAILED, "there is none"))


NOT_PROVOKED = {
    "GpuNodePluginAbsent",  # there is one
    "GpuNodeRestarts",  # this process is one
}


def test_alerts_are_raised_for_a_node_that_ails_and_for_one_that_goes(tmp_path):
    ailing, leaving = an_ailing_node(), Stage()

    async def work():
        async with AsyncExitStack() as stack, staged(ailing) as port:
            gone = AsyncExitStack()
            await stack.enter_async_context(gone)
            targets = [
                Target("node-b", port),
                Target("node-c", await gone.enter_async_context(staged(leaving))),
            ]
            rules = MONITORING / "prometheus-rules.yaml"
            async with prometheus(tmp_path, *targets, rules=rules) as prom:
                await prom.until_scraped(2, 2)
                make_things_happen(ailing)
                await gone.aclose()
                await prom.until('ALERTS{alertname="GpuNodePluginGone", node="node-c"}')
                wanted = set(alert_rules()) - NOT_PROVOKED
                while missing := wanted - {alert for alert, _ in await prom.alerts()}:
                    await prom.until(f'ALERTS{{alertname="{missing.pop()}"}}')
                assert {node for _, node in await prom.alerts()} == {"node-b", "node-c"}
                for alert in (await prom.get("alerts"))["alerts"]:
                    for text in alert["annotations"].values():
                        assert not re.search(r"[<{%]", text), "all of the template is filled in"

    run(work(), LIMIT)


def test_rules_and_scrape_configuration_are_what_prometheus_takes(tmp_path):
    async def work():
        code, said = await promtool(
            "check",
            "rules",
            "--lint=all",
            "--lint-fatal",
            str(MONITORING / "prometheus-rules.yaml"),
        )
        assert code == 0, said
        # Debian's Prometheus is built without the discovery of Kubernetes.
        text = (MONITORING / "scrape-config.yaml").read_text()
        plain = text.replace("kubernetes_sd_configs", "static_configs").replace(
            "- role: pod", "- targets: [localhost]"
        )
        (tmp_path / "scrape.yaml").write_text(plain)
        code, said = await promtool("check", "config", str(tmp_path / "scrape.yaml"))
        assert code == 0, said

    run(work())


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_names_of_any_kind_reach_prometheus_as_they_are(tmp_path, accept):
    stage = Stage(program=HOSTILE[0], node=HOSTILE[2], profile=HOSTILE[4])
    for name in HOSTILE:
        stage.serve(gpus(1, name=name))
    assert stage.metrics.render(accept).content_type.startswith(accept or "text/plain")

    def answer(_: Request) -> Response:
        made = stage.metrics.render(accept)
        return Response(200, made.content_type, made.body)

    async def work():
        async with (
            server({"/metrics": Route(answer)}) as running,
            prometheus(tmp_path, Target("node-a", running.port)) as prom,
        ):
            await prom.until("gpu_node_devices")
            names = {
                labels.get("resource", "") for labels, _ in await prom.query("gpu_node_devices")
            }
            cut = {name.replace("\udcff", "?") for name in HOSTILE if len(name) < 100}
            assert names == {*cut, "x" * 127 + "…"}

    run(work(), LIMIT)
