"""Keeps the Grafana dashboard and the manifest of the alert rules current.

    python tools/generate_monitoring.py --check    # exit code 1 and the name of a stale file
    python tools/generate_monitoring.py --write

The dashboard is made from `dashboard.py`, the manifest for the Prometheus operator from
deployments/monitoring/prometheus-rules.yaml.
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
    return {
        MONITORING / "grafana-dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        MONITORING / "prometheusrule.yaml": manifest(RULES.read_text(encoding="utf-8")),
    }


def manifest(rules: str) -> str:
    """The groups of a rule file as an object of the Prometheus operator."""
    groups = rules[rules.index("groups:\n") :]
    return MANIFEST_HEAD + "".join(
        f"  {line}" if line.strip() else line for line in groups.splitlines(keepends=True)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
