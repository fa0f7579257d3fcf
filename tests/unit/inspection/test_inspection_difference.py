"""Differences in what specifications do, and their text."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from unit.inspection.samples import KIND, specs

from gpu_device_plugin.cdi.generate import ClassResult, GeneratedSpecs
from gpu_device_plugin.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from gpu_device_plugin.cdi.names import VENDOR, CdiClass
from gpu_device_plugin.cdi.writer import write_specs
from gpu_device_plugin.console.screen import ANSI, PLAIN, colours_for
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.difference import Sign, compare
from gpu_device_plugin.inspection.drift import find_drifts
from gpu_device_plugin.inspection.text import difference_lines

LINKS = ("--link", "a::b", "--link", "c::d")
HOOK = Hook("createContainer", "/usr/bin/nvidia-ctk", ("nvidia-ctk", "hook", "x", *LINKS), ("D=1",))
BEFORE = Spec(
    "0.5.0",
    KIND,
    (
        Device("a", ContainerEdits(device_nodes=(DeviceNode("/dev/a", major=1), DeviceNode("/b")))),
        Device("gone", ContainerEdits(env=("A=b c",))),
    ),
    ContainerEdits(hooks=(HOOK,), mounts=(Mount("/h", "/c", ("ro", "a,b")),)),
)
AFTER = Spec(
    "0.7.0",
    KIND,
    (
        Device(
            "a",
            ContainerEdits(
                device_nodes=(
                    DeviceNode("/b"),
                    DeviceNode("/dev/a", "/h", "c", 1, 2, 0o660, "rw", 0, 44),
                ),
                additional_gids=(44,),
            ),
            {"coherent": "true"},
        ),
        Device("new one", ContainerEdits(net_devices=(NetDevice("eth0", "eth1"),))),
    ),
    ContainerEdits(
        hooks=(replace(HOOK, args=(*HOOK.args[:5], "--link", "e::f"), timeout=3),),
        mounts=(Mount("/h", "/c", ("ro",), "bind"),),
        intel_rdt=IntelRdt("x"),
    ),
)
EXPECTED = """\
--- a.json
+++ now
@@ specification @@
-cdiVersion 0.5.0
+cdiVersion 0.7.0
@@ every device @@
 hook createContainer /usr/bin/nvidia-ctk nvidia-ctk
