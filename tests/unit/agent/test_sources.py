"""Where a configuration comes from."""

from __future__ import annotations

import pytest

from gpu_device_plugin.agent.sources import LabelledFile, SingleFile
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.watch.node_label import NodeLabel
from gpu_device_plugin.watch.profiles import Profile, ProfileRules


def test_a_single_file_is_the_only_choice() -> None:
    source = SingleFile("/etc/gpu/config.yaml")
    assert source.choose() == source.choose_otherwise() == Profile("", "/etc/gpu/config.yaml")
    assert source.directory == "/etc/gpu"
    assert not source.has_others


def test_without_a_file_there_is_nothing_to_watch() -> None:
    assert SingleFile("").directory == ""
    assert SingleFile("").choose() == Profile("", "")


def test_a_label_chooses_as_soon_as_it_is_known(tmp_path) -> None:
    for name in ("default", "a"):
        (tmp_path / name).touch()
    label = NodeLabel("config", lambda: None)
    source = LabelledFile(ProfileRules(str(tmp_path), "config", fallbacks=("named",)), label)
    assert source.directory == str(tmp_path)
    assert source.has_others
    assert source.choose().name == "default"
    label.value = "a"
    assert source.choose().name == "a"
    assert source.choose_otherwise().name == "default"
    label.value = ""
    assert source.choose().name == "default"
    label.value = "b"
    with pytest.raises(ConfigError, match="'b'"):
        source.choose()
