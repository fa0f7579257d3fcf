"""Links that containers expect beside the driver's libraries.

Sources: nvidia-container-toolkit v1.19.1, `internal/discover/symlinks.go`, `graphics.go` and
`ldconfig.go`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from gpu_device_plugin.cdi.elf import ElfError, sonames_of
from gpu_device_plugin.cdi.hooks import LINK_SEPARATOR
from gpu_device_plugin.cdi.match import matches
from gpu_device_plugin.cdi.model import Mount
from gpu_device_plugin.cdi.notes import Notes, reason
from gpu_device_plugin.cdi.paths import base, join, parent
from gpu_device_plugin.cdi.root import Root

# Pattern of a library's name, target (None is the library), link beside it.
_FIXED_LINKS = (
    ("libcuda.so.*.*", "libcuda.so.1", "libcuda.so"),
    ("libGLX_nvidia.so.*.*", None, "libGLX_indirect.so.0"),
    ("libnvidia-opticalflow.so.*.*", "libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so"),
)
_GRAPHICS_LINKS = (
    ("libnvidia-allocator.so.*.*", "../libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"),
    ("libnvidia-vulkan-producer.so.*.*", None, "libnvidia-vulkan-producer.so"),
    ("libglxserver_nvidia.so.*.*", None, "libglxserver_nvidia.so"),
)
_VERSIONED = "*.*.*"


def library_links(root: Root, libraries: Iterable[Mount], notes: Notes) -> list[str]:
    """Links for mounted libraries: fixed ones, and those that the host has for the SONAME."""
    paths = dict.fromkeys(mount.container_path for mount in libraries)
    return as_links((pair for path in paths for pair in _links_of(root, path, notes)), notes)


def graphics_links(paths: Iterable[str], notes: Notes) -> list[str]:
    """Links for graphics libraries and X.Org modules; the host need not have them."""
    return as_links((pair for path in paths for pair in _fixed(_GRAPHICS_LINKS, path)), notes)


def as_links(pairs: Iterable[tuple[str, str]], notes: Notes) -> list[str]:
    """Targets and paths as the hook takes them, each once.

    One that the hook would take apart in another place is left out with a warning.
    """
    links: dict[str, None] = {}
    for target, path in pairs:
        if not target or LINK_SEPARATOR in target or LINK_SEPARATOR in path:
            notes.warn(f"{path}: no link to {target!r} is made, as no hook would understand it")
        else:
            links[f"{target}{LINK_SEPARATOR}{path}"] = None
    return list(links)


def ldcache_folders(libraries: Iterable[Mount]) -> list[str]:
    """Directories in the container of the libraries, in the order in which they come up."""
    folders = (parent(m.container_path) for m in libraries if is_library(base(m.container_path)))
    return list(dict.fromkeys(folders))


def is_library(name: str) -> bool:
    """Whether a file name is that of a shared library, such as ``libx.so.1``."""
    if not matches("lib?*.so*", name):
        return False
    rest = name.rpartition(".so")[2]
    return not rest or rest.startswith(".")


def dot_so(name: str) -> str:
    """A library's name up to ``.so``; empty if it has none."""
    while name and not name.endswith(".so"):
        name = name.rpartition(".")[0]
    return name


def _links_of(root: Root, path: str, notes: Notes) -> Iterator[tuple[str, str]]:
    yield from _fixed(_FIXED_LINKS, path)
    if matches(_VERSIONED, base(path)):
        yield from _soname_links(root, path, notes)


def _fixed(table: tuple[tuple[str, str | None, str], ...], path: str) -> Iterator[tuple[str, str]]:
    directory, name = parent(path), base(path)
    for pattern, target, beside in table:
        if matches(pattern, name):
            yield target or name, join(directory, beside)


def _soname_links(root: Root, path: str, notes: Notes) -> Iterator[tuple[str, str]]:
    directory, name = parent(path), base(path)
    soname = _soname(root, path, notes)
    if soname is None:
        return
    if soname not in {name, ""} and _is_link(root, join(directory, soname)):
        yield name, join(directory, soname)
    target = soname or name
    plain = dot_so(target)
    if plain not in {"", target} and _is_link(root, join(directory, plain)):
        yield target, join(directory, plain)


def _is_link(root: Root, path: str) -> bool:
    info = root.lstat(path)
    return info is not None and stat.S_ISLNK(info.st_mode)


def _soname(root: Root, path: str, notes: Notes) -> str | None:
    """The SONAME, the file's name if it has none; None if the file is no good library."""
    try:
        fd = root.open(path)
        try:
            names = sonames_of(fd)
        finally:
            os.close(fd)
    except (OSError, ElfError) as error:
        notes.warn(f"{root.outer(path)}: no links are made for it: {reason(error)}")
        return None
    if len(names) > 1 or any("/" in name for name in names):
        notes.warn(f"{root.outer(path)}: no links are made for it: its SONAME is {names}")
        return None
    return names[0] if names else base(path)
