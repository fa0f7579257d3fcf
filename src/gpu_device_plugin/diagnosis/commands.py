"""What a container runs: which of the programs, with which arguments and variables."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.pods import Container
from gpu_device_plugin.diagnosis.tree import Value

IMAGES = {
    "k8s-device-plugin": Program.DEVICE_PLUGIN,
    "nvidia-device-plugin": Program.DEVICE_PLUGIN,
    "gpu-device-plugin": Program.DEVICE_PLUGIN,
    "gpu-feature-discovery": Program.GPU_FEATURE_DISCOVERY,
}
"""What images start if they are not told; of ours and of the original's, wherever they are from."""

_PROGRAMS = {program.value: program for program in Program}
_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")
SHELLS = frozenset({"sh", "bash", "ash", "dash", "busybox"})
_GPU_NODE, _AGENT = Program.AGENT.value.split()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a container."""

    text: str
    value: Value
    """Where it stands."""
    is_known: bool = True
    """Whether the manifest says what its text is, and not only where it will come from."""


@dataclass(frozen=True, slots=True)
class Word:
    """An argument."""

    text: str
    value: Value


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program of ours in a container."""

    container: Container
    program: Program
    arguments: tuple[Word, ...]
    variables: Mapping[str, Variable]


Lookup = Callable[[str], Mapping[str, str] | None]
"""The data of the ConfigMap of a name; None if it is not known."""


def read_variables(container: Container, lookup: Lookup) -> dict[str, Variable]:
    """The variables of a container, as far as the manifests tell."""
    found: dict[str, Variable] = {}
    for source in container.value.get("envFrom").items():
        prefix = source.get("prefix").text
        data = lookup(source.get("configMapRef", "name").text)
        for key, text in (data or {}).items():
            found[prefix + key] = Variable(text, source)
    for item in container.value.get("env").items():
        name = item.get("name").text
        if name:
            found[name] = _variable(item, found, lookup)
    return found


def _variable(item: Value, earlier: Mapping[str, Variable], lookup: Lookup) -> Variable:
    given = item.get("valueFrom")
    if not given.exists:
        text = item.get("value").text
        return Variable(expand(text, earlier), item, _is_certain(text, earlier))
    reference = given.get("configMapKeyRef")
    data = lookup(reference.get("name").text) or {}
    key = reference.get("key").text
    if key in data:
        return Variable(data[key], item)
    field = given.get("fieldRef", "fieldPath").text
    return Variable(f"<{field or 'unknown'}>", item, is_known=False)


def expand(text: str, variables: Mapping[str, Variable]) -> str:
    """The text with ``$(NAME)`` replaced, as Kubernetes does; unknown names stay."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables[match[2]].text if match[2] in variables else match[0]

    return _REFERENCE.sub(replacement, text)


def _is_certain(text: str, variables: Mapping[str, Variable]) -> bool:
    names = [match[2] for match in _REFERENCE.finditer(text) if match[2]]
    return all(variables[name].is_known for name in names if name in variables)


def command_line(container: Container, lookup: Lookup) -> CommandLine | None:
    """What a container runs; None if it is none of the programs."""
    variables = read_variables(container, lookup)

    def words(key: str) -> list[Word]:
        items = container.value.get(key).items()
        return [Word(expand(_text(item), variables), item) for item in items]

    command, arguments = words("command"), words("args")
    if command:
        name = posixpath.basename(command[0].text)
        arguments = [*command[1:], *arguments]
        program = _PROGRAMS.get(name)
        # The other commands of gpu-node are for people, and end by themselves.
        if name == _GPU_NODE and arguments and arguments[0].text == _AGENT:
            program, arguments = Program.AGENT, arguments[1:]
    else:
        program = _of_image(container)
    if program is None:
        return None
    return CommandLine(container, program, tuple(arguments), variables)


def _text(item: Value) -> str:
    """The argument that is probably meant; `options` says where it is no text."""
    scalar = item.scalar
    if isinstance(scalar, bool):
        return str(scalar).lower()
    return "" if scalar is None else str(scalar)


def _of_image(container: Container) -> Program | None:
    """By the image, or else by the name that the original's containers have."""
    repository = image_repository(container.value.get("image").text)
    if repository in IMAGES:
        return IMAGES[repository]
    near = [program for name, program in _PROGRAMS.items() if container.name.startswith(name)]
    return near[0] if near else None


def image_repository(image: str) -> str:
    """The last part of the name of an image, without tag and digest."""
    return posixpath.basename(image.partition("@")[0]).partition(":")[0]


def hidden_program(container: Container) -> Program | None:
    """The program that a container seems to start by a shell or a script."""
    command = [item.text for item in container.value.get("command").items()]
    if not command or posixpath.basename(command[0]) not in SHELLS:
        return None
    text = " ".join([*command, *(item.text for item in container.value.get("args").items())])
    for name, program in _PROGRAMS.items():
        if re.search(rf"(?:^|[\s/;&]){name}(?:$|\s)", text):
            return program
    return None
