"""The check of what a running plugin says of itself on its port."""

from __future__ import annotations

import json
from typing import Any

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.errors import UserError

EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - not to listen
"""Where something is asked that listens at every address."""


def check_port(host: Host) -> Outcome:
    """Whether the plugin behind --metrics-address lives and is ready, by its own word."""
    address = host.parsed.text("metrics-address")
    if not address:
        return not_checked(
            "--metrics-address is empty: the plugin tells nothing of itself",
            "--metrics-address=127.0.0.1:9440 (GPU_NODE_METRICS_ADDRESS) for the plugin",
        )
    name, _, port = address.rpartition(":")
    scheme = "https" if host.parsed.text("metrics-tls-cert-file") else "http"
    base = f"{scheme}://{EVERYWHERE.get(name, name)}:{port}"
    find = Findings()
    for path, meaning in (("/livez", "alive"), ("/readyz", "ready")):
        try:
            status, body = host.edges.get_url(base + path, host.parsed.text("metrics-token-file"))
        except UserError as error:
            find.fail(
                f"nobody answers at {base}: {error.message}",
                "does the plugin run, with this --metrics-address? Inside its pod: kubectl exec",
            )
            return find.outcome("")
        find.saw(f"{base}{path}: {status} {one_line(body.strip())[:200]}")
        if status == 503:
            reasons = _reasons(body)
            for reason in reasons or [f"the plugin says that it is not {meaning}"]:
                find.fail(f"not {meaning}: {one_line(reason)}" if reasons else reason, _STEP)
        elif status != 200:
            find.warn(f"{base}{path} answers {status}", "are probes among --metrics-endpoints?")
    return find.outcome(f"the plugin at {base} is alive and ready")


_STEP = "the plugin's log; operations.md has its lines"


def _reasons(body: str) -> list[str]:
    """Why not, as far as the answer tells."""
    try:
        data: Any = json.loads(body)
    except ValueError:
        return []
    reasons = data.get("reasons") if isinstance(data, dict) else None
    return [str(reason) for reason in reasons] if isinstance(reasons, list) else []


CHECKS = (
    Check(
        "plugin-port",
        Group.KUBELET,
        "the plugin behind --metrics-address is alive and ready, by its own word",
        "troubleshooting.md#pods-run-but-no-gpus-are-offered",
        check_port,
        seconds=15,
    ),
)
