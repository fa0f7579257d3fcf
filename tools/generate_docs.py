"""Keeps the tables of docs/configuration.md and docs/config.schema.json current.

    python tools/generate_docs.py --check    # exit code 1 and the names of stale files
    python tools/generate_docs.py --write

Both are made from the tables of options and keys in gpu_device_plugin.config.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generated_page import check_or_write

from gpu_device_plugin.config.durations import format_duration
from gpu_device_plugin.config.flags import dashed
from gpu_device_plugin.config.help import default_text
from gpu_device_plugin.config.jsonschema import config_schema, key_help
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.options import PROGRAMS, Kind, Option, Program, option_for_path
from gpu_device_plugin.config.schema import Key, walk

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "configuration.md"
SCHEMA_FILE = DOCS / "config.schema.json"
EXAMPLES = DOCS / "examples" / "config"
_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<what>[\w/. -]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def main(arguments: list[str]) -> int:
    """Checks or writes; returns the exit code."""
    return check_or_write(wanted(), arguments, __doc__, "tools/generate_docs.py")


def wanted() -> dict[Path, str]:
    """What the files should hold."""
    page = PAGE.read_text(encoding="utf-8")
    return {
        PAGE: _BLOCK.sub(_fill, page),
        SCHEMA_FILE: json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
    }


def _fill(block: re.Match[str]) -> str:
    kind, _, name = block["what"].partition(" ")
    if kind == "options":
        lines = _option_table(Program(name))
    elif kind == "keys":
        lines = _key_table()
    elif kind == "examples":
        lines = _examples()
    else:
        raise ValueError(block["what"])
    return block["begin"] + "\n" + "\n".join(lines) + "\n\n" + block["end"]


def _option_table(program: Program) -> Iterator[str]:
    yield "| Flag | Variable | Default | Key of the file | Meaning |"
    yield "|---|---|---|---|---|"
    for option in PROGRAMS[program].options:
        yield _row(
            "<br>".join(_code(dashed(name)) for name in option.names),
            "<br>".join(_code(name) for name in option.env),
            _code(default_text(option)),
            _code(option.config_path),
            _meaning(option),
        )


def _meaning(option: Option) -> str:
    parts = [option.help]
    if option.kind is not Kind.TEXT or option.allowed:
        allowed = ", ".join(_code(value) for value in option.allowed)
        parts.append(f"_{option.kind.value.capitalize()}{f': {allowed}' if allowed else ''}._")
    if option.since:
        parts.append(f"_Since {option.since}._")
    if option.ours:
        parts.append("_Not in k8s-device-plugin._")
    return " ".join(parts)


def _key_table() -> Iterator[str]:
    yield "| Key | Type | Default | Meaning |"
    yield "|---|---|---|---|"
    for path, key in walk(SCHEMA):
        option = option_for_path(path)
        allowed = key.allowed or (option.allowed if option else ())
        values = f" _One of {', '.join(_code(v) for v in allowed)}._" if allowed else ""
        yield _row(
            _code(path), key.form.value, _key_default(key, option), key_help(key, option) + values
        )


def _key_default(key: Key, option: Option | None) -> str:
    if key.required:
        return "required"
    if option is None:
        return _code(key.default) if key.default in {"false", "true", "v1", "all"} else key.default
    if option.kind is Kind.DURATION and isinstance(option.default, int):
        return _code(format_duration(option.default))
    return _code(default_text(option)) or ("none" if isinstance(option.default, tuple) else "empty")


def _examples() -> Iterator[str]:
    for number, path in enumerate(sorted(EXAMPLES.glob("*.yaml"))):
        if number:
            yield ""
        yield f"[{path.name}](examples/config/{path.name}):"
        yield ""
        yield "```yaml"
        yield from path.read_text(encoding="utf-8").splitlines()
        yield "```"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
