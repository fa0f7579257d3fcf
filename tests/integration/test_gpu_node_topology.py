"""``gpu-node topology`` as a program, on simulated nodes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.commands import ENVIRON, LIMIT, RUN, Done, gpu_node
from support.nvmlsim import COMPILER, build, profile_text

from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend


def topology(*arguments: str | Path, **environ: str) -> Done:
    return gpu_node("topology", *arguments, **environ)


# ------------------------------------------------------------------ formats


def test_a_text_names_the_node_and_the_resource():
    done = topology("--simulate", "dgx-1", "--size", "4", "--required", "5")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].endswith(
        "Tesla V100-SXM2-16GB, driver 535.183.06 (simulated node dgx-1)"
    )
    assert "asked for  4 of 8 GPUs, 0-7 (nvidia.com/gpu)\n" in done.out
    assert "preferred  GPU 4-7\n" in done.out


def test_data():
    done = topology("-o", "json", "--size", "2", "--available", "3,1-2", GPU_NODE_SIMULATE="dgx-1")
    data = json.loads(done.out)

    assert data["source"] == "simulated node dgx-1"
    assert data["choice"]["available"] == [3, 1, 2]
    assert data["choice"]["gpus"] == [3, 2]
    assert data["choice"]["uuids"] == [data["gpus"][3]["uuid"], data["gpus"][2]["uuid"]]


def test_a_matrix():
    done = topology("-o", "matrix", "--simulate=t4x4")

    links, scores = done.out.split("\n\n")
    assert links.splitlines()[1].split() == ["GPU0", "X", "NODE", "SYS", "SYS"]
    assert scores.splitlines()[4].split() == ["GPU3", "10", "10", "20", "-"]


def test_a_picture_in_a_file(tmp_path):
    file = tmp_path / "node.svg"

    done = topology("--simulate", "dgx-2", "--size", "4", "--file", file)

    assert (done.code, done.out, done.err) == (0, "", "")
    root = ET.parse(file).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert topology("--simulate", "dgx-2", "--size", "4", "-o", "svg").out == file.read_text()


def test_the_format_decides_and_not_the_name_of_the_file(tmp_path):
    file = tmp_path / "node.json"

    topology("--simulate", "t4x4", "--file", file, "-o", "matrix")

    assert file.read_text().split()[0] == "GPU0"


def test_colours_are_for_terminals():
    arguments = [sys.executable, "-c", RUN, "topology", "--simulate", "t4x4", "--size", "2"]
    parent, child = pty.openpty()
    with open(parent, "rb", buffering=0) as terminal:
        subprocess.run(
            arguments, check=True, stdout=child, env=ENVIRON | {"TERM": "xterm"}, timeout=LIMIT
        )
        os.close(child)
        shown = terminal.read(4096)
    assert b"\x1b[32mGPU0\x1b[0m" in shown
    assert "\x1b" not in topology(*arguments[4:], TERM="xterm").out


def test_a_reader_that_goes_away_is_no_error():
    command = f"'{sys.executable}' -c '{RUN}' topology --simulate dgx-2 -o json; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env=ENVIRON,
        timeout=LIMIT,
    )

    assert done.stderr.strip() in {"0", "141"}


# ------------------------------------------------------------------ nodes


def test_mig_and_configuration_decide_what_is_offered(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "version: v1\nflags: {migStrategy: mixed}\nextensions: {gpus: {exclude: [2]}}"
    )

    done = topology("--simulate=dgx-a100-mig", f"--config-file={config}", "--size=1")

    assert "asked for  1 of 1 GPU, 7 (nvidia.com/gpu)\n" in done.out
    assert done.out.count("not available\n") == 7


def test_a_lost_gpu_is_told_and_the_others_are_shown(tmp_path):
    events = tmp_path / "events"
    events.write_text("lost 2\n")

    done = topology("--simulate=t4x4", "--size=2", GPU_NODE_SIMULATE_EVENTS=str(events))

    assert done.code == 0
    assert done.err.startswith("warning: GPU 2 cannot be read: ")
    assert "asked for  2 of 3 GPUs, 0, 1, 3 (nvidia.com/gpu)\n" in done.out


@pytest.mark.parametrize("profile", ["no-gpu", "jetson-orin"])
def test_a_node_without_gpus_is_no_error(profile):
    done = topology(f"--simulate={profile}")

    assert (done.code, done.err) == (0, "note: NVML lists no GPU on this node\n")
    assert done.out.startswith("no GPU, driver ")


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_links_come_through_nvml(tmp_path):
    backend = SimulatedBackend.from_profile("dgx-1")
    inventory = backend.read()
    profile = tmp_path / "node"
    links = backend.read_links(inventory, lambda: False)
    profile.write_text(profile_text(inventory, links))
    arguments = ("--size=3", "--required=7", "-o", "json")

    done = topology(
        *arguments,
        "--device-discovery-strategy=nvml",
        LD_LIBRARY_PATH=str(build().parent),
        NVMLSIM_PROFILE=str(profile),
    )

    assert (done.code, done.err) == (0, "")
    read = json.loads(done.out)
    simulated = json.loads(topology("--simulate=dgx-1", *arguments).out)
    for key in ("links", "scores", "choice"):
        assert read[key] == simulated[key]
    # NUMA nodes are read from sysfs, which is that of the machine that this runs on.
    assert read["groups"]["groups"][0]["gpus"] == [0, 1, 2, 3]


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--simulate=t4x4", "--size=5"], 1, "5 GPUs cannot be chosen: available: 4"),
        (["--simulate=t4x4", "--size=1", "--available=4"], 1, "no GPU 4 (it has 0-3)"),
        (["--simulate=no-driver"], 1, "Driver Not Loaded"),
        (["--simulate=nowhere"], 1, "there is no simulated node 'nowhere'"),
        (["--simulate=t4x4", "--file=/nowhere/x.svg"], 1, "/nowhere/x.svg: cannot be written"),
        (["--simulate=t4x4", "--required=1"], 2, "say nothing without --size"),
        (["--size=0"], 2, "'0' is not a number from 1 to 64"),
        (["--size=1", "--available=a"], 2, '"a" is none of indices'),
        (["-o", "png"], 2, "invalid choice: 'png'"),
        (["--siz=1"], 2, "unrecognized arguments: --siz=1"),
        (["here"], 2, "unrecognized arguments: here"),
    ],
)
def test_mistakes(arguments, code, message):
    done = topology(*arguments)

    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_variable_of_the_plugin_that_is_wrong_is_a_mistake_in_usage():
    done = topology("--simulate=t4x4", FAIL_ON_INIT_ERROR="perhaps")

    assert done.code == 2
    assert "FAIL_ON_INIT_ERROR" in done.err


def test_the_help_fits_and_names_what_decides():
    done = topology("--help")

    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    for word in ("--size N", "--required LIST", "--simulate PROFILE", "GPU_NODE_SIMULATE"):
        assert word in done.out
