"""The options of gpu-feature-discovery (k8s-device-plugin v0.19.3, cmd/gpu-feature-discovery)."""

from __future__ import annotations

from dataclasses import replace

from gpu_device_plugin.config import options_shared as shared
from gpu_device_plugin.config.option import Kind, Option, Program, ProgramSpec

LABELS = "Labels"
CLIENT = "Kubernetes client"
SECOND = 1_000_000_000  # nanoseconds


def _also_gfd(option: Option) -> Option:
    """The option with a variable of this program's own, which is looked up first."""
    return replace(option, env=("GFD_" + option.env[0], *option.env))


LABEL_OPTIONS = (
    Option(
        name="oneshot",
        kind=Kind.BOOL,
        default=False,
        env=("GFD_ONESHOT",),
        config_path="flags.gfd.oneshot",
        help="Label once and exit.",
        category=LABELS,
    ),
    Option(
        name="no-timestamp",
        kind=Kind.BOOL,
        default=False,
        env=("GFD_NO_TIMESTAMP",),
        config_path="flags.gfd.noTimestamp",
        help="Leave out the label with the time.",
        category=LABELS,
    ),
    Option(
        name="sleep-interval",
        kind=Kind.DURATION,
        default=60 * SECOND,
        env=("GFD_SLEEP_INTERVAL",),
        config_path="flags.gfd.sleepInterval",
        metavar="DURATION",
        help="The time between two passes, such as 30s or 1h30m; infinite: do not repeat.",
        category=LABELS,
    ),
    Option(
        name="output-file",
        aliases=("output", "o"),
        kind=Kind.TEXT,
        default="/etc/kubernetes/node-feature-discovery/features.d/gfd",
        env=("GFD_OUTPUT_FILE",),
        config_path="flags.gfd.outputFile",
        metavar="FILE",
        help="Where labels go if not into a NodeFeature object. Empty: standard output.",
        category=LABELS,
    ),
    Option(
        name="keep-output-file",
        kind=Kind.BOOL,
        default=False,
        env=("GFD_KEEP_OUTPUT_FILE",),
        help="Leave the file behind at the end.",
        category=LABELS,
        ours=True,
    ),
    Option(
        name="machine-type-file",
        kind=Kind.TEXT,
        default="/sys/class/dmi/id/product_name",
        env=("GFD_MACHINE_TYPE_FILE",),
        config_path="flags.gfd.machineTypeFile",
        metavar="FILE",
        help="The file that holds the type of the machine.",
        category=LABELS,
    ),
    _also_gfd(
        Option(
            name="use-node-feature-api",
            kind=Kind.BOOL,
            default=True,
            env=("USE_NODE_FEATURE_API",),
            config_path="flags.useNodeFeatureAPI",
            help="Publish the labels as a NodeFeature object instead of a file.",
            category=LABELS,
        )
    ),
)

CLIENT_OPTIONS = (
    shared.KUBECONFIG,
    Option(
        name="kube-api-qps",
        kind=Kind.NUMBER,
        default=5.0,
        env=("KUBE_API_QPS",),
        metavar="NUMBER",
        help="How many requests a second are sent to the Kubernetes API in the long run.",
        category=CLIENT,
    ),
    Option(
        name="kube-api-burst",
        kind=Kind.INTEGER,
        default=10,
        env=("KUBE_API_BURST",),
        metavar="NUMBER",
        help="How many requests may follow each other at once.",
        category=CLIENT,
    ),
    Option(
        name="namespace",
        kind=Kind.TEXT,
        default="default",
        env=("NAMESPACE",),
        metavar="NAME",
        help="The namespace of this program's pod and of its NodeFeature object.",
        category=CLIENT,
    ),
    shared.NODE_NAME,
    Option(
        name="pod-name",
        kind=Kind.TEXT,
        default="",
        env=("POD_NAME",),
        metavar="NAME",
        help="The pod of this program, whose owners become those of the NodeFeature object.",
        category=CLIENT,
    ),
)

GPU_FEATURE_DISCOVERY = ProgramSpec(
    program=Program.GPU_FEATURE_DISCOVERY,
    title="GPU Feature Discovery",
    summary="Labels a node with what its NVIDIA GPUs are.",
    options=(
        _also_gfd(shared.MIG_STRATEGY),
        _also_gfd(shared.FAIL_ON_INIT_ERROR),
        replace(
            shared.DEVICE_DISCOVERY_STRATEGY,
            allowed=(*shared.DEVICE_DISCOVERY_STRATEGY.allowed, "vfio"),
            help=(
                "How GPUs are found: through NVML, as the integrated GPU of a Tegra, as PCI "
                "devices that are passed through to virtual machines, or by probing."
            ),
        ),
        shared.SIMULATE,
        *LABEL_OPTIONS,
        replace(
            shared.CONTAINER_DRIVER_ROOT,
            help="Accepted for the sake of common settings; without effect here.",
        ),
        *CLIENT_OPTIONS,
        _also_gfd(shared.CONFIG_FILE),
        *shared.LISTENER_OPTIONS,
        shared.LOG_FORMAT,
        shared.LOG_LEVEL,
        shared.HELP,
        shared.VERSION,
    ),
)
