"""Devices as runtimes see them, and the files in which they are looked for."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.inspection.samples import KIND, minimal

from gpu_device_plugin.cdi.model import ContainerEdits, Device, DeviceNode, Hook, Mount, Spec
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.catalogue import ReadSpec, State, catalogue
from gpu_device_plugin.inspection.files import (
    SpecFile,
    find_spec_files,
    read_bytes,
    replace_file,
)
from gpu_device_plugin.inspection.listing import list_files, make_listing
from gpu_device_plugin.inspection.targets import find_targets


def read(path: str, priority: int, *names: str) -> ReadSpec:
    edits = ContainerEdits(device_nodes=(DeviceNode("/dev/a"),))
    devices = tuple(Device(name, edits) for name in names)
    common = ContainerEdits(
        device_nodes=(DeviceNode("/dev/b"),),
        mounts=(Mount("/a", "/a"), Mount("/b", "/b")),
        hooks=(Hook("poststop", "/x"),),
    )
    return ReadSpec(SpecFile(path, priority), Spec("0.3.0", KIND, devices, common))


def states(specs: Sequence[ReadSpec]) -> list[tuple[str, str, str]]:
    return [(e.file, e.device, e.state) for e in catalogue(specs)]


def test_what_a_container_gets_is_counted() -> None:
    (entry,) = catalogue([read("/1/a", 0, "x")])

    assert entry.to_dict() == {
        "name": f"{KIND}=x",
        "vendor": "k8s.device-plugin.nvidia.com",
        "class": "gpu",
        "device": "x",
        "file": "/1/a",
        "nodes": 2,
        "mounts": 2,
        "hooks": 1,
        "state": "ok",
        "others": [],
    }


def test_a_later_directory_takes_precedence() -> None:
    assert states([read("/1/a", 0, "x", "y"), read("/2/a", 1, "x")]) == [
        ("/1/a", "x", "shadowed"),
        ("/1/a", "y", "ok"),
        ("/2/a", "x", "ok"),
    ]


def test_two_files_of_one_directory_cancel_each_other_out_for_good() -> None:
    entries = catalogue([read("/1/a", 0, "x"), read("/1/b", 0, "x"), read("/2/a", 1, "x")])

    assert {e.state for e in entries} == {State.CONFLICT}
    assert entries[0].others == ("/1/b", "/2/a")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from("xyz"), unique=True))).map(
        lambda files: sorted(files, key=lambda file: file[0])
    )
)
def test_exactly_the_devices_are_ok_that_the_library_resolves(
    files: list[tuple[int, list[str]]],
) -> None:
    """The oracle follows the description of the library: a map, and a set of conflicts."""
    specs = [read(f"/{p}/{i}", p, *names) for i, (p, names) in enumerate(files)]
    resolved: dict[str, ReadSpec] = {}
    conflicts = set[str]()
    for spec in specs:
        for name in spec.spec.names:
            old = resolved.get(name)
            if old is not None and old.file.priority == spec.file.priority:
                conflicts.add(name)
            else:
                resolved[name] = spec

    entries = catalogue(specs)

    assert {(e.name, e.file) for e in entries if e.state is State.OK} == {
        (name, spec.file.path) for name, spec in resolved.items() if name not in conflicts
    }
    assert {e.name for e in entries if e.state is State.CONFLICT} == conflicts


# ------------------------------------------------------------------ files


def test_files_are_found_in_the_order_in_which_runtimes_read_them(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    for path in (two / "a.json", one / "b.yaml", one / "a.json", one / "c.yml", one / "x.tmp"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (one / "d.json").mkdir()
    (one / "link.json").symlink_to(one / "d.json")

    found = find_spec_files([str(one), str(two), str(one)])

    assert found == [
        SpecFile(f"{one}/a.json", 0),
        SpecFile(f"{one}/b.yaml", 0),
        SpecFile(f"{one}/link.json", 0),
        SpecFile(f"{two}/a.json", 1),
    ]


def test_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for name in ("none", "file"):
        with pytest.raises(ConfigError, match=f"{name}: cannot be read: N"):
            find_spec_files([str(tmp_path / name)])


def test_a_fifo_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")

    listing = make_listing([str(tmp_path)])

    assert listing.entries == ()
    assert listing.problems == (f"{tmp_path}/a.json: cannot be read: not a regular file",)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_device_plugin.inspection.files.MAX_SIZE", 3)
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"1234")

    assert read_bytes(str(tmp_path / "a")) == b"123"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_bytes(str(tmp_path / "b"))


def test_a_file_is_replaced_and_everybody_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.yaml"
    replace_file(str(path), b"1")
    replace_file(str(path), b"2")

    assert path.read_bytes() == b"2"
    assert path.stat().st_mode & 0o777 == 0o644
    (tmp_path / "d").mkdir()
    with pytest.raises(ConfigError, match="d: cannot be written: "):
        replace_file(str(tmp_path / "d"), b"")
    with pytest.raises(ConfigError, match=r"a\.yaml/x: cannot be written: "):
        replace_file(str(path / "x"), b"")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d", "new"]
    assert [p.name for p in path.parent.iterdir()] == ["a.yaml"]


def test_a_listing_is_data_too(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(minimal()))
    (tmp_path / "b.json").write_text("{}")

    listing = make_listing([str(tmp_path)])

    assert [e.name for e in listing.entries] == [f"{KIND}=a"]
    assert [p.startswith(f"CDI specification {tmp_path}/b.json: ") for p in listing.problems] == [
        True
    ]
    assert listing.to_dict()["devices"] == [entry.to_dict() for entry in listing.entries]
    assert list_files([]).to_dict() == {"devices": [], "problems": []}


def test_what_is_to_be_checked_is_checked_once(tmp_path: Path) -> None:
    for name in ("1/a.json", "1/b.yaml", "2/a.json", "2/c.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    one, two = tmp_path / "1", tmp_path / "2"

    targets = find_targets([f"{two}/c.txt", f"{one}/b.yaml", str(two), str(one), f"{two}/none"])

    assert [(t.file.path, t.file.priority, t.is_named) for t in targets] == [
        (f"{two}/c.txt", 0, True),
        (f"{two}/a.json", 0, False),
        (f"{two}/none", 0, True),
        (f"{one}/b.yaml", 1, True),
        (f"{one}/a.json", 1, False),
    ]
