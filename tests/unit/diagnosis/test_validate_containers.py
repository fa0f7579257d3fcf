"""Containers of manifests: options, configurations, mounts, permissions."""

from __future__ import annotations

import pytest
from support.diagnosis import CONFIG_MAP, PLUGIN, RBAC, changed, findings_of, lines_of, result_of

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.findings import Severity

ALL = CONFIG_MAP + RBAC + PLUGIN
CONTAINER = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
    - name: c
      image: IMAGE
      command: [nvidia-device-plugin]
      args: []
      env: []
      volumeMounts: [{name: d, mountPath: /var/lib/kubelet/device-plugins}]
  volumes: [{name: d, hostPath: {path: /var/lib/kubelet/device-plugins}}]
"""
GFD = changed(CONTAINER, ("nvidia-device-plugin]", "gpu-feature-discovery]"))
MANAGER = changed(CONTAINER, ("nvidia-device-plugin]", "config-manager]"))


def told(text: str) -> list[str]:
    """The severities, lines and messages."""
    return [f"{f.severity.value} {f.place.line}: {f.message}" for f in findings_of(text)]


def test_a_pod_with_everything_is_well() -> None:
    result = result_of(ALL)

    assert not result.findings
    assert (result.configurations, result.containers) == (2, 3)


def test_the_line_of_an_argument_and_of_a_variable_is_told() -> None:
    text = changed(
        CONTAINER,
        (
            "args: []",
            "args:\n        - --mig-stratgy=none\n        - --device-id-strategy\n        - nix",
        ),
        (
            "env: []",
            (
                "env:\n        - {name: PASS_DEVICE_SPECS, value: maybe}\n"
                "        - {name: MIG_STRATEGY, value: x}"
            ),
        ),
    )
    assert told(text) == [
        'error 10: there is no flag "--mig-stratgy"',
        'error 11: --device-id-strategy: "nix" is not allowed',
        'error 14: "maybe" is not a boolean',
        'error 15: MIG_STRATEGY: "x" is not allowed',
    ]


def test_flags_after_the_value_of_an_unknown_flag_are_read() -> None:
    text = changed(CONTAINER, ("args: []", "args: [--foo, bar, --pass-device-specs=2, --baz]"))

    assert [f.message for f in findings_of(text)] == [
        'there is no flag "--foo"',
        '--pass-device-specs: "2" is not a boolean',
        'there is no flag "--baz"',
    ]


def test_arguments_without_effect_are_warnings() -> None:
    text = changed(CONTAINER, ("args: []", "args: [--pass-device-specs, 'false']"))

    (found,) = findings_of(text)
    assert found.severity is Severity.WARNING
    assert "--pass-device-specs=false" in found.message


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("value: true", ["the value of PASS_DEVICE_SPECS is not a text"]),
        ("value: 'true'", []),
        ("value: $(OTHER)", ['"$(OTHER)" is not a boolean']),
        ("valueFrom: {secretKeyRef: {name: s, key: k}}", []),
    ],
)
def test_values_of_variables(value: str, messages: list[str]) -> None:
    text = changed(CONTAINER, ("env: []", f"env: [{{name: PASS_DEVICE_SPECS, {value}}}]"))

    assert [f.message for f in findings_of(text)] == messages


def test_variables_refer_to_earlier_ones_and_to_config_maps() -> None:
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {MIG_STRATEGY: xx, k: zz}\n---\n"
    text = config_map + changed(
        CONTAINER,
        (
            "env: []",
            (
                "envFrom: [{configMapRef: {name: m}}]\n"
                "      env:\n"
                "        - {name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}\n"
                "        - {name: DEVICE_ID_STRATEGY, value: $(A)}"
            ),
        ),
    )
    assert sorted(f.message for f in findings_of(text)) == [
        'DEVICE_ID_STRATEGY: "zz" is not allowed',
        'MIG_STRATEGY: "xx" is not allowed',
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("MIG_STRATEGEY", "did you mean MIG_STRATEGY?"),
        ("GFD_ONESHOT", "it belongs to gpu-feature-discovery"),
        ("NVIDIA_VISIBLE_DEVICES", None),
        ("DP_DISABLE_HEALTHCHECKS", None),
        ("NODE_NAME", None),
        ("HTTPS_PROXY", None),
    ],
)
def test_slips_and_variables_of_other_programs_are_warnings(name: str, hint: str | None) -> None:
    text = changed(CONTAINER, ("env: []", f"env: [{{name: {name}, value: none}}]"))

    assert [f.hint for f in findings_of(text)] == ([] if hint is None else [hint])


@pytest.mark.parametrize(
    ("image", "command", "program"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.19.3", "", Program.DEVICE_PLUGIN),
        ("registry:5000/x/gpu-device-plugin@sha256:0", "", Program.DEVICE_PLUGIN),
        ("x/gpu-feature-discovery", "", Program.GPU_FEATURE_DISCOVERY),
        ("whatever", "command: [/usr/bin/gpu-feature-discovery]", Program.GPU_FEATURE_DISCOVERY),
        ("whatever", "command: [config-manager]", Program.CONFIG_MANAGER),
        ("whatever", "command: [mps-control-daemon]", Program.MPS_CONTROL_DAEMON),
        ("nginx", "", None),
        ("k8s-device-plugin", "command: [sleep, infinity]", None),
    ],
)
def test_our_containers_are_known_by_command_or_image(
    image: str, command: str, program: Program | None
) -> None:
    text = changed(
        CONTAINER,
        ("IMAGE", image),
        ("      command: [nvidia-device-plugin]\n", f"      {command}\n" if command else ""),
        ("args: []", "args: [--foo]"),
    )
    flags = [f for f in findings_of(text) if "--foo" in f.message]
    assert len(flags) == (0 if program is None else 1)
    assert result_of(text).containers == (0 if program is None else 1)


def test_a_container_called_like_the_originals_is_known() -> None:
    text = changed(
        CONTAINER,
        ("command: [nvidia-device-plugin]", ""),
        ("name: c", "name: nvidia-device-plugin-ctr"),
    )
    assert result_of(text).containers == 1


def test_a_program_behind_a_shell_is_noted() -> None:
    text = changed(
        CONTAINER, ("[nvidia-device-plugin]", '[/bin/sh, -c, "exec nvidia-device-plugin --x"]')
    )
    assert told(text) == ["note 8: not checked: nvidia-device-plugin is started by a shell"]


def test_only_the_containers_of_the_programs_asked_for_are_checked() -> None:
    text = changed(CONTAINER, ("args: []", "args: [--foo]"))

    assert not findings_of(text, programs=(Program.GPU_FEATURE_DISCOVERY,))


def test_help_and_version_need_nothing() -> None:
    text = changed(CONTAINER, ("args: []", "args: [--version]"), ("/var/lib/kubelet", "/elsewhere"))

    assert not findings_of(text)


# --- Configurations ---


def test_a_configuration_is_checked_as_its_container_reads_it() -> None:
    text = changed(ALL, ("- {name: CONFIG_FILE, value: /config/config.yaml}", "&env"))
    text = changed(
        text,
        ("&env", "- {name: CONFIG_FILE, value: /config/config.yaml}\n            - &env"),
        ("- &env", "- {name: MIG_STRATEGY, value: mxied}"),
        ("replicas: 4", "replicas: 1"),
    )
    line = text.splitlines().index("            - {name: MIG_STRATEGY, value: mxied}")
    assert told(text) == [
        "error 12: 1 is too small",
        f'error {line + 1}: MIG_STRATEGY: "mxied" is not allowed',
    ]


def test_a_key_of_the_file_that_a_variable_overrides_is_not_looked_at() -> None:
    text = changed(
        ALL,
        ("replicas: 4}", "replicas: 4}\n    flags: {migStrategy: mxied}"),
        (
            "- {name: CONFIG_FILE, value: /config/config.yaml}",
            (
                "- {name: CONFIG_FILE, value: /config/config.yaml}\n"
                "            - {name: MIG_STRATEGY, value: none}"
            ),
        ),
    )
    assert not findings_of(text)


def test_a_config_map_that_is_mounted_itself() -> None:
    mounts = "      volumeMounts: [{name: d, mountPath: /var/lib/kubelet/device-plugins}"
    text = CONFIG_MAP + changed(
        CONTAINER,
        ("env: []", "env: [{name: CONFIG_FILE, value: /etc/gpu/shared}]"),
        (mounts, mounts + ", {name: c, mountPath: /etc/gpu}"),
        ("plugins}}]", "plugins}}, {name: c, configMap: {name: configs}}]"),
    )
    assert not findings_of(text)
    assert result_of(text).configurations == 1
    assert told(changed(text, ("/etc/gpu/shared", "/etc/gpu/share"))) == [
        "error 24: there is no share in the mounted ConfigMap"
    ]
    assert told(changed(text, ("/etc/gpu/shared", "/etc/gpus/shared"))) == [
        "error 24: nothing is mounted where the configuration file is looked for, /etc/gpus/shared"
    ]
    renamed = ("{name: configs}}]", "{name: configs, items: [{key: shared, path: x}]}}]")
    assert not findings_of(changed(text, ("/etc/gpu/shared", "/etc/gpu/x"), renamed))
    missing = ("{name: configs}}]", "{name: configs, items: [{key: sharde, path: x}]}}]")
    assert told(changed(text, ("/etc/gpu/shared", "/etc/gpu/x"), missing)) == [
        "error 24: there is no x in the mounted ConfigMap"
    ]
    (note,) = findings_of(changed(text, ("{name: configs}}]", "{name: others}}]")))[:1]
    assert note.severity is Severity.NOTE
    projected = (
        "configMap: {name: configs}",
        "projected: {sources: [{configMap: {name: configs}}]}",
    )
    assert not findings_of(changed(text, projected))
    sub_path = ("mountPath: /etc/gpu}", "mountPath: /etc/gpu/shared, subPath: shared}")
    assert not findings_of(changed(text, sub_path))


def test_a_configuration_on_the_node_is_noted() -> None:
    text = changed(
        CONTAINER,
        ("env: []", "env: [{name: CONFIG_FILE, value: /var/lib/kubelet/device-plugins/c}]"),
    )
    assert told(text) == [
        (
            "note 12: not checked: the configuration /var/lib/kubelet/device-plugins/c is a file of "
            "the node"
        )
    ]


def test_an_empty_directory_that_nobody_writes_to_is_an_error() -> None:
    text = changed(
        ALL, ("CONFIG_FILE_DST, value: /config/config.yaml", "CONFIG_FILE_DST, value: /config/c")
    )

    (found,) = findings_of(text)
    assert found.message == "nothing writes the configuration file /config/config.yaml"


# --- config-manager ---


def manager(*variables: tuple[str, str]) -> str:
    text = ALL
    for name, value in variables:
        text = changed(
            text,
            (
                '- {name: FALLBACK_STRATEGIES, value: "named,single"}',
                f'- {{name: {name}, value: "{value}"}}',
            ),
        )
    return text


def test_a_default_that_does_not_exist_is_an_error() -> None:
    found = findings_of(manager(("DEFAULT_CONFIG", "sharde")))

    assert [f.message for f in found] == ['DEFAULT_CONFIG: there is no configuration "sharde"'] * 2
    assert {f.hint for f in found} == {"there are default, shared"}
    assert {f.place.path.rpartition(".")[2] for f in found} == {"env[4]", "env[5]"}


@pytest.mark.parametrize(
    ("variables", "messages"),
    [
        ([("DEFAULT_CONFIG", "shared")], []),
        ([("FALLBACK_STRATEGIES", "empty")], []),
        (
            [("FALLBACK_STRATEGIES", "single")],
            ["NODE_LABEL: a node without the label nvidia.com/device-plugin.config gets no"],
        ),
        ([("FALLBACK_STRATEGIES", "sngle,empty")], ['FALLBACK_STRATEGIES: "sngle" is not a']),
    ],
)
def test_every_node_gets_a_configuration(
    variables: list[tuple[str, str]], messages: list[str]
) -> None:
    found = {f.message for f in findings_of(manager(*variables))}

    assert len(found) == len(messages)
    for message, start in zip(found, messages, strict=True):
        assert message.removeprefix("--node-label: ").startswith(start.removeprefix("NODE_LABEL: "))


def test_missing_options_are_all_told() -> None:
    found = [f.message for f in findings_of(MANAGER) if f.severity is Severity.ERROR]

    assert found[1:4] == [
        "invalid node-name: must not be empty",
        "invalid config-file-srcdir: must not be empty",
        "invalid config-file-dst: must not be empty",
    ]


def test_a_signal_needs_a_shared_process_namespace_and_a_number() -> None:
    text = changed(
        ALL,
        ("      shareProcessNamespace: true\n", ""),
        (
            '- {name: SEND_SIGNAL, value: "true"}',
            '- {name: SEND_SIGNAL, value: "true"}\n            - {name: SIGNAL, value: "99"}',
        ),
    )
    assert [f.message for f in findings_of(text)] == [
        "nvidia-device-plugin is out of reach for its signal",
        "SIGNAL: 99 is not a signal",
    ]
    assert not findings_of(changed(ALL, ("shareProcessNamespace", "hostPID")))


def test_a_manager_without_its_directory_is_an_error() -> None:
    text = changed(
        ALL, ("            - {name: available-configs, mountPath: /available-configs}\n", "")
    )

    assert {f.message for f in findings_of(text)} == {
        (
            "CONFIG_FILE_SRCDIR: nothing is mounted at /available-configs, where the configurations "
            "are looked for"
        )
    }


def test_an_empty_config_map_is_an_error() -> None:
    text = changed(ALL, (CONFIG_MAP, CONFIG_MAP.partition("\ndata:")[0] + "\n---\n"))

    assert {f.message for f in findings_of(text)} == {
        "CONFIG_FILE_SRCDIR: there are no configurations"
    }


# --- Mounts ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("mountPath: /var/lib/kubelet/device-plugins", "mountPath: /x"),
            "nothing is mounted at /var/lib/kubelet/device-plugins: the kubelet looks for",
        ),
        (
            (
                "device-plugins, mountPath: /var/lib/kubelet/device-plugins",
                "other, mountPath: /var/lib/kubelet/device-plugins",
            ),
            "the pod has no volume 'other'",
        ),
        (
            ("hostPath: {path: /var/lib/kubelet/device-plugins}", "emptyDir: {}"),
            "/var/lib/kubelet/device-plugins is not a directory of the node",
        ),
        (
            (
                "mountPath: /var/lib/kubelet/device-plugins",
                "mountPath: /var/lib/kubelet/device-plugins, readOnly: true",
            ),
            "/var/lib/kubelet/device-plugins is mounted read-only, and is written to",
        ),
        (
            ("    spec:\n", "    spec:\n      securityContext: {runAsUser: 1000}\n"),
            "user 1000 cannot write to /var/lib/kubelet/device-plugins, which belongs to root",
        ),
        (
            (
                "version: v1\n  shared",
                "version: v1\n    flags: {plugin: {deviceListStrategy: cdi-cri}}\n  shared",
            ),
            "nothing is mounted at /var/run/cdi: the runtime looks for CDI specifications there",
        ),
        (
            ("version: v1\n  shared", "flags: {nvidiaDriverRoot: /run/nvidia/driver}\n  shared"),
            "nothing is mounted at /driver-root: the driver is said to be at /run/nvidia/driver",
        ),
    ],
)
def test_mounts_that_settings_need(change: tuple[str, str], message: str) -> None:
    found = findings_of(changed(ALL, change))

    assert len(found) == 1
    assert found[0].message.startswith(message)


def test_a_socket_elsewhere_is_needed_as_well() -> None:
    text = changed(CONTAINER, ("args: []", "args: [--kubelet-socket=/k/kubelet.sock]"))

    assert told(text) == ["error 11: nothing is mounted at /k: the socket of the kubelet is there"]


MPS = [
    ("timeSlicing", "mps"),
    (
        "- {name: CONFIG_FILE,",
        "- {name: MPS_ROOT, value: /run/mps}\n            - {name: CONFIG_FILE,",
    ),
]


def test_mps_needs_its_root_its_mount_and_its_daemon() -> None:
    found = findings_of(changed(ALL, ("timeSlicing", "mps")))
    assert [f.message for f in found] == [
        "mps-root: required by sharing.mps, but empty",
        "MPS is asked for, and no mps-control-daemon is among what was given",
    ]
    found = findings_of(changed(ALL, *MPS))
    assert [f.message.partition(":")[0] for f in found] == [
        "MPS is asked for, and no mps-control-daemon is among what was given",
        "nothing is mounted at /mps",
    ]
    mounted = changed(
        ALL,
        *MPS,
        (
            "            - {name: device-plugins,",
            "            - {name: mps, mountPath: /mps}\n            - {name: device-plugins,",
        ),
        (
            "      volumes:\n",
            "      volumes:\n        - {name: mps, hostPath: {path: /run/nvidia}}\n",
        ),
    )
    assert "/mps is /run/nvidia on the node, not /run/mps" in "\n".join(lines_of(mounted))
    right = changed(mounted, ("path: /run/nvidia}", "path: /run/mps}"))
    assert [f.severity for f in findings_of(right)] == [Severity.WARNING]


def test_the_mps_daemon_needs_its_directories() -> None:
    text = changed(CONTAINER, ("[nvidia-device-plugin]", "[mps-control-daemon]"))

    assert [f.message.partition(":")[0] for f in findings_of(text)] == [
        "nothing is mounted at /mps",
        "nothing is mounted at /dev/shm",
    ]
    command = changed(text, ("args: []", "args: [mount-shm]"))
    assert [f.message.partition(":")[0] for f in findings_of(command)] == [
        "nothing is mounted at /mps"
    ]
    mounted = changed(
        command,
        ("volumeMounts: [", "volumeMounts: [{name: m, mountPath: /mps}, "),
        ("volumes: [", "volumes: [{name: m, hostPath: {path: /run/nvidia/mps}}, "),
    )
    assert told(mounted) == ["error 11: what is mounted below /mps does not reach the node"]
    both_ways = ("mountPath: /mps}", "mountPath: /mps, mountPropagation: Bidirectional}")
    assert not findings_of(changed(mounted, both_ways))
    assert next(f.message for f in findings_of(changed(command, ("shm]", "shm, --x]")))) == (
        'there is no flag "-x"'
    )


def test_the_plugin_does_not_miss_a_daemon_that_is_given_as_well() -> None:
    daemon = changed(CONTAINER, ("[nvidia-device-plugin]", "[mps-control-daemon]"))

    found = findings_of(changed(ALL, *MPS), daemon)
    assert not [f for f in found if f.message.startswith("MPS is asked for")]


def test_discovery_needs_a_node_name_or_the_directory_of_its_file() -> None:
    (name,) = [f for f in findings_of(GFD) if f.severity is Severity.ERROR]
    assert name.message == "node-name: required to publish NodeFeature objects, but empty"

    text = changed(GFD, ("env: []", "env: [{name: GFD_USE_NODE_FEATURE_API, value: 'false'}]"))
    (found,) = findings_of(text)
    assert found.message.startswith(
        "nothing is mounted at /etc/kubernetes/node-feature-discovery/features.d"
    )


# --- Permissions ---


def test_the_label_of_the_node_has_to_be_readable() -> None:
    found = findings_of(changed(ALL, ("verbs: [get, list, watch]", "verbs: [get]")))

    assert [f.message for f in found] == ["the account account may not list, watch nodes"] * 2
    assert "a ClusterRole and its binding" in found[0].hint


@pytest.mark.parametrize(
    "change",
    [
        ('apiGroups: [""]', "apiGroups: [apps]"),
        ("resources: [nodes]", "resources: [pods]"),
        ("resources: [nodes]", "resources: [nodes]\n    resourceNames: [n]"),
        ("kind: ClusterRoleBinding", "kind: RoleBinding"),
        (
            "name: account, namespace: gpu}\n---\napiVersion: apps",
            "name: b, namespace: gpu}\n---\napiVersion: apps",
        ),
        (
            "- {kind: ServiceAccount, name: account, namespace: gpu}",
            "- {kind: ServiceAccount, name: account, namespace: x}",
        ),
    ],
)
def test_roles_that_do_not_reach_are_errors(change: tuple[str, str]) -> None:
    assert {f.message for f in findings_of(changed(ALL, change))} == {
        "the account account may not get, list, watch nodes"
    }


@pytest.mark.parametrize(
    "change",
    [
        ("verbs: [get, list, watch]", 'verbs: ["*"]'),
        ("resources: [nodes]", 'resources: ["*"]'),
        ("kind: ClusterRole, name: role", "kind: ClusterRole, name: of-somebody-else"),
        (
            "- {name: SEND_SIGNAL",
            "- {name: KUBECONFIG, value: /k}\n            - {name: SEND_SIGNAL",
        ),
    ],
)
def test_roles_that_reach_or_are_not_known_are_well(change: tuple[str, str]) -> None:
    assert not findings_of(changed(ALL, change))


def test_permissions_that_are_not_given_are_noted() -> None:
    found = findings_of(CONFIG_MAP + PLUGIN)

    assert {f.severity for f in found} == {Severity.NOTE}
    assert found[0].message == (
        "not checked: whether the account account may get, list, watch nodes"
    )


def test_a_token_is_needed() -> None:
    text = changed(ALL, ("    spec:\n", "    spec:\n      automountServiceAccountToken: false\n"))
    assert {f.message.partition(" calls")[2] for f in findings_of(text)} == {
        " the Kubernetes API, and gets no token for it"
    }
    of_account = changed(
        ALL,
        (
            "metadata: {name: account, namespace: gpu}\n",
            "metadata: {name: account, namespace: gpu}\nautomountServiceAccountToken: false\n",
        ),
    )
    assert len(findings_of(of_account)) == 2


def test_discovery_needs_its_role() -> None:
    text = changed(
        GFD,
        ("env: []", "env: [{name: NODE_NAME, value: node1}]"),
        ("spec:\n", "spec:\n  serviceAccountName: a\n"),
    )
    account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n"
    assert told(text + account) == [
        "error 5: the account a may not get, create, update nodefeatures.nfd.k8s-sigs.io"
    ]


def test_arguments_that_are_no_texts_are_errors() -> None:
    text = changed(
        CONTAINER, ("args: []", "args: [--pass-device-specs, --device-id-strategy, yes]")
    )

    assert [f.message for f in findings_of(text)] == [
        "the argument true is not a text",
        '--device-id-strategy: "true" is not allowed',
    ]


def test_two_dollars_are_one_and_unknown_names_stay() -> None:
    text = changed(
        CONTAINER,
        ("env: []", "env: [{name: A, value: x}, {name: DEVICE_ID_STRATEGY, value: $$(A)$(A)}]"),
    )
    assert [f.message for f in findings_of(text)] == ['DEVICE_ID_STRATEGY: "$(A)x" is not allowed']


def test_a_shell_that_starts_something_else_is_left_alone() -> None:
    text = changed(CONTAINER, ("[nvidia-device-plugin]", "[sh, -c, sleep 1]"))

    assert not findings_of(text)


def test_flags_and_variables_without_a_file_are_checked() -> None:
    text = changed(
        CONTAINER, ("args: []", "args: [--device-list-strategy=cdi-cri, --pass-device-specs]")
    )
    assert told(text) == [
        "warning 9: --pass-device-specs: without effect with CDI strategies alone",
        (
            "error 11: nothing is mounted at /var/run/cdi: the runtime looks for CDI specifications "
            "there"
        ),
    ]


def test_configurations_that_a_program_behind_a_script_reads_are_checked_all_the_same() -> None:
    """As in the pods of the GPU operator."""
    text = changed(
        ALL,
        ("command: [nvidia-device-plugin]", "command: [bash, -c, /bin/entrypoint.sh]"),
        ("replicas: 4", "replicas: 1"),
    )
    result = result_of(text)

    assert [(f.place.line, f.message) for f in result.findings] == [(12, "1 is too small")]
    assert result.configurations == 2


def test_of_very_many_arguments_the_first_thousand_are_checked() -> None:
    arguments = "".join("    - --no-such\n    - value\n" for _ in range(2000))
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: x\n"
        f"    command: [nvidia-device-plugin]\n    args:\n{arguments}"
    )
    found = findings_of(text)

    assert sum('no flag "--no-such"' in f.message for f in found) == 500
    (told,) = [f for f in found if f.severity is Severity.WARNING]
    assert told.message == "only the first 1000 arguments are checked"
    assert told.place.line == 1009
