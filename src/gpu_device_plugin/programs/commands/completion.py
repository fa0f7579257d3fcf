"""``gpu-node completion``: scripts by which shells complete command lines."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence

from gpu_device_plugin.config.option import Kind, Option, Program
from gpu_device_plugin.config.options import PROGRAMS
from gpu_device_plugin.inspection.completion.bash import bash_script
from gpu_device_plugin.inspection.completion.fish import fish_script
from gpu_device_plugin.inspection.completion.model import (
    CommandGrammar,
    OptionGrammar,
    Source,
    Values,
)
from gpu_device_plugin.inspection.completion.zsh import zsh_script
from gpu_device_plugin.programs.commands.options import PROGRAM_NAMES

TOOL = "gpu-node"
SCRIPTS: Mapping[str, Callable[[str, CommandGrammar], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
AGENT_PATH = ("agent",)
FILE_NAMES = ("FILE", "SOCKET", "PATH")
"""What metavars hold that stand for files."""
BOOLEAN = ("true", "false")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"
    )
    parser.add_argument(
        "--program",
        choices=("gpu-node", *PROGRAM_NAMES),
        metavar="NAME",
        default="gpu-node",
        help="the program whose command line is completed: gpu-node or one of the four others "
        "(default: gpu-node)",
    )


def run_completion(given: argparse.Namespace) -> int:
    """Runs the command; errors are one line each on stderr."""
    from gpu_device_plugin.programs.commands.console import run_command, write_out

    def work() -> int:
        write_out(script(given.shell, given.program, given.make_parser()))
        return 0

    return run_command(work)


def script(shell: str, program: str, parser: argparse.ArgumentParser) -> str:
    """The script of a shell for a program.

    Args:
        shell: one of `SCRIPTS`.
        program: ``gpu-node``, or one of the four others.
        parser: of ``gpu-node`` as a whole.
    """
    grammar = of_parser(parser) if program == TOOL else of_program(Program(program))
    return SCRIPTS[shell](program, grammar)


def of_program(program: Program, path: tuple[str, ...] = ()) -> CommandGrammar:
    """The command line of one of the programs, from their table of options.

    Args:
        program: which one.
        path: the commands that lead to it.
    """
    spec = PROGRAMS[program]
    help_option = _of_option(spec.option("help"))
    commands = tuple(
        CommandGrammar((*path, command.name), command.summary, (help_option,))
        for command in spec.commands
    )
    return CommandGrammar(path, spec.summary, tuple(map(_of_option, spec.options)), commands)


def _of_option(option: Option) -> OptionGrammar:
    names = tuple(f"--{name}" if len(name) > 1 else f"-{name}" for name in option.names)
    if option.kind is Kind.BOOL:
        values = Values(BOOLEAN, name="BOOL")
        takes_none = option.name in {"help", "version"}
        return OptionGrammar(
            names, option.help, None if takes_none else values, needs_equals=not takes_none
        )
    return OptionGrammar(names, option.help, _values(option.metavar, option.allowed))


def of_parser(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> CommandGrammar:
    """The command line of a parser and of those of its commands."""
    commands = list[CommandGrammar]()
    arguments = Values()
    options = list[OptionGrammar]()
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask for them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            commands = [*_of_commands(action, path)]
        elif action.option_strings:
            options.append(_of_action(action, path))
        elif action.help != argparse.SUPPRESS:
            arguments = _values(_metavar(action), _choices(action))
    if path == AGENT_PATH:
        # It parses its command line itself.
        return of_program(Program.AGENT, path)
    if parser.get_default("takes_options_of_plugin"):
        known = {name for option in options for name in option.names}
        table = map(_of_option, PROGRAMS[Program.DEVICE_PLUGIN].options)
        options += [option for option in table if not known & set(option.names)]
    return CommandGrammar(
        path, parser.description or "", tuple(options), tuple(commands), arguments
    )


def _of_commands(action: argparse.Action, path: tuple[str, ...]) -> Iterator[CommandGrammar]:
    parsers: Mapping[str, argparse.ArgumentParser] = action.choices or {}  # type: ignore[assignment] # argparse: choices of sub-commands are their parsers
    summaries = {each.dest: each.help for each in _pseudo_actions(action)}
    for name, parser in parsers.items():
        below = of_parser(parser, (*path, name))
        yield CommandGrammar(
            below.path,
            summaries.get(name) or below.summary,
            below.options,
            below.commands,
            below.arguments,
        )


def _pseudo_actions(action: argparse.Action) -> Sequence[argparse.Action]:
    """One for each command, with its summary."""
    found: Sequence[argparse.Action] = getattr(action, "_choices_actions", ())
    return found


def _of_action(action: argparse.Action, path: tuple[str, ...]) -> OptionGrammar:
    names, text = tuple(action.option_strings), (action.help or "").replace("%%", "%")
    if action.nargs == 0:
        return OptionGrammar(names, text)
    metavar = _metavar(action)
    words = _choices(action) or _extra(path, names) or _of_table(names, metavar)
    if metavar == "BOOL":
        words = BOOLEAN
    return OptionGrammar(names, text, _values(metavar, words), needs_equals=action.nargs == "?")


def _metavar(action: argparse.Action) -> str:
    given = action.metavar
    return given if isinstance(given, str) else action.dest.upper()


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(str(choice) for choice in action.choices or ())


def _of_table(names: Sequence[str], metavar: str) -> tuple[str, ...]:
    """What the table allows for an option that was taken from it."""
    for spec in PROGRAMS.values():
        for option in spec.options:
            if option.metavar == metavar and f"--{option.name}" in names and option.allowed:
                return option.allowed
    return ()


def _extra(path: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """Words that only the command itself knows."""
    if path == ("doctor",) and {"--only", "--skip"} & set(names):
        from gpu_device_plugin.diagnosis.doctor.catalogue import CHECKS
        from gpu_device_plugin.diagnosis.doctor.model import Group

        return tuple(check.name for check in CHECKS) + tuple(group.name.lower() for group in Group)
    return ()


def _values(metavar: str, words: Sequence[str]) -> Values:
    """What may be written, by what the help calls it."""
    name = metavar or "value"
    if metavar == "PROFILE":
        from gpu_device_plugin.hardware.simulated.profile import built_in_names

        return Values(tuple(built_in_names()), Source.FILES, name=name)
    source = Source.NOTHING
    if any(part in metavar for part in FILE_NAMES):
        source = Source.FILES
    elif metavar.startswith("DIR"):
        source = Source.DIRECTORIES
    return Values(tuple(words), source, is_list=metavar.endswith(",..."), name=name)
