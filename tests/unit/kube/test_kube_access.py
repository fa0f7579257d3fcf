from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.kube.access import Access, load_access, service_account
from gpu_device_plugin.kube.errors import AccessError

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def a_kubeconfig(**changes: Any) -> dict[str, Any]:
    cluster = {"server": "https://10.0.0.1:6443"} | changes.pop("cluster", {})
    user = {"token": "secret"} if "user" not in changes else changes.pop("user")
    return {
        "clusters": [{"name": "other", "cluster": {}}, {"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }


def written(directory: Path, content: object) -> str:
    path = directory / "kubeconfig"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_the_current_context_of_a_kubeconfig_counts(tmp_path: Path) -> None:
    ca = base64.b64encode(b"PEM").decode()
    content = a_kubeconfig(
        cluster={"certificate-authority-data": ca, "tls-server-name": "kubernetes"},
        user={"client-certificate": "c.pem", "client-key": "/keys/k.pem", "tokenFile": "t"},
    )
    access = load_access(written(tmp_path, content))

    assert access.server == "https://10.0.0.1:6443"
    assert access.tls.ca_data == b"PEM"
    assert access.tls.server_name == "kubernetes"
    assert access.tls.verify
    assert access.tls.certificate_file == str(tmp_path / "c.pem")
    assert access.tls.key_file == "/keys/k.pem"
    assert access.token_file == str(tmp_path / "t")


def test_a_kubeconfig_may_be_yaml_and_its_server_without_a_scheme(tmp_path: Path) -> None:
    text = """
clusters:
- name: c
  cluster:
    server: example.org:6443/
    insecure-skip-tls-verify: true
contexts:
- {name: x, context: {cluster: c}}
current-context: x
"""
    access = load_access(written(tmp_path, text))

    assert access.server == "https://example.org:6443"
    assert not access.tls.verify
    assert not access.bearer_token()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["empty"]),
        ("[1]", ["no mapping"]),
        ("a: [", [":2", "not YAML"]),
        ("\x00", ["not YAML"]),
        (a_kubeconfig(**{"current-context": ""}), ["current-context", "contexts"]),
        (a_kubeconfig(**{"current-context": 5}), ["current-context", "text"]),
        (a_kubeconfig(**{"current-context": "nowhere"}), ["'nowhere'", "contexts"]),
        (a_kubeconfig(clusters=None), ["'c'", "clusters"]),
        (a_kubeconfig(users=[{"name": "u", "user": 3}]), ["users[0].user"]),
        (a_kubeconfig(cluster={"server": ""}), ["clusters[1].cluster.server", "https://"]),
        (a_kubeconfig(cluster={"server": "ftp://x"}), ["server"]),
        (a_kubeconfig(cluster={"server": "https://x:port"}), ["server"]),
        (a_kubeconfig(cluster={"proxy-url": "http://p"}), ["proxy-url", "not supported"]),
        (a_kubeconfig(cluster={"insecure-skip-tls-verify": "yes"}), ["insecure-skip-tls-verify"]),
        (
            a_kubeconfig(cluster={"certificate-authority-data": "%%%"}),
            ["certificate-authority-data", "base64"],
        ),
        (a_kubeconfig(user={"exec": {"command": "aws"}}), ["exec", "not supported"]),
        (a_kubeconfig(user={"auth-provider": {"name": "gcp"}}), ["auth-provider"]),
        (a_kubeconfig(user={"token": 12}), ["users[0].user.token"]),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_names_file_and_key(
    tmp_path: Path, content: object, words: list[str]
) -> None:
    path = written(tmp_path, content)

    with pytest.raises(AccessError) as caught:
        load_access(path)

    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in [path, *words]), message
    assert "secret" not in message


def test_a_kubeconfig_that_is_not_there_names_the_flag(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.*No such file.*--kubeconfig"):
        load_access(str(tmp_path / "absent"))


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("PEM")
    access = service_account(POD, str(tmp_path))

    assert access.server == "https://10.96.0.1:443"
    assert access.tls.ca_file == str(tmp_path / "ca.crt")
    assert access.bearer_token() == "first"
    (tmp_path / "token").write_text("second")
    assert access.bearer_token() == "second"


def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    access = service_account({**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, str(tmp_path))

    assert access.server == "https://[fd00::1]:443"


def test_outside_a_pod_a_kubeconfig_is_asked_for() -> None:
    with pytest.raises(AccessError, match=r"not a pod.*--kubeconfig"):
        load_access("", {})


def test_a_pod_without_token_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"token.*automountServiceAccountToken"):
        service_account(POD, str(tmp_path))


def test_a_token_that_is_about_to_be_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    access = service_account(POD, str(tmp_path))

    with pytest.raises(AccessError, match=r"cannot be used: it is empty$"):
        access.bearer_token()
    (tmp_path / "token").write_text("secret")
    assert access.bearer_token() == "secret"


@pytest.mark.parametrize("bad", ["", "a b", "a\x00b", "é", b"\xff\xfe", "x" * 65537])
def test_a_token_that_is_none_is_not_shown(tmp_path: Path, bad: str | bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(bad if isinstance(bad, bytes) else bad.encode())
    access = Access("https://x", "tests", token_file=str(path))

    with pytest.raises(AccessError) as caught:
        access.bearer_token()

    assert str(path) in str(caught.value)
    assert repr(bad)[1:-1] not in str(caught.value).replace(str(path), "") or not bad


def test_the_last_token_stands_in_while_a_file_cannot_be_read(tmp_path: Path) -> None:
    access = Access("https://x", "tests", token="kept", token_file=str(tmp_path / "absent"))

    assert access.bearer_token() == "kept"


def test_secrets_are_not_in_what_is_printed_of_an_access() -> None:
    access = Access("https://x", "tests", token="hidden", password="hidden")

    assert "hidden" not in repr(access)
