"""A pod of the chart at work: its containers run as rendered, with a kubelet and an API server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml
from deployment.charts import GFD, PLUGIN, ROOT, Rendered, render
from deployment.programs import command_line, finish, running, variables
from support.aio import run, until
from support.apiserver import ApiServer

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

pytestmark = pytest.mark.usefixtures("helm")

NODE = "/api/v1/nodes/node1"
LABEL = "nvidia.com/device-plugin.config"
EXAMPLE = ROOT / "deployments" / "examples" / "values" / "many-configurations.yaml"


@pytest.fixture(scope="module", name="rendered")
def _rendered() -> Rendered:
    values = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    return render({**values, "gfd": {"enabled": True}, "simulate": {"profile": "dgx-a100-mig"}})


@pytest.fixture(name="volumes")
def _volumes(rendered: Rendered, tmp_path: Path) -> dict[str, str]:
    """The volumes of the pod as directories, as variables of its containers name them."""
    configs = tmp_path / "available-configs"
    configs.mkdir()
    data = rendered.get("ConfigMap", "nvdp-gpu-device-plugin-configs")["data"]
    for name, text in data.items():
        (configs / name).write_text(text, encoding="utf-8")
    return {"CONFIG_FILE_SRCDIR": str(configs), "CONFIG_FILE_DST": str(tmp_path / "config.yaml")}


# Profile, values, and what the node then offers.
OFFERS: list[tuple[str, dict[str, object], dict[str, int]]] = [
    ("dgx-a100", {}, {"nvidia.com/gpu": 8}),
    ("dgx-a100", {"compatWithCPUManager": True, "failOnInitError": False}, {"nvidia.com/gpu": 8}),
    ("dgx-a100", {"deviceListStrategy": ["volume-mounts"]}, {"nvidia.com/gpu": 8}),
    ("dgx-a100", {"deviceIDStrategy": "index", "logFormat": "json"}, {"nvidia.com/gpu": 8}),
    ("dgx-a100", {"gdrcopyEnabled": True, "mofedEnabled": True}, {"nvidia.com/gpu": 8}),
    ("dgx-a100-mig-single", {"migStrategy": "single"}, {"nvidia.com/gpu": 56}),
    ("dgx-a100-mig", {"migStrategy": "mixed"}, {"nvidia.com/gpu": 2, "nvidia.com/mig-7g.40gb": 1}),
    ("t4x4", {"nvidiaDriverRoot": "/run/nvidia/driver"}, {"nvidia.com/gpu": 4}),
]


@pytest.mark.parametrize(("profile", "values", "offers"), OFFERS)
def test_a_node_offers_what_the_values_say(
    profile: str, values: dict[str, object], offers: dict[str, int], tmp_path: Path
) -> None:
    container = render({**values, "simulate": {"profile": profile}}).container(PLUGIN)
    env = variables(
        container,
        GPU_NODE_PLUGIN_DIR=str(tmp_path),
        KUBELET_SOCKET=str(tmp_path / "kubelet.sock"),
    )

    async def serve() -> None:
        async with (
            SimulatedKubelet(str(tmp_path)) as kubelet,
            running(command_line(container), env),
        ):
            await kubelet.until(
                lambda view: all(
                    view.resource(name).allocatable == count for name, count in offers.items()
                ),
                str(offers),
            )

    run(serve())


def with_label(value: str) -> dict[str, object]:
    return {"metadata": {"labels": {LABEL: value}}}


def test_a_node_gets_the_configuration_of_its_label_and_follows_it(
    rendered: Rendered, volumes: dict[str, str], tmp_path: Path
) -> None:
    # Tests that run at the same time have processes of the same name; this one is unmistakable.
    process = f"nvidia-device-plugin-{os.getpid()}"
    init = rendered.container(PLUGIN, "nvidia-device-plugin-init")
    sidecar = rendered.container(PLUGIN, "nvidia-device-plugin-sidecar")
    main = rendered.container(PLUGIN)
    program, *arguments = command_line(main)
    shutil.copy(program, tmp_path / process)

    async def live(server: ApiServer) -> None:
        api = {"KUBECONFIG": server.kubeconfig(tmp_path)}
        code, log = await finish(command_line(init), variables(init, **volumes, **api))
        assert code == 0, log
        assert os.path.basename(os.readlink(volumes["CONFIG_FILE_DST"])) == "shared"

        env = variables(
            main,
            CONFIG_FILE=volumes["CONFIG_FILE_DST"],
            GPU_NODE_PLUGIN_DIR=str(tmp_path),
            KUBELET_SOCKET=str(tmp_path / "kubelet.sock"),
        )
        async with (
            SimulatedKubelet(str(tmp_path)) as kubelet,
            running([str(tmp_path / process), *arguments], env),
            running(
                command_line(sidecar),
                variables(sidecar, **volumes, **api, PROCESS_TO_SIGNAL=process),
            ),
        ):
            await kubelet.until(
                lambda view: (
                    view.resource("nvidia.com/gpu").allocatable % 4 == 0
                    and view.resource("nvidia.com/gpu").allocatable > 0
                ),
                "replicas",
            )
            await until(lambda: server.count("GET", "/api/v1/nodes", watch=True) > 0)
            server.store.merge(NODE, with_label("mig"))
            await kubelet.until(
                lambda view: view.resource("nvidia.com/mig-1g.5gb").allocatable > 0, "MIG devices"
            )

    with ApiServer() as server:
        server.store.put(NODE, with_label("shared"))
        run(live(server))


def test_a_node_without_a_label_gets_the_default(
    rendered: Rendered, volumes: dict[str, str], tmp_path: Path
) -> None:
    init = rendered.container(GFD, "gpu-feature-discovery-init")
    main = rendered.container(GFD)
    with ApiServer() as server:
        server.store.put(NODE)
        api = {"KUBECONFIG": server.kubeconfig(tmp_path)}

        chosen = run(finish(command_line(init), variables(init, **volumes, **api)))
        labelled = run(
            finish(
                command_line(main),
                variables(main, **api, CONFIG_FILE=volumes["CONFIG_FILE_DST"], GFD_ONESHOT="true"),
            )
        )

        features = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures"
        published = server.store.get(f"{features}/nvidia-features-for-node1")
    assert chosen[0] == 0, chosen[1]
    assert labelled[0] == 0, labelled[1]
    assert os.path.basename(os.readlink(volumes["CONFIG_FILE_DST"])) == "default"
    assert published["spec"]["labels"]["nvidia.com/gpu.replicas"] == "1"
