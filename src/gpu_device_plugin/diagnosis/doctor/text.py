"""The result of the doctor for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.text import count as counted
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.console.screen import Colours, Screen
from gpu_device_plugin.diagnosis.doctor.document import count
from gpu_device_plugin.diagnosis.doctor.model import Check, Group, Outcome, Problem, Verdict
from gpu_device_plugin.diagnosis.doctor.run import Finished

NARROWEST = 40
INDENT = " " * 12
"""Under a check, what is told of it."""

WORDS = {
    Verdict.OK: "ok",
    Verdict.WARNING: "warning",
    Verdict.FAILED: "FAILED",
    Verdict.NOT_CHECKED: "-",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How it is written."""

    screen: Screen
    verbose: bool = False
    """Whether the evidence of what is in order is shown, too."""

    @property
    def colours(self) -> Colours:
        """Those of the screen."""
        return self.screen.colours


def lines_of(results: Sequence[Finished], style: Style) -> Iterator[str]:
    """The groups, each with the worst first, then the sum."""
    for group in Group:
        members = [result for result in results if result.check.group is group]
        if members:
            yield style.colours.paint(style.colours.bold, str(group))
            for result in sorted(members, key=lambda result: _RANK[result.outcome.verdict]):
                yield from _check(result, style)
            yield ""
    yield _sum(results, style)


_RANK = {Verdict.FAILED: 0, Verdict.WARNING: 1, Verdict.OK: 2, Verdict.NOT_CHECKED: 3}


def _check(result: Finished, style: Style) -> Iterator[str]:
    check, outcome = result.check, result.outcome
    word = WORDS[outcome.verdict].ljust(8)
    painted = style.colours.paint(_colour(outcome.verdict, style.colours), word)
    is_bad = outcome.verdict in {Verdict.FAILED, Verdict.WARNING}
    head = f"{check.name}: {one_line(outcome.summary)}"
    if is_bad and len(outcome.problems) > 1:
        head = f"{check.name}: {check.title}"
    first, *rest = _wrapped(head, style, "  " + " " * 9) or [check.name]
    yield f"  {painted} {first.strip()}"
    yield from rest
    yield from _details(outcome, style, is_bad=is_bad)
    if is_bad:
        yield from _wrapped(f"see docs/{check.page}", style, INDENT)


def _details(outcome: Outcome, style: Style, *, is_bad: bool) -> Iterator[str]:
    if is_bad or style.verbose:
        for text in outcome.evidence:
            yield from _wrapped(f"saw: {one_line(text)}", style, INDENT)
    if not is_bad and not style.verbose:
        return
    for problem in outcome.problems:
        yield from _problem(problem, style, is_told=problem.text == outcome.summary)


def _problem(problem: Problem, style: Style, *, is_told: bool) -> Iterator[str]:
    """A problem that is not the headline already, and what to do about it."""
    if not is_told:
        word = WORDS[problem.verdict]
        painted = style.colours.paint(_colour(problem.verdict, style.colours), word)
        text = one_line(problem.text)
        first, *rest = _wrapped(f"{word}: {text}", style, INDENT)
        yield first.replace(word, painted, 1)
        yield from rest
    for step in problem.steps:
        first, *rest = _wrapped(f"next: {one_line(step)}", style, INDENT)
        yield first.replace("next:", style.colours.paint(style.colours.cyan, "next:"), 1)
        yield from rest


def _wrapped(text: str, style: Style, indent: str) -> list[str]:
    columns = style.screen.columns
    if columns is None:
        return [indent + text]
    return textwrap.wrap(
        text,
        max(columns, NARROWEST),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _colour(verdict: Verdict, colours: Colours) -> str:
    return {
        Verdict.OK: colours.green,
        Verdict.WARNING: colours.yellow,
        Verdict.FAILED: colours.red,
    }.get(verdict, "")


def _sum(results: Sequence[Finished], style: Style) -> str:
    numbers = count(results)
    parts = [
        f"{numbers[Verdict.FAILED]} failed",
        counted(numbers[Verdict.WARNING], "warning"),
        f"{numbers[Verdict.OK]} ok",
        f"{numbers[Verdict.NOT_CHECKED]} not checked",
    ]
    worst = Verdict.FAILED if numbers[Verdict.FAILED] else Verdict.OK
    text = f"{len(results)} checks: {', '.join(parts)}"
    more = "" if style.verbose else "; --verbose shows what was seen"
    return style.colours.paint(_colour(worst, style.colours), text) + more


def list_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Name and meaning of each check."""
    width = max(len(check.name) for check in checks)
    for group in Group:
        members = [check for check in checks if check.group is group]
        if members:
            yield f"{group} ({group.name.lower()})"
            for check in members:
                yield f"  {check.name.ljust(width)}  {check.title}"
