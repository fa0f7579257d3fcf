"""Which kind of system this is, and where its driver lies."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.backend import NvmlBackend, TegraBackend
from gpu_device_plugin.hardware.discover import discover
from gpu_device_plugin.hardware.mig_minors import MigMinors, parse_mig_minors, read_mig_minors
from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.hardware.nvml.library import NvmlLibrary
from gpu_device_plugin.hardware.nvml.mig import make_profile, memory_gib
from gpu_device_plugin.hardware.nvml.read import read_numa_node
from gpu_device_plugin.hardware.platform import Probes, has_tegra_files, probe
from gpu_device_plugin.hardware.roots import find_dev_root, find_library, join_root
from gpu_device_plugin.programs import device_plugin, mps_control_daemon


@pytest.mark.parametrize(
    ("dxcore", "nvml", "files", "integrated", "platform"),
    [
        (True, True, True, True, Platform.WSL),
        (False, False, True, False, Platform.TEGRA),
        (False, True, True, False, Platform.NVML),
        (False, True, False, True, Platform.TEGRA),
        (False, True, False, False, Platform.NVML),
        (False, False, False, False, Platform.UNKNOWN),
    ],
)
def test_the_platform_follows_from_the_probes(dxcore, nvml, files, integrated, platform):
    assert Probes(dxcore, nvml, files, integrated).platform is platform


def test_probes_are_described_in_one_line():
    assert Probes(False, True, False, False).describe() == (
        "libdxcore.so: no, libnvidia-ml.so.1: yes, Tegra system files: no, integrated GPU: no"
    )


def test_an_integrated_gpu_is_told_by_its_name(nvml_node):
    made = nvml_node("t4x4")
    made.profile.write_text("driver_version 540\n[gpu]\nuuid GPU-1\nname Orin (nvgpu)\n")

    got = probe(NvmlLibrary(str(made.root)), str(made.root))

    assert got.platform is Platform.TEGRA
    assert isinstance(discover("auto", str(made.root)), TegraBackend)


def test_dxcore_makes_a_wsl_backend_whatever_the_strategy(nvml_node, nvml_library):
    made = nvml_node("t4x4")
    os.symlink(nvml_library, made.root / "usr/lib64/libdxcore.so")

    for strategy in ("auto", "nvml"):
        backend = discover(strategy, str(made.root))
        assert isinstance(backend, NvmlBackend)
        assert backend.read().platform is Platform.WSL


@pytest.mark.parametrize(
    ("strategy", "name", "taken_for", "detected"),
    [
        ("tegra", "Tesla T4", Platform.TEGRA, Platform.NVML),
        ("nvml", "Orin (nvgpu)", Platform.NVML, Platform.TEGRA),
        ("auto", "Orin (nvgpu)", Platform.TEGRA, Platform.TEGRA),
    ],
)
def test_a_strategy_does_not_hide_what_the_machine_is(
    nvml_node, strategy, name, taken_for, detected
):
    made = nvml_node("t4x4")
    made.profile.write_text(f"driver_version 540\n[gpu]\nuuid GPU-1\nname {name}\n")

    got = discover(strategy, str(made.root)).read()

    assert (got.platform, got.detected) == (taken_for, detected)


@pytest.mark.usefixtures("no_nvml")
def test_nothing_found_is_told_with_what_was_looked_for(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        backend = discover("auto", str(tmp_path))

    assert isinstance(backend, NvmlBackend)
    for word in ("libnvidia-ml.so.1: no", "--device-discovery-strategy", "Container Toolkit"):
        assert word in caplog.text


@pytest.mark.usefixtures("no_nvml")
def test_a_program_without_flags_for_it_is_not_told_of_any(caplog):
    parsed = parse(Program.MPS_CONTROL_DAEMON, [], {})
    with caplog.at_level(logging.WARNING), pytest.raises(InitError) as error:
        mps_control_daemon.open_backend(parsed, Config()).read()

    assert "flags.deviceDiscoveryStrategy" in caplog.text
    assert "--" not in f"{caplog.text} {error.value}"


@pytest.mark.usefixtures("no_nvml")
def test_a_given_strategy_is_taken_as_it_is(tmp_path):
    backend = discover("tegra", str(tmp_path))

    assert isinstance(backend, TegraBackend)
    assert backend.read().platform is Platform.TEGRA
    assert not backend.is_loadable()


@pytest.mark.parametrize(
    ("strategy", "fail", "ends"),
    [
        ("mixed", "true", True),
        ("mixed", "false", False),
        ("single", "true", False),
        ("none", "true", False),
    ],
)
def test_on_a_tegra_mixed_needs_an_nvml_that_works(nvml_node, strategy, fail, ends):
    made = nvml_node("t4x4", "fail nvmlInit_v2 9")
    arguments = [
        "--device-discovery-strategy=tegra",
        f"--driver-root-ctr-path={made.root}",
        f"--mig-strategy={strategy}",
        f"--fail-on-init-error={fail}",
    ]
    parsed = parse(Program.DEVICE_PLUGIN, arguments, {})
    backend = device_plugin.open_backend(parsed, load(parsed).config)

    if ends:
        with pytest.raises(InitError, match="Driver Not Loaded"):
            backend.read()
    else:
        assert backend.read().platform is Platform.TEGRA


@pytest.mark.usefixtures("no_nvml")
def test_on_a_tegra_mixed_needs_no_nvml_where_there_is_none(tmp_path):
    backend = discover("tegra", str(tmp_path), tegra_needs_nvml=True)

    assert backend.read().platform is Platform.TEGRA


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("etc/nv_tegra_release", "", True),
        ("sys/devices/soc0/family", "Tegra\n", True),
        ("sys/devices/soc0/family", "TEGRA194", True),
        ("sys/devices/soc0/family", "Snapdragon", False),
        ("etc/other", "", False),
    ],
)
def test_tegra_files(tmp_path, path, text, found):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text)

    assert has_tegra_files(str(tmp_path)) is found


def test_a_directory_in_place_of_the_release_file_does_not_count(tmp_path):
    (tmp_path / "etc/nv_tegra_release").mkdir(parents=True)

    assert not has_tegra_files(str(tmp_path))


def test_libraries_are_looked_for_in_order_and_resolved(tmp_path):
    later = tmp_path / "lib/x86_64-linux-gnu"
    first = tmp_path / "usr/lib64"
    for directory in (later, first):
        directory.mkdir(parents=True)
    (later / "libx.so.1").write_text("")
    os.symlink("nowhere", first / "libx.so.1")

    assert find_library(str(tmp_path), "libx.so.1") == str(later / "libx.so.1")
    os.unlink(first / "libx.so.1")
    (first / "libx.so.1.2").write_text("")
    os.symlink("libx.so.1.2", first / "libx.so.1")
    assert find_library(str(tmp_path), "libx.so.1") == str(first / "libx.so.1.2")
    assert find_library(str(tmp_path), "liby.so.1") == "liby.so.1"
    assert find_library("/", "libx.so.1") == find_library("", "libx.so.1") == "libx.so.1"


def test_the_dev_root_is_the_driver_root_if_it_has_devices(tmp_path):
    assert find_dev_root(str(tmp_path)) == "/"
    (tmp_path / "dev").mkdir()
    assert find_dev_root(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize(
    ("root", "joined"),
    [
        ("/", "/dev/x"),
        ("", "/dev/x"),
        ("//", "/dev/x"),
        ("/run/nvidia/driver/", "/run/nvidia/driver/dev/x"),
        ("/a/../b", "/b/dev/x"),
        ("a", "a/dev/x"),
    ],
)
def test_paths_below_a_root_are_clean(root, joined):
    assert join_root(root, "/dev/x") == joined


@pytest.mark.parametrize(
    ("text", "node"), [("1\n", 1), ("0", 0), ("-1\n", None), ("one", None), ("", None)]
)
def test_numa_nodes(tmp_path, text, node):
    directory = tmp_path / "bus/pci/devices/0000:3b:00.0"
    directory.mkdir(parents=True)
    (directory / "numa_node").write_text(text)

    assert read_numa_node("00000000:3B:00.0", str(tmp_path)) == node
    assert read_numa_node("0000:3B:00.0", str(tmp_path)) == node


def test_a_numa_node_that_cannot_be_read_is_none(tmp_path):
    assert read_numa_node("00000000:3B:00.0", str(tmp_path)) is None
    assert read_numa_node("", str(tmp_path)) is None


TABLE = """config 1
monitor 2
gpu0/gi1/access 12
gpu0/gi1/ci0/access 13
gpu0/gi1/ci1/access 14
gpu7/gi0/access 948
gpu7/gi0/ci0/access x
nonsense
"""


def test_capability_nodes_are_read_from_the_drivers_table(tmp_path):
    (tmp_path / "mig-minors").write_text(TABLE)
    got = read_mig_minors(str(tmp_path / "mig-minors"))

    assert got.of(0, 1, 0) == (12, 13)
    assert got.of(0, 1, 1) == (12, 14)
    assert got.of(7, 0, 0) is None
    assert got.of(1, 1, 0) is None
    assert read_mig_minors(str(tmp_path / "absent")) == MigMinors()


@given(st.text())
def test_any_text_is_a_table_of_capability_nodes(text):
    assert isinstance(parse_mig_minors(text), MigMinors)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 31), st.integers(0, 14), st.none() | st.integers(0, 7)),
        st.integers(0, 9999),
    )
)
def test_tables_of_capability_nodes_come_back(minors):
    lines = [
        f"gpu{g}/gi{i}/access {m}" if c is None else f"gpu{g}/gi{i}/ci{c}/access {m}"
        for (g, i, c), m in minors.items()
    ]

    assert parse_mig_minors("\n".join(lines)).minors == minors


@pytest.mark.parametrize(
    ("slice_mib", "gpu_mib", "gib"),
    [
        (4864, 40960, 5),
        (9856, 40960, 10),
        (19968, 40960, 20),
        (40192, 40960, 40),
        (9856, 81559, 10),
        (80640, 81559, 80),
        (5952, 24576, 6),
        (11264, 97871, 12),
        (22144, 183359, 23),
        (24192, 97887, 24),
        (1, 0, 0),
    ],
)
def test_memory_in_profile_names(slice_mib, gpu_mib, gib):
    assert memory_gib(slice_mib, gpu_mib << 20) == gib


@pytest.mark.parametrize(
    ("number", "compute", "name"),
    [
        (0, 1, "1g.5gb"),
        (7, 1, "1g.5gb+me"),
        (10, 1, "1g.5gb+gfx"),
        (13, 1, "1g.5gb-me"),
        (15, 1, "1g.5gb+me.all"),
        (1, 1, "1c.2g.5gb"),
        (17, 3, "3g.5gb+gfx"),
    ],
)
def test_profile_names(number, compute, name):
    assert str(make_profile(number, compute, 4864, 40960 << 20)) == name
    assert Path(name).name == name
