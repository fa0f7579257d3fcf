"""Stand-ins for the MPS tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mps import MpsTools


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[MpsTools]:
    made = MpsTools.make(tmp_path)
    yield made
    made.clean_up()
