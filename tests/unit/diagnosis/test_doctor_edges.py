from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.apiserver import ApiServer
from support.doctor import Machine
from support.serving import a_service

from gpu_device_plugin.diagnosis.doctor import edges
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts
from gpu_device_plugin.kube.errors import AccessError, ApiError, ApiUnreachable
from gpu_device_plugin.kubelet.transport import plugin_server


@contextmanager
def a_listener(path: Path, answer: bytes | None = None) -> Iterator[None]:
    """Takes one connection; answers it, closes it at once, or keeps silent."""
    over = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                if answer is None:
                    over.wait()
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def a_dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))


class TestConnect:
    def test_somebody_who_listens_is_well(self, tmp_path: Path) -> None:
        with a_listener(tmp_path / "s"):
            assert not edges.connect(str(tmp_path / "s"))

    def test_others_are_told_apart(self, tmp_path: Path) -> None:
        a_dead_socket(tmp_path / "dead")

        assert edges.connect(str(tmp_path / "dead")) == "nobody listens there any more"
        assert edges.connect(str(tmp_path / "none")) == "No such file or directory"
        assert "too long" in edges.connect("/" + "x" * 200)


class TestPlugin:
    def test_one_that_serves_answers(self, tmp_path: Path) -> None:
        path = str(tmp_path / "nvidia-gpu.sock")
        ready, over = threading.Event(), threading.Event()

        async def serve() -> None:
            server = plugin_server(a_service())
            await server.start(path)
            ready.set()
            await asyncio.to_thread(over.wait)
            await server.stop()

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        ready.wait()
        try:
            assert not edges.ask_plugin(path)
        finally:
            over.set()
            thread.join()

    def test_a_socket_of_something_else_is_told(self, tmp_path: Path) -> None:
        with a_listener(tmp_path / "s", b""):
            assert edges.ask_plugin(str(tmp_path / "s"))

    def test_one_that_is_silent_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(edges, "ANSWER_SECONDS", 0.05)
        with a_listener(tmp_path / "s"):
            assert "within 0.05 s" in edges.ask_plugin(str(tmp_path / "s"))

    def test_one_that_has_died_is_told(self, tmp_path: Path) -> None:
        a_dead_socket(tmp_path / "dead")

        assert edges.ask_plugin(str(tmp_path / "dead")) == "nobody listens there any more"
        assert edges.ask_plugin(str(tmp_path / "none")) == "No such file or directory"


class TestMps:
    def tool(self, directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        path = directory / "nvidia-cuda-mps-control"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")

    def test_an_answer_is_handed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.tool(tmp_path, monkeypatch, "read command; echo got $command")

        assert edges.ask_mps("/mps", "nvidia.com/gpu", "get_server_list") == (
            True,
            "got get_server_list",
        )

    def test_an_error_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tool(tmp_path, monkeypatch, "echo no daemon; exit 1")

        answers, text = edges.ask_mps("/mps", "nvidia.com/gpu", "get_server_list")

        assert not answers
        assert "no daemon" in text
        assert edges.find_program("nvidia-cuda-mps-control") == str(
            tmp_path / "nvidia-cuda-mps-control"
        )


class TestApi:
    def test_the_node_is_read(self, tmp_path: Path) -> None:
        with ApiServer() as server:
            server.store.put("/api/v1/nodes/n1")

            node = edges.get_node(server.kubeconfig(tmp_path), {}, "n1")

            assert node["metadata"]["name"] == "n1"
            with pytest.raises(ApiError, match="404"):
                edges.get_node(server.kubeconfig(tmp_path), {}, "n2")

    def test_no_access_is_an_error(self) -> None:
        with pytest.raises(AccessError):
            edges.get_node("", {}, "n1")

    def test_an_api_that_is_away_is_an_error(self, tmp_path: Path) -> None:
        with ApiServer() as server:
            file = server.kubeconfig(tmp_path)

        with pytest.raises(ApiUnreachable):
            edges.get_node(file, {}, "n1")


class TestSystem:
    def test_an_inotify_instance_can_be_had_or_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not edges.open_inotify()

        def fail(_self: object) -> None:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr("gpu_device_plugin.watch.inotify.Inotify.__init__", fail)
        assert edges.open_inotify() == "Too many open files"

    def test_the_clock_can_be_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert edges.now() > 1_700_000_000
        assert edges.is_clock_synchronised() in {True, False, None}
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
        assert edges.is_clock_synchronised() is None

    def test_limits_and_space_are_those_of_the_system(self, tmp_path: Path) -> None:
        assert edges.open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)
        assert edges.space(str(tmp_path)).total > 0
        assert edges.can_write(str(tmp_path))
        assert not edges.can_write(str(tmp_path / "none"))


class TestHost:
    def test_paths_are_those_below_the_root(self, machine: Machine) -> None:
        machine.host_root = "/host"
        machine.tree.file("/host/run/thing", "text")
        machine.tree.link("/host/var/run", "/run")
        host = machine.host()

        assert host.real("/var/run/thing") == str(machine.tree.real("/host/run/thing"))
        assert host.real("/none") == str(machine.tree.real("/host/none"))
        assert host.text("/var/run/thing") == "text"
        assert host.text("/none") is None
        assert stat.S_ISREG(os.stat(host.real("/var/run/thing")).st_mode)

    def test_nvml_is_asked_below_the_hosts_root(self, machine: Machine) -> None:
        asked = list[tuple[str, str]]()

        def ask(root: str, chroot: str) -> NvmlFacts:
            asked.append((root, chroot))
            return machine.nvml

        machine.edge(nvml=ask)
        machine.host_root = "/host"
        machine.options = ["--driver-root=/run/nvidia/driver"]
        machine.tree.folder("/host/run/nvidia/driver")

        assert machine.host().nvml is machine.nvml
        assert asked == [("/run/nvidia/driver", "/host")]

    def test_a_configuration_that_cannot_be_used_is_tried_once(self, machine: Machine) -> None:
        machine.options = ["--config-file=/none"]
        host: Host = machine.host()

        assert host.usable_config() is None
        with pytest.raises(ConfigError):
            _ = host.config

    @pytest.mark.parametrize(
        "environ", [{"KUBERNETES_SERVICE_HOST": "x"}, {"container": "podman"}, {}]
    )
    def test_containers_are_told_by_their_marks(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        machine.environ = environ
        if not environ:
            machine.tree.file("/run/.containerenv")

        assert machine.host().is_container
        assert not machine.host().has_host_files
