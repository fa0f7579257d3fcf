"""The options of ``gpu-node agent``: those of the three programs whose work it does.

Names, variables and keys of the file are theirs. What they lack here would contradict the rest:
``--oneshot`` of two of them, and config-manager's link and signal, which nobody needs who has the
configuration in the same process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_device_plugin.config.option import Kind, Option, Program, ProgramSpec
from gpu_device_plugin.config.options_gfd import GPU_FEATURE_DISCOVERY, LABELS
from gpu_device_plugin.config.options_manager import CHOICE_OPTIONS
from gpu_device_plugin.config.options_plugin import DEVICE_PLUGIN

MINUTE = 60_000_000_000  # nanoseconds
WITHOUT = frozenset({"oneshot", "validate-config", "config-file-dst"})
"""Options of the others that there are none of here: what is wrong is never applied anyway."""


def _union(*tables: Iterable[Option]) -> tuple[Option, ...]:
    """Every option once, as the first table has it, with the variables of all."""
    options = dict[str, Option]()
    for table in tables:
        for option in table:
            known = options.get(option.name)
            if known is not None:
                names = dict.fromkeys((*known.env, *option.env))
                options[option.name] = replace(known, env=tuple(names))
            elif option.name not in WITHOUT:
                options[option.name] = option
    return tuple(options.values())


PUBLISH_LABELS = Option(
    name="publish-labels",
    kind=Kind.BOOL,
    default=True,
    env=("GPU_NODE_PUBLISH_LABELS",),
    help="Label the node. Without it, devices are served and the configuration is followed only.",
    category=LABELS,
    ours=True,
)

HELP = {
    "rescan-interval": (
        "How often to look for changed hardware, such as new MIG devices, and to adapt devices and "
        "labels to it without a restart, 100ms at least. Zero: only at SIGHUP, when the kubelet "
        "restarts and when the health of a GPU changes."
    ),
    "sleep-interval": (
        "The time between two looks whether the labels are out, such as 30s or 1h30m; infinite: "
        "none. Changes are published at once."
    ),
    "config-file": (
        "The configuration file, YAML or JSON; it is read anew when it changes. Flags and "
        "variables override it. Empty: none. Without effect beside --config-file-srcdir."
    ),
    "config-file-srcdir": (
        "The directory of the configurations of which a label of the node chooses one. Empty: the "
        "label is not followed."
    ),
}
"""What an option means here, where that is not quite what it means in the other programs."""
DEFAULTS = {"rescan-interval": MINUTE}
"""As often as gpu-feature-discovery reads the hardware."""
LAST = ("help", "version")


def _options() -> tuple[Option, ...]:
    union = _union(DEVICE_PLUGIN.options, GPU_FEATURE_DISCOVERY.options, CHOICE_OPTIONS)
    options = [
        replace(
            option,
            help=HELP.get(option.name, option.help),
            default=DEFAULTS.get(option.name, option.default),
        )
        for option in union
    ]
    last = [option for option in options if option.name in LAST]
    return (*(option for option in options if option not in last), PUBLISH_LABELS, *last)


AGENT = ProgramSpec(
    program=Program.AGENT,
    title="GPU Node Agent",
    summary="Offers a node's NVIDIA GPUs, labels it and follows its configuration.",
    options=_options(),
)
