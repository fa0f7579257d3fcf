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
from dataclasses import dataclass

from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.watch.links import is_usable, leads_to, replace_link
from gpu_device_plugin.watch.node_label import NodeLabel
from gpu_device_plugin.watch.processes import Signaller, boot_time
from gpu_device_plugin.watch.profiles import Profile, ProfileError, ProfileRules, read_contents

log = logging.getLogger(__name__)

FIRST_SIGHT_SECONDS = 10.0
"""Longest wait for the node before something is chosen without its label."""
LOOK_SECONDS = 5.0
"""How often all is looked at though nothing has happened: contents may be written in place
without an event, a process to be told may have come, a directory may be writable now."""

Validate = Callable[[str], None]
"""Raises ConfigError if the configuration at that path cannot be used."""


class SignalFailed(UserError):  # noqa: N818 - reads like what has happened
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
    ) -> None:
        """Prepares; `label` is to be fed by a task of its own.

        Args:
            rules: how a configuration is chosen.
            target: what is kept up to date.
            validate: looks at a configuration before it is linked, or its change is told.
            clock: as `boot_time`.
        """
        self.wake = asyncio.Event()
        """To be set when the label or the directory may have changed."""
        self.label = NodeLabel(rules.label, self.wake.set)
        self._rules = rules
        self._target = target
        self._validate = validate
        self._clock = clock
        self._contents: bytes | None = None
        """What the process that reads the link knows, as far as is known."""
        self._judged: tuple[bytes | None, ConfigError | None] | None = None
        self._untold: float | None = None
        """When something was changed that nobody was told of yet."""
        self._problem = ""

    async def run_once(self) -> None:
        """Applies the configuration of this moment.

        One that cannot be had is only logged if there is a usable one in its place, since
        without any the pod would not start.

        Raises:
            UserError: none can be applied, or nobody could be told of it.
        """
        await self._wait_for_node()
        try:
            self._apply()
        except ConfigError as error:
            if not is_usable(self._target.link):
                raise
            log.error("%s", error)
            log.warning("%s stays as it is", self._target.link)
        self._tell()

    async def run(self) -> None:
        """Applies the configuration of every moment; never returns.

        Raises:
            UsageError: an option is wrong.
        """
        await self._wait_for_node()
        while True:
            self.wake.clear()
            self._report(" / ".join(self._update()))
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.wake.wait()
            except TimeoutError:
                continue

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

    def _update(self) -> Iterator[str]:
        """Brings everything up to date as far as is possible, and says what is not."""
        try:
            self._apply()
        except ConfigError as error:
            yield str(error)
        try:
            self._tell()
        except SignalFailed as error:
            yield str(error)

    def _report(self, problem: str) -> None:
        """Logs a problem when it begins or changes, not every time it is met."""
        if problem and problem != self._problem:
            log.error("%s; tried again with every change", problem)
        elif self._problem and not problem:
            log.info("the problem is over")
        self._problem = problem

    def _apply(self) -> None:
        """Links what applies, or leaves the last good configuration.

        Raises:
            ConfigError: what applies cannot be had, or not be linked.
            UsageError: an option is wrong.
        """
        value, link = self.label.value, self._target.link
        try:
            if value is None and is_usable(link):
                pass  # the API is away: what is there was right when it was last known
            elif value is None:
                self._link(self._rules.choose_without_label())
            else:
                self._link(self._rules.choose(value))
        except ConfigError:
            if value and not is_usable(link):
                with suppress(ConfigError):
                    self._link(self._rules.choose_without_label())
            raise
        finally:
            self._note_contents()

    def _link(self, profile: Profile) -> None:
        if leads_to(self._target.link, profile.path):
            return
        self._judge(profile.path)
        try:
            replace_link(self._target.link, profile.path)
        except OSError as error:
            raise ConfigError(
                f"{self._target.link} cannot be made a link: {error.strerror}",
                "--config-file-dst (CONFIG_FILE_DST) names a link in a directory that is there "
                "and can be written to",
            ) from None
        log.info(
            "linked %s -> %s label=%r", self._target.link, profile.path, self.label.value or ""
        )
        self._contents = read_contents(profile.path)
        self._change()
