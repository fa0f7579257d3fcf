"""What tests of the deployment need, and why they are skipped without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from deployment.charts import find_helm
from deployment.objects import have_schemas

HOW = "run tools/build_deployment_tools.py, which needs Go"


@pytest.fixture(scope="session")
def helm() -> str:
    """The program."""
    program = find_helm()
    if program is None:
        pytest.skip(f"no helm in DEPLOYMENT_TOOLS, build/deployment or the PATH; {HOW}")
    return program


@pytest.fixture(scope="session")
def schemas() -> None:
    """The JSON schemas of Kubernetes are there."""
    if not have_schemas():
        pytest.skip("no Kubernetes schemas; run tools/build_deployment_tools.py")
