"""Calls to the other side: a plugin's registration, a kubelet's calls to a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grpclib.client import UnaryStreamMethod, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from h2.exceptions import H2Error

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import api
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.connection import ClientChannel
from gpu_device_plugin.kubelet.grpc_server import WireCodec

CONNECT_TIMEOUT = 5.0
"""Seconds for one registration, as in the original."""

PluginOptions = pb.DevicePluginOptions(get_preferred_allocation_available=True)
"""What every plugin of ours tells in Register and GetDevicePluginOptions."""


FAILURES = (GRPCError, H2Error, ProtocolError, StreamTerminatedError, OSError, TimeoutError)
"""Whatever a call to a plugin can end with."""


class KubeletUnreachable(UserError):
    """Nothing answers at the kubelet's socket."""


class RegistrationRefused(UserError):
    """The kubelet answered Register with an error."""


async def register(kubelet_socket: str, endpoint: str, resource: str) -> None:
    """Tells the kubelet that a resource is served.

    Args:
        kubelet_socket: path of the registration socket.
        endpoint: base name of the plugin's socket.
        resource: full resource name.

    Raises:
        KubeletUnreachable: no connection, or no answer within `CONNECT_TIMEOUT`.
        RegistrationRefused: the kubelet's own error.
    """
    request = pb.RegisterRequest(
        version=api.VERSION, endpoint=endpoint, resource_name=resource, options=PluginOptions
    )
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT), channel(kubelet_socket) as connection:
            call: UnaryUnaryMethod[pb.RegisterRequest, pb.Empty] = UnaryUnaryMethod(
                connection, "/v1beta1.Registration/Register", pb.RegisterRequest, pb.Empty
            )
            await call(request)
    except GRPCError as error:
        raise RegistrationRefused(
            f"the kubelet refused {resource}: {error.status.name}: {error.message}"
        ) from None
    except TimeoutError:
        raise KubeletUnreachable(
            f"the kubelet at {kubelet_socket} did not answer within {CONNECT_TIMEOUT:g} s"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever a broken program at the socket sends
        raise KubeletUnreachable(
            f"no connection to the kubelet at {kubelet_socket}: {describe(error)}"
        ) from None


@asynccontextmanager
async def channel(path: str) -> AsyncIterator[ClientChannel]:
    """A connection to a unix socket, made at the first call."""
    connection = ClientChannel(path=path, codec=WireCodec())
    try:
        yield connection
    finally:
        connection.close()


def describe(error: BaseException) -> str:
    """An error of a call in one line."""
    if isinstance(error, GRPCError):
        return f"{error.status.name}: {error.message}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


class PluginClient:
    """A kubelet's calls to one plugin."""

    def __init__(self, connection: ClientChannel) -> None:
        name = "/v1beta1.DevicePlugin/"
        self.options: UnaryUnaryMethod[pb.Empty, pb.DevicePluginOptions] = UnaryUnaryMethod(
            connection, name + "GetDevicePluginOptions", pb.Empty, pb.DevicePluginOptions
        )
        self.list_and_watch: UnaryStreamMethod[pb.Empty, pb.ListAndWatchResponse] = (
            UnaryStreamMethod(connection, name + "ListAndWatch", pb.Empty, pb.ListAndWatchResponse)
        )
        self.preferred: UnaryUnaryMethod[
            pb.PreferredAllocationRequest, pb.PreferredAllocationResponse
        ] = UnaryUnaryMethod(
            connection,
            name + "GetPreferredAllocation",
            pb.PreferredAllocationRequest,
            pb.PreferredAllocationResponse,
        )
        self.allocate: UnaryUnaryMethod[pb.AllocateRequest, pb.AllocateResponse] = UnaryUnaryMethod(
            connection, name + "Allocate", pb.AllocateRequest, pb.AllocateResponse
        )
        self.pre_start: UnaryUnaryMethod[
            pb.PreStartContainerRequest, pb.PreStartContainerResponse
        ] = UnaryUnaryMethod(
            connection,
            name + "PreStartContainer",
            pb.PreStartContainerRequest,
            pb.PreStartContainerResponse,
        )
