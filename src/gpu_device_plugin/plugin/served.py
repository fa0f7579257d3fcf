"""One resource being served: its socket, its registration, and what keeps both alive."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet.client import KubeletUnreachable, RegistrationRefused, register
from gpu_device_plugin.kubelet.transport import UnixServer, plugin_server
from gpu_device_plugin.plugin.gate import Gate, OpenGate
from gpu_device_plugin.plugin.kubelet_socket import Identity, KubeletSocket
from gpu_device_plugin.plugin.parting import Parting
from gpu_device_plugin.plugin.service import ResourceService
from gpu_device_plugin.telemetry import Listener, Outcome, Registered, nobody

log = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds after which the loss of streams or of the socket counts, if no kubelet came up anew.

A kubelet that starts removes all sockets of its directory first and makes its own last; within
that time its new socket shows and everything is registered there."""

CONFUSED = 2.0
"""Seconds after a registration in which a kubelet may mistake it for the one before.

It then cuts the connection, and may be told again soon; see `parting`."""

SOON = 0.2
"""Seconds after which it is told again."""

LOOK_SECONDS = 5.0
"""How often a process that was overtaken looks whether the other one lives."""

LASTING = 60.0
"""Seconds after which a registration counts as one that has lasted."""

FIRST_STREAM = 30.0
"""Seconds after a registration in which the kubelet is expected to open a stream."""

Register = Callable[[str, str, str], Awaitable[None]]


class State(StrEnum):
    """How far a resource has come."""

    GATED = "waiting for what it needs"
    WAITING = "waiting for the kubelet"
    REGISTERED = "registered"
    REFUSED = "refused by the kubelet"
    FAILED = "cannot be served"
    UNREGISTERED = "served without registration"
    STOPPED = "stopped"


