"""Under which name, and how many times over, each device is offered.

``extensions.sharing`` decides over single GPUs, the section ``sharing`` over all the others. A
device goes to one resource, and a resource is shared in one way, so that whoever asks for it
knows what to expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_device_plugin.config.model import Config, GpuSharing, SharingStrategy
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.resources.replicas import replicate
from gpu_device_plugin.resources.selection import Identity

WORDS = {
    SharingStrategy.NONE: "exclusive",
    SharingStrategy.TIME_SLICING: "time-sliced",
    SharingStrategy.MPS: "shared through MPS",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a device is offered, and who says so."""

    strategy: SharingStrategy = SharingStrategy.NONE
    requires_single: bool | None = None
    """Whether a container may have one replica only; None if nothing is said."""
    origin: str = ""
    """The key of the configuration; empty where none is about the device."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A device under the name of a resource."""

    resource: str
    device: Device
    terms: Terms

    def __str__(self) -> str:
        what = "MIG device" if self.device.is_mig else "GPU"
        return f"{what} {self.device.index} ({self.terms.origin or 'by default'})"


def offer_devices(
    config: Config,
    devices: Mapping[str, Mapping[str, Device]],
    names: Mapping[str, Identity],
    warnings: list[str],
) -> list[Offer]:
    """Every device once, under the name of the resource that it goes to.

    Args:
        config: validated.
        devices: unshared, by the names of their resources, then by id.
        names: what the devices go by in the configuration, by id.
        warnings: takes what is wrong but stops nothing.

    Raises:
        ConfigError: a device cannot be offered as the configuration says.
    """
    offers: list[Offer] = []
    others: dict[str, dict[str, Device]] = {}
    for resource, found in devices.items():
        for device in found.values():
            number = deciding_entry(config.extensions.sharing, names[device.id])
            if number is None:
                others.setdefault(resource, {})[device.id] = device
            else:
                offers.append(_by_entry(config, number, resource, device))
    return [*offers, *_by_section(config, others, warnings)]


def deciding_entry(entries: Sequence[GpuSharing], identity: Identity) -> int | None:
    """The number of the entry of ``extensions.sharing`` that decides over a device, if one does."""
    for number, entry in enumerate(entries):
        if entry.gpus is not None and not identity.is_among(entry.gpus):
            continue
        if entry.mig is None or identity.has_profile(entry.mig):
            return number
    return None


def _by_entry(config: Config, number: int, resource: str, device: Device) -> Offer:
    entry = config.extensions.sharing[number]
    origin = f"extensions.sharing[{number}]"
    if entry.strategy is SharingStrategy.MPS and device.is_mig:
        raise ConfigError(
            f"{origin}: MPS cannot be used with MIG device {device.index}",
            "select GPUs that are not cut, or put an entry with mig: ['*'] before it",
        )
    return Offer(
        entry.rename or resource,
        replace(device, replicas=entry.replicas),
        Terms(entry.strategy, entry.fail_requests_greater_than_one, origin),
    )


def _by_section(
    config: Config, devices: Mapping[str, Mapping[str, Device]], warnings: list[str]
) -> Iterator[Offer]:
    sharing = config.sharing
    section = sharing.replicated
    shared = Terms(
        sharing.strategy,
        section.fail_requests_greater_than_one,
        "sharing.timeSlicing" if sharing.mps is None else "sharing.mps",
    )
    for resource, device in replicate(devices, section.resources, warnings):
        yield Offer(resource, device, shared if device.is_replicated else Terms())


def make_resource(name: str, offers: Iterable[Offer], *, is_discrete: bool) -> Resource:
    """A resource of what is offered under one name.

    Raises:
        ConfigError: the devices are not shared in one and the same way.
    """
    ordered = sorted(offers, key=lambda offer: offer.device.sort_key)
    strategy = _one_strategy(name, ordered)
    return Resource(
        name=name,
        devices=tuple(offer.device for offer in ordered),
        is_discrete=is_discrete,
        requires_single=_requires_single(name, ordered, strategy),
        sharing=strategy,
    )


def _one_strategy(name: str, offers: Sequence[Offer]) -> SharingStrategy:
    first = offers[0]
    strategy = first.terms.strategy
    for offer in offers:
        if offer.terms.strategy is not strategy:
            raise ConfigError(
                f"{name} would be both {WORDS[strategy]} and {WORDS[offer.terms.strategy]}: "
                f"{first}, {offer}",
                "give the devices of one of them another name: rename or renameByDefault",
            )
        if strategy is SharingStrategy.MPS and offer.device.replicas != first.device.replicas:
            raise ConfigError(
                f"{name} would have {first.device.replicas} and {offer.device.replicas} replicas "
                f"of a GPU: {first}, {offer}",
                "one MPS daemon serves a resource with one limit; use one number, or rename",
            )
    return strategy


def _requires_single(name: str, offers: Sequence[Offer], strategy: SharingStrategy) -> bool:
    """What is said about any of the devices; without a word, MPS allows one replica only."""
    said = {
        offer.terms.requires_single: offer
        for offer in reversed(offers)
        if offer.terms.requires_single is not None
    }
    if len(said) > 1:
        raise ConfigError(
            f"failRequestsGreaterThanOne is true and false for {name}: {said[True]}, {said[False]}",
            "use one value for all devices of a resource",
        )
    return next(iter(said), strategy is SharingStrategy.MPS) is True
