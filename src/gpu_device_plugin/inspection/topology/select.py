"""GPUs as a user names them: ``0-3,6,GPU-5fc559a5``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.text import quote
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu

RULE = "indices, ranges such as 0-3, and UUIDs or how they begin, separated by commas"


@dataclass(frozen=True, slots=True)
class Indices:
    """GPUs by NVML's index, from one to another."""

    first: int
    last: int

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


Item = Indices | str
"""Indices, or a UUID or how one begins."""


def parse_list(text: str) -> tuple[Item, ...]:
    """The items of a list.

    Raises:
        ValueError: it is no such list.
    """
    return tuple(_parse_item(word.strip()) for word in text.split(","))


def _parse_item(word: str) -> Item:
    if re.fullmatch(r"GPU-[0-9A-Za-z-]+", word):
        return word
    match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", word, re.ASCII)
    if match is None:
        raise ValueError(f"{quote(word)} is none of {RULE}")
    indices = Indices(int(match[1]), int(match[2] or match[1]))
    if indices.first > indices.last:
        raise ValueError(f"{quote(word)} goes downwards")
    return indices


def find_positions(items: Sequence[Item], gpus: Sequence[Gpu]) -> tuple[int, ...]:
    """The positions of the GPUs that a list names, each once, in the order of the list.

    Raises:
        ConfigError: the node has no such GPU.
    """
    return tuple(dict.fromkeys(position for item in items for position in _find(item, gpus)))


def _find(item: Item, gpus: Sequence[Gpu]) -> Iterator[int]:
    if isinstance(item, str):
        yield _find_uuid(item, gpus)
        return
    at = {gpu.index: position for position, gpu in enumerate(gpus)}
    for index in range(item.first, item.last + 1):
        if index not in at:
            raise ConfigError(f"this node has no GPU {index}", _there(gpus))
        yield at[index]


def _find_uuid(start: str, gpus: Sequence[Gpu]) -> int:
    uuids = {gpu.uuid.lower(): position for position, gpu in enumerate(gpus)}
    if start.lower() in uuids:
        return uuids[start.lower()]
    found = [position for uuid, position in uuids.items() if uuid.startswith(start.lower())]
    if not found:
        raise ConfigError(f"this node has no GPU {quote(start)}", _there(gpus))
    if len(found) > 1:
        raise ConfigError(f"the UUIDs of {len(found)} GPUs begin with {quote(start)}")
    return found[0]


def _there(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "it has none"
    return f"it has {ranges([gpu.index for gpu in gpus])}"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in rising order, three and more successive ones as a range: ``0-3, 6, 7``."""
    parts, rest = list[str](), sorted(set(numbers))
    while rest:
        length = next((n for n in range(1, len(rest)) if rest[n] != rest[0] + n), len(rest))
        run, rest = rest[:length], rest[length:]
        parts += [f"{run[0]}-{run[-1]}"] if length > 2 else map(str, run)
    return ", ".join(parts)
