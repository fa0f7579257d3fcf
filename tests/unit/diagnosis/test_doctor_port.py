from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doctor import Machine, failures, warnings

from gpu_device_plugin.diagnosis.doctor import edges
from gpu_device_plugin.diagnosis.doctor.model import Verdict
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.kube.errors import ApiUnreachable


class TestCheck:
    def answer(self, machine: Machine, answers: dict[str, tuple[int, str]]) -> list[str]:
        """Lets the plugin answer; what is asked for."""
        asked = list[str]()

        def get(url: str, _token: str) -> tuple[int, str]:
            asked.append(url)
            return answers.get(url.rpartition("/")[2], (200, "ok"))

        machine.edge(get_url=get)
        return asked

    @pytest.mark.parametrize(
        ("options", "url"),
        [
            (["--metrics-address=:9440"], "http://127.0.0.1:9440"),
            (["--metrics-address=[::]:9440"], "http://[::1]:9440"),
            (["--metrics-address=0.0.0.0:1"], "http://127.0.0.1:1"),
            (
                ["--metrics-address=node:1", "--metrics-tls-cert-file=x"],
                "https://node:1",
            ),
        ],
    )
    def test_a_plugin_that_is_ready_is_well(
        self, machine: Machine, options: list[str], url: str
    ) -> None:
        machine.options = options
        asked = self.answer(machine, {})

        assert machine.check("plugin-port").verdict is Verdict.OK
        assert asked == [f"{url}/livez", f"{url}/readyz"]

    def test_its_reasons_are_told(self, machine: Machine) -> None:
        machine.options = ["--metrics-address=:1"]
        body = '{"ok": false, "reasons": ["nvidia.com/gpu: waiting", "blind"]}'
        self.answer(machine, {"readyz": (503, body)})

        outcome = machine.check("plugin-port")

        assert failures(outcome) == ["not ready: nvidia.com/gpu: waiting", "not ready: blind"]

    @pytest.mark.parametrize("body", ["not ready", "[]", '{"reasons": 3}'])
    def test_an_answer_without_reasons_is_believed(self, machine: Machine, body: str) -> None:
        machine.options = ["--metrics-address=:1"]
        self.answer(machine, {"livez": (503, body)})

        assert failures(machine.check("plugin-port")) == ["the plugin says that it is not alive"]

    def test_another_answer_is_a_warning(self, machine: Machine) -> None:
        machine.options = ["--metrics-address=:1"]
        self.answer(machine, {"readyz": (404, "")})

        assert warnings(machine.check("plugin-port")) == ["http://127.0.0.1:1/readyz answers 404"]

    def test_nobody_there_fails(self, machine: Machine) -> None:
        def get(_url: str, _token: str) -> tuple[int, str]:
            raise ApiUnreachable("the plugin cannot be reached at here:1: connection refused")

        machine.options = ["--metrics-address=:1"]
        machine.edge(get_url=get)

        assert "connection refused" in failures(machine.check("plugin-port"))[0]

    def test_no_port_is_told_calmly(self, machine: Machine) -> None:
        assert machine.check("plugin-port").verdict is Verdict.NOT_CHECKED


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the token that it got."""

    def do_GET(self) -> None:
        body = str(self.headers["Authorization"]).encode()
        self.send_response(203)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/x"
        server.shutdown()
        thread.join()


class TestUrl:
    def test_it_is_asked_with_the_token(self, url: str, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("secret\n")

        assert edges.get_url(url, "") == (203, "None")
        assert edges.get_url(url, str(tmp_path / "token")) == (203, "Bearer secret")
        with pytest.raises(ConfigError, match="token file /none cannot be read: No such"):
            edges.get_url(url, "/none")

    def test_what_speaks_no_http_is_told(self, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"hello\n")

            thread = threading.Thread(target=serve)
            thread.start()
            with pytest.raises(ApiUnreachable, match="this is not HTTP"):
                edges.get_url(f"http://127.0.0.1:{server.getsockname()[1]}/", "")
            thread.join()
        with pytest.raises(ApiUnreachable, match="TLS"):
            edges.get_url(url.replace("http:", "https:"), "")
