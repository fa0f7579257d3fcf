"""What a check finds out: a verdict, what was seen, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_device_plugin.diagnosis.doctor.host import Host

USUAL_SECONDS = 10.0
"""Longest time for a check."""


class Verdict(StrEnum):
    """How things are."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not well, or will not work much longer, or not for everybody."""
    FAILED = "failed"
    """Pods with GPUs do not work as long as this is so."""
    NOT_CHECKED = "not-checked"
    """It cannot be told from here, or does not concern this node."""


class Group(StrEnum):
    """What checks are about; the order is that of the output."""

    DRIVER = "Driver"
    GPUS = "GPUs"
    RUNTIME = "Container runtime"
    KUBELET = "Kubelet"
    KUBERNETES = "Kubernetes"
    MPS = "MPS"
    SYSTEM = "System"
    CONFIGURATION = "Configuration"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be, or that could not be looked at."""

    verdict: Verdict
    text: str
    steps: tuple[str, ...] = ()
    """What to do, in this order: commands and settings."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a check."""

    verdict: Verdict
    summary: str
    """One line."""
    problems: tuple[Problem, ...] = ()
    """The worst first."""
    evidence: tuple[str, ...] = ()
    """What was looked at and seen there, with paths and numbers."""


@dataclass(slots=True)
class Findings:
    """Collects what a check finds; the worst of it is the verdict."""

    evidence: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def saw(self, text: str) -> None:
        """Something was looked at."""
        self.evidence.append(text)

    def warn(self, text: str, *steps: str) -> None:
        """Something is not well."""
        self.problems.append(Problem(Verdict.WARNING, text, steps))

    def fail(self, text: str, *steps: str) -> None:
        """Something is broken."""
        self.problems.append(Problem(Verdict.FAILED, text, steps))

    def gap(self, text: str, *steps: str) -> None:
        """A part could not be looked at."""
        self.problems.append(Problem(Verdict.NOT_CHECKED, text, steps))

    def outcome(self, well: str) -> Outcome:
        """The verdict.

        Args:
            well: the summary if nothing is wrong.
        """
        order = (Verdict.FAILED, Verdict.WARNING, Verdict.NOT_CHECKED)
        problems = tuple(sorted(self.problems, key=lambda problem: order.index(problem.verdict)))
        wrong = [p for p in problems if p.verdict is not Verdict.NOT_CHECKED]
        if not wrong:
            return Outcome(Verdict.OK, well, problems, tuple(self.evidence))
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Outcome(wrong[0].verdict, wrong[0].text + more, problems, tuple(self.evidence))


def not_checked(reason: str, *steps: str, evidence: tuple[str, ...] = ()) -> Outcome:
    """The outcome of a check that cannot be made.

    Args:
        reason: why not.
        steps: what would make it possible.
        evidence: what was seen all the same.
    """
    problem = Problem(Verdict.NOT_CHECKED, reason, steps)
    return Outcome(Verdict.NOT_CHECKED, reason, (problem,), evidence)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that can be looked at."""

    name: str
    group: Group
    title: str
    """What it looks at, for the list of checks."""
    page: str
    """Where the symptom is explained, below ``docs/``."""
    run: Callable[[Host], Outcome]
    real: bool = False
    """Whether it says nothing about a simulated node."""
    seconds: float = USUAL_SECONDS
    """Longest time that it may take."""
