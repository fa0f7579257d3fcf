from __future__ import annotations

from support.doctor import PLUGINS, Machine, failures, some_facts, steps, told, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict

SOCKET = f"{PLUGINS}/kubelet.sock"
UNIX_HEAD = "Num       RefCount Protocol Flags    Type St Inode Path\n"


def a_kubelet(machine: Machine, *plugins: str) -> None:
    machine.tree.socket(SOCKET)
    for name in plugins:
        machine.tree.socket(f"{PLUGINS}/{name}")


class TestSocket:
    def test_a_kubelet_that_listens_is_well(self, machine: Machine) -> None:
        a_kubelet(machine)

        outcome = machine.check("kubelet-socket")

        assert outcome.verdict is Verdict.OK
        assert f"connecting to {SOCKET}: answered" in outcome.evidence

    def test_a_socket_that_is_missing_fails(self, machine: Machine) -> None:
        machine.tree.folder(PLUGINS)

        outcome = machine.check("kubelet-socket")

        assert failures(outcome) == [f"there is no kubelet socket {SOCKET}"]
        assert "journalctl -u kubelet" in steps(outcome)

    def test_a_file_in_its_place_fails(self, machine: Machine) -> None:
        machine.tree.file(SOCKET)

        assert failures(machine.check("kubelet-socket")) == [f"{SOCKET} is no socket"]

    def test_a_kubelet_that_has_died_fails(self, machine: Machine) -> None:
        a_kubelet(machine)
        machine.answers = {"kubelet.sock": "nobody listens there any more"}

        assert "nobody listens" in failures(machine.check("kubelet-socket"))[0]

    def test_a_directory_that_cannot_be_written_fails(self, machine: Machine) -> None:
        a_kubelet(machine)
        machine.edge(can_write=lambda _: False, uid=lambda: 65532)

        assert f"{PLUGINS} cannot be written by uid 65532" in failures(
            machine.check("kubelet-socket")
        )

    def test_the_plugins_directory_may_be_another_one(self, machine: Machine) -> None:
        a_kubelet(machine)
        machine.options = ["--plugin-directory=/elsewhere"]

        assert "/elsewhere, does not exist" in failures(machine.check("kubelet-socket"))[0]

    def test_another_root_of_the_kubelet_is_found(self, machine: Machine) -> None:
        machine.tree.folder("/var/lib/k0s/kubelet/device-plugins")

        outcome = machine.check("kubelet-socket")

        assert outcome.verdict is Verdict.FAILED
        assert "--kubelet-socket=/var/lib/k0s/kubelet/device-plugins/kubelet.sock" in (
            steps(outcome)
        )

    def test_a_machine_without_kubelet_is_told_calmly(self, machine: Machine) -> None:
        assert machine.check("kubelet-socket").verdict is Verdict.NOT_CHECKED
        machine.options = ["--kubelet-socket="]
        assert "nothing is registered" in machine.check("kubelet-socket").summary

    def test_somebody_who_may_not_look_is_told_so(self, machine: Machine) -> None:
        machine.edge(uid=lambda: 1000)
        assert "sudo" in steps(machine.check("kubelet-socket"))

        a_kubelet(machine, "nvidia-gpu.sock")
        machine.answers = dict.fromkeys(("kubelet.sock", "nvidia-gpu.sock"), "Permission denied")
        for name in ("kubelet-socket", "plugin-sockets"):
            outcome = machine.check(name)
            assert outcome.verdict is not Verdict.FAILED
            assert "may not be connected to" in told(outcome, Verdict.NOT_CHECKED)[0]


class TestPlugins:
    def test_a_plugin_that_answers_is_well(self, machine: Machine) -> None:
        a_kubelet(machine, "nvidia-gpu.sock", "other.sock")
        machine.tree.file(f"{PLUGINS}/kubelet_internal_checkpoint", "{}")
        machine.options = ["--simulate=t4x4"]

        outcome = machine.check("plugin-sockets")

        assert outcome.verdict is Verdict.OK
        assert outcome.summary == "1 for NVIDIA GPUs, all of them answer"

    def test_a_stale_socket_fails(self, machine: Machine) -> None:
        a_kubelet(machine, "nvidia-gpu.sock")
        machine.answers = {"nvidia-gpu.sock": "nobody listens there any more"}

        outcome = machine.check("plugin-sockets")

        assert "nobody listens there any more" in failures(outcome)[0]
        assert f"rm {PLUGINS}/nvidia-gpu.sock" in steps(outcome)

    def test_a_foreign_plugin_is_a_warning(self, machine: Machine) -> None:
        a_kubelet(machine, "nvidia-gpu.sock", "nvidia-mig-1g.5gb.sock")
        machine.options = ["--simulate=t4x4"]

        outcome = machine.check("plugin-sockets")

        assert "nvidia-mig-1g.5gb.sock is served, and the plugin" in warnings(outcome)[0]

    def test_no_plugin_beside_a_kubelet_fails(self, machine: Machine) -> None:
        a_kubelet(machine)
        machine.options = ["--simulate=t4x4"]

        assert (
            "no plugin for NVIDIA GPUs has a socket"
            in (failures(machine.check("plugin-sockets"))[0])
        )

    def test_without_gpus_no_plugin_is_missed(self, machine: Machine) -> None:
        a_kubelet(machine)
        machine.options = ["--simulate=no-gpu"]

        assert machine.check("plugin-sockets").verdict is Verdict.OK

    def test_gpus_that_cannot_be_planned_are_missed_all_the_same(self, machine: Machine) -> None:
        a_kubelet(machine)
        machine.nvml = some_facts()

        assert machine.check("plugin-sockets").verdict is Verdict.FAILED

    def test_without_kubelet_it_is_not_told(self, machine: Machine) -> None:
        machine.tree.folder(PLUGINS)

        outcome = machine.check("plugin-sockets")

        assert told(outcome, Verdict.NOT_CHECKED) == ["no plugin runs here, and no kubelet"]

    def test_without_directory_nothing_is_told(self, machine: Machine) -> None:
        assert machine.check("plugin-sockets").verdict is Verdict.NOT_CHECKED


