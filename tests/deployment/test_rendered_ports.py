"""The port of rendered pods: their containers run and answer probes, metrics and the status page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deployment.charts import AGENT, GFD, PLUGIN, Object, render
from deployment.programs import command_line, finish, running, variables
from support.aio import run
from support.certificates import OPENSSL, make_certificates
from support.web import Reply, fetch, port_of, trusting, until_status

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

pytestmark = pytest.mark.usefixtures("helm")

GPU = "nvidia.com/gpu"
ANY_PORT = {"GPU_NODE_METRICS_ADDRESS": "127.0.0.1:0"}
"""In place of the rendered one, which tests that run at the same time would share."""
VALUES: dict[str, Any] = {
    "simulate": {"profile": "t4x4"},
    "metrics": {"enabled": True},
    "probes": {"enabled": True},
    "gfd": {"useNodeFeatureAPI": False},
}
COMPONENTS: dict[str, dict[str, Any]] = {
    PLUGIN: VALUES,
    GFD: {**VALUES, "gfd": {"enabled": True, "useNodeFeatureAPI": False}},
    AGENT: {**VALUES, "agent": {"enabled": True}},
    "agent that labels": {
        **VALUES,
        "agent": {"enabled": True},
        "gfd": {"enabled": True, "useNodeFeatureAPI": False},
    },
}


def container_of(name: str, **more: Any) -> Object:
    component = AGENT if name.startswith(AGENT) else name
    values = {**COMPONENTS[name], **more}
    return render(values).container(component)


def on_this_machine(container: Object, directory: Path, **more: str) -> dict[str, str]:
    """The environment of a container, with paths and ports that are free here."""
    return variables(
        container,
        **ANY_PORT,
        GPU_NODE_PLUGIN_DIR=str(directory),
        KUBELET_SOCKET=str(directory / "kubelet.sock"),
        GFD_OUTPUT_FILE=str(directory / "gfd"),
        GPU_NODE_POD_RESOURCES_SOCKET="",
        **more,
    )


def probe_path(container: Object, probe: str) -> str:
    path: str = container[probe]["httpGet"]["path"]
    return path


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_rendered_pod_answers_its_probes_and_whoever_looks(name: str, tmp_path: Path) -> None:
    container = container_of(name)

    async def look() -> tuple[Reply, Reply, Reply, Reply]:
        env = on_this_machine(container, tmp_path)
        async with (
            SimulatedKubelet(str(tmp_path)),
            running(command_line(container), env) as program,
        ):
            port = await port_of(program)
            ready = await until_status(port, probe_path(container, "readinessProbe"), 200)
            live = await fetch(port, probe_path(container, "livenessProbe"))
            return ready, live, await fetch(port, "/metrics"), await fetch(port, "/status.json")

    ready, live, metrics, status = run(look())

    assert ready.json() == live.json() == {"ok": True, "reasons": []}
    assert b"gpu_node_ready{" in metrics.body
    document = status.json()
    assert document["node"] == "node1"
    assert document["hardware" if name != GFD else "labelling"] is not None


def test_an_agent_without_a_kubelet_lives_and_is_not_ready(tmp_path: Path) -> None:
    container = container_of(AGENT)

    async def look() -> tuple[Reply, Reply]:
        async with running(
            command_line(container), on_this_machine(container, tmp_path)
        ) as program:
            port = await port_of(program)
            ready = await until_status(port, probe_path(container, "readinessProbe"), 503)
            return ready, await fetch(port, probe_path(container, "livenessProbe"))

    ready, live = run(look())

    assert ready.json()["reasons"]
    assert live.status == 200


@pytest.mark.skipif(OPENSSL is None, reason="no openssl to make certificates with")
@pytest.mark.parametrize("name", [PLUGIN, AGENT])
def test_a_guarded_pod_tells_strangers_no_more_than_the_bare_answers(
    name: str, tmp_path: Path
) -> None:
    metrics = {"enabled": True, "tls": {"secretName": "a"}, "token": {"secretName": "b"}}
    container = container_of(name, metrics=metrics)
    certificates = make_certificates(tmp_path / "certificates")
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="utf-8")
    env = on_this_machine(
        container,
        tmp_path,
        GPU_NODE_METRICS_TLS_CERT_FILE=str(certificates.server),
        GPU_NODE_METRICS_TLS_KEY_FILE=str(certificates.server_key),
        GPU_NODE_METRICS_TOKEN_FILE=str(token),
    )
    tls = trusting(str(certificates.authority))

    async def look() -> tuple[Reply, Reply, Reply, int, str]:
        async with (
            SimulatedKubelet(str(tmp_path)) as kubelet,
            running(command_line(container), env) as program,
        ):
            await program.logged("serving HTTPS")
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 4, "GPUs")
            port = await port_of(program)
            live = await fetch(port, probe_path(container, "livenessProbe"), tls=tls)
            stranger = await fetch(port, "/metrics", tls=tls)
            bearer = {"Authorization": "Bearer secret"}
            friend = await fetch(port, "/metrics", bearer, tls=tls)
            asking = ["status", "--address", f"https://127.0.0.1:{port}", "--insecure"]
            command = [*command_line({"command": ["gpu-node"]}), *asking, "--token-file"]
            code, told = await finish([*command, str(token)], env)
            return live, stranger, friend, code, told

    live, stranger, friend, code, told = run(look())

    assert (live.status, live.body.strip()) == (200, b"ok")
    assert stranger.status == 401
    assert b"gpu_node_ready{" in friend.body
    assert code == 0, told
    assert GPU in told
