"""The real config-manager, an API server on a real socket, and a process that counts signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.aio import run, until
from support.apiserver import ApiServer
from support.profiles import LABEL, NODE, Stage
from support.programs import program
from support.targets import counting


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    name = f"target-{os.getpid()}-{tmp_path.name[-30:]}"
    with ApiServer() as api, counting(name, tmp_path) as target:
        yield Stage(tmp_path, api, target, name)


def test_the_label_is_applied_once_and_followed(stage):
    stage.label("a")

    async def work():
        async with stage.running() as process:
            await stage.follows("a", 1)
            stage.label("b")
            await stage.follows("b", 2)
            stage.label(None)
            await stage.follows("default", 3)
            process.signal(signal.SIGTERM)
            assert await process.ended() == -signal.SIGTERM

    run(work())
    assert stage.target.signals == [signal.SIGHUP] * 3


WHILE_LOADING = """
import os, sys
from gpu_device_plugin.programs import entry

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "gpu_device_plugin.programs.config_manager":
            os.kill(os.getpid(), int(sys.argv.pop()))

sys.meta_path.insert(0, Interrupts())
entry.config_manager()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_that_comes_while_it_is_being_loaded_is_followed_then(stage, number):
    ended = subprocess.run(
        [sys.executable, "-c", WHILE_LOADING, str(int(number))],
        env=os.environ | stage.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode == -number
    assert "starting config-manager" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_slow_api_is_waited_for(stage):
    """Report k8s-device-plugin#1645: not the default first, then the label."""
    stage.label("a")
    stage.api.fail("GET", "/api/v1/nodes", raw=b"", times=2)

    async def work():
        async with stage.running() as process:
            await stage.follows("a", 1)
            await process.logged("trying again")

    run(work())


@pytest.mark.parametrize("value", ["a", None])
def test_once(stage, value):
    stage.label(value)

    async def work():
        async with stage.running("--oneshot", "--signal=10") as process:
            assert await process.ended() == 0

    run(work())
    assert stage.linked == (value or "default")
    assert stage.target.signals == [signal.SIGUSR1]


def test_an_init_container_tells_nobody(stage):
    stage.label("b")

    async def work():
        async with stage.running(ONESHOT="true", SEND_SIGNAL="false") as process:
            assert await process.ended() == 0
        async with stage.running() as process:
            await process.logged("leads to")
            await stage.stays("b", 0, process)

    run(work())


def test_contents_that_change_are_told_and_equal_ones_are_not(stage):
    """Report gpu-operator#1144: a ConfigMap that is edited."""
    stage.label("a")

    async def work():
        async with stage.running() as process:
            await stage.follows("a", 1)
            stage.swap()
            await stage.stays("a", 1, process)
            stage.swap(a="version: v1 # a, edited\n")
            await stage.follows("a", 2)

    run(work())


def test_a_typo_keeps_what_is_there_and_is_named(stage):
    stage.label("a")

    async def work():
        async with stage.running() as process:
            await stage.follows("a", 1)
            stage.label("typo")
            await process.logged(f"the label {LABEL} of the node names the configuration 'typo'")
            await stage.stays("a", 1, process)
            stage.swap(typo="version: v1 # no typo\n")
            await stage.follows("typo", 2)

    run(work())


def test_the_api_may_be_away(stage):
    stage.label("a")

    async def work():
        async with stage.running() as process:
            await stage.follows("a", 1)
            stage.api.stop()
            await process.logged("trying again")
            stage.label("b")
            await stage.stays("a", 1, process)
            stage.api.start()
            await stage.follows("b", 2)

    run(work())


def test_a_watch_that_has_expired_begins_anew(stage):
    stage.label("a")

    async def work():
        async with stage.running():
            await stage.follows("a", 1)
            stage.api.fail("WATCH", "/api/v1/nodes", status=410)
            stage.api.cut_watches()
            stage.label("b")
            await stage.follows("b", 2)

    run(work())


def test_a_node_that_is_deleted_and_made_again_is_followed(stage):
    stage.label("a")

    async def work():
        async with stage.running():
            await stage.follows("a", 1)
            stage.api.store.delete(NODE)
            await stage.follows("default", 2)
            stage.label("b")
            await stage.follows("b", 3)

    run(work())


def test_a_token_that_is_replaced_is_used(tmp_path):
    token = tmp_path / "token"
    token.write_text("first")
    name = f"target-{os.getpid()}-token"
    with ApiServer(tokens={"first"}) as api, counting(name, tmp_path) as target:
        stage = Stage(tmp_path, api, target, name)
        stage.environ["KUBECONFIG"] = api.kubeconfig(tmp_path, token_file=str(token))
        stage.label("a")

        async def work():
            async with stage.running():
                await stage.follows("a", 1)
                assert api.tokens is not None
                api.tokens.add("second")
                token.write_text("second")
                api.tokens.remove("first")
                api.cut_watches()
                stage.label("b")
                await stage.follows("b", 2)

        run(work())


def test_a_bad_configuration_is_refused_if_asked_for(stage):
    stage.label("a")
    stage.swap(b="version: v9\n")

    async def work():
        async with stage.running("--validate-config") as process:
            await stage.follows("a", 1)
            stage.label("b")
            await process.logged(f"refused: {stage.source}/b")
            await stage.stays("a", 1, process)
            stage.swap(b="version: v1\n")
            await stage.follows("b", 2)

    run(work())


def test_a_path_finds_the_program_of_that_name(stage):
    stage.environ["PROCESS_TO_SIGNAL"] = f"/usr/bin/{stage.name}"
    stage.label("a")

    async def work():
        async with stage.running():
            await stage.follows("a", 1)

    run(work())


def test_without_the_process_it_goes_on(stage):
    stage.environ["PROCESS_TO_SIGNAL"] = "nobody-is-called-so"
    stage.label("a")

    async def work():
        async with stage.running() as process:
            await process.logged("there is no process nobody-is-called-so to signal")
            stage.label("b")
            await until(lambda: stage.linked == "b")

    run(work())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"NODE_NAME": ""}, "invalid node-name: must not be empty"),
        ({"NODE_LABEL": ""}, "invalid node-label: must not be empty"),
        ({"CONFIG_FILE_SRCDIR": ""}, "invalid config-file-srcdir: must not be empty"),
        ({"CONFIG_FILE_DST": ""}, "invalid config-file-dst: must not be empty"),
        ({"KUBECONFIG": "/absent"}, "/absent"),
        ({"SIGNAL": "999"}, "invalid signal: 999 is none"),
        ({"FALLBACK_STRATEGIES": "wish"}, "'wish' is not one"),
        ({"FALLBACK_STRATEGIES": ""}, "'' is not one"),
    ],
)
def test_what_is_wrong_is_one_clear_line(stage, changes, message):
    stage.label(None)

    async def work():
        async with stage.running(**changes) as process:
            assert await process.ended() == 1
            await process.logged(message)
            assert len([line for line in process.lines if line.startswith("E")]) == 1

    run(work())


def test_version_is_told():
    async def work():
        async with program("config_manager", "--version") as process:
            assert await process.ended() == 0

    run(work())
