"""Hooks of the NVIDIA container toolkit (v1.19.1, `internal/discover/hooks.go`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_device_plugin.cdi.model import Hook
from gpu_device_plugin.cdi.paths import base, clean

CREATE_SYMLINKS = "create-symlinks"
ENABLE_CUDA_COMPAT = "enable-cuda-compat"
UPDATE_LDCACHE = "update-ldcache"
DISABLE_NODE_MODIFICATION = "disable-device-node-modification"

ALL = "all"
"""In the list of disabled hooks: every hook."""

KNOWN = frozenset(
    {
        CREATE_SYMLINKS,
        ENABLE_CUDA_COMPAT,
        UPDATE_LDCACHE,
        DISABLE_NODE_MODIFICATION,
        "chmod",
        "update-application-profile",
    }
)
"""Names that the toolkit knows; the last two are never made here: ``chmod`` is off by default in
v1.19.1, the other one is newer."""

LINK_SEPARATOR = "::"
"""Between target and path of a link in the arguments of ``create-symlinks``."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Makes the hooks that are not disabled."""

    path: str
    """The program on the host."""
    disabled: frozenset[str] = frozenset()

    def make(self, name: str, *arguments: str) -> tuple[Hook, ...]:
        """The hook, or nothing if it is disabled."""
        if name in self.disabled or ALL in self.disabled:
            return ()
        program = base(clean(self.path))
        prefix = (program, "hook") if program == "nvidia-ctk" else (program,)
        return (
            Hook(
                hook_name="createContainer",
                path=self.path,
                args=(*prefix, name, *arguments),
                env=("NVIDIA_CTK_DEBUG=false",),
            ),
        )

    def create_symlinks(self, links: Iterable[str]) -> tuple[Hook, ...]:
        """Makes links in the container, ``TARGET::LINK`` each; nothing without links."""
        arguments = [argument for link in links for argument in ("--link", link)]
        return self.make(CREATE_SYMLINKS, *arguments) if arguments else ()

    def update_ldcache(self, folders: Iterable[str]) -> tuple[Hook, ...]:
        """Runs ldconfig in the container for these directories, also if there are none."""
        arguments = [argument for folder in folders for argument in ("--folder", folder)]
        return self.make(UPDATE_LDCACHE, *arguments)

    def enable_cuda_compat(
        self, driver_version: str = "", cuda_version: str = "", container_root: str = ""
    ) -> tuple[Hook, ...]:
        """Lets a newer CUDA of the image use its compatibility libraries on this driver."""
        options = {
            "--host-driver-version": "" if "*" in driver_version else driver_version,
            "--host-cuda-version": cuda_version,
            "--cuda-compat-container-root": container_root,
        }
        return self.make(ENABLE_CUDA_COMPAT, *(f"{k}={v}" for k, v in options.items() if v))
