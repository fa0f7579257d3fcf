"""Who holds what, asked of kubelets that tell it, refuse it, hang, and send nonsense."""

from __future__ import annotations

import asyncio
import logging
import os
import socket as sockets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.aio import run
from support.babble import PREFACE, babbling

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import podresources as api
from gpu_device_plugin.kubelet import podresources_pb2 as pb
from gpu_device_plugin.kubelet.podresources import (
    ContainerDevices,
    PodResourcesClient,
    PodResourcesUnavailable,
)
from gpu_device_plugin.kubelet.podresources_server import pod_resources_server
from gpu_device_plugin.kubelet.transport import UnixServer

Ask = Callable[[PodResourcesClient], Awaitable[object]]


class Kubelet:
    """Tells what it is told to tell."""

    def __init__(self) -> None:
        self.pods = pb.ListPodResourcesResponse()
        self.devices = pb.AllocatableResourcesResponse()
        self.error: Exception | None = None
        self.asked = 0

    async def list_pods(self, _: pb.ListPodResourcesRequest) -> pb.ListPodResourcesResponse:
        self._receive()
        return self.pods

    async def allocatable(
        self, _: pb.AllocatableResourcesRequest
    ) -> pb.AllocatableResourcesResponse:
        self._receive()
        return self.devices

    async def get_pod(self, request: pb.GetPodResourcesRequest) -> pb.GetPodResourcesResponse:
        self._receive()
        for pod in self.pods.pod_resources:
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return pb.GetPodResourcesResponse(pod_resources=pod)
        raise UserError(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")

    def _receive(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[Kubelet, PodResourcesClient]]:
    kubelet = Kubelet()
    server = pod_resources_server(kubelet)
    await server.start(str(tmp_path / "s"))
    async with PodResourcesClient(str(tmp_path / "s")) as client:
        yield kubelet, client
    await server.stop()


def devices(resource: str, *ids: str, node: int | None = None) -> pb.ContainerDevices:
    topology = None if node is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
    return pb.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)


def problem(client: PodResourcesClient, ask: Ask = PodResourcesClient.list) -> str:
    """What the client says goes wrong."""

    async def work() -> str:
        with pytest.raises(PodResourcesUnavailable) as caught:
            await ask(client)
        client.close()
        return str(caught.value)

    text = run(work())
    assert text.isprintable()
    return text


# ------------------------------------------------------------------ answers


def test_containers_are_told_with_what_they_hold(tmp_path):
    async def work():
        async with served(tmp_path) as (kubelet, client):
            train = kubelet.pods.pod_resources.add(name="train", namespace="ml")
            train.containers.add(name="idle")
            train.containers.add(
                name="main", devices=[devices("a/b", "x"), devices("c/d", "y"), devices("a/b", "z")]
            )
            kubelet.pods.pod_resources.add(name="web", namespace="default")

            assert await client.list() == (
                ContainerDevices("ml", "train", "main", {"a/b": ("x", "z"), "c/d": ("y",)}),
            )

    run(work())


def test_a_device_on_two_numa_nodes_is_told_once(tmp_path):
    async def work():
        async with served(tmp_path) as (kubelet, client):
            parts = [devices("a/b", "x", node=0), devices("a/b", "x", node=1)]
            pod = kubelet.pods.pod_resources.add(name="p", namespace="n")
            pod.containers.add(name="c", devices=parts)
            kubelet.devices.devices.extend(parts)

            (held,) = await client.list()
            assert held.devices == {"a/b": ("x",)}
            assert await client.allocatable() == {"a/b": ("x",)}

    run(work())


def test_one_pod_can_be_asked_for(tmp_path):
    async def work():
        async with served(tmp_path) as (kubelet, client):
            for name in ("one", "two"):
                pod = kubelet.pods.pod_resources.add(name=name, namespace="n")
                pod.containers.add(name="c", devices=[devices("a/b", name)])

            assert await client.get("n", "two") == (
                ContainerDevices("n", "two", "c", {"a/b": ("two",)}),
            )
            with pytest.raises(PodResourcesUnavailable, match="pod three in namespace n not found"):
                await client.get("n", "three")

    run(work())


def test_many_questions_use_one_connection(tmp_path):
    async def work():
        async with served(tmp_path) as (kubelet, client):
            for _ in range(3):
                await client.list()
            assert kubelet.asked == 3
            live = client._channel._protocol.connection._transport  # type: ignore[union-attr]
            await client.list()
            assert live is client._channel._protocol.connection._transport  # type: ignore[union-attr]

    run(work())


def test_a_kubelet_that_is_back_is_asked_again(tmp_path):
    async def work():
        server = pod_resources_server(Kubelet())
        async with PodResourcesClient(str(tmp_path / "s")) as client:
            await server.start(str(tmp_path / "s"))
            assert await client.list() == ()
            await server.stop()
            with pytest.raises(PodResourcesUnavailable, match="does not exist"):
                await client.list()
            await server.start(str(tmp_path / "s"))
            assert await client.list() == ()
        await server.stop()

    run(work())


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a/b", "c/d"]), st.lists(st.text(max_size=4), max_size=4)),
        max_size=5,
    )
)
def test_every_id_is_told_once_and_under_its_resource(parts):
    merged = api._merged(devices(resource, *ids) for resource, ids in parts)

    assert {(r, i) for r, ids in merged.items() for i in ids} == {
        (r, i) for r, ids in parts for i in ids
    }
    assert all(len(set(ids)) == len(ids) for ids in merged.values())


# ------------------------------------------------------------------ refusals


def test_a_socket_that_is_missing_is_named_with_what_to_mount(tmp_path):
    text = problem(PodResourcesClient(str(tmp_path / "none" / "s")))

    assert text == (
        f"the kubelet's socket {tmp_path}/none/s does not exist "
        "(mount /var/lib/kubelet/pod-resources of the host read-only; "
        "--pod-resources-socket (GPU_NODE_POD_RESOURCES_SOCKET) names the socket)"
    )


