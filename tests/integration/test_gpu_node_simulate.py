"""``gpu-node simulate``: a node that runs, and what is done to it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.watchdog import LIMIT, limited

COMMAND = [sys.executable, "-c", "from gpu_device_plugin.programs.gpu_node import main; main()"]
READY = "Ctrl-C ends it."
GPU = "nvidia.com/gpu"


class RunningNode:
    """A node and what it has printed."""

    def __init__(self, directory: Path, *arguments: str, environ: dict[str, str]) -> None:
        self.directory = directory
        self.lines = list[str]()
        self._news = queue.Queue[str | None]()
        self.process = subprocess.Popen(
            [*COMMAND, "simulate", "--directory", directory, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environ},
        )
        self._limit = ExitStack()
        self._limit.enter_context(limited(self.process))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._news.put(line.rstrip("\n"))
        self._news.put(None)

    def until(self, condition: Callable[[str], bool] | str) -> str:
        """Waits for a line."""
        found = condition if callable(condition) else lambda line: condition in line
        while True:
            try:
                line = self._news.get(timeout=LIMIT)
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError("not printed: " + "\n".join(self.lines))
            self.lines.append(line)
            if found(line):
                return line

    def act(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return simulate("--directory", str(self.directory), *arguments)

    def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.act("--show").stdout)
        return shown

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Exit code, and what was on stderr."""
        assert self.process.stderr is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        with self._limit:
            errors = self.process.stderr.read()
            code = self.process.wait(LIMIT)
        self._reader.join()
        with suppress(queue.Empty):
            while (line := self._news.get_nowait()) is not None:
                self.lines.append(line)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        sys.stdout.write("\n".join(self.lines) + "\n" + errors)
        return code, errors


@contextmanager
def running(
    directory: Path, *arguments: str, environ: dict[str, str] | None = None
) -> Iterator[RunningNode]:
    node = RunningNode(directory, *arguments, environ=environ or {})
    try:
        node.until(READY)
        yield node
    finally:
        code, errors = node.end()
    assert (code, errors) == (0, "")


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "simulate", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


@pytest.fixture
def directory() -> Iterator[Path]:
    # pytest's own directories have names too long for a socket.
    with tempfile.TemporaryDirectory(prefix="simulate-") as path:
        yield Path(path) / "node"


def test_a_node_runs_and_serves_its_page_until_ctrl_c(directory: Path) -> None:
    with running(directory, "t4x4") as node:
        (url,) = (line.split()[1] for line in node.lines if line.startswith("  page "))
        with urllib.request.urlopen(f"{url}status.json", timeout=LIMIT) as answer:
            status = json.load(answer)
        shown = node.show()
        assert os.stat(directory).st_mode & 0o777 == 0o700

    assert [r["name"] for r in status["resources"]] == [GPU]
    assert shown["node"]["url"] == url
    assert shown["resources"][GPU]["allocatable"] == 4
    assert not directory.exists()


def test_faults_pods_and_restarts_come_to_the_node(directory: Path) -> None:
    with running(directory, "t4x4", "--metrics-address=", "--rescan-interval=100ms") as node:
        assert not any(line.startswith("  page ") for line in node.lines)

        done = node.act("--fault", "xid 3 48", "--pod", f"team-a/train={GPU}:2")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("xid 3 48: seen within 0.2 s\npod train runs with GPU-")
        node.until("4 devices, 1 unhealthy")
        shown = node.show()
        assert len(shown["pods"]["train"][GPU]) == 2
        assert [d["healthy"] for d in shown["resources"][GPU]["devices"]].count(False) == 1

        assert node.act("--delete-pod=train", "--restart-kubelet").returncode == 0
        node.until("registered resource=")
        assert not node.show()["pods"]

        assert node.act("--fault=lost 2").returncode == 0
        node.until("unhealthy resource=")


