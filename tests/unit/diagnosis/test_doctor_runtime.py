from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.doctor import Machine, failures, steps, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict
from gpu_device_plugin.diagnosis.doctor.runtime_files import find_runtimes

CONTAINERD = "/etc/containerd/config.toml"
V2 = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = {cdi}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "{default}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
        BinaryName = "/usr/bin/nvidia-container-runtime"
        SystemdCgroup = true
"""
V3 = """\
version = 3
imports = ["conf.d/*.toml"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
"""
V3_NVIDIA = """\
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "gpu"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gpu.options]
BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""
CRIO_NVIDIA = """\
[crio.runtime]
default_runtime = "nvidia"
[crio.runtime.runtimes.nvidia]
runtime_path = "/usr/bin/nvidia-container-runtime"
"""


def a_containerd(machine: Machine, default: str = "nvidia", cdi: str = "true") -> None:
    machine.tree.file(CONTAINERD, V2.format(default=default, cdi=cdi))


def a_toolkit(machine: Machine) -> None:
    for name in ("nvidia-container-runtime", "nvidia-container-cli", "nvidia-ctk"):
        machine.tree.file(f"/usr/bin/{name}", mode=0o755)


class TestRuntime:
    def test_the_default_runtime_of_nvidia_is_well(self, machine: Machine) -> None:
        a_containerd(machine)

        outcome = machine.check("runtime-config")

        assert outcome.verdict is Verdict.OK
        assert any("default nvidia; CDI on" in text for text in outcome.evidence)

    def test_another_default_needs_a_runtime_class(self, machine: Machine) -> None:
        a_containerd(machine, default="runc")

        outcome = machine.check("runtime-config")

        assert "only pods with a RuntimeClass" in warnings(outcome)[0]
        assert "--set-as-default" in steps(outcome)

    def test_a_runtime_of_nvidia_that_is_missing_fails(self, machine: Machine) -> None:
        machine.tree.file(CONTAINERD, "version = 2\n")

        outcome = machine.check("runtime-config")

        assert failures(outcome) == ["containerd has no runtime of NVIDIA's: containers get no GPU"]
        assert "nvidia-ctk runtime configure --runtime=containerd" in steps(outcome)

    def test_a_strategy_of_cdi_needs_no_runtime_but_cdi(self, machine: Machine) -> None:
        machine.options = ["--device-list-strategy=cdi-cri"]
        machine.tree.file(CONTAINERD, "version = 2\n")
        assert "CDI is off" in failures(machine.check("runtime-config"))[0]

        machine.tree.file(CONTAINERD, "version = 3\n")
        assert machine.check("runtime-config").verdict is Verdict.OK

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            (
                CONTAINERD,
                'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\ncdi_spec_dirs = ["/cdi"]\n',
            ),
            ("/etc/crio/crio.conf", '[crio.runtime]\ncdi_spec_dirs = ["/cdi"]\n'),
            (
                "/etc/docker/daemon.json",
                '{"features": {"cdi": true}, "cdi-spec-dirs": ["/cdi"]}',
            ),
        ],
    )
    def test_a_runtime_that_looks_elsewhere_fails(
        self, machine: Machine, path: str, text: str
    ) -> None:
        machine.options = ["--device-list-strategy=cdi-cri"]
        machine.tree.file(path, text)

        outcome = machine.check("runtime-config")

        assert "looks for CDI specifications in /cdi" in failures(outcome)[0]
        machine.tree.file(path, text.replace('"/cdi"', '"/cdi", "/run/cdi"'))
        assert machine.check("runtime-config").verdict is Verdict.OK

    def test_imported_files_count(self, machine: Machine) -> None:
        machine.tree.file(CONTAINERD, V3)
        machine.tree.file("/etc/containerd/conf.d/99-nvidia.toml", V3_NVIDIA)

        outcome = machine.check("runtime-config")

        assert outcome.verdict is Verdict.OK
        assert any("/etc/containerd/conf.d/99-nvidia.toml" in text for text in outcome.evidence)

    def test_a_pattern_that_is_none_and_a_circle_do_no_harm(self, machine: Machine) -> None:
        text = f'version = 3\nimports = ["[", "{CONTAINERD}", 3]\n'
        machine.tree.file(CONTAINERD, text)

        assert "no runtime of NVIDIA's" in machine.check("runtime-config").summary

    def test_a_file_that_is_no_toml_fails_with_its_place(self, machine: Machine) -> None:
        machine.tree.file(CONTAINERD, "version = \n")

        assert (
            f"{CONTAINERD}: Invalid value (at line 1"
            in failures(machine.check("runtime-config"))[0]
        )

    def test_crio_with_nvidia_is_well(self, machine: Machine) -> None:
        machine.tree.file("/etc/crio/crio.conf", "[crio.runtime]\n")
        machine.tree.file("/etc/crio/crio.conf.d/99-nvidia.conf", CRIO_NVIDIA)

        assert machine.check("runtime-config").summary == "CRI-O, fit for envvar"

    def test_crio_with_the_old_hook_needs_no_runtime(self, machine: Machine) -> None:
        machine.tree.file("/etc/crio/crio.conf.d/10-crio.conf", "[crio.runtime]\n")
        machine.tree.file("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json", "{}")

        assert machine.check("runtime-config").verdict is Verdict.OK

    def test_crio_that_cannot_be_understood_fails(self, machine: Machine) -> None:
        machine.tree.file("/etc/crio/crio.conf", "[")

        assert "CRI-O: /etc/crio/crio.conf" in machine.check("runtime-config").summary

    def test_docker_is_read_as_well(self, machine: Machine) -> None:
        config = {
            "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},
            "default-runtime": "nvidia",
            "features": {"cdi": True},
            "exec-opts": ["native.cgroupdriver=systemd"],
        }
        machine.tree.file("/etc/docker/daemon.json", json.dumps(config))

        (found,) = find_runtimes(machine.host())

        assert (found.default, found.cdi, found.systemd_cgroups) == ("nvidia", True, True)
        assert machine.check("runtime-config").verdict is Verdict.OK

    @pytest.mark.parametrize("text", ["{", "[]", '{"runtimes": 3}'])
    def test_odd_files_of_docker_do_no_harm(self, machine: Machine, text: str) -> None:
        machine.tree.file("/etc/docker/daemon.json", text)

        assert machine.check("runtime-config").verdict is Verdict.FAILED

    def test_a_container_does_not_see_the_hosts(self, machine: Machine) -> None:
        machine.environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

        outcome = machine.check("runtime-config")

        assert outcome.verdict is Verdict.NOT_CHECKED
        assert "--host-root=/host" in steps(outcome)

    def test_a_debug_container_does(self, machine: Machine) -> None:
        machine.environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        machine.host_root = "/host"
        machine.tree.file("/host" + CONTAINERD, V2.format(default="nvidia", cdi="true"))

        outcome = machine.check("runtime-config")

        assert outcome.verdict is Verdict.OK
        assert any(f"/host{CONTAINERD}" in text for text in outcome.evidence)

    def test_a_machine_without_runtime_is_told_calmly(self, machine: Machine) -> None:
        assert machine.check("runtime-config").verdict is Verdict.NOT_CHECKED

    def test_a_broken_configuration_of_the_plugin_counts_as_the_default(
        self, machine: Machine
    ) -> None:
        a_containerd(machine)
        machine.options = ["--config-file=/nowhere"]

        assert machine.check("runtime-config").summary == "containerd, fit for envvar"

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.recursive(
            st.none() | st.booleans() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["runtimes", "nvidia", "path", "features", "cdi", "exec-opts", "options"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        )
    )
    def test_no_json_raises(self, machine: Machine, value: object) -> None:
        machine.tree.file("/etc/docker/daemon.json", json.dumps(value))

        assert machine.check("runtime-config").verdict in set(Verdict)


