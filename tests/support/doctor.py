"""A made-up machine for the checks of ``gpu-node doctor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_device_plugin.cdi.testing import FakeTree
from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.option import Program
from gpu_device_plugin.diagnosis.doctor.catalogue import CHECKS
from gpu_device_plugin.diagnosis.doctor.edges import Space
from gpu_device_plugin.diagnosis.doctor.host import Edges, Host
from gpu_device_plugin.diagnosis.doctor.model import Outcome, Verdict
from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts, NvmlGpu
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend

MIB = 1024 * 1024
PLUGINS = "/var/lib/kubelet/device-plugins"
NO_LIBRARY = NvmlFacts(library="libnvidia-ml.so.1", load_error="cannot open shared object file")


def a_gpu(index: int = 0, **changes: Any) -> NvmlGpu:
    """A GPU in perfect health."""
    gpu = NvmlGpu(
        index,
        uuid=f"GPU-{index}",
        name="NVIDIA A100",
        bus_id=f"00000000:0{index}:00.0",
        persistence=True,
        compute_mode=0,
        ecc_current=True,
        ecc_pending=True,
        mig_current=False,
        mig_pending=False,
        remap_pending=False,
        remap_failed=False,
        retired_pending=False,
        recovery_action=0,
        link_width=16,
        link_width_most=16,
    )
    return replace(gpu, **changes)


def some_facts(*gpus: NvmlGpu, **changes: Any) -> NvmlFacts:
    """What NVML tells of a node in perfect health."""
    given = gpus or (a_gpu(0), a_gpu(1))
    facts = NvmlFacts(
        library="/usr/lib64/libnvidia-ml.so.1",
        driver_version="550.127.05",
        nvml_version="12.550.127.05",
        cuda_driver_version=12040,
        count=len(given),
        gpus=given,
    )
    return replace(facts, **changes)


class Machine:
    """Files that play a node, and answers of all that is no file."""

    def __init__(self, directory: Path) -> None:
        self.tree = FakeTree(directory)
        self.options: list[str] = []
        self.environ: dict[str, str] = {}
        self.host_root = "/"
        self.kubeconfig = ""
        self.nvml = NO_LIBRARY
        self.profile = ""
        """Of the simulated node whose devices the plugin would offer."""
        self.answers: dict[str, str] = {}
        """What plugins answer, by the base names of their sockets; nothing wrong by default."""
        self.edges = Edges(
            nvml=lambda _root, _chroot: self.nvml,
            connect=lambda path: self.answers.get(Path(path).name, ""),
            ask_plugin=lambda path: self.answers.get(Path(path).name, ""),
            get_url=lambda _url, _token: (200, "ok"),
            open_inotify=lambda: "",
            ask_mps=lambda _root, _resource, _command: (True, ""),
            get_node=self._no_node,
            is_clock_synchronised=lambda: True,
            now=lambda: 1_800_000_000.0,
            space=lambda _path: Space(1024 * MIB, 1000 * MIB, is_read_only=False),
            open_files=lambda: (1_048_576, 1_048_576),
            can_write=lambda _path: True,
            find_program=lambda _name: "/usr/bin/nvidia-cuda-mps-control",
            uid=lambda: 0,
            hostname=lambda: "Node-1",
        )

    @staticmethod
    def _no_node(kubeconfig: str, environ: Mapping[str, str], name: str) -> dict[str, Any]:
        raise AssertionError(f"the API was asked for {name} with {kubeconfig} {len(environ)}")

    def edge(self, **members: Any) -> None:
        self.edges = replace(self.edges, **members)

    def host(self) -> Host:
        parsed = parse(Program.DEVICE_PLUGIN, self.options, {})
        return Host(
            parsed=parsed,
            load_config=lambda: load(parsed),
            open_backend=lambda _config: self._backend(parsed.text("simulate")),
            host_root=self.host_root,
            kubeconfig=self.kubeconfig,
            environ=self.environ,
            system=self.tree.system(),
            edges=self.edges,
        )

    def _backend(self, simulated: str) -> Backend:
        profile = self.profile or simulated
        if not profile:
            raise InitError("NVML cannot be initialised: not here")
        return SimulatedBackend.from_profile(profile)

    def check(self, name: str) -> Outcome:
        """Makes one check."""
        return check_named(name)(self.host())

    def gpu_on_bus(self, number: int = 0, driver: str = "nvidia", vendor: str = "0x10de") -> None:
        """Puts a GPU on the PCI bus."""
        path = f"/sys/bus/pci/devices/0000:0{number}:00.0"
        self.tree.file(f"{path}/vendor", f"{vendor}\n")
        self.tree.file(f"{path}/class", "0x030200\n")
        if driver:
            self.tree.link(f"{path}/driver", f"../../../bus/pci/drivers/{driver}")


def check_named(name: str) -> Callable[[Host], Outcome]:
    return next(check.run for check in CHECKS if check.name == name)


def told(outcome: Outcome, verdict: Verdict) -> list[str]:
    """The texts of the problems of one kind."""
    return [problem.text for problem in outcome.problems if problem.verdict is verdict]


def failures(outcome: Outcome) -> list[str]:
    return told(outcome, Verdict.FAILED)


def warnings(outcome: Outcome) -> list[str]:
    return told(outcome, Verdict.WARNING)


def steps(outcome: Outcome) -> str:
    """Everything that is to be done, as one text."""
    return "\n".join(step for problem in outcome.problems for step in problem.steps)
