"""The rows of the dashboard that tell of GPUs: the fleet, and what is known against each GPU."""

from __future__ import annotations

from dashboard_queries import NODE, RESOURCE, counted
from grafana import ALL_IS_FINE, NONE_IS_FINE, Query, Row, lines, stat, table, timeline

DRILL = {"title": "This node alone", "url": "/d/gpu-node?var-node=${__data.fields.node}"}

FLEET = Row(
    "Fleet",
    [
        stat(
            "Nodes",
            "Nodes whose device plugin is scraped.",
            f'count(group by (node, instance) (gpu_node_gpus{{state="readable", {NODE}}}))',
        ),
        stat(
            "GPUs",
            "GPUs that the drivers count, those included that are lost or cannot be read.",
            f"sum(gpu_node_gpus{{{NODE}}})",
        ),
        stat(
            "GPUs lost or unreadable",
            "GPUs that nobody can use until somebody acts.",
            f'sum(gpu_node_gpus{{state!="readable", {NODE}}})',
            thresholds=NONE_IS_FINE,
        ),
        stat(
            "GPUs unhealthy",
            "GPUs with at least one unhealthy device, whatever the cause.",
            f"count(max by (node, instance, gpu) (gpu_node_gpu_unhealthy{{{NODE}}}) == 1)"
            " or vector(0)",
            thresholds=NONE_IS_FINE,
        ),
        stat(
            "Allocatable",
            "Share of the offered devices that is healthy.",
            f"sum(gpu_node_devices_allocatable{{{RESOURCE}}})"
            f" / sum(gpu_node_devices{{{RESOURCE}}})",
            unit="percentunit",
            thresholds=ALL_IS_FINE,
        ),
        stat(
            "In use",
            "Share of the offered devices that containers hold; only where the kubelet is asked "
            "(--pod-resources-socket).",
            f"sum(gpu_node_devices_in_use{{{RESOURCE}}}) / sum(gpu_node_devices{{{RESOURCE}}})",
            unit="percentunit",
        ),
        stat(
            "Programs not ready",
            "Programs whose readiness probe fails.",
            f"count(gpu_node_ready{{{NODE}}} == 0) or vector(0)",
            thresholds=NONE_IS_FINE,
        ),
        stat(
            "Alerts",
            "Alerts of prometheus-rules.yaml that fire, of all nodes.",
            'count(ALERTS{alertname=~"GpuNode.*", alertstate="firing"}) or vector(0)',
            thresholds=NONE_IS_FINE,
        ),
        lines(
            "Devices",
            "What is offered, of that what is healthy, of that what containers hold. Replicas of "
            "shared devices count each.",
            Query(f"sum by (resource) (gpu_node_devices{{{RESOURCE}}})", "{{resource}} offered"),
            Query(
                f"sum by (resource) (gpu_node_devices_allocatable{{{RESOURCE}}})",
                "{{resource}} allocatable",
            ),
            Query(
                f"sum by (resource) (gpu_node_devices_in_use{{{RESOURCE}}})", "{{resource}} in use"
            ),
            width=12,
        ),
        lines(
            "Unhealthy devices",
            "By cause: an XID, a lost GPU, a GPU that cannot be watched, a monitor that is not "
            "there, or a failure of the driver.",
            Query(f"sum by (cause) (gpu_node_devices_unhealthy{{{RESOURCE}}})", "{{cause}}"),
            width=12,
            stacked=True,
        ),
        table(
            "Nodes",
            "A click on a node shows it alone. Ready is 0 if any of its programs is not.",
            Query(f"min by (node) (gpu_node_ready{{{NODE}}})", is_table=True),
            Query(f"sum by (node) (gpu_node_gpus{{{NODE}}})", is_table=True),
            Query(f"sum by (node) (gpu_node_devices{{{NODE}}})", is_table=True),
            Query(f"sum by (node) (gpu_node_devices_unhealthy{{{NODE}}})", is_table=True),
            Query(f"group by (node, driver, cuda) (gpu_node_driver_info{{{NODE}}})", is_table=True),
            columns={
                "node": "Node",
                "Value #A": "Ready",
                "Value #B": "GPUs",
                "Value #C": "Devices",
                "Value #D": "Unhealthy",
                "driver": "Driver",
                "cuda": "CUDA",
            },
            links=[DRILL],
        ),
        table(
            "Unhealthy GPUs",
            "Which they are, and why. docs/alerts.md says what to do.",
            Query(
                f"(gpu_node_gpu_unhealthy{{{NODE}}} == 1) * on (job, instance, gpu)"
                " group_left (model, uuid, pci_bus_id) gpu_node_gpu_info",
                is_table=True,
            ),
            columns={
                "node": "Node",
                "gpu": "GPU",
                "cause": "Cause",
                "model": "Model",
                "uuid": "UUID",
                "pci_bus_id": "PCI",
            },
            links=[DRILL],
        ),
    ],
)

HEALTH = Row(
    "Health",
    [
        timeline(
            "GPUs",
            "Whether any device of a GPU was unhealthy. Best looked at for one node.",
            Query(f"max by (node, gpu) (gpu_node_gpu_unhealthy{{{NODE}}})", "{{node}} GPU {{gpu}}"),
            fine=0,
            words=("healthy", "unhealthy"),
            width=12,
        ),
        timeline(
            "Health monitor",
            "Whether somebody watches the GPUs, or need not.",
            Query(
                "max by (node) (gpu_node_health_monitor_state"
                f'{{state=~"watching|silent|off", {NODE}}})',
                "{{node}}",
            ),
            fine=1,
            words=("not watched", "watched"),
            width=12,
        ),
        lines(
            "XIDs",
            "Critical errors that the driver has told, by number and what came of them. A series "
            "begins with its first XID, which therefore does not show here but on the left.",
            counted("gpu_node_gpu_xids_total", "xid, result", NODE, "XID {{xid}} {{result}}"),
            bars=True,
            width=12,
        ),
        lines(
            "Health events",
            "All that the drivers have told of GPUs: XIDs, losses, failures, and returns to health.",
            counted("gpu_node_gpu_health_events_total", "result", NODE, "{{result}}"),
            bars=True,
            width=12,
        ),
    ],
)
