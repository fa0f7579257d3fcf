"""``gpu-node doctor`` as a program, on this machine, simulated nodes and made-up hosts."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import nvmlsim
from support.process import node as a_served_node
from support.serving import allocatable
from support.watchdog import LIMIT, limited

from gpu_device_plugin.cdi.testing import FakeTree
from gpu_device_plugin.threads import in_thread

COMMAND = [sys.executable, "-c", "from gpu_device_plugin.programs.gpu_node import main; main()"]


def doctor(
    *arguments: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"KUBECONFIG", "NO_COLOR"}}
    return subprocess.run(
        [*COMMAND, "doctor", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=kept | (environ or {}),
        timeout=LIMIT,
    )


def results(*arguments: str, environ: dict[str, str] | None = None) -> dict[str, Any]:
    """The checks by their names."""
    done = doctor("-o", "json", *arguments, environ=environ)
    assert not done.stderr, done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@pytest.fixture
def sockets() -> Iterator[Path]:
    # pytest's own directories have names too long for a socket.
    with tempfile.TemporaryDirectory(prefix="doctor-") as path:
        yield Path(path)


def test_this_machine_gets_a_calm_answer() -> None:
    done = doctor("--skip", "kubernetes")

    assert done.returncode in {0, 1}
    assert not done.stderr
    assert "Traceback" not in done.stdout
    assert "the check itself has failed" not in done.stdout
    assert done.stdout.splitlines()[-1].count(",") == 3


def test_a_simulated_node_is_well() -> None:
    found = results("--simulate=dgx-a100")

    assert found["gpu-list"]["summary"] == "8 GPUs: NVIDIA A100-SXM4-40GB"
    assert found["offer"]["summary"] == "nvidia.com/gpu: 8"
    assert found["hardware"]["summary"].startswith("the node is simulated (dgx-a100)")


def test_a_driver_that_is_not_loaded_fails() -> None:
    done = doctor("--simulate=no-driver", "--only=nvml")

    assert done.returncode == 1
    assert "FAILED   nvml: NVML cannot be initialised: Driver Not Loaded (simulated)" in done.stdout


def test_a_plugin_that_runs_answers_and_one_that_was_killed_does_not(sockets: Path) -> None:
    options = (
        "--simulate=t4x4",
        f"--kubelet-socket={sockets}/kubelet.sock",
        f"--plugin-directory={sockets}",
        "--only=kubelet-socket,plugin-sockets",
    )

    async def while_it_runs() -> tuple[dict[str, Any], dict[str, Any]]:
        async with a_served_node(sockets) as (kubelet, plugin):
            await kubelet.until(allocatable(4), "4 GPUs")
            well = await in_thread("doctor", lambda: results(*options))
            plugin.process.kill()
            await plugin.ended()
            return well, await in_thread("doctor", lambda: results(*options))

    well, killed = asyncio.run(while_it_runs())

    assert {check["verdict"] for check in well.values()} == {"ok"}
    assert killed["kubelet-socket"]["verdict"] == "ok"
    assert killed["plugin-sockets"]["verdict"] == "failed"
    assert "nobody listens there any more" in killed["plugin-sockets"]["summary"]


@pytest.mark.skipif(
    nvmlsim.COMPILER is None, reason="no C compiler to build the NVML simulator with"
)
def test_a_driver_that_does_not_match_its_module_is_named(tmp_path: Path) -> None:
    library = tmp_path / "root/usr/lib64/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.symlink_to(nvmlsim.build())
    profile = tmp_path / "profile"
    profile.write_text("driver_version 550.1\nnvml_version 12.550.1\nfail nvmlInit 18\n")

    done = doctor(
        f"--driver-root-ctr-path={tmp_path}/root",
        "--only=nvml",
        environ={"NVMLSIM_PROFILE": str(profile)},
    )

    assert done.returncode == 1
    assert "does not match the loaded kernel module" in done.stdout
    assert "next: then restart the plugin's pod" in done.stdout


def test_a_host_that_is_mounted_elsewhere_is_looked_at(tmp_path: Path) -> None:
    tree = FakeTree(tmp_path)
    tree.file("/etc/containerd/config.toml", "version = 2\n")
    tree.folder("/var/lib/kubelet/device-plugins")

    found = results(f"--host-root={tmp_path}", "--only=runtime-config,kubelet-socket")

    assert found["runtime-config"]["verdict"] == "failed"
    assert f"{tmp_path}/etc/containerd/config.toml" in found["runtime-config"]["evidence"][1]
    assert found["kubelet-socket"]["verdict"] == "failed"


def test_yaml_has_the_same_form_as_json() -> None:
    arguments = ("--simulate=t4x4", "--only=offer,gpu-list")
    as_yaml = yaml.safe_load(doctor("-o", "yaml", *arguments).stdout)
    as_json = json.loads(doctor("-o", "json", *arguments).stdout)

    for data in (as_yaml, as_json):
        del data["time"]
        for check in data["checks"]:
            del check["seconds"]
    assert as_yaml == as_json
    assert as_json["summary"] == {"ok": 2, "warning": 0, "failed": 0, "not-checked": 0}


def test_checks_can_be_listed_and_chosen() -> None:
    done = doctor("--list", "--only=gpus", "--skip=mig,pcie")

    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "nvml",
        "gpu-list",
        "gpu-memory",
        "persistence",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--only=nvm"], 'there is no check "nvm" (did you mean nvml?)'),
        (["--only=clock", "--skip=clock"], "no check is left"),
        (["--host-root=/none"], "--host-root: /none is no directory"),
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["-o", "xml"], "invalid choice: 'xml'"),
        (["--pass-device-specs=maybe"], "maybe"),
    ],
)
def test_options_that_make_no_sense_end_with_2(arguments: list[str], text: str) -> None:
    done = doctor(*arguments)

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert text in done.stderr


def test_on_a_terminal_there_are_colours_and_progress() -> None:
    leader, follower = pty.openpty()
    code = (
        "import time; from gpu_device_plugin.diagnosis.doctor import run, config;"
        "run.PATIENCE_SECONDS = 0.05;"
        "load = config.validate_plugin;"
        "config.validate_plugin = lambda *a: (time.sleep(0.5), load(*a));"
        "from gpu_device_plugin.programs.gpu_node import main; main()"
    )
    with (
        subprocess.Popen(
            [sys.executable, "-c", code, "doctor", "--only=config"],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"},
        ) as process,
        limited(process),
    ):
        assert process.wait(LIMIT) == 0
    os.close(follower)
    text = os.read(leader, 65536).decode()
    os.close(leader)

    assert "\r\x1b[Kconfig: options and configuration file" in text
    assert "\x1b[32mok" in text
