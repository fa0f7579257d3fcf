"""The options of nvidia-device-plugin (k8s-device-plugin v0.19.3, cmd/nvidia-device-plugin)."""

from __future__ import annotations

from dataclasses import replace

from gpu_device_plugin.config import options_shared as shared
from gpu_device_plugin.config.option import Kind, Option, Program, ProgramSpec

RUNTIME = "Container runtime"
DRIVER = "Driver files"
SHARING = "Sharing"
IMEX = "IMEX"

DRIVER_OPTIONS = (
    Option(
        name="driver-root",
        aliases=("nvidia-driver-root",),
        kind=Kind.TEXT,
        default="/",
        env=("NVIDIA_DRIVER_ROOT",),
        config_path="flags.nvidiaDriverRoot",
        metavar="DIR",
        help="The root of the driver installation on the host, as CDI specifications name it.",
        category=DRIVER,
    ),
    Option(
        name="dev-root",
        aliases=("nvidia-dev-root",),
        kind=Kind.TEXT,
        default="",
        env=("NVIDIA_DEV_ROOT",),
        config_path="flags.nvidiaDevRoot",
        metavar="DIR",
        help="The root of the device nodes on the host. Empty: that of the driver.",
        category=DRIVER,
    ),
    shared.CONTAINER_DRIVER_ROOT,
    Option(
        name="nvidia-cdi-hook-path",
        aliases=("nvidia-ctk-path",),
        kind=Kind.TEXT,
        default="/usr/bin/nvidia-ctk",
        env=("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
        config_path="flags.plugin.nvidiaCTKPath",
        metavar="FILE",
        help="The program on the host that CDI specifications name as their hook.",
        category=DRIVER,
    ),
)

RUNTIME_OPTIONS = (
    Option(
        name="pass-device-specs",
        kind=Kind.BOOL,
        default=False,
        env=("PASS_DEVICE_SPECS",),
        config_path="flags.plugin.passDeviceSpecs",
        help=(
            "Hand the device nodes to the kubelet as well; needed with the static CPU manager. "
            "Without effect if only CDI strategies are in use."
        ),
        category=RUNTIME,
    ),
    Option(
        name="device-list-strategy",
        kind=Kind.TEXTS,
        default=("envvar",),
        allowed=("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
        env=("DEVICE_LIST_STRATEGY",),
        config_path="flags.plugin.deviceListStrategy",
        metavar="STRATEGY,...",
        help=(
            "How the runtime learns which devices a container gets: by a variable, by mounts, "
            "or by CDI names in annotations or in the CRI. Several can be combined."
        ),
        category=RUNTIME,
    ),
    Option(
        name="device-id-strategy",
        kind=Kind.TEXT,
        default="uuid",
        allowed=("uuid", "index"),
        env=("DEVICE_ID_STRATEGY",),
        config_path="flags.plugin.deviceIDStrategy",
        metavar="STRATEGY",
        help="Which ids of devices are handed to the runtime.",
        category=RUNTIME,
    ),
    Option(
        name="cdi-annotation-prefix",
        kind=Kind.TEXT,
        default="cdi.k8s.io/",
        env=("CDI_ANNOTATION_PREFIX",),
        config_path="flags.plugin.cdiAnnotationPrefix",
        metavar="PREFIX",
        help="What the keys of CDI annotations begin with.",
        category=RUNTIME,
    ),
    Option(
        name="cdi-feature-flags",
        kind=Kind.TEXTS,
        default=(),
        env=("CDI_FEATURE_FLAGS",),
        metavar="FLAG,...",
        help="Switches of the generator of CDI specifications; unknown ones are ignored.",
        category=RUNTIME,
    ),
    Option(
        name="cdi-disable-hooks",
        kind=Kind.TEXTS,
        default=(),
        env=("CDI_DISABLE_HOOKS",),
        metavar="HOOK,...",
        help="Hooks to leave out of CDI specifications, or all.",
        category=RUNTIME,
        since="v0.20.0",
    ),
    Option(
        name="gdrcopy-enabled",
        kind=Kind.BOOL,
        default=False,
        env=("GDRCOPY_ENABLED",),
        config_path="flags.gdrcopyEnabled",
        help="Give containers what they need for GDRCopy.",
        category=RUNTIME,
    ),
    Option(
        name="gds-enabled",
        kind=Kind.BOOL,
        default=False,
        env=("GDS_ENABLED",),
        config_path="flags.gdsEnabled",
        help="Give containers what they need for GPUDirect Storage.",
        category=RUNTIME,
    ),
    Option(
        name="mofed-enabled",
        kind=Kind.BOOL,
        default=False,
        env=("MOFED_ENABLED",),
        config_path="flags.mofedEnabled",
        help="Give containers what they need for InfiniBand through MOFED.",
        category=RUNTIME,
    ),
)

SHARING_OPTIONS = (
    Option(
        name="mps-root",
        kind=Kind.TEXT,
        default="",
        env=("MPS_ROOT",),
        config_path="flags.mpsRoot",
        metavar="DIR",
        help="The directory on the host with the pipes and logs of MPS; required with MPS.",
        category=SHARING,
    ),
    Option(
        name="shared-devices-allocation-policy",
        kind=Kind.TEXT,
        default="distributed",
        allowed=("distributed", "packed"),
        env=("SHARED_DEVICES_ALLOCATION_POLICY",),
        config_path="flags.plugin.sharedDevicesAllocationPolicy",
        metavar="POLICY",
        help="Whether replicas and MIG devices are spread over the GPUs or fill one after another.",
        category=SHARING,
        since="v0.20.0",
    ),
)

IMEX_OPTIONS = (
    Option(
        name="imex-channel-ids",
        kind=Kind.INTEGERS,
        default=(),
        env=("IMEX_CHANNEL_IDS",),
        config_path="imex.channelIDs",
        metavar="ID,...",
        help="IMEX channels that every container gets: none, or channel 0.",
        category=IMEX,
    ),
    Option(
        name="imex-required",
        kind=Kind.BOOL,
        default=False,
        env=("IMEX_REQUIRED",),
        config_path="imex.required",
        help="Treat an IMEX channel that is not there as an error instead of leaving it out.",
        category=IMEX,
    ),
)

DEVICE_PLUGIN = ProgramSpec(
    program=Program.DEVICE_PLUGIN,
    title="NVIDIA Device Plugin",
    summary="Offers the NVIDIA GPUs of a node to the kubelet.",
    options=(
        shared.MIG_STRATEGY,
        shared.FAIL_ON_INIT_ERROR,
        shared.DEVICE_DISCOVERY_STRATEGY,
        shared.SIMULATE,
        *RUNTIME_OPTIONS,
        *DRIVER_OPTIONS,
        *SHARING_OPTIONS,
        *IMEX_OPTIONS,
        Option(
            name="kubelet-socket",
            kind=Kind.TEXT,
            default="/var/lib/kubelet/device-plugins/kubelet.sock",
            env=("KUBELET_SOCKET",),
            metavar="SOCKET",
            help="The socket at which the kubelet takes registrations. Empty: do not register.",
        ),
        Option(
            name="rescan-interval",
            kind=Kind.DURATION,
            default=0,
            least=100_000_000,
            env=("GPU_NODE_RESCAN_INTERVAL",),
            metavar="DURATION",
            help=(
                "How often to look for changed hardware, such as new MIG devices, and to adapt "
                "without a restart, 100ms at least. Zero: only at SIGHUP and when the kubelet "
                "restarts."
            ),
            category="Devices",
            ours=True,
        ),
        Option(
            name="plugin-directory",
            kind=Kind.TEXT,
            default="/var/lib/kubelet/device-plugins",
            env=("GPU_NODE_PLUGIN_DIR",),
            metavar="DIR",
            help=(
                "The directory for this program's own sockets; the kubelet looks for them beside "
                "its own socket."
            ),
            ours=True,
        ),
        shared.CONFIG_FILE,
        *shared.LISTENER_OPTIONS,
        shared.POD_RESOURCES_SOCKET,
        shared.REPORT_HEALTH,
        replace(shared.KUBECONFIG, ours=True),
        replace(shared.NODE_NAME, ours=True),
        shared.LOG_FORMAT,
        shared.LOG_LEVEL,
        shared.HELP,
        shared.VERSION,
    ),
)
