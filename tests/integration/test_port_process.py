"""The port of the real programs: probes through restarts, reloads and bad options."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.aio import run
from support.process import node, plugin
from support.serving import GPU, allocatable
from support.web import LISTEN, fetch, port_of, status_of, until_status

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import PodSpec
from gpu_device_plugin.status.endpoints import FRESH_SECONDS


def test_a_restart_of_the_kubelet_makes_the_plugin_unready_and_never_dead(tmp_path):
    async def work():
        async with node(tmp_path, LISTEN) as (kubelet, running):
            port = await port_of(running)
            await kubelet.until(allocatable(4), "four GPUs")
            ready = await until_status(port, "/readyz", 200)
            assert ready.json() == {"ok": True, "reasons": []}
            for _ in range(2):
                await kubelet.stop()
                reply = await until_status(port, "/readyz", 503)
                assert reply.json()["reasons"][0].startswith("nvidia.com/gpu: ")
                assert (await fetch(port, "/livez")).status == 200
                await kubelet.start()
                await until_status(port, "/readyz", 200)
                assert (await fetch(port, "/livez")).json() == {"ok": True, "reasons": []}

    run(work())


def test_a_plugin_that_waits_for_its_kubelet_lives_and_says_what_it_waits_for(tmp_path):
    async def work():
        async with plugin(tmp_path, LISTEN) as running:
            port = await port_of(running)
            reply = await until_status(port, "/readyz", 503)
            assert reply.json()["reasons"]
            assert (await fetch(port, "/healthz")).status == 200
            async with SimulatedKubelet(str(tmp_path)):
                await until_status(port, "/readyz", 200)

    run(work())


def test_a_broken_gpu_makes_the_plugin_neither_dead_nor_unready(tmp_path):
    events = tmp_path / "events"
    events.touch()

    async def work():
        environ = {"GPU_NODE_SIMULATE_EVENTS": str(events), "NODE_NAME": "node-1"}
        async with node(tmp_path, LISTEN, environ=environ) as (kubelet, running):
            port = await port_of(running)
            await kubelet.until(allocatable(4), "four GPUs")
            await until_status(port, "/readyz", 200)
            events.write_text("xid 2 79\n")
            await kubelet.until(allocatable(3), "three GPUs")
            assert (await fetch(port, "/livez")).status == 200
            assert (await fetch(port, "/readyz")).status == 200
            await asyncio.sleep(FRESH_SECONDS)
            status = await status_of(port)
            assert status.resources[0].allocatable == 3
            assert status.node == "node-1"
            assert status.hardware is not None
            assert status.hardware.simulated == "t4x4"
            assert any("unhealthy resource=" in event.text for event in status.events)
            page = await fetch(port, "/")
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert "script-src 'sha256-" in page.headers["content-security-policy"]
            assert b"XID 79" in page.body

    run(work())


def test_who_holds_what_is_shown(tmp_path):
    sockets = tmp_path / "plugins"
    sockets.mkdir()
    pods = str(tmp_path / "pods.sock")

    async def work():
        async with (
            SimulatedKubelet(str(sockets), pod_resources_socket=pods) as kubelet,
            plugin(sockets, LISTEN, f"--pod-resources-socket={pods}") as running,
        ):
            port = await port_of(running)
            await kubelet.until(allocatable(4), "four GPUs")
            await kubelet.admit(PodSpec.of("train", {GPU: 2}))
            while (status := await status_of(port)).resources[0].in_use != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # the kubelet is asked a second after an allocation
            holders = [h.pod for d in status.resources[0].devices for h in d.holders]
            assert holders == ["train", "train"]
            assert status.pods.asked
            assert b"train" in (await fetch(port, "/")).body

    run(work())


def test_a_configuration_that_cannot_be_used_makes_the_plugin_unready_until_it_is_mended(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("version: v1")

    async def work():
        async with node(tmp_path, LISTEN, f"--config-file={config}") as (_, running):
            port = await port_of(running)
            await until_status(port, "/readyz", 200)
            config.write_text("version: v9")
            running.signal(signal.SIGHUP)
            reply = await until_status(port, "/readyz", 503)
            (reason,) = reply.json()["reasons"]
            assert reason.startswith(f"the new configuration cannot be used: {config}:1: version")
            assert (await fetch(port, "/livez")).status == 200
            config.write_text("version: v1")
            running.signal(signal.SIGHUP)
            await until_status(port, "/readyz", 200)

    run(work())


def test_only_the_endpoints_that_are_wanted_are_served(tmp_path):
    async def work():
        async with plugin(tmp_path, LISTEN, "--metrics-endpoints=probes") as running:
            port = await port_of(running)
            assert (await fetch(port, "/livez")).status == 200
            for path in ("/", "/status.json", "/metrics"):
                assert (await fetch(port, path)).status == 404

    run(work())


def test_the_program_ends_at_once_though_a_client_is_connected(tmp_path):
    async def work():
        async with node(tmp_path, LISTEN) as (_, running):
            port = await port_of(running)
            await until_status(port, "/readyz", 200)
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0

    run(work())


NEEDED = {
    "device_plugin": ["--kubelet-socket=", "--plugin-directory=DIR"],
    "config_manager": [
        "--node-name=n",
        "--node-label=l",
        "--config-file-srcdir=DIR",
        "--config-file-dst=DIR/link",
    ],
}


def refused(directory: Path, module: str, options: list[str]) -> str:
    """The one line with which a program ends."""
    needed = [each.replace("DIR", str(directory)) for each in NEEDED.get(module, [])]
    code = f"from gpu_device_plugin.programs.{module} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *needed, *options],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("E")]
    return line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metrics-address=9440"], "--metrics-address (GPU_NODE_METRICS_ADDRESS): '9440' cannot"),
        ([LISTEN, "--metrics-endpoints=probes,pods"], '--metrics-endpoints: "pods" is not allowed'),
        ([LISTEN, "--metrics-endpoints="], '--metrics-endpoints: "" is not allowed'),
        ([LISTEN, "--metrics-tls-cert-file=/no/c"], "CERT_FILE) is set without its other half"),
        (
            [LISTEN, "--metrics-tls-cert-file=/no/c", "--metrics-tls-key-file=/no/k"],
            "/no/c cannot be read: No such file or directory",
        ),
        ([LISTEN, "--metrics-token-file=/no/token"], "/no/token cannot be read: No such file"),
        ([LISTEN, "--metrics-token-file=/dev/null"], "/dev/null is empty"),
    ],
)
def test_options_that_cannot_be_used_end_the_plugin_with_one_line(tmp_path, options, message):
    assert message in refused(tmp_path, "device_plugin", options)


@pytest.mark.parametrize(
    "module", ["gpu_feature_discovery", "config_manager", "mps_control_daemon"]
)
def test_an_address_that_is_none_ends_every_program_with_one_line(tmp_path, module):
    line = refused(tmp_path, module, ["--metrics-address=9440"])
    assert "--metrics-address (GPU_NODE_METRICS_ADDRESS): '9440' cannot be listened at" in line


OPTIONAL = (
    "gpu_device_plugin.web",
    "gpu_device_plugin.status.endpoints",
    "gpu_device_plugin.status.metrics.metrics",
    "gpu_device_plugin.status.page.page",
    "gpu_device_plugin.status.pod_watch",
    "gpu_device_plugin.status.reporter",
    "prometheus_client",
)


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("device_plugin", "DEVICE_PLUGIN"),
        ("gpu_feature_discovery", "GPU_FEATURE_DISCOVERY"),
        ("config_manager", "CONFIG_MANAGER"),
        ("mps_control_daemon", "MPS_CONTROL_DAEMON"),
    ],
)
def test_without_an_address_nothing_of_it_is_imported(module, program):
    code = (
        f"import json, sys, gpu_device_plugin.programs.{module}\n"
        "from gpu_device_plugin.programs.listening import prepare_port\n"
        "from gpu_device_plugin.config.grammar import parse\n"
        "from gpu_device_plugin.config.options import Program\n"
        f"prepare_port(parse(Program.{program}, [], {{}}))\n"
        f"print(json.dumps([m for m in sys.modules if m.startswith({OPTIONAL!r})]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
