from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import nvmlsim
from support.labels import gfd_config, published

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware import cuda, node_facts
from gpu_device_plugin.hardware.cuda import read_cuda_inventory
from gpu_device_plugin.hardware.node_facts import CudaSource
from gpu_device_plugin.labels.model import Facts

SOURCE = """
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
static int fails(const char *name) {
    const char *which = getenv("CUDASIM_FAILS");
    return which && !strcmp(which, name) ? 999 : 0;
}
int cuInit(unsigned flags) { return fails("cuInit"); }
int cuDriverGetVersion(int *v) { *v = 12100; return fails("cuDriverGetVersion"); }
int cuDeviceGetCount(int *n) { *n = 1; return fails("cuDeviceGetCount"); }
int cuDeviceGet(int *d, int n) { *d = n; return fails("cuDeviceGet"); }
int cuDeviceGetName(char *s, int n, int d) {
    strncpy(s, "Orin (nvgpu)", n); return fails("cuDeviceGetName");
}
#ifndef OLD
int cuDeviceTotalMem_v2(size_t *m, int d) { *m = 30697ull << 20; return fails("cuDeviceTotalMem_v2"); }
#endif
int cuDeviceGetAttribute(int *v, int a, int d) {
    *v = a == 75 ? 8 : 7; return fails("cuDeviceGetAttribute");
}
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if nvmlsim.COMPILER is None:
        pytest.skip("no C compiler to build a CUDA library with")
    directory = tmp_path_factory.mktemp("cuda")
    source = directory / "cuda.c"
    source.write_text(SOURCE)
    made = {}
    for name, flags in (("new", ()), ("old", ("-DOLD",))):
        made[name] = str(directory / f"libcuda-{name}.so.1")
        command = [nvmlsim.COMPILER, "-shared", "-fPIC", *flags, "-o", made[name], str(source)]
        subprocess.run(command, check=True)
    return made


def labels_of(library: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    read = read_cuda_inventory
    monkeypatch.setattr(cuda, "read_cuda_inventory", lambda: read(library))
    return published(gfd_config("single"), Facts(CudaSource().read()))


def test_an_integrated_gpu_is_labelled(
    libraries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = labels_of(libraries["new"], monkeypatch)

    assert labels["gpu.product"] == "Orin-nvgpu"
    assert labels["gpu.memory"] == "30697"
    assert (labels["gpu.compute.major"], labels["gpu.compute.minor"]) == ("8", "7")
    assert labels["gpu.mode"] == "unknown"
    assert labels["mig.strategy"] == "single"
    assert labels["cuda.runtime-version.full"] == "12.10"
    assert labels["cuda.driver-version.full"] == "unknown.unknown.unknown"


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        ("cuDeviceGetName", "gpu.product"),
        ("cuDriverGetVersion", "cuda.runtime-version.full"),
        ("cuDeviceTotalMem_v2", "gpu.memory"),
        ("cuDeviceGetAttribute", "gpu.family"),
    ],
)
def test_what_a_device_does_not_tell_is_left_out(
    libraries: dict[str, str], monkeypatch: pytest.MonkeyPatch, function: str, missing: str
) -> None:
    monkeypatch.setenv("CUDASIM_FAILS", function)
    labels = labels_of(libraries["new"], monkeypatch)

    assert missing not in labels
    assert labels["gpu.replicas"] == "1"


def test_a_function_that_the_library_lacks_is_one_that_fails(
    libraries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "gpu.memory" not in labels_of(libraries["old"], monkeypatch)


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetCount", "cuDeviceGet"])
def test_a_driver_that_cannot_be_used_is_told(
    libraries: dict[str, str], monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("CUDASIM_FAILS", function)

    with pytest.raises(InitError, match=f"CUDA.*{function} gives error 999"):
        read_cuda_inventory(libraries["new"])


def test_a_library_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(InitError, match="cannot load CUDA"):
        read_cuda_inventory(str(tmp_path / "libcuda.so.1"))


def test_the_strategy_chooses_the_source() -> None:
    names = {s: node_facts.open_source(s).name for s in ("nvml", "tegra", "vfio", "auto", "")}

    assert names == {"nvml": "nvml", "tegra": "tegra", "vfio": "vfio", "auto": "auto", "": "auto"}
    assert node_facts.open_source("vfio", "t4x4").name == "simulated"
