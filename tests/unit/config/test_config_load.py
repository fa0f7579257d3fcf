from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.configs import a_config

from gpu_device_plugin.config import load as load_module
from gpu_device_plugin.config.files import RIGHT_ONCE
from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import Loaded, load
from gpu_device_plugin.config.model import Flags, GfdFlags, PluginFlags
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.errors import ConfigError

GFD = Program.GPU_FEATURE_DISCOVERY
MPS = Program.MPS_CONTROL_DAEMON
ALL_FLAGS = """
version: v1
flags:
  migStrategy: mixed
  failOnInitError: false
  plugin: {deviceListStrategy: [volume-mounts, cdi-cri], deviceIDStrategy: index}
  gfd: {oneshot: true, sleepInterval: 5s}
"""


def test_without_anything_the_defaults_hold() -> None:
    loaded = load_text()
    assert not loaded.warnings
    assert not loaded.origins
    assert loaded.config == a_config(shared_devices_allocation_policy="distributed")


def test_feature_discovery_keeps_its_section() -> None:
    flags = load_text(program=GFD).config.flags
    assert flags.use_node_feature_api is True
    assert flags.gfd == GfdFlags(
        oneshot=False,
        no_timestamp=False,
        sleep_interval=60 * 10**9,
        output_file="/etc/kubernetes/node-feature-discovery/features.d/gfd",
        machine_type_file="/sys/class/dmi/id/product_name",
    )
    assert flags.plugin == PluginFlags(container_driver_root="/driver-root")
    assert flags.nvidia_driver_root is None
    assert flags.nvidia_dev_root is None
    assert load_text(ALL_FLAGS, program=GFD).config.flags.gfd == GfdFlags(
        oneshot=True,
        no_timestamp=False,
        sleep_interval=5 * 10**9,
        output_file="/etc/kubernetes/node-feature-discovery/features.d/gfd",
        machine_type_file="/sys/class/dmi/id/product_name",
    )


@pytest.mark.parametrize("program", [Program.DEVICE_PLUGIN, MPS])
def test_the_other_programs_drop_it(program: Program) -> None:
    assert load_text(ALL_FLAGS, program=program).config.flags.gfd is None


def test_what_a_program_has_no_flag_for_comes_from_the_file_alone() -> None:
    assert load_text(program=MPS).config.flags == Flags(mig_strategy="none")
    flags = load_text(ALL_FLAGS, program=MPS).config.flags
    assert flags.fail_on_init_error is False
    assert flags.plugin.device_id_strategy == "index"
    assert load_text("flags: {useNodeFeatureAPI: true}").config.flags.use_node_feature_api is True


def test_a_flag_overrides_the_file_even_with_its_default() -> None:
    text = "flags: {migStrategy: mixed}"
    assert load_text(text).config.flags.mig_strategy == "mixed"
    assert load_text(text, "--mig-strategy=none").config.flags.mig_strategy == "none"
    assert load_text(text, environ={"MIG_STRATEGY": "none"}).config.flags.mig_strategy == "none"
    assert load_text(text, environ={"MIG_STRATEGY": ""}).config.flags.mig_strategy == ""


def test_lists_are_replaced() -> None:
    text = "flags: {plugin: {deviceListStrategy: [a, b]}}"
    loaded = load_text(text, "--device-list-strategy=c")
    assert loaded.config.flags.plugin.device_list_strategy == ("c",)


def test_what_is_empty_in_the_file_stays_empty() -> None:
    text = "flags: {mpsRoot: '', migStrategy: '', plugin: {deviceListStrategy: []}}"
    flags = load_text(text).config.flags
    assert (flags.mig_strategy, flags.plugin.device_list_strategy) == ("", ())


def test_what_is_null_in_the_file_gets_the_default() -> None:
    text = "flags: {migStrategy: null, plugin: null}"
    flags = load_text(text).config.flags
    assert flags.mig_strategy == "none"
    assert flags.plugin.device_list_strategy == ("envvar",)


@pytest.mark.parametrize(
    ("driver", "dev", "expected"),
    [("/d", "", "/d"), ("/d", "/v", "/v"), ("", "", ""), ("/d", None, "/d")],
)
def test_the_root_of_devices_is_that_of_the_driver_unless_given(
    driver: str, dev: str | None, expected: str
) -> None:
    argv = [f"--driver-root={driver}"] + ([] if dev is None else [f"--dev-root={dev}"])
    assert load_text(None, *argv).config.flags.nvidia_dev_root == expected


