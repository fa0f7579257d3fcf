from __future__ import annotations

from pathlib import Path

import pytest
from support.doctor import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without anything."""
    return Machine(tmp_path / "tree")
