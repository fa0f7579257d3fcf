"""The status as data: complete, and the same after a trip through JSON."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.node import NodeReader
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.status.document import from_json, to_data, to_json
from gpu_device_plugin.status.model import Check, FormerHolding, Holder, Labelling, NodeStatus, Pods
from gpu_device_plugin.status.reporter import Reporter

CONFIG = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""


def observed(tmp_path: Path, profile: str, *arguments: str) -> NodeStatus:
    """The status of a plugin that serves a simulated node without a kubelet."""
    backend = SimulatedBackend.from_profile(profile)
    parsed = parse(Program.DEVICE_PLUGIN, arguments, {"MIG_STRATEGY": "mixed"})
    reader = NodeReader(lambda: load(parsed), lambda _: backend, CdiSettings())
    supervisor = Supervisor(reader, KubeletSocket(""), environ={}, socket_directory=str(tmp_path))
    holder = Holder("ml", "train", "main", (0, 2))

    async def look() -> NodeStatus:
        running = asyncio.create_task(supervisor.run())
        uuid = backend.read().gpus[0].uuid
        reporter = Reporter(
            "nvidia-device-plugin",
            node="node-1",
            simulated=profile,
            observe=supervisor.observe,
            pods=lambda: (Pods(asked=True, time=1), {("nvidia.com/gpu", uuid): [holder]}),
        )
        async with asyncio.timeout(5):
            while not reporter.readiness().ok:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.01)
        status = reporter.status()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return status

    return asyncio.run(look())


def test_a_served_node_is_told_in_full(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    status = observed(tmp_path, "dgx-a100", f"--config-file={file}")
    assert status.live == status.ready == Check(ok=True)
    assert status.hardware is not None
    assert len(status.hardware.gpus) == 8
    (resource,) = status.resources
    assert (resource.capacity, resource.allocatable, resource.in_use) == (32, 32, 2)
    assert resource.devices[0].holders == (Holder("ml", "train", "main", (0, 2)),)
    assert status.configuration is not None
    origins = {s.path: s.origin for s in status.configuration.settings}
    assert origins["sharing.timeSlicing.resources[0].replicas"] == f"{file}:6"
    assert origins["flags.migStrategy"] == "MIG_STRATEGY"
    assert not origins["flags.failOnInitError"]


@pytest.mark.parametrize("profile", ["dgx-a100", "dgx-a100-mig", "t4x4"])
def test_a_document_is_read_back_as_it_was(tmp_path, profile):
    status = observed(tmp_path, profile)
    assert from_json(to_json(status)) == status


def test_as_data_and_as_json_it_is_the_same(tmp_path):
    status = replace(
        observed(tmp_path, "dgx-a100-mig"), labelling=Labelling(1.0, "a file", (("a", "1"),))
    )
    data = to_data(status)
    assert data == json.loads(to_json(status))
    assert data["labelling"]["labels"] == {"a": "1"}


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"schema": "other"}', "null"])
def test_what_is_no_status_is_refused(text):
    with pytest.raises(ConfigError, match="not a status of a node"):
        from_json(text)


def test_fields_of_later_versions_are_passed_over(tmp_path):
    status = observed(tmp_path, "t4x4")
    data = json.loads(to_json(status))
    data["later"] = data["hardware"]["later"] = data["resources"][0]["devices"][0]["later"] = 1
    assert from_json(json.dumps(data)) == status


def test_what_is_held_and_not_offered_is_told_apart():
    holder = Holder("ml", "old", "main")
    told = Pods(asked=True, time=1)
    reporter = Reporter(
        "nvidia-device-plugin", pods=lambda: (told, {("nvidia.com/gpu", "GPU-9"): [holder]})
    )

    (former,) = reporter.status().pods.former

    assert former == FormerHolding("nvidia.com/gpu", "GPU-9", "", holder)
