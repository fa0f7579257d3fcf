"""Completion in zsh (zshcompsys(1)): a function for each command, around ``_arguments``."""

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

ACTIONS = {Source.FILES: "_files", Source.DIRECTORIES: "_files -/", Source.NOTHING: ""}


def zsh_script(program: str, grammar: CommandGrammar) -> str:
    """The script, to be read by ``source``, or as ``_PROGRAM`` in a directory of ``fpath``."""
    name = f"_{identifier(program)}"
    parts = [f"#compdef {program}", f"# Completion of {program} for zsh."]
    parts.append(f'{name}_words_or_files() {{\n    compadd "$@"\n    _files\n}}')
    parts += [_function(name, command) for command in grammar.all()]
    parts.append(
        f'if [[ ${{funcstack[1]}} == "{name}" ]]; then\n'
        f'    {name} "$@"\n'
        "elif (( ${+functions[compdef]} )); then\n"
        f"    compdef {name} {program}\n"
        "fi"
    )
    return "\n\n".join(parts) + "\n"


def _name(base: str, command: CommandGrammar) -> str:
    return "_".join([base, *map(identifier, command.path)])


def _function(base: str, command: CommandGrammar) -> str:
    specs = [spec for option in command.options for spec in _specs(base, option)]
    if not command.commands:
        action = _action(base, command.arguments)
        if action:
            # With an empty action nothing would be completed, options included.
            specs.append(_quote(f"*:{_escape(command.arguments.name)}:{action}"))
        lines = ["_arguments -s -S \\", *_joined(specs)] if specs else [":"]
    else:
        specs += ["'1: :->command'", "'*:: :->rest'"]
        lines = [
            "local curcontext=$curcontext state line",
            "typeset -A opt_args",
            "_arguments -C -s \\",
            *_joined(specs),
            *_choice(base, command),
        ]
    body = "\n".join(f"    {line}" for line in lines)
    return f"{_name(base, command)}() {{\n{body}\n}}"


def _joined(specs: list[str]) -> Iterator[str]:
    for number, spec in enumerate(specs, 1):
        yield f"    {spec}" + (" \\" if number < len(specs) else "")


def _choice(base: str, command: CommandGrammar) -> Iterator[str]:
    yield "case $state in"
    yield "    command)"
    yield "        local -a commands=("
    for sub in command.commands:
        yield f"            {_quote(f'{sub.name}:{plain_help(sub.summary)}')}"
    yield "        )"
    yield "        _describe -t commands command commands ;;"
    yield "    rest)"
    yield "        case $words[1] in"
    for sub in command.commands:
        yield f"            {sub.name}) {_name(base, sub)} ;;"
    yield "        esac ;;"
    yield "esac"


def _specs(base: str, option: OptionGrammar) -> Iterator[str]:
    """A specification for each name; options may be repeated."""
    for name in option.names:
        text = f"[{_escape(plain_help(option.help))}]"
        if option.values is None:
            yield _quote(f"*{name}{text}")
            continue
        sign = "=-" if option.needs_equals else "=" if name.startswith("--") else "+"
        action = _action(base, option.values)
        optional = "::" if option.needs_equals else ":"
        yield _quote(f"*{name}{sign}{text}{optional}{_escape(option.values.name)}:{action}")


def _action(base: str, values: Values) -> str:
    words = " ".join(map(_escape, values.words))
    if values.words and values.is_list:
        return f"_values -s , {_escape(values.name)} {words}"
    if values.words and values.source is not Source.NOTHING:
        return f"{base}_words_or_files {words}"
    return f"({words})" if values.words else ACTIONS[values.source]


def _escape(text: str) -> str:
    """A text in a specification, where brackets and colons end its parts."""
    for char in "\\[]:":
        text = text.replace(char, "\\" + char)
    return text


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
