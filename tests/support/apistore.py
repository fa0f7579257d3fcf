"""The objects of the tests' own Kubernetes API server, and the rules that a real one has for them.

Resource versions rise with every write and guard replacements; a write that changes nothing is
none; events are kept for watches until they are compacted away.
"""

from __future__ import annotations

import copy
import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

KINDS = {
    "/api/v1/events": "Event",
    "/api/v1/nodes": "Node",
    "/api/v1/pods": "Pod",
    "/apis/apps/v1/daemonsets": "DaemonSet",
    "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures": "NodeFeature",
}
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class Refusal(Exception):
    """An answer other than success."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": reason or REASONS.get(code, "InternalError"),
            "message": message,
            "code": code,
        }


@dataclass(frozen=True)
class Place:
    """What a path of the API stands for."""

    group: str
    """``/api/v1`` or ``/apis/GROUP/VERSION``."""
    namespace: str
    plural: str
    name: str
    subresource: str = ""

    @classmethod
    def of(cls, path: str) -> Place:
        match = re.fullmatch(
            r"(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)(?:/([^/]+)(?:/(status))?)?",
            path,
        )
        if match is None:
            raise Refusal(404, "the server could not find the requested resource")
        return cls(match[1], match[2] or "", match[3], match[4] or "", match[5] or "")

    @property
    def object(self) -> str:
        """The path without a subresource."""
        return f"{self.collection}/{self.name}"

    @property
    def kind(self) -> str:
        return KINDS.get(f"{self.group}/{self.plural}", "")

    @property
    def api_version(self) -> str:
        return self.group.removeprefix("/apis/").removeprefix("/api/")

    @property
    def collection(self) -> str:
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.group}{inside}/{self.plural}"

    @property
    def resource(self) -> str:
        group = self.group.split("/")[2] if self.group.startswith("/apis/") else ""
        return f"{self.plural}.{group}" if group else self.plural


@dataclass(frozen=True)
class Event:
    version: int
    kind: str
    path: str
    item: Json


class ObjectStore:
    """All objects by path. Whoever changes or awaits something holds `changed`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 100
        self.oldest = 100
        """Watches from before that are told that their version is gone."""
        self.objects: dict[str, Json] = {}
        self.events: list[Event] = []
        self.unknown_kinds: set[str] = set()
        """Plurals that this server does not have, as without their CRD."""
        self.guards_owners = False
        """As OwnerReferencesPermissionEnforcement does for who may not delete."""

    def get(self, path: str) -> Json:
        path = self._place(path).object
        with self.changed:
            if path not in self.objects:
                raise Refusal(404, f'{Place.of(path).resource} "{Place.of(path).name}" not found')
            return copy.deepcopy(self.objects[path])

    def list(self, path: str, name: str = "") -> Json:
        place = self._place(path)
        with self.changed:
            items = [
                copy.deepcopy(item)
                for key, item in sorted(self.objects.items())
                if key.rsplit("/", 1)[0] == path and name in {"", item["metadata"]["name"]}
            ]
            return {
                "kind": f"{place.kind}List",
                "apiVersion": place.api_version,
                "metadata": {"resourceVersion": str(self.version)},
                "items": items,
            }

    def create(self, path: str, item: Json) -> Json:
        place = self._place(path)
        metadata = item.get("metadata") or {}
        if metadata.get("resourceVersion"):
            raise Refusal(400, "resourceVersion should not be set on objects to be created")
        target = f"{path}/{metadata.get('name', '')}"
        self._check(place, item)
        with self.changed:
            if target in self.objects:
                message = f'{place.resource} "{metadata["name"]}" already exists'
                raise Refusal(409, message, "AlreadyExists")
            fresh = copy.deepcopy(item)
            fresh["metadata"]["uid"] = str(uuid.uuid4())
            fresh["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
            if place.namespace:
                fresh["metadata"]["namespace"] = place.namespace
            return self._write("ADDED", target, fresh)

    def replace(self, path: str, item: Json) -> Json:
        place = self._place(path)
        self._check(place, item)
        given = item["metadata"]
        with self.changed:
            old = self.get(path)["metadata"]
            if given["name"] != place.name:
                raise Refusal(400, "the name of the object does not match the name on the URL")
            if not given.get("resourceVersion"):
                raise Refusal(
                    422, "metadata.resourceVersion: Invalid value: must be specified for an update"
                )
            is_other = given.get("uid", old["uid"]) != old["uid"]
            if given["resourceVersion"] != old["resourceVersion"] or is_other:
                raise Refusal(
                    409,
                    f'Operation cannot be fulfilled on {place.resource} "{place.name}": the object '
                    "has been modified; please apply your changes to the latest version and try again",
                )
            owners = [m.get("ownerReferences") or [] for m in (given, old)]
            if self.guards_owners and owners[0] != owners[1]:
                raise Refusal(
                    403,
                    f'{place.resource} "{place.name}" is forbidden: cannot set an ownerRef on a '
                    "resource you can't delete: , <nil>",
                )
            fresh = copy.deepcopy(item)
            for key in ("uid", "creationTimestamp", "namespace"):
                if key in old:
                    fresh["metadata"][key] = old[key]
            if fresh == self.objects[path]:
                return fresh
            return self._write("MODIFIED", path, fresh)

    def merge(self, path: str, patch: Json, *, strategic: bool = False) -> Json:
        """As a merge patch does, or a strategic one, which merges conditions by their types."""
        place = Place.of(path)
        with self.changed:
            old = self.get(place.object)
            if place.subresource:
                patch = {"status": patch.get("status") or {}}
            return self.replace(place.object, _merged(old, patch, strategic=strategic))

    def delete(self, path: str) -> Json:
        with self.changed:
            old = self.get(path)
            del self.objects[path]
            self._note("DELETED", path, old)
            return old

    def put(self, path: str, item: Json | None = None) -> Json:
        """Creates or changes an object, with whatever a test leaves out."""
        place = Place.of(path)
        full = {
            "apiVersion": place.api_version,
            "kind": place.kind,
            **copy.deepcopy(item or {}),
        }
        full.setdefault("metadata", {})["name"] = place.name
        with self.changed:
            if path not in self.objects:
                return self.create(place.collection, full)
            full["metadata"]["resourceVersion"] = self.objects[path]["metadata"]["resourceVersion"]
            return self.replace(path, full)

    def compact(self) -> None:
        """Forgets all events."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.events.clear()
            self.changed.notify_all()

    def events_after(self, version: int, path: str, name: str) -> Iterator[Event]:
        """To be called while `changed` is held."""
        if version < self.oldest:
            raise Refusal(410, f"too old resource version: {version} ({self.oldest})")
        for event in self.events:
            inside = event.path.rsplit("/", 1)[0] == path
            if event.version > version and inside and name in {"", event.path.rsplit("/", 1)[1]}:
                yield event

    def _place(self, path: str) -> Place:
        place = Place.of(path)
        if not place.kind or place.plural in self.unknown_kinds:
            raise Refusal(404, "the server could not find the requested resource")
        return place

    def _check(self, place: Place, item: Json) -> None:
        metadata = item.get("metadata")
        if not isinstance(metadata, dict):
            raise Refusal(400, "metadata is missing")
        if (item.get("apiVersion"), item.get("kind")) != (place.api_version, place.kind):
            raise Refusal(400, f"the object is no {place.kind} of {place.api_version}")
        if metadata.get("namespace", place.namespace) != place.namespace:
            raise Refusal(400, "the namespace of the object does not match that of the request")
        name = metadata.get("name", "")
        if not NAME.fullmatch(name) or len(name) > 253:
            raise Refusal(422, f"metadata.name: Invalid value: {name!r}")
        for key, value in (metadata.get("labels") or {}).items():
            if not isinstance(value, str) or not LABEL_VALUE.fullmatch(value) or len(value) > 63:
                raise Refusal(422, f"metadata.labels: Invalid value: {key}={value!r}")
        if place.kind == "Event":
            _check_event(place, item)
        _check_owners(metadata.get("ownerReferences") or [])

    def _write(self, kind: str, path: str, item: Json) -> Json:
        self._note(kind, path, item)
        self.objects[path] = item
        return copy.deepcopy(item)

    def _note(self, kind: str, path: str, item: Json) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(Event(self.version, kind, path, copy.deepcopy(item)))
        self.changed.notify_all()


def _check_owners(owners: list[Json]) -> None:
    for owner in owners:
        if not all(owner.get(key) for key in ("apiVersion", "kind", "name", "uid")):
            raise Refusal(422, "metadata.ownerReferences: a member is missing")
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        raise Refusal(422, "metadata.ownerReferences: only one can be the controller")


def _check_event(place: Place, item: Json) -> None:
    """As ValidateEventCreate of Kubernetes (pkg/apis/core/validation/events.go)."""
    about = item.get("involvedObject") or {}
    if about.get("namespace", "") != ("" if place.namespace == "default" else place.namespace):
        raise Refusal(422, "involvedObject.namespace: does not match event.namespace")
    if not about.get("kind") or item.get("type") not in {"Normal", "Warning"}:
        raise Refusal(422, "the event is about nothing, or of no type")
    if len(item.get("reason", "")) > 128 or len(item.get("message", "")) > 1024:
        raise Refusal(422, "reason or message is too long")


def _merged(old: Any, patch: Any, *, strategic: bool = False) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif strategic and key == "conditions":
            merged[key] = _by_type(merged.get(key) or [], value)
        else:
            merged[key] = _merged(merged.get(key), value, strategic=strategic)
    return merged


def _by_type(old: list[Json], patch: list[Json]) -> list[Json]:
    merged = {item["type"]: item for item in old}
    for item in patch:
        merged[item["type"]] = {**merged.get(item["type"], {}), **item}
    return list(merged.values())
