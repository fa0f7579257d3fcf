"""``gpu-node explain`` and ``gpu-node validate`` in this process: text, data, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gpu_device_plugin.programs.gpu_node import run

SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG_FILE", "MIG_STRATEGY", "GPU_NODE_SIMULATE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="shared")
def _shared(tmp_path: Path) -> str:
    file = tmp_path / "shared.yaml"
    file.write_text(SHARED)
    return str(file)


def test_text_has_a_section_for_everything(
    shared: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code = run(
        [
            *("explain", "--simulate=t4x4", f"--config-file={shared}"),
            *("--device-list-strategy=cdi-cri", "--gds-enabled", "--request=gpu", "--request=x"),
        ]
    )
    text = capfdbinary.readouterr().out.decode()

    assert code == 0
    sections = [part.splitlines()[0] for part in text.split("\n\n")[1:]]
    assert sections == ["Resources", "Devices", "CDI names", "Labels", "Requests"]
    assert "nvidia.com/x=1: refused: the node has no resource nvidia.com/x" in text
    assert "CDI names of GDRCopy, GDS and MOFED are not known here" in text


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data_can_be_read_back(form: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["explain", "--simulate=t4x4", "-o", form, "0"]) == 0
    data = yaml.safe_load(capfdbinary.readouterr().out)
    assert [device["device"] for device in data["devices"]] == ["GPU 0"]


def test_a_difference(shared: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["explain", "--simulate=t4x4", "--diff", shared]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert text.splitlines()[:2] == [
        f"from no file to {shared}",
        (
            "~ resource nvidia.com/gpu: 4 = 4 GPUs -> 16 = 4 GPUs x 4 replicas, time-sliced "
            "(pods that have it go on running, also where there are fewer now)"
        ),
    ]
    assert run(["explain", f"--config-file={shared}", "--simulate=t4x4", "--diff=/dev/null"]) == 0
    assert "~ resource nvidia.com/gpu: 16" in capfdbinary.readouterr().out.decode()
    assert run(["explain", "--simulate=t4x4", "--diff", shared, "-o", "json"]) == 0
    data = json.loads(capfdbinary.readouterr().out)
    assert {each["kind"] for each in data["differences"]} == {"resource", "label"}
    assert run(["explain", "--simulate=t4x4", "--diff=/dev/null"]) == 0
    assert capfdbinary.readouterr().out.endswith(b"nothing changes\n")


def test_resources_that_come_and_go(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "renamed.yaml"
    file.write_text(SHARED.replace("{resources", "{renameByDefault: true, resources"))

    assert run(["explain", "--simulate=t4x4", "--diff", str(file)]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[1].startswith("- resource nvidia.com/gpu: 4 = 4 GPUs (pods that have it go on")
    assert lines[2] == "+ resource nvidia.com/gpu.shared: 16 = 4 GPUs x 4 replicas, time-sliced"
    assert lines[3] == "~ device GPU 0: nvidia.com/gpu -> nvidia.com/gpu.shared"


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "--simulate=no-driver"],
        ["explain", "--simulate=t4x4", "nothing"],
        ["explain", "--simulate=a30-mig", "--mig-strategy=single"],
        ["validate", "/nowhere"],
        ["validate", "/dev/null", "--on", "no-driver"],
    ],
)
def test_what_goes_wrong_ends_with_1(arguments: list[str]) -> None:
    assert run(arguments) == 1


def test_a_bad_request_ends_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        run(["explain", "--request", "x=y"])
    assert ended.value.code == 2


def test_validation(shared: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["validate", shared, "--on", "t4x4", "--on", "t4x4", "--strict"]) == 0
    assert capfdbinary.readouterr().out == b"no problems in 1 configuration (1 file)\n"
    assert run(["validate", "--on=no-gpu", "--program=nvidia-device-plugin", shared]) == 0
    assert b"on no-gpu: the node has no resource" in capfdbinary.readouterr().out


@pytest.mark.parametrize("switch", ["--pass-device-specs", "--pass-device-specs=true"])
def test_a_thing_after_a_boolean_is_a_thing(
    switch: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["explain", "--simulate=t4x4", "--request=gpu", switch, "2"]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert "GPU 2 (Tesla T4): nvidia.com/gpu" in text
    assert "GPU 3" not in text
    assert "device node /dev/nvidia0" in text
