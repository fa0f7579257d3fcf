"""``gpu-node cdi`` as a program, on a simulated node with a driver that is made up."""

from __future__ import annotations

import functools
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.aio import run, until
from support.cdi_node import FILE, LIBRARIES, VERSION, Node
from support.commands import LIMIT, RUN, Done
from support.process import RUN as RUN_PLUGIN
from support.process import plugin

from gpu_device_plugin.programs.commands.cdi import COMMANDS
from gpu_device_plugin.programs.commands.cdi_options import SHOWN


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node without device nodes, for which nobody need be root."""
    monkeypatch.setattr(Node, "make_node", lambda *_: None)
    return Node(tmp_path)


# ------------------------------------------------------------------ generate and diff


def test_what_is_generated_is_what_the_real_plugin_writes(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_plugin = tmp_path / "plugin"
    redirect = (
        "import functools; from gpu_device_plugin.programs import device_plugin as program\n"
        "program.CdiSettings = functools.partial("
        f"program.CdiSettings, directory={str(by_plugin)!r})\n"
    )
    monkeypatch.setattr("support.process.RUN", redirect + RUN_PLUGIN)
    options = ["--device-id-strategy=index", "-driver-root", "/run/nvidia/driver"]
    (tmp_path / "sockets").mkdir()

    async def write() -> None:
        environ = {**node.environ, "KUBELET_SOCKET": ""}
        async with plugin(tmp_path / "sockets", *options, environ=environ):
            await until((by_plugin / FILE).exists)

    run(write())
    node.generate(*options)
    out = node.command("generate", *options)

    assert (node.cdi / FILE).read_bytes() == (by_plugin / FILE).read_bytes()
    assert json.loads(out.out) == json.loads((by_plugin / FILE).read_text())
    node.cdi = by_plugin
    assert node.diff(*options).code == 0


def test_options_count_wherever_they_are_given(node: Node, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nflags: {plugin: {deviceIDStrategy: index}}\n")

    by_file = node.command("generate", "--format=yaml", f"--config-file={config}")
    by_flag = node.command("generate", "--format", "yaml", "--device-id-strategy", "index")
    node.environ["DEVICE_ID_STRATEGY"] = "index"
    by_variable = node.command("generate", "--format", "yaml", "--output", "-")

    assert by_file.out == by_flag.out == by_variable.out
    (document,) = yaml.safe_load_all(by_file.out)
    assert [device["name"] for device in document["devices"]] == ["0", "1", "2", "3"]
    assert by_file.lines == [by_file.lines[0]]
    assert by_file.lines[0].endswith("optional files not found; --verbose names them")


def test_a_difference_is_told_by_device_and_edit(node: Node) -> None:
    node.generate("--device-id-strategy=index")
    assert node.diff("--device-id-strategy=index") == Done(
        0, "", f"note: {node.cdi}: no difference, 1 specification\n"
    )

    node.make_node("nvidia1", (195, 7))
    node.make_node("nvidia-uvm", (511, 0))
    (node.root / "dev" / "nvidia3").unlink()
    (node.root / "usr/bin/nvidia-smi").unlink()
    changed = node.diff("--device-id-strategy=index", "--cdi-disable-hooks=update-ldcache")

    assert changed.code == 1
    assert (
        changed.out
        == f"""\
