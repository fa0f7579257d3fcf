"""What a parser makes of HTML: elements in their order, their attributes, and texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}
OPTIONAL_END = {"tr", "td", "th", "thead", "tbody", "li", "dt", "dd", "p"}


@dataclass
class Element:
    """An element and what is in it."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> list[Element]:
        """All elements in it, in their order."""
        below = [child for child in self.children if isinstance(child, Element)]
        return [each for child in below for each in (child, *child.walk())]

    def find(self, name: str, **attributes: str) -> list[Element]:
        """Elements by name and attributes (``class_`` stands for ``class``)."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [
            each
            for each in self.walk()
            if each.name == name and wanted.items() <= each.attributes.items()
        ]

    @property
    def text(self) -> str:
        """Its text with blanks as a browser shows them."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(f" {part}" for part in parts).split())


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]
        self.problems = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._close_implied(tag)
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.problems.append(f"{tag} has an attribute twice: {names}")
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1].name != tag and self.open[-1].name in OPTIONAL_END:
            self.open.pop()
        if self.open[-1].name == tag:
            self.open.pop()
        else:
            self.problems.append(f"</{tag}> in {self.open[-1].name}")

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"comment {data!r}")

    def _close_implied(self, tag: str) -> None:
        """Ends what HTML ends by itself where this element begins."""
        ended = {
            "tr": {"tr", "td", "th"},
            "td": {"td", "th"},
            "th": {"td", "th"},
            "tbody": {"thead", "tr", "td", "th"},
            "li": {"li"},
            "dt": {"dt", "dd"},
            "dd": {"dt", "dd"},
        }.get(tag, set())
        while self.open[-1].name in ended:
            self.open.pop()


def parse_html(page: bytes) -> Element:
    """The document; fails where elements are not closed in their order."""
    tree = _Tree()
    tree.feed(page.decode())
    tree.close()
    assert not tree.problems, tree.problems
    assert [each.name for each in tree.open] == [""], [each.name for each in tree.open]
    return tree.root
