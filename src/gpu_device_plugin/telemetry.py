"""What happens in a program, told to whoever counts or reports it.

The services tell a `Listener` of each `Happening`; by default nobody listens. Listeners are
called in the event loop, do not block and do not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter


class Outcome(StrEnum):
    """How something ended."""

    OK = "ok"
    REFUSED = "refused"
    """What was asked for cannot be had; nothing is wrong with the program."""
    FAILED = "failed"


class Call(StrEnum):
    """A call of the kubelet that is timed."""

    ALLOCATE = "allocate"
    PREFER = "prefer"


class Turn(StrEnum):
    """Which way the health of a GPU has turned."""

    IGNORED = "ignored"
    """The driver has told something on which nothing is done."""
    WARNED = "warned"
    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Answered:
    """A call of the kubelet has been answered."""

    call: Call
    resource: str
    seconds: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ChosenWithoutLinks:
    """GPUs were preferred before the links between them were known."""

    resource: str


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The kubelet has begun to listen to the devices of a resource."""

    resource: str


@dataclass(frozen=True, slots=True)
class ListSent:
    """A stream has been told the devices of a resource."""

    resource: str


@dataclass(frozen=True, slots=True)
class Registered:
    """The kubelet has been told of a resource, or could not be."""

    resource: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class HealthChanged:
    """The driver has told something of a GPU, and this came of it."""

    turn: Turn
    gpu_uuid: str
    """Empty if it is about every GPU."""
    reason: str
    """``XID 79``, or what the driver said."""
    meaning: str = ""
    """The reason in words."""
    xid: int | None = None
    is_lost: bool = False
    """Whether the GPU cannot be read (or could not be, if it is healthy now)."""
    devices: tuple[tuple[str, str], ...] = ()
    """Resource and id, without replica number, of each device that has changed by it."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Configuration and hardware were read anew; after an error the former ones stay in force."""

    outcome: Outcome
    error: str = ""
    is_passing: bool = False
    """Whether the error may pass by itself, and is tried again then."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A pass of labelling the node is over."""

    outcome: Outcome
    """Refused if the driver is missing, which is tolerated: there is little to label with."""
    seconds: float
    labels: int = 0
    """How many were published."""
    pause: float | None = None
    """Seconds until the next pass; None if there is none."""


@dataclass(frozen=True, slots=True)
class ProfileApplied:
    """The node's label, or the file that it names, has changed; it was applied or could not be."""

    profile: str
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class DaemonStarted:
    """An MPS daemon has been started, or could not be."""

    resource: str
    outcome: Outcome


Happening = (
    Answered
    | ChosenWithoutLinks
    | StreamOpened
    | ListSent
    | Registered
    | HealthChanged
    | Reloaded
    | Labelled
    | ProfileApplied
    | DaemonStarted
)

Listener = Callable[[Happening], None]


def nobody(_: Happening) -> None:
    """Listens to nothing."""


def everyone(*listeners: Listener) -> Listener:
    """Tells several listeners, in this order."""

    def tell(happening: Happening) -> None:
        for listener in listeners:
            listener(happening)

    return tell


@contextmanager
def timed(tell: Listener, call: Call, resource: str, refusal: type[Exception]) -> Iterator[None]:
    """Tells how a call ended and how long it took.

    Args:
        tell: is told.
        call: of the kubelet.
        resource: that it is about.
        refusal: what is raised where the request cannot be met.
    """
    began = perf_counter()
    outcome = Outcome.FAILED
    try:
        yield
        outcome = Outcome.OK
    except refusal:
        outcome = Outcome.REFUSED
        raise
    finally:
        tell(Answered(call, resource, perf_counter() - began, outcome))
