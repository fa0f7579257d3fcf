"""XML elements as text, with everything escaped that has to be."""

from __future__ import annotations

import html
from typing import NewType

from gpu_device_plugin.config.text import one_line

Markup = NewType("Markup", str)
"""Text that is XML already."""

Value = str | int | float


def element(name: str, *children: Markup | str, **attributes: Value) -> Markup:
    """An element, in a line of its own where it holds elements.

    Args:
        name: of the element.
        children: elements; a single text that is no markup goes through `text`.
        attributes: by name, with ``_`` for ``-`` and without one at the end (``class_``).
    """
    words = [name]
    for key, value in attributes.items():
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        words.append(f'{key.rstrip("_").replace("_", "-")}="{escaped(shown)}"')
    head = " ".join(words)
    return Markup(f"<{head}>{''.join(children)}</{name}>" if children else f"<{head}/>")


def escaped(text: str) -> Markup:
    """A text that no markup is made of; what XML cannot hold becomes visible."""
    return Markup(html.escape(one_line(text)))
