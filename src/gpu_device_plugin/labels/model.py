"""What labelers work on, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.hardware.node_facts import NO_DEVICES, NodeFacts
from gpu_device_plugin.hardware.vgpu import Vgpus
from gpu_device_plugin.labels.keys import PREFIX


@dataclass(frozen=True, slots=True)
class Facts:
    """All that labels are made from, read at one moment."""

    node: NodeFacts = NO_DEVICES
    machine: str | None = None
    """What the machine calls itself; None if that cannot be read."""
    machine_problem: str = ""
    vgpus: Vgpus | None = None
    """None if the PCI devices cannot be read."""
    vgpu_problem: str = ""
    timestamp: int | None = None
    """Seconds since 1970; None for no such label."""
    driver_problem: str = ""
    """Why nothing is known of the GPUs; empty if it is."""


@dataclass(frozen=True, slots=True)
class Label:
    """One label of the node."""

    key: str
    """Without prefix."""
    value: str | None
    """None if it is not known and must not be what an earlier labeler took it for."""
    source: str = ""
    """The labeler that it comes from."""
    why: str = ""
    """Why it is that value, where it does not tell what its usual source says."""

    @property
    def full_key(self) -> str:
        """The key with its prefix."""
        return PREFIX + self.key


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a label could not be made from, or that makes labels doubtful."""

    text: str
    is_failure: bool = False
    """Whether a label is missing that there should be; such a thing ended v0.19.3."""
    costs: tuple[str, ...] = ()
    """Keys of the labels that are missing for it, with ``*`` for anything, as far as known."""


Finding = Label | Problem


@dataclass(frozen=True, slots=True)
class Labeler:
    """One source of labels: a pure function of configuration and facts."""

    name: str
    """What it tells of, for `Label.source`."""
    find: Callable[[Config, Facts], Iterator[Finding]]
    needs_devices: bool = True
    """Whether it has nothing to say on a node without GPUs."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a node, by key, and what went wrong over them."""

    labels: tuple[Label, ...] = ()
    problems: tuple[Problem, ...] = field(default=())

    def published(self) -> dict[str, str]:
        """The labels by full key, sorted."""
        return {label.full_key: label.value for label in self.labels if label.value is not None}

    def failures(self) -> tuple[str, ...]:
        """Why labels are missing that there should be."""
        return tuple(problem.text for problem in self.problems if problem.is_failure)
