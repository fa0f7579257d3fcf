"""The port of the real programs: probes through restarts, reloads and bad options."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import pytest
from support.aio import run
from support.process import PluginProcess, node, plugin
from support.serving import allocatable
from support.web import Reply, fetch

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.status.document import from_json

LISTEN = "--metrics-address=127.0.0.1:0"


async def port_of(running: PluginProcess) -> int:
    """Where a program serves."""
    await running.logged("serving HTTP")
    found = re.search(r"serving HTTPS? at \S*?:(\d+): ", running.log)
    assert found is not None
    return int(found[1])


async def until_status(port: int, path: str, status: int) -> Reply:
    """Asks until that is the answer; the limit is that of the test."""
    while (reply := await fetch(port, path)).status != status:
        pass
    return reply


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
            while (status := from_json((await fetch(port, "/status.json")).body)).resources[
                0
            ].allocatable != 3:
                pass
            assert status.node == "node-1"
            assert status.hardware is not None
            assert status.hardware.simulated == "t4x4"
            assert any("unhealthy resource=" in event.text for event in status.events)
            assert b"3 of 4 can be allocated" in (await fetch(port, "/")).body

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
@pytest.mark.parametrize(
    "module", ["device_plugin", "gpu_feature_discovery", "config_manager", "mps_control_daemon"]
)
def test_options_that_cannot_be_used_end_every_program_with_one_line(
    tmp_path, module, options, message
):
    needed = {
        "device_plugin": ["--kubelet-socket=", f"--plugin-directory={tmp_path}"],
        "config_manager": [
            "--node-name=n",
            "--node-label=l",
            f"--config-file-srcdir={tmp_path}",
            f"--config-file-dst={tmp_path}/link",
        ],
    }
    code = f"from gpu_device_plugin.programs.{module} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *needed.get(module, []), *options],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("E")]
    assert message in line
    assert "Traceback" not in done.stderr


OPTIONAL = ("gpu_device_plugin.web", "gpu_device_plugin.status", "prometheus_client")


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
