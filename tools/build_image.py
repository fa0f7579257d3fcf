"""Builds the image: by podman, buildah or docker where there is one, else without, as an archive.

    python tools/build_image.py            # what there is
    python tools/build_image.py docker     # this one
    python tools/build_image.py archive    # build/gpu-device-plugin-v<version>.tar

IMAGE in the environment names the repository instead of gpu-device-plugin.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from build_oci import NAME, ROOT, version

ENGINES = ("podman", "buildah", "docker")
TARGETS = {"nonroot": "", "root": "-root"}
"""Stage of the Dockerfile: suffix of the tag."""


def main(arguments: list[str]) -> int:
    found = next((engine for engine in ENGINES if works(engine)), "archive")
    engine = arguments[0] if arguments else found
    if engine not in {*ENGINES, "archive"} or len(arguments) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    print(f"building with {engine}", flush=True)
    if engine == "archive":
        return build_archive()
    for target, suffix in TARGETS.items():
        build(engine, target, f"{os.environ.get('IMAGE', NAME)}:v{version()}{suffix}")
    return 0


def works(engine: str) -> bool:
    """Whether it is there; a client of docker alone is of no use."""
    if shutil.which(engine) is None:
        return False
    return subprocess.run([engine, "info"], capture_output=True, check=False).returncode == 0


def build(engine: str, target: str, tag: str) -> None:
    subprocess.run(
        [
            *(engine, "build", "--target", target, "--tag", tag),
            *("--build-arg", f"VERSION={version()}", "--build-arg", f"COMMIT={commit()}", "."),
        ],
        cwd=ROOT,
        check=True,
    )
    print(f"built {tag}")


def build_archive() -> int:
    rootfs = ROOT / "build" / "rootfs"
    archive = ROOT / "build" / f"{NAME}-v{version()}.tar"
    environ = {**os.environ, "COMMIT": commit()}
    tools = Path(__file__).parent
    for command in (
        [str(tools / "build_rootfs.py"), str(rootfs)],
        [str(tools / "build_oci.py"), str(rootfs), str(archive)],
    ):
        code = subprocess.run([sys.executable, *command], env=environ, check=False).returncode
        if code:
            return code
    return 0


def commit() -> str:
    """That of the work tree, empty outside a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
