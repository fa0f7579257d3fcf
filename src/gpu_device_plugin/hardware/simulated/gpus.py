"""From the keys of a profile to the GPUs of a node and the links between them."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, Links, Platform
from gpu_device_plugin.hardware.simulated.mig import Layout, make_devices, parse_layout
from gpu_device_plugin.hardware.simulated.model import MOST_GPUS, Profile, ProfileGpu, Watch
from gpu_device_plugin.hardware.simulated.products import Product, load_products, parse_compute
from gpu_device_plugin.hardware.simulated.yaml import Entry, quote

GPU_KEYS = (
    "product",
    "count",
    "name",
    "uuid",
    "minor",
    "memory",
    "compute",
    "health",
    "mig",
    "mig-slots",
)
PLATFORMS = (Platform.NVML, Platform.TEGRA, Platform.WSL)
LEVELS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
"""NVML's levels of the nearest common ancestor, by the names of ``nvidia-smi topo -m``."""
SYSTEM = LEVELS["SYS"]
MOST_NVLINKS = 36
"""Links of one GPU (``NVML_NVLINK_MAX_LINKS`` of newer drivers)."""
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "gpu-device-plugin:simulated-node")
"""Under which the UUIDs of GPUs are made from profile name and index."""
VERSION = "550.127.05"
"""The driver where a profile names none."""
CUDA = (12, 4)
"""What that driver supports."""

_PCI = re.compile(r"(?:([0-9A-F]{4,8}):)?([0-9A-F]{2}:[0-9A-F]{2}\.[0-7])")
_UUID = re.compile(r"GPU-[0-9a-zA-Z-]{1,64}")


def make_profile(name: str, keys: Mapping[str, Entry]) -> Profile:
    """Checks all keys and puts the node together.

    Raises:
        ConfigError: a key is wrong.
    """
    gpus = tuple(_gpus(name, keys))
    _require_distinct(gpus, keys)
    events = keys.get("events")
    cuda = keys.get("cuda")
    return Profile(
        name=name,
        machine=keys["machine"].line_of_text(256) if "machine" in keys else "",
        platform=Platform(keys["platform"].choice(PLATFORMS))
        if "platform" in keys
        else Platform.NVML,
        driver_version=keys["driver"].line_of_text(79) if "driver" in keys else VERSION,
        cuda_driver_version=_cuda(cuda),
        init_error=keys["init-error"].line_of_text(1000) if "init-error" in keys else "",
        events_file=""
        if events is None
        else os.path.join(os.path.dirname(events.file), events.line_of_text(4096)),
        gpus=gpus,
        links=Links(_ancestors(keys, len(gpus)), _nvlinks(keys, len(gpus))),
    )


def _cuda(entry: Entry | None) -> int:
    if entry is None:
        return CUDA[0] * 1000 + CUDA[1] * 10
    match = re.fullmatch(r"(\d{1,2})\.(\d{1,2})", entry.text(), re.ASCII)
    if match is None:
        raise entry.error(f"{entry.shown()} is no CUDA version", "MAJOR.MINOR, such as 12.4")
    return int(match[1]) * 1000 + int(match[2]) * 10


def _gpus(name: str, keys: Mapping[str, Entry]) -> Iterator[ProfileGpu]:
    if "gpus" not in keys:
        return
    addresses = [_pci(entry) for entry in _items(keys, "pci")]
    nodes = [entry.integer(-1, 1023) for entry in _items(keys, "numa")]
    index = 0
    for group in keys["gpus"].items():
        facts = group.mapping(GPU_KEYS)
        count = facts["count"].integer(1, MOST_GPUS) if "count" in facts else 1
        if index + count > MOST_GPUS:
            raise group.error("too many GPUs", f"{MOST_GPUS} on a node")
        for key in ("uuid", "minor"):
            if count > 1 and key in facts:
                raise facts[key].error(f"{count} GPUs cannot have the same", "with a count of 1")
        for _ in range(count):
            yield _gpu(
                group,
                index,
                facts,
                uuid=f"GPU-{uuid.uuid5(NAMESPACE, f'{name}/{index}')}",
                bus_id=addresses[index] if index < len(addresses) else "",
                numa_node=nodes[index] if index < len(nodes) else -1,
            )
            index += 1


def _items(keys: Mapping[str, Entry], key: str) -> list[Entry]:
    return keys[key].items() if key in keys else []