@pytest.mark.parametrize(
    ("argv", "environ", "ids", "required"),
    [
        ([], {}, (1, 2), True),
        (["--imex-channel-ids=0"], {}, (0,), True),
        ([], {"IMEX_CHANNEL_IDS": "0", "IMEX_REQUIRED": ""}, (0,), False),
        ([], {"IMEX_CHANNEL_IDS": ""}, (1, 2), True),
        (["--imex-required=false"], {"IMEX_REQUIRED": "true"}, (1, 2), False),
    ],
)
def test_imex_settings_get_no_defaults(
    argv: list[str], environ: dict[str, str], ids: tuple[int, ...], required: bool
) -> None:
    imex = load_text(
        "imex: {channelIDs: [1, 2], required: true}", *argv, environ=environ
    ).config.imex
    assert (imex.channel_ids, imex.required) == (ids, required)


@pytest.mark.parametrize(
    ("written", "expected"), [("", True), ("null", True), ("true", True), ("false", False)]
)
def test_with_mps_one_replica_is_the_limit_unless_the_file_says_otherwise(
    written: str, *, expected: bool
) -> None:
    """DEVIATION: v0.19.3 ignores an explicit false."""
    key = f"failRequestsGreaterThanOne: {written}," if written else ""
    text = f"sharing: {{mps: {{{key} resources: [{{name: gpu, replicas: 2}}]}}}}"
    sharing = load_text(text).config.sharing
    assert sharing.mps is not None
    assert sharing.mps.fail_requests_greater_than_one is expected


def test_with_time_slicing_nothing_is_the_limit() -> None:
    text = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}"
    assert load_text(text).config.sharing.time_slicing.fail_requests_greater_than_one is None


def test_time_slicing_beside_mps_gives_a_warning() -> None:
    section = "{resources: [{name: gpu, replicas: 2}]}"
    loaded = load_text(f"sharing: {{mps: {section}, timeSlicing: {section}}}")
    assert [str(w) for w in loaded.warnings] == [
        "f.yaml: sharing.timeSlicing: without effect beside sharing.mps"
    ]


def test_the_file_is_named_by_a_variable_too() -> None:
    def read(path: str) -> bytes:
        return {"a": b"flags: {gdsEnabled: true}", "b": b""}[path]

    parsed = parse(Program.DEVICE_PLUGIN, [], {"CONFIG_FILE": "a"})
    assert load(parsed, read).config.flags.gds_enabled is True
    parsed = parse(GFD, [], {"GFD_CONFIG_FILE": "a", "CONFIG_FILE": "b"})
    assert load(parsed, read).config.flags.gds_enabled is True


def test_it_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    parsed = parse(Program.DEVICE_PLUGIN, [f"--config-file={file}"], {})
    file.write_text("flags: {migStrategy: single}")
    assert load(parsed).config.flags.mig_strategy == "single"
    file.write_text("flags: {migStrategy: mixed}")
    assert load(parsed).config.flags.mig_strategy == "mixed"


def test_the_null_device_is_an_empty_file() -> None:
    assert load_file("/dev/null").config == load_text().config


def load_file(path: str) -> Loaded:
    return load(parse(Program.DEVICE_PLUGIN, ["--config-file", path], {}))


@pytest.mark.parametrize(
    ("path", "reason", "hint"),
    [
        ("/absent.yaml", "No such file or directory", ""),
        ("/", "Is a directory", f"{RIGHT_ONCE}; "),
        ("a\0b", "embedded null byte", ""),
    ],
)
def test_files_that_cannot_be_read(path: str, reason: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    name = path.replace("\0", r"\x00")
    assert str(caught.value) == (
        f"{name}: the configuration file cannot be read: {reason} ({hint}set by --config-file)"
    )


def test_the_variable_that_named_a_file_is_named() -> None:
    for program, name in ((Program.DEVICE_PLUGIN, "CONFIG_FILE"), (GFD, "GFD_CONFIG_FILE")):
        with pytest.raises(ConfigError, match=rf"^/nope: .* \(set by {name}\)$"):
            load(parse(program, [], {name: "/nope"}))


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "LARGEST", 10)
    file = tmp_path / "f.yaml"
    file.write_text("# 3456789\n")
    assert load_file(str(file)).config == load_text().config
    file.write_text("# 345678910\n")
    with pytest.raises(ConfigError) as caught:
        load_file(str(file))
    assert str(caught.value) == (
        f"{file}: the configuration file is too large (allowed: 10 bytes; set by --config-file)"
    )


def test_what_a_config_map_can_hold_is_not_too_large() -> None:
    assert load_module.LARGEST == 2 * 2**20


def test_an_error_in_the_file_counts_whatever_else_is_set() -> None:
    with pytest.raises(ConfigError, match=r"^f\.yaml:1: flags\.migStrategy: the number 7"):
        load_text("flags: {migStrategy: 7, failOnInitError: false}", "--mig-strategy=none")


