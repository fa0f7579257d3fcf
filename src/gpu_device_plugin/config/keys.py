"""The keys of the configuration file: one table for decoding, warnings, JSON schema and docs.

The format is ``version: v1`` of k8s-device-plugin v0.19.3 (api/config/v1), with one key that
v0.20.0 added and one, ``extensions``, that is ours.
"""

from __future__ import annotations

from gpu_device_plugin.config import model
from gpu_device_plugin.config.keys_extensions import EXTENSIONS
from gpu_device_plugin.config.names import shared_name
from gpu_device_plugin.config.schema import Form, Key, Null


def build_replicated(
    *,
    rename_by_default: bool = False,
    fail_requests_greater_than_one: bool | None = None,
    resources: tuple[model.ReplicatedResource, ...] = (),
) -> model.ReplicatedResources:
    """The section, with the names that ``renameByDefault`` gives."""
    if rename_by_default:
        resources = tuple(
            model.ReplicatedResource(r.name, r.replicas, r.rename or shared_name(r.name), r.devices)
            for r in resources
        )
    return model.ReplicatedResources(rename_by_default, fail_requests_greater_than_one, resources)


_PLUGIN = Key(
    "plugin",
    "plugin",
    Form.OBJECT,
    help="Settings of nvidia-device-plugin.",
    build=model.PluginFlags,
    children=(
        Key("passDeviceSpecs", "pass_device_specs", Form.BOOL),
        Key("deviceListStrategy", "device_list_strategy", Form.TEXTS),
        Key("deviceIDStrategy", "device_id_strategy", Form.TEXT),
        Key("cdiAnnotationPrefix", "cdi_annotation_prefix", Form.TEXT),
        Key("nvidiaCTKPath", "nvidia_ctk_path", Form.TEXT),
        Key("containerDriverRoot", "container_driver_root", Form.TEXT),
        Key(
            "sharedDevicesAllocationPolicy",
            "shared_devices_allocation_policy",
            Form.TEXT,
            since="v0.20.0",
        ),
    ),
)

_GFD = Key(
    "gfd",
    "gfd",
    Form.OBJECT,
    help="Settings of gpu-feature-discovery.",
    build=model.GfdFlags,
    children=(
        Key("oneshot", "oneshot", Form.BOOL),
        Key("noTimestamp", "no_timestamp", Form.BOOL),
        Key("sleepInterval", "sleep_interval", Form.DURATION),
        Key("outputFile", "output_file", Form.TEXT),
        Key("machineTypeFile", "machine_type_file", Form.TEXT),
    ),
)

_FLAGS = Key(
    "flags",
    "flags",
    Form.OBJECT,
    Null.KEEPS,
    help="Values of command-line options; a flag or variable that is given overrides them.",
    build=model.Flags,
    children=(
        Key("migStrategy", "mig_strategy", Form.TEXT),
        Key("failOnInitError", "fail_on_init_error", Form.BOOL),
        Key("mpsRoot", "mps_root", Form.TEXT),
        Key("nvidiaDriverRoot", "nvidia_driver_root", Form.TEXT),
        Key("nvidiaDevRoot", "nvidia_dev_root", Form.TEXT),
        Key("gdrcopyEnabled", "gdrcopy_enabled", Form.BOOL),
        Key("gdsEnabled", "gds_enabled", Form.BOOL),
        Key("mofedEnabled", "mofed_enabled", Form.BOOL),
        Key("useNodeFeatureAPI", "use_node_feature_api", Form.BOOL),
        Key("deviceDiscoveryStrategy", "device_discovery_strategy", Form.TEXT),
        _PLUGIN,
        _GFD,
    ),
)


def _patterns(name: str, what: str) -> Key:
    return Key(
        name,
        name,
        Form.OBJECTS,
        help=f"Names of resources for {what}. Ignored unless honourNames is true.",
        default="by the MIG strategy",
        exact=True,
        build=model.ResourcePattern,
        children=(
            Key(
                "pattern",
                "pattern",
                Form.TEXT,
                Null.EMPTIES,
                help=f"Which {what}; * stands for anything.",
                required=True,
            ),
            Key(
                "name",
                "name",
                Form.NAME,
                Null.FAILS,
                help="The resource; nvidia.com/ is put before it if need be.",
                required=True,
            ),
        ),
    )


_RESOURCES = Key(
    "resources",
    "resources",
    Form.OBJECT,
    Null.KEEPS,
    help="Names of resources. They count only if extensions.honourNames is true.",
    build=model.Resources,
    children=(_patterns("gpus", "GPUs by product"), _patterns("mig", "MIG devices by profile")),
)

_REPLICATED = Key(
    "resources",
    "resources",
    Form.OBJECTS,
    Null.FAILS,
    help="The resources that are shared.",
    required=True,
    minimum=1,
    exact=True,
    build=model.ReplicatedResource,
    children=(
        Key(
            "name",
            "name",
            Form.NAME,
            Null.FAILS,
            help="The resource, such as nvidia.com/gpu.",
            required=True,
        ),
        Key(
            "rename",
            "rename",
            Form.NAME,
            Null.FAILS,
            help="Another name for the replicas. Ignored unless honourNames is true.",
            default="as renameByDefault says",
        ),
        Key(
            "devices",
            "devices",
            Form.SELECTOR,
            Null.FAILS,
            help="Which devices are shared. Taken for all unless honourNames is true.",
            default="all",
        ),
        Key(
            "replicas",
            "replicas",
            Form.INTEGER,
            Null.FAILS,
            help="How many containers share a device.",
            required=True,
            minimum=2,
        ),
    ),
)


def _sharing(name: str, field: str, null: Null, fail_default: str, text: str) -> Key:
    return Key(
        name,
        field,
        Form.OBJECT,
        null,
        help=text,
        exact=True,
        build=build_replicated,
        children=(
            Key(
                "renameByDefault",
                "rename_by_default",
                Form.BOOL,
                Null.KEEPS,
                help="Offer the replicas of a resource as NAME.shared.",
                default="false",
            ),
            Key(
                "failRequestsGreaterThanOne",
                "fail_requests_greater_than_one",
                Form.BOOL,
                help="Refuse containers that ask for more than one replica.",
                default=fail_default,
            ),
            _REPLICATED,
        ),
    )


_SHARING = Key(
    "sharing",
    "sharing",
    Form.OBJECT,
    Null.KEEPS,
    help="How containers share devices.",
    build=model.Sharing,
    children=(
        _sharing(
            "timeSlicing",
            "time_slicing",
            Null.FAILS,
            "false",
            "Containers take turns on a GPU, without limits to what each may use.",
        ),
        _sharing(
            "mps",
            "mps",
            Null.UNSETS,
            "true",
            "Containers use a GPU at once through MPS, with equal limits. Hides timeSlicing.",
        ),
    ),
)

_IMEX = Key(
    "imex",
    "imex",
    Form.OBJECT,
    Null.KEEPS,
    help="IMEX channels that are injected into containers.",
    build=model.Imex,
    children=(
        Key("channelIDs", "channel_ids", Form.INTEGERS),
        Key("required", "required", Form.BOOL, Null.KEEPS),
    ),
)

SCHEMA = Key(
    "",
    "",
    Form.OBJECT,
    build=model.Config,
    children=(
        Key(
            "version",
            "version",
            Form.TEXT,
            Null.KEEPS,
            help="The version of the format.",
            default="v1",
            allowed=("v1",),
        ),
        _FLAGS,
        _RESOURCES,
        _SHARING,
        _IMEX,
        EXTENSIONS,
    ),
)
