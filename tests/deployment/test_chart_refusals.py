"""Values that contradict each other are refused with one clear line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment.charts import CHART, NAMESPACE, RefusedError, render

pytestmark = pytest.mark.usefixtures("helm")

TWO = {"a": "version: v1", "b": "version: v1"}
MPS = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"

# Values, namespace, and what the message says.
CONTRADICTIONS = [
    ({"namespace": "x"}, NAMESPACE, "namespace: not a value any more; use helm's --namespace"),
    ({}, "default", 'the namespace "default" is not meant for this; use --namespace'),
    ({"namespaceOverride": "foo"}, "default", 'the release is in the namespace "default"'),
    ({"config": {"name": "x", "map": TWO}}, NAMESPACE, "config.name and config.map exclude each"),
    (
        {"config": {"map": TWO}},
        NAMESPACE,
        "config.map: nothing says which of a, b is for nodes without the label",
    ),
    (
        {"config": {"map": {"only": "version: v1"}, "fallbackStrategies": ["named"]}},
        NAMESPACE,
        "config.map: nothing says which of only is for",
    ),
    (
        {"config": {"map": TWO, "default": "c"}},
        NAMESPACE,
        'config.default: there is no "c" in config.map (only a, b)',
    ),
    (
        {"config": {"map": {"any": "version: v1\n\tx: 1"}}},
        NAMESPACE,
        "config.map.any: error converting YAML to JSON: yaml: line 2: found",
    ),
    (
        {"config": {"map": {"any": MPS}}, "migStrategy": "mixed"},
        NAMESPACE,
        "migStrategy: MPS (sharing.mps in config.map: any) cannot be used with mixed",
    ),
    (
        {"deviceDiscoveryStrategy": "vfio", "gfd": {"enabled": True}},
        NAMESPACE,
        "deviceDiscoveryStrategy: vfio is for gpu-feature-discovery only",
    ),
    (
        {"metrics": {"serviceMonitor": {"enabled": True}}},
        NAMESPACE,
        "metrics.serviceMonitor.enabled: there is nothing to scrape; set metrics.enabled=true",
    ),
    (
        {
            "metrics": {"enabled": True, "ports": {"gfd": 9440}},
            "devicePlugin": {"enableHostNetwork": True},
            "gfd": {"enabled": True, "enableHostNetwork": True},
        },
        NAMESPACE,
        "metrics.ports: 9440 is taken twice in the network of the host, by devicePlugin and gfd",
    ),
    (
        {"agent": {"enabled": True}, "devicePlugin": {"enabled": False}},
        NAMESPACE,
        "agent.enabled: the agent offers devices; set devicePlugin.enabled=true",
    ),
    (
        {"agent": {"enabled": True}, "gfd": {"enabled": True, "namespaceOverride": "labels"}},
        NAMESPACE,
        'gfd.namespaceOverride: with agent.enabled devices and labels come from one pod, in the namespace "gpu"',
    ),
    (
        {
            "agent": {"enabled": True},
            "devicePlugin": {"extraEnv": [{"name": "A", "value": "1"}]},
            "gfd": {"enabled": True, "extraEnv": [{"name": "A", "value": "2"}]},
        },
        NAMESPACE,
        "agent.enabled: devicePlugin.extraEnv and gfd.extraEnv set A to different things",
    ),
    (
        {
            "metrics": {"enabled": True, "ports": {"mps": 9440}},
            "agent": {"enabled": True},
            "devicePlugin": {"enableHostNetwork": True},
            "mps": {"enableHostNetwork": True},
        },
        NAMESPACE,
        "metrics.ports: 9440 is taken twice in the network of the host, by agent and mps",
    ),
    (
        {"metrics": {"prometheusRule": {"enabled": True}}},
        NAMESPACE,
        "metrics.prometheusRule.enabled: there are no metrics for it; set metrics.enabled=true",
    ),
    (
        {"metrics": {"dashboard": {"enabled": True}}},
        NAMESPACE,
        "metrics.dashboard.enabled: there are no metrics for it; set metrics.enabled=true",
    ),
    (
        {
            "metrics": {"enabled": True},
            "selectorLabelsOverride": {"app.kubernetes.io/component": "gpus"},
        },
        NAMESPACE,
        "selectorLabelsOverride: Services and NetworkPolicies tell the pods of the DaemonSets apart",
    ),
    (
        {"simulate": {"profile": "t4x4", "node": "gpus: []"}},
        NAMESPACE,
        "simulate.profile and simulate.node exclude each other",
    ),
    (
        {"nfd": {"topologyUpdater": {"enable": True}}},
        NAMESPACE,
        "nfd.topologyUpdater: not in this sub-chart; install the chart of Node Feature Discovery",
    ),
    ({"strictValues": True, "b": 1, "a": 1}, NAMESPACE, "strictValues: unknown values a, b"),
    (
        {"strictValues": True, "nfd": {"other": 1, "worker": {"more": 1}}},
        NAMESPACE,
        "strictValues: unknown values nfd.other, nfd.worker.more",
    ),
]


@pytest.mark.parametrize(("values", "namespace", "message"), CONTRADICTIONS)
def test_a_contradiction_is_named(values: dict[str, Any], namespace: str, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        render(values, namespace=namespace)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("values", "namespace"),
    [
        ({"allowDefaultNamespace": True}, "default"),
        ({"namespaceOverride": "default"}, NAMESPACE),
        ({"config": {"name": "mine", "fallbackStrategies": []}}, NAMESPACE),
        ({"config": {"map": TWO, "fallbackStrategies": ["empty"]}}, NAMESPACE),
        ({"config": {"map": {"default": "", "b": ""}}}, NAMESPACE),
        ({"config": {"map": {"any": MPS}}, "migStrategy": "single"}, NAMESPACE),
        ({"unknown": 1}, NAMESPACE),
        ({"agent": {"enabled": True}, "gfd": {"namespaceOverride": "labels"}}, NAMESPACE),
        ({"selectorLabelsOverride": {"app.kubernetes.io/component": "gpus"}}, NAMESPACE),
        (
            {
                "metrics": {"enabled": True, "ports": {"gfd": 9440, "mps": 9440}},
                "devicePlugin": {"enableHostNetwork": True},
                "gfd": {"enableHostNetwork": True},
                "mps": {"enabled": False, "enableHostNetwork": True},
            },
            NAMESPACE,
        ),
    ],
)
def test_what_is_allowed_all_the_same(values: dict[str, Any], namespace: str) -> None:
    assert render(values, namespace=namespace).objects


# Values and the place that the message names.
OUTSIDE_THE_SCHEMA = [
    ({"migStrategy": "mixd"}, "/migStrategy"),
    ({"failOnInitError": "false"}, "/failOnInitError"),
    ({"compatWithCPUManager": "yes"}, "/compatWithCPUManager"),
    ({"sleepInterval": 30}, "/sleepInterval"),
    ({"gfd": {"sleepInterval": 30}}, "/gfd/sleepInterval"),
    ({"deviceListStrategy": "envvars"}, "/deviceListStrategy"),
    ({"deviceListStrategy": []}, "/deviceListStrategy"),
    ({"deviceIDStrategy": "minor"}, "/deviceIDStrategy"),
    ({"nvidiaDriverRoot": "run/nvidia"}, "/nvidiaDriverRoot"),
    ({"mps": {"root": "mps"}}, "/mps/root"),
    ({"config": {"map": {"any": 1}}}, "/config/map/any"),
    ({"config": {"map": {"a/b": "version: v1"}}}, "/config/map"),
    ({"config": {"fallbackStrategies": ["first"]}}, "/config/fallbackStrategies/0"),
    ({"config": {"nam": "x"}}, "/config"),
    ({"image": {"pullPolicy": "never"}}, "/image/pullPolicy"),
    ({"gfd": {"enable": True}}, "/gfd"),
    ({"logFormat": "xml"}, "/logFormat"),
    ({"fullnameOverride": "A"}, "/fullnameOverride"),
    ({"podAnnotations": {"a": 1}}, "/podAnnotations/a"),
    ({"tolerations": {"key": "x"}}, "/tolerations"),
    ({"networkPolicy": {"apiServerPorts": [0]}}, "/networkPolicy/apiServerPorts/0"),
    ({"updateStrategy": {"type": "Recreate"}}, "/updateStrategy/type"),
]


@pytest.mark.parametrize(("values", "place"), OUTSIDE_THE_SCHEMA)
def test_the_schema_names_the_place(values: dict[str, Any], place: str) -> None:
    with pytest.raises(RefusedError) as refused:
        render(values)

    assert f"at '{place}'" in str(refused.value)


@pytest.mark.parametrize(
    ("values", "place", "missing"),
    [
        ({"agent": None}, "", "agent"),
        ({"probes": None, "gfd": {"enabled": True}}, "", "probes"),
        ({"metrics": {"dashboard": None}}, "/metrics", "dashboard"),
    ],
)
def test_values_that_an_older_release_lacks_are_named(
    values: dict[str, Any], place: str, missing: str
) -> None:
    """As after ``helm upgrade --reuse-values``, which brings no defaults of a newer chart."""
    with pytest.raises(RefusedError) as refused:
        render(values)

    assert f"at '{place}': missing property '{missing}'" in str(refused.value)


def test_schema_and_values_name_the_same() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    assert set(schema["properties"]) - set(values) == {"namespace", "global"}
    assert set(values) <= set(schema["properties"])
    for name, properties in schema["properties"].items():
        if name != "nfd" and "properties" in properties and "additionalProperties" in properties:
            known = set(properties["properties"])
            if name == "updateStrategy":
                continue
            assert known == set(values[name]), name


def test_the_list_of_known_values_is_that_of_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    helper = helpers.split('define "gpu-device-plugin.unknownValues"')[1]
    known = re.findall(r'"(\w+)"', helper.split("{{- $unknown")[0])

    assert sorted(known) == sorted(schema["properties"])


def test_all_values_of_the_sub_chart_are_known() -> None:
    values = {"strictValues": True, "gfd": {"enabled": True}}

    assert render(values).has("DaemonSet", "nvdp-node-feature-discovery-worker")


SHOWN = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: shown
data:
  notes: {{ include (print .Template.BasePath "/NOTES.txt") . | quote }}
"""