class ServedResource:
    """Serves a resource and keeps it registered until it is stopped."""

    def __init__(
        self,
        service: ResourceService,
        kubelet: KubeletSocket,
        socket_path: str,
        register_with: Register = register,
        gate: Gate | None = None,
        tell: Listener = nobody,
        parting: Parting | None = None,
    ) -> None:
        self.service = service
        self.state = State.WAITING
        self.registered_with: Identity | None = None
        """The kubelet that was last told of this resource, successfully or not."""
        self._kubelet = kubelet
        self._socket_path = socket_path
        self._register = register_with
        self._gate = gate or OpenGate()
        self._tell = tell
        self._parting = parting or Parting()
        self._server: UnixServer = plugin_server(service)
        self._server.on_deserted = self._note_desertion
        self._task: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        """No registration waits for the kubelet's answer."""
        self._answered.set()
        self._poked = asyncio.Event()
        self._registered_at = 0.0
        self._is_overtaken = False
        self._has_served = False
        self._losses = Backoff(GRACE, 30)

    @property
    def leftover(self) -> str:
        """Why the socket could not be removed; empty if it could."""
        return self._server.leftover

    @property
    def name(self) -> str:
        """Name of the resource."""
        return self.service.resource.name

    def start(self) -> None:
        """Begins to serve."""
        self._task = asyncio.create_task(self._run(), name=f"serve {self.name}")

    def poke(self) -> None:
        """Tells that something in the directories has changed."""
        self._poked.set()

    async def stop(self, *, at_once: bool = False) -> None:
        """Ends all streams and removes the socket, if it is still ours.

        Args:
            at_once: do not wait until the kubelet has noticed it. It has to notice it before the
                same resource is registered again.
        """
        limit = 0.0 if at_once else self._parting_limit()
        if self._task is not None:
            # A registration that is broken off is taken back by the kubelet later: by its name.
            with suppress(TimeoutError):
                async with asyncio.timeout_at(limit):
                    await self._answered.wait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._part(limit)
        self.state = State.STOPPED

    async def retire(self, limit: float) -> None:
        """Tells the kubelet that there are no devices any more, then stops."""
        await self.service.board.retire(limit)
        await self.stop()

    def _parting_limit(self) -> float:
        """The time of the loop until which the kubelet may take note of an end."""
        kubelet = self._kubelet.identity()
        # One that has come up anew has no books that it could confuse.
        wait = self._parting.seconds(kubelet) if kubelet == self.registered_with else 0.0
        return asyncio.get_running_loop().time() + wait

    async def _part(self, limit: float | None = None) -> None:
        """Ends the streams, waits until the kubelet has taken note, then cuts what is left."""
        self.service.board.close()
        await self._parting.end(self._server, self._parting_limit() if limit is None else limit)

    def _note_desertion(self) -> None:
        """A kubelet that hangs up without having opened a stream will not open one."""
        if not self.service.board.open_streams:
            self.service.streams_ended.set()

    async def _run(self) -> None:
        unreachable, refused, failed = Backoff(0.1, 5), Backoff(2, 30), Backoff(1, 30)
        told = ""
        while True:
            try:
                await self._wait_for_gate()
                await self._wait_for_kubelet()
                await self._serve()
                unreachable.reset()
                refused.reset()
                failed.reset()
                told = ""
                if await self._until_lost():
                    continue
                pause = 0.0
            except KubeletUnreachable as error:
                pause, told = unreachable.next(), ""
                self._give_up(State.WAITING, error, pause, quiet=unreachable.attempts > 1)
            except RegistrationRefused as error:
                pause, told = refused.next(), ""
                self._give_up(State.REFUSED, error, pause)
            except OSError as error:
                pause = failed.next()
                is_known, told = str(error) == told, str(error)
                self._give_up(State.FAILED, error, pause, quiet=is_known)
            except Exception:
                log.exception("serving failed resource=%s", self.name)
                self.state = State.FAILED
                self._tell(Registered(self.name, Outcome.FAILED))
                pause, told = failed.next(), ""
            await self._part()
            await asyncio.sleep(pause)

    def _give_up(
        self, state: State, error: UserError | OSError, pause: float, *, quiet: bool = False
    ) -> None:
        self.state = state
        outcome = Outcome.REFUSED if state is State.REFUSED else Outcome.FAILED
        self._tell(Registered(self.name, outcome))
        level = logging.DEBUG if quiet else logging.ERROR
        log.log(
            level,
            "%s; next attempt in %.1f s resource=%s reason=%r",
            *(state, pause, self.name, str(error)),
        )

    async def _wait_for_gate(self) -> None:
        if self.state is not State.REGISTERED:
            self.state = State.GATED
        await self._gate.ready()

    async def _wait_for_kubelet(self) -> None:
        if not self._kubelet.is_wanted or self._kubelet.identity() is not None:
            return
        self.state = State.WAITING
        await self._part()
        log.info("waiting for the kubelet resource=%s socket=%s", self.name, self._kubelet.path)
        while self._kubelet.identity() is None:
            self._poked.clear()
            await self._poked.wait()

    async def _serve(self) -> None:
        if not self._server.owns_socket():
            await self._part()
            self.service.board.open()
            await self._server.start(self._socket_path)
            self._is_overtaken = False
            level = logging.DEBUG if self._has_served else logging.INFO
            log.log(level, "serving resource=%s socket=%s", self.name, self._socket_path)
            self._has_served = True
        if not self._kubelet.is_wanted:
            self.state = State.UNREGISTERED
            log.info("not registered, as --kubelet-socket is empty resource=%s", self.name)
            return
        self.registered_with = self._kubelet.identity()
        self.service.streams_ended.clear()
        self._registered_at = asyncio.get_running_loop().time()
        self._answered.clear()
        try:
            await self._register(self._kubelet.path, os.path.basename(self._socket_path), self.name)
        finally:
            self._answered.set()
        self.state = State.REGISTERED
        self._tell(Registered(self.name, Outcome.OK))
        log.info("registered resource=%s devices=%d", self.name, self.service.resource.size)

    async def _until_lost(self) -> bool:
        """Returns when this resource has to be registered once more.

        Returns:
            Whether it can go on being served meanwhile; not so when its gate has closed.
        """
        kubelet = asyncio.create_task(self._kubelet_lost(), name=f"registration {self.name}")
        gate = asyncio.create_task(self._gate.lost(), name=f"gate {self.name}")
        try:
            await asyncio.wait({kubelet, gate}, return_when=asyncio.FIRST_COMPLETED)
            if not gate.done():
                return True
            self.state = State.GATED
            log.warning("not served any more resource=%s reason=%r", self.name, gate.result())
            return False
        finally:
            kubelet.cancel()
            gate.cancel()
            await asyncio.gather(kubelet, gate, return_exceptions=True)

    async def _kubelet_lost(self) -> None:
        """Returns when the kubelet does not reach this resource any more."""
        while True:
            self._poked.clear()
            if self._loss() is not None:
                await asyncio.sleep(self._patience())
                reason = self._loss()
                if reason is not None:
                    log.warning("registering again resource=%s reason=%r", self.name, reason)
                    return
            await self._next_change()

    def _patience(self) -> float:
        """How long to wait before a loss counts; longer each time if nothing lasts."""
        age = asyncio.get_running_loop().time() - self._registered_at
        if age < CONFUSED and not self._losses.attempts and self._server.owns_socket():
            self._losses.next()
            return SOON
        if age > LASTING:
            self._losses.reset()
        return max(GRACE, self._losses.next())

    async def _next_change(self) -> None:
        """Waits for a poke, for the end of the last stream, or in vain for the first one."""
        ended, opened = self.service.streams_ended, self.service.stream_opened
        # Streams that have ended already are no news; then only a poke can bring some.
        events = [self._poked] if ended.is_set() else [self._poked, ended]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        limit = None if opened.is_set() or not self._kubelet.is_wanted else FIRST_STREAM
        if self._is_overtaken:
            limit = LOOK_SECONDS
        try:
            done, _ = await asyncio.wait(waits, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if not done and not opened.is_set() and not self._is_overtaken:
                ended.set()
        finally:
            for wait in waits:
                wait.cancel()

    def _loss_to_another(self) -> str | None:
        """Another plugin process has taken over: it is the one to be registered while it lives."""
        if self._server.successor_is_dead():
            return "the plugin process that took its socket over has died"
        if not self._is_overtaken:
            self._is_overtaken = True
            log.info("another plugin process serves now resource=%s", self.name)
        return None

    def _loss(self) -> str | None:
        """Why the kubelet does not reach this resource any more; None if it does."""
        if self._server.socket_missing():
            return "its socket has been removed"
        if not self._server.owns_socket():
            return self._loss_to_another()
        if not self._kubelet.is_wanted or self._kubelet.identity() != self.registered_with:
            return None  # a kubelet that has gone or come up anew is the supervisor's business
        if self.service.streams_ended.is_set():
            return "the kubelet has no stream open"
        return None
