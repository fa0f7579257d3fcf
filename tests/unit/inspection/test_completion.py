from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.option import Program
from gpu_device_plugin.config.options import PROGRAMS
from gpu_device_plugin.inspection.completion.model import (
    LONGEST_HELP,
    CommandGrammar,
    OptionGrammar,
    Source,
    Values,
    plain_help,
)
from gpu_device_plugin.programs.commands.completion import (
    SCRIPTS,
    of_parser,
    of_program,
    script,
)
from gpu_device_plugin.programs.commands.options import PROGRAM_NAMES
from gpu_device_plugin.programs.commands.table import COMMANDS
from gpu_device_plugin.programs.gpu_node import make_parser


def by_path(grammar: CommandGrammar) -> dict[tuple[str, ...], CommandGrammar]:
    return {command.path: command for command in grammar.all()}


def option(command: CommandGrammar, name: str) -> OptionGrammar:
    return next(each for each in command.options if name in each.names)


class TestGrammar:
    def test_every_command_is_there(self) -> None:
        found = by_path(of_parser(make_parser()))

        assert {(command.name,) for command in COMMANDS} <= set(found)
        assert ("cdi", "validate") in found
        assert {found[command.name,].summary for command in COMMANDS} == {
            command.summary for command in COMMANDS
        }

    @pytest.mark.parametrize(
        ("path", "name", "values"),
        [
            (("doctor",), "-o", Values(("table", "json", "yaml"), name="FORMAT")),
            (("doctor",), "--host-root", Values((), Source.DIRECTORIES, name="DIR")),
            (("doctor",), "--kubeconfig", Values((), Source.FILES, name="FILE")),
            (("doctor",), "--kubelet-socket", Values((), Source.FILES, name="SOCKET")),
            (
                ("doctor",),
                "--mig-strategy",
                Values(("none", "single", "mixed"), name="STRATEGY"),
            ),
            (("cdi", "diff"), "--mps-root", Values((), Source.DIRECTORIES, name="DIR")),
            (("doctor",), "--pass-device-specs", Values(("true", "false"), name="BOOL")),
        ],
    )
    def test_values_are_known(self, path: tuple[str, ...], name: str, values: Values) -> None:
        assert option(by_path(of_parser(make_parser()))[path], name).values == values

    def test_lists_profiles_and_switches_are_known(self) -> None:
        found = by_path(of_parser(make_parser()))
        only = option(found["doctor",], "--only").values
        simulate = option(found["doctor",], "--simulate").values

        assert only is not None
        assert only.is_list
        assert {"nvml", "clock", "system"} <= set(only.words)
        assert simulate is not None
        assert "dgx-a100" in simulate.words
        assert simulate.source is Source.FILES
        assert found["simulate",].arguments == simulate
        assert option(found["doctor",], "--verbose").values is None
        assert option(found["doctor",], "--pass-device-specs").needs_equals
        assert not option(found["doctor",], "-o").needs_equals

    @pytest.mark.parametrize("program", Program)
    def test_programs_have_all_their_options(self, program: Program) -> None:
        grammar = of_program(program)
        names = {name for each in grammar.options for name in each.names}

        for each in PROGRAMS[program].options:
            assert {f"--{name}" if len(name) > 1 else f"-{name}" for name in each.names} <= names
        assert [c.name for c in grammar.commands] == [c.name for c in PROGRAMS[program].commands]

    def test_the_agent_has_the_options_of_its_table(self) -> None:
        agent = by_path(of_parser(make_parser()))["agent",]

        assert option(agent, "--mig-strategy").values is not None

    def test_a_parser_of_any_kind_is_read(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("hidden", nargs="?", help=argparse.SUPPRESS)
        parser.add_argument("--pair", nargs=2, metavar=("A", "B"), help="50%% of it")

        grammar = of_parser(parser)

        assert option(grammar, "--pair").help == "50% of it"
        assert option(grammar, "--pair").values == Values(name="PAIR")
        assert grammar.arguments == Values()


@pytest.mark.parametrize("shell", SCRIPTS)
@pytest.mark.parametrize("program", ["gpu-node", *PROGRAM_NAMES])
def test_every_option_is_in_every_script(shell: str, program: str) -> None:
    parser = make_parser()
    text = script(shell, program, parser)
    grammar = of_parser(parser) if program == "gpu-node" else of_program(Program(program))

    for command in grammar.all():
        for each in command.options:
            for name in each.names:
                assert (name.lstrip("-") if shell == "fish" else name) in text


@pytest.mark.parametrize("shell", SCRIPTS)
def test_places_of_every_kind_make_a_script(shell: str) -> None:
    grammar = CommandGrammar(
        (),
        options=(
            OptionGrammar(("-x", "-long"), "it's [odd]: \\", Values(source=Source.DIRECTORIES)),
            OptionGrammar(("--y",), "", Values(("a",), Source.FILES, name="Y")),
            OptionGrammar(("--z",), "", Values(("a", "b"), Source.DIRECTORIES)),
        ),
        arguments=Values(source=Source.DIRECTORIES),
    )
    below = CommandGrammar(("sub",), "sum", (), arguments=Values(("w",), is_list=True))

    for given_grammar in (grammar, CommandGrammar((), commands=(below,))):
        text = SCRIPTS[shell]("my-tool", given_grammar)
        assert "my-tool" in text
        assert "my_tool" in text


@given(st.text(max_size=300))
def test_help_is_one_short_line(text: str) -> None:
    found = plain_help(text)

    assert len(found) <= LONGEST_HELP
    assert "\n" not in found
