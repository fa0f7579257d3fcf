"""Follows a node's label: chooses the configuration, links it, tells the process that reads it.

State is looked at rather than events counted: whatever happens only wakes the loop, which then
compares what is with what should be. Unlike in k8s-device-plugin v0.19.3 (cmd/config-manager)
the node is seen before anything is chosen, a configuration that cannot be had leaves the last
good one in place, and changed contents count as a change.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gpu_device_plugin.config.files import RIGHT, problem_at
from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.storage import remedy
from gpu_device_plugin.telemetry import Listener, Outcome, ProfileApplied, nobody
from gpu_device_plugin.watch.links import is_usable, leads_to, replace_link, seen_from
from gpu_device_plugin.watch.node_label import NodeLabel
from gpu_device_plugin.watch.processes import Signaller, boot_time
from gpu_device_plugin.watch.profiles import (
    EMPTY,
    Profile,
    ProfileError,
    ProfileRules,
    read_contents,
)

log = logging.getLogger(__name__)

FIRST_SIGHT_SECONDS = 10.0
"""Longest wait for the node before something is chosen without its label."""
LOOK_SECONDS = 5.0
"""How often all is looked at though nothing has happened: contents may be written in place
without an event, a process to be told may have come, a directory may be writable now."""

Validate = Callable[[str], None]
"""Raises ConfigError if the configuration at that path cannot be used."""


class SignalFailed(UserError):
    """Nobody could be told of a change."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is kept up to date."""

    link: str
    signaller: Signaller | None = None
    """None: nobody is told."""