class TestToolkit:
    def test_all_of_it_is_well(self, machine: Machine) -> None:
        a_toolkit(machine)
        machine.tree.file("/etc/nvidia-container-runtime/config.toml", "")

        outcome = machine.check("toolkit")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "3 of 4 programs found")
        assert "nvidia-cdi-hook: not found" in outcome.evidence

    def test_a_runtime_without_it_fails(self, machine: Machine) -> None:
        a_containerd(machine)

        outcome = machine.check("toolkit")

        assert "nvidia-container-runtime is in none of" in failures(outcome)[0]

    def test_strategies_of_cdi_need_the_hook_alone(self, machine: Machine) -> None:
        machine.options = ["--device-list-strategy=cdi-cri"]
        a_containerd(machine)
        outcome = machine.check("toolkit")
        assert failures(outcome) == [
            "/usr/bin/nvidia-ctk, which CDI specifications name as their hook, is not on the host"
        ]

        machine.options.append("--cdi-disable-hooks=all")
        assert machine.check("toolkit").verdict is Verdict.OK

    @pytest.mark.parametrize(
        ("strategy", "config", "text"),
        [
            ("volume-mounts", "", "does not accept them"),
            (
                "envvar",
                "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
                "ignores the variable",
            ),
            ("envvar", "x = [", "config.toml"),
        ],
    )
    def test_settings_that_defeat_a_strategy_fail(
        self, machine: Machine, strategy: str, config: str, text: str
    ) -> None:
        a_toolkit(machine)
        machine.options = [f"--device-list-strategy={strategy}"]
        machine.tree.file("/etc/nvidia-container-runtime/config.toml", config)

        outcome = machine.check("toolkit")

        assert outcome.verdict is Verdict.FAILED
        assert text in outcome.summary

    def test_a_mode_is_told(self, machine: Machine) -> None:
        a_toolkit(machine)
        machine.tree.file(
            "/etc/nvidia-container-runtime/config.toml",
            "accept-nvidia-visible-devices-as-volume-mounts = true\n"
            '[nvidia-container-runtime]\nmode = "cdi"\n',
        )
        machine.options = ["--device-list-strategy=volume-mounts"]

        outcome = machine.check("toolkit")

        assert outcome.verdict is Verdict.OK
        assert any("mode cdi" in text for text in outcome.evidence)

    def test_neither_host_nor_runtime_is_told_calmly(self, machine: Machine) -> None:
        assert machine.check("toolkit").verdict is Verdict.NOT_CHECKED
        machine.environ = {"container": "podman"}
        assert "--host-root" in steps(machine.check("toolkit"))


