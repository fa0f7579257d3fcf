"""What a node offers with a configuration, each thing with what has caused it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_device_plugin.cdi.names import CdiClass, qualified_name
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import Config, DeviceIdStrategy, SharingStrategy
from gpu_device_plugin.config.text import count
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.diagnosis.answers import (
    ID_STRATEGY,
    LIST_STRATEGY,
    Answer,
    Answering,
    Request,
)
from gpu_device_plugin.diagnosis.causes import Cause, cause
from gpu_device_plugin.diagnosis.label_causes import with_causes
from gpu_device_plugin.diagnosis.nodes import plan_of, without_effect
from gpu_device_plugin.diagnosis.offers import Offered, explain_devices
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.inspection.labels_report import Report
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Device, Plan, Resource


@dataclass(frozen=True, slots=True)
class Explained:
    """A resource of the node."""

    name: str
    count: int
    """How many the kubelet counts."""
    sum: str
    """How that comes: ``8 GPUs x 4 replicas``."""
    devices: tuple[str, ...]
    causes: tuple[Cause, ...]
    sharing: SharingStrategy = SharingStrategy.NONE


@dataclass(frozen=True, slots=True)
class CdiName:
    """The name by which a container runtime finds a device."""

    device: str
    name: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that there is to say about a node."""

    source: str
    """What was read: this node, or a simulated one."""
    platform: str
    gpus: tuple[str, ...]
    """Products with their numbers."""
    file: str
    resources: tuple[Explained, ...] = ()
    devices: tuple[Offered, ...] = ()
    cdi: tuple[CdiName, ...] = ()
    cdi_causes: tuple[Cause, ...] = ()
    labels: Report | None = None
    answers: tuple[Answer, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Why there are no resources, or no labels."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, whose form is described in docs/explain.md."""
        return {
            "node": {"source": self.source, "platform": self.platform, "gpus": list(self.gpus)},
            "configFile": self.file or None,
            "resources": [_resource_dict(resource) for resource in self.resources],
            "devices": [_device_dict(device) for device in self.devices],
            "cdi": {
                "names": [{"device": name.device, "name": name.name} for name in self.cdi],
                "because": [cause_dict(cause) for cause in self.cdi_causes],
            },
            "labels": None if self.labels is None else self.labels.to_dict()["labels"],
            "requests": [answer.to_dict() for answer in self.answers],
            "warnings": list(self.warnings),
            "problems": list(self.problems),
        }


def cause_dict(cause: Cause) -> dict[str, Any]:
    """The JSON object of a cause."""
    place = cause.place
    return {
        "what": cause.what or None,
        "by": cause.by,
        "file": place.file if place else None,
        "line": place.line if place else None,
    }


def _resource_dict(resource: Explained) -> dict[str, Any]:
    return {
        "name": resource.name,
        "count": resource.count,
        "sum": resource.sum,
        "sharing": resource.sharing.value,
        "devices": list(resource.devices),
        "because": [cause_dict(cause) for cause in resource.causes],
    }


def _device_dict(device: Offered) -> dict[str, Any]:
    return {
        "device": device.what,
        "id": device.id or None,
        "model": device.model or None,
        "resource": device.resource or None,
        "replicas": device.replicas or None,
        "because": [cause_dict(cause) for cause in device.causes],
    }


def make_explanation(
    loaded: Loaded,
    backend: Backend,
    source: str,
    cdi: CdiSettings,
    requests: Sequence[Request] = (),
) -> Explanation:
    """Reads the node and makes its plan by the steps of the plugin.

    Raises:
        HardwareError: the driver cannot be used.
        ConfigError: the configuration cannot be used on any node.
    """
    validate_plugin(loaded.config, backend.is_loadable, loaded.origins)
    inventory = backend.read()
    config = with_default_resources(loaded.config, inventory)
    warnings = [str(warning) for warning in loaded.warnings]
    plan = Plan()
    problems: tuple[str, ...] = ()
    try:
        plan = plan_of(config, inventory, warnings)
        warnings += without_effect(loaded.config, inventory, plan)
    except UserError as error:
        problems = (f"the plugin offers nothing: {error}",)
    devices = explain_devices(loaded, config, inventory, plan)
    answering = Answering(loaded, config, cdi, inventory, backend, plan)
    return Explanation(
        source=source,
        platform=str(inventory.platform),
        gpus=tuple(_products(inventory)),
        file=loaded.file,
        resources=tuple(_explain(r, devices, loaded, config) for r in plan.resources),
        devices=tuple(devices),
        cdi=tuple(_cdi_names(config, plan)) if config.uses_cdi() else (),
        cdi_causes=(
            cause(loaded, LIST_STRATEGY, ", ".join(config.device_list_strategies)),
            cause(loaded, ID_STRATEGY, f"named by {config.flags.plugin.device_id_strategy}"),
        ),
        answers=tuple(answering.answer(request) for request in requests),
        warnings=tuple(dict.fromkeys(warnings)),
        problems=problems,
    )


def with_labels(explanation: Explanation, labels: Report, loaded: Loaded) -> Explanation:
    """The explanation with the labels of the node, and with what keeps others away."""
    problems = [str(gap) for gap in labels.gaps if gap.is_failure]
    warnings = [str(gap) for gap in labels.gaps if not gap.is_failure]
    rows = with_causes(labels.rows, loaded, explanation.devices)
    return replace(
        explanation,
        labels=replace(labels, rows=rows),
        warnings=tuple(dict.fromkeys([*explanation.warnings, *warnings])),
        problems=tuple(dict.fromkeys([*explanation.problems, *problems])),
    )


def _products(inventory: Inventory) -> Iterator[str]:
    for name, number in Counter(gpu.name for gpu in inventory.gpus).items():
        yield f"{number} x {name}"


def _explain(
    resource: Resource, devices: Sequence[Offered], loaded: Loaded, config: Config
) -> Explained:
    own = [device for device in devices if device.resource == resource.name]
    causes = list(dict.fromkeys(each for device in own for each in device.causes))
    if any(device.replicas for device in own):
        causes.append(_greater_than_one(resource, loaded, config))
    return Explained(
        name=resource.name,
        count=resource.size,
        sum=_sum(resource),
        devices=tuple(device.what for device in own),
        causes=tuple(causes),
        sharing=resource.sharing,
    )


def _greater_than_one(resource: Resource, loaded: Loaded, config: Config) -> Cause:
    section = "sharing.timeSlicing" if config.sharing.mps is None else "sharing.mps"
    key = f"{section}.failRequestsGreaterThanOne"
    what = "a container may ask for 1 replica only"
    if not resource.requires_single:
        what = "a container may ask for several replicas"
    usual = f"default of failRequestsGreaterThanOne with {resource.sharing}"
    return cause(loaded, key, what, usual)


def _sum(resource: Resource) -> str:
    """``8 GPUs x 4 replicas``, with a term for each number of replicas."""
    groups = Counter((device.is_mig, device.replicas) for device in resource.devices)
    terms = []
    for (is_mig, replicas), number in groups.items():
        term = count(number, "MIG device" if is_mig else "GPU")
        if replicas:
            term += f" x {count(replicas, 'replica')}"
        terms.append(term)
    return " + ".join(terms)


def _cdi_names(config: Config, plan: Plan) -> Iterator[CdiName]:
    by_index = config.flags.plugin.device_id_strategy == DeviceIdStrategy.INDEX
    for resource in plan.resources:
        for device in resource.devices:
            name = device.index if by_index else device.id
            yield CdiName(_title(device), qualified_name(CdiClass.GPU, name))


def _title(device: Device) -> str:
    return f"{'MIG device' if device.is_mig else 'GPU'} {device.index}"
