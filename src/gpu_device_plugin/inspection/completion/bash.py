"""Completion in bash (bash(1), Programmable Completion); needs no package beside it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpu_device_plugin.inspection.completion.model import (
    CommandGrammar,
    Source,
    Values,
    identifier,
)

ACTIONS = {Source.FILES: "-f", Source.DIRECTORIES: "-d"}

_BODY = r"""
{name}_words() {{
    # Suggests words; behind a comma another one, where a list is meant.
    local current=$1 words=$2 is_list=$3 before=
    if [[ $is_list && $current == *,* ]]; then
        before=${{current%,*}},
        current=${{current##*,}}
    fi
    COMPREPLY+=( $(compgen -P "$before" -W "$words" -- "$current") )
}}

{name}_paths() {{
    # Suggests files or directories, names with blanks included.
    local line
    while IFS= read -r line; do
        COMPREPLY+=( "$line" )
    done < <(compgen "$2" -- "$1")
    compopt -o filenames 2> /dev/null
}}

{name}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous= path= word number
    local commands= options= arguments= value=
    (( COMP_CWORD > 0 )) && previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    COMPREPLY=()
    # Bash takes --option=value for three words.
    if [[ $current == '=' ]]; then
        current=
    elif [[ $previous == '=' ]] && (( COMP_CWORD > 1 )); then
        previous=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for (( number = 1; number < COMP_CWORD; number++ )); do
        word=${{COMP_WORDS[number]}}
        case "$path $word" in
            {paths}) path="${{path:+$path }}$word" ;;
        esac
    done
    case "$path" in
{tables}
    esac
    case "$path $previous" in
{values}
    esac
    if [[ $value || ${{COMP_WORDS[COMP_CWORD]}} == '=' || ${{COMP_WORDS[COMP_CWORD - 1]}} == '=' ]]; then
        eval "$value"
    elif [[ $current == -* ]]; then
        {name}_words "$current" "$options" ''
    else
        [[ $commands ]] && {name}_words "$current" "$commands" ''
        eval "$arguments"
    fi
}}

complete -F {name} {program}
"""


def bash_script(program: str, grammar: CommandGrammar) -> str:
    """The script, to be read by ``source`` or put into a directory of completions."""
    name = f"_{identifier(program)}"
    paths = [_case(" ".join(["", *command.path]).strip(), command) for command in grammar.all()]
    return f"# Completion of {program} for bash." + _BODY.format(
        name=name,
        program=program,
        paths=" | ".join(path for path in paths if path) or "'none '",
        tables="\n".join(_table(name, command) for command in grammar.all()),
        values="\n".join(_values_of(name, grammar)) or "        *) ;;",
    )


def _case(_path: str, command: CommandGrammar) -> str:
    """Where a command may stand: the path before it, a blank, its name."""
    if not command.path:
        return ""
    return shlex.quote(f"{' '.join(command.path[:-1])} {command.name}")


def _table(name: str, command: CommandGrammar) -> str:
    words = " ".join(sub.name for sub in command.commands)
    options = " ".join(each for option in command.options for each in option.names)
    return (
        f"        {shlex.quote(' '.join(command.path))})\n"
        f"            commands={shlex.quote(words)}\n"
        f"            options={shlex.quote(options)}\n"
        f"            arguments={shlex.quote(_suggest(name, command.arguments))} ;;"
    )


def _values_of(name: str, grammar: CommandGrammar) -> Iterator[str]:
    """A case for each option that takes a value; one that may go without needs ``=`` before it."""
    for command in grammar.all():
        for option in command.options:
            if option.values is None:
                continue
            patterns = (f"{' '.join(command.path)} {each}" for each in option.names)
            case = " | ".join(map(shlex.quote, patterns))
            text = shlex.quote(_suggest(name, option.values) or ":")
            if option.needs_equals:
                yield f"        {case}) [[ ${{COMP_WORDS[*]:COMP_CWORD-1}} == *=* ]] && value={text} ;;"
            else:
                yield f"        {case}) value={text} ;;"


def _suggest(name: str, values: Values) -> str:
    """The statements that suggest values."""
    parts = []
    if values.words:
        is_list = "1" if values.is_list else "''"
        parts.append(f'{name}_words "$current" {shlex.quote(" ".join(values.words))} {is_list}')
    if values.source in ACTIONS:
        parts.append(f'{name}_paths "$current" {ACTIONS[values.source]}')
    return "; ".join(parts)
