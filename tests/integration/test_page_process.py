"""The page of the real plugin in a real browser, while its simulated node changes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.accessibility import accessibility_problems
from support.browser import Browser, needs_browser
from support.process import PluginProcess, plugin
from support.serving import GPU, allocatable
from support.web import LISTEN, port_of, until_status

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import PodSpec

pytestmark = needs_browser

LIMIT = 90
VERDICT = "document.querySelector('h1').innerText"
ALARM = "document.getElementById('alarm')"
UPDATE_NOW = "window.dispatchEvent(new Event('online'))"


@dataclass
class Stage:
    """A node, and somebody who looks at its page."""

    window: Browser
    kubelet: SimulatedKubelet
    running: PluginProcess
    events: Path
    config: Path
    port: int

    async def sees(self, condition: str, *arguments: Any) -> None:
        """Until that is true of the page, which is updated in between."""
        code = f"({UPDATE_NOW}, {condition})"
        await asyncio.to_thread(self.window.until, code, *arguments)

    async def verdict(self, text: str) -> None:
        await self.sees(f"{VERDICT} === arguments[0]", text)

    async def ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """What the browser answers; the kubelet goes on meanwhile."""
        return await asyncio.to_thread(call, *arguments)

    def happens(self, *lines: str) -> None:
        """Something on the simulated node."""
        with self.events.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def reload(self) -> None:
        self.running.signal(signal.SIGHUP)

    async def is_quiet(self) -> None:
        """Nothing on the console, no foreign requests, nothing that keeps somebody out."""
        assert await self.ask(self.window.problems) == []
        asked = await self.ask(self.window.requests)
        own = f"http://127.0.0.1:{self.port}/"
        assert {url for url in asked if not url.startswith((own, "data:", "about:"))} == set()
        assert await self.ask(accessibility_problems, self.window) == []


@asynccontextmanager
async def a_stage(
    window: Browser, tmp_path: Path, profile: str, *arguments: str, count: int = 8
) -> AsyncIterator[Stage]:
    """A plugin on a simulated node, registered, with its page in a browser."""
    directory, events, config = tmp_path / "plugins", tmp_path / "events", tmp_path / "config.yaml"
    directory.mkdir()
    events.touch()
    config.write_text("version: v1\n")
    pods = str(tmp_path / "pods.sock")
    environ = {
        "GPU_NODE_SIMULATE": profile,
        "GPU_NODE_SIMULATE_EVENTS": str(events),
        "NODE_NAME": "gpu-node-07",
    }
    options = (LISTEN, f"--config-file={config}", f"--pod-resources-socket={pods}", *arguments)
    async with (
        SimulatedKubelet(str(directory), pod_resources_socket=pods) as kubelet,
        plugin(directory, *options, environ=environ) as running,
    ):
        port = await port_of(running)
        await kubelet.until(allocatable(count), f"{count} GPUs")
        await until_status(port, "/readyz", 200)
        stage = Stage(window, kubelet, running, events, config, port)
        await stage.ask(window.open, f"http://127.0.0.1:{port}/")
        yield stage


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await work

    asyncio.run(limited())


def test_an_xid_shows_by_itself_and_a_lost_gpu_after_the_next_reading(window, tmp_path):
    async def work():
        async with a_stage(window, tmp_path, "dgx-a100") as stage:
            await stage.verdict("All 8 GPUs healthy")
            stage.happens("xid 3 48")
            shown = "GPU 3 is unhealthy: double-bit ECC error (XID 48)"
            # Without being asked to, the page looks again within seconds.
            await stage.ask(window.until, f"{VERDICT} === arguments[0]", shown)
            assert (await stage.ask(window.text, "#gpu-3 .badge")) == "✕ unhealthy"
            assert "reason='XID 48'" in await stage.ask(window.text, "#events")
            stage.happens("lost 5")
            await stage.verdict("2 of 8 GPUs are not healthy")
            stage.reload()
            await stage.sees(
                "document.getElementById('verdict').innerText.includes('GPU 5 is lost')"
            )
            assert (await stage.ask(window.text, "#gpu-5 .badge")) == "✕ lost"
            await stage.is_quiet()

    run(work())


def test_a_kubelet_that_is_away_shows_until_it_is_back(window, tmp_path):
    async def work():
        async with a_stage(window, tmp_path, "dgx-a100") as stage:
            await stage.kubelet.stop()
            await stage.verdict("All 8 GPUs healthy, but nvidia-device-plugin is not ready")
            assert "Not ready: nvidia.com/gpu" in await stage.ask(window.text, "#verdict")
            await stage.kubelet.start()
            await stage.verdict("All 8 GPUs healthy")
            await stage.is_quiet()

    run(work())


def test_a_configuration_that_is_refused_shows_with_its_line(window, tmp_path):
    async def work():
        async with a_stage(window, tmp_path, "dgx-a100") as stage:
            stage.config.write_text("version: v1\nflags:\n  migStrategy: sideways\n")
            stage.reload()
            await stage.verdict("All 8 GPUs healthy, but nvidia-device-plugin is not ready")
            assert f"{stage.config}:3" in await stage.ask(window.text, "#verdict")
            assert "refused" in await stage.ask(window.text, "#configuration")
            stage.config.write_text(SHARED)
            stage.reload()
            await stage.sees(
                "document.getElementById('resources').innerText.includes('time-slicing')"
            )
            await stage.verdict("All 8 GPUs healthy")
            settings = await stage.ask(window.text, "#configuration")
            assert f"{stage.config}:6" in settings
            await stage.is_quiet()

    run(work())


SHARED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 10
"""


