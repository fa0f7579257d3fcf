"""The keys below ``extensions``: settings that k8s-device-plugin lacks.

The table in the module ``keys`` takes them in.
"""

from __future__ import annotations

from gpu_device_plugin.config import model
from gpu_device_plugin.config.schema import Form, Key

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

EXTENSIONS = Key(
    "extensions",
    "extensions",
    Form.OBJECT,
    help="Settings that k8s-device-plugin lacks.",
    ours=True,
    build=model.Extensions,
    children=(_HEALTH,),
)
