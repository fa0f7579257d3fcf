"""Which configuration is wanted, which is in force, and why these differ if they do.

A configuration is judged before anything is told to use it: it has to load, and to fit the
hardware. What was judged is what is applied; its file is not read a second time for that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gpu_device_plugin.agent.sources import Source
from gpu_device_plugin.config.load import Loaded, read_file
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.telemetry import Listener, Outcome, ProfileApplied, nobody
from gpu_device_plugin.threads import in_thread
from gpu_device_plugin.watch.profiles import Profile

log = logging.getLogger(__name__)

KEPT = "the last good configuration stays in force"
WAITING = "the former one stays in force until that has passed"
OTHER = "what applies to a node without label is used"
NOTHING = "nothing is offered"

Load = Callable[[Profile, bytes], Loaded]
"""Makes a configuration of the contents of a file; raises ConfigError."""
Check = Callable[[Loaded, Inventory | None], None]
"""Raises UserError if a configuration cannot be applied to that hardware."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The contents of a file at one moment."""

    profile: Profile
    contents: bytes


@dataclass(frozen=True, slots=True)
class Applicable:
    """A candidate that was found good."""

    candidate: Candidate
    loaded: Loaded


class Configurations:
    """Knows what to apply; it is applied by others, who say what has become of it.

    Args:
        source: says which file is wanted.
        load: makes a configuration of it.
        check: looks whether it can be applied.
        clock: seconds since 1970.
        tell: hears what is applied and what is not.
    """

    def __init__(
        self,
        source: Source,
        load: Load,
        check: Check,
        *,
        clock: Callable[[], float] = time.time,
        tell: Listener = nobody,
    ) -> None:
        self._source = source
        self._load = load
        self._check = check
        self._clock = clock
        self._tell = tell
        self._inventory: Inventory | None = None
        self._in_force: Applicable | None = None
        self._wanted: Applicable | None = None
        """What is to be applied next; what is in force if nothing is."""
        self._handed: Applicable | None = None
        """What was given out last."""
        self._refused: tuple[Candidate, str] | None = None
        """What cannot be used, and why not, if that was looked at last."""
        self._substitute: Applicable | None = None
        """What was begun with instead of what was wanted."""
        self._is_failing = False
        """What was told last of the choice."""
        self._choice_problem = ""
        self._reload_problem = ""
        self.problem_since = 0.0
        """Seconds since 1970."""

    @property
    def problem(self) -> str:
        """Why what is wanted is not in force; empty if it is."""
        return self._choice_problem or self._reload_problem

    @property
    def profile(self) -> str:
        """The name of the configuration in force; empty for one that has none."""
        return "" if self._in_force is None else self._in_force.candidate.profile.name

    async def begin(self) -> bool:
        """Finds the configuration to begin with.

        Returns:
            Whether there is one; if not, a change of label or directory may bring one.

        Raises:
            UserError: there is none, and no other can come.
        """
        problem = ""
        try:
            self._wanted = await self._judge(await _read(self._source.choose()))
        except UserError as error:
            if not self._source.has_others:
                raise
            problem = str(error)
            with suppress(UserError):
                self._wanted = await self._judge(await _read(self._source.choose_otherwise()))
                self._substitute = self._wanted
        self._note(problem, OTHER if self._wanted else NOTHING)
        return self._wanted is not None

    async def look(self, *, anew: bool = False) -> bool:
        """Looks what is wanted now; returns whether something else is to be applied.

        Args:
            anew: whether what is in force, or was refused, is looked at again, too.
        """
        try:
            candidate = await _read(self._source.choose())
        except UserError as error:
            self._keep(str(error))
            return False
        if not anew:
            if _is(self._in_force, candidate):
                self._wanted, self._refused = self._in_force, None
                self._note("")
                return False
            if _is(self._wanted, candidate):
                return False
            if self._refused is not None and self._refused[0] == candidate:
                self._keep(self._refused[1])
                return False
        try:
            self._wanted = await self._judge(candidate)
        except UserError as error:
            self._keep(str(error), candidate.profile.name)
            return False
        return True

    def load(self) -> Loaded:
        """The configuration to be applied."""
        if self._wanted is None:
            raise LookupError("there is no configuration yet")
        self._handed = self._wanted
        return self._handed.loaded

    def taken(self, node: Node) -> None:
        """This node is served from now on; on other hardware what was refused may fit."""
        handed = self._handed
        if handed is not None and node.loaded is handed.loaded:
            if node.problem_is_over is None:
                self._reload_problem = ""
            if handed is not self._in_force:
                self._put_in_force(handed)
        if node.inventory != self._inventory:
            self._inventory, self._refused = node.inventory, None

    def failed(self, error: str, *, is_passing: bool = False) -> None:
        """What was given out last could not be applied; what was in force still is.

        Args:
            error: why not.
            is_passing: whether it is nothing of the configuration, and will be given out again.
        """
        handed = self._handed
        if handed is None or handed is self._in_force:
            self._reload_problem = error
            self.problem_since = self._clock()
            return
        if is_passing:
            self._note(error, WAITING, handed.candidate.profile.name)
            return
        self._refused = handed.candidate, error
        if self._wanted is handed:
            self._keep(error, handed.candidate.profile.name)

    async def fits(self, node: Node) -> bool:
        """Whether the configuration of a node fits its hardware, as it may not have done before."""
        try:
            await in_thread("configuration", lambda: self._check(node.loaded, node.inventory))
        except UserError:
            return False
        return True

    def _put_in_force(self, applicable: Applicable) -> None:
        self._in_force = applicable
        profile = applicable.candidate.profile
        log.info("in force: profile=%r file=%r", profile.name, profile.path)
        if applicable is not self._substitute:
            self._tell_success(profile.name)

    def _tell_success(self, profile: str) -> None:
        self._is_failing = False
        self._tell(ProfileApplied(profile, Outcome.OK))

    def _keep(self, problem: str, profile: str = "") -> None:
        """Goes on with what is in force, or is about to be for the first time."""
        self._wanted = self._in_force or self._wanted
        self._note(problem, KEPT, profile)

    async def _judge(self, candidate: Candidate) -> Applicable:
        """Raises UserError if it cannot be used, which is remembered."""
        inventory = self._inventory

        def judge() -> Applicable:
            loaded = self._load(candidate.profile, candidate.contents)
            self._check(loaded, inventory)
            return Applicable(candidate, loaded)

        try:
            applicable = await in_thread("configuration", judge)
        except UserError as error:
            self._refused = candidate, str(error)
            raise
        self._refused = None
        return applicable

    def _note(self, problem: str, meanwhile: str = "", profile: str = "") -> None:
        """Says it when a problem begins, changes or ends, not every time it is met."""
        if problem and problem != self._choice_problem:
            log.error("%s; %s; tried again with every change", problem, meanwhile)
            self.problem_since = self._clock()
            self._is_failing = True
            self._tell(ProfileApplied(profile, Outcome.FAILED, problem))
        elif self._choice_problem and not problem:
            log.info("the problem with the configuration is over")
            if self._is_failing:
                self._tell_success(self.profile)
        self._choice_problem = problem


async def _read(profile: Profile) -> Candidate:
    """Raises ConfigError if the file cannot be read; a file system that hangs stops nothing else."""
    if not profile.path:
        return Candidate(profile, b"")
    return Candidate(profile, await in_thread("file", lambda: read_file(profile.path, again=True)))


def _is(known: Applicable | None, candidate: Candidate) -> bool:
    return known is not None and known.candidate == candidate
