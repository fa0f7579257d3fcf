"""Completion in fish (complete(1) of fish)."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.inspection.completion.model import (
    CommandGrammar,
    OptionGrammar,
    Source,
    Values,
    identifier,
    plain_help,
)

_HEAD = """\
# Completion of {program} for fish.
function {name}_at
    # Whether the commands so far are these, and nothing else.
    set -l path
    set -l known {known}
    for word in (commandline -opc)[2..]
        contains -- (string join -- ' ' $path $word) $known; and set -a path $word
    end
    test "$path" = "$argv"
end

function {name}_list
    # Suggests words; behind a comma another one.
    set -l before (string match -r '^(?:--?[^=]*=)?(.*,)' -- (commandline -ct))[2]
    for word in $argv
        echo "$before$word"
    end
end

complete -c {program} -e
"""


def fish_script(program: str, grammar: CommandGrammar) -> str:
    """The script, to be read by ``source`` or put into a directory of completions."""
    name = f"__{identifier(program)}"
    known = " ".join(_quote(" ".join(c.path)) for c in grammar.all() if c.path)
    lines = [_HEAD.format(program=program, name=name, known=known)]
    for command in grammar.all():
        start = f"complete -c {program} -n {_quote(' '.join([f'{name}_at', *command.path]))}"
        lines += _of_command(name, start, command)
    return "\n".join(lines) + "\n"


def _of_command(name: str, start: str, command: CommandGrammar) -> Iterator[str]:
    for sub in command.commands:
        yield f"{start} -f -a {_quote(sub.name)} -d {_quote(plain_help(sub.summary))}"
    arguments = command.arguments
    if arguments.words:
        yield f"{start} {_suggest(name, arguments)}"
    elif arguments.source is Source.NOTHING:
        yield f"{start} -f"
    elif arguments.source is Source.DIRECTORIES:
        yield f"{start} -x -a '(__fish_complete_directories)'"
    for option in command.options:
        yield _option(name, start, option)


def _option(name: str, start: str, option: OptionGrammar) -> str:
    parts = [start]
    for each in option.names:
        if each.startswith("--"):
            parts.append(f"-l {_quote(each.removeprefix('--'))}")
        elif len(each) == 2:
            parts.append(f"-s {each[1]}")
        else:
            parts.append(f"-o {_quote(each[1:])}")
    parts.append(f"-d {_quote(plain_help(option.help))}")
    if option.values is not None:
        suggested = _suggest(name, option.values)
        # An option whose value may be left out takes it behind "=" only.
        parts.append(suggested.replace("-x ", "-f ") if option.needs_equals else suggested)
    return " ".join(part for part in parts if part)


def _suggest(name: str, values: Values) -> str:
    words = " ".join(values.words)
    if values.words and values.is_list:
        return f"-x -a {_quote(f'({name}_list {words})')}"
    if values.source is Source.FILES:
        return f"-r -F -a {_quote(words)}" if words else "-r -F"
    if values.source is Source.DIRECTORIES:
        return f"-x -a {_quote(f'(__fish_complete_directories) {words}'.strip())}"
    return f"-x -a {_quote(words)}" if words else "-x"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
