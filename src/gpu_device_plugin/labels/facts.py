"""Reads what labels are made from. Everything here may block."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_device_plugin.errors import HardwareError, InitError
from gpu_device_plugin.hardware.machine import read_machine_type
from gpu_device_plugin.hardware.node_facts import NO_DEVICES, NodeSource
from gpu_device_plugin.hardware.vgpu import Vgpus, read_vgpus
from gpu_device_plugin.labels.model import Facts


@dataclass(frozen=True, slots=True)
class FactReader:
    """Reads the node for labels, anew at every pass."""

    source: NodeSource
    machine_type_file: str
    """Empty for a machine of unknown type."""
    use_machine_of_source: bool = False
    """Whether a simulated node says what its machine is; a file that is named is read."""
    tolerates_no_driver: bool = False
    sysfs: str = "/sys"

    def read(self, timestamp: int | None) -> Facts:
        """Reads everything.

        Args:
            timestamp: of the start or the last reload, in seconds since 1970; None for no label.

        Raises:
            InitError: the driver cannot be used, and that is not tolerated.
        """
        driver_problem = ""
        try:
            node = self.source.read()
        except InitError as error:
            if not self.tolerates_no_driver:
                raise
            node, driver_problem = NO_DEVICES, str(error)
        machine, machine_problem = self._machine(node.machine)
        vgpus, vgpu_problem = self._vgpus()
        return Facts(
            node=node,
            machine=machine,
            machine_problem=machine_problem,
            vgpus=vgpus,
            vgpu_problem=vgpu_problem,
            timestamp=timestamp,
            driver_problem=driver_problem,
        )

    def _machine(self, simulated: str | None) -> tuple[str | None, str]:
        if simulated is not None and self.use_machine_of_source:
            return simulated, ""
        if not self.machine_type_file:
            return None, ""
        try:
            return read_machine_type(self.machine_type_file), ""
        except HardwareError as error:
            return None, str(error)

    def _vgpus(self) -> tuple[Vgpus | None, str]:
        if self.source.name == "simulated":
            return Vgpus(), ""
        try:
            return read_vgpus(self.sysfs), ""
        except HardwareError as error:
            return None, str(error)
