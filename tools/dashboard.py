"""The Grafana dashboard; `generate_monitoring.py` writes it."""

from __future__ import annotations

from typing import Any

from dashboard_gpus import FLEET, HEALTH
from dashboard_programs import ALLOCATIONS, CONFIGURATION, KUBELET, MPS, PROGRAMS
from grafana import SOURCE, place


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """A choice among the values of a label; several may be chosen."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 7,
        "multi": True,
        "includeAll": True,
        # Matches series without that label, too.
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard() -> dict[str, Any]:
    """As it is imported."""
    return {
        "uid": "gpu-node",
        "title": "GPU nodes",
        "description": "GPUs as Kubernetes resources: what is offered, healthy and in use, and how "
        "the programs that offer them are doing.",
        "tags": ["gpu", "kubernetes"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                    "current": {},
                },
                variable("node", "Node", "label_values(gpu_node_build_info, node)"),
                variable("resource", "Resource", "label_values(gpu_node_devices, resource)"),
            ]
        },
        "panels": place([FLEET, HEALTH, ALLOCATIONS, KUBELET, CONFIGURATION, MPS, PROGRAMS]),
    }
