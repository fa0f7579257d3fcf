"""Asks the kubelet which container holds which devices, and which devices it can hand out.

The kubelet answers on a socket of its own (k8s.io/kubelet, pkg/apis/podresources/v1). It cannot
be asked to tell of changes, and takes 100 questions a second from all who ask together
(kubelet, pkg/kubelet/apis/podresources/grpc/ratelimit.go).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from google.protobuf.message import Message
from grpclib.client import UnaryUnaryMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import podresources_pb2 as pb
from gpu_device_plugin.kubelet.connection import ClientChannel
from gpu_device_plugin.kubelet.grpc_server import WireCodec

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"

DEADLINE = 5.0
"""Seconds for one answer."""
LARGEST = 16 * 1024 * 1024
"""Bytes of an answer, as in the kubelet's own client (podresources/client.go of its callers)."""

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

Devices = Mapping[str, tuple[str, ...]]
"""Ids of devices, with replica numbers, by resource; each id once."""


class PodResourcesUnavailable(UserError):
    """The kubelet does not tell who holds what; the message says why."""


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What a container holds."""

    namespace: str
    pod: str
    container: str
    devices: Devices


class PodResourcesClient:
    """Asks one kubelet, on one connection that is made anew when it is lost.

    Args:
        socket: path of the kubelet's socket for this API.
        deadline: seconds for one answer.
    """

    def __init__(self, socket: str = SOCKET, deadline: float = DEADLINE) -> None:
        self.socket = socket
        self._deadline = deadline
        self._channel: ClientChannel | None = None

    async def list(self) -> tuple[ContainerDevices, ...]:
        """All containers of the node that hold devices, of any vendor.

        Raises:
            PodResourcesUnavailable: the kubelet does not tell.
        """
        answer = await self._ask("List", pb.ListPodResourcesRequest(), pb.ListPodResourcesResponse)
        return tuple(held for pod in answer.pod_resources for held in _containers(pod))

    async def get(self, namespace: str, pod: str) -> tuple[ContainerDevices, ...]:
        """What one pod holds; Kubernetes 1.34 and newer answer that by default.

        Raises:
            PodResourcesUnavailable: the kubelet does not tell, or there is no such pod.
        """
        request = pb.GetPodResourcesRequest(pod_namespace=namespace, pod_name=pod)
        answer = await self._ask("Get", request, pb.GetPodResourcesResponse)
        return tuple(_containers(answer.pod_resources))

    async def allocatable(self) -> Devices:
        """All healthy devices that the kubelet knows of, held or not, of any vendor.

        A resource without healthy devices is missing, as is one that nobody has registered.

        Raises:
            PodResourcesUnavailable: the kubelet does not tell.
        """
        answer = await self._ask(
            "GetAllocatableResources",
            pb.AllocatableResourcesRequest(),
            pb.AllocatableResourcesResponse,
        )
        return _merged(answer.devices)

    def close(self) -> None:
        """Ends the connection; the next question makes another one."""
        connection, self._channel = self._channel, None
        if connection is not None:
            connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _ask(self, method: str, request: Request, answer_type: type[Answer]) -> Answer:
        if self._channel is None:
            self._channel = ClientChannel(path=self.socket, codec=_AnswerCodec())
        call: UnaryUnaryMethod[Request, Answer] = UnaryUnaryMethod(
            self._channel, f"/v1.PodResourcesLister/{method}", type(request), answer_type
        )
        try:
            async with asyncio.timeout(self._deadline):
                answer = await call(request)
        except GRPCError as error:
            raise self._refusal(method, error) from None
        except Exception as error:  # noqa: BLE001 - whatever a broken program at the socket sends
            self.close()
            raise self._failure(error) from None
        except BaseException:
            self.close()
            raise
        return answer

    def _failure(self, error: Exception) -> PodResourcesUnavailable:
        """No answer, in words."""
        socket = self.socket
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return PodResourcesUnavailable(
                f"the kubelet's socket {socket} does not exist", _HINT_MOUNT
            )
        if isinstance(error, PermissionError):
            return PodResourcesUnavailable(
                f"the kubelet's socket {socket} may not be used by uid {os.geteuid()}",
                "it belongs to root: run as root (runAsUser: 0)",
            )
        if isinstance(error, ConnectionRefusedError):
            return PodResourcesUnavailable(
                f"nobody listens at {socket}",
                "the kubelet is starting or stopped, or this is not its socket",
            )
        if isinstance(error, TimeoutError):
            return PodResourcesUnavailable(
                f"the kubelet at {socket} did not answer within {self._deadline:g} s"
            )
        if isinstance(error, _UnusableAnswer):
            return PodResourcesUnavailable(f"the answer of the kubelet at {socket} {error}")
        return PodResourcesUnavailable(
            f"the connection to the kubelet at {socket} broke: {_reason(error)}"
        )

    def _refusal(self, method: str, error: GRPCError) -> PodResourcesUnavailable:
        """A status that is no success, in words."""
        message = " ".join((error.message or "").split())
        if error.status is Status.UNIMPLEMENTED:
            return PodResourcesUnavailable(
                f"the program at {self.socket} does not know {method} of the pod resources API v1",
                "kubelets of Kubernetes 1.20 and newer do; " + _HINT_OPTION,
            )
        if error.status is Status.RESOURCE_EXHAUSTED and "rate limit" in message:
            return PodResourcesUnavailable(
                "the kubelet is asked too often",
                "it takes 100 questions a second from all together",
            )
        hint = _HINT_FEATURE.get(method, "") if "disabled" in message else ""
        return PodResourcesUnavailable(
            f"the kubelet refused {method}: {error.status.name}: {message}", hint
        )


_HINT_OPTION = "--pod-resources-socket (GPU_NODE_POD_RESOURCES_SOCKET) names the socket"
_HINT_MOUNT = f"mount {os.path.dirname(SOCKET)} of the host read-only; {_HINT_OPTION}"
_HINT_FEATURE = {
    "Get": "the kubelet's feature gate KubeletPodResourcesGet switches it on",
    "GetAllocatableResources": (
        "the kubelet's feature gate KubeletPodResourcesGetAllocatable switches it on"
    ),
}


class _UnusableAnswer(Exception):
    """What is wrong with an answer, after "the answer"."""


class _AnswerCodec(WireCodec):
    """Refuses answers that are too large or no messages."""

    def decode(self, data: bytes, message_type: type[Message]) -> Message:
        if len(data) > LARGEST:
            raise _UnusableAnswer(f"has {len(data)} bytes, {LARGEST} at most are read")
        try:
            return super().decode(data, message_type)
        except GRPCError:
            raise _UnusableAnswer("is no message of the pod resources API") from None


def _containers(pod: pb.PodResources) -> Iterable[ContainerDevices]:
    for container in pod.containers:
        if container.devices:
            held = _merged(container.devices)
            yield ContainerDevices(pod.namespace, pod.name, container.name, held)


def _merged(parts: Iterable[pb.ContainerDevices]) -> Devices:
    """Ids by resource; the kubelet names a device once for each of its NUMA nodes."""
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        found.setdefault(part.resource_name, {}).update(dict.fromkeys(part.device_ids))
    return {resource: tuple(ids) for resource, ids in found.items()}


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return " ".join(str(error).split()) or "it has sent no proper answer"
