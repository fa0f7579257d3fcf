"""From what the plugin serves to what is reported of its GPUs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from support.inventories import a_gpu, a_node, cut_gpu

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.hardware.model import Gpu, Inventory, UnreadableGpu
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.observation import Observation, ObservedResource
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.programs.common import run_program
from gpu_device_plugin.programs.device_plugin import serve
from gpu_device_plugin.reports.model import NodeHealth, Watching
from gpu_device_plugin.resources.model import Device, Plan, Resource
from gpu_device_plugin.status.node_health import node_health
from gpu_device_plugin.status.reporting import health_reporting

PLAIN, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"


def seen(
    inventory: Inventory | None,
    *resources: ObservedResource,
    watch: WatchState = WatchState.WATCHING,
    problem: str = "",
    planned: bool = True,
) -> Observation:
    plan = Plan(tuple(r.resource for r in resources)) if planned else Plan((Resource(PLAIN, ()),))
    node = SimpleNamespace(inventory=inventory, init_problem=problem, plan=plan)
    return Observation(cast(Node, node), tuple(resources), watch=watch)


def whole(*gpus: Gpu, ailing: dict[str, Ailment] | None = None) -> ObservedResource:
    devices = tuple(Device(g.uuid, str(g.index), gpu_uuid=g.uuid, replicas=2) for g in gpus)
    return ObservedResource(Resource(PLAIN, devices), State.REGISTERED, 1, ailing or {})


def ailment(reason: str, severity: Severity = Severity.RECOVERABLE) -> Ailment:
    return Ailment(reason, severity, 0, 0)


def test_nothing_is_known_before_the_node_has_been_read():
    assert node_health(Observation(None)) == NodeHealth()


def test_nothing_is_known_between_two_configurations():
    assert node_health(seen(a_node(1), planned=False)) == NodeHealth()


def test_a_driver_that_cannot_be_used_is_told():
    health = node_health(seen(None, problem="cannot load NVML"))

    assert (health.is_read, health.driver_problem) == (True, "cannot load NVML")


def test_shares_count_replicas_and_tell_which_are_taken_away():
    gpus = (a_gpu(0), a_gpu(1))
    health = node_health(seen(a_node(gpus), whole(*gpus, ailing={"GPU-1": ailment("XID 79")})))

    first, second = health.gpus
    assert first.problem == ""
    assert second.problem == "XID 79 (GPU has fallen off the bus)"
    assert (second.index, second.pci_bus_id) == (1, "00000000:02:00.0")
    (share,) = second.shares
    assert (share.resource, share.count(), share.count(share.unhealthy)) == (PLAIN, 2, 2)


def test_a_part_of_a_gpu_is_called_a_part_and_the_firmest_reason_counts():
    gpu = cut_gpu(0, 1, 1, 1)
    devices = tuple(Device(m.uuid, f"0:{m.slot}", gpu_uuid=gpu.uuid) for m in gpu.mig_devices)
    ailing = {
        "MIG-0-0": ailment("XID 94"),
        "MIG-0-1": ailment("cannot be watched: odd", Severity.UNTIL_RESET),
    }
    resource = ObservedResource(Resource(MIG, devices), State.REGISTERED, 1, ailing)

    (health,) = node_health(seen(a_node([gpu]), resource)).gpus

    assert health.problem == "cannot be watched: odd, on 2 of 3 devices"
    assert health.shares[0].unhealthy == {"MIG-0-0", "MIG-0-1"}


def test_a_lost_gpu_is_broken_also_if_it_is_not_offered():
    gpu = replace(a_gpu(0), lost="GPU is lost")

    assert node_health(seen(a_node([gpu]))).gpus[0].problem == "GPU is lost"


def test_what_merely_is_not_watched_is_not_broken():
    gpu = a_gpu(0)
    provisional = {"GPU-0": ailment("not watched: no driver", Severity.PROVISIONAL)}
    observed = seen(a_node([gpu]), whole(gpu, ailing=provisional), watch=WatchState.BLIND)
    health = node_health(observed)

    assert health.gpus[0].problem == ""
    assert health.watching is Watching.BLIND


def test_gpus_that_never_could_be_read_are_told():
    inventory = replace(a_node(1), unreadable=(UnreadableGpu(3, "Unknown Error"),))

    assert node_health(seen(inventory)).unreadable == {3: "Unknown Error"}


@pytest.mark.parametrize("state", WatchState)
def test_every_state_of_watching_has_a_meaning(state):
    assert node_health(seen(a_node(1), watch=state)).watching in Watching


def test_reports_need_the_name_of_the_node(tmp_path, monkeypatch):
    monkeypatch.delenv("NODE_NAME", raising=False)
    arguments = ["--report-health=events", "--kubelet-socket=", f"--plugin-directory={tmp_path}"]
    assert run_program(Program.DEVICE_PLUGIN, serve, [*arguments, "--simulate=t4x4"]) == 1


def test_the_error_names_the_field_of_the_pod():
    parsed = parse(Program.DEVICE_PLUGIN, ["--report-health=events"], {})
    with pytest.raises(UsageError, match=r"--node-name is empty.*spec\.nodeName"):
        health_reporting(parsed, "nvidia-device-plugin")
