"""What the commands show of a status, for people and as data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.local_statuses import GPU, NOW, everything, example, hardware, held, status_of, uuids

from gpu_device_plugin.console.screen import ANSI, Screen
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.topology.words import TIMES
from gpu_device_plugin.status.document import from_json, to_json
from gpu_device_plugin.status.model import (
    Check,
    Hardware,
    Illness,
    Labelling,
    MpsStatus,
    NodeStatus,
    Pods,
    Reloading,
)
from gpu_device_plugin.status.show_devices import devices_data, devices_lines
from gpu_device_plugin.status.show_pods import pods_data, pods_lines
from gpu_device_plugin.status.show_status import gpu_health, status_lines
from gpu_device_plugin.status.troubles import is_well, pods_note, troubles
from gpu_device_plugin.status.words import Health

WIDE = Screen(None)


def shared() -> NodeStatus:
    """Four GPUs with three replicas each, one of them broken, held by three pods."""
    read = hardware(replicas=3)
    first, second, third, _ = uuids(read)
    containers = [
        held("train", f"{first}::0", f"{first}::2", f"{second}::1"),
        held("web", f"{first}::1", namespace="default"),
        held("old", third, namespace="attic"),
    ]
    status = status_of(read, containers, everything(read, but=[f"{second}::{n}" for n in range(3)]))
    (resource,) = status.resources
    illness = Illness(
        "XID 79", "GPU has fallen off the bus", "until-reset", NOW - 200, NOW - 100, 2
    )
    broken = replace(resource.devices[1], illness=illness)
    devices = (resource.devices[0], broken, *resource.devices[2:])
    return replace(status, resources=(replace(resource, devices=devices),))


def well() -> NodeStatus:
    return status_of(hardware())


def sentences(status: NodeStatus) -> list[str]:
    return [trouble.text for trouble in troubles(status)]


# ------------------------------------------------------------------ devices


def test_devices_are_told_with_health_cause_use_and_holders():
    head, *rows = devices_lines(shared(), WIDE)
    first, second, third, _fourth, former = (row.split("  ") for row in rows)

    assert head.split() == [
        *("RESOURCE", "INDEX", "HEALTH", "CAUSE", "USED", "HELD", "BY"),
        *("NAME", "MEMORY", "NUMA", "ID"),
    ]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in (first, second, third)]
    assert cells[0][:6] == [*(GPU, "0", "healthy", "-", "3/3", "default/web [1], ml/train [0,2]")]
    assert cells[1][:6] == [
        *(GPU, "1", "UNHEALTHY", "XID 79: GPU has fallen off the bus", "1/3", "ml/train [1]")
    ]
    # The whole GPU was held under a former configuration, so that none of its replicas is.
    assert cells[2][4:6] == ["0/3", "attic/old"]
    assert [cell.strip() for cell in former if cell.strip()][:6] == [
        *(GPU, "2", "not offered", "-", "-", "attic/old")
    ]


def test_devices_of_one_resource_or_one_namespace():
    status = shared()

    assert len([*devices_lines(status, WIDE, "gpu")]) == 6
    assert [*devices_lines(status, WIDE, "other")] == []
    assert [row.split()[1] for row in devices_lines(status, WIDE, "", "default")][1:] == ["0"]


def test_use_is_a_question_mark_if_nobody_tells():
    status = well()
    silent = replace(
        status,
        pods=Pods(asked=False),
        resources=tuple(replace(r, in_use=None, health_known=False) for r in status.resources),
    )

    row = [*devices_lines(silent, WIDE)][1].split()

    assert row[2:5] == ["unknown", "-", "?"]


def test_health_has_the_colour_that_it_has_everywhere():
    _, _, second, *_ = devices_lines(shared(), Screen(None, ANSI))

    assert "\x1b[31mUNHEALTHY\x1b[0m" in second
    assert "\x1b[31mXID 79: GPU has fallen off the bus\x1b[0m" in second


def test_devices_as_data():
    data = json.loads(json.dumps(devices_data(shared())))

    assert (data["schema"], data["node"], data["time"]) == ("gpu-node/devices/v1", "node-1", NOW)
    assert data["kubelet"] == {"asked": True, "problem": "", "time": NOW}
    device = data["devices"][1]
    assert (device["resource"], device["index"], device["health"]) == (GPU, "1", "unhealthy")
    assert (device["used"], device["replicas"]) == (1, 3)
    assert device["illness"]["reason"] == "XID 79"
    assert device["name"] == "Tesla T4"
    assert device["memory_bytes"] > 0
    assert device["holders"] == [
        {"namespace": "ml", "pod": "train", "container": "main", "replicas": [1]}
    ]
    assert [former["holder"]["pod"] for former in data["former"]] == ["old"]
    assert devices_data(shared(), "", "default")["former"] == []


# ------------------------------------------------------------------ pods


def test_pods_are_told_with_their_devices_in_order():
    head, *rows = pods_lines(shared(), WIDE)

    assert head.split() == [
        *("NAMESPACE", "POD", "CONTAINER", "GPU", "REPLICAS", "HEALTH", "CAUSE"),
        *("PROFILE", "RESOURCE", "ID"),
    ]
    assert [row.split()[:6] for row in rows] == [
        ["attic", "old", "main", "2", "-", "not"],
        ["default", "web", "main", "0", "1", "healthy"],
        ["ml", "train", "main", "0", "0,2", "healthy"],
        ["ml", "train", "main", "1", "1", "UNHEALTHY"],
    ]


def test_pods_of_one_namespace():
    assert [row.split()[1] for row in pods_lines(shared(), WIDE, "", "ml")][1:] == ["train"] * 2
    assert [*pods_lines(well(), WIDE)] == []


def test_mig_devices_are_told_with_their_profiles_and_sorted_by_number():
    read = hardware("dgx-a100-mig")
    slices = next(r for r in read.resources if r.name == "nvidia.com/mig-1g.5gb")
    ids = [device.id for device in slices.devices]

    status = status_of(read, [held("train", *reversed(ids), resource=slices.name)])

    rows = [row.split() for row in pods_lines(status, WIDE)][1:]
    assert [row[3] for row in rows] == [device.index for device in slices.devices]
    assert {row[7] for row in rows} == {"1g.5gb"}


def test_pods_as_data():
    data = json.loads(json.dumps(pods_data(shared())))

    assert data["schema"] == "gpu-node/pods/v1"
    assert [(c["namespace"], c["pod"], c["container"]) for c in data["containers"]] == [
        ("attic", "old", "main"),
        ("default", "web", "main"),
        ("ml", "train", "main"),
    ]
    old, _, train = (container["devices"] for container in data["containers"])
    assert (old[0]["offered"], old[0]["health"]) == (False, "unknown")
    assert [(d["index"], d["replicas"], d["health"], d["cause"]) for d in train] == [
        ("0", [0, 2], "healthy", ""),
        ("1", [1], "unhealthy", "XID 79: GPU has fallen off the bus"),
    ]


# ------------------------------------------------------------------ status


def test_a_node_that_is_well_says_so_in_its_first_line():
    first, facts, *rest = status_lines(well(), WIDE)

    assert first == "node-1: well"
    assert facts.startswith("4 GPUs; driver ")
    assert facts.endswith("simulated node t4x4; configuration without a file")
    assert rest[0] == ""
    assert rest[1].split()[:2] == ["RESOURCE", "CAPACITY"]
    assert rest[2].split() == [GPU, "4", "4", "0", "4", "-", "known", "to", "the", "kubelet"]


def test_what_is_wrong_comes_first_with_cause_course_and_holders():
    lines = [*status_lines(shared(), WIDE)]

    assert lines[0] == "node-1: NOT WELL, 1 problem"
    assert lines[3].startswith(
        f"! GPU 1 ({GPU}): XID 79: GPU has fallen off the bus; until it is reset, since 3 min ("
    )
    assert lines[3].endswith("), 2 times; held by ml/train [1]")
    assert lines[4] == (
        f"\N{MIDDLE DOT} attic/old holds GPU 2 as {GPU}, as it is not offered any more"
    )


def test_free_are_healthy_ids_that_nobody_holds():
    row = next(line for line in status_lines(shared(), WIDE) if line.startswith(GPU)).split()

    assert row[1:5] == ["12", "9", "4", "6"]


def test_sentences_are_wrapped_on_a_terminal_and_tables_fit():
    for width in (60, 80, 100):
        assert max(len(line) for line in status_lines(shared(), Screen(width))) <= width


def test_gpus_are_told_with_all_that_is_offered_of_them():
    read = hardware("dgx-a100-mig")
    lines = [*status_lines(status_of(read), WIDE)]

    table = lines[next(n for n, line in enumerate(lines) if line.startswith("GPU ")) :]
    states = {line.split()[0]: line for line in table[1:]}
    assert "not offered" in states["6"]
    assert f"3g.20gb, 2g.10gb, 2 {TIMES} 1g.5gb" in states["0"]


def test_only_one_resource_is_shown_if_that_is_wanted():
    read = hardware("dgx-a100-mig")

    text = "\n".join(status_lines(status_of(read), WIDE, "mig-1g.5gb"))

    assert "nvidia.com/mig-1g.5gb " in text
    assert "nvidia.com/mig-2g.10gb" not in text


def test_a_program_is_told_with_its_age_and_its_last_reload():
    status = well()
    assert status.configuration is not None
    told = replace(
        status,
        program="nvidia-device-plugin",
        started=NOW - 7200,
        configuration=replace(
            status.configuration, profile="shared", reload=Reloading(NOW - 60, "")
        ),
    )

    facts = [*status_lines(told, WIDE)][1]

    assert "nvidia-device-plugin v" in facts
    assert ", up 2 h 0 min; profile shared; " in facts
    assert "; reloaded 20" in facts


def test_a_reload_that_failed_is_told_once():
    status = well()
    assert status.configuration is not None
    problem = "config.yaml:3: unknown key"
    told = replace(
        status,
        ready=Check(ok=False, reasons=(f"the new configuration cannot be used: {problem}",)),
        configuration=replace(
            status.configuration, reload=Reloading(NOW - 60, problem), problem=problem
        ),
    )

    assert sentences(told) == [f"not ready: the new configuration cannot be used: {problem}"]
    assert "could not be reloaded" in [*status_lines(told, WIDE)][1]


def test_everything_that_may_be_wrong_is_told():
    status = well()
    assert status.configuration is not None
    told = replace(
        status,
        live=Check(ok=False, reasons=("the health monitor has ended",)),
        hardware=Hardware(
            "tegra", "", "", "", "no driver", "starting", unreadable=("GPU 3 cannot be read: x",)
        ),
        configuration=replace(status.configuration, problem="bad", warnings=("odd",)),
        labelling=Labelling(NOW, "file", problem="read-only"),
        mps=(MpsStatus(GPU, ready=False, detail="it starts"), MpsStatus(GPU, True, "")),
    )

    assert sentences(told) == [
        "not alive: the health monitor has ended",
        "no GPUs: no driver",
        "GPU 3 cannot be read: x",
        "configuration: bad",
        "configuration: odd",
        "labels: read-only",
        f"MPS of {GPU} is not ready: it starts",
    ]
    assert "no driver; tegra; health: starting" in [*status_lines(told, WIDE)][1]
    assert not is_well(told)


def test_a_program_without_gpus_has_a_status():
    status = replace(well(), hardware=None, resources=(), program="config-manager")

    assert next(status_lines(status, WIDE)) == "node-1: well"


@pytest.mark.parametrize(
    ("pods", "note"),
    [
        (Pods(asked=False), ""),
        (Pods(asked=True, time=NOW), ""),
        (Pods(asked=True, problem="gone"), "which pods hold which devices is not known: gone"),
        (
            Pods(asked=True, problem="gone", time=NOW - 120),
            "which pods hold which devices is known as of 2 min ago only: gone",
        ),
    ],
)
def test_a_kubelet_that_does_not_tell_is_noted(pods, note):
    assert pods_note(replace(well(), pods=pods)) == note


def test_whether_a_node_is_well_can_be_asked_of_one_resource():
    status = shared()

    assert not is_well(status)
    assert not is_well(status, "gpu")
    assert is_well(status, "mig-1g.5gb")
    assert is_well(well())


def test_a_lost_gpu_is_unhealthy_whatever_is_offered_of_it():
    status = well()
    assert status.hardware is not None
    gpu = replace(status.hardware.gpus[0], lost="GPU is lost")

    assert gpu_health(gpu, []) == (Health.UNHEALTHY, ["cannot be read: GPU is lost"])


def test_a_verdict_is_not_given_where_health_is_not_known():
    status = well()
    blind = replace(
        status, resources=tuple(replace(r, health_known=False) for r in status.resources)
    )

    lines = [*status_lines(blind, WIDE)]

    assert lines[0] == "node-1: health not known"
    assert "unknown" in lines[-1]


# ------------------------------------------------------------------ documents of others


def places(data: object, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where a document has values, whole parts of it included."""
    found = [place] if place else []
    items: list[tuple[str | int, object]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    return found + [each for key, value in items for each in places(value, (*place, key))]


DOCUMENT = json.loads(to_json(example()))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\x1b[31m", "\n", "\ud800"])
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(places(DOCUMENT)), scalars | st.lists(scalars, max_size=2))
def test_a_document_with_anything_in_it_is_shown_or_refused(place, value):
    data = json.loads(json.dumps(DOCUMENT))
    *way, last = place
    inner = data
    for key in way:
        inner = inner[key]
    inner[last] = value
    try:
        status = from_json(json.dumps(data))
    except ConfigError:
        return
    for show in (status_lines, devices_lines, pods_lines):
        assert all(line.isprintable() for line in show(status, Screen(80)))
    json.dumps([devices_data(status), pods_data(status)])
    is_well(status)


def test_a_document_is_read_back_as_it_was():
    assert from_json(to_json(example())) == example()


def test_a_document_that_is_nested_too_deeply_is_refused():
    with pytest.raises(ConfigError, match="not a status"):
        from_json("[" * 100_000)
