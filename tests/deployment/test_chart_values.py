"""Each value of the chart has the effect that docs/chart.md and specifications of users rely on."""

from __future__ import annotations

from typing import Any

import pytest
from deployment.charts import GFD, MPS, PLUGIN, RELEASE, Rendered, render

pytestmark = pytest.mark.usefixtures("helm")

ALL = {"gfd": {"enabled": True}}
"""All three components."""
NAME = f"{RELEASE}-gpu-device-plugin"
TIGHT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
MPS_MAP = {"any": "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"}
SYS_ADMIN = {
    "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
PRIVILEGED = {"privileged": True, "readOnlyRootFilesystem": True}


def merged(*many: dict[str, Any]) -> dict[str, Any]:
    """Values over values, as helm puts them together."""
    result: dict[str, Any] = {}
    for values in many:
        for name, value in values.items():
            old = result.get(name)
            both = isinstance(value, dict) and isinstance(old, dict)
            result[name] = {**old, **value} if both else value  # type: ignore[dict-item]  # both
    return result


def at(path: str, value: Any) -> dict[str, Any]:
    """``a.b`` and a value as values."""
    first, _, rest = path.partition(".")
    return {first: at(rest, value) if rest else value}


# Value, what it is set to, variable, its value, and which main containers get it (spec 07, 2.2).
VARIABLES: list[tuple[str, Any, str, str, set[str]]] = [
    ("migStrategy", "single", "MIG_STRATEGY", "single", {PLUGIN, GFD, MPS}),
    ("failOnInitError", False, "FAIL_ON_INIT_ERROR", "false", {PLUGIN, GFD}),
    ("failOnInitError", True, "FAIL_ON_INIT_ERROR", "true", {PLUGIN, GFD}),
    ("compatWithCPUManager", True, "PASS_DEVICE_SPECS", "true", {PLUGIN}),
    ("compatWithCPUManager", False, "PASS_DEVICE_SPECS", "false", {PLUGIN}),
    ("deviceListStrategy", "envvar", "DEVICE_LIST_STRATEGY", "envvar", {PLUGIN}),
    ("deviceListStrategy", "envvar,cdi-cri", "DEVICE_LIST_STRATEGY", "envvar,cdi-cri", {PLUGIN}),
    (
        "deviceListStrategy",
        ["envvar", "cdi-cri"],
        "DEVICE_LIST_STRATEGY",
        "envvar,cdi-cri",
        {PLUGIN},
    ),
    ("deviceIDStrategy", "index", "DEVICE_ID_STRATEGY", "index", {PLUGIN}),
    ("nvidiaDriverRoot", "/run/d", "NVIDIA_DRIVER_ROOT", "/run/d", {PLUGIN}),
    ("nvidiaDevRoot", "/run/v", "NVIDIA_DEV_ROOT", "/run/v", {PLUGIN}),
    ("cdi.nvidiaHookPath", "/bin/hook", "NVIDIA_CDI_HOOK_PATH", "/bin/hook", {PLUGIN}),
    ("cdi.featureFlags", "a,b", "CDI_FEATURE_FLAGS", "a,b", {PLUGIN}),
    ("gdrcopyEnabled", True, "GDRCOPY_ENABLED", "true", {PLUGIN}),
    ("gdsEnabled", True, "GDS_ENABLED", "true", {PLUGIN}),
    ("mofedEnabled", False, "MOFED_ENABLED", "false", {PLUGIN}),
    ("deviceDiscoveryStrategy", "nvml", "DEVICE_DISCOVERY_STRATEGY", "nvml", {PLUGIN, GFD}),
    ("noTimestamp", True, "GFD_NO_TIMESTAMP", "true", {GFD}),
    ("gfd.noTimestamp", True, "GFD_NO_TIMESTAMP", "true", {GFD}),
    ("sleepInterval", "30s", "GFD_SLEEP_INTERVAL", "30s", {GFD}),
    ("gfd.sleepInterval", "30s", "GFD_SLEEP_INTERVAL", "30s", {GFD}),
    ("gfd.useNodeFeatureAPI", False, "GFD_USE_NODE_FEATURE_API", "false", {GFD}),
    ("mps.root", "/data/mps", "MPS_ROOT", "/data/mps", {PLUGIN}),
    ("logFormat", "json", "GPU_NODE_LOG_FORMAT", "json", {PLUGIN, GFD, MPS}),
    ("simulate.profile", "t4x4", "GPU_NODE_SIMULATE", "t4x4", {PLUGIN, GFD, MPS}),
    ("devicePlugin.extraEnv", [{"name": "A", "value": "b"}], "A", "b", {PLUGIN}),
    ("gfd.extraEnv", [{"name": "A", "value": "b"}], "A", "b", {GFD}),
    ("mps.extraEnv", [{"name": "A", "value": "b"}], "A", "b", {MPS}),
]
ALWAYS = {"MPS_ROOT"}


@pytest.mark.parametrize(("path", "value", "variable", "text", "who"), VARIABLES)
def test_a_value_becomes_a_variable(
    path: str, value: Any, variable: str, text: str, who: set[str]
) -> None:
    rendered = render(merged(ALL, at(path, value)))

    assert {c: rendered.environ(c).get(variable) for c in rendered.components()} == {
        c: text if c in who else None for c in (PLUGIN, GFD, MPS)
    }


def test_nothing_that_is_not_set_becomes_a_variable() -> None:
    rendered = render(ALL)

    assert list(rendered.environ(PLUGIN)) == [
        "MPS_ROOT",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
    ]
    assert list(rendered.environ(GFD)) == ["NODE_NAME", "NAMESPACE", "POD_NAME"]
    assert list(rendered.environ(MPS)) == [
        "NODE_NAME",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
    ]


def test_values_at_the_top_go_before_those_of_gfd() -> None:
    values = {"noTimestamp": False, "sleepInterval": "5m"}

    variables = render(
        merged(ALL, values, {"gfd": {"noTimestamp": True, "sleepInterval": "1s"}})
    ).environ(GFD)

    assert variables["GFD_NO_TIMESTAMP"] == "false"
    assert variables["GFD_SLEEP_INTERVAL"] == "5m"


@pytest.mark.parametrize(
    ("values", "release", "name"),
    [
        ({}, "nvdp", "nvdp-gpu-device-plugin"),
        ({}, "my-gpu-device-plugin", "my-gpu-device-plugin"),
        ({"nameOverride": "plugin"}, "nvdp", "nvdp-plugin"),
        ({"nameOverride": "plugin"}, "plugin-a", "plugin-a"),
        ({"fullnameOverride": "gpus"}, "nvdp", "gpus"),
        ({"nameOverride": "a" * 70}, "nvdp", "nvdp-" + "a" * 58),
        ({"nameOverride": "a" * 57 + "-b"}, "nvdp", "nvdp-" + "a" * 57),
    ],
)
def test_names(values: dict[str, Any], release: str, name: str) -> None:
    rendered = render(merged(ALL, values), release=release)

    def cut(suffix: str) -> str:
        return name[: 62 - len(suffix)].rstrip("-") + "-" + suffix

    assert rendered.daemonset(PLUGIN)["metadata"]["name"] == name
    assert rendered.daemonset(GFD)["metadata"]["name"] == cut("gpu-feature-discovery")
    assert rendered.daemonset(MPS)["metadata"]["name"] == cut("mps-control-daemon")
    assert rendered.has("ServiceAccount", f"{name}-service-account")


def test_names_and_selectors_of_the_original_chart() -> None:
    rendered = render(
        merged(ALL, {"nameOverride": "nvidia-device-plugin", "componentSelectors": False})
    )

    assert [item["metadata"]["name"] for item in map(rendered.daemonset, (PLUGIN, GFD, MPS))] == [
        "nvdp-nvidia-device-plugin",
        "nvdp-nvidia-device-plugin-gpu-feature-discovery",
        "nvdp-nvidia-device-plugin-mps-control-daemon",
    ]
    for component in (PLUGIN, GFD, MPS):
        assert rendered.daemonset(component)["spec"]["selector"]["matchLabels"] == {
            "app.kubernetes.io/name": "nvidia-device-plugin",
            "app.kubernetes.io/instance": "nvdp",
        }


def test_each_daemonset_selects_its_own_pods_only() -> None:
    rendered = render(ALL)
    daemonsets = [rendered.daemonset(component) for component in (PLUGIN, GFD, MPS)]

    for one in daemonsets:
        selector = one["spec"]["selector"]["matchLabels"]
        selected = [
            other["metadata"]["name"]
            for other in daemonsets
            if selector.items() <= other["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert selected == [one["metadata"]["name"]]


def test_selector_labels_override() -> None:
    rendered = render(merged(ALL, {"selectorLabelsOverride": {"app": "gpus"}}))

    for component in (PLUGIN, GFD, MPS):
        item = rendered.daemonset(component)
        assert item["spec"]["selector"]["matchLabels"] == {"app": "gpus"}
        assert item["spec"]["template"]["metadata"]["labels"]["app"] == "gpus"
        assert item["metadata"]["labels"]["app"] == "gpus"
    account = rendered.get("ServiceAccount", f"{NAME}-service-account")
    assert account["metadata"]["labels"]["app"] == "gpus"


def test_selector_labels_override_with_keys_of_our_own() -> None:
    override = {"app.kubernetes.io/name": "mine"}
    rendered = render(merged(ALL, {"selectorLabelsOverride": override}))

    for component in (PLUGIN, GFD, MPS):
        item = rendered.daemonset(component)
        assert item["spec"]["selector"]["matchLabels"] == override
        assert item["metadata"]["labels"]["app.kubernetes.io/name"] == "mine"


def test_namespaces() -> None:
    values = {"namespaceOverride": "there", "config": {"map": {"any": "version: v1"}}}
    values = merged(
        ALL, values, {"gfd": {"namespaceOverride": "labels"}, "nfd": {"enabled": False}}
    )

    rendered = render(values)

    places = {
        (item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))
        for item in rendered.objects
    }
    assert places == {
        ("DaemonSet", NAME, "there"),
        ("DaemonSet", f"{NAME}-mps-control-daemon", "there"),
        ("DaemonSet", f"{NAME}-gpu-feature-discovery", "labels"),
        ("ServiceAccount", f"{NAME}-service-account", "there"),
        ("ServiceAccount", f"{NAME}-gpu-feature-discovery-service-account", "labels"),
        ("ConfigMap", f"{NAME}-configs", "there"),
        ("ConfigMap", f"{NAME}-configs", "labels"),
        ("ClusterRole", f"{NAME}-role", None),
        ("ClusterRoleBinding", f"{NAME}-role-binding", None),
        ("Role", f"{NAME}-gpu-feature-discovery-role", "labels"),
        ("RoleBinding", f"{NAME}-gpu-feature-discovery-role-binding", "labels"),
    }


def every_container(rendered: Rendered) -> list[dict[str, Any]]:
    pods = [rendered.pod(component) for component in rendered.components()]
    return [c for pod in pods for c in [*pod.get("initContainers", ()), *pod["containers"]]]


def test_image() -> None:
    values = merged(ALL, {"config": {"name": "mine"}})

    default = render(values)
    changed = render(merged(values, {"image": {"repository": "r.example/x", "tag": "t"}}))
    pulled = render(merged(values, {"image": {"pullPolicy": "Never"}}))

    assert {c["image"] for c in every_container(default)} == {"gpu-device-plugin:v0.19.3"}
    assert {c["image"] for c in every_container(changed)} == {"r.example/x:t"}
    assert pulled.container(PLUGIN)["imagePullPolicy"] == "Never"
    assert "imagePullPolicy" not in pulled.container(PLUGIN, "nvidia-device-plugin-init")
    assert "imagePullPolicy" not in pulled.container(PLUGIN, "nvidia-device-plugin-sidecar")


# Value, what it is set to, and where it is found in the pod of each component.
POD_FIELDS: list[tuple[str, Any, str, Any]] = [
    ("imagePullSecrets", [{"name": "s"}], "imagePullSecrets", [{"name": "s"}]),
    ("priorityClassName", "mine", "priorityClassName", "mine"),
    ("priorityClassName", "", "priorityClassName", None),
    ("runtimeClassName", "nvidia", "runtimeClassName", "nvidia"),
    ("tolerations", [{"operator": "Exists"}], "tolerations", [{"operator": "Exists"}]),
    ("tolerations", [], "tolerations", None),
    ("affinity", {"podAffinity": {}}, "affinity.podAffinity", {}),
    ("affinity", None, "affinity", None),
    ("podSecurityContext", {"fsGroup": 7}, "securityContext.fsGroup", 7),
    ("podSecurityContext", {"fsGroup": 7}, "securityContext.runAsUser", 0),
    ("podSecurityContext", {"runAsUser": 7}, "securityContext.runAsUser", 7),
    ("nodeSelector", {"a": "b"}, "nodeSelector.a", "b"),
]


@pytest.mark.parametrize(("path", "value", "field", "wanted"), POD_FIELDS)
def test_a_value_is_found_in_each_pod(path: str, value: Any, field: str, wanted: Any) -> None:
    rendered = render(merged(ALL, at(path, value)))

    for component in (PLUGIN, GFD, MPS):
        found: Any = rendered.pod(component)
        for part in field.split("."):
            found = (found or {}).get(part)
        assert found == wanted


def test_defaults_of_pods() -> None:
    rendered = render(ALL)

    for component in (PLUGIN, GFD, MPS):
        pod = rendered.pod(component)
        terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert pod["priorityClassName"] == "system-node-critical"
        assert [
            (e["key"], e["operator"], e["values"])
            for term in terms["nodeSelectorTerms"]
            for e in term["matchExpressions"]
        ] == [
            ("feature.node.kubernetes.io/pci-10de.present", "In", ["true"]),
            ("feature.node.kubernetes.io/cpu-model.vendor_id", "In", ["NVIDIA"]),
            ("nvidia.com/gpu.present", "In", ["true"]),
        ]
        assert pod["tolerations"] == [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        ]
        assert "hostNetwork" not in pod
        assert "runtimeClassName" not in pod
    assert rendered.pod(PLUGIN).get("nodeSelector") is None
    assert rendered.pod(GFD).get("nodeSelector") is None
    assert rendered.pod(MPS)["nodeSelector"] == {"nvidia.com/mps.capable": "true"}


def test_update_strategy_and_annotations() -> None:
    rendered = render(
        merged(ALL, {"updateStrategy": {"type": "OnDelete"}, "podAnnotations": {"a": "b"}})
    )

    for component in (PLUGIN, GFD, MPS):
        spec = rendered.daemonset(component)["spec"]
        assert spec["updateStrategy"] == {"type": "OnDelete"}
        assert spec["template"]["metadata"]["annotations"] == {"a": "b"}


def checksum(values: dict[str, Any]) -> str | None:
    annotations = render(values).daemonset(PLUGIN)["spec"]["template"]["metadata"]["annotations"]
    found: str | None = annotations.get("checksum/config")
    return found


def test_pods_are_replaced_when_a_configuration_changes() -> None:
    one, other = ({"config": {"map": {"any": f"version: v1 # {n}"}}} for n in (1, 2))

    assert checksum(one) == checksum(one)
    assert checksum(one) != checksum(other)
    assert len(checksum(one) or "") == 64
    assert checksum({}) is None
    assert checksum({"config": {"name": "mine"}}) is None
    assert checksum({**one, "podAnnotations": {"checksum/config": "mine"}}) == "mine"
    assert checksum({"simulate": {"node": "a: 1"}}) != checksum({"simulate": {"node": "a: 2"}})


def test_resources_are_for_main_containers() -> None:
    mine = {"limits": {"memory": "1Gi"}}
    managers = {"limits": {"memory": "32Mi"}}
    values = {"resources": mine, "configManager": {"resources": managers}}

    rendered = render(merged(ALL, values, {"config": {"name": "mine"}}))

    found = {c["name"]: c.get("resources") for c in every_container(rendered)}
    assert found == {
        "nvidia-device-plugin-ctr": mine,
        "nvidia-device-plugin-init": managers,
        "nvidia-device-plugin-sidecar": managers,
        "gpu-feature-discovery-ctr": mine,
        "gpu-feature-discovery-init": managers,
        "gpu-feature-discovery-sidecar": managers,
        "mps-control-daemon-ctr": mine,
        "mps-control-daemon-mounts": mine,
        "mps-control-daemon-init": managers,
        "mps-control-daemon-sidecar": managers,
    }


@pytest.mark.parametrize(
    ("values", "components", "has_nfd"),
    [
        ({}, {PLUGIN, MPS}, False),
        ({"gfd": {"enabled": True}}, {PLUGIN, MPS, GFD}, True),
        ({"devicePlugin": {"enabled": False}}, set[str](), False),
        ({"mps": {"enabled": False}}, {PLUGIN}, False),
        ({"gfd": {"enabled": True}, "nfd": {"enabled": False}}, {PLUGIN, MPS, GFD}, False),
        ({"nfd": {"enabled": True}}, {PLUGIN, MPS}, True),
    ],
)
def test_switches(values: dict[str, Any], components: set[str], has_nfd: bool) -> None:
    rendered = render(values)

    assert rendered.components() == components
    assert rendered.has("DaemonSet", "nvdp-node-feature-discovery-worker") is has_nfd


@pytest.mark.parametrize(
    ("values", "context"),
    [
        ({}, TIGHT),
        ({"migStrategy": "none"}, TIGHT),
        ({"migStrategy": "mixed"}, SYS_ADMIN),
        ({"deviceListStrategy": "cdi-cri"}, TIGHT),
        ({"deviceListStrategy": "envvar,volume-mounts"}, SYS_ADMIN),
        ({"deviceListStrategy": ["volume-mounts"]}, SYS_ADMIN),
        ({"config": {"name": "mine"}}, SYS_ADMIN),
        ({"config": {"name": "mine"}, "migStrategy": "none"}, SYS_ADMIN),
        (
            {"config": {"name": "mine"}, "migStrategy": "none", "deviceListStrategy": "envvar"},
            TIGHT,
        ),
        ({"config": {"map": {"any": "flags: {migStrategy: none}"}}}, TIGHT),
        ({"config": {"map": {"any": "flags: {migStrategy: mixed}"}}}, SYS_ADMIN),
        ({"config": {"map": {"any": "flags: {migStrategy: mixed}"}}, "migStrategy": "none"}, TIGHT),
        (
            {"config": {"map": {"any": "flags: {plugin: {deviceListStrategy: [volume-mounts]}}"}}},
            SYS_ADMIN,
        ),
        ({"config": {"map": MPS_MAP}}, SYS_ADMIN),
        ({"config": {"map": MPS_MAP}, "deviceListStrategy": "envvar"}, SYS_ADMIN),
        (
            {"config": {"map": {"any": "extensions: {sharing: [{strategy: mps, replicas: 2}]}"}}},
            SYS_ADMIN,
        ),
        ({"compatWithCPUManager": True}, PRIVILEGED),
        ({"compatWithCPUManager": True, "migStrategy": "mixed"}, PRIVILEGED),
        ({"securityContext": {"runAsUser": 5}, "compatWithCPUManager": True}, {"runAsUser": 5}),
    ],
)
def test_the_security_context_is_as_tight_as_the_options_allow(
    values: dict[str, Any], context: dict[str, Any]
) -> None:
    unprivileged_gfd = {"gfd": {"enabled": True, "securityContext": None}}

    rendered = render(merged(unprivileged_gfd, values))

    assert rendered.container(PLUGIN)["securityContext"] == context
    if "config" in values:
        sidecar = rendered.container(PLUGIN, "nvidia-device-plugin-sidecar")
        assert sidecar["securityContext"] == context
    if context in (TIGHT, SYS_ADMIN):
        assert rendered.container(GFD)["securityContext"] == context


def test_security_contexts_of_the_others() -> None:
    rendered = render(merged(ALL, {"config": {"name": "mine"}}))
    contexts = {c["name"]: c["securityContext"] for c in every_container(rendered)}

    assert contexts["gpu-feature-discovery-ctr"] == {"privileged": True}
    assert contexts["gpu-feature-discovery-sidecar"] == {"privileged": True}
    assert contexts["mps-control-daemon-mounts"] == PRIVILEGED
    assert contexts["mps-control-daemon-ctr"] == PRIVILEGED
    assert contexts["mps-control-daemon-sidecar"] == PRIVILEGED
    for name in ("nvidia-device-plugin", GFD, MPS):
        assert contexts[f"{name}-init"] == {
            **TIGHT,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
        }


def test_gfd_security_context() -> None:
    rendered = render({"gfd": {"enabled": True, "securityContext": {"runAsUser": 7}}})

    # helm puts maps together: what the default holds stays, as in the original chart.
    assert rendered.container(GFD)["securityContext"] == {"privileged": True, "runAsUser": 7}


def test_mig_devices_are_all_seen_where_they_may_be_offered() -> None:
    variable = "NVIDIA_MIG_MONITOR_DEVICES"
    mixed = "flags: {migStrategy: mixed}"
    for values, seen in (
        ({}, False),
        ({"migStrategy": "none"}, False),
        ({"migStrategy": "single"}, True),
        ({"config": {"name": "mine"}}, True),
        ({"config": {"map": {"any": "version: v1"}}}, False),
        ({"config": {"map": {"a": "version: v1", "b": mixed}, "default": "a"}}, True),
        ({"config": {"name": "mine"}, "migStrategy": "none"}, False),
    ):
        rendered = render(merged(ALL, values))
        for component in (PLUGIN, GFD, MPS):
            assert (rendered.environ(component).get(variable) == "all") is seen, values


def test_driver_root_is_mounted() -> None:
    rendered = render({"nvidiaDriverRoot": "/run/nvidia/driver"})

    assert {
        "name": "driver-root",
        "hostPath": {"path": "/run/nvidia/driver", "type": "Directory"},
    } in rendered.pod(PLUGIN)["volumes"]
    assert {
        "name": "driver-root",
        "mountPath": "/driver-root",
        "readOnly": True,
    } in rendered.container(PLUGIN)["volumeMounts"]
    assert "driver-root" not in str(render())


def test_host_paths() -> None:
    rendered = render({"devicePlugin": {"kubeletPluginsPath": "/k"}, "mps": {"root": "/m"}})

    def paths(component: str) -> dict[str, str]:
        volumes = rendered.pod(component)["volumes"]
        return {v["name"]: v["hostPath"]["path"] for v in volumes if "hostPath" in v}

    assert paths(PLUGIN) == {
        "kubelet-device-plugins-dir": "/k",
        "mps-root": "/m",
        "mps-shm": "/m/shm",
        "cdi-root": "/var/run/cdi",
    }
    assert paths(MPS) == {"mps-root": "/m", "mps-shm": "/m/shm"}


@pytest.mark.parametrize("component", [PLUGIN, GFD, MPS])
def test_host_network(component: str) -> None:
    key = {PLUGIN: "devicePlugin", GFD: "gfd", MPS: "mps"}[component]

    rendered = render(merged(ALL, {key: {"enableHostNetwork": True}}))

    for other in (PLUGIN, GFD, MPS):
        pod = rendered.pod(other)
        wanted = (True, "ClusterFirstWithHostNet") if other == component else (None, None)
        assert (pod.get("hostNetwork"), pod.get("dnsPolicy")) == wanted


def test_host_processes_for_mps() -> None:
    assert render().pod(MPS)["hostPID"] is True
    alone = render({"mps": {"enableHostPID": False}}).pod(MPS)
    assert alone["shareProcessNamespace"] is True
    assert "hostPID" not in alone


def test_the_probe_of_mps() -> None:
    probe = render().container(MPS)["readinessProbe"]
    assert probe == {"exec": {"command": ["test", "-f", "/mps/.ready"]}, "periodSeconds": 10}
    assert "readinessProbe" not in render({"mps": {"readinessProbe": None}}).container(MPS)
    assert "readinessProbe" not in render().container(PLUGIN)


def test_a_simulated_node_needs_no_labels() -> None:
    rendered = render(merged(ALL, {"simulate": {"profile": "t4x4"}, "nodeSelector": {"a": "b"}}))

    for component in (PLUGIN, GFD, MPS):
        assert "affinity" not in rendered.pod(component)
        assert rendered.pod(component)["nodeSelector"]["a"] == "b"


def test_a_simulated_node_of_ones_own_is_mounted() -> None:
    text = "gpus: [{product: T4}]\n"
    rendered = render(merged(ALL, {"simulate": {"node": text}}))

    (config_map,) = (
        item
        for item in rendered.all_of("ConfigMap")
        if item["metadata"]["name"] == f"{NAME}-simulated-node"
    )
    assert config_map["data"] == {"node.yaml": text}
    for component in (PLUGIN, GFD, MPS):
        assert rendered.environ(component)["GPU_NODE_SIMULATE"] == "/simulated-node/node.yaml"
        assert {
            "name": "simulated-node",
            "mountPath": "/simulated-node",
            "readOnly": True,
        } in rendered.container(component)["volumeMounts"]


def test_network_policies() -> None:
    plain = render(merged(ALL, {"networkPolicy": {"enabled": True}}))
    configured = render(
        {"networkPolicy": {"enabled": True, "apiServerPorts": [6443]}, "config": {"name": "mine"}}
    )

    assert not render(ALL).all_of("NetworkPolicy")
    ports = {"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}
    assert {p["metadata"]["name"]: p["spec"]["egress"] for p in plain.all_of("NetworkPolicy")} == {
        NAME: [],
        f"{NAME}-mps-control-daemon": [],
        f"{NAME}-gpu-feature-discovery": [ports],
    }
    for policy in configured.all_of("NetworkPolicy"):
        assert policy["spec"]["ingress"] == []
        assert policy["spec"]["egress"] == [{"ports": [{"protocol": "TCP", "port": 6443}]}]


def test_config_manager_can_be_told_to_validate() -> None:
    rendered = render({"config": {"name": "mine"}, "configManager": {"validate": True}})

    for name in ("nvidia-device-plugin-init", "nvidia-device-plugin-sidecar"):
        assert rendered.environ(PLUGIN, name)["VALIDATE_CONFIG"] == "true"


def test_values_of_the_nfd_sub_chart() -> None:
    rendered = render(
        {
            "nfd": {
                "enabled": True,
                "nameOverride": "nfd",
                "image": {"repository": "r.example/nfd", "tag": "v1"},
                "master": {"config": {"extraLabelNs": ["a.example"]}, "replicaCount": 2},
                "worker": {"nodeSelector": {"a": "b"}, "config": {"core": {"sleepInterval": "5s"}}},
                "gc": {"interval": "2h"},
            }
        }
    )

    worker = rendered.get("DaemonSet", "nvdp-nfd-worker")["spec"]["template"]["spec"]
    master = rendered.get("Deployment", "nvdp-nfd-master")["spec"]
    gc = rendered.get("Deployment", "nvdp-nfd-gc")["spec"]["template"]["spec"]
    assert worker["nodeSelector"] == {"a": "b"}
    assert worker["containers"][0]["image"] == "r.example/nfd:v1"
    assert master["replicas"] == 2
    assert "-enable-leader-election" in master["template"]["spec"]["containers"][0]["args"]
    assert gc["containers"][0]["args"] == ["-gc-interval=2h"]
    conf = rendered.get("ConfigMap", "nvdp-nfd-worker-conf")["data"]["nfd-worker.conf"]
    assert "sleepInterval: 5s" in conf
    conf = rendered.get("ConfigMap", "nvdp-nfd-master-conf")["data"]["nfd-master.conf"]
    assert "a.example" in conf
