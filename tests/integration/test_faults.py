"""Each NVML function fails in turn with each of five errors; docs/faults.md says what follows.

The tables of that page are what is tested: a row names a function, a column an error.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from support import nvmlsim
from support.aio import run
from support.backends import news
from support.configs import a_config

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.backend import NvmlBackend
from gpu_device_plugin.hardware.model import HealthKind, Inventory
from gpu_device_plugin.hardware.nvml import read
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan

PAGE = Path(__file__).parents[2] / "docs/faults.md"
ERRORS = {
    "NOT_SUPPORTED": 3,
    "NO_PERMISSION": 4,
    "TIMEOUT": 10,
    "GPU_IS_LOST": 15,
    "UNKNOWN": 999,
}

pytestmark = pytest.mark.skipif(
    nvmlsim.COMPILER is None, reason="no C compiler to build the NVML simulator with"
)


def table(title: str) -> Iterator[tuple[str, str, str]]:
    """Function, error and outcome of each cell of the table below a heading."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    header = rows[0]
    for row in rows[2:]:
        for error, outcome in zip(header[1:], row[1:], strict=True):
            yield row[0], error, outcome


def cells(title: str) -> list[tuple[str, str, str]]:
    found = list(table(title))
    assert {error for _, error, _ in found} == set(ERRORS)
    return found


