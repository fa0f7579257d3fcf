"""The options of mps-control-daemon (k8s-device-plugin v0.19.3, cmd/mps-control-daemon)."""

from __future__ import annotations

from gpu_device_plugin.config import options_shared as shared
from gpu_device_plugin.config.option import Command, Kind, Option, Program, ProgramSpec

MPS_CONTROL_DAEMON = ProgramSpec(
    program=Program.MPS_CONTROL_DAEMON,
    title="NVIDIA MPS Control Daemon",
    summary="Runs and watches the MPS daemons of shared GPUs.",
    options=(
        shared.MIG_STRATEGY,
        shared.SIMULATE,
        Option(
            name="mps-control-binary",
            kind=Kind.TEXT,
            default="nvidia-cuda-mps-control",
            env=("MPS_CONTROL_BINARY",),
            metavar="FILE",
            help=(
                "NVIDIA's control program: its path, or a name to be looked up in PATH. "
                "Empty: the default."
            ),
            ours=True,
        ),
        shared.CONFIG_FILE,
        *shared.LISTENER_OPTIONS,
        shared.LOG_FORMAT,
        shared.LOG_LEVEL,
        shared.HELP,
        shared.VERSION,
    ),
    commands=(Command("mount-shm", "Prepare the shared memory of MPS at /mps/shm and exit."),),
)
