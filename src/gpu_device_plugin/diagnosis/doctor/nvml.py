"""Checks of what NVML tells: whether it works, which GPUs there are, and how they are."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.driver import RELOAD_MODULE, module_version
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.diagnosis.doctor.pci import find_gpus, is_tegra, needs_driver
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts, NvmlGpu
from gpu_device_plugin.hardware.nvml.recovery import ACTIONS

NO_NVML = "NVML tells nothing of GPUs: see the check nvml"
NVML_SECONDS = 15.0
"""More than the process that asks NVML is given."""
RESET = "drain the GPU's pods, then: nvidia-smi --gpu-reset -i"

ADVICE: dict[int, tuple[str, ...]] = {
    4: ("run as root, or give the container the device nodes of the driver",),
    9: ("modprobe nvidia; dmesg | grep -i nvrm",),
    12: ("NVIDIA_DRIVER_CAPABILITIES=compute,utility for the container",),
    15: ("dmesg | grep -i xid; reboot the node",),
    18: (RELOAD_MODULE, "then restart the plugin's pod, so that it gets the new libraries"),
}
"""What to do about an error of the initialisation, by NVML's number (nvmlReturn_t)."""
VERSION_MISMATCH = 18
CANNOT = "NVML cannot be initialised: "


def check_nvml(host: Host) -> Outcome:
    """Whether NVML can be loaded and initialised, and answers."""
    facts = host.nvml
    find = Findings()
    find.saw(f"library: {facts.library or 'not reached'}")
    if facts.driver_version or facts.nvml_version:
        find.saw(f"driver {facts.driver_version or '?'}, NVML {facts.nvml_version or '?'}")
    if facts.load_error and not host.simulated and not needs_driver(host):
        reason = f"no NVML, and no sign of an NVIDIA GPU on this machine: {facts.load_error}"
        return not_checked(reason)
    if facts.load_error and is_tegra(host):
        return not_checked("a Tegra may be without NVML; the plugin does not need it there")
    _tell_problem(host, facts, find)
    cuda = facts.cuda_driver_version
    version = f"driver {facts.driver_version}"
    return find.outcome(f"{version}, CUDA {cuda // 1000}.{cuda % 1000 // 10}" if cuda else version)


