"""What is asked, and what is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """A GET of one of the server's paths."""

    path: str
    query: str = ""
    """What follows the question mark, as it was sent."""
    accept: str = ""
    """The ``Accept`` header."""
    is_trusted: bool = True
    """Whether the client has proved that it may know everything, or need not."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    content_type: str = TEXT
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """On top of those that every answer has, or in their place."""
    may_be_compressed: bool = False

    @classmethod
    def of_text(cls, status: int, text: str, **headers: str) -> Response:
        """A line for people; names of headers have underscores for dashes."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status, TEXT, f"{text}\n".encode(), given)


Handler = Callable[[Request], Response | Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """What answers on a path."""

    handler: Handler
    is_open: bool = False
    """Whether it also answers clients that are not trusted; the handler then says less."""
