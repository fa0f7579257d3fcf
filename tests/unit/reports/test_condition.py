"""What the node's condition says, and when it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reports import a_gpu, healthy

from gpu_device_plugin.reports.condition import (
    CONDITION,
    HEARTBEAT_SECONDS,
    ConditionKeeper,
    State,
    judge,
)
from gpu_device_plugin.reports.event import event_name
from gpu_device_plugin.reports.model import NodeHealth, Watching


def said(node: NodeHealth) -> tuple[str, str, str]:
    verdict = judge(node)
    assert verdict is not None
    return verdict.state, verdict.reason, verdict.message


def test_all_well_is_true():
    assert said(healthy(0, 1)) == ("True", "AllGPUsHealthy", "2 GPUs healthy and watched")
    assert said(healthy(0))[2] == "1 GPU healthy and watched"


def test_every_broken_gpu_is_named():
    node = replace(healthy(0), gpus=(a_gpu(0), a_gpu(1, "XID 79"), a_gpu(2, "GPU is lost")))

    assert said(node) == (
        "False",
        "GPUsUnhealthy",
        (
            "GPU 1 (GPU-1, PCI 00000000:01:00.0): XID 79; GPU 2 (GPU-2, PCI 00000000:02:00.0): "
            "GPU is lost"
        ),
    )


def test_a_gpu_that_never_could_be_read_is_broken():
    node = replace(healthy(0), unreadable={3: "Unknown Error"})

    assert said(node) == ("False", "GPUsUnhealthy", "GPU 3: cannot be read: Unknown Error")


@pytest.mark.parametrize(
    ("node", "reason", "message"),
    [
        (
            NodeHealth(is_read=True, driver_problem="cannot load NVML"),
            "DriverNotReady",
            "the driver cannot be used: cannot load NVML",
        ),
        (healthy(), "NoGPUs", "the driver lists no GPU"),
        (
            replace(healthy(0), offer_problem="uneven GPUs"),
            "GPUsNotOffered",
            "nothing is offered: uneven GPUs",
        ),
        (healthy(0, watching=Watching.BLIND), "GPUsNotWatched", "the driver reports nothing"),
        (healthy(0, watching=Watching.OFF), "GPUsNotWatched", "nobody watches the GPUs"),
    ],
)
def test_what_is_not_known_is_unknown(node, reason, message):
    state, why, text = said(node)

    assert (state, why) == ("Unknown", reason)
    assert text.startswith(message)


def test_a_broken_gpu_outweighs_what_is_not_known():
    node = replace(healthy(0, watching=Watching.BLIND), gpus=(a_gpu(0, "XID 79"),))

    assert said(node)[0] == "False"


@pytest.mark.parametrize("node", [NodeHealth(), healthy(0, watching=Watching.STARTING)])
def test_what_will_be_known_soon_is_waited_for(node):
    assert judge(node) is None


def test_many_broken_gpus_fit_a_message():
    node = replace(healthy(), gpus=tuple(a_gpu(n, "x" * 500) for n in range(64)))
    message = said(node)[2]

    assert len(message) <= 1024
    few = replace(healthy(), gpus=tuple(a_gpu(n, "x") for n in range(10)))
    assert said(few)[2].endswith("; and 2 more")


def test_it_is_written_when_it_changes_and_now_and_then():
    keeper, good = ConditionKeeper(), judge(healthy(0))
    bad = judge(replace(healthy(), gpus=(a_gpu(0, "XID 79"),)))
    assert good is not None
    assert bad is not None

    assert keeper.wait(good, 0) == 0
    keeper.written(good, keeper.body(good, 100), 0)
    assert keeper.wait(good, 10) == HEARTBEAT_SECONDS - 10
    assert keeper.wait(bad, 10) == 0
    assert keeper.wait(good, HEARTBEAT_SECONDS) == 0


def test_the_transition_is_when_the_status_changed_also_over_restarts():
    keeper, good = ConditionKeeper(), judge(healthy(0))
    assert good is not None
    since = "2026-01-01T00:00:00Z"
    keeper.learn(
        {
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False"},
                    {"type": CONDITION, "status": "True", "lastTransitionTime": since},
                ]
            }
        }
    )
    (same,) = keeper.body(good, 1_700_000_000)["status"]["conditions"]
    (other,) = keeper.body(replace(good, state=State.FALSE), 1_700_000_000)["status"]["conditions"]

    assert same["lastTransitionTime"] == since
    assert same["lastHeartbeatTime"] == other["lastTransitionTime"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    "node",
    [
        {},
        *({"status": odd} for odd in (None, "Ready", ["Ready"])),
        *({"status": {"conditions": odd}} for odd in (None, 5, {CONDITION: "True"}, [CONDITION])),
        {"status": {"conditions": [{"type": CONDITION, "status": 1, "lastTransitionTime": 2}]}},
    ],
)
def test_a_node_without_conditions_teaches_nothing(node):
    keeper, good = ConditionKeeper(), judge(healthy(0))
    assert good is not None
    keeper.learn(node)

    (condition,) = keeper.body(good, 0)["status"]["conditions"]
    assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"


@given(st.text(max_size=300), st.integers(0, 2**64))
def test_names_of_events_are_names(node, unique):
    name = event_name(node, unique)

    assert 0 < len(name) <= 253
    assert name[0].isalnum()
    assert name == name.lower()


def test_names_of_events_begin_with_the_node_if_that_is_possible():
    assert event_name("n1", 255) == "n1.ff"
    assert "n" * 250 not in event_name("n" * 250, 2**63)
