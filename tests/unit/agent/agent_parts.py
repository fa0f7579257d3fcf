"""Parts of an agent without processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from support.backends import ToldBackend
from support.configs import a_config
from support.inventories import a_node

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.response import AllocationSettings
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.telemetry import Happening
from gpu_device_plugin.watch.profiles import Profile


def node_of(
    loaded: Loaded | None = None, inventory: Inventory | None = None, problem: str = ""
) -> Node:
    """A node as it is announced; with a problem it could not be read."""
    loaded = loaded or Loaded(a_config())
    inventory = None if problem else inventory or a_node(2)
    return Node(
        loaded=loaded,
        backend=ToldBackend(a_node(2)),
        inventory=inventory,
        plan=Plan(),
        settings=AllocationSettings.of(loaded.config),
        init_problem=problem,
    )


@dataclass
class Told:
    """What was told."""

    happenings: list[Happening] = field(default_factory=list)

    def __call__(self, happening: Happening) -> None:
        self.happenings.append(happening)

    def of(self, kind: type[Happening]) -> list[Happening]:
        return [each for each in self.happenings if isinstance(each, kind)]


@dataclass
class Choice:
    """A source that chooses what it is told to."""

    wanted: str | UserError
    other: str | UserError = field(default_factory=lambda: ConfigError("no other"))
    has_others: bool = True
    directory: str = ""

    def choose(self) -> Profile:
        return self._profile(self.wanted)

    def choose_otherwise(self) -> Profile:
        return self._profile(self.other)

    @staticmethod
    def _profile(name: str | UserError) -> Profile:
        if isinstance(name, UserError):
            raise name
        return Profile(name.rpartition("/")[2], name)
