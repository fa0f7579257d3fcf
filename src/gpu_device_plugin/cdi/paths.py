"""Absolute slash-separated paths as plain text, with the rules of Go's `path/filepath`."""

from __future__ import annotations


def clean(path: str) -> str:
    """An absolute path without empty, ``.`` and ``..`` parts; an empty path is ``/``."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def join(*parts: str) -> str:
    """The parts below one another, cleaned; an absolute part does not start anew."""
    return clean("/".join(parts))


def parent(path: str) -> str:
    """The directory of a cleaned path; of ``/`` it is ``/``."""
    return path.rpartition("/")[0] or "/"


def base(path: str) -> str:
    """The last part of a cleaned path; empty for ``/``."""
    return path.rpartition("/")[2]


def depth(path: str) -> int:
    """How many slashes the cleaned path has."""
    return clean(path).count("/")


def below(path: str, root: str) -> str | None:
    """The rest of a path that is `root` or lies in it, starting with a slash, else None.

    Both are cleaned paths.
    """
    if root == "/":
        return path
    if path == root:
        return "/"
    return path.removeprefix(root) if path.startswith(root + "/") else None
