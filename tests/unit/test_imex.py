"""IMEX channels that this node has."""

from __future__ import annotations

import logging
import os

import pytest

from gpu_device_plugin import imex
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.imex import ImexChannel, find_channels


@pytest.fixture
def devices(tmp_path, monkeypatch):
    """A directory of channels in which links to /dev/null stand for character devices."""
    monkeypatch.setattr(imex, "CHANNEL_DIRECTORY", "/dev/imex-of-a-test")
    directory = tmp_path / "dev/imex-of-a-test"
    directory.mkdir(parents=True)
    return directory


def test_a_channel_is_found_below_the_dev_root(tmp_path, devices):
    os.symlink("/dev/null", devices / "channel0")

    got = find_channels([0], str(tmp_path), required=True)

    path = "/dev/imex-of-a-test/channel0"
    assert got == (ImexChannel("0", path, str(tmp_path) + path),)


def test_no_channels_are_none(tmp_path):
    assert find_channels([], str(tmp_path), required=True) == ()


@pytest.mark.usefixtures("devices")
def test_a_missing_channel_is_left_out_with_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert find_channels([0], str(tmp_path), required=False) == ()

    assert f"{tmp_path}/dev/imex-of-a-test/channel0: No such file" in caplog.text


def test_what_is_no_device_is_named_where_it_is_required(tmp_path, devices):
    (devices / "channel0").write_text("x")

    with pytest.raises(ConfigError, match=r"channel0 is no character device.*--imex-required"):
        find_channels([0], str(tmp_path), required=True)
