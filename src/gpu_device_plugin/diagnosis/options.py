"""The options of a container, each mistake at the line of its argument or variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.flags import Given, read_flags
from gpu_device_plugin.config.grammar import Parsed, assemble, read_variables
from gpu_device_plugin.config.option import Kind, Option
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.text import choices
from gpu_device_plugin.diagnosis.commands import CommandLine, Variable, Word
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.pods import Container
from gpu_device_plugin.errors import UsageError, UserError

MOST_ARGUMENTS = 1000
"""Of a container that are read."""
_LIKENESS = 0.87
"""How alike two names of variables must be for one to be a slip of the other."""
_OF_THE_DRIVER = ("NVIDIA_", "DP_", "CUDA_", "KUBERNETES_")
"""What other variables that containers of these programs have begin with."""
_OF_THE_POD = frozenset({"NODE_NAME", "NAMESPACE", "POD_NAME", "KUBECONFIG"})
"""What a container may well be told though its program does not ask."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a container's command line and variables say."""

    container: Container
    parsed: Parsed
    findings: tuple[Finding, ...]
    places: Mapping[str, Place]
    """Where flags, by the form in which they are given, and variables stand."""

    def place(self, name: str) -> Place:
        """Where an option is set; the container if it is not."""
        origin = self.parsed.origins.get(name, "")
        return self.places.get(origin, self.container.value.place)

    def finding(self, severity: Severity, name: str, message: str, hint: str) -> Finding:
        """A finding about the value of an option; about the container without a name."""
        place = self.place(name)
        origin = self.parsed.origins.get(name, name and f"--{name}")
        text = f"{origin}: {message}" if origin else message
        return Finding(severity, place, text, hint, self.container.title)


def read_options(line: CommandLine) -> Options:
    """Reads all that is right of a container's options, and says what is not."""
    findings: list[Finding] = []
    options = PROGRAMS[line.program].options
    known = {name: v for name, v in line.variables.items() if _can_be_read(options, name, v)}
    given = _read_variables(options, known, line, findings)
    flags = _read_flags(options, line, findings)
    try:
        parsed = assemble(line.program, given, flags)
    except UsageError as error:
        findings.append(_finding(line, _first_place(line), error))
        parsed = assemble(line.program, given, Given())
    findings += _warnings(line, parsed)
    places = {name: variable.value.place for name, variable in line.variables.items()}
    places.update(_places_of_flags(line))
    return Options(line.container, parsed, tuple(findings), places)


def _can_be_read(options: tuple[Option, ...], name: str, variable: Variable) -> bool:
    """Whether anything is known of it: text that is not known is a text all the same."""
    option = next((option for option in options if name in option.env), None)
    return option is not None and (
        variable.is_known or (option.kind is Kind.TEXT and not option.allowed)
    )


def _read_variables(
    options: tuple[Option, ...],
    known: Mapping[str, Variable],
    line: CommandLine,
    findings: list[Finding],
) -> Given:
    environ = {name: variable.text for name, variable in known.items()}
    given = Given()
    for option in options:
        try:
            one = read_variables([option], environ)
        except UsageError as error:
            name = next(name for name in option.env if name in environ)
            findings.append(_finding(line, known[name].value.place, error, name))
        else:
            given.values.update(one.values)
            given.origins.update(one.origins)
    return given


def _read_flags(options: tuple[Option, ...], line: CommandLine, findings: list[Finding]) -> Given:
    words = line.arguments[:MOST_ARGUMENTS]
    if len(words) < len(line.arguments):
        place = line.arguments[MOST_ARGUMENTS].value.place
        message = f"only the first {MOST_ARGUMENTS} arguments are checked"
        findings.append(Finding(Severity.WARNING, place, message, "", line.container.title))
    given = Given()
    start = 0
    while True:
        errors: dict[int, UsageError] = {}
        texts = [word.text for word in words[start:]]
        found = read_flags(options, texts, partial(_note, errors))
        findings += [
            _finding(line, words[start + number].value.place, error)
            for number, error in errors.items()
        ]
        given.values.update(found.values)
        given.origins.update(found.origins)
        given.rest, given.switch = found.rest, found.switch
        at = len(texts) - len(found.rest)
        # What stands after a flag that is not known may well be its value.
        if not found.rest or at - 1 not in errors:
            return given
        start += at + 1


def _note(errors: dict[int, UsageError], error: UsageError, number: int) -> None:
    errors[number] = error


def _finding(line: CommandLine, place: Place, error: UserError, name: str = "") -> Finding:
    message = error.message.removeprefix(f"{name}: ") if name else error.message
    if name:
        place = Place(place.file, place.line, f"{place.path} {name}")
    return Finding(Severity.ERROR, place, message, error.hint, line.container.title)


def _first_place(line: CommandLine) -> Place:
    value = line.arguments[0].value if line.arguments else line.container.value
    return value.place


def _warnings(line: CommandLine, parsed: Parsed) -> Iterator[Finding]:
    title = line.container.title
    for item in line.container.value.get("env").items():
        scalar = item.get("value").scalar
        if scalar is not None and not isinstance(scalar, str):
            place = item.get("value").place
            message = f"the value of {item.get('name').text} is not a text"
            yield Finding(Severity.ERROR, place, message, "put it in quotes", title)
    for word in line.arguments:
        if not isinstance(word.value.scalar, str):
            message = f"the argument {word.text} is not a text"
            yield Finding(Severity.ERROR, word.value.place, message, "put it in quotes", title)
    if ignored := parsed.ignored():
        read = line.arguments[:MOST_ARGUMENTS]
        word = read[len(read) - len(parsed.arguments)]
        yield Finding(Severity.WARNING, word.value.place, ignored, "", title)
    yield from _unknown_variables(line)


def _unknown_variables(line: CommandLine) -> Iterator[Finding]:
    """Variables that are nearly one of the program's, or one of another program."""
    own = {name for option in PROGRAMS[line.program].options for name in option.env}
    for name, variable in line.variables.items():
        if name in own or name in _OF_THE_POD or name.startswith(_OF_THE_DRIVER):
            continue
        near = _slip_of(name, own)
        others = [program for program in Program if _has_variable(program, name)]
        if near and not others:
            message = f"{name} is not a variable of {line.program}"
            hint = f"did you mean {near}?"
        elif others:
            message = f"without effect: {name} is not a variable of {line.program}"
            hint = f"it belongs to {choices(others, ' and ')}"
        else:
            continue
        yield Finding(Severity.WARNING, variable.value.place, message, hint, line.container.title)


def _slip_of(name: str, known: set[str]) -> str:
    import difflib  # noqa: PLC0415 - only for what is not known

    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_LIKENESS)
    return near[0] if near else ""


def _has_variable(program: Program, name: str) -> bool:
    return any(name in option.env for option in PROGRAMS[program].options)


def _places_of_flags(line: CommandLine) -> Iterator[tuple[str, Place]]:
    for word in line.arguments:
        yield _flag_of(word), word.value.place


def _flag_of(word: Word) -> str:
    """The form in which messages name a flag, whatever dashes it was given with."""
    name = word.text.lstrip("-").partition("=")[0]
    return f"--{name}" if len(name) > 1 else f"-{name}"
