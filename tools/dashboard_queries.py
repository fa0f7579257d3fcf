"""What the rows of the dashboard have in common."""

from __future__ import annotations

from grafana import Query

NODE = 'node=~"$node"'
RESOURCE = 'node=~"$node", resource=~"$resource"'
STEP = "$__rate_interval"


def quantiles(metric: str, labels: str) -> list[Query]:
    """Three quantiles of a histogram."""
    rate = f"sum by (le) (rate({metric}_bucket{{{labels}}}[{STEP}]))"
    return [Query(f"histogram_quantile({q}, {rate})", f"{q * 100:g} %") for q in (0.5, 0.9, 0.99)]


def counted(metric: str, by: str, labels: str, legend: str) -> Query:
    """How often something has happened in each step."""
    return Query(f"sum by ({by}) (increase({metric}{{{labels}}}[{STEP}]))", legend)
