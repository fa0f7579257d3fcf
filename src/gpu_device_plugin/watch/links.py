"""The link to the chosen configuration, replaced in one step."""

from __future__ import annotations

import os
from contextlib import suppress

from gpu_device_plugin.config.files import problem_at


def leads_to(link: str, target: str) -> bool:
    """Whether a path ends up at the very file that a target, as a link there, would end up at."""
    if not is_usable(link):
        return False
    # Between two looks the kubelet may put another directory behind both.
    return _text(link) == target or os.path.realpath(link) == os.path.realpath(
        seen_from(link, target)
    )


def seen_from(link: str, target: str) -> str:
    """Where a link of that text leads; a relative one begins in the directory of the link."""
    return os.path.join(os.path.dirname(link), target)


def is_usable(link: str) -> bool:
    """Whether a path, followed to its end, is there to be read."""
    return not problem_at(link)


def _text(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def replace_link(link: str, target: str) -> None:
    """Lets a path be a link to a target, whatever file or link, dangling or not, it was before.

    At no moment is there nothing at that path. DEVIATION: k8s-device-plugin v0.19.3 removes the
    old link first, and fails if that is dangling.

    Raises:
        OSError: the directory is missing or cannot be written, or the path is a directory.
    """
    directory, name = os.path.split(link)
    # One fixed name: what a run that was killed has left is used up by the next.
    fresh = os.path.join(directory, f".{name}.new")
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(target, fresh)
    try:
        os.replace(fresh, link)
    except OSError:
        os.unlink(fresh)
        raise
