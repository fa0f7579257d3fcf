"""The status of a program that follows the node's label."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.status.model import Check, Configuration
from gpu_device_plugin.status.probes import check
from gpu_device_plugin.watch.follow import ProfileFollower


def profile_readiness(follower: ProfileFollower) -> Check:
    """Whether the configuration that the label names is linked and was told of."""
    return check(_lacks(follower))


def profile_configuration(follower: ProfileFollower) -> Configuration | None:
    """Which configuration is linked; what is in it, its reader tells. None before the first one."""
    if not follower.is_linked:
        return None
    return Configuration(follower.link, follower.profile, hash="", problem=follower.problem)


def _lacks(follower: ProfileFollower) -> Iterator[str]:
    if follower.problem:
        yield follower.problem
    elif not follower.is_linked:
        yield "no configuration has been applied yet"
