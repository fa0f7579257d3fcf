"""A configuration is looked at before a node is switched to it."""

from __future__ import annotations

import pytest

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.watch.validation import check_profile

GOOD = (
    "",
    "version: v1\n",
    "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
    "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
    "flags: {plugin: {deviceListStrategy: cdi-cri}}",
)


@pytest.mark.parametrize("text", GOOD)
def test_good_ones_pass(tmp_path, text):
    (tmp_path / "a").write_text(text)
    check_profile(str(tmp_path / "a"))


def test_the_empty_configuration_passes():
    check_profile("/dev/null")


@pytest.mark.parametrize(
    "text",
    [
        "version: v9",
        "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}",
        "\tx: 1",
        "- a list",
    ],
)
def test_bad_ones_give_the_line_that_the_plugin_gives(tmp_path, text):
    path = str(tmp_path / "a")
    (tmp_path / "a").write_text(text)
    with pytest.raises(ConfigError) as refused:
        check_profile(path)
    with pytest.raises(ConfigError) as expected:
        load(parse(Program.DEVICE_PLUGIN, [f"--config-file={path}"], {}))
    assert str(refused.value) == str(expected.value)
    assert "\n" not in str(refused.value)


def test_values_that_the_plugin_does_not_take_are_refused(tmp_path):
    (tmp_path / "a").write_text("flags: {plugin: {deviceIDStrategy: name}}")
    with pytest.raises(
        ConfigError, match=r"a:1: flags.plugin.deviceIDStrategy: .name. is not allowed"
    ):
        check_profile(str(tmp_path / "a"))
