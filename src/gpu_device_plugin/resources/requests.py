"""What a container may ask for (k8s-device-plugin v0.19.3, internal/rm ValidateRequest)."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.resources.model import REPLICA_MARK, Device, Resource


def requested_devices(resource: Resource, ids: Sequence[str]) -> tuple[Device, ...]:
    """The devices behind a container's distinct ids, in the order of the request.

    Two replicas of a device give that device twice.

    Raises:
        RequestError: an id is unknown, or more replicas are asked for than are allowed.
    """
    known = resource.by_id
    try:
        found = {device_id: known[device_id] for device_id in ids}
    except KeyError as error:
        raise RequestError(
            f"invalid request for {resource.name}: unknown device {error.args[0]!r}"
        ) from None
    if resource.requires_single and len(ids) > 1 and any(REPLICA_MARK in i for i in ids):
        raise RequestError(
            f"invalid request for {resource.name}: at most 1 replica may be asked for, not {len(ids)}",
            "a share of a GPU does not grow with their number; "
            "sharing.*.failRequestsGreaterThanOne decides",
        )
    return tuple(found.values())