--- {node.cdi / FILE}
+++ what the plugin would write
@@ every device @@
-node /dev/nvidia-uvm from /dev/nvidia-uvm 510:0 mode 0666 access rwm
+node /dev/nvidia-uvm from /dev/nvidia-uvm 511:0 mode 0666 access rwm
-hook createContainer /usr/bin/nvidia-ctk nvidia-ctk hook update-ldcache
-  --folder /usr/lib/x86_64-linux-gnu
-  env NVIDIA_CTK_DEBUG=false
-mount /usr/bin/nvidia-smi from /usr/bin/nvidia-smi [ro,nosuid,nodev,rbind,rprivate]
@@ device 1 @@
-node /dev/nvidia1 from /dev/nvidia1 195:1 mode 0666 access rwm
+node /dev/nvidia1 from /dev/nvidia1 195:7 mode 0666 access rwm
@@ device 3: to be removed @@
-node /dev/nvidia3 from /dev/nvidia3 195:3 mode 0666 access rwm
"""
    )
    assert [line.partition(" ")[0] for line in changed.lines] == ["error:", "error:"]


def test_what_is_left_out_is_an_error_and_the_rest_is_written(node: Node) -> None:
    (node.root / "dev" / "nvidia2").unlink()

    done = node.command("generate", "--output-dir", str(node.cdi), "--verbose")

    assert done.code == 1
    assert len(json.loads((node.cdi / FILE).read_text())["devices"]) == 3
    errors = [line for line in done.lines if line.startswith("error: ")]
    assert len(errors) == 2
    assert "is left out: it has no device node" in errors[0]
    assert f"note: {node.cdi / FILE}: written" in done.lines
    assert f"note: nvidia-debugdump: not found below {node.root}" in done.lines


def test_that_nothing_can_be_told_is_not_taken_for_a_difference(bare: Node) -> None:
    (bare.root / LIBRARIES[1:] / f"libcuda.so.{VERSION}").unlink()
    (bare.root / LIBRARIES[1:] / f"libnvidia-ml.so.{VERSION}").unlink()

    done = bare.diff()

    assert (done.code, done.out) == (2, "")
    assert done.lines[-1].startswith(f"error: {bare.root}: holds neither libcuda.so.{VERSION}")


def test_no_gpu_has_nodes(bare: Node) -> None:
    done = bare.command("generate")

    assert (done.code, done.out) == (1, "")
    assert done.lines[-1] == (
        f"error: no specification for gpu: no device node of any GPU is below {bare.root}"
    )


def test_files_in_both_formats_are_an_error(node: Node) -> None:
    node.generate()

    done = node.command("generate", "--output-dir", str(node.cdi), "--format=yaml")

    assert done.code == 1
    assert done.lines[-1].startswith("error: ")
    assert "hold the same devices" in done.lines[-1]
    listed = node.command("list", "--spec-dir", str(node.cdi), "-o", "json")
    assert {d["state"] for d in json.loads(listed.out)["devices"]} == {"conflict"}
    assert node.command("validate", "--host-root", str(node.root), str(node.cdi)).code == 1


# ------------------------------------------------------------------ list and validate


def test_what_is_generated_is_listed_and_valid(node: Node) -> None:
    node.generate("--device-id-strategy=index")

    table = node.command("list", "--spec-dir", str(node.cdi))
    valid = node.command("validate", "--strict", "--host-root", str(node.root), str(node.cdi))

    assert (table.code, table.err) == (0, "")
    head, *rows = table.out.splitlines()
    assert " ".join(head.split()) == "VENDOR CLASS DEVICE NODES MOUNTS HOOKS STATE FILE"
    assert [row.split()[1:7] for row in rows] == [
        ["gpu", str(n), "5", "3", "4", "ok"] for n in range(4)
    ]
    assert valid == Done(0, f"{node.cdi / FILE}: ok, 4 devices\n", "")


def test_what_is_not_on_the_host_is_a_warning(node: Node) -> None:
    node.generate("--nvidia-cdi-hook-path=/usr/bin/none")
    (node.root / "dev" / "nvidia0").unlink()
    node.make_node("nvidia-uvm", (511, 0))
    arguments = ["validate", "--host-root", str(node.root), str(node.cdi / FILE)]

    done = node.command(*arguments)

    assert done.code == 0
    *found, result = done.out.splitlines()
    assert result == f"{node.cdi / FILE}: 4 devices, 3 warnings"
    assert all(line.startswith(f"warning: {node.cdi / FILE}:1: ") for line in found)
    assert ["/dev/nvidia0 is not on" in line for line in found] == [True, False, False]
    assert "is 510:0, but /dev/nvidia-uvm is 511:0 on this host" in found[1]
    assert "the program /usr/bin/none is not on this host, named 4 times" in found[2]
    assert node.command(*arguments, "--strict").code == 1
    assert node.command(*arguments, "--strict", "--no-host-checks").code == 0


def test_what_runtimes_refuse_is_an_error(bare: Node) -> None:
    bare.cdi.mkdir()
    (bare.cdi / "a.yaml").write_text("cdiVersion: 0.5.0\nkind: a.b/c\ndevices:\n- name: x\n")
    (bare.cdi / "b.json").write_text("{")

    done = bare.command("validate", str(bare.cdi), str(bare.cdi / "none.json"))
    listed = bare.command("list", "--spec-dir", str(bare.cdi))

    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines() == [
        (
            f"error: {bare.cdi}/a.yaml:4: devices[0].containerEdits: adds nothing to a container "
            "(leave the device out, or give it a device node or another edit)"
        ),
        f"{bare.cdi}/a.yaml: 1 error",
        (
            f"error: {bare.cdi}/b.json:1: not JSON: column 2: Expecting property name enclosed in "
            "double quotes (name it .yaml if it is YAML)"
        ),
        f"{bare.cdi}/b.json: 1 error",
        f"error: {bare.cdi}/none.json: cannot be read: No such file or directory",
        f"{bare.cdi}/none.json: 1 error",
        "3 files: 3 errors, 0 warnings",
    ]
    assert (listed.code, len(listed.lines)) == (1, 3)
    assert listed.lines[0] == f"note: no device in {bare.cdi}"


def test_a_pipe_can_be_checked(node: Node) -> None:
    text = node.command("generate", "--format=yaml").out
    done = subprocess.run(
        [sys.executable, "-c", RUN, "cdi", "validate", "--no-host-checks", "/dev/stdin"],
        check=False,
        input=text,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )

    assert done.stdout == "/dev/stdin: ok, 4 devices\n"


# ------------------------------------------------------------------ how it is said


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["nothing"], 2, "error: argument COMMAND: invalid choice: 'nothing' (choose from"),
        (["list", "--magic"], 2, "error: unrecognized arguments: --magic (see gpu-node cdi list"),
        (["list", "--spec-dir", "/none\n"], 1, "error: /none\\n: cannot be read: No such file"),
        (["validate", "--host-root", "/none"], 1, "error: /none: no directory (--host-root is"),
        (["generate", "--format=xml"], 2, "error: argument --format: invalid choice: 'xml' (ch"),
        (["generate", "--mgi-strategy=none"], 2, 'error: there is no flag "--mgi-strategy" (did'),
        (["generate", "-v"], 2, "error: -v is no option here (--verbose, or gpu-node --version)"),
        (["generate", "more"], 2, 'error: unexpected argument "more" (see --help)'),
        (["generate", "--mig-strategy=x"], 1, 'error: mig-strategy: "x" is not allowed (allowed'),
        (["diff", "--mig-strategy=x"], 2, 'error: mig-strategy: "x" is not allowed (allowed: no'),
        (["generate", "--config-file=/none"], 1, "error: /none: the configuration file cannot b"),
        (["diff", "--simulate=none"], 2, "error: there is no simulated node 'none' (allowed: "),
        (["generate", "--simulate=no-driver"], 1, "error: NVML cannot be initialised: Driver No"),
        (["generate", "--output-dir=/x", "--output=-"], 2, "error: argument --output: not allow"),
    ],
)
def test_a_mistake_is_one_line(bare: Node, arguments: list[str], code: int, expected: str) -> None:
    done = bare.command(*arguments)

    assert (done.code, done.out) == (code, "")
    assert [line for line in done.lines if line.startswith("error: ")] == done.lines[-1:]
    assert done.lines[-1].startswith(expected)


@pytest.mark.parametrize("command", ["", *(command.name for command in COMMANDS)])
def test_help_is_tidy(bare: Node, command: str) -> None:
    done = bare.command(*command.split(), "--help")

    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    assert all(f"--{name}" in done.out for name in SHOWN) == (command in {"generate", "diff"})
    if not command:
        assert bare.command().code == 2
        assert bare.command().err == done.out


def test_a_reader_that_goes_away_is_no_error(node: Node) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", RUN, "cdi", "generate"],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=node.environ,
        timeout=LIMIT,
    )
    os.close(writer)

    assert done.returncode == 141
    assert [line.startswith("note: ") for line in done.stderr.splitlines()] == [True]


def test_a_directory_that_cannot_be_made_is_an_error(node: Node) -> None:
    done = node.command("generate", "--output-dir=/dev/null/x")

    assert (done.code, done.out) == (1, "")
    assert done.lines[-1] == "error: /dev/null/x: cannot be made: Not a directory"


def test_a_full_disk_is_an_error(node: Node) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", RUN, "cdi", "generate"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=node.environ,
            timeout=LIMIT,
        )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: standard output: cannot be written: No space left on device"
    )


@pytest.mark.parametrize("more", [{"TERM": "xterm"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_colours_are_for_terminals(bare: Node, more: dict[str, str]) -> None:
    bare.cdi.mkdir()
    (bare.cdi / "a.yaml").write_text("x: 1\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "cdi", "validate", str(bare.cdi)],
        stdout=theirs,
        stderr=theirs,
        env=bare.environ | {"TERM": "xterm"} | more,
    )
    assert process.wait(LIMIT) == 1
    os.close(theirs)
    read = functools.partial(os.read, ours, 1 << 16)
    text = read().decode()
    os.close(ours)

    assert ("\x1b[31merror\x1b[0m: " in text) == (more == {"TERM": "xterm"})
    assert ("\x1b" in text) == (more == {"TERM": "xterm"})
