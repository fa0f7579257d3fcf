"""Changes in directories, by inotify where it is to be had, else by looking again and again.

Only that something has changed is told; what is there now is for the caller to look at. So a
lost event, a directory that is replaced and a system without inotify all come to the same.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterable

from gpu_device_plugin.watch import inotify

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
MASK = (
    inotify.CREATE
    | inotify.MOVED_TO
    | inotify.DELETE
    | inotify.MOVED_FROM
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.ONLYDIR
)
_LIMITS = {
    errno.EMFILE: "fs.inotify.max_user_instances",
    errno.ENFILE: "fs.file-max",
    errno.ENOSPC: "fs.inotify.max_user_watches",
}


class DirectoryWatch:
    """Calls back whenever something may have changed in one of some directories."""

    def __init__(
        self,
        directories: Iterable[str],
        changed: Callable[[], None],
        *,
        make_inotify: Callable[[], inotify.Inotify] = inotify.Inotify,
    ) -> None:
        self._directories = tuple(dict.fromkeys(directories))
        self._changed = changed
        self._make_inotify = make_inotify
        self._inotify: inotify.Inotify | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watches: dict[int, str] = {}

    def start(self) -> None:
        """Begins to watch; falls back to polling, with one warning, where inotify fails."""
        try:
            self._inotify = self._make_inotify()
        except OSError as error:
            self._explain(error)
        else:
            asyncio.get_running_loop().add_reader(self._inotify.fd, self._read)
        self._add_watches()

    def stop(self) -> None:
        """Ends the watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()
            self._inotify = None
        self._watches.clear()

    @property
    def is_polling(self) -> bool:
        """Whether directories are looked at in intervals, since events cannot be had."""
        return self._timer is not None

    def _add_watches(self) -> None:
        """Watches what is not watched yet; polls as long as anything is left."""
        if self._inotify is not None:
            for directory in set(self._directories).difference(self._watches.values()):
                try:
                    self._watches[self._inotify.add(directory, MASK)] = directory
                except OSError as error:
                    if error.errno in _LIMITS:
                        self._explain(error)
                        self.stop()
                        break
        if len(self._watches) < len(self._directories):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(POLL_SECONDS, self._poll)
        else:
            self._timer = None

    def _poll(self) -> None:
        self._changed()
        self._add_watches()

    def _read(self) -> None:
        if self._inotify is None:
            return
        gone = False
        for watch, mask in self._inotify.read():
            if mask & (inotify.IGNORED | inotify.MOVE_SELF):
                # The directory itself has gone: wait for another one at its place.
                gone = self._watches.pop(watch, None) is not None or gone
        if gone and self._timer is None:
            self._add_watches()
        self._changed()

    @staticmethod
    def _explain(error: OSError) -> None:
        limit = _LIMITS.get(error.errno or 0)
        log.warning(
            "inotify cannot be used (%s), looking every %g s instead%s",
            error.strerror,
            POLL_SECONDS,
            f"; the sysctl {limit} sets the limit" if limit else "",
        )
