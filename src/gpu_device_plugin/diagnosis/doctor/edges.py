"""Questions of the doctor to the system that are not about files; each has a time limit."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import resource
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
API_SECONDS = 8.0
LARGEST_ANSWER = 65536
"""Bytes that are read of a probe of the plugin."""

_ADJTIMEX_BYTES = 208
"""Size of ``struct timex`` on 64-bit Linux; all zeros ask and change nothing."""
_TIME_ERROR = 5
"""The clock is not synchronised (adjtimex(2))."""


@dataclass(frozen=True, slots=True)
class Space:
    """A file system, in bytes."""

    total: int
    free: int
    is_read_only: bool


def connect(path: str) -> str:
    """Why nobody takes connections at a unix socket; empty if somebody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(path)
        except TimeoutError:
            return f"no connection within {CONNECT_SECONDS:g} s"
        except OSError as error:
            return _why_not(error)
    return ""


def _why_not(error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return "nobody listens there any more"
    return error.strerror or str(error)


def ask_plugin(path: str) -> str:
    """Why a device plugin does not answer GetDevicePluginOptions; empty if it does.

    Nothing else is asked: the original's plugin loses health events to a second stream.
    """
    return asyncio.run(_ask_plugin(path))


async def _ask_plugin(path: str) -> str:
    from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb  # noqa: PLC0415 - heavy
    from gpu_device_plugin.kubelet.client import (  # noqa: PLC0415 - heavy
        FAILURES,
        PluginClient,
        channel,
        describe,
    )

    try:
        async with asyncio.timeout(ANSWER_SECONDS), channel(path) as connection:
            await PluginClient(connection).options(pb.Empty())
    except TimeoutError:
        return f"no answer to GetDevicePluginOptions within {ANSWER_SECONDS:g} s"
    except OSError as error:
        return _why_not(error)
    except FAILURES as error:
        return f"GetDevicePluginOptions: {describe(error)}"
    return ""


def get_url(url: str, token_file: str) -> tuple[int, str]:
    """Status and body of an answer over HTTP or HTTPS, whoever vouches for the server.

    Args:
        url: what is asked for, on this machine.
        token_file: holds a bearer token to send; empty for none.

    Raises:
        UserError: there is no answer, or the token cannot be used.
    """
    return asyncio.run(_get_url(url, token_file))


async def _get_url(url: str, token_file: str) -> tuple[int, str]:
    from urllib.parse import urlsplit  # noqa: PLC0415 - for this check

    from gpu_device_plugin.kube.access import Tls  # noqa: PLC0415 - as above
    from gpu_device_plugin.kube.connection import Connection, Endpoint, Request  # noqa: PLC0415
    from gpu_device_plugin.kube.errors import ApiUnreachable  # noqa: PLC0415 - as above
    from gpu_device_plugin.kube.tls import make_context  # noqa: PLC0415 - as above
    from gpu_device_plugin.status.remote_source import read_token  # noqa: PLC0415 - as above

    parts = urlsplit(url)
    headers = [("Host", parts.netloc), ("Connection", "close")]
    if token_file:
        headers.append(("Authorization", f"Bearer {read_token(token_file)}"))
    # What is asked is on this machine, and the answer gives nothing away.
    tls = make_context(Tls(verify=False)) if parts.scheme == "https" else None
    endpoint = Endpoint(parts.hostname or "", parts.port or 0, tls, what="the plugin")
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            await Connection.open(endpoint, ANSWER_SECONDS) as connection,
        ):
            head = await connection.send(Request("GET", parts.path, tuple(headers)))
            body = await connection.whole_body(LARGEST_ANSWER)
    except TimeoutError:
        raise ApiUnreachable(f"no answer within {ANSWER_SECONDS:g} s") from None
    return head.status, body.decode("utf-8", "replace")


def open_inotify() -> str:
    """Why no further inotify instance can be had; empty if one can."""
    from gpu_device_plugin.watch.inotify import Inotify  # noqa: PLC0415 - for this check

    try:
        Inotify().close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def ask_mps(root: str, resource_name: str, command: str) -> tuple[bool, str]:
    """Gives a command, which changes nothing, to the MPS daemon of a resource.

    Returns:
        Whether it answers, and what it says, or why it does not.
    """
    from gpu_device_plugin.mps.names import DaemonFiles  # noqa: PLC0415 - for this check
    from gpu_device_plugin.mps.tool import ControlTool, ToolError  # noqa: PLC0415 - as above

    control = ControlTool(seconds=ANSWER_SECONDS)
    try:
        outcome = asyncio.run(control.command(DaemonFiles(root, resource_name), command))
    except ToolError as error:
        return False, str(error)
    return True, outcome.text


def get_node(kubeconfig: str, environ: Mapping[str, str], name: str) -> Json:
    """The node's object of the Kubernetes API; raises KubeError."""
    from gpu_device_plugin.kube.once import get_node as get  # noqa: PLC0415 - for this check

    return get(kubeconfig, environ, name, program="gpu-node", seconds=API_SECONDS)


def is_clock_synchronised() -> bool | None:
    """Whether the kernel's clock follows a reference; None if that cannot be told."""
    buffer = ctypes.create_string_buffer(_ADJTIMEX_BYTES)
    try:
        state = int(ctypes.CDLL(None, use_errno=True).adjtimex(buffer))
    except (AttributeError, OSError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def now() -> float:
    """Seconds since 1970."""
    return time.time()


def space(path: str) -> Space:
    """The file system that a path is on; raises OSError."""
    found = os.statvfs(path)
    return Space(
        total=found.f_blocks * found.f_frsize,
        free=found.f_bavail * found.f_frsize,
        is_read_only=bool(found.f_flag & os.ST_RDONLY),
    )


def open_files() -> tuple[int, int]:
    """How many files a process like this one may have open: soft and hard limit, -1 for any."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def can_write(path: str) -> bool:
    """Whether this process may make files in a directory."""
    return os.access(path, os.W_OK | os.X_OK)


def find_program(name: str) -> str | None:
    """The path of a program, looked up in PATH."""
    from gpu_device_plugin.mps.processes import find_program as find  # noqa: PLC0415 - heavy

    return find(name)
