"""A real browser without a window: Chromium, driven by chromedriver's W3C WebDriver interface."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = "/usr/bin/chromium"
CHROMEDRIVER = "/usr/bin/chromedriver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
LIMIT = 20.0
"""Seconds for everything that is waited for."""

needs_browser = pytest.mark.skipif(
    not (os.path.exists(CHROMIUM) and os.path.exists(CHROMEDRIVER)),
    reason=f"needs {CHROMIUM} and {CHROMEDRIVER} (apt-get install chromium chromium-driver)",
)

DESKTOP, PHONE = (1280, 900), (360, 740)


class BrowserError(Exception):
    """What the driver says went wrong."""


@dataclass
class Browser:
    """One window."""

    session: str
    """Address of the session."""

    def _call(self, method: str, path: str, data: Any = None) -> Any:
        body = None if method == "GET" else json.dumps(data or {}).encode()
        request = urllib.request.Request(
            f"{self.session}{path}", body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(json.load(error)["value"]["message"]) from None

    def open(self, url: str) -> None:
        """Returns when the page is loaded."""
        self._call("POST", "/url", {"url": url})

    def js(self, code: str, *arguments: Any) -> Any:
        """Runs the body of a function in the page."""
        return self._call("POST", "/execute/sync", {"script": code, "args": arguments})

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def until(self, code: str, *arguments: Any, limit: float = LIMIT) -> Any:
        """Waits until an expression is true in the page; returns its value."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            value = self.js(f"return {code}", *arguments)
            if value:
                return value
            time.sleep(0.05)
        shown = self.js("return document.title + '\\n' + document.body.innerText")
        raise AssertionError(f"not within {limit:g} s: {code}\n{shown}")

    def press(self, key: str) -> None:
        """Presses and releases a key; those without a character by their WebDriver code."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._call(
            "POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]}
        )

    def text(self, selector: str) -> str:
        """What is shown of the first element that is meant."""
        return str(self.js("return document.querySelector(arguments[0]).innerText", selector))

    def size(self, width: int, height: int) -> None:
        """The size of what is seen of the page."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, *, media: str = "", **features: str) -> None:
        """What the page is told of its medium, such as ``prefers_color_scheme="dark"``."""
        self.cdp(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[
                {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
            ],
        )

    def scripts(self, *, enabled: bool) -> None:
        """Whether pages that are loaded from now on may run scripts."""
        self.cdp("Emulation.setScriptExecutionDisabled", value=not enabled)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Writes a PNG file of the page, or of what is seen of it."""
        picture = self.cdp(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        path.write_bytes(base64.b64decode(picture["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, **_sides(size), "scale": 1}}

    def problems(self) -> list[str]:
        """Errors and warnings on the console since the last question."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in {"SEVERE", "WARNING"}]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last question."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]


def _sides(size: dict[str, float]) -> dict[str, float]:
    return {"width": size["width"], "height": size["height"]}


@contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """A browser with an empty profile in a directory, which is removed at the end."""
    profile = directory / "profile"
    driver = subprocess.Popen(
        [CHROMEDRIVER, "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "HOME": str(directory)},
    )
    try:
        port = _port(driver)
        options = {
            "binary": CHROMIUM,
            "args": [*FLAGS, f"--user-data-dir={profile}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        root = Browser(f"http://127.0.0.1:{port}")
        data = root._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        window = Browser(f"{root.session}/session/{data['sessionId']}")
        try:
            yield window
        finally:
            window._call("DELETE", "")
    finally:
        driver.terminate()
        driver.wait(10)
        if driver.stdout is not None:
            driver.stdout.close()
        shutil.rmtree(profile, ignore_errors=True)


def _port(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    said = ""
    patience = threading.Timer(LIMIT, driver.kill)
    patience.start()
    for line in driver.stdout:
        said += line
        if found := re.search(r"started successfully on port (\d+)", line):
            patience.cancel()
            return int(found[1])
    patience.cancel()
    raise BrowserError(f"chromedriver does not start: {said}")