def test_pods_show_with_what_they_hold(window, tmp_path):
    async def work():
        async with a_stage(window, tmp_path, "dgx-1") as stage:
            await stage.kubelet.admit(PodSpec.of("train-0", {GPU: 4}))
            await stage.sees("document.querySelectorAll('.use .letter').length === 4")
            legend = await stage.ask(window.text, "#topology .pods")
            assert "train-0: GPUs " in legend
            assert window.js("return document.querySelectorAll('.gpu.h0').length") == 4
            stage.kubelet.delete("train-0")
            await stage.sees("!document.querySelector('.use .letter')")
            await stage.is_quiet()

    run(work())


def test_gpus_that_are_cut_show_their_mig_devices(window, tmp_path):
    async def work():
        strategy = "--mig-strategy=mixed"
        async with a_stage(window, tmp_path, "dgx-a100", strategy) as stage:
            stage.happens("mig 0 3g.20gb,3g.20gb", "mig 1 7g.40gb")
            stage.reload()
            await stage.verdict("All 8 GPUs and 3 MIG devices healthy")
            assert "nvidia.com/mig-3g.20gb" in await stage.ask(window.text, "#resources")
            stage.happens("xid 0 94 1 0")
            await stage.verdict("MIG device 0:0 is unhealthy: contained memory error (XID 94)")
            assert (await stage.ask(window.text, "#gpu-0 > .badge")) == "✕ 1 of 2 unhealthy"
            await stage.is_quiet()

    run(work())


def test_a_browser_that_has_sent_the_token_goes_on_getting_updates(window, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")

    async def work():
        option = f"--metrics-token-file={token}"
        async with a_stage(window, tmp_path, "l40s", option, count=1) as stage:
            assert await stage.ask(window.js, "return document.querySelector('main')") is None
            await stage.ask(window.open, f"http://any:s3cret@127.0.0.1:{stage.port}/")
            await stage.verdict("The GPU is healthy")
            stage.happens("xid 0 48")
            await stage.verdict("GPU 0 is unhealthy: double-bit ECC error (XID 48)")
            token.write_text("another\n")
            await stage.sees(f"!{ALARM}.hidden")
            assert "access is refused" in await stage.ask(window.text, "#alarm")

    run(work())
    window.problems()


def test_a_program_that_ends_leaves_its_last_state_marked_as_old(window, tmp_path):
    async def work():
        async with a_stage(window, tmp_path, "l40s", count=1) as stage:
            stage.running.signal(signal.SIGTERM)
            await stage.running.ended()
            await stage.sees(f"!{ALARM}.hidden")
            assert "cannot be reached" in await stage.ask(window.text, "#alarm")

    run(work())
    window.problems()
