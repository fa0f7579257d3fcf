"""The real program: start, reload, restarts of the kubelet, end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run, until
from support.process import RUN, node, plugin
from support.serving import GPU, allocatable

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import PodSpec
from gpu_device_plugin.simulation.views import NodeView

SHARED = """
version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}
"""


def test_a_node_is_served_and_ends_with_sigterm(tmp_path):
    async def work():
        async with node(tmp_path) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            pod = await kubelet.admit(PodSpec.of("a", {GPU: 2}))
            envs = pod.assignments[0].envs
            assert len(envs["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0
            assert os.listdir(tmp_path) == ["kubelet.sock"]

    run(work())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_other_signals_end_it_too(tmp_path, number):
    async def work():
        async with node(tmp_path) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            running.signal(number)
            assert await running.ended(2) == 0

    run(work())


def test_a_kubelet_that_never_reads_does_not_delay_the_end(tmp_path):
    """Not even with a thousand events that it would have to be told of."""
    config, events = tmp_path / "config.yaml", tmp_path / "events"
    config.write_text(SHARED.replace("3", "5000"))
    events.touch()

    async def work():
        arguments = [f"--config-file={config}"]
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        async with (
            plugin(tmp_path, *arguments, environ=environ) as running,
            SimulatedKubelet(str(tmp_path)) as kubelet,
        ):
            kubelet.reads_streams = False
            await running.logged("stream opened")
            events.write_text("".join(f"xid {n % 4} 79\n" for n in range(1000)))
            await running.logged(lambda log: log.count("unhealthy resource=") == 4)
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0

    run(work())


def test_a_reload_takes_the_new_configuration(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1")

    async def work():
        async with node(tmp_path, f"--config-file={config}") as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            config.write_text(SHARED)
            running.signal(signal.SIGHUP)
            view = await kubelet.until(allocatable(12), "twelve replicas")
            assert view.registrations == 2

    run(work())


def test_a_bad_configuration_changes_nothing_and_is_explained(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(SHARED)

    async def work():
        async with node(tmp_path, f"--config-file={config}") as (kubelet, running):
            await kubelet.until(allocatable(12), "twelve replicas")
            config.write_text("version: v9")
            running.signal(signal.SIGHUP)
            await running.logged("the last good configuration stays in force")
            assert f"{config}:1: version" in running.log
            await kubelet.restart()
            await kubelet.until(allocatable(12), "twelve replicas after the kubelet's restart")
            config.write_text("version: v1")
            running.signal(signal.SIGHUP)
            await kubelet.until(allocatable(4), "four GPUs")

    run(work())


def test_every_restart_of_the_kubelet_is_one_registration(tmp_path):
    async def work():
        async with node(tmp_path) as (kubelet, _):
            await kubelet.until(allocatable(4), "four GPUs")
            for count in (2, 3, 4):
                await kubelet.restart()
                view = await kubelet.until(allocatable(4), "four GPUs again")
                assert view.registrations == count

    run(work())


def test_a_kubelet_that_comes_late_is_waited_for(tmp_path):
    async def work():
        async with plugin(tmp_path) as running:
            await running.logged("waiting for the kubelet")
            assert os.listdir(tmp_path) == []
            async with SimulatedKubelet(str(tmp_path)) as kubelet:
                view = await kubelet.until(allocatable(4), "four GPUs")
                assert view.registrations == 1

    run(work())


def test_an_xid_reaches_the_kubelet_with_all_replicas(tmp_path):
    config, events = tmp_path / "config.yaml", tmp_path / "events"
    config.write_text(SHARED)
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        async with node(tmp_path, f"--config-file={config}", environ=environ) as (kubelet, _):
            await kubelet.until(allocatable(12), "twelve replicas")
            events.write_text("xid 1 31\nxid 1 79\n")
            view = await kubelet.until(allocatable(9), "nine healthy replicas")
            assert view.resource(GPU).lists == 2
            assert view.resource(GPU).capacity == 12

    run(work())


def test_a_changed_node_is_told_after_a_reload(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events), "GPU_NODE_SIMULATE": "dgx-a100"}
        async with node(tmp_path, "--mig-strategy=mixed", environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(8), "eight GPUs")
            events.write_text("mig 0 3g.20gb,3g.20gb\n")
            running.signal(signal.SIGHUP)
            await kubelet.until(allocatable(7), "seven GPUs")
            await kubelet.until(allocatable(2, "nvidia.com/mig-3g.20gb"), "two MIG devices")
            events.write_text("mig 0 3g.20gb,3g.20gb\nmig 0 off\n")
            running.signal(signal.SIGHUP)
            view = await kubelet.until(allocatable(8), "eight GPUs again")
            assert view.resource("nvidia.com/mig-3g.20gb").devices == ()

    run(work())


def test_a_driver_that_comes_late_is_found(tmp_path, monkeypatch):
    """The retry is quick here; its pause is a constant of the supervisor."""
    events = tmp_path / "events"
    events.write_text("init-error no driver yet\n")
    quick = (
        "from gpu_device_plugin.plugin import companions; companions.INIT_RETRY_SECONDS = 0.05; "
    )
    monkeypatch.setattr("support.process.RUN", quick + RUN)

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        arguments = ["--fail-on-init-error=false"]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
            await running.logged("waiting, as failOnInitError is false")
            assert "no driver yet" in running.log
            events.write_text("init-error no driver yet\ninit-ok\n")
            await kubelet.until(allocatable(4), "four GPUs")
            assert running.log.count("waiting, as failOnInitError is false") == 1

    run(work())


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (["--mig-strategy=double"], {}, "mig-strategy"),
        (["--config-file=/nowhere.yaml"], {}, "/nowhere.yaml"),
        (["--kubelet-socket=/nowhere/kubelet.sock"], {}, "/nowhere"),
        ([], {"GPU_NODE_SIMULATE": "no-such-profile"}, "no-such-profile"),
        ([], {"GPU_NODE_SIMULATE": "no-driver"}, "Driver Not Loaded"),
        ([], {"GPU_NODE_PLUGIN_DIR": "/nowhere"}, "--plugin-directory"),
        ([], {"PASS_DEVICE_SPECS": "perhaps"}, "PASS_DEVICE_SPECS"),
        (["--no-such-flag"], {}, "--no-such-flag"),
    ],
)
def test_what_cannot_work_ends_with_1_and_one_line(tmp_path, arguments, environ, message):
    async def work():
        async with plugin(tmp_path, *arguments, environ=environ) as running:
            assert await running.ended() == 1
        errors = [line for line in running.lines if line.startswith("E")]
        assert len(errors) == 1
        assert message in errors[0]
        assert os.listdir(tmp_path) == []

    run(work())


def test_a_directory_that_cannot_be_written_is_named_with_the_user(tmp_path):
    """A container that is not root, where the kubelet's directory belongs to root."""
    run_as = "import os; os.access = lambda *_: False; os.geteuid = lambda: 65532; "

    async def work():
        async with plugin(tmp_path, before=run_as) as running:
            assert await running.ended() == 1
        errors = [line for line in running.lines if line.startswith("E")]
        assert len(errors) == 1
        assert f"{tmp_path}, cannot be written by uid 65532 (" in errors[0]
        assert "runAsUser: 0" in errors[0]

    run(work())


