"""The status of a program that follows the node's label."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.status.model import Check
from gpu_device_plugin.status.probes import check
from gpu_device_plugin.watch.follow import ProfileFollower


def profile_readiness(follower: ProfileFollower) -> Check:
    """Whether the configuration that the label names is linked and was told of."""
    return check(_lacks(follower))


def _lacks(follower: ProfileFollower) -> Iterator[str]:
    if follower.problem:
        yield follower.problem
    elif not follower.is_linked:
        yield "no configuration has been applied yet"
