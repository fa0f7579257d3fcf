"""The rows of the dashboard that tell of programs: answers, the kubelet, labels, MPS, memory."""

from __future__ import annotations

from dashboard_queries import NODE, RESOURCE, STEP, counted, quantiles
from grafana import Query, Row, lines, table, timeline

ALLOCATIONS = Row(
    "Allocations",
    [
        lines(
            "Answers to Allocate",
            "Refused: the request cannot be met, the pod ends with UnexpectedAdmissionError. "
            "Failed: an error of the program, which the log has.",
            counted("gpu_node_allocations_total", "outcome", RESOURCE, "{{outcome}}"),
            bars=True,
        ),
        lines(
            "Time for Allocate",
            "A millisecond is usual; no driver is asked.",
            *quantiles("gpu_node_allocation_duration_seconds", RESOURCE),
            unit="s",
        ),
        timeline(
            "Links between GPUs",
            "Whether they have been read, so that well connected GPUs are preferred.",
            Query(f"min by (node) (gpu_node_links_known{{{NODE}}})", "{{node}}"),
            fine=1,
            words=("unknown", "known"),
        ),
        lines(
            "Preferred allocations",
            "How often the kubelet has asked which devices to take, and how often links were not "
            "known yet.",
            counted("gpu_node_preferred_allocations_total", "outcome", RESOURCE, "{{outcome}}"),
            Query(
                "sum(increase(gpu_node_preferred_allocations_without_links_total"
                f"{{{RESOURCE}}}[{STEP}]))",
                "without links",
            ),
            bars=True,
            width=12,
        ),
        lines(
            "Time for a preference",
            "On nodes with 16 GPUs some milliseconds are usual.",
            *quantiles("gpu_node_preferred_allocation_duration_seconds", RESOURCE),
            unit="s",
            width=12,
        ),
    ],
)

KUBELET = Row(
    "Kubelet",
    [
        timeline(
            "Resources",
            "Whether the kubelet knows a resource (or need not, without --kubelet-socket).",
            Query(
                "max by (node, resource) (gpu_node_resource_state"
                f'{{state=~"registered|unregistered", {RESOURCE}}})',
                "{{node}} {{resource}}",
            ),
            fine=1,
            words=("not registered", "registered"),
        ),
        lines(
            "Registrations",
            "A restart of the kubelet is one for each resource.",
            counted("gpu_node_registrations_total", "outcome", RESOURCE, "{{outcome}}"),
            bars=True,
        ),
        lines(
            "Streams and lists",
            "Streams that are open, one a resource, and device lists that were sent.",
            Query(f"sum(gpu_node_streams_open{{{RESOURCE}}})", "streams open"),
            Query(
                f"sum(increase(gpu_node_streams_opened_total{{{RESOURCE}}}[{STEP}]))",
                "streams opened",
            ),
            Query(
                f"sum(increase(gpu_node_device_lists_sent_total{{{RESOURCE}}}[{STEP}]))",
                "lists sent",
            ),
        ),
    ],
)

CONFIGURATION = Row(
    "Configuration and labels",
    [
        table(
            "Configurations in force",
            "How many programs run by which; programs of one kind on nodes of one kind should "
            "agree.",
            Query(
                f'count by (hash, profile) (gpu_node_config_info{{hash!="", {NODE}}})',
                is_table=True,
            ),
            columns={"hash": "Hash", "profile": "Profile", "Value": "Programs"},
            width=8,
        ),
        lines(
            "Reloads",
            "After one that failed the configuration of before stays in force.",
            counted("gpu_node_reloads_total", "outcome", NODE, "{{outcome}}"),
            bars=True,
        ),
        lines(
            "Changes by label",
            "Configurations that config-manager has applied, or could not.",
            counted("gpu_node_profile_changes_total", "outcome", NODE, "{{outcome}}"),
            bars=True,
        ),
        lines(
            "Label passes",
            "Refused: the driver is missing, which is tolerated.",
            counted("gpu_node_label_passes_total", "outcome", NODE, "{{outcome}}"),
            bars=True,
            width=6,
        ),
        lines(
            "Time for a label pass",
            "Reading the hardware, and asking the Kubernetes API.",
            *quantiles("gpu_node_label_pass_duration_seconds", NODE),
            unit="s",
            width=6,
        ),
        lines(
            "Labels",
            "Labels that are published for a node.",
            Query(f"max by (node) (gpu_node_labels{{{NODE}}})", "{{node}}"),
            width=6,
        ),
        lines(
            "Overdue label passes",
            "How long a pass is late; one that hangs waits for the driver most likely.",
            Query(
                "max by (node) (clamp_min("
                f"time() - gpu_node_next_label_pass_timestamp_seconds{{{NODE}}}, 0))",
                "{{node}}",
            ),
            unit="s",
            width=6,
        ),
    ],
)

MPS = Row(
    "MPS",
    [
        timeline(
            "MPS daemons",
            "Whether the daemon of a shared resource runs with its limits.",
            Query(
                f"min by (node, resource) (gpu_node_mps_daemon_ready{{{RESOURCE}}})",
                "{{node}} {{resource}}",
            ),
            fine=1,
            words=("not ready", "ready"),
            width=12,
        ),
        lines(
            "Starts of MPS daemons",
            "More than one a reload means that a daemon dies.",
            counted(
                "gpu_node_mps_daemon_starts_total",
                "resource, outcome",
                RESOURCE,
                "{{resource}} {{outcome}}",
            ),
            bars=True,
            width=12,
        ),
    ],
)

OURS = f"on (job, instance) group_left (program) gpu_node_build_info{{{NODE}}}"
PROGRAMS = Row(
    "Programs",
    [
        table(
            "Versions",
            "What runs, and on how many nodes.",
            Query(f"count by (program, version) (gpu_node_build_info{{{NODE}}})", is_table=True),
            columns={"program": "Program", "version": "Version", "Value": "Nodes"},
            width=6,
        ),
        lines(
            "Memory",
            "The largest resident set of each program.",
            Query(f"max by (program) (process_resident_memory_bytes * {OURS})", "{{program}}"),
            unit="bytes",
            width=6,
        ),
        lines(
            "CPU",
            "The busiest one of each program.",
            Query(
                f"max by (program) (rate(process_cpu_seconds_total[{STEP}]) * {OURS})",
                "{{program}}",
            ),
            unit="percentunit",
            width=6,
        ),
        lines(
            "Scrapes",
            "How long a program works on an answer to Prometheus.",
            Query(
                f"rate(gpu_node_scrape_duration_seconds_sum{{{NODE}}}[{STEP}])"
                f" / rate(gpu_node_scrape_duration_seconds_count{{{NODE}}}[{STEP}])",
                "{{instance}}",
            ),
            unit="s",
            width=6,
        ),
    ],
)
