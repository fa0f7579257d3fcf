"""The documentation, the schema and the examples are what the code says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from gpu_device_plugin.config.decode import decode
from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.jsonschema import config_schema
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.schema import walk
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.errors import ConfigError

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "docs" / "examples" / "config").glob("*.yaml"))
SCHEMA_VALIDATOR = jsonschema.Draft7Validator(config_schema())


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools/generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_and_schema_are_current(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0, "run tools/generate_docs.py --write"


def test_the_tool_says_what_is_stale(
    generator: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: keys -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(generator, "PAGE", page)
    monkeypatch.setattr(generator, "SCHEMA_FILE", tmp_path / "schema.json")
    assert generator.main(["--check"]) == 1
    assert str(page) in capsys.readouterr().err
    assert generator.main(["--write"]) == 0
    assert generator.main(["--check"]) == 0
    assert "| `flags.migStrategy` |" in page.read_text()
    assert generator.main([]) == 2
    page.write_text("<!-- generated: nonsense -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="nonsense"):
        generator.main(["--check"])


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "cdi",
        "everything",
        "imex",
        "mig-mixed",
        "mps",
        "time-slicing",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("program", [p for p in Program if p is not Program.CONFIG_MANAGER])
def test_examples_load_without_warnings(path: Path, program: Program) -> None:
    loaded = load(parse(program, [f"--config-file={path}"], {}))
    assert not loaded.warnings
    if program is Program.DEVICE_PLUGIN:
        validate_plugin(loaded.config, lambda: True)


SHARING_PAGE = (ROOT / "docs" / "sharing.md").read_text()


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", SHARING_PAGE, re.DOTALL))
def test_examples_within_the_page_on_sharing_are_right(text: str) -> None:
    loaded = load_text(text)
    assert not loaded.warnings
    validate_plugin(loaded.config, lambda: True)
    SCHEMA_VALIDATOR.validate(yaml.safe_load(text))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid_by_the_schema(path: Path) -> None:
    SCHEMA_VALIDATOR.validate(yaml.safe_load(path.read_text()))


def test_one_example_has_every_key_but_the_other_way_of_sharing() -> None:
    def paths(value: Any, path: str = "") -> set[str]:
        if isinstance(value, list):
            return set().union(*(paths(item, path + "[]") for item in value))
        if not isinstance(value, dict):
            return set()
        below = {f"{path}.{key}" if path else key: item for key, item in value.items()}
        return set(below).union(*(paths(item, at) for at, item in below.items()))

    everything = paths(yaml.safe_load((EXAMPLES[0].parent / "everything.yaml").read_text()))
    keys = {
        path
        for path, _ in walk(SCHEMA)
        if not path.startswith(("sharing.mps", "resources.gpus[]", "resources.mig[]"))
    }
    assert keys - everything == {"sharing.timeSlicing.resources[].rename"}


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(config_schema())
    assert json.loads((ROOT / "docs" / "config.schema.json").read_text()) == config_schema()


ITEM = {"name": "gpu", "replicas": 2}
MPS_ITEM = {"name": "nvidia.com/gpu"}
UUID = "GPU-b2f4a1c6-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"version": None, "flags": None, "x-mine": {"a": 1}},
        {"flags": {"plugin": {"deviceListStrategy": "envvar"}, "gfd": {"sleepInterval": 60}}},
        {"flags": {"deviceDiscoveryStrategy": "vfio", "gfd": {"sleepInterval": "1h2m"}}},
        {"sharing": {"timeSlicing": {"resources": [ITEM | {"devices": [0, "0:1"]}]}}},
        {"sharing": {"mps": {"resources": [ITEM | {"devices": 2, "replicas": 4.0}]}}},
        {"resources": {"gpus": [{"pattern": "*", "name": "nvidia.com/gpu"}], "mig": None}},
        {"imex": {"channelIDs": [0], "required": True}},
        {"extensions": None},
        {"extensions": {"honourNames": None, "gpus": None, "sharing": None, "health": None}},
        {"extensions": {"gpus": {"include": [0, "1", "0:1", UUID, "*A100*"], "exclude": []}}},
        {"extensions": {"sharing": [{"strategy": "exclusive", "mig": ["1g*"], "rename": "a"}]}},
        {"extensions": {"sharing": [{"gpus": [0], "strategy": "mps", "replicas": 2}]}},
        {"extensions": {"health": {"xids": {"79": "warn", "0": "ignore"}}}},
        {"extensions": {"health": {"monitorFailure": "unmonitored", "recovery": None}}},
        {"extensions": {"health": {"recovery": {"enabled": True, "quietPeriod": "1m30s"}}}},
    ],
)
def test_what_the_schema_accepts_loads(document: Any) -> None:
    SCHEMA_VALIDATOR.validate(document)
    decode(json.dumps(document).encode(), "f.yaml")


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"version": "v2"},
        {"flags": []},
        {"flags": {"migStrategy": 7}},
        {"flags": {"gdsEnabled": "true"}},
        {"flags": {"plugin": {"deviceListStrategy": 3}}},
        {"flags": {"gfd": {"sleepInterval": "soon"}}},
        {"flags": {"gfd": {"sleepInterval": "60"}}},
        {"sharing": {"timeSlicing": None}},
        {"sharing": {"timeSlicing": {}}},
        {"sharing": {"timeSlicing": {"resources": []}}},
        {"sharing": {"mps": {"resources": [{"name": "gpu"}]}}},
        {"sharing": {"mps": {"resources": [ITEM | {"replicas": 1}]}}},
        {"sharing": {"mps": {"resources": [ITEM | {"name": "GPU"}]}}},
        {"sharing": {"mps": {"resources": [ITEM | {"devices": ["foo"]}]}}},
        {"sharing": {"mps": {"resources": [ITEM | {"devices": 0}]}}},
        {"resources": {"gpus": [{"pattern": "*"}]}},
        {"imex": {"channelIDs": ["0"]}},
        {"extensions": []},
        {"extensions": {"honourNames": "yes"}},
        {"extensions": {"gpus": {"include": []}}},
        {"extensions": {"gpus": {"include": None}}},
        {"extensions": {"gpus": {"exclude": 0}}},
        {"extensions": {"gpus": {"exclude": [-1]}}},
        {"extensions": {"gpus": {"exclude": ["GPU-7"]}}},
        {"extensions": {"gpus": {"exclude": ["0-3"]}}},
        {"extensions": {"gpus": {"exclude": [None]}}},
        {"extensions": {"sharing": [{}]}},
        {"extensions": {"sharing": [{"strategy": "shared", "replicas": 2}]}},
        {"extensions": {"sharing": [{"strategy": "mps", "replicas": 0}]}},
        {"extensions": {"sharing": [{"strategy": "exclusive", "gpus": None}]}},
        {"extensions": {"sharing": [{"strategy": "exclusive", "mig": [1]}]}},
        {"extensions": {"health": {"xids": ["79"]}}},
        {"extensions": {"health": {"xids": {"all": "warn"}}}},
        {"extensions": {"health": {"xids": {"079": "warn"}}}},
        {"extensions": {"health": {"xids": {"79": "panic"}}}},
        {"extensions": {"health": {"xids": {"79": None}}}},
        {"extensions": {"health": {"monitorFailure": True}}},
        {"extensions": {"health": {"recovery": {"quietPeriod": 300}}}},
        {"extensions": {"health": {"recovery": {"quietPeriod": "-5m"}}}},
        {"extensions": {"mps": {"resources": {}}}},
        {"extensions": {"mps": {"resources": [{}]}}},
        {"extensions": {"mps": {"resources": [MPS_ITEM | {"activeThreadPercentage": 0}]}}},
        {"extensions": {"mps": {"resources": [MPS_ITEM | {"activeThreadPercentage": 101}]}}},
        {"extensions": {"mps": {"resources": [MPS_ITEM | {"memoryLimit": "4 Gi"}]}}},
        {"extensions": {"mps": {"resources": [MPS_ITEM | {"memoryLimit": -1}]}}},
        {"extensions": {"mps": {"resources": [MPS_ITEM | {"memoryLimitByGpu": {"a": 0}}]}}},
        {"extensions": {"mps": {"resources": [MPS_ITEM | {"memoryLimitByGpu": {"0": None}}]}}},
    ],
)
def test_what_does_not_load_the_schema_refuses(document: Any) -> None:
    assert not SCHEMA_VALIDATOR.is_valid(document)
    with pytest.raises(ConfigError):
        decode(json.dumps(document).encode(), "f.yaml")


@pytest.mark.parametrize("document", [{"surprise": 1}, {"flags": {"migStratgy": "none"}}])
def test_unknown_keys_are_refused_by_the_schema_only(document: Any) -> None:
    assert not SCHEMA_VALIDATOR.is_valid(document)
    assert decode(json.dumps(document).encode(), "f.yaml").warnings
