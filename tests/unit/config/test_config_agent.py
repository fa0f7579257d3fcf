"""The options of gpu-node agent: those of the programs whose work it does."""

from __future__ import annotations

import pytest

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.options_agent import DEFAULTS, WITHOUT
from gpu_device_plugin.config.validate import validate_agent
from gpu_device_plugin.errors import UsageError

AGENT = PROGRAMS[Program.AGENT]
OTHERS = (Program.DEVICE_PLUGIN, Program.GPU_FEATURE_DISCOVERY, Program.CONFIG_MANAGER)
OF_A_LINK = {"config-file-dst", "send-signal", "signal", "process-to-signal", "validate-config"}
"""What only somebody needs who has to tell another process."""


@pytest.mark.parametrize("program", OTHERS)
def test_names_and_variables_of_the_others_are_understood(program: Program) -> None:
    for option in PROGRAMS[program].options:
        if option.name in OF_A_LINK | {"oneshot"}:
            continue
        ours = AGENT.option(option.name)
        assert ours.names == option.names
        assert set(ours.env) >= set(option.env)
        assert ours.kind is option.kind
        assert ours.config_path == option.config_path
        assert ours.default == DEFAULTS.get(option.name, option.default)


def test_there_is_nothing_to_signal_and_nothing_to_do_once() -> None:
    assert not (OF_A_LINK | WITHOUT) & {option.name for option in AGENT.options}


def test_the_variable_of_the_plugin_counts_before_that_of_the_labeller() -> None:
    environ = {"GFD_MIG_STRATEGY": "single", "MIG_STRATEGY": "mixed"}
    assert parse(Program.AGENT, [], environ).text("mig-strategy") == "mixed"
    del environ["MIG_STRATEGY"]
    assert parse(Program.AGENT, [], environ).text("mig-strategy") == "single"


def test_sections_of_plugin_and_labeller_are_both_loaded() -> None:
    parsed = parse(Program.AGENT, ["--device-list-strategy=cdi-cri", "-o", "/x"], {})
    flags = load(parsed).config.flags
    assert flags.plugin.device_list_strategy == ("cdi-cri",)
    assert flags.gfd is not None
    assert flags.gfd.output_file == "/x"


def test_what_has_no_effect_is_warned_of_as_by_the_plugin() -> None:
    parsed = parse(Program.AGENT, ["--device-list-strategy=cdi-cri", "--pass-device-specs"], {})
    assert any("without effect with CDI" in str(warning) for warning in load(parsed).warnings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node-name=n", "--node-label="], "invalid node-label: must not be empty"),
        ([], "invalid node-name: must not be empty"),
        (["--node-name=n", "--fallback-strategies=named,other"], '"other" is not one'),
    ],
)
def test_what_following_a_label_needs(arguments: list[str], message: str) -> None:
    validate_agent(parse(Program.AGENT, arguments, {}))
    followed = parse(Program.AGENT, ["--config-file-srcdir=/d", *arguments], {})
    with pytest.raises(UsageError, match=message):
        validate_agent(followed)


def test_all_that_following_a_label_needs_is_enough() -> None:
    arguments = ["--config-file-srcdir=/d", "--node-name=n", "--fallback-strategies=named,empty"]
    validate_agent(parse(Program.AGENT, arguments, {}))
