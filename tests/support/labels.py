"""Facts and labels without hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from gpu_device_plugin.config.model import (
    Config,
    GfdFlags,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
)
from gpu_device_plugin.hardware.model import Gpu, Inventory
from gpu_device_plugin.hardware.node_facts import NodeFacts
from gpu_device_plugin.hardware.pci import CONTROLLER_3D
from gpu_device_plugin.hardware.vgpu import Vgpus
from gpu_device_plugin.labels.compute import make_labels
from gpu_device_plugin.labels.model import Facts
from support.configs import a_config
from support.inventories import a_node

VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
"""The expression of Kubernetes' own validation (apimachinery)."""


def is_label_value(text: str) -> bool:
    return len(text) <= 63 and VALUE.fullmatch(text) is not None


def gfd_config(
    mig: str = "none", sharing: Sharing | None = None, gfd: GfdFlags | None = None
) -> Config:
    """A configuration of gpu-feature-discovery."""
    config = a_config(mig_strategy=mig, gfd=gfd or GfdFlags(False, False, 10**9, "", ""))
    return replace(config, sharing=sharing or Sharing())


def mps(replicas: int, name: str = "nvidia.com/gpu") -> Sharing:
    """Sharing by MPS."""
    return Sharing(mps=ReplicatedResources(False, True, (ReplicatedResource(name, replicas),)))


def node_of(inventory: Inventory, pci_class: int = CONTROLLER_3D) -> NodeFacts:
    return NodeFacts(inventory, {gpu.index: pci_class for gpu in inventory.gpus})


def facts_of(
    gpus: Iterable[Gpu] | int | Inventory, *, timestamp: int | None = None, **changes: object
) -> Facts:
    """Facts of a node with these GPUs and nothing out of the ordinary."""
    if not isinstance(gpus, Inventory):
        gpus = a_node(gpus if isinstance(gpus, int) else list(gpus))
    facts = Facts(node_of(gpus), machine="Machine", vgpus=Vgpus(), timestamp=timestamp)
    return replace(facts, **changes)  # type: ignore[arg-type]  # the names are those of the fields


def published(config: Config, facts: Facts) -> dict[str, str]:
    """The labels, without prefix."""
    labels = make_labels(config, facts).published()
    return {key.removeprefix("nvidia.com/"): value for key, value in labels.items()}


def problems(config: Config, facts: Facts) -> str:
    """What went wrong, a line for each problem."""
    return "\n".join(problem.text for problem in make_labels(config, facts).problems)
