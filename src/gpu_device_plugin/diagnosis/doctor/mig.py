"""The check of MIG: settled, readable, and offered."""

from __future__ import annotations

from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome
from gpu_device_plugin.diagnosis.doctor.nvml import NVML_SECONDS, RESET, on_or_off, unasked
from gpu_device_plugin.hardware.nvml.facts import NvmlGpu


def check_mig(host: Host) -> Outcome:
    """Whether the state of MIG is settled, can be read, and fits the strategy."""
    silent = unasked(host)
    if silent is not None:
        return silent
    find = Findings()
    gpus = [gpu for gpu in host.nvml.gpus if gpu.mig_current or gpu.mig_pending or gpu.mig_error]
    if not gpus:
        return find.outcome("MIG is off on every GPU")
    config = host.usable_config()
    strategy = "none" if config is None else config.flags.mig_strategy or "none"
    find.saw(f"--mig-strategy={strategy}")
    for gpu in gpus:
        find.saw(
            f"GPU {gpu.index}: MIG {on_or_off(gpu.mig_current)}, pending {on_or_off(gpu.mig_pending)}, "
            f"MIG devices: {'?' if gpu.mig_devices is None else gpu.mig_devices}"
        )
        _check_mig_of(gpu, find)
    if strategy == "none" and any(gpu.mig_devices for gpu in gpus):
        find.warn(
            "there are MIG devices, and --mig-strategy=none does not offer them",
            "--mig-strategy=mixed or single (MIG_STRATEGY; Helm: migStrategy)",
        )
    return find.outcome(f"on for {len(gpus)} of {host.nvml.count}, strategy {strategy}")


def _check_mig_of(gpu: NvmlGpu, find: Findings) -> None:
    if "ermission" in gpu.mig_error:
        find.fail(
            f"GPU {gpu.index}: its MIG devices may not be read: {gpu.mig_error}",
            "NVIDIA_MIG_MONITOR_DEVICES=all and the capability SYS_ADMIN for the plugin's "
            "container, or run it as root on the host",
        )
    elif gpu.mig_error:
        find.fail(f"GPU {gpu.index}: its MIG devices cannot be read: {gpu.mig_error}")
    elif gpu.mig_pending is not None and gpu.mig_current != gpu.mig_pending:
        find.warn(
            f"GPU {gpu.index}: MIG is {on_or_off(gpu.mig_current)} and will be "
            f"{on_or_off(gpu.mig_pending)} after a reset",
            f"{RESET} {gpu.index}",
        )
    elif gpu.mig_devices == 0:
        find.warn(
            f"GPU {gpu.index}: MIG is on and nothing is cut: it cannot be used",
            f"nvidia-smi mig -i {gpu.index} -lgip, then nvidia-smi mig -i {gpu.index} -cgi "
            f"PROFILE -C; or nvidia-smi -i {gpu.index} -mig 0",
        )


CHECKS = (
    Check(
        "mig",
        Group.GPUS,
        "MIG: settled, readable, and offered",
        "operations.md#mig-reconfiguration",
        check_mig,
        seconds=NVML_SECONDS,
    ),
)
