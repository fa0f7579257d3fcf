"""Where a running simulated node has its files, and how it is found by whoever talks to it.

::

    DIRECTORY/                  0700
        node.json               what runs there; made when it has started, gone when it has ended
        lock                    locked as long as it runs
        control                 the socket of `node_control`
        events                  lines that make things go wrong (see `hardware.simulated.events`)
        pod-resources           the kubelet's socket that tells who holds what
        device-plugins/         the kubelet's socket and those of the plugin
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError

SCHEMA = "gpu-node/simulated/v1"
NAME = "gpu-node-simulated"
LONGEST = 60
"""Bytes of the directory's path: a socket's may have 107, and a plugin's has a long name."""
TRIES, PAUSE = 5, 0.05
"""How often and how long to wait for the lock, which those who look hold for a moment."""


class NotRunning(ConfigError):
    """No simulated node runs there."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node that runs."""

    profile: str
    """Name of a built-in one, or the absolute path of a file."""
    pid: int
    kubelet_socket: str
    pod_resources_socket: str
    events_file: str
    url: str = ""
    """Of the page; empty if there is none, or not yet."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The files of a node."""

    directory: str

    def path(self, name: str) -> str:
        """The path of one of them."""
        return os.path.join(self.directory, name)

    @property
    def sockets(self) -> str:
        """The directory of the kubelet and the plugin."""
        return self.path("device-plugins")

    @property
    def control(self) -> str:
        """The socket for requests to the node."""
        return self.path("control")

    @property
    def events(self) -> str:
        """The file of faults."""
        return self.path("events")

    @property
    def pod_resources(self) -> str:
        """The kubelet's socket that tells who holds what."""
        return self.path("pod-resources")

    @property
    def state_file(self) -> str:
        """What tells that a node runs."""
        return self.path("node.json")

    def prepare(self) -> bool:
        """Makes the directory, for this user alone; whether it was not there before.

        Raises:
            ConfigError: it cannot be used.
        """
        is_new = not os.path.lexists(self.directory)
        shown = one_line(self.directory)
        if len(os.fsencode(self.directory)) > LONGEST:
            hint = f"--directory with at most {LONGEST} bytes: sockets have short paths"
            raise ConfigError(f"{shown}: the path is too long", hint)
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            found = os.lstat(self.directory)
        except OSError as error:
            raise self._unusable(f"cannot be made: {error.strerror}") from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise self._unusable("is not a directory of yours")
        if found.st_mode & 0o022:
            raise self._unusable("may be written by others")
        return is_new

    def furnish(self) -> None:
        """Makes what a node needs; faults of one before it say nothing."""
        os.makedirs(self.sockets, mode=0o700, exist_ok=True)
        with open(self.events, "w", encoding="utf-8"):
            """Nothing has gone wrong yet."""

    def _unusable(self, why: str) -> ConfigError:
        return ConfigError(f"{one_line(self.directory)} {why}", "--directory names another one")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps the place for one node.

        Raises:
            ConfigError: another node runs there.
        """
        fd = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _try_lock(fd, fcntl.LOCK_EX):
                raise ConfigError(
                    f"a simulated node runs in {one_line(self.directory)} already",
                    "end it with gpu-node simulate --stop, or use --directory for another one",
                )
            yield
        finally:
            os.close(fd)

    def clear(self, *, with_directory: bool) -> None:
        """Removes what a node that has ended has left, and the directory if nothing else is there."""
        for name in ("node.json", "control", "events", "pod-resources", "lock"):
            with suppress(FileNotFoundError):
                os.unlink(self.path(name))
        with suppress(OSError):
            for name in os.listdir(self.sockets):
                os.unlink(os.path.join(self.sockets, name))
            os.rmdir(self.sockets)
            if with_directory:
                os.rmdir(self.directory)

    def save(self, state: NodeState) -> None:
        """Tells that a node runs; whoever reads sees all of it or nothing."""
        fresh = self.state_file + ".new"
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, **asdict(state)}, file, indent=2)
            file.write("\n")
        os.replace(fresh, self.state_file)

    def running(self) -> NodeState:
        """The node that runs there.

        Raises:
            NotRunning: none does.
        """
        if self._is_locked():
            # It has the lock a moment before it tells.
            for _ in range(TRIES):
                try:
                    with open(self.state_file, encoding="utf-8") as file:
                        data = json.load(file)
                    return NodeState(**{k: v for k, v in data.items() if k != "schema"})
                except (OSError, ValueError, TypeError):
                    time.sleep(PAUSE)
        raise NotRunning(
            f"no simulated node runs in {one_line(self.directory)}",
            "start one with gpu-node simulate, or name its --directory",
        )

    def _is_locked(self) -> bool:
        try:
            fd = os.open(self.path("lock"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


def _try_lock(fd: int, kind: int) -> bool:
    for _ in range(TRIES):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        else:
            return True
    return False


def default_directory(environ: Mapping[str, str]) -> str:
    """Where a node is if nobody says otherwise: a place of this user's alone."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and os.path.isdir(runtime):
        return os.path.join(runtime, NAME)
    return os.path.join(tempfile.gettempdir(), f"{NAME}-{os.geteuid()}")
