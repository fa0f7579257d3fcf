"""The agent of the chart: what it takes the place of, and its pod at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deployment.charts import AGENT, GFD, MPS, PLUGIN, Object, Rendered, render
from deployment.matrix import SIMULATED_NODE, TIME_SLICING
from deployment.programs import command_line, running, variables
from support.aio import run, until
from support.apiserver import ApiServer

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

pytestmark = pytest.mark.usefixtures("helm")

FULL = "nvdp-gpu-device-plugin"
NODE = "/api/v1/nodes/node1"
LABEL = "nvidia.com/device-plugin.config"
OBJECT = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures/nvidia-features-for-node1"
GPU = "nvidia.com/gpu"


def with_agent(**values: Any) -> Rendered:
    return render({**values, "agent": {"enabled": True, **values.pop("agent", {})}})


def test_it_takes_the_place_of_plugin_labeller_and_their_sidecars() -> None:
    values = {"gfd": {"enabled": True}, "config": {"map": {"any": TIME_SLICING}}}
    apart, together = render(values), with_agent(**values)

    assert apart.components() == {PLUGIN, GFD, MPS}
    assert together.components() == {AGENT, MPS}
    pod = together.pod(AGENT)
    assert [container["name"] for container in pod["containers"]] == ["gpu-node-agent-ctr"]
    assert "initContainers" not in pod
    assert "shareProcessNamespace" not in pod
    accounts = {item["metadata"]["name"] for item in together.all_of("ServiceAccount")}
    assert f"{FULL}-service-account" in accounts
    assert f"{FULL}-gpu-feature-discovery-service-account" not in accounts


def test_it_has_the_mounts_and_volumes_of_both() -> None:
    values = {
        "gfd": {"enabled": True},
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "metrics": {"enabled": True, "tls": {"secretName": "tls"}, "token": {"secretName": "t"}},
    }
    apart, together = render(values), with_agent(**values)

    def of(rendered: Rendered, *components: str) -> tuple[list[Object], list[Object]]:
        mounts, volumes = dict[str, Object](), dict[str, Object]()
        for component in components:
            mounts |= {m["name"]: m for m in rendered.container(component)["volumeMounts"]}
            volumes |= {v["name"]: v for v in rendered.pod(component)["volumes"]}
        return sorted(mounts.values(), key=str), sorted(volumes.values(), key=str)

    assert of(together, AGENT) == of(apart, PLUGIN, GFD)


def test_it_is_told_what_both_were_told() -> None:
    values = {
        "gfd": {
            "enabled": True,
            "noTimestamp": True,
            "sleepInterval": "30s",
            "useNodeFeatureAPI": True,
        },
        "migStrategy": "single",
        "deviceListStrategy": ["volume-mounts", "cdi-cri"],
        "failOnInitError": False,
        "logFormat": "json",
        "reportHealth": ["events", "node-condition"],
        "metrics": {"enabled": True},
        "config": {"name": "mine"},
    }
    apart, told = render(values), with_agent(**values).environ(AGENT)

    of_the_file = {"CONFIG_FILE"}
    for component in (PLUGIN, GFD):
        others = apart.environ(component)
        others.pop("GPU_NODE_METRICS_ADDRESS")
        assert {k: v for k, v in others.items() if k not in of_the_file}.items() <= told.items()
    assert told["GPU_NODE_METRICS_ADDRESS"] == ":9440"
    manager = apart.environ(PLUGIN, "nvidia-device-plugin-sidecar")
    followed = {"KUBECONFIG", "NODE_LABEL", "CONFIG_FILE_SRCDIR", "DEFAULT_CONFIG"}
    for name in (*followed, "FALLBACK_STRATEGIES"):
        assert told[name] == manager[name]
    assert not of_the_file & set(told)


def test_nothing_is_followed_where_there_is_nothing_to_choose_from() -> None:
    told = with_agent().environ(AGENT)

    assert not {"CONFIG_FILE_SRCDIR", "DEFAULT_CONFIG", "FALLBACK_STRATEGIES"} & set(told)
    assert told["GPU_NODE_PUBLISH_LABELS"] == "false"
    assert "GPU_NODE_RESCAN_INTERVAL" not in told


def test_options_of_its_own() -> None:
    agent = {
        "rescanInterval": "5s",
        "extraEnv": [{"name": "B", "value": "agent"}, {"name": "C", "value": "agent"}],
    }
    plugin = {"extraEnv": [{"name": "A", "value": "plugin"}, {"name": "B", "value": "plugin"}]}
    gfd = {"enabled": True, "extraEnv": [{"name": "D", "value": "gfd"}]}

    rendered = with_agent(agent=agent, devicePlugin=plugin, gfd=gfd)
    told = rendered.environ(AGENT)
    names = [item["name"] for item in rendered.container(AGENT)["env"]]
    assert told["GPU_NODE_RESCAN_INTERVAL"] == "5s"
    assert [told[name] for name in "ABCD"] == ["plugin", "agent", "agent", "gfd"]
    assert len(names) == len(set(names))
    without = with_agent(agent=agent, devicePlugin=plugin, gfd={**gfd, "enabled": False})
    assert "D" not in without.environ(AGENT)


@pytest.mark.parametrize(
    ("values", "is_privileged"),
    [
        ({}, False),
        ({"gfd": {"enabled": True}}, True),
        ({"gfd": {"enabled": True, "securityContext": None}}, False),
        ({"compatWithCPUManager": True}, True),
        ({"securityContext": {"privileged": True}}, True),
        ({"securityContext": {"runAsUser": 0}, "gfd": {"enabled": True}}, True),
        ({"securityContext": {"runAsUser": 0}, "compatWithCPUManager": True}, False),
        ({"gfd": {"enabled": True}, "agent": {"securityContext": {"runAsUser": 0}}}, False),
    ],
)
def test_it_may_do_what_the_more_demanding_of_both_may(
    values: dict[str, Any], is_privileged: bool
) -> None:
    context = with_agent(**values).container(AGENT)["securityContext"]
    assert bool(context.get("privileged")) is is_privileged
    if values == {}:
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True


def rights(rendered: Rendered) -> tuple[list[str], list[str]]:
    """Who may look at nodes, and who may write NodeFeature objects."""
    nodes = [
        subject["name"]
        for item in rendered.all_of("ClusterRoleBinding")
        if item["metadata"]["name"] == f"{FULL}-role-binding"
        for subject in item["subjects"]
    ]
    features = [
        subject["name"]
        for item in rendered.all_of("RoleBinding")
        if item["metadata"]["name"].startswith(FULL)
        for subject in item["subjects"]
    ]
    return nodes, features


def test_rights_and_tokens_are_for_what_it_does() -> None:
    account = f"{FULL}-service-account"

    def has_token(rendered: Rendered) -> bool:
        return bool(rendered.pod(AGENT)["automountServiceAccountToken"])

    plain = with_agent()
    assert rights(plain) == ([], [])
    assert not has_token(plain)
    followed = with_agent(config={"name": "mine"})
    assert rights(followed) == ([account], [])
    assert has_token(followed)
    labelled = with_agent(gfd={"enabled": True})
    assert rights(labelled) == ([], [account])
    assert has_token(labelled)
    assert has_token(with_agent(reportHealth=["events"]))
    in_a_file = with_agent(gfd={"enabled": True, "useNodeFeatureAPI": False})
    assert rights(in_a_file) == ([], [])
    assert not has_token(in_a_file)


def test_changed_configurations_are_followed_and_do_not_replace_its_pods() -> None:
    def annotations(rendered: Rendered, component: str) -> Object:
        found: Object = rendered.daemonset(component)["spec"]["template"]["metadata"]
        return dict(found["annotations"])

    one = with_agent(config={"map": {"any": TIME_SLICING}})
    other = with_agent(config={"map": {"any": "version: v1"}})
    assert annotations(one, AGENT) == annotations(other, AGENT) == {}
    assert annotations(one, MPS) != annotations(other, MPS)
    simulated = with_agent(simulate={"node": SIMULATED_NODE})
    assert "checksum/config" in annotations(simulated, AGENT)
    given = with_agent(simulate={"node": SIMULATED_NODE}, podAnnotations={"checksum/config": "x"})
    assert annotations(given, AGENT) == {"checksum/config": "x"}


def test_the_network_lets_it_through_as_far_as_needed() -> None:
    def policy(**values: Any) -> Object:
        rendered = with_agent(networkPolicy={"enabled": True}, **values)
        assert not rendered.has("NetworkPolicy", FULL)
        found: Object = rendered.get("NetworkPolicy", f"{FULL}-agent")["spec"]
        return found

    assert policy()["egress"] == []
    assert policy(gfd={"enabled": True})["egress"]
    assert policy(config={"name": "mine"})["egress"]
    assert policy(reportHealth=["events"])["egress"]
    (ingress,) = policy(metrics={"enabled": True})["ingress"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": 9440}]


@pytest.mark.parametrize("part", ["devicePlugin", "gfd"])
def test_the_network_of_the_host_is_as_for_either(part: str) -> None:
    assert "hostNetwork" not in with_agent(gfd={"enabled": True}).pod(AGENT)
    values: dict[str, dict[str, bool]] = {"gfd": {"enabled": True}}
    values[part] = {**values.get(part, {}), "enableHostNetwork": True}
    assert with_agent(**values).pod(AGENT)["hostNetwork"] is True


def test_a_pod_follows_its_node(tmp_path: Path) -> None:
    values = {
        "config": {"map": {"default": "version: v1\n", "shared": TIME_SLICING}},
        "gfd": {"enabled": True},
        "simulate": {"profile": "t4x4"},
    }
    rendered = with_agent(**values)
    container = rendered.container(AGENT)
    configs = tmp_path / "available-configs"
    configs.mkdir()
    for name, text in rendered.get("ConfigMap", f"{FULL}-configs")["data"].items():
        (configs / name).write_text(text, encoding="utf-8")

    async def live(server: ApiServer) -> None:
        env = variables(
            container,
            KUBECONFIG=server.kubeconfig(tmp_path),
            CONFIG_FILE_SRCDIR=str(configs),
            GPU_NODE_PLUGIN_DIR=str(tmp_path),
            KUBELET_SOCKET=str(tmp_path / "kubelet.sock"),
        )

        def replicas() -> str:
            labels = server.store.objects.get(OBJECT, {}).get("spec", {}).get("labels", {})
            return str(labels.get("nvidia.com/gpu.replicas"))

        async with (
            SimulatedKubelet(str(tmp_path)) as kubelet,
            running(command_line(container), env),
        ):
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 16, "replicas")
            await until(lambda: replicas() == "4")
            server.store.merge(NODE, {"metadata": {"labels": {LABEL: None}}})
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 4, "GPUs")
            await until(lambda: replicas() == "1")

    with ApiServer() as server:
        server.store.put(NODE, {"metadata": {"labels": {LABEL: "shared"}}})
        run(live(server))
