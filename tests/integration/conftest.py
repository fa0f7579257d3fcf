"""One browser for all tests of a process that need one: it takes a second to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.browser import DESKTOP, Browser, browser


@pytest.fixture(scope="session")
def shared_window(tmp_path_factory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as window:
        yield window


@pytest.fixture
def window(shared_window: Browser) -> Browser:
    """A browser as if just started."""
    shared_window.scripts(enabled=True)
    shared_window.size(*DESKTOP)
    shared_window.media()
    shared_window.open("about:blank")
    shared_window.problems()
    shared_window.requests()
    return shared_window
