"""What keeps a report from Kubernetes: said once, with what is needed, and when to try again."""

from __future__ import annotations

import logging
from http import HTTPStatus

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.kube.errors import ApiError, KubeError

log = logging.getLogger(__name__)

FORBIDDEN_SECONDS = 600.0
"""Longest pause after a refusal that only a change of rights can mend. The first ones are short: a
role may be made, or reach the server that is asked, a little after the pod has begun."""


class Trouble:
    """Counts attempts that failed, and logs when trouble begins, changes and ends.

    Args:
        what: is told to Kubernetes.
        rule: of a ClusterRole, that is needed for it.
    """

    def __init__(self, what: str, rule: str) -> None:
        self._what = what
        self._rule = rule
        self._pauses = Backoff(first=1.0, most=60.0)
        # Each pause is up to a quarter longer by chance.
        self._forbidden_pauses = Backoff(first=10.0, most=FORBIDDEN_SECONDS / 1.25)
        self._kind = ""

    def __bool__(self) -> bool:
        """Whether the last attempt failed."""
        return bool(self._kind)

    def met(self, error: KubeError) -> float:
        """An attempt has failed; returns the seconds until the next one."""
        if isinstance(error, ApiError) and error.status == HTTPStatus.FORBIDDEN:
            if self._is_new("forbidden"):
                log.error(
                    "%s are not reported: %s; the service account needs the rule %s; "
                    "tried again ever less often, at last every %g s",
                    *(self._what, error.message, self._rule, FORBIDDEN_SECONDS),
                )
            return self._forbidden_pauses.next()
        kind = str(error.status) if isinstance(error, ApiError) else type(error).__name__
        if self._is_new(kind):
            log.warning("%s are not reported: %s; trying again", self._what, error)
        return self._pauses.next(error.retry_after if isinstance(error, ApiError) else 0.0)

    def over(self) -> None:
        """An attempt has succeeded."""
        if self._kind:
            log.info("%s are reported again", self._what)
        self._kind = ""
        self._pauses.reset()
        self._forbidden_pauses.reset()

    def _is_new(self, kind: str) -> bool:
        before, self._kind = self._kind, kind
        return kind != before
