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


def plugin_error(*argv: str, text: str | None = None, nvml: bool = True) -> str:
    config = load_text(text, *argv).config
    try:
        validate_plugin(config, lambda: nvml)
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


DEVICE_LIST = (
    "set by --device-list-strategy, DEVICE_LIST_STRATEGY or flags.plugin.deviceListStrategy"
)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--device-list-strategy=envvar,smoke"],
            (
                'device-list-strategy: "smoke" is not allowed '
                f"(allowed: envvar, volume-mounts, cdi-annotations, cdi-cri; {DEVICE_LIST})"
            ),
        ),
        (
            ["--device-list-strategy="],
            (
                'device-list-strategy: "" is not allowed '
                f"(allowed: envvar, volume-mounts, cdi-annotations, cdi-cri; {DEVICE_LIST})"
            ),
        ),
        (
            ["--device-id-strategy=serial"],
            (
                'device-id-strategy: "serial" is not allowed (allowed: uuid, index; set by '
                "--device-id-strategy, DEVICE_ID_STRATEGY or flags.plugin.deviceIDStrategy)"
            ),
        ),
        (
            ["--shared-devices-allocation-policy="],
            (
                'shared-devices-allocation-policy: "" is not allowed (allowed: distributed, packed; '
                "set by --shared-devices-allocation-policy, SHARED_DEVICES_ALLOCATION_POLICY or "
                "flags.plugin.sharedDevicesAllocationPolicy)"
            ),
        ),
        (
            ["--device-discovery-strategy=vfio"],
            (
                'device-discovery-strategy: "vfio" is not allowed (allowed: auto, nvml, tegra; set by '
                "--device-discovery-strategy, DEVICE_DISCOVERY_STRATEGY or "
                "flags.deviceDiscoveryStrategy)"
            ),
        ),
        (
            ["--mig-strategy=double"],
            (
                'mig-strategy: "double" is not allowed (allowed: none, single, mixed; '
                "set by --mig-strategy, MIG_STRATEGY or flags.migStrategy)"
            ),
        ),
        (
            ["--imex-channel-ids=0,0"],
            (
                "imex-channel-ids: [0, 0] is not allowed (allowed: none, or 0; "
                "set by --imex-channel-ids, IMEX_CHANNEL_IDS or imex.channelIDs)"
            ),
        ),
    ],
)
def test_what_it_cannot(argv: list[str], message: str) -> None:
    assert plugin_error(*argv) == message


@pytest.mark.parametrize("ids", ["1", "-1", "0,1"])
def test_imex_channels_that_are_not_offered(ids: tuple[int, ...]) -> None:
    assert plugin_error(f"--imex-channel-ids={ids}").startswith("imex-channel-ids: [")


@pytest.mark.parametrize("strategy", ["cdi-cri", "cdi-annotations", "envvar,cdi-cri"])
def test_cdi_needs_nvml(strategy: str) -> None:
    assert plugin_error(f"--device-list-strategy={strategy}", nvml=False) == (
        "device-list-strategy: CDI needs the NVML library, which cannot be opened "
        "(use envvar or volume-mounts, or see to it that libnvidia-ml.so.1 is found below "
        f"/driver-root; {DEVICE_LIST})"
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
    assert plugin_error("--mig-strategy=mixed", text=MPS) == (
        "mig-strategy: mixed cannot be combined with sharing.mps (allowed with MPS: none, single; "
        "set by --mig-strategy, MIG_STRATEGY or flags.migStrategy)"
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
        assert message.startswith(f"{name}: ")
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
                'device-discovery-strategy: "guess" is not allowed (allowed: auto, nvml, tegra, vfio; '
                "set by --device-discovery-strategy, DEVICE_DISCOVERY_STRATEGY or "
                "flags.deviceDiscoveryStrategy)"
            ),
        ),
        (["--device-discovery-strategy="], 'device-discovery-strategy: "" is not allowed (all'),
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
    with pytest.raises(ConfigError) as caught:
        validate_labels(load(parsed).config, parsed)
    assert str(caught.value).startswith(message)


def test_a_node_name_is_enough() -> None:
    parsed = parse(GFD, ["--node-name=n"], {})
    validate_labels(load_text(program=GFD).config, parsed)


def test_the_mig_strategy_can_be_checked_alone() -> None:
    validate_mig_strategy(load_text(program=GFD).config)
    with pytest.raises(ConfigError, match=r'mig-strategy: "x" is not allowed .*GFD_MIG_STRATEGY'):
        validate_mig_strategy(load_text(None, "--mig-strategy=x", program=GFD).config)


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
