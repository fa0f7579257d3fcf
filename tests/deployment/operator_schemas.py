"""The objects of the Prometheus operator that the chart makes, as its API describes them.

monitoring.coreos.com/v1 is no part of Kubernetes' own schemas; written down from the operator's API
reference, and stricter than it: fields that the chart does not use are missing.
"""

from __future__ import annotations

from typing import Any

DURATION = {
    "type": "string",
    "pattern": r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
}
TEXT = {"type": "string", "minLength": 1}
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA = {
    "type": "object",
    "properties": {"name": TEXT, "namespace": TEXT, "labels": LABELS, "annotations": LABELS},
    "required": ["name", "namespace"],
    "additionalProperties": False,
}


def _strict(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_SECRET_KEY = _strict({"name": TEXT, "key": TEXT, "optional": {"type": "boolean"}}, ["key"])
_RELABELING = _strict(
    {
        "sourceLabels": {"type": "array", "items": TEXT},
        "targetLabel": TEXT,
        "regex": TEXT,
        "replacement": {"type": "string"},
        "action": TEXT,
    },
    [],
)
_ENDPOINT = _strict(
    {
        "port": TEXT,
        "path": TEXT,
        "interval": DURATION,
        "scrapeTimeout": DURATION,
        "scheme": {"enum": ["http", "https"]},
        "tlsConfig": _strict({"insecureSkipVerify": {"type": "boolean"}, "serverName": TEXT}, []),
        "authorization": _strict({"type": TEXT, "credentials": _SECRET_KEY}, []),
        "relabelings": {"type": "array", "items": _RELABELING},
    },
    ["port"],
)
SERVICE_MONITOR = _strict(
    {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "ServiceMonitor"},
        "metadata": METADATA,
        "spec": _strict(
            {
                "selector": _strict({"matchLabels": LABELS}, ["matchLabels"]),
                "endpoints": {"type": "array", "items": _ENDPOINT, "minItems": 1},
            },
            ["selector", "endpoints"],
        ),
    },
    ["apiVersion", "kind", "metadata", "spec"],
)

_RULE = _strict(
    {"alert": TEXT, "expr": TEXT, "for": DURATION, "labels": LABELS, "annotations": LABELS},
    ["alert", "expr"],
)
_GROUP = _strict(
    {"name": TEXT, "interval": DURATION, "rules": {"type": "array", "items": _RULE, "minItems": 1}},
    ["name", "rules"],
)
PROMETHEUS_RULE = _strict(
    {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "PrometheusRule"},
        "metadata": METADATA,
        "spec": _strict({"groups": {"type": "array", "items": _GROUP, "minItems": 1}}, ["groups"]),
    },
    ["apiVersion", "kind", "metadata", "spec"],
)

SCHEMAS = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): SERVICE_MONITOR,
    ("monitoring.coreos.com/v1", "PrometheusRule"): PROMETHEUS_RULE,
}
