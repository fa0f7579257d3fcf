"""The port of a container: files and sockets that it needs, neighbours, and probes that ask it."""

from __future__ import annotations

import pytest
from support.diagnosis import changed, findings_of

from gpu_device_plugin.diagnosis.findings import Severity

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
    - name: c
      command: [nvidia-device-plugin]
      env:
        - {name: GPU_NODE_METRICS_ADDRESS, value: ":9440"}
      ports: [{name: metrics, containerPort: 9440}]
      volumeMounts:
        - {name: d, mountPath: /var/lib/kubelet/device-plugins}
        - {name: p, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
        - {name: s, mountPath: /tls, readOnly: true}
  volumes:
    - {name: d, hostPath: {path: /var/lib/kubelet/device-plugins}}
    - {name: p, hostPath: {path: /var/lib/kubelet/pod-resources}}
    - {name: s, secret: {secretName: s}}
"""
FIRST = "      env:\n"
ADDRESS = 'value: ":9440"'


def with_variables(*given: str) -> str:
    lines = (f"        - {{name: GPU_NODE_{name}}}\n" for name in given)
    return changed(POD, (FIRST, FIRST + "".join(lines)))


def with_probe(probe: str, *changes: tuple[str, str]) -> str:
    line = f"      livenessProbe: {{httpGet: {{path: /livez, {probe}}}}}\n      ports:"
    return changed(changed(POD, ("      ports:", line)), *changes)


def told(text: str) -> list[tuple[Severity, str]]:
    return [(f.severity, f.message) for f in findings_of(text)]


def test_a_port_with_all_that_it_needs_is_well() -> None:
    assert not told(POD)
    assert not told(
        with_variables(
            "METRICS_TLS_CERT_FILE, value: /tls/tls.crt",
            "METRICS_TLS_KEY_FILE, value: /tls/tls.key",
            "METRICS_TOKEN_FILE, value: /tls/token",
        )
    )


def test_an_address_that_is_none_is_an_error() -> None:
    assert told(changed(POD, (ADDRESS, 'value: "9440"'))) == [
        (
            Severity.ERROR,
            "GPU_NODE_METRICS_ADDRESS: '9440' cannot be listened at: it has no port",
        )
    ]


def test_files_have_to_be_mounted_as_a_whole() -> None:
    missing = with_variables("METRICS_TOKEN_FILE, value: /token/token")
    single = changed(
        with_variables("METRICS_TOKEN_FILE, value: /tls"),
        ("mountPath: /tls,", "mountPath: /tls, subPath: token,"),
    )

    assert told(missing) == [
        (Severity.ERROR, "GPU_NODE_METRICS_TOKEN_FILE: nothing is mounted where /token/token is")
    ]
    ((severity, message),) = told(single)
    assert severity is Severity.WARNING
    assert "/tls stays as it is when the Secret changes" in message


@pytest.mark.parametrize("half", ["CERT", "KEY"])
def test_one_half_of_a_certificate_is_an_error(half: str) -> None:
    name = f"METRICS_TLS_{half}_FILE"

    assert told(with_variables(f"{name}, value: /tls/x")) == [
        (Severity.ERROR, f"GPU_NODE_{name}: is set without its other half")
    ]


POD_RESOURCES = "        - {name: p, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((POD_RESOURCES, ""), "--pod-resources-socket: nothing is mounted at /var/lib/kubelet/pod"),
        (
            ("hostPath: {path: /var/lib/kubelet/pod-resources}", "emptyDir: {}"),
            "--pod-resources-socket: /var/lib/kubelet/pod-resources is not a directory of the node",
        ),
        (
            (
                "/var/lib/kubelet/pod-resources, readOnly",
                "/var/lib/kubelet/pod-resources/kubelet.sock, readOnly",
            ),
            "--pod-resources-socket: /var/lib/kubelet/pod-resources/kubelet.sock is mounted as a",
        ),
    ],
)
def test_who_holds_what_is_not_known_without_the_socket(
    change: tuple[str, str], message: str
) -> None:
    ((severity, found),) = told(changed(POD, change))

    assert severity is Severity.WARNING
    assert found.startswith(message)


@pytest.mark.parametrize(
    "change",
    [
        (FIRST, FIRST + '        - {name: GPU_NODE_POD_RESOURCES_SOCKET, value: ""}\n'),
        (FIRST, FIRST + "        - {name: GPU_NODE_METRICS_ENDPOINTS, value: probes}\n"),
        (ADDRESS, 'value: ""'),
        ("[nvidia-device-plugin]", "[mps-control-daemon, mount-shm]"),
        ("[nvidia-device-plugin]", "[gpu-feature-discovery, --use-node-feature-api=false]"),
    ],
)
def test_the_socket_is_not_missed_where_nobody_asks(change: tuple[str, str]) -> None:
    found = told(changed(POD, (POD_RESOURCES, ""), change))

    assert not [message for _, message in found if "pod-resources" in message]


SECOND = """\
    - name: other
      command: [gpu-feature-discovery, --use-node-feature-api=false, --output-file=]
      env:
        - {name: GPU_NODE_METRICS_ADDRESS, value: "127.0.0.1:9440"}
  volumes:
"""


def test_containers_of_a_pod_need_ports_of_their_own() -> None:
    text = changed(POD, ("  volumes:\n", SECOND))

    (found,) = findings_of(text)
    assert found.message == (
        "GPU_NODE_METRICS_ADDRESS: the port 9440 is that of the container c, too"
    )
    assert "container other" in found.subject
    assert not told(changed(text, ("127.0.0.1:9440", ":9441")))
    assert not told(changed(text, (ADDRESS, 'value: ":0"'), ("127.0.0.1:9440", ":0")))


@pytest.mark.parametrize(
    ("probe", "changes", "message"),
    [
        ("port: metrics", [], ""),
        ("port: 9440", [], ""),
        ("port: unknown", [], ""),
        ("port: 9440", [(ADDRESS, 'value: ""')], "nobody listens in this container"),
        ("port: 9441", [], "it asks port 9441, and the program listens at 9440"),
        (
            "port: metrics",
            [("containerPort: 9440", "containerPort: 9000")],
            "it asks port 9000, and the program listens at 9440",
        ),
        (
            "port: metrics",
            [(ADDRESS, 'value: "127.0.0.1:9440"')],
            "it asks the address of the pod, and the program listens at 127.0.0.1:9440",
        ),
        ("port: metrics, host: 127.0.0.1", [(ADDRESS, 'value: "127.0.0.1:9440"')], ""),
        ("port: metrics, scheme: HTTPS", [], "the port speaks HTTP"),
        (
            "port: metrics",
            [(FIRST, FIRST + "        - {name: GPU_NODE_METRICS_ENDPOINTS, value: metrics}\n")],
            "probes are not served",
        ),
    ],
)
def test_probes_that_cannot_be_answered_are_errors(
    probe: str, changes: list[tuple[str, str]], message: str
) -> None:
    wanted = [(Severity.ERROR, f"livenessProbe: {message}")] if message else []

    assert told(with_probe(probe, *changes)) == wanted


def test_a_config_manager_that_chooses_once_opens_no_port() -> None:
    once = """\
  initContainers:
    - name: init
      command: [config-manager, --oneshot, --node-name=n, --config-file-dst=/d/c]
      env:
        - {name: CONFIG_FILE_SRCDIR, value: /tls}
        - {name: GPU_NODE_METRICS_ADDRESS, value: "nonsense"}
      volumeMounts:
        - {name: s, mountPath: /tls}
  containers:
"""
    found = told(changed(POD, ("  containers:\n", once)))

    assert not [message for _, message in found if "METRICS_ADDRESS" in message]
