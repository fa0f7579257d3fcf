"""From configuration and facts to the labels of a node."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.labels import gpus, keys, mig, node
from gpu_device_plugin.labels.model import Facts, Finding, Label, Labeler, Labels, Problem
from gpu_device_plugin.labels.values import is_key_name, mend
from gpu_device_plugin.resources.selection import select_gpus

log = logging.getLogger(__name__)

LABELERS = (
    Labeler("time of the last start or reload", node.timestamp, needs_devices=False),
    Labeler("machine type file", node.machine),
    Labeler("driver version", node.driver_version),
    Labeler("CUDA version of the driver", node.cuda_version),
    Labeler("MIG modes", node.mig_capability),
    Labeler("sharing configuration and MIG modes", node.mps_capability),
    Labeler("GPUs", gpus.whole_gpus),
    Labeler("MIG strategy and MIG devices", mig.mig_devices),
    Labeler("PCI classes", node.mode),
    Labeler("NVLink fabric", node.clique),
    Labeler("PCI configuration space", node.vgpu, needs_devices=False),
)
"""In the order of k8s-device-plugin v0.19.3 (internal/lm): of labels with one key the last counts."""

INVALID_BUT_KEPT = frozenset(
    (keys.of(keys.GPU, name), "-1") for name in (keys.COMPUTE_MAJOR, keys.COMPUTE_MINOR)
)
"""The compute capability under vfio, as in v0.19.3; Node Feature Discovery drops these labels."""


def make_labels(config: Config, facts: Facts, labelers: Sequence[Labeler] = LABELERS) -> Labels:
    """All labels that there are; what goes wrong in one labeler costs only its own labels.

    Args:
        config: validated, but for the MIG strategy: one that is none gives no MIG labels. GPUs
            that it leaves out (``extensions.gpus``) are as if the node did not have them.
        facts: what was read of the node.
        labelers: in their order.
    """
    inventory = select_gpus(config, facts.node.inventory)
    facts = replace(facts, node=replace(facts.node, inventory=inventory))
    found = dict[str, Label]()
    problems = [Problem(text, is_failure=True) for text in facts.node.failures]
    for labeler in labelers:
        if labeler.needs_devices and not facts.node.has_devices:
            continue
        for finding in _findings(labeler, config, facts):
            if isinstance(finding, Problem):
                problems.append(finding)
            else:
                found[finding.key] = replace(finding, source=labeler.name)
    labels, doubts = _checked(found)
    return Labels(tuple(sorted(labels, key=lambda label: label.key)), (*problems, *doubts))


def _findings(labeler: Labeler, config: Config, facts: Facts) -> Iterator[Finding]:
    try:
        yield from labeler.find(config, facts)
    except Exception:
        log.exception("the labels of %s cannot be made", labeler.name)
        yield Problem(f"the labels of {labeler.name} cannot be made", is_failure=True)


def _checked(found: dict[str, Label]) -> tuple[list[Label], list[Problem]]:
    """The labels that Kubernetes takes, with their values mended if need be."""
    labels, problems = list[Label](), list[Problem]()
    for label in found.values():
        if label.value is None:
            continue
        is_kept = (label.key, label.value) in INVALID_BUT_KEPT
        value = label.value if is_kept else mend(label.value)
        if value is None or not is_key_name(label.key):
            text = f"left out: {label.full_key}={label.value!r} is no label"
            problems.append(Problem(text, costs=(label.key,)))
        else:
            labels.append(replace(label, value=value))
    return labels, problems
