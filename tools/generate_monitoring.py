"""Keeps the Grafana dashboard and the manifest of the alert rules current.

    python tools/generate_monitoring.py --check    # exit code 1 and the name of a stale file
    python tools/generate_monitoring.py --write

The dashboard is made from `dashboard.py`, the manifest for the Prometheus operator from
deployments/monitoring/prometheus-rules.yaml. The chart gets copies of both, since helm reads no
file outside of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dashboard import dashboard
from generated_page import check_or_write

ROOT = Path(__file__).resolve().parent.parent
MONITORING = ROOT / "deployments" / "monitoring"
RULES = MONITORING / "prometheus-rules.yaml"
OF_CHART = ROOT / "deployments" / "helm" / "gpu-device-plugin" / "files"
CHART_HEAD = (
    "# Made from deployments/monitoring/prometheus-rules.yaml by tools/generate_monitoring.py.\n"
)
MANIFEST_HEAD = """\
# Made from prometheus-rules.yaml by tools/generate_monitoring.py.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpu-node
  labels:
    app.kubernetes.io/name: gpu-device-plugin
spec:
"""


def main(arguments: list[str]) -> int:
    """Checks or writes; returns the exit code."""
    return check_or_write(files(), arguments, __doc__, "tools/generate_monitoring.py")


def files() -> dict[Path, str]:
    """All files as they should be."""
    rules = RULES.read_text(encoding="utf-8")
    shown = json.dumps(dashboard(), indent=2) + "\n"
    return {
        MONITORING / "grafana-dashboard.json": shown,
        MONITORING / "prometheusrule.yaml": manifest(rules),
        OF_CHART / "grafana-dashboard.json": shown,
        OF_CHART / "prometheus-rules.yaml": CHART_HEAD + groups(rules),
    }


def groups(rules: str) -> str:
    """A rule file without what it says to its readers."""
    return rules[rules.index("groups:\n") :]


def manifest(rules: str) -> str:
    """The groups of a rule file as an object of the Prometheus operator."""
    return MANIFEST_HEAD + "".join(
        f"  {line}" if line.strip() else line for line in groups(rules).splitlines(keepends=True)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
