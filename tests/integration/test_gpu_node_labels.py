"""``gpu-node labels`` as a program, beside the real gpu-feature-discovery."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import nvmlsim
from support.commands import ENVIRON, LIMIT, RUN, Done, gpu_node, run_program

from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.programs.commands.labels import OPTIONS_OF_DISCOVERY

RUN_DISCOVERY = "from gpu_device_plugin.programs.gpu_feature_discovery import main; main()"
CONFIG = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


def labels(*arguments: str, **environ: str) -> Done:
    return gpu_node("labels", *arguments, **environ)


def discover(file: Path, *arguments: str, **environ: str) -> str:
    """What gpu-feature-discovery writes into its file."""
    run_program(
        RUN_DISCOVERY,
        "--oneshot",
        "--no-timestamp",
        "--use-node-feature-api=false",
        f"--output-file={file}",
        *arguments,
        environ=environ,
    )
    return file.read_text()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "shared.yaml"
    path.write_text(CONFIG)
    return path


# ------------------------------------------------------------------ the same as the real program


@pytest.mark.parametrize(
    "arguments",
    [
        ("--simulate=t4x4",),
        ("--simulate=dgx-a100-mig", "--mig-strategy=mixed"),
        ("--simulate=dgx-a100-mig", "--mig-strategy=single"),
        ("--simulate=dgx-a100-mig-single", "--mig-strategy=single", "--machine-type-file=/absent"),
        ("--simulate=gh200", "--device-discovery-strategy=nvml"),
        ("--simulate=jetson-orin", "--machine-type-file="),
        ("--simulate=no-gpu",),
    ],
)
@pytest.mark.parametrize("is_shared", [False, True])
def test_text_is_the_file_to_the_byte(
    tmp_path: Path, config: Path, arguments: tuple[str, ...], is_shared: bool
) -> None:
    if is_shared:
        arguments = (*arguments, f"--config-file={config}")

    done = labels("-o", "text", "--no-timestamp", *arguments)

    assert done.code == 0
    assert done.out == discover(tmp_path / "gfd", *arguments)


def test_options_count_wherever_they_are_given(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "flags: {migStrategy: mixed, useNodeFeatureAPI: true, gfd: {noTimestamp: true}}\n"
    )

    by_flag = labels("-o=text", "--simulate=a30-mig", "--mig-strategy", "mixed", "--no-timestamp")
    by_variable = labels(
        *("--output", "text"),
        GPU_NODE_SIMULATE="a30-mig",
        GFD_MIG_STRATEGY="mixed",
        GFD_NO_TIMESTAMP="true",
    )
    by_file = labels("-o", "text", "--simulate=a30-mig", "--config-file", str(config))

    assert by_flag.out == by_variable.out == by_file.out
    assert "nvidia.com/mig.strategy=mixed" in by_flag.out


def test_the_time_is_a_label_unless_it_is_not_wanted() -> None:
    with_time = labels("-o", "text", "--simulate=t4x4", "--no-timestamp=false").out
    without = labels("-o", "text", "--simulate=t4x4", "--no-timestamp").out

    (line,) = set(with_time.splitlines()) - set(without.splitlines())
    assert line.startswith("nvidia.com/gfd.timestamp=")
    assert line.partition("=")[2].isdigit()


# ------------------------------------------------------------------ how it is shown


def test_the_table_tells_labels_values_and_sources(config: Path) -> None:
    done = labels("--simulate=t4x4", "--no-timestamp", f"--config-file={config}")

    assert (done.code, done.lines) == (
        0,
        ["note: simulated node t4x4: the sources are those of a real node like it"],
    )
    rows = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert rows[0] == ["LABEL", "nvidia.com/", "VALUE             FROM"]
    assert ["gpu.product", "Tesla-T4-SHARED", "NVML nvmlDeviceGetName of GPU 0-3"] in rows
    assert ["gpu.replicas", "4", f"sharing.timeSlicing of {config}"] in rows
    again = labels("--simulate=t4x4", "--no-timestamp", f"--config-file={config}")
    assert again == done


def test_json_and_yaml_hold_the_same() -> None:
    arguments = ("--simulate=dgx-a100-mig", "--mig-strategy=single", "--no-timestamp")

    as_json, as_yaml = (labels("-o", form, *arguments) for form in ("json", "yaml"))

    data = json.loads(as_json.out)
    assert yaml.safe_load(as_yaml.out) == data
    (problem,) = data["problems"]
    assert (problem["missing"], problem["failure"]) == ([], False)
    assert as_json.lines == [f"warning: {problem['reason']}"]
    assert {"label", "value", "source", "meaning"} == set(data["labels"][0])


@pytest.mark.parametrize("more", [{"TERM": "xterm"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_colours_and_wrapped_lines_are_for_terminals(more: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "labels", "--simulate=t4x4"],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=ENVIRON | {"TERM": "xterm", "COLUMNS": "80", **more},
    )
    assert process.wait(LIMIT) == 0
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)

    assert ("\x1b[1mLABEL" in text) == ("\x1b" in text) == (more == {"TERM": "xterm"})
    plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.splitlines())) <= 80


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", RUN, "labels", "-o", "text", "--simulate=t4x4"],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=ENVIRON,
        timeout=LIMIT,
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (141, "")


def test_help_is_tidy() -> None:
    done = labels("--help")

    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert all(f"--{name}" in done.out for name in OPTIONS_OF_DISCOVERY)
    assert " labels " in gpu_node("--help").out


# ------------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--mig-strategy=x"], 1, 'error: --mig-strategy: "x" is not allowed (allowed: none'),
        (["--device-discovery-strategy=x"], 1, 'error: --device-discovery-strategy: "x" is not'),
        (["--config-file=/none"], 1, "error: /none: the configuration file cannot be read: No su"),
        (["--simulate=none"], 1, "error: there is no simulated node 'none' (allowed: "),
        (["--simulate=no-driver"], 1, "error: NVML cannot be initialised: Driver Not Loaded"),
        (["--no-timestamp=perhaps"], 2, 'error: --no-timestamp: "perhaps" is not a boolean (all'),
        (["--mig-strategy"], 2, "error: argument --mig-strategy: expected one argument (see gpu"),
        (["-o", "xml"], 2, "error: argument -o/--output: invalid choice: 'xml' (choose from"),
        (["--output-file=/x"], 2, "error: unrecognized arguments: --output-file=/x (see gpu-node"),
        (["more"], 2, "error: unrecognized arguments: more (see gpu-node labels --help)"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], code: int, expected: str) -> None:
    done = labels(*arguments, GPU_NODE_SIMULATE="t4x4")

    assert (done.code, done.out) == (code, "")
    assert len(done.lines) == 1
    assert done.lines[0].startswith(expected)


def test_a_bad_variable_is_named() -> None:
    done = labels("--simulate=t4x4", GFD_MIG_STRATEGY="x")

    assert (done.code, done.out) == (1, "")
    assert done.lines == [done.lines[0]]
    assert done.lines[0].startswith('error: GFD_MIG_STRATEGY: "x" is not allowed')


def test_without_a_driver_nothing_can_be_told_even_if_that_is_tolerated() -> None:
    done = labels("--simulate=no-driver", "--fail-on-init-error=false", "-o", "text")

    assert done.code == 1
    assert [line.partition("=")[0] for line in done.out.splitlines()] == [
        "nvidia.com/gfd.timestamp",
        "nvidia.com/vgpu.present",
    ]
    assert done.lines[0].startswith("error: not published: cuda.*, gpu.*, mig.*, mps.*: NVML")


def test_a_node_without_gpus_is_no_failure() -> None:
    done = labels("--simulate=no-gpu", "-o", "text")

    assert done.code == 0
    assert done.lines == ["note: no labels of GPUs: there is no GPU on this node"]


def test_what_the_real_library_does_not_tell_is_named(tmp_path: Path) -> None:
    if nvmlsim.COMPILER is None:
        pytest.skip("no C compiler to build the NVML simulator with")
    simulated = SimulatedBackend.from_profile("t4x4")
    inventory = simulated.read()
    text = nvmlsim.profile_text(inventory, simulated.read_links(inventory, lambda: False))
    fail = "fail nvmlDeviceGetMemoryInfo 3\nfail nvmlSystemGetDriverVersion 999\n"
    (tmp_path / "profile").write_text(fail + text)
    node = {
        "LD_LIBRARY_PATH": str(nvmlsim.build().parent),
        "NVMLSIM_PROFILE": str(tmp_path / "profile"),
    }

    done = labels("-o", "text", "--no-timestamp", "--device-discovery-strategy=nvml", **node)

    assert done.code == 0
    arguments = ("--device-discovery-strategy=nvml",)
    assert done.out == discover(tmp_path / "gfd", *arguments, **node)
    assert "nvidia.com/gpu.product=Tesla-T4\n" in done.out
    assert "gpu.memory" not in done.out
    told = [line for line in done.lines if "not published" in line]
    assert told[0] == (
        "error: not published: cuda.driver-version.*, cuda.driver.*: the version of the driver "
        "cannot be read: no labels for it"
    )
    assert "warning: not published: gpu.memory: the driver does not tell the memory" in told
