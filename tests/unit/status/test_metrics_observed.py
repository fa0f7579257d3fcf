"""Gauges that are looked up at the moment of a scrape."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from support.configs import a_config
from support.inventories import a_gpu, a_node, cut_gpu
from support.metrics import GPU, HOSTILE, Stage, an_ailment, gpus

from gpu_device_plugin import __version__
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import SharingStrategy
from gpu_device_plugin.hardware.model import Links, UnreadableGpu
from gpu_device_plugin.plugin.ailment import Severity
from gpu_device_plugin.plugin.observation import Reload
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.status.metrics import metrics as module
from gpu_device_plugin.status.metrics.metrics import Part
from gpu_device_plugin.status.metrics.names import LONGEST
from gpu_device_plugin.status.metrics.observed import Cause, cause_of
from gpu_device_plugin.status.model import Configuration, Holder, MpsStatus, Pods
from gpu_device_plugin.status.settings import configuration_hash, describe_configuration


@pytest.mark.parametrize(
    ("reason", "severity", "cause"),
    [
        ("XID 79", Severity.RECOVERABLE, Cause.XID),
        ("XID 79", Severity.UNTIL_RESET, Cause.XID),
        ("XID 79", Severity.LOST, Cause.LOST),
        ("GPU is lost", Severity.LOST, Cause.LOST),
        ("not watched: no driver", Severity.PROVISIONAL, Cause.UNWATCHED),
        ("events are not supported", Severity.UNWATCHABLE, Cause.UNWATCHABLE),
        ("the monitor failed", Severity.RECOVERABLE, Cause.DRIVER),
        ("XID", Severity.RECOVERABLE, Cause.DRIVER),
        ("XID seventy-nine", Severity.RECOVERABLE, Cause.DRIVER),
    ],
)
def test_every_ailment_has_a_class(reason, severity, cause):
    assert cause_of(an_ailment(reason, severity)) is cause


def test_devices_are_counted_with_their_replicas():
    stage = Stage()
    stage.serve(gpus(2, replicas=4))
    before = stage.scrape()
    assert before.value("gpu_node_devices", resource=GPU) == 8
    assert before.value("gpu_node_devices_allocatable", resource=GPU) == 8
    assert before.series("gpu_node_devices_unhealthy") == {(c, GPU): 0 for c in Cause}
    stage.change(ailments={"GPU-1": an_ailment("XID 79")})
    after = stage.scrape()
    assert after.value("gpu_node_devices", resource=GPU) == 8
    assert after.value("gpu_node_devices_allocatable", resource=GPU) == 4
    assert after.series("gpu_node_devices_unhealthy") == {
        (c, GPU): 4 if c is Cause.XID else 0 for c in Cause
    }


def test_devices_that_containers_hold_are_counted_if_the_kubelet_tells():
    stage = Stage()
    stage.serve(gpus(2, replicas=4))
    stage.serve(gpus(1, name="nvidia.com/other"))
    assert stage.scrape().series("gpu_node_devices_in_use") == {}
    stage.holders = {}
    assert set(stage.scrape().series("gpu_node_devices_in_use").values()) == {0}
    stage.holders = {
        (GPU, "GPU-1"): [Holder("ns", "pod", "a", (0, 3)), Holder("ns", "pod", "b", (1,))],
        ("nvidia.com/other", "GPU-0"): [Holder("ns", "pod", "c")],
        ("nvidia.com/gone", "GPU-0"): [Holder("ns", "pod", "d")],
    }
    assert stage.scrape().series("gpu_node_devices_in_use") == {
        (GPU,): 3,
        ("nvidia.com/other",): 1,
    }


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        (Pods(asked=False), {}),
        (Pods(asked=True), {(): 1}),
        (Pods(asked=True, problem="no such socket"), {(): 0}),
    ],
)
def test_whether_the_kubelet_tells_who_holds_what(pods, expected):
    assert Stage(pods=pods).scrape().series("gpu_node_pod_resources_up") == expected


@pytest.mark.parametrize("state", list(State))
def test_a_resource_is_in_one_state(state):
    stage = Stage()
    stage.serve(gpus(2), state=state)
    series = stage.scrape().series("gpu_node_resource_state")
    assert series == {(GPU, s.name.lower()): s is state for s in State}


@pytest.mark.parametrize("state", list(WatchState))
def test_the_health_monitor_is_in_one_state(state):
    series = Stage(watch=state).scrape().series("gpu_node_health_monitor_state")
    assert series == {(s.name.lower(),): s is state for s in WatchState}


def test_open_streams_are_counted():
    stage = Stage()
    stage.serve(gpus(2), streams=0)
    assert stage.scrape().value("gpu_node_streams_open", resource=GPU) == 0
    stage.change(open_streams=2)
    assert stage.scrape().value("gpu_node_streams_open", resource=GPU) == 2


def test_a_resource_tells_how_it_is_shared():
    stage = Stage()
    stage.serve(replace(gpus(1), sharing=SharingStrategy.MPS))
    assert stage.scrape().series("gpu_node_resource_info") == {(GPU, "mps"): 1}


def test_gpus_are_counted_by_what_can_be_read_of_them():
    node = a_node([a_gpu(0), a_gpu(1, lost="GPU is lost"), a_gpu(2)])
    stage = Stage(inventory=replace(node, unreadable=(UnreadableGpu(3, "Unknown Error"),)))
    assert stage.scrape().series("gpu_node_gpus") == {
        ("readable",): 2,
        ("lost",): 1,
        ("unreadable",): 1,
    }


def test_a_gpu_is_unhealthy_for_causes_and_xids():
    stage = Stage(inventory=a_node([a_gpu(0), a_gpu(1), a_gpu(2, lost="GPU is lost")]))
    stage.serve(gpus(3))
    before = stage.scrape()
    bad = {labels for labels, value in before.series("gpu_node_gpu_unhealthy").items() if value}
    assert bad == {("lost", "2")}, "a GPU that is not offered can be lost all the same"
    assert len(before.series("gpu_node_gpu_unhealthy")) == 3 * len(Cause)
    assert before.series("gpu_node_gpu_unhealthy_xid") == {}
    stage.change(
        ailments={
            "GPU-0": an_ailment("XID 79"),
            "GPU-1": an_ailment("XID 99999"),
            "GPU-2": an_ailment("GPU is lost", Severity.LOST),
        }
    )
    after = stage.scrape()
    bad = {labels for labels, value in after.series("gpu_node_gpu_unhealthy").items() if value}
    assert bad == {("xid", "0"), ("xid", "1"), ("lost", "2")}
    assert after.series("gpu_node_gpu_unhealthy_xid") == {("0", "79"): 1, ("1", "other"): 1}


def test_a_gpu_is_unhealthy_if_one_of_its_mig_devices_is():
    devices = tuple(
        Device(f"MIG-{n}", f"0:{n}", gpu_uuid="GPU-0", mig_instances=(n, 0)) for n in range(3)
    )
    stage = Stage(inventory=a_node([cut_gpu(0, 1, 1, 1)]))
    stage.serve(Resource(GPU, devices), {"MIG-1": an_ailment("XID 94")})
    scrape = stage.scrape()
    assert scrape.value("gpu_node_gpu_unhealthy", gpu="0", cause="xid") == 1
    assert scrape.value("gpu_node_devices_allocatable", resource=GPU) == 2


def test_gpus_and_driver_are_named():
    stage = Stage(inventory=a_node([a_gpu(0), cut_gpu(1, 1)]))
    scrape = stage.scrape()
    model = "NVIDIA A100-SXM4-40GB"
    assert scrape.series("gpu_node_gpu_info") == {
        ("0", "false", model, "00000000:01:00.0", "GPU-0"): 1,
        ("1", "true", model, "00000000:02:00.0", "GPU-1"): 1,
    }
    assert scrape.series("gpu_node_driver_info") == {("12.4", "550.127.05", "nvml"): 1}


@pytest.mark.parametrize("changes", [{"is_read": False}, {"inventory": None}])
def test_without_hardware_there_is_nothing_to_tell_of_it(changes):
    scrape = Stage(**changes).scrape()
    assert set(scrape.series("gpu_node_gpus").values()) == {0}
    for name in ("gpu_node_gpu_info", "gpu_node_driver_info", "gpu_node_gpu_unhealthy"):
        assert scrape.series(name) == {}
        assert name in scrape.families


@pytest.mark.parametrize(("links", "known"), [(None, 0), (Links(), 1)])
def test_whether_links_are_known(links, known):
    assert Stage(links=links).scrape().value("gpu_node_links_known") == known


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"init_problem": "no driver"}, "driver"),
        ({"offer_problem": "more than one MIG type"}, "offer"),
        ({"last_reload": Reload(1.0, "line 3: it is wrong")}, "configuration"),
        ({"last_reload": Reload(1.0)}, ""),
        ({"is_read": False}, ""),
        ({}, ""),
    ],
)
def test_problems_are_told_by_kind(changes, kind):
    series = Stage(**changes).scrape().series("gpu_node_problem")
    assert series == {(k,): k == kind for k in ("driver", "offer", "configuration")}


def test_a_program_tells_what_it_is():
    stage = Stage(program="gpu-feature-discovery", node="node-7")
    (labels,) = stage.scrape().series("gpu_node_build_info")
    assert (labels[0], labels[1], labels[3]) == ("node-7", "gpu-feature-discovery", __version__)


def test_live_and_ready_are_the_answers_of_the_probes():
    stage = Stage()
    stage.serve(gpus(1), state=State.WAITING)
    program = "nvidia-device-plugin"
    scrape = stage.scrape()
    assert scrape.value("gpu_node_live", program=program) == 1
    assert scrape.value("gpu_node_ready", program=program) == 0
    stage.change(state=State.REGISTERED)
    assert stage.scrape().value("gpu_node_ready", program=program) == 1
    stage.watch = WatchState.FAILED
    assert stage.scrape().value("gpu_node_live", program=program) == 0


def test_the_configuration_is_known_by_its_hash(monkeypatch):
    stage = Stage(profile="timesliced")
    counted = list[Loaded]()

    def count(loaded: Loaded) -> str:
        counted.append(loaded)
        return configuration_hash(loaded)

    monkeypatch.setattr(module, "configuration_hash", count)
    digest = describe_configuration(stage.loaded).hash
    assert stage.scrape().series("gpu_node_config_info") == {(digest, "timesliced"): 1}
    stage.scrape()
    assert len(counted) == 1, "it is not made anew for each scrape"
    stage.loaded = Loaded(a_config(mig_strategy="mixed"))
    (labels,) = stage.scrape().series("gpu_node_config_info")
    assert labels != (digest, "timesliced")
    stage.is_read, stage.profile = False, ""
    assert stage.scrape().series("gpu_node_config_info") == {}


def test_programs_without_a_plugin_tell_their_configuration_too():
    stage = Stage(has_plugin=False, parts=[Part.LABELS])
    assert stage.scrape().series("gpu_node_config_info") == {}
    stage.configuration = Configuration("", "", "0123456789abcdef")
    assert stage.scrape().series("gpu_node_config_info") == {("0123456789abcdef", ""): 1}


def test_mps_daemons_are_ready_or_not():
    stage = Stage(mps=(MpsStatus(GPU, ready=True, detail=""), MpsStatus("b", False, "no driver")))
    assert stage.scrape().series("gpu_node_mps_daemon_ready") == {(GPU,): 1, ("b",): 0}


def test_scrapes_and_the_process_are_measured():
    stage = Stage()
    assert stage.scrape().value("gpu_node_scrape_duration_seconds_count") == 0
    again = stage.scrape()
    assert again.value("gpu_node_scrape_duration_seconds_count") == 1
    assert (again.value("gpu_node_scrape_duration_seconds_sum") or 0) > 0
    assert (again.value("process_resident_memory_bytes") or 0) > 2**20
    assert (again.value("process_open_fds") or 0) > 2
    assert (again.value("process_start_time_seconds") or 0) > 1e9
    assert again.value("process_cpu_seconds_total") is not None


@pytest.mark.parametrize("text", HOSTILE)
def test_label_values_of_any_kind_can_be_read_back(text):
    stage = Stage(program=text, node=text, profile=text)
    gpu = a_gpu(0, name=text, uuid=text, pci_bus_id=text)
    stage.inventory = replace(a_node([gpu]), driver_version=text)
    stage.serve(Resource(text, (Device(text, "0", gpu_uuid=text),)))
    stage.mps = (MpsStatus(text, ready=True, detail=text),)
    body = stage.metrics.render().body
    scrape = stage.scrape()
    (read,) = scrape.series("gpu_node_devices")
    assert read[0] == text.replace("\udcff", "?") or len(read[0]) == LONGEST
    assert len(max(body.decode().split("\n"), key=len)) < 6 * LONGEST


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/html", "text/plain; version=0.0.4"),
        ("text/plain;version=0.0.4;q=0.3,*/*;q=0.2", "text/plain; version=0.0.4"),
        ("text/plain;version=1.0.0;escaping=underscores", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=2.0.0", "text/plain; version=0.0.4"),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=1.0.0,*/*", "application/openmetrics-text; version"),
        ("application/openmetrics-text;version=none", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=0.0.1", "text/plain; version=0.0.4"),
        (";;;,=,,", "text/plain; version=0.0.4"),
    ],
)
def test_the_format_is_what_is_asked_for_and_understood(accept, form):
    stage = Stage()
    stage.serve(gpus(2), {"GPU-0": an_ailment("XID 79")})
    answer = stage.metrics.render(accept)
    assert answer.content_type.startswith(form)
    if "openmetrics" in form:
        assert list(read_openmetrics(answer.body.decode()))
        assert answer.body.endswith(b"# EOF\n")
    else:
        assert b"# EOF" not in answer.body


def test_a_scrape_does_not_look_at_replicas(monkeypatch):
    stage = Stage(inventory=a_node(8))
    resource = gpus(8, replicas=100)
    stage.serve(resource, {"GPU-3": an_ailment("XID 79")})
    monkeypatch.setattr(Device, "ids", lambda _: pytest.fail("replicas were made"))
    assert stage.scrape().value("gpu_node_devices", resource=GPU) == 800
    assert stage.scrape().size < 400


def test_series_do_not_become_more_as_time_goes_on():
    stage = Stage(inventory=a_node(2))
    sizes = list[int]()
    for n in range(3):
        stage.resources.clear()
        stage.serve(gpus(2), {"GPU-0": an_ailment(f"XID {900 + n}")})
        stage.loaded = Loaded(a_config(mps_root=f"/{n}"))
        sizes.append(stage.scrape().size)
    assert len(set(sizes)) == 1