def _tell_problem(host: Host, facts: NvmlFacts, find: Findings) -> None:
    if facts.load_error:
        find.fail(
            f"NVML cannot be loaded: {one_line(facts.load_error)}",
            "see driver-files; in a container: runtimeClassName: nvidia, "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    elif facts.init_code == VERSION_MISMATCH:
        module = module_version(host)
        find.saw(f"kernel module {module or '?'}")
        find.fail(
            f"the driver's library ({facts.nvml_version or '?'}) does not match the loaded kernel "
            f"module ({module or '?'}): {facts.init_error}",
            *ADVICE[VERSION_MISMATCH],
        )
    elif facts.init_error:
        steps = ADVICE.get(facts.init_code, ("nvidia-smi and dmesg | grep -i nvrm on the node",))
        text = one_line(facts.init_error.removeprefix(CANNOT))
        find.fail(CANNOT + text, *steps)
    elif facts.crash:
        find.fail(
            f"NVML crashes whoever asks it: {facts.crash}",
            "dmesg | tail -50; install the driver anew: its libraries are damaged, or do not fit",
        )
    elif facts.hung_at:
        find.fail(
            f"NVML hangs: no answer to {facts.hung_at}",
            "dmesg | grep -i -e xid -e nvrm; a GPU that hangs needs a reset or a reboot of the node",
        )
    elif facts.count_error:
        find.fail(f"NVML cannot count the GPUs: {facts.count_error}", "nvidia-smi on the node")


def unasked(host: Host) -> Outcome | None:
    """That nothing can be told of GPUs; None if it can."""
    facts = host.nvml
    if facts.problem:
        return not_checked(NO_NVML)
    if not facts.gpus:
        return not_checked("NVML lists no GPU")
    return None


def check_gpus(host: Host) -> Outcome:
    """Whether each GPU can be read, and none is missing."""
    facts = host.nvml
    if facts.problem:
        return not_checked(NO_NVML)
    find = Findings()
    for gpu in facts.gpus:
        find.saw(f"GPU {gpu.index}: {gpu.error or f'{gpu.name} {gpu.uuid} {gpu.bus_id}'}")
        if gpu.error:
            find.fail(
                f"GPU {gpu.index} cannot be read: {gpu.error}",
                "dmesg | grep -i xid: a GPU that has fallen off the bus (XID 79) needs a reset "
                "of the node, and mostly a look at power, cables and temperature",
                "reload the plugin afterwards: kubectl delete pod, or SIGHUP",
            )
    on_bus = None if host.simulated else find_gpus(host)
    if on_bus is not None:
        usable = [gpu for gpu in on_bus if gpu.driver != "vfio-pci"]
        find.saw(f"{len(usable)} on the PCI bus without those of virtual machines")
        if len(usable) > facts.count and not (host.is_container and host.host_root == "/"):
            find.fail(
                f"NVML lists {facts.count} GPUs, the PCI bus has {len(usable)}",
                "dmesg | grep -i -e nvrm -e xid; nvidia-smi -L",
            )
        elif len(usable) > facts.count:
            find.warn(
                f"this container sees {facts.count} of the node's {len(usable)} GPUs",
                "NVIDIA_VISIBLE_DEVICES=all for the plugin's container",
            )
    names = sorted({gpu.name for gpu in facts.gpus if not gpu.error})
    return find.outcome(f"{facts.count} GPUs: {', '.join(names)}" if names else "NVML lists no GPU")


def check_memory(host: Host) -> Outcome:
    """Whether memory errors wait for a reset, or the driver asks for one."""
    silent = unasked(host)
    if silent is not None:
        return silent
    find = Findings()
    for gpu in host.nvml.gpus:
        if not gpu.error:
            find.saw(
                f"GPU {gpu.index}: ECC {on_or_off(gpu.ecc_current)} (pending {on_or_off(gpu.ecc_pending)}), "
                f"row remapping pending {_yes(gpu.remap_pending)}, failed "
                f"{_yes(gpu.remap_failed)}, page retirement pending {_yes(gpu.retired_pending)}, "
                f"recovery action {'?' if gpu.recovery_action is None else gpu.recovery_action}"
            )
            for text, is_failure, step in _ills(gpu):
                (find.fail if is_failure else find.warn)(f"GPU {gpu.index}: {text}", step)
    known = [gpu for gpu in host.nvml.gpus if gpu.ecc_current is not None]
    if not known and not find.problems:
        return not_checked("the driver tells nothing of memory errors", evidence=(*find.evidence,))
    return find.outcome("no pending repairs, no recovery action")


def _ills(gpu: NvmlGpu) -> Iterator[tuple[str, bool, str]]:
    """What is wrong with a GPU, whether that is fatal, and what to do."""
    reset = f"{RESET} {gpu.index}"
    if gpu.recovery_action:
        needs = ACTIONS.get(gpu.recovery_action, f"recovery action {gpu.recovery_action}")
        yield f"the driver asks for {needs}", True, f"drain it; nvidia-smi -q -i {gpu.index}"
    if gpu.remap_failed:
        step = "replace the GPU: nvidia-smi -q -d ROW_REMAPPER is what its maker asks for"
        yield "rows of its memory could not be replaced", True, step
    if gpu.remap_pending:
        yield "rows of its memory are replaced at the next reset", False, reset
    if gpu.retired_pending:
        yield "pages of its memory are taken out of use at the next reset", False, reset
    if gpu.ecc_pending is not None and gpu.ecc_current != gpu.ecc_pending:
        change = f"ECC is {on_or_off(gpu.ecc_current)} and will be {on_or_off(gpu.ecc_pending)} after a reset"
        yield change, False, reset


def check_persistence(host: Host) -> Outcome:
    """Whether the driver stays loaded while nobody uses the GPUs."""
    silent = unasked(host)
    if silent is not None:
        return silent
    find = Findings()
    known = [gpu for gpu in host.nvml.gpus if gpu.persistence is not None]
    if not known:
        return not_checked("the driver does not tell")
    off = [str(gpu.index) for gpu in known if not gpu.persistence]
    for gpu in known:
        find.saw(f"GPU {gpu.index}: persistence mode {on_or_off(gpu.persistence)}")
    if off:
        find.warn(
            f"persistence mode is off for GPU {', '.join(off)}: each start of a container waits "
            "for the driver, and settings such as ECC counters and MIG may get lost",
            "systemctl enable --now nvidia-persistenced, or: nvidia-smi -pm 1",
        )
    return find.outcome("on for every GPU")


def check_links(host: Host) -> Outcome:
    """Whether each GPU uses all lanes of PCIe that it could."""
    silent = unasked(host)
    if silent is not None:
        return silent
    find = Findings()
    known = [gpu for gpu in host.nvml.gpus if gpu.link_width and gpu.link_width_most]
    if not known:
        return not_checked("the driver does not tell")
    for gpu in known:
        find.saw(f"GPU {gpu.index}: {gpu.link_width} of {gpu.link_width_most} lanes, {gpu.bus_id}")
        if (gpu.link_width or 0) < (gpu.link_width_most or 0):
            find.warn(
                f"GPU {gpu.index} uses {gpu.link_width} of {gpu.link_width_most} lanes of PCIe",
                f"lspci -vv -s {gpu.bus_id.lower()} | grep -i lnk; seat card and riser anew; "
                "look for a slot or firmware setting with fewer lanes",
            )
    return find.outcome(f"full width for {len(known)} GPUs")


def on_or_off(value: bool | None) -> str:
    """A mode in words."""
    return "?" if value is None else "on" if value else "off"


def _yes(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"


CHECKS = (
    Check(
        "nvml",
        Group.GPUS,
        "NVML loads, initialises and answers; library and kernel module match",
        "operations.md#driver-upgrades",
        check_nvml,
        seconds=NVML_SECONDS,
    ),
    Check(
        "gpu-list",
        Group.GPUS,
        "every GPU can be read, and none is missing",
        "operations.md#troubleshooting-by-symptom",
        check_gpus,
        seconds=NVML_SECONDS,
    ),
    Check(
        "gpu-memory",
        Group.GPUS,
        "ECC, row remapping, retired pages, recovery action: nothing waits for a reset",
        "operations.md#recovery",
        check_memory,
        real=True,
        seconds=NVML_SECONDS,
    ),
    Check(
        "persistence",
        Group.GPUS,
        "persistence mode is on",
        "doctor.md#persistence",
        check_persistence,
        real=True,
        seconds=NVML_SECONDS,
    ),
    Check(
        "pcie",
        Group.GPUS,
        "each GPU has all its lanes of PCIe",
        "doctor.md#pcie",
        check_links,
        real=True,
        seconds=NVML_SECONDS,
    ),
)
