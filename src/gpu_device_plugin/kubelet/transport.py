"""gRPC over unix sockets: what a plugin and a kubelet serve, by whatever library this package uses.

A plugin implements `DevicePluginService` and hands it to a `PluginServer`; a kubelet implements
`RegistrationService` and hands it to a `RegistrationServer`. Errors that a handler raises as
`UserError` become the status UNKNOWN with the message, as plain errors do in the original;
anything else is logged with its traceback and answered by INTERNAL.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.grpc_server import Server

log = logging.getLogger(__name__)

SET_UP_TURNS = 3
"""Of the event loop, in which asyncio sets up a connection that it has accepted."""

_NOBODY_LISTENS = {errno.ECONNREFUSED, errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EPROTOTYPE}
"""What a connection to a dead socket, a file or directory, a link to nowhere or in a circle, or a
socket of another type ends with; one that is merely overloaded, or not ours to use, has others."""

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class DevicePluginService(Protocol):
    """What a plugin answers to the kubelet."""

    async def options(self) -> pb.DevicePluginOptions:
        """GetDevicePluginOptions."""
        ...

    def device_lists(self) -> AsyncGenerator[bytes, None]:
        """ListAndWatch: encoded `ListAndWatchResponse` messages, the whole list each time."""
        ...

    async def preferred(
        self, request: pb.PreferredAllocationRequest
    ) -> pb.PreferredAllocationResponse:
        """GetPreferredAllocation."""
        ...

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        """Allocate."""
        ...

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        """PreStartContainer."""
        ...


class RegistrationService(Protocol):
    """What a kubelet answers to a plugin."""

    async def register(self, request: pb.RegisterRequest) -> pb.Empty:
        """Register."""
        ...


class UnixServer:
    """A gRPC server on a unix socket that knows whether the socket file is still its own."""

    def __init__(self, mapping: Mapping[str, Handler]) -> None:
        self._mapping = mapping
        self.on_deserted: Callable[[], None] = _nothing
        """Called when the last connection by which anything was said has ended; to be set before the
        start."""
        self._server: Server | None = None
        self._listener: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self.path = ""
        self.leftover = ""
        """Why the socket file could not be removed; empty if it could."""

    async def start(self, path: str) -> None:
        """Listens at the path, in place of what may be left there.

        Raises:
            OSError: the socket cannot be made; the message names the path.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if os.path.lexists(path):
                os.unlink(path)
            sock.bind(path)
            # At once: another process may replace the file any time.
            self.path, self._identity, self.leftover = path, _identity(path), ""
            server = Server(self._mapping, self.on_deserted)
            await server.start(sock=sock)
        except OSError as error:
            self._abandon(sock)
            if error.filename is None:
                # Python's own errors, such as for a path that is too long, have no number.
                number = error.errno or errno.EINVAL
                raise OSError(number, error.strerror or str(error), path) from None
            raise
        except asyncio.CancelledError:
            self._abandon(sock)
            raise
        self._server, self._listener = server, sock

    def _abandon(self, sock: socket.socket) -> None:
        """Leaves nothing of a start that was in vain, or broken off after the loop has begun to listen."""
        asyncio.get_running_loop().remove_reader(sock)
        sock.close()
        self._remove_socket()

    def owns_socket(self) -> bool:
        """Whether the file at the path is the socket that this server made."""
        return self._identity is not None and _identity(self.path) == self._identity

    def successor_is_dead(self) -> bool:
        """Whether what is in place of our socket is nothing that another process listens at."""
        if self.owns_socket() or self.socket_missing():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self.path)
            except OSError as error:
                return error.errno in _NOBODY_LISTENS
        return False

    def socket_missing(self) -> bool:
        """Whether there is nothing at the path any more."""
        return not os.path.lexists(self.path)

    @property
    def is_connected(self) -> bool:
        """Whether anybody holds a connection who has said anything."""
        return self._server is not None and not self._server.deserted.is_set()

    async def leave(self) -> None:
        """Takes no more connections; returns when those who have asked for anything are gone.

        Until then requests are answered. `stop` has to follow, also where this is cancelled.
        """
        server = self._server
        if server is not None:
            self._remove_socket()
            await self._stop_accepting()
            await server.deserted.wait()

    async def stop(self) -> None:
        """Cuts all connections, closes the listener, removes the socket if it is still ours.

        One that is cancelled may be called again, and then does what was left.
        """
        server = self._server
        if server is None:
            return
        self._remove_socket()
        await self._stop_accepting()
        if self._server is not server:
            return  # somebody else has stopped it meanwhile
        self._server = None
        server.close()
        for transport in list(server.live):
            transport.abort()
        # The handlers are cancelled; they end within one turn of the loop unless one hangs.
        try:
            async with asyncio.timeout(1):
                await server.wait_closed()
        except TimeoutError:
            log.warning("requests at %s did not end in time", self.path)

    def _remove_socket(self) -> None:
        try:
            if self.owns_socket():
                os.unlink(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.leftover = f"the socket {self.path} cannot be removed: {error.strerror}"
        self._identity = None

    async def _stop_accepting(self) -> None:
        """Lets connections that are accepted already be set up, so that they can be cut.

        Those that asyncio sets up after the end of their server it neither serves nor closes.
        """
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            for _ in range(SET_UP_TURNS):
                await asyncio.sleep(0)


def _nothing() -> None:
    """Nobody wants to know."""


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def plugin_server(service: DevicePluginService) -> UnixServer:
    """The server of one resource."""

    async def lists(stream: Any) -> None:
        await stream.recv_message()
        async with aclosing(service.device_lists()) as encoded_lists:
            async for encoded in encoded_lists:
                await stream.send_message(encoded)

    async def options(_: pb.Empty) -> pb.DevicePluginOptions:
        return await service.options()

    name = "/v1beta1.DevicePlugin/"
    return UnixServer(
        {
            name + "GetDevicePluginOptions": unary(options, pb.Empty, pb.DevicePluginOptions),
            name + "ListAndWatch": Handler(
                _guarded(lists), Cardinality.UNARY_STREAM, pb.Empty, pb.ListAndWatchResponse
            ),
            name + "GetPreferredAllocation": unary(
                service.preferred, pb.PreferredAllocationRequest, pb.PreferredAllocationResponse
            ),
            name + "Allocate": unary(service.allocate, pb.AllocateRequest, pb.AllocateResponse),
            name + "PreStartContainer": unary(
                service.pre_start, pb.PreStartContainerRequest, pb.PreStartContainerResponse
            ),
        }
    )


def registration_server(service: RegistrationService) -> UnixServer:
    """A kubelet's registration server."""
    return UnixServer(
        {"/v1beta1.Registration/Register": unary(service.register, pb.RegisterRequest, pb.Empty)}
    )


def unary(
    answer: Callable[[Request], Awaitable[Response]],
    request_type: type[Request],
    response_type: type[Response],
) -> Handler:
    """The handler of a method with one request and one answer."""

    async def handle(stream: Any) -> None:
        request = await stream.recv_message()
        await stream.send_message(await answer(request))

    return Handler(_guarded(handle), Cardinality.UNARY_UNARY, request_type, response_type)


def _guarded(handle: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """Turns what a handler raises into a status."""

    async def guarded(stream: Any) -> None:
        try:
            await handle(stream)
        except UserError as error:
            raise GRPCError(Status.UNKNOWN, str(error)) from None
        except (TimeoutError, GRPCError, OSError):
            raise
        except Exception as error:
            if type(error).__module__.startswith(("grpclib.", "h2.")):
                raise  # the end of the connection
            log.exception("a request failed")
            raise GRPCError(Status.INTERNAL, f"internal error: {error!r}") from None

    return guarded
