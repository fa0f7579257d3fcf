"""The status page: what is on it, that it is sound HTML, and that data never becomes markup."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.html_tree import Element, parse_html
from support.page_status import (
    NOW,
    OK,
    a_status,
    half_of_800,
    lost,
    many_pods,
    two_jobs,
    xid,
)

from gpu_device_plugin.status.model import (
    Check,
    FormerHolding,
    Holder,
    Labelling,
    LogEvent,
    MpsStatus,
    NodeStatus,
    Pods,
    Reloading,
)
from gpu_device_plugin.status.page.gpus import TIMES
from gpu_device_plugin.status.page.page import CONTENT_SECURITY_POLICY, STYLE, render_page
from gpu_device_plugin.status.page.script import SCRIPT

LIMIT_BYTES = 50_000


def everything() -> NodeStatus:
    """A node on which each part of the page has something to show."""
    status = a_status("dgx-a100-mig", holders=two_jobs, ills={5: xid(94, count=3), 7: lost()})
    assert status.configuration is not None
    assert status.hardware is not None
    former = FormerHolding("nvidia.com/gpu", "GPU-x", "1", Holder("ns", "pod", "main", (3,)))
    return replace(
        status,
        live=Check(ok=False, reasons=("the health monitor has ended",)),
        ready=Check(ok=False, reasons=("nvidia.com/gpu: waiting",)),
        hardware=replace(status.hardware, unreadable=("GPU 9 cannot be read: gone",)),
        pods=Pods(asked=True, problem="away", time=NOW - 60, former=(former,)),
        configuration=replace(
            status.configuration,
            profile="timesliced",
            warnings=("config.yaml:3: unknown key",),
            reload=Reloading(NOW - 9, "config.yaml:4: no"),
            problem="config.yaml:4: no",
        ),
        labelling=Labelling(NOW - 5, "/features.d/gfd", (("nvidia.com/gpu.count", "8"),), "late"),
        mps=(MpsStatus("nvidia.com/gpu", ready=False, detail="starting"),),
        events=tuple(LogEvent(NOW - n, level, "a", "b") for n, level in enumerate(LEVELS)),
    )


LEVELS = ("error", "warning", "info") * 5


def page_of(status: NodeStatus) -> Element:
    return parse_html(render_page(status))


def by_id(page: Element, name: str) -> Element:
    (found,) = [each for each in page.walk() if each.attributes.get("id") == name]
    return found


STATUSES: dict[str, Callable[[], NodeStatus]] = {
    "healthy": lambda: a_status(holders=two_jobs),
    "everything": everything,
    "replicas": half_of_800,
    "sixteen": lambda: a_status("dgx-2", holders=two_jobs),
    "cube mesh": lambda: a_status("dgx-1", ills={2: lost()}),
    "one GPU": lambda: a_status("l40s"),
    "no GPU": lambda: a_status("no-gpu"),
    "integrated": lambda: a_status("jetson-orin"),
    "nothing": lambda: NodeStatus("s", "config-manager", "1", "", NOW, NOW, OK, OK),
}


@pytest.mark.parametrize("name", STATUSES)
def test_the_page_is_sound_html(name):
    page = page_of(STATUSES[name]())
    names = [each.attributes["id"] for each in page.walk() if "id" in each.attributes]
    assert len(names) == len(set(names))
    for each in page.walk():
        for attribute in ("aria-labelledby", "aria-describedby"):
            if attribute in each.attributes:
                assert each.attributes[attribute] in names
        if each.attributes.get("href", "").startswith("#"):
            assert each.attributes["href"][1:] in names
    assert page.find("html", lang="en")
    assert len(page.find("h1")) == len(page.find("main")) == 1


@pytest.mark.parametrize("name", STATUSES)
def test_headings_leave_no_level_out(name):
    levels = [
        int(e.name[1]) for e in page_of(STATUSES[name]()).walk() if re.fullmatch("h[1-6]", e.name)
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", STATUSES)
def test_tables_have_captions_and_heads_with_a_scope(name):
    for table in page_of(STATUSES[name]()).find("table"):
        assert table.find("caption")[0].text
        assert all(head.attributes["scope"] in {"row", "col"} for head in table.find("th"))
        width = len(table.find("thead")[0].find("th"))
        for row in table.find("tbody")[0].find("tr"):
            assert len(row.children) == width


@pytest.mark.parametrize("name", STATUSES)
def test_nothing_is_styled_or_run_that_a_strict_policy_forbids(name):
    page = page_of(STATUSES[name]())
    assert [each.children for each in page.find("script")] == [[SCRIPT]]
    assert [each.children for each in page.find("style")] == [[STYLE]]
    for each in page.walk():
        assert not [key for key in each.attributes if key.startswith("on") or key == "style"]
        for key in ("src", "href"):
            assert re.match(r"(#|status\.json$|data:image/svg|$)", each.attributes.get(key, ""))


@pytest.mark.parametrize("name", STATUSES)
def test_every_page_is_small(name):
    assert len(render_page(STATUSES[name]())) < LIMIT_BYTES


def test_long_names_do_not_make_the_page_large():
    status = half_of_800()
    (resource,) = status.resources
    devices = tuple(
        replace(
            device,
            holders=tuple(replace(h, pod=f"{h.pod}-{'x' * 200}") for h in device.holders),
        )
        for device in resource.devices
    )
    body = render_page(replace(status, resources=(replace(resource, devices=devices),)))
    assert len(body) < LIMIT_BYTES
    assert "containers more, which the JSON document names" in parse_html(body).text


def test_the_title_tells_the_verdict_and_the_node():
    assert page_of(a_status()).find("title")[0].text == "✓ All 8 GPUs healthy · gpu-node-07"
    title = page_of(a_status(ills={3: lost()})).find("title")[0].text
    assert title == "✕ GPU 3 is lost: it has fallen off the bus · gpu-node-07"


def test_the_verdict_is_read_out_without_durations_and_shown_with_them():
    page = page_of(a_status(ills={3: xid(79, count=4)}))
    (announced,) = page.find("div", role="status")
    assert announced.text == "GPU 3 is unhealthy: GPU has fallen off the bus (XID 79)"
    text = by_id(page, "verdict").text
    assert "Since 02:04:04 , 12 min ago; 4 times, last 11 min ago" in text
    assert "Driver 550.127.05" in text
    assert "Up for 3 d 3 h" in text
    assert "Ready ✓ yes" in text


def test_a_gpu_tells_health_place_and_holder():
    text = by_id(page_of(a_status(holders=two_jobs)), "gpu-4").text
    assert text.startswith("GPU 4 ✓ healthy B team-vision/ finetune-7b-worker-1 · main")
    assert "PCI 87:00.0 · NUMA 7" in text
    assert "UUID GPU-" in text
    assert "Offered as nvidia.com/gpu" in text
    assert "free" in by_id(page_of(a_status(holders=two_jobs)), "gpu-7").text


def test_an_unhealthy_gpu_tells_the_cause_and_what_ends_it():
    text = by_id(page_of(a_status(ills={3: xid(79, count=4)})), "gpu-3").text
    assert "✕ unhealthy" in text
    assert "XID 79: GPU has fallen off the bus , first 02:04:04 (12 min ago), last" in text
    assert "4 times. Over after a quiet period" in text


def test_a_lost_gpu_that_is_not_offered_tells_why():
    status = a_status(ills={3: lost()})
    text = by_id(page_of(replace(status, resources=())), "gpu-3").text
    assert "✕ lost" in text
    assert "it has fallen off the bus" in text


def test_gpus_of_different_models_name_them():
    status = a_status(holders=two_jobs)
    assert status.hardware is not None
    first, *others = status.hardware.gpus
    gpus = (
        replace(
            first,
            name="NVIDIA L40S",
            memory_bytes=0,
            compute_capability="",
            pci_bus_id="",
            numa_node=None,
        ),
        *others,
    )
    page = page_of(replace(status, hardware=replace(status.hardware, gpus=gpus)))
    model = "NVIDIA A100-SXM4-40GB, 40 GiB, compute capability 8.0"
    note = by_id(page, "gpus").find("header")[0].text
    assert note == f"GPUs 1 {TIMES} NVIDIA L40S 7 {TIMES} {model}"
    assert "NVIDIA L40S" in by_id(page, "gpu-0").text
    assert f"{model} · PCI 0F:00.0" in by_id(page, "gpu-1").text


def test_mig_devices_stand_below_their_gpu():
    page = page_of(a_status("dgx-a100-mig", holders=two_jobs, ills={5: xid(94)}))
    rows = [row.text for row in by_id(page, "gpu-5").find("tbody")[0].find("tr")]
    assert rows[0].startswith("5:0 1g.10gb ✕ unhealthy A ml-research/")
    assert rows[0].endswith("9.6 GiB GI 5, CI 0")
    assert "XID 94: contained memory error" in by_id(page, "gpu-5").text
    assert "cut into 4 MIG devices" in by_id(page, "gpu-0").text
    assert "not offered MIG is on, without MIG devices" in by_id(page, "gpu-6").text


def test_mig_devices_that_are_not_offered_are_listed_as_such():
    page = page_of(a_status("dgx-a100-mig", mig_strategy="none"))
    (row, *_) = by_id(page, "gpu-0").find("tbody")[0].find("tr")
    assert row.text.startswith("0:0 3g.20gb i not offered")


def test_one_of_several_mig_devices_tells_its_own_cause():
    status = a_status("dgx-a100-mig", ills={0: xid(94)})

    def heal(index: str) -> NodeStatus:
        return replace(
            status,
            resources=tuple(
                replace(
                    r,
                    devices=tuple(
                        replace(d, healthy=True, illness=None) if d.index == index else d
                        for d in r.devices
                    ),
                )
                for r in status.resources
            ),
        )

    rows = [row.text for row in by_id(page_of(heal("0:1")), "gpu-0").find("tbody")[0].find("tr")]
    assert "unhealthy: contained memory error (XID 94)" in rows[0]
    assert "healthy use not known" in rows[1]


def test_an_unhealthy_mig_device_may_have_no_reason():
    status = a_status("a30-mig", ills={0: xid(94)})
    resources = tuple(
        replace(r, devices=tuple(replace(d, illness=None) for d in r.devices))
        for r in status.resources
    )
    page = page_of(replace(status, resources=resources))
    (row, *_) = by_id(page, "gpu-0").find("tbody")[0].find("tr")
    assert "✕ unhealthy" in row.text


@pytest.mark.parametrize(
    ("replicas", "taken", "cells"),
    [
        (4, 2, "M0 0h4"),
        (50, 3, "M0 0h50"),
        (100, 50, "M0 0h50M0 1h50"),
        (75, 5, "M0 0h38M0 1h37"),
        (129, 12, "M0 0h100"),
        (1000, 0, "M0 0h100"),
    ],
)
def test_replicas_are_drawn_as_a_strip(replicas, taken, cells):
    status = a_status("l40s", replicas=replicas, holders=many_pods(taken, replicas))
    gpu = by_id(page_of(status), "gpu-0")
    (strip,) = gpu.find("svg")
    ground, *used = strip.find("path")
    assert ground.attributes["d"] == cells
    assert bool(used) == bool(taken)
    assert f"{taken} of {replicas} replicas in use" in gpu.text
    if used and replicas <= 128:
        lengths = re.findall(r"h(\d+)", used[0].attributes["d"])
        assert sum(map(int, lengths)) == taken


def test_replica_numbers_that_do_not_exist_are_not_drawn():
    def hold(devices):
        return {device: [Holder("ns", "pod", "main", (0, 1, 3, 99))] for device in devices}

    strip = by_id(page_of(a_status("l40s", replicas=4, holders=hold)), "gpu-0").find("svg")[0]
    assert strip.find("path", class_="u")[0].attributes["d"] == "M0 0h2M3 0h1"


def test_holders_of_replicas_are_listed_by_namespace_and_container():
    def hold(devices):
        return {
            device: [
                Holder("ml", "a", "main", (0,)),
                Holder("ml", "b", "main", (1, 2)),
                Holder("ci", "c", "test", (3,)),
            ]
            for device in devices
        }

    text = by_id(page_of(a_status("l40s", replicas=8, holders=hold)), "gpu-0").text
    assert "3 containers on GPU 0 Namespace ml , container main : pods and their replicas" in text
    assert "a 0 b 1, 2 Namespace ci , container test : pods and their replicas c 3" in text


def test_use_that_nobody_tells_is_not_called_free():
    page = page_of(a_status(replicas=4))
    assert "4 replicas, use not known" in by_id(page, "gpu-0").text
    resources = by_id(page, "resources").text
    assert "nvidia.com/gpu not known 32 32 time-slicing ✓ registered, 1 stream" in resources
    assert "not asked who holds what" in resources


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        (Pods(asked=True), "The kubelet has not yet told who holds what."),
        (Pods(asked=True, time=NOW - 3), "The kubelet told who holds what 3 s ago."),
        (Pods(asked=True, problem="no"), "The kubelet does not tell who holds what: no."),
        (Pods(asked=True, problem="no", time=NOW - 60), "What is shown it has told 1 min ago."),
    ],
)
def test_how_it_is_known_who_holds_what(pods, text):
    assert text in by_id(page_of(replace(a_status(), pods=pods)), "resources").text


def test_what_is_held_and_not_offered_any_more_is_listed():
    former = tuple(
        FormerHolding("nvidia.com/gpu", f"GPU-{n}", "", Holder("ml", f"pod-{n}", "main"))
        for n in range(25)
    )
    text = by_id(page_of(replace(a_status(), pods=Pods(True, former=former))), "resources").text
    assert "nvidia.com/gpu GPU-0 ml/ pod-0 · main" in text
    assert "and 5 more" in text


def test_a_resource_that_is_not_registered_stands_out():
    (resource,) = a_status().resources
    changed = replace(resource, state="waiting for the kubelet", registered=False, single=True)
    text = by_id(page_of(replace(a_status(), resources=(changed,))), "resources").text
    assert "none, one a container ! waiting for the kubelet" in text
    silent = replace(changed, state="")
    assert (
        "! nobody tells"
        in by_id(page_of(replace(a_status(), resources=(silent,))), "resources").text
    )


def test_log_lines_come_newest_first_and_older_ones_on_demand():
    events = by_id(page_of(replace(a_status(), events=everything().events)), "events")
    recent, older = events.find("table")
    assert len(recent.find("tbody")[0].find("tr")) == 8
    assert recent.find("tbody")[0].find("tr")[0].text == "02:16:26 ✕ error b a"
    assert len(older.find("tbody")[0].find("tr")) == 7


def test_settings_tell_where_they_come_from_and_defaults_are_folded():
    configuration = by_id(page_of(a_status(replicas=4)), "configuration")
    changed, defaults = configuration.find("table")
    rows = [row.text for row in changed.find("tbody")[0].find("tr")]
    assert rows == [
        'flags.migStrategy "mixed" MIG_STRATEGY',
        "sharing.timeSlicing.resources[0].replicas 4 /config/config.yaml:9",
    ]
    assert "flags.failOnInitError true" in defaults.text
    assert "File /config/config.yaml Hash" in configuration.text


def test_a_refused_reload_and_warnings_are_shown():
    text = by_id(page_of(everything()), "configuration").text
    assert "Last reload 02:16:17 UTC, 9 s ago, refused: config.yaml:4: no" in text
    assert "! config.yaml:3: unknown key" in text
    assert "Profile timesliced" in text


def test_a_configuration_of_defaults_says_so():
    status = a_status()
    assert status.configuration is not None
    plain = tuple(replace(setting, origin="") for setting in status.configuration.settings)
    bare = replace(status.configuration, settings=plain, file="", hash="", reload=None)
    text = by_id(page_of(replace(status, configuration=bare)), "configuration").text
    assert "File none Nothing is set, all values are defaults." in text


def test_labels_and_mps_daemons_have_their_place():
    page = page_of(everything())
    assert "1 label in /features.d/gfd, 5 s ago" in by_id(page, "labels").text
    assert "nvidia.com/gpu.count 8" in by_id(page, "labels").text
    assert "nvidia.com/gpu ! not ready starting" in by_id(page, "mps").text
    ready = replace(everything(), mps=(MpsStatus("r", True, "4 clients"),))
    assert "r ✓ ready 4 clients" in by_id(page_of(ready), "mps").text


def test_labels_before_the_first_pass_are_none():
    status = replace(a_status(), labelling=Labelling(0, "/features.d/gfd"))
    assert by_id(page_of(status), "labels").text == "Labels 0 labels in /features.d/gfd"


def test_parts_without_content_are_left_out():
    page = page_of(STATUSES["nothing"]())
    assert [each.attributes["id"] for each in page.find("section")] == []
    assert "config-manager works" in page.text


def test_a_node_that_is_not_simulated_and_has_another_platform_says_so():
    text = by_id(page_of(a_status("jetson-orin")), "verdict").text
    assert "Platform tegra" in text
    assert "Simulated node jetson-orin" in text


SNIPPETS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></script><h1>",
    "<!--",
    "]]>",
    "&lt;b&gt; &amp; &#x3c;",
    "`=\u202e\u0000\ud800\n\t",
    "javascript:alert(1)",
    "</td></table></main>",
)
hostile = st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=30))


def rewritten(value: Any, change: Callable[[str], str]) -> Any:
    """The same with all texts changed; empty ones stay empty."""
    if isinstance(value, str):
        return change(value) if value else value
    if isinstance(value, tuple):
        return tuple(rewritten(each, change) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: rewritten(getattr(value, f.name), change) for f in fields(value)}
        return type(value)(**parts)
    return value


def shape(status: NodeStatus) -> list[tuple[str, tuple[str, ...]]]:
    """Elements of the page in their order, each with the names of its attributes."""
    return [(each.name, tuple(each.attributes)) for each in page_of(status).walk()]


@settings(max_examples=60, deadline=None)
@given(hostile, st.sampled_from(["everything", "cube mesh"]))
def test_no_text_whatever_becomes_markup(text, name):
    numbers: dict[str, int] = {}

    def marked(words: str) -> Callable[[str], str]:
        # Texts that were equal stay so, as parts of the page depend on that.
        return lambda old: f"({numbers.setdefault(old, len(numbers))}){words}"

    status = STATUSES[name]()
    plain = shape(rewritten(status, marked("plain")))
    assert shape(rewritten(status, marked(text))) == plain


@pytest.mark.parametrize("text", SNIPPETS[:4])
def test_hostile_names_are_shown_as_they_are(text):
    status = replace(a_status(), node=text, events=(LogEvent(NOW, "info", text, text),))
    page = page_of(status)
    assert text in by_id(page, "node").text
    assert text in by_id(page, "events").text
    assert text in page.find("title")[0].text


def test_the_policy_names_the_script_and_the_style_sheet_by_their_hashes():
    directives = dict(each.split(" ", 1) for each in CONTENT_SECURITY_POLICY.split("; "))
    assert directives["default-src"] == "'none'"
    for name, text in (("script-src", SCRIPT), ("style-src", STYLE)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert directives[name] == f"'sha256-{digest}'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


def test_the_page_is_a_function_of_the_status():
    assert render_page(everything()) == render_page(everything())
