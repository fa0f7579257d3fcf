"""The output in the documentation is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.transcripts import Transcript, files_of, transcripts_of

from gpu_device_plugin.programs.gpu_node import run

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "validate.md", DOCS / "explain.md"]
CASES = [
    pytest.param(page, each, id=f"{page.stem} {' '.join(each.arguments)}")
    for page in PAGES
    for each in transcripts_of(page)
]
TIME = re.compile(r"(gfd\.timestamp\s+)\d+")


@pytest.mark.parametrize(("page", "transcript"), CASES)
def test_the_output_is_real(
    page: Path,
    transcript: Transcript,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    for name in ("CONFIG_FILE", "MIG_STRATEGY", "MPS_ROOT", "GPU_NODE_SIMULATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    for name, text in files_of(page).items():
        (tmp_path / name).write_text(text)

    run(transcript.arguments)

    printed = capfdbinary.readouterr().out.decode()
    assert TIME.sub(r"\1", printed) == TIME.sub(r"\1", transcript.output)


def test_there_are_some() -> None:
    assert len(CASES) >= 8
