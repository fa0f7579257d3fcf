from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from support.aio import run

from gpu_device_plugin.labels.output import (
    REFRESH_PASSES,
    FileOutput,
    OutputError,
    StreamOutput,
    render,
)

LABELS = {"nvidia.com/gpu.count": "8", "nvidia.com/cuda.driver.rev": ""}
TEXT = "nvidia.com/cuda.driver.rev=\nnvidia.com/gpu.count=8\n"


def publish(output: FileOutput, labels: dict[str, str] | None = None) -> bool:
    return run(output.publish(LABELS if labels is None else labels))


def test_lines_are_sorted() -> None:
    assert render(LABELS) == TEXT
    assert render({}) == ""


def test_a_file_is_written_for_everybody_to_read_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    before = os.umask(0o077)
    try:
        assert publish(FileOutput(str(path)))
    finally:
        os.umask(before)

    assert path.read_text() == TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["gfd"]


def test_an_unchanged_file_is_left_alone_but_for_every_tenth_pass(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    output = FileOutput(str(path))
    assert publish(output)
    first = path.stat().st_ino
    for _ in range(REFRESH_PASSES - 1):
        assert not publish(output)
        assert path.stat().st_ino == first
    assert not publish(output)
    assert path.stat().st_ino != first
    assert path.read_text() == TEXT


def overwrite(path: Path) -> None:
    path.write_text("other=1\n")


def grow(path: Path) -> None:
    path.write_text(TEXT + "other=1\n")


def remove(path: Path) -> None:
    path.unlink()


def hide(path: Path) -> None:
    path.chmod(0o600)


def link(path: Path) -> None:
    target = path.parent / "target"
    os.rename(path, target)
    os.symlink(target, path)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("meddle", [overwrite, grow, remove, hide, link, pipe])
def test_a_file_that_somebody_has_changed_is_replaced(
    tmp_path: Path, meddle: Callable[[Path], None]
) -> None:
    path = tmp_path / "gfd"
    output = FileOutput(str(path))
    publish(output)
    meddle(path)

    assert publish(output)
    assert path.read_text() == TEXT
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_new_program_leaves_a_file_that_is_right_alone(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    publish(FileOutput(str(path)))

    assert not publish(FileOutput(str(path)))


def test_a_missing_directory_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "absent/gfd"

    with pytest.raises(OutputError, match=rf"{path}: No such file.*does not exist.*--output-file"):
        publish(FileOutput(str(path)))


def test_a_directory_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "gfd").mkdir()

    with pytest.raises(OutputError, match="a directory is in its place"):
        publish(FileOutput(str(tmp_path / "gfd")))
    assert os.listdir(tmp_path) == ["gfd"]


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EROFS, "read-write"),
        (errno.EACCES, "SELinux"),
        (errno.ENOSPC, "free some space"),
        (errno.EIO, "the disk fails"),
        (errno.ENXIO, "--output-file"),
    ],
)
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_what_the_system_refuses_is_told_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str, call: str
) -> None:
    path = tmp_path / "gfd"
    output = FileOutput(str(path))
    publish(output)

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(OutputError) as caught:
            publish(output, {"other": "1"})

    assert f"labels cannot be written to {path}: {os.strerror(number)}" in str(caught.value)
    assert hint in str(caught.value)
    assert path.read_text() == TEXT
    assert os.listdir(tmp_path) == ["gfd"]


def test_a_file_is_removed_at_the_end_unless_it_is_to_be_kept(tmp_path: Path) -> None:
    for keep in (False, True):
        path = tmp_path / f"gfd-{keep}"
        output = FileOutput(str(path), keep=keep)
        publish(output)
        run(output.withdraw())
        assert path.exists() == keep


def test_a_file_that_has_gone_need_not_be_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run(FileOutput(str(tmp_path / "gfd")).withdraw())

    assert not caplog.records


def test_a_file_that_cannot_be_removed_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gfd").mkdir()
    run(FileOutput(str(tmp_path / "gfd")).withdraw())

    assert "cannot be removed" in caplog.text


def test_a_pass_that_is_still_writing_at_the_end_brings_nothing_back(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    output = FileOutput(str(path))
    publish(output)
    run(output.withdraw())
    publish(output)

    assert not path.exists()


def test_standard_output_gets_labels_when_they_have_changed() -> None:
    stream = io.StringIO()
    output = StreamOutput(stream)

    assert run(output.publish(LABELS))
    assert not run(output.publish(LABELS))
    assert stream.getvalue() == TEXT
    assert run(output.publish({"a": "b"}))
    assert stream.getvalue() == TEXT + "a=b\n"


def test_an_output_that_nobody_reads_any_more_is_told() -> None:
    class Broken(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(OutputError, match="labels cannot be printed: Broken pipe"):
        run(StreamOutput(Broken()).publish(LABELS))


def test_a_file_that_was_never_there_is_no_trouble_on_a_read_only_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a file system refuses before it looks."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "unlink", refuse)
    asyncio.run(FileOutput(str(tmp_path / "gfd")).withdraw())
    assert not caplog.records
