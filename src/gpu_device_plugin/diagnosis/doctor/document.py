"""The result of the doctor as JSON or YAML; ``docs/doctor.md`` describes the form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_device_plugin import __version__
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Verdict
from gpu_device_plugin.diagnosis.doctor.run import Finished

SCHEMA = "gpu-node/doctor/v1"
"""Names the form; fields may be added to it, none change their meaning."""


def to_dict(host: Host, results: Sequence[Finished]) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "node": host.node_name,
        "time": host.edges.now(),
        "hostRoot": host.host_root,
        "container": host.is_container,
        "simulated": host.simulated,
        "summary": count(results),
        "checks": [_check(result) for result in results],
    }


def count(results: Sequence[Finished]) -> dict[str, int]:
    """How many checks came out in which way."""
    return {str(v): sum(r.outcome.verdict is v for r in results) for v in Verdict}


def _check(result: Finished) -> dict[str, Any]:
    check, outcome = result.check, result.outcome
    return {
        "name": check.name,
        "group": str(check.group),
        "title": check.title,
        "verdict": str(outcome.verdict),
        "summary": outcome.summary,
        "problems": [
            {"verdict": str(problem.verdict), "text": problem.text, "next": list(problem.steps)}
            for problem in outcome.problems
        ],
        "evidence": list(outcome.evidence),
        "page": f"docs/{check.page}",
        "seconds": round(result.seconds, 3),
    }
