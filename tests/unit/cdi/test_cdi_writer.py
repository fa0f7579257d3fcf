from __future__ import annotations

import errno
import json
import os
import resource
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from gpu_device_plugin.cdi.generate import ClassResult, GeneratedSpecs
from gpu_device_plugin.cdi.model import ContainerEdits, Device, DeviceNode, Spec
from gpu_device_plugin.cdi.names import VENDOR, CdiClass
from gpu_device_plugin.cdi.reader import parse_spec
from gpu_device_plugin.cdi.writer import Action, file_name, write_spec, write_specs
from gpu_device_plugin.errors import ConfigError, UnwritableError

GPU_FILE = "k8s.device-plugin.nvidia.com-gpu.json"
GDS_FILE = "k8s.device-plugin.nvidia.com-gds.json"


def spec_of(cls: CdiClass = CdiClass.GPU, name: str = "a", path: str = "/dev/x") -> Spec:
    edits = ContainerEdits(device_nodes=(DeviceNode(path),))
    return Spec("0.3.0", f"{VENDOR}/{cls}", (Device(name, edits),))


def outcome(*results: ClassResult) -> GeneratedSpecs:
    return GeneratedSpecs(VENDOR, results)


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    return tmp_path / "run" / "cdi"


def test_the_directory_is_made_and_everybody_may_read(cdi: Path) -> None:
    old = os.umask(0o077)
    try:
        done = write_specs(outcome(ClassResult(CdiClass.GPU, spec_of())), str(cdi))
    finally:
        os.umask(old)

    assert [(o.path.name, o.action, o.reason) for o in done] == [(GPU_FILE, Action.WRITTEN, "")]
    assert stat.S_IMODE((cdi / GPU_FILE).stat().st_mode) == 0o644
    assert parse_spec((cdi / GPU_FILE).read_bytes(), GPU_FILE) == spec_of()
    assert [p.name for p in cdi.iterdir()] == [GPU_FILE]


def test_an_old_file_is_replaced_not_written_to(cdi: Path, tmp_path: Path) -> None:
    cdi.mkdir(parents=True)
    (tmp_path / "other").write_text("other")
    (cdi / GPU_FILE).symlink_to(tmp_path / "other")

    write_specs(outcome(ClassResult(CdiClass.GPU, spec_of())), str(cdi))

    assert (tmp_path / "other").read_text() == "other"
    assert not (cdi / GPU_FILE).is_symlink()


def test_a_reader_with_the_old_file_keeps_it(cdi: Path) -> None:
    write_specs(outcome(ClassResult(CdiClass.GPU, spec_of())), str(cdi))
    with (cdi / GPU_FILE).open() as old:
        write_specs(outcome(ClassResult(CdiClass.GPU, spec_of(name="b"))), str(cdi))

        assert json.load(old)["devices"][0]["name"] == "a"
    assert parse_spec((cdi / GPU_FILE).read_bytes(), GPU_FILE).devices[0].name == "b"


def test_stale_files_are_removed_with_the_reason(cdi: Path) -> None:
    cdi.mkdir(parents=True)
    for name in (GPU_FILE, GDS_FILE, file_name(f"{VENDOR}/mofed"), "nvidia.com-gpu.json", "x.tmp"):
        (cdi / name).write_text("{}")

    done = write_specs(
        outcome(
            ClassResult(CdiClass.GPU, spec_of()),
            ClassResult(CdiClass.GDS, None, "no nodes"),
            ClassResult(CdiClass.GDRCOPY, None, "no nodes either"),
        ),
        str(cdi),
    )

    assert {(o.path.name, o.action, o.reason) for o in done} == {
        (GPU_FILE, Action.WRITTEN, ""),
        (GDS_FILE, Action.REMOVED, "no nodes"),
        (file_name(f"{VENDOR}/mofed"), Action.REMOVED, "no longer asked for"),
    }
    assert sorted(p.name for p in cdi.iterdir()) == [GPU_FILE, "nvidia.com-gpu.json", "x.tmp"]


def test_what_cannot_be_removed_is_told(cdi: Path) -> None:
    (cdi / GDS_FILE).mkdir(parents=True)

    done = write_specs(outcome(ClassResult(CdiClass.GDS, None, "no nodes")), str(cdi))

    assert [o.action for o in done] == [Action.LEFT]
    assert done[0].reason.startswith("no nodes; cannot be removed: ")


def test_no_directory_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"file/cdi: cannot be made: "):
        write_specs(outcome(), str(tmp_path / "file" / "cdi"))


def test_a_file_that_cannot_be_replaced_leaves_no_litter(cdi: Path) -> None:
    (cdi / GPU_FILE).mkdir(parents=True)

    with pytest.raises(ConfigError, match=rf"{GPU_FILE}: cannot be written: "):
        write_spec(spec_of(), cdi)
    assert [p.name for p in cdi.iterdir()] == [GPU_FILE]


@pytest.mark.parametrize("call", ["open", "replace"])
def test_a_full_disk_is_told_as_what_may_pass_and_leaves_the_old_file(
    cdi: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    cdi.mkdir(parents=True)
    write_spec(spec_of(), cdi)
    before = (cdi / GPU_FILE).read_text()

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(UnwritableError, match=rf"{GPU_FILE}: cannot be written: No space"):
            write_spec(spec_of(name="b"), cdi)
    assert [p.name for p in cdi.iterdir()] == [GPU_FILE]
    assert (cdi / GPU_FILE).read_text() == before


def test_whether_files_can_be_written_again_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cdi"

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", refuse)
        with pytest.raises(UnwritableError, match="cannot be made: Read-only") as caught:
            write_specs(outcome(ClassResult(CdiClass.GPU, spec_of())), str(folder))
        assert not caught.value.is_over()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        assert not caught.value.is_over()
    assert caught.value.is_over()
    assert list(folder.iterdir()) == []


def test_a_limit_of_open_files_is_told_as_what_may_pass(cdi: Path) -> None:
    cdi.mkdir(parents=True)
    free = os.dup(0)
    os.close(free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        with pytest.raises(UnwritableError, match=r"written: Too many open files \(raise") as told:
            write_spec(spec_of(), cdi)
        is_over = told.value.is_over()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not is_over
    assert told.value.is_over()


def test_nothing_invalid_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="device name 'a/b'"):
        write_spec(spec_of(name="a/b"), tmp_path)
    with pytest.raises(ConfigError, match="cannot be written: 'utf-8' codec"):
        write_spec(spec_of(path=os.fsdecode(b"/dev/\xff")), tmp_path)
    assert list(tmp_path.iterdir()) == []