def a_process(
    machine: Machine, pid: int, command: str, *, socket: str = "", flags: str = "00010000"
) -> None:
    machine.tree.file(f"/proc/{pid}/cmdline", command.replace(" ", "\0") + "\0")
    machine.tree.link(f"/proc/{pid}/fd/3", f"socket:[{pid}00]")
    machine.tree.link(f"/proc/{pid}/fd/4", "/dev/null")
    line = f"0000000000000000: 00000002 00000000 {flags} 0001 01 {pid}00 {socket}\n"
    other = "0000000000000000: 00000002 00000000 00010000 0001 01 1 /run/other.sock\n"
    nameless = "0000000000000000: 00000002 00000000 00010000 0001 01 2\n"
    machine.tree.file(f"/proc/{pid}/net/unix", UNIX_HEAD + line + other + nameless)


class TestRivals:
    def test_one_plugin_has_no_rivals(self, machine: Machine) -> None:
        socket = f"{PLUGINS}/nvidia-gpu.sock"
        a_process(machine, 10, "/usr/bin/python3 /usr/bin/nvidia-device-plugin", socket=socket)
        a_process(machine, 11, "/usr/bin/python3 /usr/bin/gpu-node doctor", socket=socket)
        a_process(machine, 12, "sleep 3", socket=socket)
        machine.tree.folder("/proc/13")
        machine.tree.file("/proc/version", "")

        outcome = machine.check("plugin-processes")

        assert outcome.summary == "1 plugin process, no rivals"
        assert "process 10" in outcome.evidence[0]

    def test_two_for_one_socket_fail(self, machine: Machine) -> None:
        socket = f"{PLUGINS}/nvidia-gpu.sock"
        a_process(machine, 10, "nvidia-device-plugin", socket=socket)
        a_process(machine, 20, "/usr/bin/python3 /usr/bin/gpu-node agent", socket=socket)

        outcome = machine.check("plugin-processes")

        assert failures(outcome)[0].startswith(f"processes 10 and 20 both serve {socket}")
        assert "/proc/10/cgroup" in steps(outcome)

    def test_connections_and_other_directories_are_no_rivals(self, machine: Machine) -> None:
        socket = f"{PLUGINS}/nvidia-gpu.sock"
        a_process(machine, 10, "nvidia-device-plugin", socket=socket)
        a_process(machine, 20, "nvidia-device-plugin", socket=socket, flags="00000000")
        a_process(machine, 30, "nvidia-device-plugin", socket="/tmp/nvidia-gpu.sock")

        outcome = machine.check("plugin-processes")

        assert outcome.summary == "3 plugin processes, no rivals"

    def test_none_is_told_calmly(self, machine: Machine) -> None:
        assert machine.check("plugin-processes").verdict is Verdict.NOT_CHECKED


class TestPodResources:
    PATH = "/var/lib/kubelet/pod-resources/kubelet.sock"

    def test_a_kubelet_that_listens_is_well(self, machine: Machine) -> None:
        machine.tree.socket(self.PATH)

        assert machine.check("pod-resources").verdict is Verdict.OK

    def test_one_that_does_not_is_a_warning(self, machine: Machine) -> None:
        machine.tree.socket(self.PATH)
        machine.answers = {"kubelet.sock": "Permission denied"}

        assert "Permission denied" in warnings(machine.check("pod-resources"))[0]

    def test_it_is_missed_only_if_it_is_asked(self, machine: Machine) -> None:
        assert machine.check("pod-resources").verdict is Verdict.NOT_CHECKED
        machine.options = ["--metrics-address=:9440"]
        assert machine.check("pod-resources").verdict is Verdict.WARNING
        machine.options = ["--pod-resources-socket="]
        assert machine.check("pod-resources").summary == "--pod-resources-socket is empty"
