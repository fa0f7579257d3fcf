"""Containers that run ``gpu-node agent``: what they need of both programs, and of the label."""

from __future__ import annotations

import pytest
from support.diagnosis import CONFIG_MAP, RBAC, changed, findings_of, result_of

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import problems_for_agent
from gpu_device_plugin.diagnosis.findings import Severity

AGENT = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: gpu}
spec:
  template:
    spec:
      serviceAccountName: account
      containers:
        - name: agent
          image: gpu-device-plugin
          command: [/usr/bin/gpu-node, agent]
          args: []
          env:
            - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
            - {name: CONFIG_FILE_SRCDIR, value: /available-configs}
            - {name: FALLBACK_STRATEGIES, value: "named,single"}
            - {name: GPU_NODE_PUBLISH_LABELS, value: "false"}
          volumeMounts:
            - {name: device-plugins, mountPath: /var/lib/kubelet/device-plugins}
            - {name: available-configs, mountPath: /available-configs}
      volumes:
        - name: device-plugins
          hostPath: {path: /var/lib/kubelet/device-plugins}
        - name: available-configs
          configMap: {name: configs}
"""
ALL = CONFIG_MAP + RBAC + AGENT
LABELS = ('PUBLISH_LABELS, value: "false"', 'PUBLISH_LABELS, value: "true"')


def messages(text: str) -> list[str]:
    return [f.message for f in findings_of(text)]


def test_an_agent_with_all_that_it_needs_is_well() -> None:
    result = result_of(ALL)

    assert not result.findings
    assert (result.configurations, result.containers) == (2, 1)


@pytest.mark.parametrize(
    ("command", "args", "count"),
    [
        ("[gpu-node, agent]", "[]", 1),
        ("[gpu-node]", "[agent]", 1),
        ("[gpu-node, status]", "[]", 0),
        ("[gpu-node]", "[]", 0),
        ("[agent]", "[]", 0),
    ],
)
def test_it_is_known_by_its_command(command: str, args: str, count: int) -> None:
    text = changed(ALL, ("[/usr/bin/gpu-node, agent]", command), ("args: []", f"args: {args}"))

    assert result_of(text).containers == count


def test_an_agent_behind_a_shell_is_noted() -> None:
    text = changed(ALL, ("[/usr/bin/gpu-node, agent]", '[sh, -c, "exec gpu-node agent --x"]'))

    assert messages(text)[0] == "not checked: gpu-node agent is started by a shell"


def test_its_flags_and_variables_are_those_of_its_table() -> None:
    text = changed(
        ALL,
        ("args: []", "args: [--publish-lables=false, --oneshot]"),
        ("PUBLISH_LABELS, value", "PUBLISH_LABLES, value"),
    )

    assert {
        'there is no flag "--publish-lables"',
        'there is no flag "--oneshot"',
        "GPU_NODE_PUBLISH_LABLES is not a variable of gpu-node agent",
    } <= set(messages(text))


@pytest.mark.parametrize(
    ("programs", "count"),
    [
        ((Program.DEVICE_PLUGIN,), 1),
        ((Program.GPU_FEATURE_DISCOVERY,), 1),
        ((Program.MPS_CONTROL_DAEMON,), 0),
    ],
)
def test_it_is_checked_as_either_of_both_programs(
    programs: tuple[Program, ...], count: int
) -> None:
    assert result_of(ALL, programs=programs).containers == count


def test_each_configuration_is_checked_as_it_reads_it() -> None:
    text = changed(ALL, ("replicas: 4", "replicas: 1"))

    (found,) = findings_of(text)
    assert (found.message, found.place.line, found.programs) == ("1 is too small", 12, ())


def test_what_both_programs_would_refuse_is_told_once() -> None:
    text = changed(
        ALL,
        LABELS,
        (
            '"true"}',
            (
                '"true"}\n            - {name: DEVICE_DISCOVERY_STRATEGY, value: vfio}'
                "\n            - {name: GFD_USE_NODE_FEATURE_API, value: 'false'}"
            ),
        ),
        ("volumes:\n", "volumes:\n        - {name: f, hostPath: {path: /etc}}\n"),
        (
            "mountPath: /available-configs}\n",
            (
                "mountPath: /available-configs}\n            - {name: f, mountPath: /etc/kubernetes/"
                "node-feature-discovery/features.d}\n"
            ),
        ),
    )

    assert messages(text) == ['DEVICE_DISCOVERY_STRATEGY: "vfio" is not allowed']


def test_a_single_file_is_looked_for_as_with_the_plugin() -> None:
    text = changed(ALL, ("CONFIG_FILE_SRCDIR, value: /available-configs", "CONFIG_FILE, value: /c"))

    assert messages(text) == ["nothing is mounted where the configuration file is looked for, /c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}", "{name: A}"),
            (
                "invalid node-name: must not be empty where --config-file-srcdir (CONFIG_FILE_SRCDIR) "
                "is set"
            ),
        ),
        (
            ("args: []", "args: [--default-config=sharde]"),
            '--default-config: there is no configuration "sharde"',
        ),
        (
            ("args: []", "args: [--fallback-strategies=first]"),
            '--fallback-strategies: "first" is not a fallback strategy',
        ),
        (
            ("args: []", "args: [--config-file=/c]"),
            "--config-file: without effect: the label of the node chooses the configuration",
        ),
        (
            ("mountPath: /available-configs", "mountPath: /elsewhere"),
            (
                "CONFIG_FILE_SRCDIR: nothing is mounted at /available-configs, where the "
                "configurations are looked for"
            ),
        ),
        (
            ("mountPath: /available-configs", "mountPath: /available-configs, subPath: x"),
            (
                "CONFIG_FILE_SRCDIR: a mount with subPath, such as /available-configs, stays as it is "
                "when files change"
            ),
        ),
        (
            ("{name: device-plugins, mountPath: /var/lib", "{name: device-plugins, mountPath: /x"),
            (
                "nothing is mounted at /var/lib/kubelet/device-plugins: the kubelet looks for the "
                "plugin's sockets there"
            ),
        ),
        (
            ("          args: []", "          securityContext: {runAsUser: 7}"),
            "user 7 cannot write to /var/lib/kubelet/device-plugins, which belongs to root",
        ),
        (
            ("verbs: [get, list, watch]", "verbs: [get, list]"),
            "the account account may not watch nodes",
        ),
    ],
)
def test_what_it_lacks_is_told(change: tuple[str, str], message: str) -> None:
    assert message in messages(changed(ALL, change))


def test_labels_need_rights_or_a_directory() -> None:
    may_not = "the account account may not get, create, update nodefeatures.nfd.k8s-sigs.io"
    in_a_file = (
        '"true"}',
        '"true"}\n            - {name: GFD_USE_NODE_FEATURE_API, value: "false"}',
    )

    assert messages(changed(ALL, LABELS)) == [may_not]
    (found,) = findings_of(changed(ALL, LABELS, in_a_file))
    assert found.message.startswith(
        "nothing is mounted at /etc/kubernetes/node-feature-discovery/features.d: "
    )


REPORTS = (
    "          volumeMounts",
    (
        "            - {name: GPU_NODE_REPORT_HEALTH, value: 'events,node-condition'}\n"
        "          volumeMounts"
    ),
)
ROLES = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: health, namespace: default}
rules: [{apiGroups: [""], resources: [events], verbs: [create, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: health, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: health}
subjects: [{kind: ServiceAccount, name: account, namespace: gpu}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: health}
rules: [{apiGroups: [""], resources: [nodes/status], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: health}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: health}
subjects: [{kind: ServiceAccount, name: account, namespace: gpu}]
---
"""


