"""Files for OpenGL, EGL, Vulkan and X.Org (nvidia-container-toolkit v1.19.1, `graphics.go`)."""

from __future__ import annotations

from gpu_device_plugin.cdi.driver import Driver
from gpu_device_plugin.cdi.edits import STANDARD_OPTIONS, find, mounts
from gpu_device_plugin.cdi.links import graphics_links
from gpu_device_plugin.cdi.locate import search
from gpu_device_plugin.cdi.match import matches
from gpu_device_plugin.cdi.model import ContainerEdits, Mount
from gpu_device_plugin.cdi.paths import base, join
from gpu_device_plugin.cdi.scan import Scan

_ALLOCATOR = "libnvidia-allocator.so.*.*"
_MODULES = ("drivers", "extensions", "updates/drivers", "updates/extensions")
_XORG_LIBRARIES = ("/usr/lib/xorg", "/usr/lib64/xorg", "/usr/X11R6/lib", "/usr/X11R6/lib64")
_CONFIGS = (
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
)
_VULKAN = (
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
)
_VULKAN_OF_MACHINE = {
    "x86_64": ("vulkan/icd.d/nvidia_icd.x86_64.json",),
    "aarch64": ("vulkan/icd.d/nvidia_icd.aarch64.json",),
}
_XDG_DEFAULT = "/usr/local/share:/usr/share"


def graphics_edits(scan: Scan, driver: Driver) -> ContainerEdits:
    """What containers need of the driver for graphics."""
    libraries = _libraries(scan, driver)
    modules = _xorg_modules(scan, driver)
    links = graphics_links([*libraries, *modules], scan.notes)
    # The allocator's link is wanted here, but the library is one of the driver's own.
    own = [path for path in libraries if not matches(_ALLOCATOR, base(path))]
    return ContainerEdits(
        mounts=(
            *mounts(scan.driver, own),
            *mounts(scan.driver, modules),
            *_configs(scan),
            *_vulkan(scan),
        ),
        hooks=scan.hooks.create_symlinks(links),
    )


def _libraries(scan: Scan, driver: Driver) -> list[str]:
    patterns = (
        "libnvidia-egl-gbm.so.*.*",
        "libnvidia-egl-wayland.so.*.*",
        "libnvidia-egl-wayland2.so.*.*",
        f"libnvidia-allocator.so.{driver.pattern}",
        f"libnvidia-vulkan-producer.so.{driver.pattern}",
    )
    return find(scan.driver, scan.libraries, patterns, scan.notes)


def _xorg_modules(scan: Scan, driver: Driver) -> list[str]:
    directories = [
        join(driver.directory, "nvidia/xorg"),
        *(join(driver.directory, "xorg/modules", module) for module in _MODULES),
        *(join(library, "modules", module) for library in _XORG_LIBRARIES for module in _MODULES),
    ]
    patterns = ("nvidia_drv.so", f"libglxserver_nvidia.so.{driver.pattern}")
    return find(scan.driver, search(scan.driver, directories, count=1), patterns, scan.notes)


def _config_directories(scan: Scan) -> list[str]:
    shared = scan.system.xdg_data_dirs or _XDG_DEFAULT
    return ["/etc", *(entry for entry in shared.split(":") if entry)]


def _configs(scan: Scan) -> tuple[Mount, ...]:
    locate = search(scan.driver, _config_directories(scan))
    return mounts(scan.driver, find(scan.driver, locate, _CONFIGS, scan.notes))


def _vulkan(scan: Scan) -> tuple[Mount, ...]:
    directories = [*_config_directories(scan), "/"]
    locate = search(scan.driver, directories, count=1)
    found: list[Mount] = []
    for pattern in (*_VULKAN, *_VULKAN_OF_MACHINE.get(scan.system.machine, ())):
        for path in find(scan.driver, locate, (pattern,), scan.notes):
            # Wherever it was found, loaders in the container look in /etc.
            place = join("/etc", pattern)
            found.append(Mount(scan.driver.source(path), place, STANDARD_OPTIONS))
    return tuple(found)
