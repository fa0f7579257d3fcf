"""Writes requirements.lock and requirements-dev.lock: exact versions with hashes, no addresses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Locked by `make lock` from pyproject.toml; install with pip --require-hashes.\n"


def compile_lock(target: str, *arguments: str) -> None:
    command = [
        *(sys.executable, "-m", "piptools", "compile", "--quiet", "--upgrade", "--generate-hashes"),
        *("--allow-unsafe", "--strip-extras", "--no-emit-index-url", "--no-emit-trusted-host"),
        *("--no-header", "--no-annotate", "--output-file", target, *arguments, "pyproject.toml"),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    path = ROOT / target
    lines = [line for line in path.read_text().splitlines() if not line.startswith("--")]
    text = HEADER + "\n".join(line for line in lines if not re.match(r"\s*#", line)) + "\n"
    path.write_text(text)


if __name__ == "__main__":
    compile_lock("requirements.lock")
    compile_lock("requirements-dev.lock", "--extra", "dev")