-  --link c::d
+  --link e::f
+  timeout 3
-mount /c from /h [ro,"a,b"]
+mount /c from /h type bind [ro]
+intelRdt {"closID": "x"}
@@ device "new one": to be added @@
+netDevice eth0 as eth1
@@ device a @@
+annotation coherent=true
-node /dev/a 1:0
+node /dev/a from /h type c 1:2 mode 0660 access rw uid 0 gid 44
+group 44
@@ device gone: to be removed @@
-env "A=b c"
"""


def text(before: Spec | None, after: Spec | None) -> str:
    lines = difference_lines("a.json", "now", compare(before, after), PLAIN)
    return "".join(f"{line}\n" for line in lines)


def test_a_difference_is_unified() -> None:
    assert text(BEFORE, AFTER) == EXPECTED


def test_order_counts_where_it_has_a_meaning() -> None:
    other = Hook("poststop", "/y")
    turned = replace(BEFORE, edits=replace(BEFORE.edits, hooks=(other, HOOK)))
    straight = replace(BEFORE, edits=replace(BEFORE.edits, hooks=(HOOK, other)))

    assert compare(turned, straight)
    assert not compare(BEFORE, replace(BEFORE, devices=BEFORE.devices[::-1]))


def canonical(spec: Spec) -> object:
    def edits(given: ContainerEdits) -> ContainerEdits:
        return replace(
            given,
            device_nodes=tuple(sorted(given.device_nodes, key=repr)),
            mounts=tuple(sorted(given.mounts, key=repr)),
            additional_gids=tuple(sorted(given.additional_gids)),
        )

    devices = {d.name: (dict(d.annotations), edits(d.edits)) for d in spec.devices}
    return spec.version, spec.kind, dict(spec.annotations), devices, edits(spec.edits)


@settings(max_examples=40, deadline=None)
@given(specs(), specs())
def test_there_is_a_difference_exactly_if_something_differs(one: Spec, two: Spec) -> None:
    assert compare(one, one) == ()
    assert bool(compare(one, two)) == (canonical(one) != canonical(two))


@settings(max_examples=40, deadline=None)
@given(specs(), specs())
def test_a_difference_turns_one_into_the_other(one: Spec, two: Spec) -> None:
    changes = [change for hunk in compare(one, two) for change in hunk.changes]
    whole = [Counter(c.text for h in compare(None, s) for c in h.changes) for s in (one, two)]
    removed, added = (
        Counter(c.text for c in changes if c.sign is s) for s in (Sign.BEFORE, Sign.AFTER)
    )

    assert whole[0] + added == whole[1] + removed


# ------------------------------------------------------------------ files


def generated(*specs: Spec | None, reason: str = "no nodes") -> GeneratedSpecs:
    classes = (CdiClass.GPU, CdiClass.GDS)
    results = (
        ClassResult(cls, spec, "" if spec else reason)
        for cls, spec in zip(classes, specs, strict=False)
    )
    return GeneratedSpecs(VENDOR, tuple(results))


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    write_specs(generated(BEFORE), str(tmp_path))
    return tmp_path


def test_what_was_written_does_not_differ(cdi: Path) -> None:
    assert find_drifts(generated(BEFORE, None), str(cdi)) == ()


def test_files_that_would_change_come_or_go(cdi: Path) -> None:
    gds = replace(BEFORE, kind=f"{VENDOR}/gds")
    gpu_file, gds_file = (f"{cdi}/{VENDOR}-{name}.json" for name in ("gpu", "gds"))

    changed, added = find_drifts(generated(AFTER, gds), str(cdi))
    (removed,) = find_drifts(generated(None), str(cdi))
    (unwanted,) = find_drifts(generated(), str(cdi))

    assert (changed.before, changed.after) == (gpu_file, "what the plugin would write")
    assert (added.before, added.after) == (
        f"{gds_file}: not there",
        "what the plugin would write",
    )
    assert (removed.before, removed.after) == (gpu_file, "nothing: no nodes")
    assert unwanted.after == "nothing: no longer asked for"
    assert all(c.sign is Sign.BEFORE for hunk in removed.hunks for c in hunk.changes)
    assert all(c.sign is Sign.AFTER for hunk in added.hunks for c in hunk.changes)


def test_a_file_that_is_no_specification_differs(cdi: Path) -> None:
    path = cdi / f"{VENDOR}-gpu.json"
    path.write_text("{}")

    (drift,) = find_drifts(generated(BEFORE), str(cdi))
    (stale,) = find_drifts(generated(), str(cdi))

    assert drift.problem.startswith(f"CDI specification {path}: ")
    assert all(c.sign is Sign.AFTER for hunk in drift.hunks for c in hunk.changes)
    assert stale.problem == drift.problem
    assert stale.hunks == ()


def test_nothing_is_told_of_a_file_that_cannot_be_read(cdi: Path) -> None:
    path = cdi / f"{VENDOR}-gpu.json"
    path.unlink()
    path.mkdir()

    with pytest.raises(ConfigError, match=r"-gpu\.json: cannot be read: Is a directory"):
        find_drifts(generated(BEFORE), str(cdi))
    (cdi / "x").touch()
    with pytest.raises(ConfigError, match=r"x/.*: cannot be read: Not a directory"):
        find_drifts(generated(BEFORE), str(cdi / "x"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_whose_users_want_them() -> None:
    assert colours_for(Terminal(), {"TERM": "xterm"}) is ANSI
    assert colours_for(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}) is PLAIN
    assert colours_for(Terminal(), {"TERM": "dumb"}) is PLAIN
    assert colours_for(Terminal(), {}) is PLAIN
    assert colours_for(io.StringIO(), {"TERM": "xterm"}) is PLAIN
