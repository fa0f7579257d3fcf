"""Which configuration applies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.watch.profiles import Profile, ProfileError, ProfileRules, read_contents

LABEL = "nvidia.com/device-plugin.config"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "configs"
    made.mkdir()
    for name in ("default", "other", ".hidden"):
        (made / name).touch()
    (made / "directory").mkdir()
    (made / "..data").symlink_to("..2024")
    return made


def rules(directory: Path, default: str = "", *fallbacks: str) -> ProfileRules:
    return ProfileRules(str(directory), LABEL, default, fallbacks)


@pytest.mark.parametrize(
    ("value", "default", "fallbacks", "name"),
    [
        ("other", "", (), "other"),
        ("other", "default", ("named",), "other"),
        (".hidden", "", (), ".hidden"),
        ("", "other", ("named",), "other"),
        ("", "", ("named",), "default"),
        ("", "", ("single", "named"), "default"),
        ("", "", ("single", "empty"), ""),
        ("", "", ("named", "nonsense"), "default"),
    ],
)
def test_label_then_default_then_fallbacks(directory, value, default, fallbacks, name):
    path = f"{directory}/{name}" if name else "/dev/null"
    assert rules(directory, default, *fallbacks).choose(value) == Profile(name, path)


def test_the_only_configuration_is_chosen(tmp_path):
    (tmp_path / "one").touch()
    assert rules(tmp_path, "", "named", "single").choose("").name == "one"


def test_without_a_label_that_can_be_followed_the_same_rules_hold(directory):
    assert rules(directory, "other").choose_without_label().name == "other"


@pytest.mark.parametrize(
    ("value", "default", "fallbacks", "message"),
    [
        (
            "typo",
            "default",
            ("named",),
            f"label {LABEL} of the node names the configuration 'typo'",
        ),
        ("directory", "", (), "names the configuration 'directory', which does not exist"),
        ("..data", "", (), "names the configuration '..data', which does not exist"),
        ("", "nope", ("named",), r"--default-config \(DEFAULT_CONFIG\) names .* 'nope'"),
        ("", "", (), f"the node has no label {LABEL}, there is no default"),
        ("", "", ("single",), r"no fallback strategy \(single\) gives one"),
    ],
)
def test_what_is_missing_is_named_with_what_there_is(directory, value, default, fallbacks, message):
    with pytest.raises(ProfileError, match=message) as error:
        rules(directory, default, *fallbacks).choose(value)
    assert "there are .hidden, default, other" in str(error.value)


def test_an_unknown_strategy_is_an_error_once_it_is_reached(directory):
    with pytest.raises(UsageError, match=r"'wish' is not one .*named, single, empty"):
        rules(directory, "", "single", "wish", "empty").choose("")


def test_an_empty_variable_is_an_unknown_strategy(directory):
    with pytest.raises(UsageError, match="'' is not one"):
        rules(directory, "", "").choose("")


@pytest.mark.parametrize("fallback", ["empty", "named"])
def test_without_any_configuration_nothing_applies(tmp_path, fallback):
    with pytest.raises(ProfileError, match="there are no configurations in"):
        rules(tmp_path, "", fallback).choose("")


def test_a_directory_that_cannot_be_read_is_named_with_its_option(tmp_path):
    with pytest.raises(ProfileError, match=r"absent cannot be read: No such .*CONFIG_FILE_SRCDIR"):
        rules(tmp_path / "absent").choose("a")


def test_contents_are_read_where_they_can_be(tmp_path):
    (tmp_path / "a").write_text("text")
    assert read_contents(str(tmp_path / "a")) == b"text"
    assert read_contents(str(tmp_path / "absent")) is None
    assert read_contents(str(tmp_path)) is None


def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    assert read_contents(pipe) is None

    with open(os.open(pipe, os.O_RDWR), "wb"):
        assert read_contents(pipe) is None
