"""Data as commands print it for other programs."""

from __future__ import annotations

import json
from typing import Any

DATA_FORMS = ("json", "yaml")


def data_text(data: dict[str, Any], form: str, *, indent: int | None = 2) -> str:
    """The text of a file.

    Args:
        data: of mappings, lists and scalars.
        form: one of `DATA_FORMS`.
        indent: of the lines of JSON; None for a single line.
    """
    if form == "json":
        return json.dumps(data, indent=indent, ensure_ascii=False) + "\n"
    import yaml  # noqa: PLC0415 - for this form only

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text
