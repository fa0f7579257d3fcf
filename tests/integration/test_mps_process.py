"""The real mps-control-daemon, with NVIDIA's own control program and with a stand-in.

The GPUs are simulated; the control program needs none until a CUDA client connects.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest
from support.aio import run, until
from support.genuine import NotToBeHad, control_program
from support.mps import MpsTools
from support.programs import ProgramProcess, program

from gpu_device_plugin.mps.lock import lock_holder
from gpu_device_plugin.mps.names import DaemonFiles
from gpu_device_plugin.mps.processes import is_alive

GPU = "nvidia.com/gpu"


def sharing(replicas: int, *, rename: bool = False) -> str:
    entry = f"{{name: {GPU}, replicas: {replicas}}}"
    return f"sharing: {{mps: {{renameByDefault: {str(rename).lower()}, resources: [{entry}]}}}}\n"


@dataclass
class Node:
    """A node's directories, and the programs that are on it."""

    root: Path
    path: str
    config: Path
    profile: str = "t4x4"

    @property
    def files(self) -> DaemonFiles:
        return DaemonFiles(str(self.root), GPU)

    @property
    def daemon(self) -> int | None:
        return lock_holder(self.files)

    @property
    def is_ready(self) -> bool:
        return (self.root / ".ready").exists()

    @asynccontextmanager
    async def running(
        self, *arguments: str, environ: Mapping[str, str] = MappingProxyType({})
    ) -> AsyncIterator[ProgramProcess]:
        variables = {"PATH": self.path, "GPU_NODE_SIMULATE": self.profile, **environ}
        async with program(
            "mps_control_daemon",
            f"--config-file={self.config}",
            *arguments,
            environ=variables,
            before=f"program.MPS_ROOT = {str(self.root)!r}",
        ) as process:
            yield process

    async def ready(self) -> None:
        await until(lambda: self.is_ready)

    def ask(self, command: str) -> str:
        """What the daemon says to a command."""
        tool = os.path.join(self.path.partition(":")[0], "nvidia-cuda-mps-control")
        done = subprocess.run(
            [tool],
            input=command,
            env=self.files.environment,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    async def kill_daemon(self) -> None:
        pid = self.daemon
        assert pid
        os.kill(pid, signal.SIGKILL)
        await until(lambda: self.daemon != pid)

    def end(self) -> None:
        if self.daemon:
            os.kill(self.daemon, signal.SIGKILL)


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Names of sockets are limited to 107 bytes.
    return tmp_path_factory.mktemp("m")


@pytest.fixture
def genuine(directory: Path) -> Iterator[Node]:
    try:
        tool = control_program()
    except NotToBeHad as error:
        pytest.skip(f"NVIDIA's control program cannot be had: {error}")
    node = Node(directory / "mps", f"{tool.parent}:/usr/bin:/bin", directory / "config.yaml")
    node.root.mkdir()
    node.config.write_text(sharing(4))
    yield node
    node.end()


@pytest.fixture
def tools(directory: Path) -> MpsTools:
    return MpsTools.make(directory)


@pytest.fixture
def node(directory: Path, tools: MpsTools) -> Iterator[Node]:
    made = Node(tools.root, f"{directory}:/usr/bin:/bin", directory / "config.yaml")
    made.config.write_text(sharing(4))
    yield made
    made.end()


# ------------------------------------------------------------------ the genuine program


def limits(node: Node, count: int = 4) -> tuple[str, list[str]]:
    percentage = node.ask("get_default_active_thread_percentage")
    memory = [node.ask(f"get_default_device_pinned_mem_limit {index}") for index in range(count)]
    return percentage, memory


def test_the_daemon_has_its_limits_and_ends_without_a_trace(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            pid = genuine.daemon
            assert limits(genuine) == ("25.0", ["3G"] * 4)
            log = Path(genuine.files.control_log).read_text()
            told = re.findall(r"Cmd:set_default_device_pinned_mem_limit (\d) (\S+)", log)
            assert told == [(str(index), "3840M") for index in range(4)]
            await process.logged("Starting control daemon using socket")
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            names = sorted(variable.partition(b"=")[0] for variable in environ if variable)
            assert names == [b"CUDA_MPS_LOG_DIRECTORY", b"CUDA_MPS_PIPE_DIRECTORY"]
            process.signal(signal.SIGTERM)
            assert await process.ended() == 0
        assert not is_alive(pid)

    run(work())
    assert genuine.daemon is None
    assert os.listdir(genuine.files.directory) == ["pipe"]
    assert not genuine.is_ready


def test_the_daemon_has_the_limits_that_are_set(genuine):
    entry = (
        f"{{name: {GPU}, activeThreadPercentage: 30, memoryLimit: 2560Mi, "
        'memoryLimitByGpu: {"1": 700Mi, "2": none}}'
    )
    genuine.config.write_text(sharing(4) + f"extensions: {{mps: {{resources: [{entry}]}}}}\n")

    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            percentage, (first, second, third, fourth) = limits(genuine)
            assert (percentage, first, second, fourth) == ("30.0", "2G", "700M", "2G")
            assert not re.search("[0-9]", third)
            pid = genuine.daemon
            process.signal(signal.SIGHUP)
            await process.logged("nothing changes for its daemon")
            genuine.config.write_text(sharing(4))
            process.signal(signal.SIGHUP)
            await until(lambda: genuine.daemon not in {None, pid} and genuine.is_ready)
            assert limits(genuine) == ("25.0", ["3G"] * 4)

    run(work())


def test_a_single_client_has_no_limits(genuine):
    entry = "{strategy: mps, replicas: 1}"
    genuine.config.write_text(f"extensions: {{sharing: [{entry}]}}\n")

    async def work():
        async with genuine.running():
            await genuine.ready()
            percentage, memory = limits(genuine)
            assert percentage == "100.0"
            assert not any(re.search("[0-9]", answer) for answer in memory)

    run(work())


def test_a_renamed_resource_has_a_daemon_under_its_name(genuine):
    genuine.config.write_text(sharing(10, rename=True))

    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            assert lock_holder(DaemonFiles(str(genuine.root), f"{GPU}.shared"))
            process.signal(signal.SIGINT)
            assert await process.ended() == 0

    run(work())


def test_a_reload_replaces_the_daemon_only_if_need_be(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            first = genuine.daemon
            process.signal(signal.SIGHUP)
            await process.logged("nothing changes for its daemon")
            assert genuine.daemon == first
            genuine.config.write_text(sharing(10))
            process.signal(signal.SIGHUP)
            await until(lambda: genuine.daemon not in {None, first} and genuine.is_ready)
            assert limits(genuine) == ("10.0", ["1G"] * 4)
            genuine.config.write_text("version: v1\n")
            process.signal(signal.SIGHUP)
            await until(lambda: genuine.daemon is None and genuine.is_ready)
            assert not os.path.exists(genuine.files.started)

    run(work())


def test_a_daemon_that_is_killed_comes_again(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            await genuine.kill_daemon()
            await until(lambda: not genuine.is_ready)
            assert not os.path.exists(genuine.files.started)
            await process.logged("the MPS daemon has died")
            await genuine.ready()
            assert limits(genuine) == ("25.0", ["3G"] * 4)

    run(work())


def test_a_daemon_that_outlives_its_program_is_taken_over(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            process.process.kill()
            await process.ended()
        pid = genuine.daemon
        assert pid
        async with genuine.running() as process:
            await process.logged("taking over the daemon")
            await genuine.ready()
            assert genuine.daemon == pid
            assert limits(genuine) == ("25.0", ["3G"] * 4)
            process.signal(signal.SIGTERM)
            assert await process.ended() == 0
        assert genuine.daemon is None

    run(work())


def test_a_daemon_with_other_limits_is_replaced_by_the_next_program(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            process.process.kill()
            await process.ended()
        genuine.config.write_text(sharing(2))
        pid = genuine.daemon
        async with genuine.running() as process:
            await process.logged("replacing the daemon")
            await until(lambda: genuine.is_ready and genuine.daemon != pid)
            assert limits(genuine)[0] == "50.0"

    run(work())


def test_after_the_end_of_a_container_all_begins_anew(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            process.process.kill()
            await process.ended()
            await genuine.kill_daemon()
        assert genuine.is_ready  # a lie, until the next start
        async with genuine.running() as process:
            await process.logged("] ready")
            assert limits(genuine) == ("25.0", ["3G"] * 4)

    run(work())


def test_a_daemon_that_is_not_wanted_any_more_is_ended(genuine):
    async def work():
        async with genuine.running() as process:
            await genuine.ready()
            process.process.kill()
            await process.ended()
        genuine.config.write_text("version: v1\n")
        async with genuine.running() as process:
            await process.logged("cleaning up after a program that was killed")
            await process.logged("] ready")
            assert genuine.daemon is None

    run(work())


# ------------------------------------------------------------------ faults, with a stand-in


@pytest.mark.parametrize("knob", ["hang--d", "hang-set_default_active_thread_percentage"])
def test_a_control_program_that_hangs_does_not_hold_up_the_end(node, tools, knob):
    tools.turn(knob)

    async def work():
        async with node.running() as process:
            await until(lambda: any(knob[5:] in line for line in tools.journal()))
            process.signal(signal.SIGTERM)
            assert await process.ended(8) == 0

    run(work())
    assert node.daemon is None


def test_a_daemon_that_does_not_quit_is_killed(node, tools):
    async def work():
        async with node.running() as process:
            await node.ready()
            pid = node.daemon
            tools.turn("hang-quit")
            process.signal(signal.SIGTERM)
            assert await process.ended(9) == 0
            assert not is_alive(pid or 0)
            await process.logged("no answer within 5 s")

    run(work())


@pytest.mark.parametrize(
    ("profile", "arguments", "config", "message"),
    [
        ("t4x4", (), sharing(49), "maximum allowed replicas exceeded: 49 > 48"),
        ("k80x2", (), sharing(17), "maximum allowed replicas exceeded: 17 > 16"),
        ("t4x4", (), "version: v9", "v9"),
        ("no-driver", (), sharing(4), "(?i)driver not loaded"),
        ("jetson-orin", (), sharing(4), "MPS cannot be used on Tegra"),
        ("t4x4", ("--mig-strategy=some",), sharing(4), "mig-strategy: 'some' is not allowed"),
        (
            "dgx-a100-mig-single",
            ("--mig-strategy=single",),
            sharing(2),
            "holds MIG device 0:0, and MPS cannot be used with MIG devices",
        ),
    ],
)
def test_what_cannot_be_is_one_clear_line(node, tools, profile, arguments, config, message):
    node.profile = profile
    node.config.write_text(config)

    async def work():
        async with node.running(*arguments) as process:
            assert await process.ended() == 1
            await process.logged(lambda log: bool(re.search(message, log)))
            errors = [line for line in process.lines if line.startswith("E")]
            assert len(errors) == 1

    run(work())
    assert tools.journal() == []


def test_a_missing_control_program_is_named_and_waited_for(node, tools):
    hidden = tools.control.with_name("hidden")
    tools.control.rename(hidden)

    async def work():
        async with node.running() as process:
            await process.logged("nvidia-cuda-mps-control is not found")
            assert not node.is_ready
            hidden.rename(tools.control)
            await node.ready()

    run(work())


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_the_control_program_may_be_elsewhere(node, tools, way):
    moved = tools.control.with_name("elsewhere")
    tools.control.rename(moved)

    async def work():
        arguments = (f"--mps-control-binary={moved}",) if way == "flag" else ()
        environ = {} if way == "flag" else {"MPS_CONTROL_BINARY": str(moved)}
        async with node.running(*arguments, environ=environ) as process:
            await node.ready()
            process.signal(signal.SIGTERM)
            assert await process.ended() == 0

    run(work())
    assert "control -d" in tools.journal()


def test_a_control_program_that_is_not_where_it_was_said_to_be_is_named(node):
    async def work():
        async with node.running("--mps-control-binary=/no/such") as process:
            await process.logged("/no/such is not found: set by --mps-control-binary")
            assert not node.is_ready
            process.signal(signal.SIGTERM)
            assert await process.ended() == 0

    run(work())


def test_a_bad_configuration_at_a_reload_changes_nothing(node):
    async def work():
        async with node.running() as process:
            await node.ready()
            pid = node.daemon
            node.config.write_text("version: v7\n")
            process.signal(signal.SIGHUP)
            await process.logged("the last good configuration stays in force")
            assert node.daemon == pid
            assert node.is_ready

    run(work())


@pytest.mark.parametrize("command", ["--version", "--help"])
def test_name_and_version_are_told(command):
    async def work():
        async with program("mps_control_daemon", command) as process:
            assert await process.ended() == 0

    run(work())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may mount")
def test_mounting_needs_rights(tmp_path):
    async def work():
        before = f"program.MPS_ROOT = {str(tmp_path)!r}"
        async with program("mps_control_daemon", "mount-shm", before=before) as process:
            assert await process.ended() == 1
            await process.logged("the container must be privileged")

    run(work())


def test_kill_9_of_anybody_is_repaired(node):
    """A taste of the torture: program, daemon and control program are killed in turn."""

    async def work():
        for number in range(3):
            async with node.running() as process:
                await process.logged("] ready")
                if number != 1:
                    await node.kill_daemon()
                if number == 0:
                    await until(lambda: not node.is_ready)
                    await node.ready()
                else:
                    process.process.kill()
                    await process.ended()
        async with node.running() as process:
            await process.logged("] ready")

    run(work())
    assert node.daemon is None
    assert os.listdir(node.files.directory) == ["pipe"]
    assert not node.is_ready
