from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tool() -> ModuleType:
    path = ROOT / "tools" / "generate_label_docs.py"
    spec = importlib.util.spec_from_file_location("generate_label_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_labels_is_current(tool: ModuleType) -> None:
    assert tool.main(["--check"]) == 0


def test_a_table_that_is_not_current_is_named_and_can_be_written(
    tool: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "labels.md"
    page.write_text("before\n<!-- generated: labels -->\nold\n<!-- end -->\nafter\n")
    monkeypatch.setattr(tool, "PAGE", page)

    assert tool.main(["--check"]) == 1
    assert str(page) in capsys.readouterr().err
    assert tool.main(["--write"]) == 0
    assert tool.main(["--check"]) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| `mig-PROFILE.count` |" in text


def test_anything_else_shows_how_it_is_used(tool: ModuleType) -> None:
    assert tool.main([]) == 2
