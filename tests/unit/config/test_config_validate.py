from __future__ import annotations

import pytest

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.config.validate import (
    validate_labels,
    validate_manager,
    validate_mig_strategy,
    validate_plugin,
)
from gpu_device_plugin.errors import ConfigError, UsageError

GFD = Program.GPU_FEATURE_DISCOVERY
MPS = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}"


def plugin_error(
    *argv: str,
    text: str | None = None,
    nvml: bool = True,
    environ: dict[str, str] | None = None,
) -> str:
    loaded = load_text(text, *argv, environ=environ)
    try:
        validate_plugin(loaded.config, lambda: nvml, loaded.origins)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--device-list-strategy=envvar,volume-mounts,cdi-annotations,cdi-cri"],
        ["--device-id-strategy=index"],
        ["--shared-devices-allocation-policy=packed"],
        ["--device-discovery-strategy=tegra"],
        ["--device-discovery-strategy=nvml"],
        ["--mig-strategy=single"],
        ["--mig-strategy=mixed"],
        ["--imex-channel-ids=0"],
        ["--pass-device-specs", "--device-list-strategy=cdi-cri"],
    ],
)
def test_what_the_device_plugin_can_work_with(argv: list[str]) -> None:
    assert plugin_error(*argv) == ""


def test_an_empty_list_of_strategies_passes() -> None:
    assert plugin_error(text="flags: {plugin: {deviceListStrategy: []}}", nvml=False) == ""


ALLOWED = "is not allowed (allowed: "
DEVICE_LIST = f"{ALLOWED}envvar, volume-mounts, cdi-annotations, cdi-cri)"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--device-list-strategy=envvar,smoke"], f'"smoke" {DEVICE_LIST}'),
        (["--device-list-strategy="], f'"" {DEVICE_LIST}'),
        (["--device-id-strategy=serial"], f'"serial" {ALLOWED}uuid, index)'),
        (["--shared-devices-allocation-policy="], f'"" {ALLOWED}distributed, packed)'),
        (["--device-discovery-strategy=vfio"], f'"vfio" {ALLOWED}auto, nvml, tegra)'),
        (["--mig-strategy=double"], f'"double" {ALLOWED}none, single, mixed)'),
        (["--imex-channel-ids=0,0"], f"[0, 0] {ALLOWED}none, or 0)"),
    ],
)
def test_what_it_cannot(argv: list[str], message: str) -> None:
    flag = argv[0].partition("=")[0]
    assert plugin_error(*argv) == f"{flag}: {message}"


def test_what_set_a_wrong_value_is_named() -> None:
    text = "flags:\n  Plugin:\n    deviceListStrategy: 'a,b'"
    file = "f.yaml:3: flags.Plugin.deviceListStrategy"
    assert plugin_error(text=text) == f'{file}: "a,b" {DEVICE_LIST}'
    environ = {"DEVICE_LIST_STRATEGY": "a,b"}
    assert plugin_error(text=text, environ=environ) == f'DEVICE_LIST_STRATEGY: "a" {DEVICE_LIST}'
    assert plugin_error("-device-list-strategy=b", text=text, environ=environ) == (
        f'--device-list-strategy: "b" {DEVICE_LIST}'
    )
    assert plugin_error(text="imex: {channelIDs: [1]}") == (
        f"f.yaml:1: imex.channelIDs: [1] {ALLOWED}none, or 0)"
    )


def test_where_that_is_not_known_every_way_to_set_it_is_named() -> None:
    config = load_text(None, "--mig-strategy=double").config
    with pytest.raises(ConfigError) as caught:
        validate_plugin(config, lambda: True)
    assert str(caught.value) == (
        f'mig-strategy: "double" {ALLOWED}none, single, mixed; '
        "set by --mig-strategy, MIG_STRATEGY or flags.migStrategy)"
    )


@pytest.mark.parametrize("ids", ["1", "-1", "0,1"])
def test_imex_channels_that_are_not_offered(ids: tuple[int, ...]) -> None:
    assert plugin_error(f"--imex-channel-ids={ids}").startswith("--imex-channel-ids: [")


@pytest.mark.parametrize("strategy", ["cdi-cri", "cdi-annotations", "envvar,cdi-cri"])
def test_cdi_needs_nvml(strategy: str) -> None:
    assert plugin_error(f"--device-list-strategy={strategy}", nvml=False) == (
        "--device-list-strategy: CDI needs the NVML library, which cannot be opened "
        "(use envvar or volume-mounts, or see to it that libnvidia-ml.so.1 is found below "
        "/driver-root)"
    )


def test_nvml_is_only_asked_for_if_cdi_is_in_use() -> None:
    def never() -> bool:
        raise AssertionError

    validate_plugin(load_text().config, never)


