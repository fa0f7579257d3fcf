"""A genuine Prometheus that scrapes what a test tells it to."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from support.process import PluginProcess, followed
from support.web import fetch

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deployments" / "monitoring"

needs_prometheus = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL),
    reason="prometheus and promtool are not installed (Debian: apt-get install prometheus)",
)

PATIENCE = 30.0
"""Seconds for which anything is waited for; mostly it takes one or two scrapes."""

Series = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Target:
    """Where a program of a node serves its metrics."""

    node: str
    port: int


@dataclass
class Prometheus:
    """A running Prometheus."""

    port: int

    async def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; a failure says why there is none."""
        reply = await fetch(self.port, f"/api/v1/{path}?{urlencode(parameters)}")
        answer = reply.json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    async def query(self, expr: str) -> list[Series]:
        """What an expression gives now."""
        data = await self.get("query", query=expr)
        assert data["resultType"] == "vector", expr
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    async def until(self, expr: str) -> list[Series]:
        """What an expression gives as soon as it gives anything."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await self.query(expr)):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.1)
        return found

    async def until_scraped(self, targets: int, times: int) -> None:
        """Waits until so many targets have been scraped so often."""
        count = f"count_over_time(gpu_node_build_info[10m]) >= {times}"
        await self.until(f"count({count}) >= {targets}")

    async def alerts(self) -> set[tuple[str, str]]:
        """Name and node of each alert that is pending or fires."""
        alerts = (await self.get("alerts"))["alerts"]
        return {(each["labels"]["alertname"], each["labels"].get("node", "")) for each in alerts}


@asynccontextmanager
async def prometheus(
    directory: Path, *targets: Target, rules: Path | None = None
) -> AsyncIterator[Prometheus]:
    """Prometheus on a port of its own; it scrapes each second.

    Args:
        directory: for its data.
        targets: that it scrapes, each with the label of its node.
        rules: that it evaluates.
    """
    assert PROMETHEUS is not None
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(_config(targets, rules)))
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={directory / 'prometheus.yaml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with followed(process) as running:
        # Two parts of it tell this, in an order that is not fixed.
        await running.logged("Server is ready to receive web requests", PATIENCE)
        await running.logged('msg="Listening on"', PATIENCE)
        found = re.search(r'msg="Listening on" address=\S+:(\d+)', running.log)
        assert found, running.log
        yield Prometheus(int(found[1]))


def _config(targets: tuple[Target, ...], rules: Path | None) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [] if rules is None else [str(rules)],
        "scrape_configs": [
            {
                "job_name": "gpu-node",
                "static_configs": [
                    {"targets": [f"127.0.0.1:{each.port}"], "labels": {"node": each.node}}
                    for each in targets
                ],
            }
        ],
    }


async def promtool(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """Exit code and output of a call of promtool."""
    assert PROMTOOL is not None
    process = await asyncio.create_subprocess_exec(
        PROMTOOL,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(stdin)
    return process.returncode or 0, output.decode()


async def port_of(running: PluginProcess) -> int:
    """Where a program serves, as its log says."""
    await running.logged("serving HTTP", PATIENCE)
    found = re.search(r"serving HTTPS? at \S*?:(\d+): ", running.log)
    assert found is not None
    return int(found[1])


def expressions() -> dict[str, str]:
    """Every query of the dashboard by its panel, as Grafana would send it for all nodes."""
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$__rate_interval", "10s")
        .replace("$node", ".*")
        .replace("$resource", ".*")
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }


def alert_rules() -> dict[str, dict[str, Any]]:
    """Every alert by its name."""
    rules = yaml.safe_load((MONITORING / "prometheus-rules.yaml").read_text())
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}