def test_an_end_while_a_reload_waits_for_the_kubelet_leaves_no_socket(tmp_path):
    """A kubelet that is stuck takes a connection and does not answer."""

    async def work():
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.bind(str(tmp_path / "kubelet.sock"))
            stuck.listen()
            async with plugin(tmp_path) as running:
                await running.logged("serving resource=")
                await until((tmp_path / "nvidia-gpu.sock").is_socket)
                stuck.setblocking(False)
                connection, _ = await asyncio.get_running_loop().sock_accept(stuck)
                running.signal(signal.SIGHUP)
                await running.logged(lambda log: log.count("running with configuration") == 2)
                running.signal(signal.SIGTERM)
                assert await running.ended(2) == 0
                connection.close()
        assert os.listdir(tmp_path) == ["kubelet.sock"]

    run(work())


async def output(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN, *arguments), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


def test_version_and_help_go_to_stdout():
    code, text = run(output("--version"))
    assert (code, text) == (0, "NVIDIA Device Plugin version v0.19.3\n")
    code, text = run(output("--help"))
    assert code == 0
    assert "--device-list-strategy" in text
    assert max(map(len, text.splitlines())) <= 100


def test_two_processes_may_overlap_on_one_directory(tmp_path):
    async def work():
        async with node(tmp_path) as (kubelet, old):
            await kubelet.until(allocatable(4), "four GPUs")
            async with plugin(tmp_path) as new:
                await kubelet.until(lambda v: v.registrations == 2, "the new one registered")
                await new.logged("stream opened")
                old.signal(signal.SIGTERM)
                assert await old.ended(2) == 0
                assert (tmp_path / "nvidia-gpu.sock").is_socket()
                view = await kubelet.until(allocatable(4), "four GPUs")
                assert view.resource(GPU).is_connected

    run(work())


