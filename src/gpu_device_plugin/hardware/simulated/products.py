"""What GPU products are: facts for simulated GPUs, from ``products.yaml`` beside this module."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gpu_device_plugin.hardware.model import MigProfile
from gpu_device_plugin.hardware.simulated.yaml import Entry, parse_yaml

PRODUCTS_FILE = os.path.join(os.path.dirname(__file__), "products.yaml")
NVIDIA_VENDOR = 0x10DE

BRANDS = {
    "UNKNOWN": 0,
    "QUADRO": 1,
    "TESLA": 2,
    "NVS": 3,
    "GRID": 4,
    "GEFORCE": 5,
    "TITAN": 6,
    "QUADRO_RTX": 12,
    "NVIDIA_RTX": 13,
    "NVIDIA": 14,
    "GEFORCE_RTX": 15,
    "TITAN_RTX": 16,
}
"""NVML's ``nvmlBrandType_t``, by the names without their prefix."""

_PROFILE = re.compile(r"(?:(\d)c\.)?(\d)g\.(\d{1,4})gb((?:\+[a-z.]+)*)((?:-[a-z.]+)*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One way to cut a GPU: a GPU instance profile."""

    profile: MigProfile
    number: int
    """NVML's number of the GPU instance profile."""
    instances: int
    """How many of them a GPU can hold."""
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg: int
    ofa: int
    memory_mib: int

    @property
    def name(self) -> str:
        """As ``nvidia-smi mig -lgip`` shows it."""
        return str(self.profile)


@dataclass(frozen=True, slots=True)
class Product:
    """One kind of GPU."""

    name: str
    pci_device_id: int
    """Device and vendor id as NVML combines them."""
    compute_capability: tuple[int, int]
    brand: int
    memory_mib: int
    coherent: bool = False
    mig_slices: tuple[MigSlice, ...] = ()
    """In NVML's order; empty if the GPU cannot be cut."""


@cache
def load_products() -> Mapping[str, Product]:
    """All known products by name, in the order of the file."""
    with open(PRODUCTS_FILE, encoding="utf-8") as file:
        top = parse_yaml(file.read(), PRODUCTS_FILE).mapping()
    tables = {name: _slices(table) for name, table in top["mig"].mapping().items()}
    return {
        name: _product(name, entry.mapping(), tables)
        for name, entry in top["products"].mapping().items()
    }


def parse_profile(text: str) -> MigProfile | None:
    """The MIG profile of a name such as ``1c.3g.20gb`` or ``1g.5gb+me``; None if it is none."""
    match = _PROFILE.fullmatch(text)
    if match is None:
        return None
    compute, slices, memory, plus, minus = match.groups()
    return MigProfile(
        compute_slices=int(compute or slices),
        gpu_slices=int(slices),
        memory_gib=int(memory),
        attributes=tuple(plus.split("+")[1:]),
        negative_attributes=tuple(minus.split("-")[1:]),
    )


def parse_compute(text: str) -> tuple[int, int] | None:
    """The compute capability that ``8.0`` stands for; None if it is none."""
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text, re.ASCII)
    return None if match is None else (int(match[1]), int(match[2]))


def _product(
    name: str, facts: Mapping[str, Entry], tables: Mapping[str, tuple[MigSlice, ...]]
) -> Product:
    compute = parse_compute(facts["compute"].text())
    if compute is None:
        raise facts["compute"].error("no compute capability", "such as 8.0")
    return Product(
        name=name,
        pci_device_id=int(facts["device"].text(), 16) << 16 | NVIDIA_VENDOR,
        compute_capability=compute,
        brand=BRANDS[facts["brand"].choice(BRANDS)],
        memory_mib=facts["memory"].integer(0, 2**24),
        coherent="coherent" in facts,
        mig_slices=tables[facts["mig"].choice(tables)] if "mig" in facts else (),
    )


def _slices(table: Entry) -> tuple[MigSlice, ...]:
    found = list[MigSlice]()
    for name, row in table.mapping().items():
        profile = parse_profile(name)
        if profile is None:
            raise row.error("no MIG profile")
        found.append(MigSlice(profile, *(int(number) for number in row.text().split())))
    return tuple(sorted(found, key=lambda slice_: slice_.number))
