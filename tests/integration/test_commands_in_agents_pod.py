"""Commands in the pod of an agent know the configuration that the node's label chooses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.apiserver import ApiServer

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent

NODE = "/api/v1/nodes/n1"
LABEL = "nvidia.com/device-plugin.config"
SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
RUN = "import sys; from gpu_device_plugin.programs.gpu_node import main; sys.exit(main())"


@pytest.fixture(name="server")
def _server():
    with ApiServer() as server:
        server.store.put(NODE, {"metadata": {"labels": {LABEL: "shared"}}})
        yield server


@pytest.fixture(name="pod")
def _pod(server: ApiServer, tmp_path: Path) -> dict[str, str]:
    """The variables of the agent's pod."""
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "default").write_text("version: v1\n")
    (configs / "shared").write_text(SHARED)
    return {
        "NODE_NAME": "n1",
        "KUBECONFIG": server.kubeconfig(tmp_path),
        "CONFIG_FILE_SRCDIR": str(configs),
        "FALLBACK_STRATEGIES": "named",
        "GPU_NODE_SIMULATE": "t4x4",
    }


def chosen(pod: dict[str, str], *arguments: str) -> list[str]:
    return [
        os.path.basename(argument) if "config-file" in argument else argument
        for argument in with_file_of_agent(arguments, pod)
    ]


def told(pod: dict[str, str], *command: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command],
        env={**os.environ, **pod},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_file_of_the_label_is_taken(server: ApiServer, pod: dict[str, str]) -> None:
    assert chosen(pod, "--mig-strategy=none") == ["shared", "--mig-strategy=none"]
    server.store.put(NODE, {"metadata": {"labels": {}}})
    assert chosen(pod) == ["default"]
    server.store.put(NODE, {"metadata": {"labels": {LABEL: "sharde"}}})
    with pytest.raises(ConfigError, match="'sharde', which does not exist"):
        chosen(pod)


def test_without_the_api_it_is_that_of_a_node_without_label(
    pod: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert chosen({**pod, "KUBECONFIG": ""}) == ["default"]
    assert f"the label {LABEL} is not known" in caplog.text


@pytest.mark.parametrize("arguments", [["--config-file=mine"], ["-config-file", "mine"]])
def test_a_file_that_is_given_goes_before_it(pod: dict[str, str], arguments: list[str]) -> None:
    assert with_file_of_agent(arguments, pod) == arguments


def test_elsewhere_nothing_is_added(pod: dict[str, str]) -> None:
    assert with_file_of_agent(["-x"], {}) == ["-x"]
    assert with_file_of_agent(["-x"], {**pod, "CONFIG_FILE": "/config"}) == ["-x"]


def test_the_doctor_plans_with_it(pod: dict[str, str]) -> None:
    code, out, _ = told(pod, "doctor", "--only=config,offer", "-o", "json")

    assert code == 0
    assert "configs/shared" in out
    assert "nvidia.com/gpu: 16" in out


def test_the_doctor_tells_that_the_label_names_nothing(
    server: ApiServer, pod: dict[str, str]
) -> None:
    server.store.put(NODE, {"metadata": {"labels": {LABEL: "sharde"}}})

    code, out, _ = told(pod, "doctor", "--only=config")

    assert code == 1
    assert "which does not exist" in out


def test_other_commands_know_it_too(server: ApiServer, pod: dict[str, str]) -> None:
    code, out, _ = told(pod, "status", "-o", "json")
    assert code == 0
    (resource,) = json.loads(out)["resources"]
    assert resource["capacity"] == 16
    assert "16" in told(pod, "explain")[1]
    assert "nvidia.com/gpu.replicas=4" in told(pod, "labels", "-o", "text")[1]
    server.store.put(NODE, {"metadata": {"labels": {LABEL: "sharde"}}})
    for command in (["status"], ["explain"], ["labels"], ["topology"], ["cdi", "generate"]):
        code, _, error = told(pod, *command)
        assert code == 1
        assert "names the configuration 'sharde', which does not exist" in error
