"""Ways to find files below a root (nvidia-container-toolkit v1.19.1, `pkg/lookup`).

A locator takes a pattern and returns paths below the root: for every search directory in order,
the matches that pass its filter. None found is an empty list.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence

from gpu_device_plugin.cdi import ldcache
from gpu_device_plugin.cdi.match import escape, matching
from gpu_device_plugin.cdi.notes import Notes, reason
from gpu_device_plugin.cdi.paths import base, clean, join, parent
from gpu_device_plugin.cdi.root import MAX_LINKS, Root

Locator = Callable[[str], list[str]]
"""Raises PatternError if the pattern is malformed."""

Accept = Callable[[Root, str], bool]
"""Whether a path is a file of the wanted kind."""

LIBRARY_DIRECTORIES = (
    "/",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu/nvidia/current",
    "/lib/aarch64-linux-gnu/nvidia/current",
)
"""Where driver libraries are looked for, in this order."""

EXECUTABLE_DIRECTORIES = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
"""Where binaries are looked for after the directories of ``PATH``."""

LD_CACHE = "/etc/ld.so.cache"


def is_file(root: Root, path: str) -> bool:
    """It exists with links followed and is no directory; sockets and devices count."""
    info = root.stat(path)
    return info is not None and not stat.S_ISDIR(info.st_mode)


def is_file_by_plain_links(root: Root, path: str) -> bool:
    """It is a file, and no link on the way leads out of a mounted root."""
    found = root.real(path)
    return found is not None and found.plain and is_file(root, path)


def is_directory_by_plain_links(root: Root, path: str) -> bool:
    """It is a directory, and no link on the way leads out of a mounted root."""
    found = root.real(path)
    return found is not None and found.plain and is_directory(root, path)


def is_directory(root: Root, path: str) -> bool:
    """It is a directory with links followed."""
    info = root.stat(path)
    return info is not None and stat.S_ISDIR(info.st_mode)


def is_executable(root: Root, path: str) -> bool:
    """It is a file that anybody may execute."""
    info = root.stat(path)
    return info is not None and not stat.S_ISDIR(info.st_mode) and bool(info.st_mode & 0o111)


def is_char_device(root: Root, path: str) -> bool:
    """It is a character device itself; a link to one does not count."""
    info = root.lstat(path)
    return info is not None and stat.S_ISCHR(info.st_mode)


def search(
    root: Root, directories: Sequence[str], accept: Accept = is_file, count: int = 0
) -> Locator:
    """Finds paths as they are, links not resolved.

    Args:
        root: the tree.
        directories: below the root, searched in this order; repetitions do nothing.
        accept: the filter.
        count: stop after so many; 0 is no limit.
    """
    unique = tuple(dict.fromkeys(escape(clean(d)) for d in directories))

    def locate(pattern: str) -> list[str]:
        found: list[str] = []
        for directory in unique:
            for path in root.glob(join(directory, pattern)):
                if accept(root, path):
                    found.append(path)
                if count and len(found) == count:
                    return found
        return found

    return locate


def resolved(root: Root, locate: Locator) -> Locator:
    """Replaces what another locator finds by the files without links, each once."""

    def real_paths(pattern: str) -> list[str]:
        found = (root.real(path) for path in locate(pattern))
        return list(dict.fromkeys(real.path for real in found if real is not None))

    return real_paths


def char_devices(root: Root) -> Locator:
    """Character devices; patterns are absolute or relative to ``/dev``."""
    return search(root, ("/", "/dev"), is_char_device)


def executables(root: Root, search_path: str) -> Locator:
    """The first binary in the directories of ``PATH``, then in the usual ones."""
    directories = [entry for entry in search_path.split(":") if entry]
    return search(root, (*directories, *EXECUTABLE_DIRECTORIES), is_executable, count=1)


def link_chain(root: Root, path: str) -> list[str]:
    """The path, each link that follows from it, and the file at the end; no path twice."""
    chain = {path: None}
    while len(chain) <= MAX_LINKS:
        target = root.readlink(path)
        if target is None:
            break
        path = clean(target) if target.startswith("/") else join(parent(path), target)
        if path in chain or root.lstat(path) is None:
            break
        chain[path] = None
    return list(chain)


class Libraries:
    """Finds libraries in the usual directories, and only then in the linker's cache."""

    __slots__ = ("_cache", "_in_directories", "_notes", "_root")

    def __init__(self, root: Root, notes: Notes) -> None:
        self._root = root
        self._notes = notes
        self._in_directories = resolved(root, search(root, LIBRARY_DIRECTORIES))
        self._cache: list[tuple[str, str]] | None = None

    def __call__(self, pattern: str) -> list[str]:
        """Real paths of the libraries of that name (a pattern)."""
        return self._in_directories(pattern) or resolved(self._root, self._in_cache)(pattern)

    def _in_cache(self, pattern: str) -> list[str]:
        if self._cache is None:
            self._cache = [(base(path), path) for path in self._read_cache()]
        wanted = set(matching(pattern, (name for name, _ in self._cache)))
        return [path for name, path in self._cache if name in wanted] if wanted else []

    def _read_cache(self) -> list[str]:
        """Every path of the cache with the links that it leads through."""
        try:
            paths = ldcache.parse(self._root.read(LD_CACHE, ldcache.MAX_SIZE))
        except (OSError, ldcache.LdCacheError) as error:
            self._notes.warn(f"{self._root.outer(LD_CACHE)}: not used: {reason(error)}")
            return []
        present = (p for p in map(clean, paths) if self._root.lstat(p) is not None)
        return [step for path in present for step in link_chain(self._root, path)]