def test_reports_of_health_need_rights() -> None:
    assert not messages(ROLES + changed(ALL, REPORTS))
    assert messages(changed(ALL, REPORTS)) == [
        "the account account may not get, patch nodes/status",
        "the account account may not create, patch events",
    ]


def test_events_of_nodes_are_made_in_the_namespace_default() -> None:
    elsewhere = changed(ROLES, ("namespace: default", "namespace: gpu"))

    (found,) = findings_of(elsewhere + changed(ALL, REPORTS))
    assert found.message == "the account account may not create, patch events"
    assert found.hint.endswith("a Role and its binding in the namespace default")


def test_reports_of_health_need_the_name_of_the_node() -> None:
    nameless = ("{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}", "{name: A}")
    plugin = changed(
        ROLES + RBAC + AGENT,
        REPORTS,
        ("[/usr/bin/gpu-node, agent]", "[nvidia-device-plugin]"),
        nameless,
        ("{name: CONFIG_FILE_SRCDIR, value: /available-configs}", "{name: B}"),
        ('{name: GPU_NODE_PUBLISH_LABELS, value: "false"}', "{name: C}"),
    )

    (found,) = (f for f in findings_of(plugin) if f.severity is Severity.ERROR)
    assert found.message == (
        "GPU_NODE_REPORT_HEALTH: the node has to be named, but --node-name is empty"
    )


def test_mps_without_its_daemon_is_a_warning() -> None:
    text = changed(
        ALL, ("timeSlicing:", "mps:"), ("args: []", "args: [--mps-root=/run/nvidia/mps]")
    )

    assert "MPS is asked for, and no mps-control-daemon is among what was given" in messages(text)


def test_nothing_is_missing_where_no_label_is_followed() -> None:
    assert not list(problems_for_agent(parse(Program.AGENT, [], {})))
    followed = parse(Program.AGENT, ["--config-file-srcdir=/c", "--node-label="], {})
    assert [e.message.split(":")[0] for e in problems_for_agent(followed)] == [
        "invalid node-name",
        "invalid node-label",
    ]
