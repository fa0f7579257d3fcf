"""HTTP/2 connections that end, and do nothing else, whatever the other side does."""

from __future__ import annotations

import asyncio
import logging

from grpclib.client import Channel
from grpclib.protocol import H2Protocol

log = logging.getLogger(__name__)


class CarefulProtocol(H2Protocol):
    """An HTTP/2 connection that what is no HTTP/2 only ends."""

    def __init__(self, made: H2Protocol) -> None:
        """Takes the place of a protocol that grpclib has made and not used."""
        super().__init__(made.handler, made.config, made.h2_config)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Takes what has come."""
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - whatever a broken program sends ends its connection only
            log.debug("a connection was cut: %s", error)
            if self._transport is not None:
                self._transport.abort()


class ClientChannel(Channel):
    """grpclib's channel, for other sides that close a connection as soon as it is made.

    grpclib 0.4.9 ends such a call with an AttributeError.
    """

    def _protocol_factory(self) -> H2Protocol:
        return CarefulProtocol(super()._protocol_factory())

    async def __connect__(self) -> H2Protocol:
        """The connection; raises OSError where there is none."""
        protocol = await super().__connect__()
        if protocol.processor.connection.is_closing():
            raise ConnectionResetError("it closes the connection at once")
        return protocol
