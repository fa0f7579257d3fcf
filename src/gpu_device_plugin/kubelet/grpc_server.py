"""grpclib's server with what grpc-go expects of one, and with hold of its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import grpclib.server
from google.protobuf.message import DecodeError, Message
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.protocol import H2Protocol

from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.connection import CarefulProtocol


class WireCodec(CodecBase):
    """Protobuf, with messages that are encoded already passed through as they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Message | bytes, message_type: type[Message]) -> bytes:  # noqa: ARG002 - grpclib's signature
        """The bytes of a message."""
        return message if isinstance(message, bytes) else message.SerializeToString()

    def decode(self, data: bytes, message_type: type[Message]) -> Message:
        """The message, or INTERNAL where the bytes are none (as grpc-go answers)."""
        try:
            return message_type.FromString(data)
        except DecodeError as error:
            raise GRPCError(Status.INTERNAL, f"cannot decode the request: {error}") from None


class TrackedProtocol(CarefulProtocol):
    """A connection that can be found and cut."""

    def __init__(self, made: H2Protocol, server: Server) -> None:
        """Takes the place of a protocol that grpclib has made and not used."""
        super().__init__(made)
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        super().connection_made(transport)
        if self._transport is not None:
            self._server.live.add(self._transport)

    def data_received(self, data: bytes) -> None:
        """Takes what has come."""
        if self._transport is not None:
            self._server.hear(self._transport)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Ends."""
        super().connection_lost(exc)
        if self._transport is not None:
            self._server.lose(self._transport)


class Server(grpclib.server.Server):
    """grpclib's server, with hold of its connections.

    Args:
        mapping: methods by path.
        on_deserted: called whenever the last connection has ended by which anything was said.
            Whoever only looks whether somebody listens says nothing.
    """

    def __init__(self, mapping: Mapping[str, Handler], on_deserted: Callable[[], None]) -> None:
        super().__init__([], codec=WireCodec())
        self._mapping = _Methods(mapping)
        self._on_deserted = on_deserted
        self.live: set[asyncio.Transport] = set()
        self._speaking: set[asyncio.Transport] = set()
        self.deserted = asyncio.Event()
        """Nobody who has said anything holds a connection, or not any more."""
        self.deserted.set()

    def hear(self, transport: asyncio.Transport) -> None:
        """Something has been said by a connection."""
        self._speaking.add(transport)
        self.deserted.clear()

    def lose(self, transport: asyncio.Transport) -> None:
        """A connection has ended."""
        self.live.discard(transport)
        if transport in self._speaking:
            self._speaking.discard(transport)
            if not self._speaking:
                self.deserted.set()
                self._on_deserted()

    def _protocol_factory(self) -> H2Protocol:
        return TrackedProtocol(super()._protocol_factory(), self)


class _Methods(dict[str, Handler]):
    """Methods by path; grpclib's own answer to an unknown one lacks a header that grpc-go wants."""

    def get(self, path: str, default: object = None) -> Handler:  # noqa: ARG002 - that of a dict
        """The handler of a method, or one that answers UNIMPLEMENTED."""
        return super().get(path, _UNKNOWN_METHOD)


async def _refuse(_: Any) -> None:
    raise GRPCError(Status.UNIMPLEMENTED, "unknown method")


_UNKNOWN_METHOD = Handler(_refuse, Cardinality.UNARY_UNARY, pb.Empty, pb.Empty)
