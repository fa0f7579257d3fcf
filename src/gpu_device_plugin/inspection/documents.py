"""Specifications as text, and as files where somebody wants them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from gpu_device_plugin.cdi.generate import GeneratedSpecs
from gpu_device_plugin.cdi.writer import write_specs
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.files import replace_file


def as_json(specs: GeneratedSpecs) -> str:
    """The specifications for people, one JSON document after the other.

    Raises:
        ConfigError: an option brought something into them that is not UTF-8.
    """
    texts = (json.dumps(s.to_dict(), indent=2, ensure_ascii=False) + "\n" for s in specs.specs)
    return _checked("".join(texts))


def as_yaml(specs: GeneratedSpecs) -> str:
    """The specifications as one stream of YAML documents; raises as `as_json` does."""
    _checked("".join(spec.to_json() for spec in specs.specs))
    return "".join(spec.to_yaml() for spec in specs.specs)


def save_json(specs: GeneratedSpecs, directory: str) -> Iterator[str]:
    """Writes and removes files in a directory as the plugin does; yields what was done.

    Raises:
        ConfigError: a file cannot be written.
    """
    for outcome in write_specs(specs, directory):
        text = f"{one_line(str(outcome.path))}: {outcome.action}"
        yield f"{text}: {outcome.reason}" if outcome.reason else text


def save_yaml(specs: GeneratedSpecs, directory: str) -> Iterator[str]:
    """Writes YAML files under the names that the plugin's JSON files have.

    Raises:
        ConfigError: a file cannot be written.
    """
    as_yaml(specs)
    for spec in specs.specs:
        path = os.path.join(directory, f"{spec.kind.replace('/', '-')}.yaml")
        replace_file(path, spec.to_yaml().encode())
        yield f"{one_line(path)}: written"


def twins(specs: GeneratedSpecs, directory: str) -> Iterator[str]:
    """Kinds that have a JSON file and a YAML file in a directory, so that neither works."""
    for spec in specs.specs:
        stem = os.path.join(directory, spec.kind.replace("/", "-"))
        if all(os.path.lexists(stem + extension) for extension in (".json", ".yaml")):
            yield (
                f"{one_line(stem)}.json and .yaml hold the same devices: no runtime resolves them "
                "(remove one of the files)"
            )


def _checked(text: str) -> str:
    """The text, if it can be written."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the specifications cannot be written: {error}") from None
    return text
