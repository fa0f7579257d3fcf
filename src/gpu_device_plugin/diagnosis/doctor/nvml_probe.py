"""Asks NVML in a process of its own: a driver may hang in the kernel, or crash whoever asks.

The child writes JSON lines: ``{"step": …}`` before each thing that may hang, in the end
``{"facts": …}``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Gpu
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts, NvmlGpu, read_facts

SECONDS = 8.0
"""Longest time for all questions; a healthy driver needs some 20 ms for each GPU."""
GRACE_SECONDS = 0.5
"""How long a child that was killed is waited for; one that hangs in the kernel never ends."""
CHILD = """\
import sys
from gpu_device_plugin.diagnosis.doctor.nvml_probe import main
main(*sys.argv[1:])
"""


def probe_nvml(driver_root: str, chroot: str = "", seconds: float = SECONDS) -> NvmlFacts:
    """What NVML tells; whatever happens to the process that asks is in the answer.

    Args:
        driver_root: the root of the driver; with `chroot`, below that.
        chroot: a directory that the child makes its root first, if it may: then the driver's
            libraries and device nodes are those of the host.
        seconds: the time limit.
    """
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-P", "-c", CHILD, driver_root, chroot],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            output = b""
            with suppress(subprocess.TimeoutExpired):
                output, _ = child.communicate(timeout=GRACE_SECONDS)
            facts = replace(facts_of(output), hung_at=last_step(output) or "the first question")
            # The end of the block would wait for a child that hangs in the kernel.
            child.returncode = child.returncode or -signal.SIGKILL
            return facts
    facts = facts_of(output)
    if child.returncode:
        return replace(facts, crash=f"{_how(child.returncode)} in {last_step(output) or 'Python'}")
    return facts


def facts_of(output: bytes) -> NvmlFacts:
    """What the child has found out; nothing if it did not get that far."""
    for record in _records(output):
        if "facts" in record:
            return NvmlFacts.from_dict(record["facts"])
    return NvmlFacts()


def last_step(output: bytes) -> str:
    """What the child was doing last; empty if it had not begun."""
    steps = [str(record["step"]) for record in _records(output) if "step" in record]
    return steps[-1] if steps else ""


def _records(output: bytes) -> list[dict[str, Any]]:
    found = list[Any]()
    for line in output.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [record for record in found if isinstance(record, dict)]


def _how(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def main(driver_root: str, chroot: str = "") -> None:
    """The child: asks and writes down."""
    # Cannot be found any more once the root is another.
    import gpu_device_plugin.hardware.nvml.facts_gpu  # noqa: PLC0415
    import gpu_device_plugin.hardware.nvml.library  # noqa: F401, PLC0415

    if chroot:
        # Without the right to do so, NVML is asked with the devices that are seen from here.
        try:
            os.chroot(chroot)
            os.chdir("/")
        except OSError:
            driver_root = os.path.join(chroot, driver_root.lstrip("/"))
    facts = read_facts(driver_root, lambda step: _write({"step": step}))
    _write({"facts": facts.to_dict()})


def _write(record: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def simulated_facts(open_backend: Callable[[], Backend]) -> NvmlFacts:
    """What a simulated node tells of itself; what it does not simulate is not known."""
    facts = NvmlFacts(library="(simulated)")
    try:
        inventory = open_backend().read()
    except UserError as error:
        return replace(facts, init_error=error.message)
    gpus = [_simulated(gpu) for gpu in inventory.gpus]
    gpus += [NvmlGpu(gone.index, error=gone.reason) for gone in inventory.unreadable]
    return replace(
        facts,
        driver_version=inventory.driver_version,
        cuda_driver_version=inventory.cuda_driver_version,
        count=len(gpus),
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
    )


def _simulated(gpu: Gpu) -> NvmlGpu:
    return NvmlGpu(
        gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        bus_id=gpu.pci_bus_id,
        mig_current=gpu.mig_enabled,
        mig_pending=gpu.mig_enabled,
        mig_devices=len(gpu.mig_devices) if gpu.mig_enabled else None,
        mig_error=gpu.mig_problem,
    )
