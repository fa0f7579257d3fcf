"""HTML as text, in which nothing that comes from outside is ever markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_device_plugin.markup import Markup, escaped

Attribute = str | int


def join(parts: Iterable[Markup]) -> Markup:
    """The parts one after the other."""
    return Markup("".join(parts))


def tag(name: str, *content: Markup, **attributes: Attribute) -> Markup:
    """An element with its end tag.

    Args:
        name: of the element.
        content: what is in it.
        attributes: by name, with ``_`` for ``-`` and without one at the end (``class_``); those
            that are empty are left out.
    """
    return Markup(f"{start_tag(name, **attributes)}{''.join(content)}</{name}>")


def start_tag(name: str, **attributes: Attribute) -> Markup:
    """An element that has no end tag, or the beginning of one; arguments as above."""
    words = [name]
    for key, value in attributes.items():
        if value != "":
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escaped(str(value))}"')
    return Markup(f"<{' '.join(words)}>")


def section(name: str, title: str, *content: Markup, note: Markup | None = None) -> Markup:
    """A part of the page with a heading, which names it; empty without content."""
    if not any(content):
        return Markup("")
    heading = tag("h2", escaped(title), id=f"{name}-title")
    return tag(
        "section",
        heading if note is None else tag("header", heading, note),
        *content,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def table(
    name: str, caption: str, heads: Sequence[str], rows: Iterable[Sequence[Markup]]
) -> Markup:
    """A table whose first column heads its rows; end tags that HTML does not need are left out.

    Args:
        name: its class, which the style sheet knows.
        caption: read out before the table, not shown.
        heads: of the columns.
        rows: their cells; nothing comes of a table without any.
    """
    body = "".join(
        f"<tr><th scope=row>{first}" + "".join(f"<td>{cell}" for cell in cells)
        for first, *cells in rows
    )
    if not body:
        return Markup("")
    titles = "".join(f"<th scope=col>{escaped(head)}" for head in heads)
    return Markup(
        f'<table class="{escaped(name)}"><caption>{escaped(caption)}</caption>'
        f"<thead><tr>{titles}</thead><tbody>{body}</tbody></table>"
    )


def items(parts: Iterable[Markup], class_: str = "") -> Markup:
    """A list; empty without items."""
    lines = join(tag("li", part) for part in parts)
    # Safari reads a list without bullets out as none unless it is told so.
    return tag("ul", lines, class_=class_, role="list") if lines else Markup("")


def details(name: str, summary: Markup, *content: Markup, class_: str = "") -> Markup:
    """Something that is shown on demand; the name keeps it open over updates."""
    return tag("details", tag("summary", summary), *content, id=name, class_=class_)


__all__ = [
    "Markup",
    "details",
    "escaped",
    "items",
    "join",
    "section",
    "start_tag",
    "table",
    "tag",
]