def _gpu(
    group: Entry, index: int, facts: Mapping[str, Entry], *, uuid: str, bus_id: str, numa_node: int
) -> ProfileGpu:
    products = load_products()
    if "product" not in facts:
        raise group.error("a GPU without product", "product: " + ", ".join(products))
    product = products[facts["product"].choice(products)]
    memory = facts["memory"].integer(0, 2**24) if "memory" in facts else product.memory_mib
    layout = _layout(product, facts)
    gpu = Gpu(
        index=index,
        uuid=_uuid(facts["uuid"]) if "uuid" in facts else uuid,
        minor=facts["minor"].integer(0, 254) if "minor" in facts else index,
        name=facts["name"].line_of_text(95) if "name" in facts else product.name,
        memory_bytes=memory << 20,
        compute_capability=_compute(facts["compute"])
        if "compute" in facts
        else product.compute_capability,
        pci_bus_id=bus_id,
        pci_device_id=product.pci_device_id if bus_id else 0,
        numa_node=numa_node if numa_node >= 0 else None,
        brand=product.brand,
        coherent=product.coherent,
        mig_capable=bool(product.mig_slices),
        mig_profiles=tuple(slice_.name for slice_ in product.mig_slices),
    )
    slots = _slots(facts["mig-slots"], gpu, product, layout) if "mig-slots" in facts else ()
    watch = Watch(facts["health"].choice(tuple(Watch))) if "health" in facts else Watch.WATCHED
    return ProfileGpu(gpu, product, watch, layout, slots)


def _uuid(entry: Entry) -> str:
    text = entry.text()
    if not _UUID.fullmatch(text):
        raise entry.error(f"{entry.shown()} is no UUID of a GPU", "GPU-, letters, digits and -")
    return text


def _compute(entry: Entry) -> tuple[int, int]:
    compute = parse_compute(entry.text())
    if compute is None:
        raise entry.error(f"{entry.shown()} is no compute capability", "such as 8.0")
    return compute


def _pci(entry: Entry) -> str:
    match = _PCI.fullmatch(entry.text().upper())
    if match is None:
        raise entry.error(f"{entry.shown()} is no PCI address", "such as 07:00.0 or 0009:01:00.0")
    return f"{(match[1] or '').rjust(8, '0')}:{match[2]}"


def _layout(product: Product, facts: Mapping[str, Entry]) -> Layout | None:
    if "mig" not in facts or facts["mig"].node.value == "off":
        return None
    words = [entry.text("MIG profiles") for entry in facts["mig"].items()]
    try:
        return parse_layout(product, words)
    except ConfigError as error:
        raise facts["mig"].error(error.message, error.hint.removeprefix("allowed: ")) from None


def _slots(entry: Entry, gpu: Gpu, product: Product, layout: Layout | None) -> tuple[int, ...]:
    slots = tuple(item.integer(0, 63) for item in entry.items())
    devices = len(make_devices(gpu, product, layout or ()))
    if list(slots) != sorted(set(slots)) or len(slots) != devices:
        raise entry.error(f"not a slot for each of {devices} MIG devices", "rising numbers")
    return slots


def _require_distinct(gpus: Iterable[ProfileGpu], keys: Mapping[str, Entry]) -> None:
    seen = set[tuple[str, object]]()
    for item in gpus:
        gpu = item.gpu
        for what, value in (("UUID", gpu.uuid), ("minor", gpu.minor), ("PCI", gpu.pci_bus_id)):
            if (what, value) in seen and value != "":
                raise keys["gpus"].error(f"two GPUs have the same {what}: {value}")
            seen.add((what, value))


def _ancestors(keys: Mapping[str, Entry], count: int) -> dict[tuple[int, int], int]:
    levels = {(a, b): SYSTEM for a in range(count) for b in range(count) if a != b}
    if "topology" not in keys:
        return levels
    for name, groups in keys["topology"].mapping(LEVELS).items():
        for group in groups.items():
            members = {item.integer(0, MOST_GPUS - 1) for item in group.items()}
            for pair, level in levels.items():
                if members.issuperset(pair):
                    levels[pair] = min(level, LEVELS[name])
    return levels


def _nvlinks(keys: Mapping[str, Entry], count: int) -> dict[tuple[int, int], int]:
    links, seen = dict[tuple[int, int], int](), set[frozenset[int]]()
    if "nvlinks" not in keys:
        return links
    for pair, entry in keys["nvlinks"].mapping().items():
        number = entry.integer(1, MOST_NVLINKS)
        match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", pair, re.ASCII)
        if match is None or int(match[1]) == int(match[2]):
            raise entry.error(f"{quote(pair)} is no pair of GPUs", "two indices, such as 0-1")
        first, second = int(match[1]), int(match[2])
        if frozenset({first, second}) in seen:
            raise entry.error("the pair stands here twice", "one entry for both directions")
        seen.add(frozenset({first, second}))
        if max(first, second) < count:
            links[first, second] = links[second, first] = number
    return links
