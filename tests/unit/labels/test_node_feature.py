"""NodeFeature objects through a real HTTP API."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.aio import run
from support.apiserver import ApiServer

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.kube.access import Access
from gpu_device_plugin.kube.client import KubeClient
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable, KubeError
from gpu_device_plugin.labels.node_feature import NodeFeatureOutput, is_same, owners_of

COLLECTION = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures"
OBJECT = f"{COLLECTION}/nvidia-features-for-node1"
POD = "/api/v1/namespaces/gpu/pods/gfd-x"
LABELS = {"nvidia.com/gpu.count": "8", "nvidia.com/cuda.driver.rev": ""}
DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "name": "gfd",
    "uid": "d1",
    "controller": True,
    "blockOwnerDeletion": True,
}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r1"}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


def publish(api: ApiServer, *labels: dict[str, str], pod: str = "") -> list[bool]:
    """Publishes one after the other; whether each wrote anything."""

    async def work() -> list[bool]:
        client = KubeClient(Access(api.url, "tests"), qps=-1)
        output = NodeFeatureOutput(client, node="node1", namespace="gpu", pod=pod)
        try:
            return [await output.publish(item) for item in labels or (LABELS,)]
        finally:
            await output.withdraw()
            await output.close()

    return run(work())


def writes(api: ApiServer) -> int:
    return api.count("POST") + api.count("PUT")


def test_the_object_is_created_as_the_original_creates_it(api: ApiServer) -> None:
    assert publish(api) == [True]

    item = api.store.get(OBJECT)
    assert item["apiVersion"] == "nfd.k8s-sigs.io/v1alpha1"
    assert item["kind"] == "NodeFeature"
    assert item["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "node1"}
    assert "ownerReferences" not in item["metadata"]
    assert item["spec"] == {
        "features": {"flags": {}, "attributes": {}, "instances": {}},
        "labels": LABELS,
    }


def test_nothing_is_written_when_nothing_has_changed(api: ApiServer) -> None:
    assert publish(api, LABELS, LABELS, {"a": "b"}, {"a": "b"}) == [True, False, True, False]
    assert writes(api) == 2
    assert api.store.get(OBJECT)["spec"]["labels"] == {"a": "b"}


def test_an_object_that_a_server_has_pruned_counts_as_the_same(api: ApiServer) -> None:
    publish(api)
    item = api.store.get(OBJECT)
    del item["spec"]["features"]
    item["metadata"]["annotations"] = {}
    api.store.put(OBJECT, item)

    assert publish(api) == [False]


def test_what_else_an_object_has_is_kept_but_for_its_labels(api: ApiServer) -> None:
    owner = [{**REPLICA_SET, "controller": False}]
    metadata = {"labels": {"x": "y"}, "annotations": {"a": "b"}, "ownerReferences": owner}
    api.store.put(OBJECT, {"metadata": metadata, "spec": {"labels": {"old": "1"}, "more": 1}})

    assert publish(api) == [True]
    item = api.store.get(OBJECT)
    assert item["metadata"]["annotations"] == {"a": "b"}
    assert item["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "node1"}
    assert item["spec"]["labels"] == LABELS
    assert "more" not in item["spec"]
    assert "ownerReferences" not in item["metadata"]


class TestOthersWrite:
    def test_a_conflict_is_solved_by_reading_again(self, api: ApiServer) -> None:
        publish(api)
        api.fail("PUT", OBJECT, status=409, times=2)

        assert publish(api, {"a": "b"}) == [True]
        assert api.store.get(OBJECT)["spec"]["labels"] == {"a": "b"}

    def test_an_object_that_somebody_creates_meanwhile_is_updated(self, api: ApiServer) -> None:
        api.store.put(OBJECT)
        api.fail("GET", OBJECT, status=404)

        assert publish(api) == [True]
        assert (api.count("POST"), api.count("PUT")) == (1, 1)

    def test_an_object_that_somebody_deletes_meanwhile_is_created(self, api: ApiServer) -> None:
        publish(api)
        api.fail("PUT", OBJECT, status=404)
        api.store.delete(OBJECT)
        api.fail("GET", OBJECT, raw=_stale_object(), times=1)

        assert publish(api, {"a": "b"}) == [True]
        assert api.store.get(OBJECT)["spec"]["labels"] == {"a": "b"}

    def test_a_write_whose_answer_got_lost_is_found_done(self, api: ApiServer) -> None:
        api.fail("POST", COLLECTION, after=True)
        with pytest.raises(ApiUnreachable):
            publish(api)

        assert publish(api) == [False]

    def test_it_gives_up_when_others_never_stop(self, api: ApiServer) -> None:
        publish(api)
        api.fail("PUT", OBJECT, status=409, times=100)

        with pytest.raises(ApiError, match="409 Conflict"):
            publish(api, {"a": "b"})
        assert api.count("PUT") == 5


def _stale_object() -> bytes:
    body = b'{"metadata":{"name":"nvidia-features-for-node1","resourceVersion":"1"}}'
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class TestOwners:
    def owners(self, api: ApiServer) -> Any:
        return api.store.get(OBJECT)["metadata"].get("ownerReferences")

    def test_daemon_set_and_pod_own_the_object(self, api: ApiServer) -> None:
        pod = api.store.put(POD, {"metadata": {"ownerReferences": [REPLICA_SET, DAEMON_SET]}})
        publish(api, LABELS, LABELS, pod="gfd-x")

        assert self.owners(api) == [
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": "gfd",
                "uid": "d1",
                "controller": True,
            },
            {"apiVersion": "v1", "kind": "Pod", "name": "gfd-x", "uid": pod["metadata"]["uid"]},
        ]
        assert api.count("GET", POD) == 1

    @pytest.mark.parametrize("owners", [[], [REPLICA_SET]])
    def test_a_pod_of_no_daemon_set_owns_nothing(
        self, api: ApiServer, owners: list[dict[str, Any]]
    ) -> None:
        api.store.put(POD, {"metadata": {"ownerReferences": owners}})
        publish(api, pod="gfd-x")

        assert self.owners(api) is None

    def test_a_pod_that_is_not_found_is_no_error(
        self, api: ApiServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert publish(api, pod="gfd-x") == [True]

        assert self.owners(api) is None
        assert "404 NotFound" in caplog.text

    def test_owners_that_could_not_be_asked_for_stay_and_are_asked_for_again(
        self, api: ApiServer
    ) -> None:
        api.store.put(POD, {"metadata": {"ownerReferences": [DAEMON_SET]}})
        publish(api, pod="gfd-x")
        before = self.owners(api)
        api.fail("GET", POD, status=503)

        assert publish(api, {"a": "b"}, {"a": "c"}, pod="gfd-x") == [True, True]
        assert self.owners(api) == before
        assert api.count("GET", POD) == 3

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refusal_to_tell_the_pod_may_pass(
        self, api: ApiServer, caplog: pytest.LogCaptureFixture, status: int
    ) -> None:
        api.store.put(POD, {"metadata": {"ownerReferences": [DAEMON_SET]}})
        api.fail("GET", POD, status=status, times=2)

        assert publish(api, {"a": "b"}, {"a": "c"}, {"a": "c"}, pod="gfd-x") == [True] * 3
        assert [owner["name"] for owner in self.owners(api)] == ["gfd", "gfd-x"]
        assert caplog.text.count("are not known yet") == 1

    def test_labels_are_written_where_owners_must_not_be_changed(
        self, api: ApiServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        api.store.put(POD, {"metadata": {"ownerReferences": [DAEMON_SET]}})
        api.store.put(f"{POD}-next", {"metadata": {"ownerReferences": [DAEMON_SET]}})
        api.store.guards_owners = True
        publish(api, {"a": "b"}, pod="gfd-x")
        before = self.owners(api)

        written = publish(api, {"a": "b"}, {"a": "c"}, {"a": "c"}, pod="gfd-x-next")

        assert written == [False, True, False]
        assert self.owners(api) == before
        assert api.store.get(OBJECT)["spec"]["labels"] == {"a": "c"}
        assert caplog.text.count("stay as they are: the Kubernetes API refused PUT") == 1

    def test_labels_that_change_with_the_owners_are_written_without_them(
        self, api: ApiServer
    ) -> None:
        api.store.put(POD, {"metadata": {"ownerReferences": [DAEMON_SET]}})
        api.store.guards_owners = True
        publish(api, {"a": "b"})

        assert publish(api, {"a": "c"}, pod="gfd-x") == [True]
        assert self.owners(api) is None
        assert api.store.get(OBJECT)["spec"]["labels"] == {"a": "c"}
        api.store.delete(OBJECT)
        assert publish(api, {"a": "c"}, pod="gfd-x") == [True]
        assert self.owners(api)

    def test_a_missing_right_to_update_is_still_told(self) -> None:
        with ApiServer(denied={"update nodefeatures"}) as api:
            api.store.put(POD, {"metadata": {"ownerReferences": [DAEMON_SET]}})
            publish(api, {"a": "b"})

            with pytest.raises(ApiError, match=r"403 Forbidden: .* cannot update"):
                publish(api, {"a": "c"}, pod="gfd-x")


class TestRefusals:
    @pytest.mark.parametrize(("node", "namespace"), [("", "gpu"), ("node1", "")])
    def test_names_that_are_missing_are_told_before_anything_is_sent(
        self, node: str, namespace: str
    ) -> None:
        option = "namespace" if node else "node-name"
        variable = option.upper().replace("-", "_")
        with pytest.raises(ConfigError, match=rf"{option}: .*--{option} or {variable}"):
            NodeFeatureOutput(KubeClient(Access("http://x", "t")), node=node, namespace=namespace)

    def test_a_cluster_without_nfd_is_told(self, api: ApiServer) -> None:
        api.store.unknown_kinds.add("nodefeatures")

        with pytest.raises(KubeError, match=r"is Node Feature Discovery installed"):
            publish(api)

    @pytest.mark.parametrize("right", ["get", "create"])
    def test_missing_rights_name_the_role(self, right: str) -> None:
        with (
            ApiServer(denied={f"{right} nodefeatures"}) as api,
            pytest.raises(ApiError, match=rf"403 Forbidden: .* cannot {right} .*ClusterRole"),
        ):
            publish(api)

    def test_an_api_that_fails_is_told(self, api: ApiServer) -> None:
        api.fail("GET", OBJECT, status=500)

        with pytest.raises(ApiError, match="500 InternalError"):
            publish(api)


def test_a_pod_without_metadata_has_no_owners() -> None:
    assert owners_of({}) == []
    assert owners_of({"metadata": {"ownerReferences": None}}) == []


@pytest.mark.parametrize("odd", [[], "text", 5, ["text", None, 5], {"kind": "DaemonSet"}])
def test_a_pod_of_odd_shape_has_no_owners(odd: object) -> None:
    assert owners_of({"metadata": odd}) == []
    assert owners_of({"metadata": {"ownerReferences": odd}}) == []


def test_an_answer_that_is_no_object_is_none(api: ApiServer) -> None:
    for body in (b"{}", b'{"metadata": []}'):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        api.fail("GET", OBJECT, raw=head + body)

        with pytest.raises(ApiUnreachable, match="is this a Kubernetes API"):
            publish(api, LABELS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON, JSON)
def test_sameness_goes_both_ways(one: Any, other: Any) -> None:
    assert is_same(one, one)
    assert is_same(one, other) == is_same(other, one)
    assert is_same({"a": one, "b": {}}, {"a": one})


def test_an_empty_text_is_not_the_same_as_none() -> None:
    assert not is_same({"a": ""}, {})
    assert not is_same({"a": False}, {"a": 0.5})
    assert not is_same([1], [1, 2])


def test_the_log_is_quiet_when_all_is_well(
    api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    publish(api, LABELS, LABELS)

    assert not caplog.records