WHO = """
Flags:
  MIGStrategy: single
  failOnInitError: null
  plugin:
    deviceIDStrategy: uuid
    passDeviceSpecs: false
imex: {required: true}
"""


def test_what_set_a_value_is_known() -> None:
    loaded = load_text(
        WHO, "-pass-device-specs=false", "--nvidia-driver-root=/", environ={"MPS_ROOT": ""}
    )
    assert {key: str(place) for key, place in loaded.origins.items()} == {
        "flags.migStrategy": "f.yaml:3: Flags.MIGStrategy",
        "flags.plugin.deviceIDStrategy": "f.yaml:6: Flags.plugin.deviceIDStrategy",
        "flags.plugin.passDeviceSpecs": "--pass-device-specs",
        "flags.nvidiaDriverRoot": "--nvidia-driver-root",
        "flags.mpsRoot": "MPS_ROOT",
        "imex.required": "f.yaml:8: imex.required",
    }


def test_of_several_places_the_one_that_counts_is_known() -> None:
    text = "flags: {migStrategy: mixed}\nFLAGS: {MIGSTRATEGY: none}\n"
    assert str(load_text(text).origins["flags.migStrategy"]) == "f.yaml:1: flags.migStrategy"
    text = "a: &a {migStrategy: mixed}\nflags:\n  <<: *a\n"
    assert str(load_text(text).origins["flags.migStrategy"]) == "f.yaml:1: flags.migStrategy"


def test_what_is_null_was_set_by_nothing() -> None:
    text = (
        "flags: {MIGSTRATEGY: mixed, migStrategy: null, Plugin: {deviceIDStrategy: a}, plugin: ~}"
    )
    loaded = load_text(text)
    assert (loaded.config.flags.mig_strategy, loaded.origins) == ("none", {})


CDI_ALONE = "without effect with CDI strategies alone (CDI specifications have the device nodes)"
NO_DEVICES = "the list is empty: containers get no devices"


@pytest.mark.parametrize(
    ("plugin", "argv", "environ", "warnings"),
    [
        (
            "deviceListStrategy: []",
            [],
            {},
            [f"f.yaml:2: flags.plugin.deviceListStrategy: {NO_DEVICES}"],
        ),
        (
            "{deviceListStrategy: [], passDeviceSpecs: true}",
            [],
            {},
            [f"f.yaml:2: flags.plugin.deviceListStrategy: {NO_DEVICES}"],
        ),
        ("deviceListStrategy: []", ["--device-list-strategy=envvar"], {}, []),
        (
            "{deviceListStrategy: [cdi-cri, cdi-annotations], passDeviceSpecs: true}",
            [],
            {},
            [f"f.yaml:2: flags.plugin.passDeviceSpecs: {CDI_ALONE}"],
        ),
        (
            "deviceListStrategy: cdi-cri",
            ["--pass-device-specs"],
            {},
            [f"--pass-device-specs: {CDI_ALONE}"],
        ),
        (
            "deviceListStrategy: cdi-cri",
            [],
            {"PASS_DEVICE_SPECS": "true"},
            [f"PASS_DEVICE_SPECS: {CDI_ALONE}"],
        ),
        ("deviceListStrategy: [cdi-cri, envvar]", ["--pass-device-specs"], {}, []),
        ("deviceListStrategy: [cdi-cri, smoke]", ["--pass-device-specs"], {}, []),
        ("deviceListStrategy: cdi-cri", [], {}, []),
    ],
)
def test_settings_that_keep_devices_out_of_containers_give_a_warning(
    plugin: str, argv: list[str], environ: dict[str, str], warnings: list[str]
) -> None:
    plugin = plugin if plugin.startswith("{") else f"{{{plugin}}}"
    text = f"flags:\n plugin: {plugin}"
    assert [str(w) for w in load_text(text, *argv, environ=environ).warnings] == warnings
    assert not load_text(text, program=MPS).warnings


def test_nothing_heavy_is_imported_without_a_file() -> None:
    """Start-up time matters: YAML costs 20 ms and two megabytes."""
    code = (
        "import sys\n"
        "from gpu_device_plugin.config import grammar, help, load, options, render, validate\n"
        "parsed = grammar.parse(options.Program.DEVICE_PLUGIN, [], {})\n"
        "config = load.load(parsed).config\n"
        "validate.validate_plugin(config, lambda: True)\n"
        "heavy = {'yaml', 'json', 'argparse', 'difflib', 'pathlib', 'logging', 'asyncio', 'click'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    root = Path(load_module.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
