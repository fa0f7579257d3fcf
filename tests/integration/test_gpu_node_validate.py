"""``gpu-node validate`` and ``gpu-node explain`` as programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.commands import gpu_node, run_program

ROOT = Path(__file__).parents[2]
RUN_PLUGIN = "from gpu_device_plugin.programs.device_plugin import main; main()"
SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"


def test_the_documentation_and_the_manifests_of_the_project_are_well() -> None:
    done = gpu_node(
        "validate",
        "--strict",
        *(
            str(ROOT / name)
            for name in (
                "docs/examples",
                "deployments/static",
                "deployments/examples",
            )
        ),
    )
    assert done.code == 0, done.out
    assert "error" not in done.out
    assert "warning" not in done.out


def test_problems_are_told_and_fail() -> None:
    done = gpu_node("validate", "-", stdin="flags: {renameByDefault: true}\n")

    assert done.code == 1
    assert done.out.splitlines() == [
        (
            "error: <stdin>:1: flags.renameByDefault: unknown key, ignored "
            "(it belongs to sharing.timeSlicing or sharing.mps)"
        ),
        "1 error in 1 configuration (1 file)",
    ]


def test_warnings_fail_only_where_that_is_asked_for() -> None:
    text = "flags: {}\nflags: {}\n"

    assert gpu_node("validate", "-", stdin=text).code == 0
    assert gpu_node("validate", "--strict", "-", stdin=text).code == 1


@pytest.mark.parametrize("arguments", [[], ["--program=x", "-"], ["-o", "x", "-"], ["--foo", "-"]])
def test_options_that_make_no_sense_end_with_2(arguments: list[str]) -> None:
    assert gpu_node("validate", *arguments).code == 2


def test_the_error_of_the_plugin_is_that_of_validate(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("flags:\n  migStrategy: mxied\n")

    plugin = run_program(
        RUN_PLUGIN,
        f"--config-file={file}",
        "--simulate=dgx-a100",
        "--kubelet-socket=",
        f"--plugin-directory={tmp_path}",
    )
    found = json.loads(gpu_node("validate", "-o", "json", str(file)).out)["findings"][0]

    assert plugin.code == 1
    line = f"{found['file']}:{found['line']}: {found['key']}: {found['message']} ({found['hint']})"
    assert line in plugin.err


def test_a_node_can_be_asked_for() -> None:
    text = "extensions: {gpus: {exclude: [9]}}\n"

    done = gpu_node("validate", "--on", "dgx-a100", "-o", "yaml", "-", stdin=text)
    (found,) = yaml.safe_load(done.out)["findings"]
    assert found["message"] == "on dgx-a100: this node has no GPU or MIG device 9"
    assert done.code == 0
    unknown = gpu_node("validate", "--on", "nix", "-", stdin=text)
    assert unknown.code == 1
    assert "there is no simulated node 'nix'" in unknown.err


def test_only_the_rules_of_one_program() -> None:
    text = "flags: {deviceDiscoveryStrategy: vfio}\n"

    assert gpu_node("validate", "-", stdin=text).code == 1
    assert gpu_node("validate", "--program=gpu-feature-discovery", "-", stdin=text).code == 0


def test_explanation_as_text(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(SHARED)

    done = gpu_node(
        "explain",
        "--simulate=dgx-a100",
        f"--config-file={file}",
        "--device-list-strategy=envvar,cdi-cri",
        "--request=gpu=2",
        "--request=mig=1",
    )
    assert done.code == 0, done.err
    assert "nvidia.com/gpu: 32 = 8 GPUs x 4 replicas\n" in done.out
    assert f"time-sliced, 4 replicas: sharing.timeSlicing.resources[0] ({file}:1)" in done.out
    assert "GPU 0 to 7 (NVIDIA A100-SXM4-40GB): nvidia.com/gpu" in done.out
    assert "gpu.product" in done.out
    assert "nvidia.com/mig=1: refused: the node has no resource nvidia.com/mig" in done.out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_explanation_as_data(form: str) -> None:
    done = gpu_node("explain", "nvidia.com/gpu", "-o", form, GPU_NODE_SIMULATE="t4x4")

    data = yaml.safe_load(done.out)
    assert data["node"]["source"] == "simulated node t4x4"
    assert [resource["count"] for resource in data["resources"]] == [4]
    assert data["devices"] == []


def test_differences(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(SHARED)

    done = gpu_node("explain", "--simulate=dgx-a100", "--diff", str(file))
    assert done.code == 0
    assert (
        "~ resource nvidia.com/gpu: 8 = 8 GPUs -> 32 = 8 GPUs x 4 replicas, time-sliced" in done.out
    )
    data = gpu_node("explain", "--simulate=dgx-a100", "--diff", str(file), "-o", "json")
    assert json.loads(data.out)["differences"][0]["change"] == "changes"
    same = gpu_node("explain", "--simulate=dgx-a100", f"--config-file={file}", "--diff", str(file))
    assert same.out.splitlines()[1] == "nothing changes"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--simulate=no-driver"], 1, "NVML cannot be initialised"),
        (["--simulate=dgx-a100", "nix"], 1, "the node has no nix"),
        (["--simulate=a30-mig", "--mig-strategy=single"], 1, "the plugin offers nothing"),
        (["--simulate=dgx-a100", "--request=x=y"], 2, "RESOURCE=NUMBER"),
        (["--simulate=dgx-a100", "--mig-strategy=x"], 1, '"x" is not allowed'),
        (["--simulate=dgx-a100-mig", "--mig-strategy=mixed"], 0, "warning: GPU 6 has MIG enabled"),
    ],
)
def test_what_cannot_be_explained_says_why(arguments: list[str], code: int, words: str) -> None:
    done = gpu_node("explain", *arguments)

    assert done.code == code
    assert words in done.err


def test_nothing_is_written(tmp_path: Path) -> None:
    gpu_node(
        "explain",
        "--simulate=dgx-a100",
        "--device-list-strategy=cdi-cri",
        "--request=gpu",
        f"--plugin-directory={tmp_path}",
    )
    assert not list(tmp_path.iterdir())