class ProfileFollower:
    """Keeps a link, and a process that reads it, on the configuration that applies."""

    def __init__(
        self,
        rules: ProfileRules,
        target: Target,
        validate: Validate | None = None,
        clock: Callable[[], float] = boot_time,
        tell: Listener = nobody,
    ) -> None:
        """Prepares; `label` is to be fed by a task of its own.

        Args:
            rules: how a configuration is chosen.
            target: what is kept up to date.
            validate: looks at a configuration before it is linked, or its change is told.
            clock: as `boot_time`.
            tell: hears what has come of a change.
        """
        self.wake = asyncio.Event()
        """To be set when the label or the directory may have changed."""
        self.label = NodeLabel(rules.label, self.wake.set)
        self._rules = rules
        self._target = target
        self._validate = validate
        self._clock = clock
        self._contents: bytes | None = None
        """What the process that reads the link knows; None before the first good configuration."""
        self._judged: tuple[str, bytes | None, str] | None = None
        """Path and contents that were validated last, and what is wrong with them."""
        self._untold: float | None = None
        """When something was changed that nobody was told of yet."""
        self.problem = ""
        """Why the configuration that applies is not in its place; empty if it is."""
        self._listener = tell
        self._is_news = False
        """Whether something has changed that the listener was not told of yet."""
        self._told_problem = ""

    @property
    def link(self) -> str:
        """Path of the link that is kept."""
        return self._target.link

    @property
    def is_linked(self) -> bool:
        """Whether a configuration is in its place, and its contents are known."""
        return self._contents is not None and is_usable(self._target.link)

    @property
    def profile(self) -> str:
        """Name of the configuration that is linked; empty for none, and for the empty one."""
        try:
            path = os.readlink(self._target.link)
        except OSError:
            return ""
        return "" if path == EMPTY else os.path.basename(path)

    async def run_once(self) -> None:
        """Applies the configuration of this moment.

        One that cannot be had is only logged if another one is in its place, since without any
        the pod would not start.

        Raises:
            UserError: none can be applied, or nobody could be told of it.
        """
        await self._wait_for_node()
        for problem in self._update():
            if isinstance(problem, SignalFailed) or not is_usable(self._target.link):
                raise problem
            log.error("%s", problem)

    async def run(self) -> None:
        """Applies the configuration of every moment; never returns.

        Raises:
            UsageError: an option is wrong.
        """
        await self._wait_for_node()
        while True:
            self.wake.clear()
            self._report(" / ".join(map(str, self._update())))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.wake.wait()

    async def _wait_for_node(self) -> None:
        """Waits, not for ever, so that the default is not applied before the label is known."""
        try:
            async with asyncio.timeout(FIRST_SIGHT_SECONDS):
                await self.label.seen.wait()
        except TimeoutError:
            log.warning(
                "the node was not seen within %g s: going on without its label until it is",
                FIRST_SIGHT_SECONDS,
            )

    def _update(self) -> list[UserError]:
        """Brings everything up to date as far as is possible; what is not."""
        problems = list[UserError]()
        for step in (self._follow_label, self._follow_contents, self._tell):
            try:
                step()
            except (ConfigError, SignalFailed) as error:
                problems.append(error)
        self._announce(" / ".join(map(str, problems)))
        return problems

    def _announce(self, problem: str) -> None:
        """Tells the listener once of each change, and once of each problem."""
        if problem and problem != self._told_problem:
            wanted = self.label.value or self.profile
            self._listener(ProfileApplied(wanted, Outcome.FAILED, problem))
        elif not problem and (self._is_news or self._told_problem):
            self._listener(ProfileApplied(self.profile, Outcome.OK))
            self._is_news = False
        self._told_problem = problem

    def _report(self, problem: str) -> None:
        """Logs a problem when it begins or changes, not every time it is met."""
        if problem and problem != self.problem:
            log.error("%s; tried again with every change", problem)
        elif self.problem and not problem:
            log.info("the problem is over")
        self.problem = problem

    def _follow_label(self) -> None:
        """Links what applies; raises ConfigError, and leaves what there is, if it cannot be had."""
        value = self.label.value
        try:
            if value is not None:
                self._link(self._rules.choose(value))
            elif not is_usable(self._target.link):
                # While the API is away, what is there was right when it was last known.
                self._link(self._rules.choose_without_label())
        except ConfigError:
            if value and self._contents is None and not is_usable(self._target.link):
                with suppress(ConfigError):
                    self._link(self._rules.choose_without_label())
            raise

    def _link(self, profile: Profile) -> None:
        link = self._target.link
        if leads_to(link, profile.path):
            if self._contents is None:
                log.info("%s leads to %s already", link, profile.path)
            return
        problem = problem_at(profile.path)
        if problem:
            raise ProfileError(
                f"the configuration {profile.path} cannot be read: {problem}",
                RIGHT if os.path.exists(profile.path) else "",
            )
        if not is_usable(seen_from(link, profile.path)):
            raise ProfileError(
                f"the link {link} would not lead to {profile.path}, as a relative path counts from "
                "the directory of the link",
                "give --config-file-srcdir (CONFIG_FILE_SRCDIR) an absolute path",
            )
        self._judge(profile.path)
        try:
            replace_link(link, profile.path)
        except OSError as error:
            raise ConfigError(
                f"{link} cannot be made a link: {error.strerror}",
                remedy(error, os.path.dirname(link) or ".")
                or "--config-file-dst (CONFIG_FILE_DST) names a link in a directory that is there "
                "and can be written to",
            ) from None
        log.info("linked %s -> %s label=%r", link, profile.path, self.label.value or "")
        self._contents = read_contents(profile.path)
        self._note_change()

    def _follow_contents(self) -> None:
        """Notes changed contents; raises ConfigError if they cannot be used."""
        link = self._target.link
        contents = read_contents(link)
        if contents is None or contents == self._contents:
            return
        if self._contents is not None:
            self._judge(link)
            log.info("the contents of %s have changed", os.path.realpath(link))
            self._note_change()
        self._contents = contents

    def _note_change(self) -> None:
        self._untold = self._clock()
        self._is_news = True

    def _judge(self, path: str) -> None:
        """Raises ConfigError if validation is wanted and finds something; looks once only."""
        if self._validate is None:
            return
        contents = read_contents(path)
        if self._judged is None or self._judged[:2] != (path, contents):
            verdict = ""
            try:
                self._validate(path)
            except UserError as error:
                verdict = str(error)
            self._judged = path, contents, verdict
        if self._judged[2]:
            raise ConfigError(f"refused: {self._judged[2]}")

    def _tell(self) -> None:
        """Tells the process of what has changed; raises SignalFailed if that is not possible."""
        signaller = self._target.signaller
        if self._untold is None or signaller is None:
            return
        try:
            told = signaller.send(self._untold)
        except OSError as error:
            raise SignalFailed(
                f"signal {signaller.number} cannot be sent to {signaller.name}: {error.strerror}"
            ) from None
        if told is None:
            raise SignalFailed(
                f"there is no process {signaller.name} to signal",
                "set --process-to-signal (PROCESS_TO_SIGNAL) to its name, and let the pod share "
                "its PID namespace (shareProcessNamespace or hostPID)",
            )
        log.info("told process=%s pid=%d signal=%d", signaller.name, told.pid, signaller.number)
        self._untold = None
