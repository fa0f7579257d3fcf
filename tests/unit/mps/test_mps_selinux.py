"""Pipes are labelled where there is SELinux."""

from __future__ import annotations

import errno
import os

import pytest

from gpu_device_plugin.mps.selinux import ATTRIBUTE, CONTAINER_FILES, label_for_containers


def test_everything_is_labelled(tmp_path, monkeypatch):
    (tmp_path / "pipe/sub").mkdir(parents=True)
    (tmp_path / "pipe/sub/file").touch()
    (tmp_path / "pipe/link").symlink_to("/etc/passwd")
    (tmp_path / "pipe/gone").touch()
    labelled = []

    def set_label(path: str, name: str, value: bytes, *, follow_symlinks: bool) -> None:
        assert (name, value, follow_symlinks) == (ATTRIBUTE, CONTAINER_FILES, False)
        if path.endswith("gone"):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        labelled.append(os.path.relpath(path, tmp_path))

    monkeypatch.setattr(os, "setxattr", set_label)
    label_for_containers(str(tmp_path / "pipe"), str(tmp_path))
    assert sorted(labelled) == ["pipe", "pipe/link", "pipe/sub", "pipe/sub/file"]


def test_a_label_that_cannot_be_set_is_an_error(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(OSError, match="not permitted"):
        label_for_containers(str(tmp_path), str(tmp_path))


def test_without_selinux_nothing_is_labelled(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "setxattr")
    label_for_containers(str(tmp_path), str(tmp_path / "absent"))
