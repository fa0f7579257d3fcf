"""An explanation as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.console.screen import Colours, Screen
from gpu_device_plugin.diagnosis.answers import Answer
from gpu_device_plugin.diagnosis.comparison import Change, Difference
from gpu_device_plugin.diagnosis.explanation import Explained, Explanation
from gpu_device_plugin.diagnosis.offers import Offered
from gpu_device_plugin.inspection.labels_text import table_lines

_INDENT = "    "


def explanation_lines(explanation: Explanation, screen: Screen) -> Iterator[str]:
    """All of it, with headings."""
    colours = screen.colours
    gpus = ", ".join(explanation.gpus) or "no GPUs"
    yield f"{explanation.source}: {gpus}"
    yield f"configuration: {explanation.file or 'no file'}"
    for lines, title in (
        (_resource_lines(explanation, colours), "Resources"),
        (_device_lines(explanation.devices), "Devices"),
        (_cdi_lines(explanation), "CDI names"),
        (_label_lines(explanation, screen), "Labels"),
        (_answer_lines(explanation.answers, colours), "Requests"),
    ):
        found = list(lines)
        if found:
            yield ""
            yield colours.paint(colours.bold, title)
            yield from found


def _resource_lines(explanation: Explanation, colours: Colours) -> Iterator[str]:
    for resource in explanation.resources:
        yield from resource_lines(resource, colours)


def resource_lines(resource: Explained, colours: Colours) -> Iterator[str]:
    """A resource, how many there are, and why."""
    name = colours.paint(colours.green, resource.name)
    yield f"{name}: {resource.count} = {resource.sum}"
    for cause in resource.causes:
        yield _INDENT + one_line(str(cause))


def _device_lines(devices: Sequence[Offered]) -> Iterator[str]:
    """Devices that share their fate in one line."""
    for _, group in groupby(devices, key=_fate):
        same = list(group)
        first, last = same[0], same[-1]
        title = first.what
        if len(same) > 1:
            title += f" to {last.what.rpartition(' ')[2]}"
        if first.model:
            title += f" ({first.model})"
        causes = "; ".join(str(cause) for cause in first.causes)
        if first.resource:
            yield one_line(f"{title}: {first.resource}")
        else:
            yield one_line(f"{title}: not offered: {causes}")


def _fate(device: Offered) -> tuple[object, ...]:
    return (device.what.rpartition(" ")[0], device.model, device.resource, device.causes)


def _cdi_lines(explanation: Explanation) -> Iterator[str]:
    if explanation.cdi:
        for cause in explanation.cdi_causes:
            yield one_line(str(cause))
        for name in explanation.cdi:
            yield f"{_INDENT}{name.device}: {name.name}"


def _label_lines(explanation: Explanation, screen: Screen) -> Iterator[str]:
    if explanation.labels is not None:
        yield from table_lines(explanation.labels, screen)


def _answer_lines(answers: Sequence[Answer], colours: Colours) -> Iterator[str]:
    for answer in answers:
        request = f"{answer.request.resource}={answer.request.size}"
        if answer.problem:
            yield colours.paint(colours.red, f"{request}: refused: {one_line(answer.problem)}")
            continue
        yield f"{request}: {', '.join(answer.ids)}"
        for part in answer.parts:
            value = f"{part.name}={part.value}" if part.value else part.name
            yield one_line(f"{_INDENT}{part.kind} {value}: {part.cause}")
        if answer.note:
            yield one_line(f"{_INDENT}{answer.note}")


def difference_lines(
    differences: Sequence[Difference], before: str, after: str, colours: Colours
) -> Iterator[str]:
    """What changes, a line each."""
    yield colours.paint(colours.bold, f"from {before or 'no file'} to {after or 'no file'}")
    if not differences:
        yield "nothing changes"
    for each in differences:
        yield _difference_line(each, colours)


def _difference_line(each: Difference, colours: Colours) -> str:
    match each.change:
        case Change.APPEARS:
            sign, colour, text = "+", colours.green, each.after
        case Change.VANISHES:
            sign, colour, text = "-", colours.red, each.before
        case _:
            sign, colour, text = "~", colours.yellow, f"{each.before} -> {each.after}"
    effect = f" ({each.effect})" if each.effect else ""
    return colours.paint(colour, sign) + one_line(f" {each.kind} {each.name}: {text}{effect}")