class TestCgroups:
    def a_node(self, machine: Machine, *, links: bool = False) -> None:
        machine.tree.file("/sys/fs/cgroup/cgroup.controllers", "cpu")
        machine.tree.node("/dev/nvidia0", 195, 0)
        machine.tree.node("/dev/nvidiactl", 195, 255)
        machine.tree.file("/dev/nvidia-modeset")
        if links:
            machine.tree.link("/dev/char/195:0", "../nvidia0")
            machine.tree.link("/dev/char/195:255", "../nvidiactl")
        a_containerd(machine)

    def test_systemd_without_links_takes_gpus_away(self, machine: Machine) -> None:
        self.a_node(machine)

        outcome = machine.check("cgroups")

        assert "daemon-reload" in warnings(outcome)[0]
        assert "/dev/nvidia0, /dev/nvidiactl" in warnings(outcome)[0]
        assert "create-dev-char-symlinks" in steps(outcome)

    def test_links_help(self, machine: Machine) -> None:
        self.a_node(machine, links=True)

        assert machine.check("cgroups").verdict is Verdict.OK

    @pytest.mark.parametrize("option", ["--pass-device-specs", "--device-list-strategy=cdi-cri"])
    def test_devices_that_are_named_are_kept(self, machine: Machine, option: str) -> None:
        self.a_node(machine)
        machine.options = [option]

        assert machine.check("cgroups").verdict is Verdict.OK

    def test_without_systemd_there_is_no_danger(self, machine: Machine) -> None:
        self.a_node(machine)
        machine.tree.file(CONTAINERD, "version = 2\n")

        assert machine.check("cgroups").summary == "systemd does not manage them"

    def test_without_runtime_nothing_is_told(self, machine: Machine) -> None:
        assert machine.check("cgroups").verdict is Verdict.NOT_CHECKED
