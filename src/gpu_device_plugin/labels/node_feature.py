"""Labels as a NodeFeature object of Node Feature Discovery (nfd.k8s-sigs.io/v1alpha1)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.kube.answers import JsonObject
from gpu_device_plugin.kube.client import path
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable, KubeError
from gpu_device_plugin.kube.shapes import mapping, objects
from gpu_device_plugin.news import News

log = logging.getLogger(__name__)

GROUP = "nfd.k8s-sigs.io"
VERSION = "v1alpha1"
NODE_LABEL = "nfd.node.kubernetes.io/node-name"
"""By which NFD's master finds the node that an object is about."""
ATTEMPTS = 5
"""At writing an object that others write as well."""

Owners = list[JsonObject]


class Api(Protocol):
    """What is needed of the Kubernetes API; `kube.client.KubeClient` has it."""

    async def get(self, target: str) -> JsonObject:
        """Reads an object."""
        ...

    async def create(self, collection: str, item: JsonObject) -> JsonObject:
        """Creates an object."""
        ...

    async def replace(self, target: str, item: JsonObject) -> JsonObject:
        """Replaces an object of the same resource version."""
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


class NodeFeatureOutput:
    """The NodeFeature object of this node.

    It is never deleted here: it goes with the DaemonSet and the pod that own it.
    """

    def __init__(self, api: Api, *, node: str, namespace: str, pod: str = "") -> None:
        """Prepares the object; nothing is sent yet.

        Args:
            api: the Kubernetes API.
            node: name of the node that the labels are for.
            namespace: of the object, and of this program's pod.
            pod: name of this program's pod; empty for an object without owners.

        Raises:
            ConfigError: the node or the namespace has no name.
        """
        for value, option in ((node, "node-name"), (namespace, "namespace")):
            if not value:
                variable = option.upper().replace("-", "_")
                raise ConfigError(
                    f"{option}: required to publish NodeFeature objects, but empty",
                    f"set --{option} or {variable}, or turn off --use-node-feature-api",
                )
        self._api = api
        self._node = node
        self._namespace = namespace
        self._pod = pod
        self._name = f"nvidia-features-for-{node}"
        self._collection = path("apis", GROUP, VERSION, "namespaces", namespace, "nodefeatures")
        self._owners: Owners | None = None if pod else []
        """None as long as they could not be asked for."""
        self._owners_news = News()
        self._keeps_owners = False
        """Whether this program may not change the owners of an object that is there."""

    @property
    def place(self) -> str:
        """Kind, namespace and name of the object."""
        return f"NodeFeature {self._namespace}/{self._name}"

    async def publish(self, labels: Mapping[str, str]) -> bool:
        """Creates the object, or updates it if it is not as it should be.

        Whoever else writes it meanwhile is taken account of by reading it again.

        Raises:
            KubeError: the API cannot be reached, or refuses.
        """
        if self._owners is None:
            self._owners = await self._find_owners()
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._write(labels)
            except ApiError as error:
                if not error.is_conflict and not (error.is_not_found and "PUT" in error.request):
                    raise
                log.debug("%s was written by somebody else: %s", self.place, error)
        return await self._write(labels)

    async def withdraw(self) -> None:
        """The object stays."""

    async def close(self) -> None:
        """Closes the connections to the API."""
        await self._api.close()

    async def _write(self, labels: Mapping[str, str]) -> bool:
        target = f"{self._collection}{path(self._name)}"
        try:
            found = await self._api.get(target)
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._create(labels)
            return True
        if not mapping(found, "metadata"):
            raise ApiUnreachable(
                f"the answer to a request for the {self.place} is none; is this a Kubernetes API?"
            )
        wanted = self._wanted(found, labels, None if self._keeps_owners else self._owners)
        if is_same(found, wanted):
            return False
        try:
            await self._api.replace(target, wanted)
        except ApiError as error:
            kept = self._wanted(found, labels, None)
            if error.status != HTTPStatus.FORBIDDEN or is_same(wanted, kept):
                raise
            return await self._write_but_owners(error, found, kept)
        return True

    async def _write_but_owners(
        self, refusal: ApiError, found: JsonObject, wanted: JsonObject
    ) -> bool:
        """Writes all but the owners of an object, after that was refused with them.

        The admission plugin OwnerReferencesPermissionEnforcement, which OpenShift switches on, lets
        only those change owners who may delete the object. The old ones do as well: the object goes
        with the DaemonSet, and is made anew if that is another one.
        """
        is_written = not is_same(found, wanted)
        if is_written:
            await self._api.replace(f"{self._collection}{path(self._name)}", wanted)
        self._keeps_owners = True
        log.info("the owners of the NodeFeature object stay as they are: %s", refusal.message)
        return is_written

    async def _create(self, labels: Mapping[str, str]) -> None:
        fresh = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeFeature",
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        try:
            await self._api.create(self._collection, self._wanted(fresh, labels, self._owners))
        except ApiError as error:
            if not error.is_not_found:
                raise
            raise KubeError(
                f"{self.place} cannot be created: {error.api_message or error.reason}",
                f"is Node Feature Discovery installed (nodefeatures.{GROUP}), and is there a "
                f"namespace {self._namespace}? --use-node-feature-api=false writes a file instead",
            ) from None

    def _wanted(
        self, found: JsonObject, labels: Mapping[str, str], owners: Owners | None
    ) -> JsonObject:
        """The object as it should be, with whatever else it has; without `owners` also with its own."""
        metadata = {**found["metadata"], "labels": {NODE_LABEL: self._node}}
        if owners is not None:
            # DEVIATION: owners that could not be asked for are left as they are; v0.19.3 drops them.
            metadata["ownerReferences"] = owners
            if not owners:
                del metadata["ownerReferences"]
        features: JsonObject = {"flags": {}, "attributes": {}, "instances": {}}
        spec = {"features": features, "labels": dict(labels)}
        return {**found, "metadata": metadata, "spec": spec}

    async def _find_owners(self) -> Owners | None:
        """DaemonSet and pod of this program; none if there is no such pod or DaemonSet.

        None if that is not known: then they are asked for again, also after a refusal. Rights and
        tokens come late or are exchanged, and an object without owners outlives its DaemonSet.
        """
        target = path("api", "v1", "namespaces", self._namespace, "pods", self._pod)
        try:
            pod = await self._api.get(target)
        except KubeError as error:
            if isinstance(error, ApiError) and error.is_not_found:
                log.warning("the NodeFeature object has no owners: %s", error)
                return []
            if self._owners_news.is_new(str(error)):
                log.warning("the owners of the NodeFeature object are not known yet: %s", error)
            return None
        self._owners_news.end()
        owners = owners_of(pod)
        if not owners:
            log.info(
                "no DaemonSet owns the pod %s: the NodeFeature object has no owners", self._pod
            )
        return owners


def owners_of(pod: JsonObject) -> Owners:
    """The owner references that an object of this pod has."""
    metadata = mapping(pod, "metadata")
    for owner in objects(metadata, "ownerReferences"):
        if owner.get("kind") == "DaemonSet":
            daemon_set = {key: owner.get(key) for key in ("apiVersion", "kind", "name", "uid")}
            return [
                {**daemon_set, "controller": True},
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata.get("name"),
                    "uid": metadata.get("uid"),
                },
            ]
    return []


def is_same(one: Any, other: Any) -> bool:
    """Whether two objects mean the same: what is empty or null need not be there."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(is_same(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other) or (_is_nothing(one) and _is_nothing(other))


def _is_nothing(value: Any) -> bool:
    """Whether an API server may leave it out: a null or empty collection, or one of such."""
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    return value is None or value == []