def test_mps_needs_a_root_and_no_mixed_mig() -> None:
    assert plugin_error("--mps-root=/m", text=MPS) == ""
    assert plugin_error("--mps-root=/m", "--mig-strategy=single", text=MPS) == ""
    assert plugin_error(text=MPS) == (
        "mps-root: required by sharing.mps, but empty (the directory of mps-control-daemon on the "
        "host, by default /run/nvidia/mps; set by --mps-root, MPS_ROOT or flags.mpsRoot)"
    )
    assert plugin_error(text=MPS, environ={"MPS_ROOT": ""}) == (
        "MPS_ROOT: required by sharing.mps, but empty (the directory of mps-control-daemon on the "
        "host, by default /run/nvidia/mps)"
    )
    assert plugin_error(text=MPS + "\nflags: {migStrategy: mixed}") == (
        "f.yaml:2: flags.migStrategy: mixed cannot be combined with sharing.mps "
        "(allowed with MPS: none, single)"
    )


def test_the_first_problem_in_the_order_of_the_original_is_named() -> None:
    wrong = {
        "device-list-strategy": "--device-list-strategy=x",
        "device-id-strategy": "--device-id-strategy=x",
        "shared-devices-allocation-policy": "--shared-devices-allocation-policy=x",
        "mps-root": "--mps-root=",
        "device-discovery-strategy": "--device-discovery-strategy=x",
        "mig-strategy": "--mig-strategy=x",
        "imex-channel-ids": "--imex-channel-ids=1",
    }
    for number, name in enumerate(wrong):
        root = [] if name == "mps-root" else ["--mps-root=/m"]
        message = plugin_error(*list(wrong.values())[number:], *root, text=MPS)
        assert message.startswith(f"--{name}: ")
    assert plugin_error("--device-list-strategy=cdi-cri", "--device-id-strategy=x", nvml=False) == (
        plugin_error("--device-list-strategy=cdi-cri", nvml=False)
    )


@pytest.mark.parametrize("strategy", ["auto", "nvml", "tegra", "vfio"])
def test_what_feature_discovery_can_work_with(strategy: str) -> None:
    argv = [f"--device-discovery-strategy={strategy}", "--use-node-feature-api=false"]
    parsed = parse(GFD, [*argv, "--mig-strategy=double"], {})
    validate_labels(load(parsed).config, parsed)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--device-discovery-strategy=guess"],
            (
                '--device-discovery-strategy: "guess" is not allowed '
                "(allowed: auto, nvml, tegra, vfio)"
            ),
        ),
        (["--device-discovery-strategy="], '--device-discovery-strategy: "" is not allowed (all'),
        (
            [],
            (
                "node-name: required to publish NodeFeature objects, but empty "
                "(or turn off --use-node-feature-api; set by --node-name or NODE_NAME)"
            ),
        ),
    ],
)
def test_what_it_cannot_label_with(argv: list[str], message: str) -> None:
    parsed = parse(GFD, argv, {})
    loaded = load(parsed)
    with pytest.raises(ConfigError) as caught:
        validate_labels(loaded.config, parsed, loaded.origins)
    assert str(caught.value).startswith(message)


def test_an_empty_variable_for_the_name_of_the_node_is_named() -> None:
    parsed = parse(GFD, [], {"NODE_NAME": ""})
    with pytest.raises(ConfigError) as caught:
        validate_labels(load(parsed).config, parsed)
    assert str(caught.value) == (
        "NODE_NAME: required to publish NodeFeature objects, but empty "
        "(or turn off --use-node-feature-api)"
    )


def test_a_node_name_is_enough() -> None:
    parsed = parse(GFD, ["--node-name=n"], {})
    validate_labels(load_text(program=GFD).config, parsed)


def test_the_mig_strategy_can_be_checked_alone() -> None:
    validate_mig_strategy(load_text(program=GFD).config)
    with pytest.raises(ConfigError, match=r'mig-strategy: "x" is not allowed .*GFD_MIG_STRATEGY'):
        validate_mig_strategy(load_text(None, "--mig-strategy=x", program=GFD).config)
    loaded = load_text(None, environ={"GFD_MIG_STRATEGY": "x"}, program=GFD)
    with pytest.raises(ConfigError, match=r'^GFD_MIG_STRATEGY: "x" is not allowed'):
        validate_mig_strategy(loaded.config, loaded.origins)


REQUIRED = {
    "node-name": "NODE_NAME",
    "node-label": "NODE_LABEL",
    "config-file-srcdir": "CONFIG_FILE_SRCDIR",
    "config-file-dst": "CONFIG_FILE_DST",
}


@pytest.mark.parametrize("missing", REQUIRED)
def test_what_config_manager_must_be_told(missing: str) -> None:
    environ = {env: "x" for name, env in REQUIRED.items() if name < missing or name != missing}
    environ[REQUIRED[missing]] = ""
    with pytest.raises(UsageError) as caught:
        validate_manager(parse(Program.CONFIG_MANAGER, [], environ))
    assert str(caught.value) == (
        f"invalid {missing}: must not be empty (set --{missing} or {REQUIRED[missing]})"
    )


def test_config_manager_names_the_first_that_is_missing() -> None:
    validate_manager(parse(Program.CONFIG_MANAGER, [], dict.fromkeys(REQUIRED.values(), "x")))
    for number, name in enumerate(REQUIRED):
        environ = dict.fromkeys(list(REQUIRED.values())[:number], "x") | dict.fromkeys(
            list(REQUIRED.values())[number:], ""
        )
        with pytest.raises(UsageError, match=f"^invalid {name}: "):
            validate_manager(parse(Program.CONFIG_MANAGER, [], environ))
