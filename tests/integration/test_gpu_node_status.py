"""``gpu-node status``, ``devices`` and ``pods`` beside the real plugin and a simulated kubelet."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from support.aio import run
from support.commands import ENVIRON, LIMIT, RUN, Done, gpu_node
from support.local_statuses import everything, hardware, held, status_of, uuids
from support.process import PluginProcess, plugin
from support.serving import allocatable
from support.watchdog import limited

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import Container, PodSpec
from gpu_device_plugin.status.document import from_json, to_json
from gpu_device_plugin.status.model import Pods

GPU = "nvidia.com/gpu"
SHARED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""


def started(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-c", RUN, *arguments]


async def asked(*arguments: str | Path, **environ: str) -> Done:
    return await asyncio.to_thread(gpu_node, *arguments, **environ)


@dataclass
class Node:
    """A node with its kubelet, and how the command is told of it."""

    kubelet: SimulatedKubelet
    program: PluginProcess
    options: tuple[str, ...]
    events: Path

    async def ask(self, *arguments: str) -> Done:
        return await asked(*arguments, *self.options)


@asynccontextmanager
async def a_node(tmp_path: Path, config: str = "", profile: str = "t4x4") -> AsyncIterator[Node]:
    directory = tmp_path / "plugins"
    directory.mkdir()
    socket, events = tmp_path / "pods.sock", tmp_path / "events"
    options = [f"--simulate={profile}", "--mig-strategy=mixed"]
    if config:
        (tmp_path / "config.yaml").write_text(config)
        options.append(f"--config-file={tmp_path / 'config.yaml'}")
    async with (
        SimulatedKubelet(str(directory), pod_resources_socket=str(socket)) as kubelet,
        plugin(directory, *options, environ={"GPU_NODE_SIMULATE_EVENTS": str(events)}) as program,
    ):
        await kubelet.until(
            lambda view: any(r.allocatable for r in view.resources.values()), "devices"
        )
        yield Node(kubelet, program, (*options, f"--pod-resources-socket={socket}"), events)


# ------------------------------------------------------------------ a node


def test_pods_are_told_with_their_gpus(tmp_path):
    async def work():
        async with a_node(tmp_path) as node:
            containers = (Container("one", {GPU: 1}), Container("two", {GPU: 2}))
            await node.kubelet.admit(PodSpec("train", containers, "ml"))
            await node.kubelet.admit(PodSpec.of("web", {GPU: 1}))
            return (
                await node.ask("pods"),
                await node.ask("pods", "-n", "ml", "-o", "json"),
                await node.ask("pods", "--namespace=none"),
            )

    everybody, ml, nobody = run(work())

    assert (everybody.code, everybody.err) == (0, "")
    assert [row[:3] for row in everybody.rows] == [
        ["default", "web", "main"],
        ["ml", "train", "one"],
        ["ml", "train", "two"],
        ["ml", "train", "two"],
    ]
    assert sorted(row[3] for row in everybody.rows) == ["0", "1", "2", "3"]
    containers = json.loads(ml.out)["containers"]
    assert [(c["container"], len(c["devices"])) for c in containers] == [("one", 1), ("two", 2)]
    assert (nobody.code, nobody.out) == (0, "")
    assert nobody.err == "note: no such pod holds a device of this node\n"


def test_replicas_are_told_by_their_numbers(tmp_path):
    async def work():
        async with a_node(tmp_path, SHARED) as node:
            await node.kubelet.admit(PodSpec.of("train", {GPU: 8}))
            return await node.ask("devices"), await node.ask("pods", "-o", "yaml")

    devices, pods = run(work())

    assert [row[4] for row in devices.rows] == ["2/4"] * 4
    held = yaml.safe_load(pods.out)["containers"][0]["devices"]
    assert [len(device["replicas"]) for device in held] == [2] * 4


def test_mig_devices_are_told_with_their_profiles(tmp_path):
    async def work():
        async with a_node(tmp_path, profile="dgx-a100-mig") as node:
            await node.kubelet.until(
                lambda view: view.resource("nvidia.com/mig-1g.5gb").allocatable > 0, "slices"
            )
            await node.kubelet.admit(PodSpec.of("train", {"nvidia.com/mig-1g.5gb": 1}))
            return await node.ask("pods")

    (row,) = run(work()).rows

    assert row[7] == "1g.5gb"
    assert ":" in row[3]


def test_a_broken_gpu_comes_first_and_fails_a_check(tmp_path):
    async def work():
        async with a_node(tmp_path) as node:
            await node.kubelet.admit(PodSpec.of("train", {GPU: 4}))
            before = await node.ask("status", "--check")
            node.events.write_text("xid 2 79\n")
            await node.kubelet.until(allocatable(3), "the broken GPU")
            return before, await node.ask("status", "--check"), await node.ask("devices")

    before, after, devices = run(work())

    assert before.code == 0
    assert before.out.splitlines()[0].endswith(": well")
    assert after.code == 3
    assert after.out.splitlines()[0].endswith(": NOT WELL, 1 problem")
    assert after.out.splitlines()[3].startswith("! GPU 2 (nvidia.com/gpu): not handed out by")
    assert after.out.splitlines()[3].endswith("; held by default/train")
    assert [row[2] for row in devices.rows] == ["healthy", "healthy", "UNHEALTHY", "healthy"]


def test_the_status_is_a_document_that_can_be_read_again(tmp_path):
    async def work():
        async with a_node(tmp_path) as node:
            return await node.ask("status", "-o", "json"), await node.ask("status", "-o", "yaml")

    as_json, as_yaml = run(work())

    status = from_json(as_json.out)
    assert status.resources[0].allocatable == 4
    assert from_json(json.dumps(yaml.safe_load(as_yaml.out))).resources == status.resources


def test_a_pod_that_holds_what_is_not_offered_any_more_stays_visible(tmp_path):
    async def work():
        async with a_node(tmp_path, "version: v1\n") as node:
            await node.kubelet.admit(PodSpec.of("old", {GPU: 1}))
            (tmp_path / "config.yaml").write_text(SHARED)
            node.program.signal(signal.SIGHUP)
            await node.kubelet.until(allocatable(16), "replicas")
            return await node.ask("pods"), await node.ask("status", "--check")

    pods, status = run(work())

    (row,) = pods.rows
    assert row[:3] + row[4:7] == ["default", "old", "main", "-", "not", "offered"]
    assert f"default/old holds GPU {row[3]} as nvidia.com/gpu, as it is not offered" in status.out
    assert status.code == 0


def test_another_configuration_than_that_of_the_plugin_is_noticed(tmp_path):
    async def work():
        async with a_node(tmp_path, SHARED) as node:
            options = [each for each in node.options if "config-file" not in each]
            return await asked("devices", *options)

    done = run(work())

    assert done.err.startswith("warning: the kubelet offers other devices than this configuration")
    assert [row[4] for row in done.rows] == ["0/4"] * 4


# ------------------------------------------------------------------ without a kubelet


def test_without_the_socket_the_rest_is_told():
    socket = "--pod-resources-socket=/nowhere/s"

    devices = gpu_node("devices", "--simulate=t4x4", socket)
    pods = gpu_node("pods", "--simulate=t4x4", socket)
    status = gpu_node("status", "--simulate=t4x4", socket, "--check", NODE_NAME="node-7")

    reason = "which pods hold which devices is not known: the kubelet's socket /nowhere/s does"
    assert (devices.code, len(devices.rows)) == (0, 4)
    assert devices.err.startswith(f"warning: {reason} not exist (mount ")
    assert (pods.code, pods.out) == (1, "")
    assert pods.err.startswith(f"error: {reason}")
    assert status.code == 0
    assert status.out.startswith("node-7: health not known\n")


def test_a_lost_gpu_is_told(tmp_path):
    (tmp_path / "events").write_text("lost 2\n")

    done = gpu_node(
        *("status", "--simulate=t4x4", "--pod-resources-socket=", "--check"),
        GPU_NODE_SIMULATE_EVENTS=str(tmp_path / "events"),
    )

    assert done.code == 3
    assert "! GPU 2 cannot be read: " in done.out


def test_a_node_without_a_driver_is_told():
    done = gpu_node("status", "--simulate=no-driver", "--check", "--pod-resources-socket=")
    devices = gpu_node("devices", "--simulate=no-driver", "--pod-resources-socket=")

    assert done.code == 3
    assert "! not ready: no devices: " in done.out
    assert (devices.code, devices.out) == (0, "")
    assert devices.err.endswith("note: no such device is offered on this node\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="root may open every socket, and may become another")
def test_a_socket_that_may_not_be_used_is_told(tmp_path):
    directory = tmp_path / "closed"
    directory.mkdir()
    directory.chmod(0o700)

    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--", *started("pods", "--simulate=t4x4")],
        check=False,
        capture_output=True,
        encoding="utf-8",
        env=ENVIRON | {"GPU_NODE_POD_RESOURCES_SOCKET": str(directory / "s")},
        timeout=LIMIT,
    )
    if done.returncode != 1 or not done.stderr.startswith("error: "):
        pytest.skip("another user cannot run the program here")

    assert "may not be used by uid 65534 (it belongs to root: run as root" in done.stderr


# ------------------------------------------------------------------ a running program


class Program:
    """Something that answers as the port of a program does, in a thread of its own."""

    def __init__(self, *answers: bytes, seconds: float = 0) -> None:
        self._answers = list(answers)
        self._seconds = seconds
        self._stopped = threading.Event()

    def __enter__(self) -> str:
        program = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                program._stopped.wait(program._seconds)
                answers = program._answers
                body = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(200 if body else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()


def document(*sick: int) -> bytes:
    read = hardware()
    ids = [uuids(read)[n] for n in sick]
    containers = [held("train", uuids(read)[0])]
    return to_json(status_of(read, containers, everything(read, but=ids))).encode()


def test_a_running_program_can_be_asked():
    with Program(document(2)) as address:
        status = gpu_node("status", "--address", address, "--check")
        pods = gpu_node("pods", GPU_NODE_ADDRESS=address)

    assert status.code == 3
    assert status.out.startswith("node-1: NOT WELL, 1 problem\n")
    assert [row[:4] for row in pods.rows] == [["ml", "train", "main", "0"]]


def test_a_program_that_does_not_ask_the_kubelet_cannot_tell_of_pods():
    silent = from_json(document())
    body = to_json(replace(silent, program="config-manager", pods=Pods(asked=False))).encode()
    with Program(body) as address:
        done = gpu_node("pods", "--address", address)

    assert done.code == 1
    assert "config-manager has not asked the kubelet (nvidia-device-plugin asks it" in done.err


def test_options_of_the_plugin_win_over_the_variable_with_an_address():
    done = gpu_node(
        "devices", "--simulate=t4x4", "--pod-resources-socket=", GPU_NODE_ADDRESS="127.0.0.1:1"
    )

    assert len(done.rows) == 4


def test_an_empty_address_is_none():
    done = gpu_node(
        "devices",
        "--address=",
        GPU_NODE_ADDRESS="127.0.0.1:1",
        GPU_NODE_SIMULATE="t4x4",
        GPU_NODE_POD_RESOURCES_SOCKET="",
    )

    assert len(done.rows) == 4


# ------------------------------------------------------------------ terminals


class Terminal:
    """A program on a terminal, and what it shows."""

    def __init__(self, *arguments: str, columns: int = 100, rows: int = 30, **environ: str) -> None:
        self._parent, child = pty.openpty()
        termios.tcsetwinsize(child, (rows, columns))
        self.shown = ""
        self.process = subprocess.Popen(
            started(*arguments),
            stdin=child,
            stdout=child,
            stderr=child,
            env=ENVIRON | {"TERM": "xterm"} | environ,
            start_new_session=True,
        )
        os.close(child)
        self._limit = ExitStack()
        self._limit.enter_context(limited(self.process))

    def until(self, text: str) -> str:
        """Reads until a text has been shown; everything so far."""
        deadline = time.monotonic() + LIMIT
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            ready, _, _ = select.select([self._parent], [], [], 0.1)
            if ready and not self._read():
                break
        assert text in self.shown, self.shown
        return self.shown

    def _read(self) -> bool:
        try:
            data = os.read(self._parent, 65536)
        except OSError:
            return False
        self.shown += data.decode()
        return bool(data)

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self._parent, (rows, columns))
        self.process.send_signal(signal.SIGWINCH)

    def end(self, number: signal.Signals | None = None) -> int:
        """The exit code, after a signal if one is given; all that was shown is read."""
        if number is not None:
            self.process.send_signal(number)
        with self._limit:
            while self._read():
                pass
            os.close(self._parent)
            return self.process.wait(LIMIT)


def test_tables_fit_the_terminal_and_have_colours():
    with Program(document(2)) as address:
        terminal = Terminal("devices", "--address", address, columns=70)
        code = terminal.end()

    assert code == 0
    assert "\x1b[31mUNHEALTHY\x1b[0m" in terminal.shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    assert max(len(line) for line in plain.splitlines()) <= 70


def test_no_colours_where_they_are_not_wanted():
    with Program(document(2)) as address:
        terminal = Terminal("devices", "--address", address, NO_COLOR="1")
        terminal.end()

    assert "\x1b" not in terminal.shown


def test_what_takes_long_is_told_meanwhile():
    with Program(document(), seconds=1.3) as address:
        terminal = Terminal("devices", "--address", address)
        code = terminal.end()

    assert code == 0
    note = f"asking the program at http://{address} ...\r\x1b[K"
    assert terminal.shown.startswith(note)


def test_a_watch_redraws_and_ends_by_ctrl_c_with_the_last_picture():
    with Program(document(), document(2)) as address:
        terminal = Terminal("status", "--address", address, "--watch=0.1")
        terminal.until("node-1\x1b[0m: \x1b[31mNOT WELL, 1 problem")
        code = terminal.end(signal.SIGINT)

    assert code == 130
    assert "every 0.1 s, Ctrl-C ends" in terminal.shown
    drawn, left = terminal.shown.split("\x1b[?1049l")
    assert drawn.startswith("\x1b[?1049h")
    assert "NOT WELL, 1 problem" in left
    assert "Traceback" not in terminal.shown


def test_a_watch_goes_on_while_the_program_is_away():
    with Program(document(), b"", document(2)) as address:
        terminal = Terminal("status", "--address", address, "--watch=0.1")
        terminal.until("refuses its status: 503")
        terminal.until("NOT WELL")
        code = terminal.end(signal.SIGTERM)

    assert code == 128 + signal.SIGTERM
    assert "\x1b[?1049l" in terminal.shown


def test_a_watch_follows_the_size_of_the_terminal():
    with Program(document()) as address:
        terminal = Terminal("devices", "--address", address, "--watch=3600", columns=100, rows=20)
        terminal.until("GPU-")
        terminal.resize(40, 4)
        terminal.until("... 4 more lines")
        assert terminal.end(signal.SIGHUP) == 128 + signal.SIGHUP


def test_a_watch_of_pods_keeps_the_last_picture_while_the_kubelet_is_away(tmp_path):
    async def work():
        async with a_node(tmp_path) as node:
            await node.kubelet.admit(PodSpec.of("train", {GPU: 1}))
            terminal = Terminal("pods", "--watch=0.1", *node.options, columns=200)
            await asyncio.to_thread(terminal.until, "train")
            await node.kubelet.stop()
            await asyncio.to_thread(terminal.until, "does not exist")
            await node.kubelet.start()
            return terminal, terminal.end(signal.SIGINT)

    terminal, code = run(work())

    assert code == 130
    assert "\x1b[31merror\x1b[0m: which pods hold which devices is not known" in terminal.shown


# ------------------------------------------------------------------ streams


@contextmanager
def streaming(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with (
        subprocess.Popen(
            started(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=ENVIRON,
        ) as process,
        limited(process),
    ):
        yield process
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 130, (out, err)
        assert "Traceback" not in err


def test_a_watch_without_a_terminal_writes_blocks():
    with (
        Program(document(), document(2)) as address,
        streaming("status", "--address", address, "--watch=0.1") as process,
    ):
        assert process.stdout is not None
        lines = list[str]()
        while not any("NOT WELL" in line for line in lines):
            lines.append(next(process.stdout))

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", lines[0])
    assert lines[1] == "node-1: well\n"
    assert lines[lines.index("node-1: NOT WELL, 1 problem\n") - 2] == "\n"


def test_a_watch_of_data_writes_a_document_a_line():
    with (
        Program(document()) as address,
        streaming("pods", "--address", address, "--watch=0.1", "-o", "json") as process,
    ):
        assert process.stdout is not None
        documents = [json.loads(next(process.stdout)) for _ in range(3)]

    assert {each["schema"] for each in documents} == {"gpu-node/pods/v1"}


def test_a_watch_in_yaml_separates_documents():
    with (
        Program(document()) as address,
        streaming("pods", "--address", address, "--watch=0.1", "-o", "yaml") as process,
    ):
        assert process.stdout is not None
        text = ""
        while text.count("---\n") < 2:
            text += next(process.stdout)

    assert len([each for each in yaml.safe_load_all(text) if each]) == 2


def test_a_watch_whose_reader_goes_away_ends():
    command = " ".join(f"'{each}'" for each in started("status", "--simulate=t4x4", "--watch=0.1"))
    done = subprocess.run(
        ["bash", "-c", f"({command}; echo $? >&2) | head -1"],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env=ENVIRON | {"GPU_NODE_POD_RESOURCES_SOCKET": ""},
        timeout=LIMIT,
    )

    assert done.stderr.splitlines()[-1] == "141"


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["status", "-o", "xml"], 2, "invalid choice: 'xml'"),
        (["status", "--watch=0"], 2, "'0' is not a number of seconds from 0.1 to 86400"),
        (["status", "--watch=x"], 2, "'x' is not a number of seconds"),
        (["status", "--watch", "--check"], 2, "--check needs an end, and --watch has none"),
        (["status", "-n", "ml"], 2, "unrecognized arguments: -n ml"),
        (["pods", "here"], 2, "unrecognized arguments: here"),
        (["status", "--address=node-1"], 2, '--address "node-1" has no port'),
        (
            ["status", "--address=:1", "--simulate=t4x4"],
            2,
            "--simulate says nothing with --address",
        ),
        (["status", "--token-file=x"], 2, "--token-file says nothing without --address"),
        (["status", "--insecure"], 2, "--insecure says nothing without --address"),
        (["status", "--address=:1", "--insecure"], 2, "say nothing without https://"),
        (["status", "--simulate=nowhere"], 1, "there is no simulated node 'nowhere'"),
        (["status", "--config-file=/nowhere"], 1, "/nowhere: the configuration file cannot"),
        (["pods", "--address=127.0.0.1:1"], 1, "cannot be reached at 127.0.0.1:1"),
        (["status", "--mig-strategy=odd", "--simulate=t4x4"], 0, ""),
    ],
)
def test_mistakes(arguments, code, message):
    done = gpu_node(*arguments, GPU_NODE_POD_RESOURCES_SOCKET="")

    assert done.code == code
    assert message in done.err
    if code:
        assert not done.out
        assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["status", "devices", "pods"])
def test_the_help_fits_and_names_the_variables(command):
    done = gpu_node(command, "--help")

    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    for variable in ("GPU_NODE_ADDRESS", "GPU_NODE_TOKEN_FILE", "GPU_NODE_POD_RESOURCES_SOCKET"):
        assert variable in done.out
