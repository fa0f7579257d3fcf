"""Event objects of the Kubernetes API (core/v1) about a node.

As the kubelet makes them, so that ``kubectl describe node`` and everybody else who looks for
events of a node finds them: they are in the namespace ``default``, as nodes are in none, and the
node's name stands for its uid. Core/v1 and not events.k8s.io/v1: the server keeps both as one
object, and here count and last time can be raised without a series that begins at the second.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from gpu_device_plugin.kube.client import path
from gpu_device_plugin.reports.book import Entry
from gpu_device_plugin.reports.timestamps import timestamp

NAMESPACE = "default"
COLLECTION = path("api", "v1", "namespaces", NAMESPACE, "events")
LONGEST_NAME = 253


def event_name(node: str, unique: int) -> str:
    """A name that no other event has; it begins with the node's, as with the kubelet's events.

    Args:
        node: name of the node.
        unique: a number that is not used twice, such as nanoseconds since 1970.
    """
    name = f"{node}.{unique:x}"
    fits = len(name) <= LONGEST_NAME and re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name)
    return name if fits else str(uuid.uuid4())


def new_event(name: str, node: str, component: str, entry: Entry, message: str) -> dict[str, Any]:
    """The object that tells an entry for the first time.

    Args:
        name: of the object.
        node: name of the node that it is about.
        component: the program that tells it.
        entry: what has happened, and how often.
        message: in words.
    """
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "reason": str(entry.notice.reason),
        "type": "Warning" if entry.notice.reason.is_warning else "Normal",
        "message": message,
        "source": {"component": component, "host": node},
        "reportingComponent": component,
        "reportingInstance": node,
        "firstTimestamp": timestamp(entry.first),
        "lastTimestamp": timestamp(entry.last),
        "count": entry.count,
    }


def event_again(entry: Entry, message: str) -> dict[str, Any]:
    """The patch of an object that tells of an entry already."""
    return {
        "count": entry.count,
        "firstTimestamp": timestamp(entry.first),
        "lastTimestamp": timestamp(entry.last),
        "message": message,
    }
