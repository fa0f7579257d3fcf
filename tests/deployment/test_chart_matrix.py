"""Everything that the chart renders would be taken by an API server, and understood by programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment.charts import CHART as CHART_DIRECTORY
from deployment.charts import MAIN, Object, Rendered, containers, environ, render, run_helm
from deployment.matrix import MATRIX
from deployment.objects import problems

from gpu_device_plugin.config.grammar import Parsed, parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import (
    validate_agent,
    validate_labels,
    validate_manager,
    validate_plugin,
)

pytestmark = pytest.mark.usefixtures("helm", "schemas")
PROGRAMS = {program.value: program for program in Program}


@cache
def rendered_set(name: str) -> Rendered:
    return render(MATRIX[name], "--include-crds")


@pytest.mark.parametrize("name", MATRIX)
def test_objects_are_valid(name: str) -> None:
    assert problems(rendered_set(name).objects) == []


@pytest.mark.parametrize("name", MATRIX)
def test_programs_accept_their_settings_and_configurations(name: str, tmp_path: Path) -> None:
    rendered = rendered_set(name)

    started = 0
    for item in rendered.all_of("DaemonSet"):
        for container in containers(item):
            if container["name"] in {"master", "worker", "gc"}:
                continue
            for parsed in as_started(container, rendered, item, tmp_path):
                accept(parsed)
                started += 1
    assert started or not rendered.components()


def as_started(
    container: Object, rendered: Rendered, item: Object, directory: Path
) -> Iterator[Parsed]:
    """The command line and environment of a container, with each configuration it may get."""
    command = [*container["command"], *container.get("args", ())]
    if command[0] == "gpu-node":
        command = [" ".join(command[:2]), *command[2:]]
    program = PROGRAMS[os.path.basename(command[0])]
    variables = {
        name: "node1" if value.startswith("<") else value
        for name, value in environ(container).items()
    }
    is_agent = program is Program.AGENT
    if is_agent:
        validate_agent(parse(program, command[1:], variables))
    given = variables.pop("CONFIG_FILE_SRCDIR" if is_agent else "CONFIG_FILE", "")
    if given and (data := configurations(rendered, item)):
        for key, text in data.items():
            path = directory / key
            path.write_text(text, encoding="utf-8")
            yield parse(program, command[1:], {**variables, "CONFIG_FILE": str(path)})
    else:
        yield parse(program, command[1:], variables)


def configurations(rendered: Rendered, item: Object) -> dict[str, str]:
    """What the ConfigMap holds, if it is ours; it has to be in the namespace of the pod."""
    (volume,) = (
        volume
        for volume in item["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "available-configs"
    )
    name = volume["configMap"]["name"]
    if not rendered.has("ConfigMap", name):
        return {}
    found = rendered.get("ConfigMap", name, item["metadata"]["namespace"])
    data: dict[str, str] = found["data"]
    return data


def accept(parsed: Parsed) -> None:
    """As the programs do at their start, without hardware."""
    if parsed.program is Program.CONFIG_MANAGER:
        validate_manager(parsed)
        return
    config = load(parsed).config
    if parsed.program in {Program.DEVICE_PLUGIN, Program.AGENT}:
        validate_plugin(config, lambda: True)
    if parsed.program in {Program.GPU_FEATURE_DISCOVERY, Program.AGENT}:
        validate_labels(config, parsed)


def test_there_are_enough_sets_and_each_value_is_in_one() -> None:
    values = yaml.safe_load((CHART_DIRECTORY / "values.yaml").read_text(encoding="utf-8"))
    used = set[str]()
    for item in MATRIX.values():
        used |= set(_paths(item))

    assert len(MATRIX) >= 60
    assert not {path for path in _paths(values) if path.split(".")[0] != "nfd"} - used


def _paths(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    grouped = {"agent", "cdi", "config", "configManager", "devicePlugin", "gfd", "image", "mps"}
    grouped |= {"metrics", "networkPolicy", "probes", "simulate"}
    for name, value in values.items():
        if not prefix and name in grouped and isinstance(value, dict):
            yield from _paths(value, f"{name}.")
        else:
            yield prefix + name


def test_lint_has_nothing_to_say() -> None:
    for values in ({}, {"gfd.enabled": "true"}):
        arguments = [f"--set={name}={value}" for name, value in values.items()]
        said = run_helm("lint", "--strict", str(CHART_DIRECTORY), "--namespace=gpu", *arguments)

        assert "[WARNING]" not in said
        assert "[ERROR]" not in said


def test_the_same_values_render_the_same_objects_in_every_run() -> None:
    assert render(MATRIX["everything"]) == render(MATRIX["everything"])


def test_every_component_has_its_main_container() -> None:
    rendered = render(MATRIX["everything"])

    assert rendered.components() == set(MAIN)
    for component in MAIN:
        assert rendered.container(component)