def test_the_doctor_finds_the_node_well(directory: Path) -> None:
    with running(directory, "t4x4") as node:
        state = node.show()["node"]
        done = subprocess.run(
            [
                *(*COMMAND, "doctor", "-o", "json", "--simulate=t4x4", "--only=kubelet,offer"),
                f"--kubelet-socket={state['kubelet_socket']}",
                f"--plugin-directory={os.path.dirname(state['kubelet_socket'])}",
                f"--pod-resources-socket={state['pod_resources_socket']}",
                f"--metrics-address={state['url'].removeprefix('http://').rstrip('/')}",
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    assert done.returncode == 0, done.stdout
    verdicts = {check["name"]: check["verdict"] for check in json.loads(done.stdout)["checks"]}
    # Other plugins may run on this machine.
    del verdicts["plugin-processes"]
    assert set(verdicts.values()) == {"ok"}


def test_mig_layouts_change_while_it_runs(directory: Path) -> None:
    options = ("--mig-strategy=mixed", "--rescan-interval=100ms", "--metrics-address=")
    with running(directory, "dgx-a100", *options) as node:
        assert node.act("--fault", "mig 0 1g.5gb,1g.5gb,3g.20gb").returncode == 0
        node.until("nvidia.com/mig-3g.20gb: 1 devices")
        assert node.show()["resources"]["nvidia.com/mig-3g.20gb"]["capacity"] == 1


def test_a_plugin_that_ends_is_started_again_with_its_page_where_it_was(directory: Path) -> None:
    with running(directory, "t4x4") as node:
        before = node.show()["node"]["url"]
        node.act("--fault", "init-error broken", "--reload")
        node.until("it is started again in 1 s")
        node.act("--fault", "init-ok")
        node.until("registered resource=")

        assert node.show()["node"]["url"] == before


def test_variables_of_the_options_count_and_a_profile_may_be_a_file(
    directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text("base: t4x4\ngpus: [{product: Tesla T4, count: 2}]\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"
    )
    profile = os.path.relpath(tmp_path / "mine.yaml")
    profile = profile if "/" in profile else f"./{profile}"
    with running(directory, profile, environ={"CONFIG_FILE": str(config)}) as node:
        assert node.show()["resources"][GPU]["capacity"] == 6
        done = node.act("--fault=xid 2 79")
        assert (done.returncode, done.stdout) == (2, "")
        assert "no GPU" in done.stderr


def test_a_node_without_gpus_runs_too(directory: Path) -> None:
    with running(directory, "no-gpu") as node:
        assert node.show()["resources"] == {}


def test_one_request_ends_it_and_no_second_one_finds_it(directory: Path) -> None:
    node = RunningNode(directory, "t4x4", environ={})
    node.until(READY)

    again = node.act()
    assert again.returncode == 1
    assert "runs in" in again.stderr
    assert node.act("--stop").stdout == "the node ends\n"
    assert node.end() == (0, "")
    done = node.act("--fault=xid 0 48")
    assert done.returncode == 1
    assert "no simulated node runs in" in done.stderr


def test_a_node_that_was_killed_leaves_nothing_in_the_way(directory: Path) -> None:
    node = RunningNode(directory, "t4x4", environ={})
    node.until(READY)
    node.end(signal.SIGKILL)

    assert node.act("--show").returncode == 1
    with running(directory, "t4x4"):
        pass


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nowhere"], 1, "there is no simulated node"),
        (["no-driver"], 1, "the plugin has ended with code 1: NVML cannot be initialised"),
        (["--mig-strategy=many"], 1, "many"),
        (["--metrics-address=here"], 2, "--metrics-address: 'here' cannot be listened at"),
        (["--rescan-interval=soon"], 2, "soon"),
        (["t4x4", "--fault=xid 0 1"], 2, "--fault is for a node that runs"),
        (["--pod=x", "--metrics-address="], 2, "--pod is for a node that runs"),
        (["--bogus"], 2, "unrecognized arguments"),
    ],
)
def test_mistakes_are_one_line(directory: Path, arguments: list[str], code: int, text: str) -> None:
    done = simulate("--directory", str(directory), *arguments)

    assert done.returncode == code, done.stdout + done.stderr
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not directory.exists() or not os.listdir(directory)


def test_requests_that_are_none_change_nothing(directory: Path) -> None:
    with running(directory, "t4x4", "--metrics-address=") as node:
        for pod in ("train", f"Train={GPU}:1", "train=gpu:1", f"train={GPU}:x", f"train={GPU}"):
            done = node.act("--fault=xid 0 48", f"--pod={pod}")
            assert done.returncode == 2, pod
            assert f"--pod: {pod!r} is no pod" in done.stderr
        assert node.act("--delete-pod=none").returncode == 1
        assert node.act(f"--pod=big={GPU}:5").returncode == 1
        assert node.act("--pod=other=example.com/thing:1").returncode == 1

        assert node.show()["resources"][GPU]["allocatable"] == 4


def test_a_closed_terminal_ends_it_and_a_closed_pipe_does_not(directory: Path) -> None:
    code = f'{sys.executable} -c "{COMMAND[2]}" simulate t4x4 --directory {directory} | head -1'
    with (
        subprocess.Popen(["sh", "-c", code], stdout=subprocess.PIPE, text=True) as shell,
        limited(shell),
    ):
        assert shell.stdout is not None
        assert "the kubelet has started" in shell.stdout.readline()
        resources: dict[str, Any] = {}
        deadline = time.monotonic() + LIMIT
        while GPU not in resources and time.monotonic() < deadline:
            done = simulate("--directory", str(directory), "--show")
            resources = json.loads(done.stdout)["resources"] if done.stdout else {}
        assert resources[GPU]["connected"]

        assert simulate("--directory", str(directory), "--stop").returncode == 0
        assert shell.wait(LIMIT) == 0

    node = RunningNode(directory, "t4x4", environ={})
    node.until(READY)
    assert node.end(signal.SIGHUP) == (0, "")
    assert not directory.exists()


def test_without_a_directory_it_is_one_of_this_user(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "simulate", "--stop"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        timeout=LIMIT,
    )

    assert done.returncode == 1
    assert f"no simulated node runs in {tmp_path}/gpu-node-simulated" in done.stderr
