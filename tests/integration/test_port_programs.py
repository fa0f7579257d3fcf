"""The port of the programs beside the plugin: when they are ready, and why not."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.aio import run
from support.apiserver import ApiServer
from support.certificates import OPENSSL, make_certificates
from support.mps import MpsTools
from support.profiles import Stage
from support.programs import program
from support.targets import counting
from support.web import LISTEN, fetch, port_of, status_of, trusting, until_status

from gpu_device_plugin.mps.lock import lock_holder
from gpu_device_plugin.mps.names import DaemonFiles
from gpu_device_plugin.status.model import NodeStatus

MPS = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"


# ------------------------------------------------------------------ labels


def gfd(directory: Path, *arguments: str):
    return program(
        "gpu_feature_discovery",
        LISTEN,
        f"--output-file={directory}/gfd",
        "--sleep-interval=50ms",
        "--use-node-feature-api=false",
        *arguments,
        environ={"GPU_NODE_SIMULATE": "t4x4", "NODE_NAME": "node-1"},
    )


async def until_shown(port: int, condition: Callable[[NodeStatus], bool]) -> None:
    """Waits for a status, which may be that of a moment ago; the limit is that of the test."""
    while not condition(await status_of(port)):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.02)


def test_labels_make_ready_until_they_cannot_be_written(tmp_path):
    directory = tmp_path / "features.d"
    directory.mkdir()

    async def work():
        async with gfd(directory) as running:
            port = await port_of(running)
            await until_status(port, "/readyz", 200)
            status = await status_of(port)
            assert status.labelling is not None
            labels = dict(status.labelling.labels)
            assert labels["nvidia.com/gpu.count"] == "4"
            assert status.labelling.place == f"{directory}/gfd"
            assert status.labelling.time > 0
            assert status.configuration is not None
            assert status.node == "node-1"
            os.rename(directory, tmp_path / "gone")
            reply = await until_status(port, "/readyz", 503)
            (reason,) = reply.json()["reasons"]
            assert reason.startswith(
                f"the labels are not published: labels cannot be written to {directory}/gfd"
            )
            assert (await fetch(port, "/livez")).status == 200
            os.rename(tmp_path / "gone", directory)
            await until_status(port, "/readyz", 200)
            assert b"gpu_node_label" in (await fetch(port, "/metrics")).body

    run(work())


def test_labels_of_a_node_without_its_driver_are_a_reason(tmp_path):
    async def work():
        arguments = ("--simulate=no-driver", "--fail-on-init-error=false")
        async with gfd(tmp_path, *arguments) as running:
            port = await port_of(running)
            await running.logged("waiting for it")
            reply = await until_status(port, "/readyz", 503)
            assert any("nothing is known of GPUs" in each for each in reply.json()["reasons"])
            await until_shown(port, lambda s: s.labelling is not None and bool(s.labelling.problem))

    run(work())


def test_labels_stay_by_the_last_good_configuration_and_say_so(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1")

    async def work():
        async with gfd(tmp_path, f"--config-file={config}") as running:
            port = await port_of(running)
            await until_status(port, "/readyz", 200)
            config.write_text("version: v9")
            running.signal(signal.SIGHUP)
            reply = await until_status(port, "/readyz", 503)
            assert f"cannot be used: {config}:1: version" in reply.json()["reasons"][0]
            await until_shown(
                port,
                lambda s: (
                    s.configuration is not None
                    and s.configuration.problem.startswith(f"{config}:1: version")
                ),
            )
            config.write_text("version: v1")
            running.signal(signal.SIGHUP)
            await until_status(port, "/readyz", 200)

    run(work())


# ------------------------------------------------------------------ profiles


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    name = f"port-{os.getpid()}-{tmp_path.name[-30:]}"
    with ApiServer() as api, counting(name, tmp_path) as target:
        yield Stage(tmp_path, api, target, name)


def test_a_label_that_names_nothing_makes_unready_until_it_does(stage):
    stage.label("a")

    async def work():
        async with stage.running(LISTEN) as running:
            port = await port_of(running)
            await until_status(port, "/readyz", 200)
            configuration = (await status_of(port)).configuration
            assert configuration is not None
            assert (configuration.profile, configuration.file) == ("a", str(stage.link))
            stage.label("typo")
            reply = await until_status(port, "/readyz", 503)
            assert "names the configuration 'typo', which does not exist" in reply.text
            assert (await fetch(port, "/livez")).status == 200
            stage.label("b")
            await until_status(port, "/readyz", 200)
            await until_shown(
                port, lambda s: s.configuration is not None and s.configuration.profile == "b"
            )
            assert b"gpu_node_profile" in (await fetch(port, "/metrics")).body

    run(work())


def test_who_applies_a_configuration_once_opens_no_port(stage):
    stage.label("a")

    async def work():
        async with stage.running(LISTEN, "--oneshot") as running:
            assert await running.ended() == 0
            assert "serving HTTP" not in running.log

    run(work())


# ------------------------------------------------------------------ MPS daemons


@pytest.fixture
def tools(tmp_path_factory: pytest.TempPathFactory) -> MpsTools:
    # Names of sockets are limited to 107 bytes.
    return MpsTools.make(tmp_path_factory.mktemp("m"))


def test_a_daemon_that_dies_makes_unready_until_it_is_back(tools):
    config = tools.root.parent / "config.yaml"
    config.write_text(MPS)
    files = DaemonFiles(str(tools.root), "nvidia.com/gpu")

    async def work():
        async with program(
            "mps_control_daemon",
            LISTEN,
            f"--config-file={config}",
            environ={
                "PATH": f"{tools.root.parent}:/usr/bin:/bin",
                "GPU_NODE_SIMULATE": "t4x4",
            },
            before=f"program.MPS_ROOT = {str(tools.root)!r}",
        ) as running:
            port = await port_of(running)
            await until_status(port, "/readyz", 200)
            (daemon,) = (await status_of(port)).mps
            assert (daemon.resource, daemon.ready, daemon.detail) == ("nvidia.com/gpu", True, "")
            os.kill(lock_holder(files) or 0, signal.SIGKILL)
            reply = await until_status(port, "/readyz", 503)
            assert reply.json()["reasons"][0].startswith("nvidia.com/gpu: the MPS daemon has died")
            assert (await fetch(port, "/livez")).status == 200
            await until_status(port, "/readyz", 200)
            assert b"gpu_node_mps" in (await fetch(port, "/metrics")).body

    run(work())


# ------------------------------------------------------------------ TLS and token


@pytest.mark.skipif(OPENSSL is None, reason="makes certificates with openssl")
def test_with_tls_and_a_token_strangers_learn_only_that_it_is_ready(tmp_path):
    made = make_certificates(tmp_path / "tls")
    token = tmp_path / "token"
    token.write_text("s3cret\n")

    async def work():
        arguments = (
            f"--metrics-tls-cert-file={made.server}",
            f"--metrics-tls-key-file={made.server_key}",
            f"--metrics-token-file={token}",
        )
        async with gfd(tmp_path, *arguments) as running:
            port = await port_of(running)
            tls: ssl.SSLContext = trusting(str(made.authority))
            known = {"Authorization": "Bearer s3cret"}
            async with asyncio.timeout(5):
                while (await fetch(port, "/readyz", tls=tls)).status != 200:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
            assert (await fetch(port, "/readyz", tls=tls)).text == "ok\n"
            for path in ("/", "/status.json", "/metrics", "/none"):
                assert (await fetch(port, path, tls=tls)).status == 401
            assert (await fetch(port, "/metrics", known, tls=tls)).status == 200
            assert (await fetch(port, "/readyz", known, tls=tls)).json()["ok"] is True

    run(work())
