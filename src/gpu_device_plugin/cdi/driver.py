"""The driver's libraries, binaries, firmware and sockets.

Sources: nvidia-container-toolkit v1.19.1, `pkg/nvcdi/driver-nvml.go`, `internal/lookup/root`,
`internal/discover/ipc.go` and `firmware.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_device_plugin.cdi.edits import IPC_OPTIONS, find, mounts
from gpu_device_plugin.cdi.hooks import DISABLE_NODE_MODIFICATION
from gpu_device_plugin.cdi.links import ldcache_folders, library_links
from gpu_device_plugin.cdi.locate import executables, resolved, search
from gpu_device_plugin.cdi.match import escape
from gpu_device_plugin.cdi.model import ContainerEdits, Mount
from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.options import EXPLICIT_LIBRARIES, NO_IPC
from gpu_device_plugin.cdi.paths import base, join, parent
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.errors import HardwareError

_ANY_VERSION = "*.*"
_LANDMARKS = ("libcuda.so.", "libnvidia-ml.so.")

_EXPLICIT = (
    "libEGL.so",
    "libGL.so",
    "libGLESv1_CM.so",
    "libGLESv2.so",
    "libGLX.so",
    "libGLdispatch.so",
    "libOpenCL.so",
    "libOpenGL.so",
    "libnvidia-api.so",
    "libnvidia-egl-xcb.so",
    "libnvidia-egl-xlib.so",
)
_SOCKETS = ("/nvidia-persistenced/socket", "/nvidia-fabricmanager/socket")
_MPS_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - CUDA MPS's own default
_BINARIES = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_FIRMWARE_PARAMETER = "/sys/module/firmware_class/parameters/path"
_MAX_PARAMETER = 4096


@dataclass(frozen=True, slots=True)
class Driver:
    """Which driver is below the root."""

    version: str
    directory: str
    """Of its libraries, below the driver root, without links."""

    @property
    def pattern(self) -> str:
        """The version as a pattern that matches only it."""
        return escape(self.version)


def find_driver(scan: Scan) -> Driver:
    """Finds the driver of the version that NVML tells; without one, the first driver there is.

    Raises:
        HardwareError: there is none, or the library of that version is a link to another.
    """
    expected = scan.inventory.driver_version
    suffix = escape(expected) if expected else _ANY_VERSION
    for landmark in _LANDMARKS:
        paths = scan.libraries(landmark + suffix)
        if not paths:
            continue
        version = base(paths[0]).removeprefix(landmark)
        where = scan.driver.outer(paths[0])
        if expected and version != expected:
            raise HardwareError(f"{where}: not the library of the running driver {expected}")
        if not version or version == _ANY_VERSION:
            raise HardwareError(f"{where}: its name does not tell the driver's version")
        return Driver(version, parent(paths[0]))
    names = " nor ".join(landmark + (expected or "VERSION") for landmark in _LANDMARKS)
    raise HardwareError(
        f"{scan.roots.driver}: holds neither {names}",
        "the driver root must be that of the driver that is loaded",
    )


def driver_edits(scan: Scan, driver: Driver) -> ContainerEdits:
    """What every container needs of the driver, graphics aside."""
    libraries = versioned_libraries(scan, driver) + explicit_libraries(scan, driver)
    return ContainerEdits(
        env=(f"NVIDIA_CTK_LIBCUDA_DIR={driver.directory}",),
        mounts=(*libraries, *sockets(scan), *firmware(scan, driver), *binaries(scan)),
        hooks=(
            *scan.hooks.create_symlinks(library_links(scan.driver, libraries, scan.notes)),
            *scan.hooks.enable_cuda_compat(driver_version=driver.version),
            *scan.hooks.update_ldcache(ldcache_folders(libraries)),
            *scan.hooks.make(DISABLE_NODE_MODIFICATION),
        ),
    )


def versioned_libraries(scan: Scan, driver: Driver) -> tuple[Mount, ...]:
    """Every file ``*.so.VERSION`` in the library directory and its ``vdpau``, where it really is.

    It need not be a library, and none is no error.
    """
    directories = (driver.directory, join(driver.directory, "vdpau"))
    locate = resolved(scan.driver, search(scan.driver, directories))
    return mounts(scan.driver, locate(f"*.so.{driver.pattern}"))


def explicit_libraries(scan: Scan, driver: Driver) -> tuple[Mount, ...]:
    """Libraries without the driver's version in their names, if the feature flag asks for them."""
    if not scan.flag(EXPLICIT_LIBRARIES):
        return ()
    locate = resolved(scan.driver, search(scan.driver, (driver.directory,)))
    return mounts(scan.driver, find(scan.driver, locate, _EXPLICIT, scan.notes))


def sockets(scan: Scan) -> tuple[Mount, ...]:
    """Sockets of the driver's daemons.

    The pipes of MPS are in a directory, which the original's filter for files does not let
    through; it looks for them all the same, and so do we, without a warning.
    """
    if scan.flag(NO_IPC):
        return ()
    in_run = search(scan.driver, ("/run", "/var/run"), count=1)
    paths = find(scan.driver, in_run, _SOCKETS, scan.notes)
    paths += search(scan.driver, ("/",))(_MPS_PIPES)
    return mounts(scan.driver, paths, IPC_OPTIONS)


def firmware(scan: Scan, driver: Driver) -> tuple[Mount, ...]:
    """GSP firmware in every directory where the kernel looks for firmware."""
    release = scan.system.kernel_release
    directories = [
        *_firmware_parameter(scan),
        f"/lib/firmware/updates/{release}",
        "/lib/firmware/updates",
        f"/lib/firmware/{release}",
        "/lib/firmware",
    ]
    pattern = f"nvidia/{driver.pattern}/gsp*.bin"
    locate = search(scan.driver, directories)
    return mounts(scan.driver, find(scan.driver, locate, (pattern,), scan.notes))


def binaries(scan: Scan) -> tuple[Mount, ...]:
    """The driver's programs, the first of each name."""
    locate = executables(scan.driver, scan.system.search_path)
    return mounts(scan.driver, find(scan.driver, locate, _BINARIES, scan.notes))


def _firmware_parameter(scan: Scan) -> list[str]:
    try:
        data = scan.host.read(_FIRMWARE_PARAMETER, _MAX_PARAMETER)
    except OSError as error:
        scan.notes.warn(f"{_FIRMWARE_PARAMETER}: not used: {reason(error)}")
        return []
    path = data.decode(errors="replace").strip()
    return [path] if path and path.isprintable() else []