class Node:
    """A node of a built-in profile behind the C simulator, one of whose GPUs fails."""

    def __init__(self, directory: Path, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.simulated = SimulatedBackend.from_profile(profile)
        self.truth = self.simulated.read()
        library = directory / "root/usr/lib64/libnvidia-ml.so.1"
        library.parent.mkdir(parents=True)
        os.symlink(nvmlsim.build(), library)
        self.profile, self.events = directory / "profile", directory / "events"
        self.events.touch()
        monkeypatch.setenv("NVMLSIM_PROFILE", str(self.profile))
        monkeypatch.setenv("NVMLSIM_EVENTS", str(self.events))
        monkeypatch.setattr(read, "read_numa_node", lambda *_: None)
        monkeypatch.setattr(read, "read_mig_minors", lambda: nvmlsim.minors_of(self.truth))
        self.backend = NvmlBackend(str(directory / "root"))

    def describe(self, *extra: str) -> None:
        links = self.simulated.read_links(self.truth, lambda: False)
        self.profile.write_text(nvmlsim.profile_text(self.truth, links, extra))


def offered(inventory: Inventory, strategy: str) -> set[str]:
    config = with_default_resources(a_config(mig_strategy=strategy), inventory)
    plan = make_plan(config, inventory)
    return {device_id for resource in plan.resources for device_id in resource.ids()}


def outcome_of_start(node: Node, function: str, code: int, strategy: str) -> str:
    everything = offered(node.truth, strategy)
    node.describe(f"fail {function} {code}")
    try:
        inventory = node.backend.read()
        got = offered(inventory, strategy)
    except UserError as error:
        return "ends" if "\n" not in str(error) else "ends with more than a line"
    cut = {mig.uuid for _, mig in node.truth.mig_pairs()}
    of_gpu_1 = {node.truth.gpus[1].uuid, *(m.uuid for m in node.truth.gpus[1].mig_devices)}
    known = {
        frozenset(everything - of_gpu_1): "left out",
        frozenset(everything - cut): "cut GPUs left out",
        frozenset(everything - of_gpu_1 | {node.truth.gpus[1].uuid}): "offered whole",
        # Last, as it is one of the others where no GPU is cut.
        frozenset(everything): "served",
    }
    return known[frozenset(got)]


@pytest.mark.parametrize(("function", "error", "outcome"), cells("At the start"))
def test_at_the_start(tmp_path, monkeypatch, function, error, outcome):
    node = Node(tmp_path, "dgx-a100", monkeypatch)

    assert outcome_of_start(node, function, ERRORS[error], "none") == outcome


@pytest.mark.parametrize(("function", "error", "outcome"), cells("At the start, with MIG"))
def test_at_the_start_with_mig(tmp_path, monkeypatch, function, error, outcome):
    node = Node(tmp_path, "dgx-a100-mig", monkeypatch)

    assert outcome_of_start(node, function, ERRORS[error], "mixed") == outcome


@pytest.mark.parametrize("code", ERRORS.values(), ids=ERRORS)
def test_with_single_profiles_matter_for_gpus_that_are_cut(tmp_path, monkeypatch, code):
    node = Node(tmp_path, "dgx-a100", monkeypatch)

    got = outcome_of_start(node, "nvmlDeviceGetGpuInstanceProfileInfo@1", code, "single")

    assert got == "served"


@pytest.mark.parametrize(("function", "error", "outcome"), cells("Links"))
def test_links(tmp_path, monkeypatch, function, error, outcome):
    node = Node(tmp_path, "dgx-1", monkeypatch)
    node.describe(f"fail {function} {ERRORS[error]}")

    links = node.backend.read_links(node.truth, lambda: False)

    known = len(links.ancestors), len(links.nvlinks)
    everything = node.simulated.read_links(node.truth, lambda: False)
    if known == (len(everything.ancestors), len(everything.nvlinks)):
        assert outcome == "known"
    else:
        assert outcome == ("left out, named" if links.problems else "left out")
        assert links.ancestors


@pytest.mark.parametrize(("function", "error", "outcome"), cells("While watching"))
def test_while_watching(tmp_path, monkeypatch, function, error, outcome):
    node = Node(tmp_path, "t4x4", monkeypatch)
    node.describe(f"fail {function} {ERRORS[error]}")

    async def first_news() -> tuple[HealthKind, str | None] | None:
        async with aclosing(news(node.backend, node.truth)) as events:
            async for event in events:
                if event.kind is HealthKind.MONITOR_READY:
                    with node.events.open("a") as file:
                        file.write("xid 3 79\n")
                    continue
                return event.kind, event.uuid
        return None

    first = run(first_news())
    gpu_1, gpu_3 = node.truth.gpus[1].uuid, node.truth.gpus[3].uuid
    said: dict[tuple[HealthKind, str | None] | None, str] = {
        (HealthKind.XID, gpu_3): "watched",
        (HealthKind.UNMONITORABLE, gpu_1): "unhealthy",
        (HealthKind.MONITOR_NOT_STARTED, None): "all unhealthy until it works",
        None: "not watched",
    }
    assert said[first] == outcome


@pytest.mark.parametrize(("function", "error", "outcome"), cells("While running"))
def test_while_running(tmp_path, monkeypatch, function, error, outcome):
    """The failure begins when the monitor is at work, then an XID comes on GPU 1."""
    node = Node(tmp_path, "t4x4", monkeypatch)
    node.describe()
    trouble = (
        f"error {ERRORS[error]}"
        if function == "nvmlEventSetWait"
        else f"fail {function} {ERRORS[error]}"
    )

    async def seen_first() -> list[tuple[HealthKind, str | None]]:
        seen: list[tuple[HealthKind, str | None]] = []
        async with aclosing(news(node.backend, node.truth)) as events:
            async for event in events:
                if event.kind is HealthKind.MONITOR_READY and not seen:
                    with node.events.open("a") as file:
                        file.write(f"{trouble}\nxid 1 79\n")
                    continue
                seen.append((event.kind, event.uuid))
                if len(seen) == 1 and event.kind is HealthKind.XID:
                    return seen
                if len(seen) == 2:
                    return seen
        return seen

    seen = run(asyncio.wait_for(seen_first(), 5))
    if outcome == "told":
        assert seen == [(HealthKind.XID, node.truth.gpus[1].uuid)]
    else:
        assert outcome == "all unhealthy, watched again"
        assert [kind for kind, _ in seen] == [HealthKind.MONITOR_LOST, HealthKind.MONITOR_READY]


def test_every_nvml_function_that_is_called_is_in_a_table():
    sources = Path(read.__file__).parent.glob("*.py")
    called = {
        name
        for source in sources
        if source.stem not in NOT_OF_THE_PLUGIN
        for name in re.findall(r"pynvml\.(nvml[A-Z]\w+)", source.read_text())
    }
    text = PAGE.read_text()
    constants = {name for name in called if name.startswith("nvmlEventType")}

    missing = {name for name in called - constants if name not in text}
    assert missing == {"nvmlLib"} & called


NOT_OF_THE_PLUGIN = {"compute_mode", "facts", "facts_gpu"}
"""Modules of other programs."""
