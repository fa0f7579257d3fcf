from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.aio import run

from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.simulation import node_control
from gpu_device_plugin.simulation.node_control import Json, ask, serve_control
from gpu_device_plugin.threads import in_thread


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="control-") as directory:
        yield os.path.join(directory, "control")


async def echo(request: Json) -> Json:
    return {"said": request["text"]}


async def refuse(_request: Json) -> Json:
    raise UserError("not today", "tomorrow")


HANDLERS = {"echo": echo, "refuse": refuse}


def answers_to(path: str, *requests: bytes) -> list[Json]:
    """What bytes from a raw connection are answered with."""

    async def story() -> list[Json]:
        answers = list[Json]()
        async with serve_control(path, HANDLERS):
            for request in requests:
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(request)
                writer.write_eof()
                answers.append(json.loads(await reader.read() or b"{}"))
                writer.close()
        return answers

    return run(story())


def test_requests_are_answered(path: str) -> None:
    async def story() -> Json:
        async with serve_control(path, HANDLERS):
            return await in_thread("ask", lambda: ask(path, {"do": "echo", "text": "ä"}))

    assert run(story()) == {"ok": True, "said": "ä"}
    assert not os.path.exists(path)


def test_a_refusal_is_told_with_its_hint(path: str) -> None:
    async def story() -> None:
        async with serve_control(path, HANDLERS):
            await in_thread("ask", lambda: ask(path, {"do": "refuse"}))

    with pytest.raises(ConfigError, match=r"not today \(tomorrow\)"):
        run(story())


def test_what_is_no_request_does_no_harm(path: str) -> None:
    requests = (b"{\n", b"[]\n", b'{"do": "x"}\n', b"", b"\xff\n", b'{"do": "echo"}\n')

    assert [answer["ok"] for answer in answers_to(path, *requests)] == [False] * 6
    assert answers_to(path, b'{"do": "x"}\n')[0]["hint"] == "echo, refuse"
    assert answers_to(path, b"x" * 100_000) == [{}]


def test_a_node_that_is_not_there_is_told(path: str) -> None:
    with pytest.raises(ConfigError, match=r"does not answer at .*: No such file"):
        ask(path, {"do": "echo"})


def test_a_node_that_hangs_is_told(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_control, "ANSWER_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()
        with pytest.raises(ConfigError, match="timed out"):
            ask(path, {"do": "echo"})


def test_a_node_that_ends_meanwhile_is_told(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()

        def close() -> None:
            server.accept()[0].close()

        closer = threading.Thread(target=close)
        closer.start()
        with pytest.raises(ConfigError, match="does not answer"):
            ask(path, {"do": "echo"})
        closer.join()


def test_nobody_but_this_user_gets_there(path: str) -> None:
    assert os.stat(Path(path).parent).st_mode & 0o077 == 0
