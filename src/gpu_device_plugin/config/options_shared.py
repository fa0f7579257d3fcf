"""Options that several programs have (k8s-device-plugin v0.19.3, cmd/*/main.go)."""

from __future__ import annotations

from gpu_device_plugin.config.option import Kind, Option

LISTENER = "Metrics, probes, status page"

HELP = Option(
    name="help",
    aliases=("h",),
    kind=Kind.BOOL,
    default=False,
    env=(),
    help="Print this text and exit.",
)

VERSION = Option(
    name="version",
    aliases=("v",),
    kind=Kind.BOOL,
    default=False,
    env=(),
    help="Print the version and exit.",
)

LOG_FORMAT = Option(
    name="log-format",
    kind=Kind.TEXT,
    default="text",
    allowed=("text", "json"),
    env=("GPU_NODE_LOG_FORMAT",),
    metavar="FORMAT",
    help="How log lines are written: for people, or as one JSON object a line.",
    ours=True,
)

LOG_LEVEL = Option(
    name="log-level",
    kind=Kind.TEXT,
    default="info",
    allowed=("debug", "info", "warning", "error"),
    env=("GPU_NODE_LOG_LEVEL",),
    metavar="LEVEL",
    help="The least severe lines that are logged.",
    ours=True,
)

SIMULATE = Option(
    name="simulate",
    kind=Kind.TEXT,
    default="",
    env=("GPU_NODE_SIMULATE",),
    metavar="PROFILE",
    help=(
        "Work on a simulated node instead of the hardware: the name of a built-in profile, or the "
        "path of a YAML file that describes the node. Empty: the real hardware."
    ),
    category="Devices",
    ours=True,
)

CONFIG_FILE = Option(
    name="config-file",
    kind=Kind.TEXT,
    default="",
    env=("CONFIG_FILE",),
    metavar="FILE",
    help="The configuration file, YAML or JSON. Flags and variables override it. Empty: none.",
)

MIG_STRATEGY = Option(
    name="mig-strategy",
    kind=Kind.TEXT,
    default="none",
    allowed=("none", "single", "mixed"),
    env=("MIG_STRATEGY",),
    config_path="flags.migStrategy",
    metavar="STRATEGY",
    help=(
        "How MIG devices are offered: not at all; under the name of whole GPUs, if every GPU is "
        "cut into MIG devices of one profile; or under a resource name for each profile."
    ),
    category="Devices",
)

FAIL_ON_INIT_ERROR = Option(
    name="fail-on-init-error",
    kind=Kind.BOOL,
    default=True,
    env=("FAIL_ON_INIT_ERROR",),
    config_path="flags.failOnInitError",
    help="End with an error if the driver cannot be initialised, instead of idling.",
    category="Devices",
)

DEVICE_DISCOVERY_STRATEGY = Option(
    name="device-discovery-strategy",
    kind=Kind.TEXT,
    default="auto",
    allowed=("auto", "nvml", "tegra"),
    env=("DEVICE_DISCOVERY_STRATEGY",),
    config_path="flags.deviceDiscoveryStrategy",
    metavar="STRATEGY",
    help="How GPUs are found: through NVML, as the integrated GPU of a Tegra, or by probing.",
    category="Devices",
)

CONTAINER_DRIVER_ROOT = Option(
    name="driver-root-ctr-path",
    aliases=("container-driver-root",),
    kind=Kind.TEXT,
    default="/driver-root",
    env=("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
    config_path="flags.plugin.containerDriverRoot",
    metavar="DIR",
    help="Where this program finds the driver installation inside its own container.",
    category="Driver files",
)

KUBECONFIG = Option(
    name="kubeconfig",
    kind=Kind.TEXT,
    default="",
    env=("KUBECONFIG",),
    metavar="FILE",
    help="How to reach the Kubernetes API. Empty: as the service account of the pod.",
    category="Kubernetes client",
)

NODE_NAME = Option(
    name="node-name",
    kind=Kind.TEXT,
    default="",
    env=("NODE_NAME",),
    metavar="NAME",
    help="The name of the node this program runs on.",
    category="Kubernetes client",
)

REPORT_HEALTH = Option(
    name="report-health",
    kind=Kind.TEXTS,
    default=(),
    allowed=("events", "node-condition"),
    env=("GPU_NODE_REPORT_HEALTH",),
    metavar="REPORT,...",
    help=(
        "How Kubernetes is told of GPUs that break and recover: by events at the node, by its "
        "condition GPUHealthy, or both. Needs --node-name and rights. Empty: not at all."
    ),
    category="Kubernetes client",
    ours=True,
)

METRICS_ADDRESS = Option(
    name="metrics-address",
    kind=Kind.TEXT,
    default="",
    env=("GPU_NODE_METRICS_ADDRESS",),
    metavar="HOST:PORT",
    help=(
        "Where metrics, probes and the status page are served over HTTP, such as 127.0.0.1:9440, "
        "or :9440 for every address. Empty: nowhere."
    ),
    category=LISTENER,
    ours=True,
)

LISTENER_OPTIONS = (
    METRICS_ADDRESS,
    Option(
        name="metrics-endpoints",
        kind=Kind.TEXTS,
        default=("metrics", "probes", "status"),
        allowed=("metrics", "probes", "status"),
        env=("GPU_NODE_METRICS_ENDPOINTS",),
        metavar="NAME,...",
        help="What is served there.",
        category=LISTENER,
        ours=True,
    ),
    Option(
        name="metrics-tls-cert-file",
        kind=Kind.TEXT,
        default="",
        env=("GPU_NODE_METRICS_TLS_CERT_FILE",),
        metavar="FILE",
        help="Certificate chain, PEM, with which HTTPS is served instead of HTTP.",
        category=LISTENER,
        ours=True,
    ),
    Option(
        name="metrics-tls-key-file",
        kind=Kind.TEXT,
        default="",
        env=("GPU_NODE_METRICS_TLS_KEY_FILE",),
        metavar="FILE",
        help="Private key, PEM, of that certificate.",
        category=LISTENER,
        ours=True,
    ),
    Option(
        name="metrics-token-file",
        kind=Kind.TEXT,
        default="",
        env=("GPU_NODE_METRICS_TOKEN_FILE",),
        metavar="FILE",
        help=(
            "File with a bearer token, without which only the bare answers of probes are served. "
            "Empty: everything is served to everybody."
        ),
        category=LISTENER,
        ours=True,
    ),
)
"""The options of the port for metrics, probes and the status page."""

POD_RESOURCES_SOCKET = Option(
    name="pod-resources-socket",
    kind=Kind.TEXT,
    default="/var/lib/kubelet/pod-resources/kubelet.sock",
    env=("GPU_NODE_POD_RESOURCES_SOCKET",),
    metavar="SOCKET",
    help=(
        "The kubelet's socket that tells which container holds which device. It is asked only if "
        "--metrics-address is set. Empty: not even then."
    ),
    category=LISTENER,
    ours=True,
)
