"""The status of a program that labels the node."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.labels.service import LabelService
from gpu_device_plugin.status.model import Check, Configuration, Labelling
from gpu_device_plugin.status.probes import check
from gpu_device_plugin.status.settings import describe_configuration

SILENCE_SECONDS = 60.0
"""How long the reading of a node may take; see `gpu_device_plugin.plugin.health`."""


def labelling(service: LabelService) -> Labelling:
    """The labels that are out."""
    record, work = service.record, service.work
    problems = [record.driver_problem, record.output_problem, *record.failures]
    return Labelling(
        time=record.published_at,
        place="" if work is None else work.output.place,
        labels=tuple(record.labels.items()),
        problem="; ".join(problem for problem in problems if problem),
    )


def labels_configuration(service: LabelService) -> Configuration | None:
    """What the program was told; None until that has been read."""
    work = service.work
    if work is None or work.loaded is None:
        return None
    return describe_configuration(work.loaded, problem=service.record.reload_problem)


def labels_readiness(service: LabelService) -> Check:
    """Whether the labels are out as they should be.

    A label that cannot be made keeps the program from being ready as little as a broken GPU does.
    """
    return check(_lacks(service))


def _lacks(service: LabelService) -> Iterator[str]:
    record = service.record
    if record.reload_problem:
        yield f"the new configuration cannot be used: {record.reload_problem}"
    if record.seconds_reading > SILENCE_SECONDS:
        yield f"the driver has not answered for {record.seconds_reading:.0f} s"
    if record.driver_problem:
        yield f"nothing is known of GPUs: {record.driver_problem}"
    if record.output_problem:
        yield f"the labels are not published: {record.output_problem}"
    elif not record.published_at:
        yield "the labels have not been published yet"
