from __future__ import annotations

import pytest

from gpu_device_plugin.config.help import WIDTH, help_text
from gpu_device_plugin.config.options import PROGRAMS, Program


@pytest.mark.parametrize("program", list(Program))
def test_the_help_names_everything_in_lines_that_fit(program: Program) -> None:
    text = help_text(program)
    words = text.replace(",", " ").replace(".\n", "\n").replace(". ", " ").split()
    for option in PROGRAMS[program].options:
        for name in option.names:
            assert f"--{name}" in text or f"-{name}" in text
        assert set(option.env) <= set(words)
        assert set(option.allowed) <= set(words)
        assert not option.config_path or option.config_path in words
    assert max(map(len, text.splitlines())) <= WIDTH
    assert all(line == line.rstrip() for line in text.splitlines())
    assert text.endswith("\n")


def test_an_entry() -> None:
    assert """
Devices:
  --mig-strategy STRATEGY
        How MIG devices are offered: not at all; under the name of whole GPUs, if every
        GPU is cut into MIG devices of one profile; or under a resource name for each
        profile.
        One of: none, single, mixed. Default: none.
        Env: MIG_STRATEGY. File: flags.migStrategy.
  --fail-on-init-error[=BOOL]
        End with an error if the driver cannot be initialised, instead of idling.
        Default: true.
        Env: FAIL_ON_INIT_ERROR. File: flags.failOnInitError.
""" in help_text(Program.DEVICE_PLUGIN)


def test_defaults_are_as_a_user_would_write_them() -> None:
    text = help_text(Program.GPU_FEATURE_DISCOVERY)
    assert "  --sleep-interval DURATION\n" in text
    assert "Default: 1m0s." in text
    assert "  --output-file, --output, -o FILE\n" in text
    assert "  --kube-api-qps NUMBER\n" in text
    assert "Default: 5.\n" in text


def test_sub_commands() -> None:
    assert help_text(Program.MPS_CONTROL_DAEMON).startswith(
        "Usage: mps-control-daemon [OPTIONS]\n       mps-control-daemon [OPTIONS] mount-shm\n"
    )
    assert help_text(Program.MPS_CONTROL_DAEMON, "mount-shm") == (
        "Usage: mps-control-daemon [OPTIONS] mount-shm\n\n"
        "Prepare the shared memory of MPS at /mps/shm and exit.\n"
    )