def test_inotify_exhausted_is_survived_by_looking_again_and_again(tmp_path, monkeypatch):
    exhausted = (
        "import errno; from gpu_device_plugin.watch import inotify\n"
        "def refuse(self): raise OSError(errno.EMFILE, 'Too many open files')\n"
        "inotify.Inotify.__init__ = refuse\n"
        "from gpu_device_plugin.watch import directories; directories.POLL_SECONDS = 0.05\n"
    )
    monkeypatch.setattr("support.process.RUN", exhausted + RUN)

    async def work():
        async with node(tmp_path) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            assert "fs.inotify.max_user_instances" in running.log
            await kubelet.restart()
            await kubelet.until(allocatable(4), "four GPUs again")

    run(work())


def registered_again(count: int) -> Callable[[NodeView], bool]:
    def condition(view: NodeView) -> bool:
        return view.registrations == count and view.resource(GPU).allocatable == 4

    return condition


def test_nothing_is_left_open_after_many_reloads(tmp_path):
    async def work():
        async with node(tmp_path) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            files = Path(f"/proc/{running.process.pid}/fd")
            before = len(list(files.iterdir()))
            for count in range(2, 12):
                running.signal(signal.SIGHUP)
                await kubelet.until(registered_again(count), f"registration {count}")
            await until(lambda: len(list(files.iterdir())) <= before + 1)

    run(work())


def test_a_rescan_finds_new_mig_devices_and_disturbs_nothing_else(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events), "GPU_NODE_SIMULATE": "dgx-a100"}
        arguments = ["--mig-strategy=mixed", "--rescan-interval=100ms"]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, _):
            await kubelet.until(allocatable(8), "eight GPUs")
            events.write_text("mig 0 3g.20gb,3g.20gb\n")
            await kubelet.until(allocatable(7), "seven GPUs")
            await kubelet.until(allocatable(2, "nvidia.com/mig-3g.20gb"), "two MIG devices")
            before = kubelet.view()
            events.write_text("mig 0 3g.20gb,3g.20gb\nmig 1 3g.20gb\n")
            after = await kubelet.until(allocatable(3, "nvidia.com/mig-3g.20gb"), "three of them")
            ids = [d.id for d in after.resource("nvidia.com/mig-3g.20gb").devices]
            assert ids[:2] == [d.id for d in before.resource("nvidia.com/mig-3g.20gb").devices]
            assert after.registrations == before.registrations == 2
            lines = "mig 0 3g.20gb,3g.20gb\nmig 1 3g.20gb\nmig 0 off\nmig 1 off\n"
            events.write_text(lines)
            view = await kubelet.until(allocatable(8), "eight GPUs again")
            assert view.registrations == 2
            await kubelet.until(allocatable(0, "nvidia.com/mig-3g.20gb"), "no MIG devices")

    run(work())


def test_a_lost_gpu_stays_as_an_unhealthy_one(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        async with node(tmp_path, "--rescan-interval=100ms", environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            events.write_text("lost 2\n")
            await kubelet.until(allocatable(3), "three healthy GPUs")
            await running.logged("the hardware has changed")
            await kubelet.restart()
            view = await kubelet.until(allocatable(3), "three healthy GPUs")
            assert view.resource(GPU).capacity == 4
            running.signal(signal.SIGHUP)
            await kubelet.until(lambda v: v.registrations == 3, "a reload")
            view = await kubelet.until(allocatable(3), "three healthy GPUs")
            assert view.resource(GPU).capacity == 4
            events.write_text("lost 2\nback 2\n")
            await kubelet.until(allocatable(4), "four GPUs again")

    run(work())


def test_a_layout_that_cannot_be_offered_empties_the_node_until_it_can(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events), "GPU_NODE_SIMULATE": "dgx-a100"}
        arguments = ["--mig-strategy=single", "--rescan-interval=100ms"]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(8), "eight GPUs")
            events.write_text("mig 0 3g.20gb\n")
            await running.logged("nothing is offered until this is mended")
            await kubelet.until(allocatable(0), "nothing")
            events.write_text("mig 0 3g.20gb\nmig 0 off\n")
            await kubelet.until(allocatable(8), "eight GPUs again")

    run(work())


def test_a_device_recovers_where_the_configuration_says_so(tmp_path):
    config, events = tmp_path / "config.yaml", tmp_path / "events"
    config.write_text(
        "extensions: {health: {recovery: {enabled: true, quietPeriod: 200ms}, xids: {'31': warn}}}"
    )
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        arguments = [f"--config-file={config}"]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            events.write_text("xid 0 31\nxid 1 69\n")
            await kubelet.until(allocatable(3), "three healthy GPUs")
            await running.logged("not acted on: XID 31")
            await kubelet.until(allocatable(4), "four healthy GPUs")

    run(work())


