"""The keys below ``extensions``: settings that k8s-device-plugin lacks.

The table in the module ``keys`` takes them in.
"""

from __future__ import annotations

from gpu_device_plugin.config import model, model_mps
from gpu_device_plugin.config.model import SharingStrategy
from gpu_device_plugin.config.schema import Form, Key, Null
from gpu_device_plugin.errors import ConfigError

EXCLUSIVE = "exclusive"


def build_gpu_sharing(
    *,
    strategy: str,
    gpus: tuple[str, ...] | None = None,
    mig: tuple[str, ...] | None = None,
    replicas: int = 0,
    rename: str = "",
    fail_requests_greater_than_one: bool | None = None,
) -> model.GpuSharing:
    """The entry, if its keys go together.

    Raises:
        ConfigError: they do not.
    """
    way = SharingStrategy.NONE if strategy == EXCLUSIVE else SharingStrategy(strategy)
    if way is not SharingStrategy.NONE and not replicas:
        raise ConfigError('"replicas" is missing', f"{way} needs a number of 2 or more")
    if way is SharingStrategy.TIME_SLICING and replicas == 1:
        raise ConfigError(
            "replicas: 1 is too small", f"{way} needs a number of 2 or more; mps allows 1"
        )
    if way is SharingStrategy.NONE and replicas:
        raise ConfigError("exclusive devices have no replicas", "leave replicas out")
    if way is SharingStrategy.NONE and fail_requests_greater_than_one is not None:
        raise ConfigError(
            "failRequestsGreaterThanOne is about replicas, which exclusive devices do not have",
            "leave it out",
        )
    if way is SharingStrategy.MPS and mig is not None:
        raise ConfigError(
            "MPS cannot be used with MIG devices", "allowed with mig: exclusive, time-slicing"
        )
    return model.GpuSharing(way, gpus, mig, replicas, rename, fail_requests_greater_than_one)


_HONOUR_NAMES = Key(
    "honourNames",
    "honour_names",
    Form.BOOL,
    Null.KEEPS,
    help="Let resources, and rename and devices below sharing, have their effect.",
    default="false",
)

_GPUS = Key(
    "gpus",
    "gpus",
    Form.OBJECT,
    help="Which GPUs and MIG devices are offered at all.",
    build=model.GpuSelection,
    children=(
        Key(
            "include",
            "include",
            Form.GPUS,
            Null.FAILS,
            help="Only these are offered.",
            default="every GPU",
            minimum=1,
        ),
        Key(
            "exclude",
            "exclude",
            Form.GPUS,
            help="These are not offered, even if they are included.",
            default="none",
        ),
    ),
)

_SHARING = Key(
    "sharing",
    "sharing",
    Form.OBJECTS,
    help=(
        "How single GPUs are shared. The first entry that selects a device decides over it; "
        "where none does, the section sharing at the top level decides."
    ),
    default="none",
    ours=True,
    build=build_gpu_sharing,
    children=(
        Key(
            "gpus",
            "gpus",
            Form.GPUS,
            Null.FAILS,
            help="The GPUs, with their MIG devices, or single MIG devices.",
            default="every GPU",
            minimum=1,
        ),
        Key(
            "mig",
            "mig",
            Form.PATTERNS,
            Null.FAILS,
            help="Limits the entry to MIG devices with profiles like these; * stands for anything.",
            default="no limit",
            minimum=1,
        ),
        Key(
            "strategy",
            "strategy",
            Form.CHOICE,
            Null.FAILS,
            help="How the devices are shared.",
            allowed=(EXCLUSIVE, SharingStrategy.TIME_SLICING, SharingStrategy.MPS),
            required=True,
        ),
        Key(
            "replicas",
            "replicas",
            Form.INTEGER,
            help=(
                "How many containers share a device. Required unless exclusive. 2 or more; with "
                "mps also 1, which sets no limits."
            ),
            minimum=1,
        ),
        Key(
            "rename",
            "rename",
            Form.NAME,
            help="Another name for the resource that the devices make up.",
            default="the name they have anyway",
        ),
        Key(
            "failRequestsGreaterThanOne",
            "fail_requests_greater_than_one",
            Form.BOOL,
            help="Refuse containers that ask for more than one replica.",
            default="true with mps, else false",
        ),
    ),
)

_HEALTH = Key(
    "health",
    "health",
    Form.OBJECT,
    help="What makes devices unhealthy, and healthy again.",
    build=model.HealthSettings,
    children=(
        Key(
            "xids",
            "xids",
            Form.CHOICES,
            help="What XIDs do to the devices that they hit, by number. Others keep their default.",
            default="by the table of XIDs",
            allowed=tuple(model.XidAction),
        ),
        Key(
            "monitorFailure",
            "monitor_failure",
            Form.CHOICE,
            help="What devices are while their health cannot be watched.",
            default="unhealthy",
            allowed=tuple(model.MonitorFailure),
        ),
        Key(
            "recovery",
            "recovery",
            Form.OBJECT,
            help="How unhealthy devices become healthy again.",
            build=model.RecoverySettings,
            children=(
                Key(
                    "enabled",
                    "enabled",
                    Form.BOOL,
                    Null.KEEPS,
                    help="Let unhealthy devices recover, unless their GPU is lost or needs a reset.",
                    default="false",
                ),
                Key(
                    "quietPeriod",
                    "quiet_period",
                    Form.PERIOD,
                    help="How long there must have been no further error.",
                    default="5m",
                ),
            ),
        ),
    ),
)

_MPS = Key(
    "mps",
    "mps",
    Form.OBJECT,
    help="What clients of MPS get, where that is not to be an equal share.",
    build=model_mps.MpsSettings,
    children=(
        Key(
            "resources",
            "resources",
            Form.OBJECTS,
            help="The resources with limits of their own. The first entry for a resource counts.",
            default="none",
            ours=True,
            build=model_mps.MpsLimits,
            children=(
                Key(
                    "name",
                    "name",
                    Form.NAME,
                    Null.FAILS,
                    help="A resource that is shared through MPS, before or after it is renamed.",
                    required=True,
                ),
                Key(
                    "activeThreadPercentage",
                    "active_thread_percentage",
                    Form.INTEGER,
                    help="Share of a GPU's threads that a client gets, 1 to 100; 100 is no limit.",
                    default="an equal share",
                    minimum=1,
                    maximum=100,
                ),
                Key(
                    "memoryLimit",
                    "memory_limit",
                    Form.MEMORY,
                    help="Memory that a client gets of each GPU; none or 0 for no limit.",
                    default="an equal share",
                ),
                Key(
                    "memoryLimitByGpu",
                    "memory_limit_by_gpu",
                    Form.MEMORIES,
                    help="The same for single GPUs, by index or UUID. It comes before memoryLimit.",
                    default="memoryLimit",
                ),
            ),
        ),
    ),
)

EXTENSIONS = Key(
    "extensions",
    "extensions",
    Form.OBJECT,
    help="Settings that k8s-device-plugin lacks.",
    ours=True,
    build=model.Extensions,
    children=(_HONOUR_NAMES, _GPUS, _SHARING, _HEALTH, _MPS),
)