def test_a_directory_that_is_a_file_is_as_good_as_missing(tmp_path):
    (tmp_path / "file").touch()

    assert "does not exist" in problem(PodResourcesClient(str(tmp_path / "file" / "s")))


def test_a_socket_that_may_not_be_used(monkeypatch):
    async def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("grpclib.client.Channel._create_connection", refuse)

    assert problem(PodResourcesClient("/s")) == (
        f"the kubelet's socket /s may not be used by uid {os.geteuid()} "
        "(it belongs to root: run as root (runAsUser: 0))"
    )


def test_a_socket_without_a_listener(tmp_path):
    path = str(tmp_path / "s")
    with sockets.socket(sockets.AF_UNIX) as left:
        left.bind(path)

    assert problem(PodResourcesClient(path)).startswith(f"nobody listens at {path} (the kubelet is")


def test_a_path_that_is_too_long_for_a_socket(tmp_path):
    text = problem(PodResourcesClient(str(tmp_path / ("x" * 120))))

    assert text.endswith("broke: AF_UNIX path too long")


def test_a_kubelet_that_hangs_is_not_waited_for_longer_than_the_deadline(tmp_path):
    path = str(tmp_path / "s")
    with sockets.socket(sockets.AF_UNIX) as deaf:
        deaf.bind(path)
        deaf.listen()

        text = problem(PodResourcesClient(path, deadline=0.05))

    assert text == f"the kubelet at {path} did not answer within 0.05 s"


def test_a_program_that_does_not_know_the_api(tmp_path):
    async def work():
        server = UnixServer({})
        await server.start(str(tmp_path / "s"))
        async with PodResourcesClient(str(tmp_path / "s")) as client:
            with pytest.raises(PodResourcesUnavailable) as caught:
                await client.list()
        await server.stop()
        return str(caught.value)

    text = run(work())

    assert "does not know List of the pod resources API v1 (kubelets of Kubernetes 1.20" in text


@pytest.mark.parametrize(
    ("error", "ask", "words"),
    [
        (
            GRPCError(Status.RESOURCE_EXHAUSTED, "rejected by rate limit"),
            PodResourcesClient.list,
            "the kubelet is asked too often (it takes 100 questions a second from all together)",
        ),
        (
            UserError("Pod Resources API GetAllocatableResources disabled"),
            PodResourcesClient.allocatable,
            (
                "the kubelet refused GetAllocatableResources: UNKNOWN: Pod Resources API "
                "GetAllocatableResources disabled (the kubelet's feature gate "
                "KubeletPodResourcesGetAllocatable switches it on)"
            ),
        ),
        (
            UserError("PodResources API Get method disabled"),
            lambda client: client.get("n", "p"),
            (
                "the kubelet refused Get: UNKNOWN: PodResources API Get method disabled (the "
                "kubelet's feature gate KubeletPodResourcesGet switches it on)"
            ),
        ),
        (
            GRPCError(Status.RESOURCE_EXHAUSTED, "out of\nmemory"),
            PodResourcesClient.list,
            "the kubelet refused List: RESOURCE_EXHAUSTED: out of memory",
        ),
    ],
)
def test_refusals_are_told_with_what_helps(tmp_path, error, ask, words):
    async def work():
        async with served(tmp_path) as (kubelet, client):
            kubelet.error = error
            with pytest.raises(PodResourcesUnavailable) as caught:
                await ask(client)
            kubelet.error = None
            await client.list()  # the connection is as good as before
        return str(caught.value)

    assert run(work()) == words


def test_an_answer_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "LARGEST", 10)

    async def work():
        async with served(tmp_path) as (kubelet, client):
            kubelet.pods.pod_resources.add(name="a-long-name", namespace="n")
            with pytest.raises(PodResourcesUnavailable, match=r"has 18 bytes, 10 at most are read"):
                await client.list()

    run(work())


# ------------------------------------------------------------------ nonsense


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(nonsense=st.binary(max_size=200), polite=st.booleans())
def test_nonsense_is_a_problem_in_one_line_and_nothing_worse(tmp_path, caplog, nonsense, polite):
    caplog.set_level(logging.ERROR)
    path = str(tmp_path / "s")

    async def work() -> str:
        async with (
            babbling(path, PREFACE * polite + nonsense),
            PodResourcesClient(path, deadline=1) as client,
        ):
            with pytest.raises(PodResourcesUnavailable) as caught:
                await client.list()
            return str(caught.value)

    text = run(work())

    assert text.isprintable()
    assert not caplog.records


def test_an_answer_that_is_no_message_is_a_problem(tmp_path):
    class Raw:
        async def list_pods(self, _: object) -> bytes:
            return b"\xff\xff\xff"

    async def work():
        server = pod_resources_server(Raw())  # type: ignore[arg-type]
        await server.start(str(tmp_path / "s"))
        async with PodResourcesClient(str(tmp_path / "s")) as client:
            with pytest.raises(PodResourcesUnavailable, match="no message of the pod resources"):
                await client.list()
        await server.stop()

    # The server needs the other two methods by name only.
    Raw.allocatable = Raw.get_pod = Raw.list_pods  # type: ignore[attr-defined]
    run(work())


def test_who_gives_up_waiting_leaves_nothing_behind(tmp_path):
    path = str(tmp_path / "s")

    async def work():
        async with PodResourcesClient(path) as client:
            asking = asyncio.create_task(client.list())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert client._channel is None

    with sockets.socket(sockets.AF_UNIX) as deaf:
        deaf.bind(path)
        deaf.listen()
        run(work())
