"""The options of config-manager (k8s-device-plugin v0.19.3, cmd/config-manager/main.go)."""

from __future__ import annotations

from dataclasses import replace

from gpu_device_plugin.config import options_shared as shared
from gpu_device_plugin.config.option import Kind, Option, Program, ProgramSpec

CHOICE = "Choice of the configuration"
SIGNAL = "Signal"

CHOICE_OPTIONS = (
    Option(
        name="oneshot",
        kind=Kind.BOOL,
        default=False,
        env=("ONESHOT",),
        help="Apply the configuration once and exit.",
        category=CHOICE,
    ),
    Option(
        name="node-label",
        kind=Kind.TEXT,
        default="nvidia.com/device-plugin.config",
        env=("NODE_LABEL",),
        metavar="LABEL",
        help="The label of the node whose value names the configuration.",
        category=CHOICE,
    ),
    Option(
        name="config-file-srcdir",
        kind=Kind.TEXT,
        default="",
        env=("CONFIG_FILE_SRCDIR",),
        metavar="DIR",
        help="The directory that holds the configurations. Required.",
        category=CHOICE,
    ),
    Option(
        name="config-file-dst",
        kind=Kind.TEXT,
        default="",
        env=("CONFIG_FILE_DST",),
        metavar="FILE",
        help="The link that is made to lead to the chosen configuration. Required.",
        category=CHOICE,
    ),
    Option(
        name="default-config",
        kind=Kind.TEXT,
        default="",
        env=("DEFAULT_CONFIG",),
        metavar="NAME",
        help="The configuration for a node without the label.",
        category=CHOICE,
    ),
    Option(
        name="fallback-strategies",
        kind=Kind.TEXTS,
        default=(),
        allowed=("named", "single", "empty"),
        env=("FALLBACK_STRATEGIES",),
        metavar="STRATEGY,...",
        help=(
            "What to try in turn without label and default: the configuration called default, "
            "the only one there is, or an empty one."
        ),
        category=CHOICE,
    ),
    Option(
        name="validate-config",
        kind=Kind.BOOL,
        default=False,
        env=("VALIDATE_CONFIG",),
        help=(
            "Check a configuration as nvidia-device-plugin does before switching to it; one with "
            "an error is refused, and the last good one stays."
        ),
        category=CHOICE,
        ours=True,
    ),
)

SIGNAL_OPTIONS = (
    Option(
        name="send-signal",
        kind=Kind.BOOL,
        default=True,
        env=("SEND_SIGNAL",),
        help="Send a signal after a change.",
        category=SIGNAL,
    ),
    Option(
        name="signal",
        kind=Kind.INTEGER,
        default=1,
        env=("SIGNAL",),
        metavar="NUMBER",
        help="Which signal; 1 is SIGHUP.",
        category=SIGNAL,
    ),
    Option(
        name="process-to-signal",
        kind=Kind.TEXT,
        default="nvidia-device-plugin",
        env=("PROCESS_TO_SIGNAL",),
        metavar="NAME",
        help=(
            "The process that gets it, by the first argument of its command line, or by the name "
            "of its program or script."
        ),
        category=SIGNAL,
    ),
)

CONFIG_MANAGER = ProgramSpec(
    program=Program.CONFIG_MANAGER,
    title="config-manager",
    summary="Follows a label of the node and links the configuration that it names.",
    options=(
        *CHOICE_OPTIONS,
        *SIGNAL_OPTIONS,
        shared.KUBECONFIG,
        replace(shared.NODE_NAME, help=shared.NODE_NAME.help + " Required."),
        *shared.LISTENER_OPTIONS,
        shared.LOG_FORMAT,
        shared.LOG_LEVEL,
        shared.HELP,
        replace(shared.VERSION, ours=True),
    ),
)