def test_what_needs_a_reset_outlasts_reloads_and_restarts_of_the_kubelet(tmp_path):
    config, events = tmp_path / "config.yaml", tmp_path / "events"
    config.write_text("extensions: {health: {xids: {'79': unhealthy-until-reset}}}")
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events)}
        arguments = [f"--config-file={config}", "--rescan-interval=100ms"]
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            events.write_text("xid 1 79\n")
            await kubelet.until(allocatable(3), "three healthy GPUs")
            running.signal(signal.SIGHUP)
            await kubelet.until(lambda v: v.registrations == 2, "a reload")
            await kubelet.until(allocatable(3), "three healthy GPUs")
            await kubelet.restart()
            await kubelet.until(allocatable(3), "three healthy GPUs")
            events.write_text("xid 1 79\nlost 1\n")
            await running.logged("GPU is lost")
            events.write_text("xid 1 79\nlost 1\nback 1\n")
            await kubelet.until(allocatable(4), "four GPUs after a reset")

    run(work())


def signals(process: int, line: str) -> set[int]:
    """Those of a process that one line of its status names, such as ``SigBlk``."""
    status = Path(f"/proc/{process}/status").read_text()
    mask = int(status.partition(f"{line}:")[2].split()[0], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_a_sighup_while_the_program_is_loaded_does_no_harm(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, plugin(tmp_path) as running:
            await until(lambda: signal.SIGHUP in signals(running.process.pid, "SigIgn"))
            running.signal(signal.SIGHUP)
            await kubelet.until(allocatable(4), "four GPUs")

    run(work())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_program_is_loaded_ends_it_in_order(tmp_path, number):
    async def work():
        async with plugin(tmp_path) as running:
            await until(lambda: number in signals(running.process.pid, "SigBlk"))
            running.signal(number)
            assert await running.ended(5) == 0
            assert "shutting down" in running.log
        assert os.listdir(tmp_path) == []

    run(work())


def test_a_reload_that_does_not_suit_the_gpus_changes_nothing(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1")

    async def work():
        arguments = [f"--config-file={config}"]
        environ = {"GPU_NODE_SIMULATE": "dgx-a100-mig"}
        async with node(tmp_path, *arguments, environ=environ) as (kubelet, running):
            await kubelet.until(allocatable(8), "eight GPUs")
            config.write_text("{version: v1, flags: {migStrategy: single}}")
            running.signal(signal.SIGHUP)
            await running.logged("the last good configuration stays in force")
            assert "the MIG strategy 'single' needs MIG devices on every GPU" in running.log
            await kubelet.until(allocatable(8), "eight GPUs still")
            config.write_text(SHARED)
            running.signal(signal.SIGHUP)
            await kubelet.until(allocatable(24), "the good configuration")

    run(work())


async def changed(attribute: str, path: Path) -> int:
    process = await asyncio.create_subprocess_exec("chattr", attribute, str(path))
    return await process.wait()


@asynccontextmanager
async def immutable(directory: Path) -> AsyncIterator[None]:
    """Nothing can be made or removed in a directory meanwhile."""
    if await changed("+i", directory) != 0:
        pytest.skip("the file system has no immutable directories")
    try:
        yield
    finally:
        assert await changed("-i", directory) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file immutable")
def test_a_socket_that_cannot_be_removed_is_told(tmp_path):
    async def work():
        async with node(tmp_path) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            async with immutable(tmp_path):
                running.signal(signal.SIGTERM)
                assert await running.ended(5) == 1
        assert "nvidia-gpu.sock cannot be removed" in running.log

    run(work())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file immutable")
def test_a_reload_that_cannot_replace_its_socket_tries_until_it_can(tmp_path):
    async def work():
        async with node(tmp_path) as (kubelet, running):
            await kubelet.until(allocatable(4), "four GPUs")
            async with immutable(tmp_path):
                running.signal(signal.SIGHUP)
                await running.logged("nvidia-gpu.sock cannot be removed")
                await running.logged("cannot be served; next attempt")
            await kubelet.until(allocatable(4), "four GPUs again")
            running.signal(signal.SIGTERM)
            assert await running.ended(5) == 0

    run(work())


def test_help_that_nobody_can_read_is_one_line_and_1():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", RUN, "--help"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 1
    assert b"stdout cannot be written: No space left on device" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


def test_version_without_a_stdout_is_quiet():
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", RUN, "--version"],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
