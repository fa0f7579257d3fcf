"""The keys of all labels, without their prefix.

Labels of a kind of device have the prefix ``gpu.``, or ``mig-PROFILE.`` for MIG devices under the
strategy ``mixed``.
"""

from __future__ import annotations

PREFIX = "nvidia.com/"

TIMESTAMP = "gfd.timestamp"
MACHINE = "gpu.machine"

DRIVER_FULL = "cuda.driver-version.full"
DRIVER_MAJOR = "cuda.driver-version.major"
DRIVER_MINOR = "cuda.driver-version.minor"
DRIVER_REVISION = "cuda.driver-version.revision"
OLD_DRIVER_MAJOR = "cuda.driver.major"
OLD_DRIVER_MINOR = "cuda.driver.minor"
OLD_DRIVER_REVISION = "cuda.driver.rev"
CUDA_FULL = "cuda.runtime-version.full"
CUDA_MAJOR = "cuda.runtime-version.major"
CUDA_MINOR = "cuda.runtime-version.minor"
OLD_CUDA_MAJOR = "cuda.runtime.major"
OLD_CUDA_MINOR = "cuda.runtime.minor"

MIG_CAPABLE = "mig.capable"
MIG_STRATEGY = "mig.strategy"
MPS_CAPABLE = "mps.capable"
MODE = "gpu.mode"
CLIQUE = "gpu.clique"

GPU = "gpu"
"""The first part of the keys of GPUs."""
PRODUCT = "product"
COUNT = "count"
REPLICAS = "replicas"
SHARING_STRATEGY = "sharing-strategy"
MEMORY = "memory"
FAMILY = "family"
COMPUTE_MAJOR = "compute.major"
COMPUTE_MINOR = "compute.minor"
MULTIPROCESSORS = "multiprocessors"
SLICES_GI = "slices.gi"
SLICES_CI = "slices.ci"
ENGINES_COPY = "engines.copy"
ENGINES_DECODER = "engines.decoder"
ENGINES_ENCODER = "engines.encoder"
ENGINES_JPEG = "engines.jpeg"
ENGINES_OFA = "engines.ofa"

VGPU_PRESENT = "vgpu.present"
VGPU_VERSION = "vgpu.host-driver-version"
VGPU_BRANCH = "vgpu.host-driver-branch"


def of(kind: str, name: str) -> str:
    """The key of a kind of device: ``gpu.count``."""
    return f"{kind}.{name}"


def mig_kind(profile: str) -> str:
    """The first part of the keys of MIG devices of a profile, given as `label_profile` has it."""
    return f"mig-{profile}"