@pytest.fixture(scope="module", name="chart")
def _chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the chart that renders its notes as well, which takes a cluster otherwise."""
    copy = tmp_path_factory.mktemp("chart") / CHART.name
    shutil.copytree(CHART, copy)
    (copy / "templates" / "shown.yaml").write_text(SHOWN, encoding="utf-8")
    return copy


def notes(chart: Path, *arguments: str) -> str:
    """What an operator reads after the installation, in one line."""
    shown = render({}, *arguments, chart=chart).get("ConfigMap", "shown")["data"]["notes"]
    return " ".join(shown.split())


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("gfd.enabled=false", "rollout status daemonset/nvdp-gpu-device-plugin"),
        ("legacyDaemonsetAPI=true", "not known and without effect: legacyDaemonsetAPI."),
        ("image.repository=nvcr.io/nvidia/k8s-device-plugin", "that of the original programs"),
        ("simulate.profile=t4x4", "the GPUs are simulated"),
        ("devicePlugin.enabled=false", "nothing runs"),
        (f"config.map.any={MPS.replace(',', chr(92) + ',')}", "nvidia.com/mps.capable=true"),
    ],
)
def test_notes_tell_what_is_odd(chart: Path, argument: str, text: str) -> None:
    assert text in notes(chart, "--set", argument)


PLUGIN_POD = "daemonset/nvdp-gpu-device-plugin -c nvidia-device-plugin-ctr"
AGENT_POD = "daemonset/nvdp-gpu-device-plugin-agent -c gpu-node-agent-ctr"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([], [f"-n gpu exec {PLUGIN_POD} -- gpu-node status kubectl", "-- gpu-node doctor"]),
        (["agent.enabled=true"], [f"exec {AGENT_POD} -- gpu-node status kubectl"]),
        (
            ["metrics.enabled=true", "metrics.ports.devicePlugin=9000"],
            [
                f"{PLUGIN_POD} -- gpu-node status --address http://127.0.0.1:9000 kubectl",
                "at http://localhost:9000/ while this runs:",
                "kubectl -n gpu port-forward daemonset/nvdp-gpu-device-plugin 9000",
            ],
        ),
        (
            [
                "metrics.enabled=true",
                "agent.enabled=true",
                "metrics.tls.secretName=a",
                "metrics.token.secretName=b",
            ],
            [
                (
                    "gpu-node status --address https://127.0.0.1:9440 --insecure "
                    "--token-file /metrics-token/token kubectl"
                ),
                "at https://localhost:9440/ while this runs (any user, with the token as the",
                "port-forward daemonset/nvdp-gpu-device-plugin-agent 9440",
            ],
        ),
    ],
)
def test_notes_tell_how_to_look_at_a_node(chart: Path, values: list[str], texts: list[str]) -> None:
    told = notes(chart, *(f"--set={value}" for value in values))

    assert [text for text in texts if text not in told] == []


@pytest.mark.parametrize(
    "values", ["metrics.enabled=false", "metrics.enabled=true,metrics.statusPage=false"]
)
def test_notes_speak_of_no_page_where_there_is_none(chart: Path, values: str) -> None:
    told = notes(chart, "--set", values)

    assert "port-forward" not in told
    assert "--address" not in told


def test_notes_of_the_defaults_warn_of_nothing(chart: Path) -> None:
    assert "Warning" not in notes(chart)
