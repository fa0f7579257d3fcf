"""Command line over environment over file over default, checked against a model of its own.

The table stands here once more, in another form, so that a slip in the real one is found.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import PROGRAMS, Program, option_for_path
from gpu_device_plugin.config.schema import Form, walk

PLUGIN = Program.DEVICE_PLUGIN
GFD = Program.GPU_FEATURE_DISCOVERY
MPS = Program.MPS_CONTROL_DAEMON
MANAGER = Program.CONFIG_MANAGER

# flags, variables, type, default, key of the file
PLUGIN_TABLE = """
mig-strategy                          MIG_STRATEGY                               S  none         flags.migStrategy
fail-on-init-error                    FAIL_ON_INIT_ERROR                         B  true         flags.failOnInitError
driver-root,nvidia-driver-root        NVIDIA_DRIVER_ROOT                         S  /            flags.nvidiaDriverRoot
dev-root,nvidia-dev-root              NVIDIA_DEV_ROOT                            S  ""           flags.nvidiaDevRoot
pass-device-specs                     PASS_DEVICE_SPECS                          B  false        flags.plugin.passDeviceSpecs
device-list-strategy                  DEVICE_LIST_STRATEGY                       LS envvar       flags.plugin.deviceListStrategy
device-id-strategy                    DEVICE_ID_STRATEGY                         S  uuid         flags.plugin.deviceIDStrategy
gdrcopy-enabled                       GDRCOPY_ENABLED                            B  false        flags.gdrcopyEnabled
gds-enabled                           GDS_ENABLED                                B  false        flags.gdsEnabled
mofed-enabled                         MOFED_ENABLED                              B  false        flags.mofedEnabled
cdi-annotation-prefix                 CDI_ANNOTATION_PREFIX                      S  cdi.k8s.io/  flags.plugin.cdiAnnotationPrefix
nvidia-cdi-hook-path,nvidia-ctk-path  NVIDIA_CDI_HOOK_PATH,NVIDIA_CTK_PATH       S  /usr/bin/nvidia-ctk flags.plugin.nvidiaCTKPath
driver-root-ctr-path,container-driver-root DRIVER_ROOT_CTR_PATH,CONTAINER_DRIVER_ROOT S /driver-root flags.plugin.containerDriverRoot
mps-root                              MPS_ROOT                                   S  ""           flags.mpsRoot
shared-devices-allocation-policy      SHARED_DEVICES_ALLOCATION_POLICY           S  distributed  flags.plugin.sharedDevicesAllocationPolicy
device-discovery-strategy             DEVICE_DISCOVERY_STRATEGY                  S  auto         flags.deviceDiscoveryStrategy
imex-channel-ids                      IMEX_CHANNEL_IDS                           LI -            imex.channelIDs
imex-required                         IMEX_REQUIRED                              B  false        imex.required
kubelet-socket                        KUBELET_SOCKET                             S  /var/lib/kubelet/device-plugins/kubelet.sock -
config-file                           CONFIG_FILE                                S  ""           -
cdi-feature-flags                     CDI_FEATURE_FLAGS                          LS -            -
cdi-disable-hooks                     CDI_DISABLE_HOOKS                          LS -            -
"""
GFD_TABLE = """
mig-strategy               GFD_MIG_STRATEGY,MIG_STRATEGY                  S none   flags.migStrategy
fail-on-init-error         GFD_FAIL_ON_INIT_ERROR,FAIL_ON_INIT_ERROR      B true   flags.failOnInitError
oneshot                    GFD_ONESHOT                                    B false  flags.gfd.oneshot
no-timestamp               GFD_NO_TIMESTAMP                               B false  flags.gfd.noTimestamp
sleep-interval             GFD_SLEEP_INTERVAL                             D 60     flags.gfd.sleepInterval
output-file,output,o       GFD_OUTPUT_FILE                                S /etc/kubernetes/node-feature-discovery/features.d/gfd flags.gfd.outputFile
machine-type-file          GFD_MACHINE_TYPE_FILE                          S /sys/class/dmi/id/product_name flags.gfd.machineTypeFile
config-file                GFD_CONFIG_FILE,CONFIG_FILE                    S ""     -
use-node-feature-api       GFD_USE_NODE_FEATURE_API,USE_NODE_FEATURE_API  B true   flags.useNodeFeatureAPI
device-discovery-strategy  DEVICE_DISCOVERY_STRATEGY                      S auto   flags.deviceDiscoveryStrategy
driver-root-ctr-path,container-driver-root DRIVER_ROOT_CTR_PATH,CONTAINER_DRIVER_ROOT S /driver-root flags.plugin.containerDriverRoot
kubeconfig                 KUBECONFIG                                     S ""     -
kube-api-qps               KUBE_API_QPS                                   N 5      -
kube-api-burst             KUBE_API_BURST                                 I 10     -
namespace                  NAMESPACE                                      S default -
node-name                  NODE_NAME                                      S ""     -
pod-name                   POD_NAME                                       S ""     -
"""
MPS_TABLE = """
config-file   CONFIG_FILE   S ""    -
mig-strategy  MIG_STRATEGY  S none  flags.migStrategy
"""
MANAGER_TABLE = """
oneshot              ONESHOT              B  false  -
kubeconfig           KUBECONFIG           S  ""     -
node-name            NODE_NAME            S  ""     -
node-label           NODE_LABEL           S  nvidia.com/device-plugin.config -
config-file-srcdir   CONFIG_FILE_SRCDIR   S  ""     -
config-file-dst      CONFIG_FILE_DST      S  ""     -
default-config       DEFAULT_CONFIG       S  ""     -
fallback-strategies  FALLBACK_STRATEGIES  LS -      -
send-signal          SEND_SIGNAL          B  true   -
signal               SIGNAL               I  1      -
process-to-signal    PROCESS_TO_SIGNAL    S  nvidia-device-plugin -
"""
TABLES = {PLUGIN: PLUGIN_TABLE, GFD: GFD_TABLE, MPS: MPS_TABLE, MANAGER: MANAGER_TABLE}


@dataclass(frozen=True)
class Row:
    names: list[str]
    env: list[str]
    kind: str
    default: Any
    path: str


def read_default(kind: str, text: str) -> Any:
    if text == "-":
        return ()
    if kind == "B":
        return text == "true"
    if kind == "LS":
        return tuple(text.split(","))
    if kind == "D":
        return int(text) * 10**9
    return {"I": int, "N": float}.get(kind, str)(text.strip('"'))


def rows(program: Program) -> list[Row]:
    found = []
    for line in TABLES[program].strip().splitlines():
        names, env, kind, default, path = line.split()
        found.append(
            Row(
                names.split(","),
                env.split(","),
                kind,
                read_default(kind, default),
                "" if path == "-" else path,
            )
        )
    return found


ALL_ROWS = [(program, row) for program in TABLES for row in rows(program)]


@pytest.mark.parametrize(
    ("program", "row"), ALL_ROWS, ids=[f"{p}-{row.names[0]}" for p, row in ALL_ROWS]
)
def test_the_tables_agree(program: Program, row: Row) -> None:
    option = PROGRAMS[program].option(row.names[0])
    assert list(option.names) == row.names
    assert list(option.env) == row.env
    assert option.default == row.default
    assert type(option.default) is type(row.default)
    assert option.config_path == row.path


@pytest.mark.parametrize("program", list(TABLES))
def test_there_are_no_other_options_but_our_own(program: Program) -> None:
    named = {row.names[0] for row in rows(program)}
    others = [o for o in PROGRAMS[program].options if o.name not in named]
    common = {"help"} if program is MANAGER else {"help", "version"}
    assert {o.name for o in others if not o.ours} == common
    assert {o.name for o in others} >= {"help", "version", "log-format"}


@pytest.mark.parametrize("program", list(Program))
def test_names_and_variables_are_unique(program: Program) -> None:
    options = PROGRAMS[program].options
    names = [name for option in options for name in option.names]
    env = [name for option in options for name in option.env]
    assert len(names) == len(set(names))
    assert len(env) == len(set(env))


def test_every_key_of_the_flags_belongs_to_an_option_and_the_reverse() -> None:
    keys = {path for path, key in walk(SCHEMA) if key.form is not Form.OBJECT}
    settable = {path for path in keys if path.startswith(("flags.", "imex."))}
    paths = {o.config_path for spec in PROGRAMS.values() for o in spec.options} - {""}
    assert paths == settable
    assert option_for_path("") is None
    assert option_for_path("flags.nonsense") is None
    vfio = option_for_path("flags.deviceDiscoveryStrategy")
    assert vfio is not None
    assert "vfio" in vfio.allowed, "one file serves all programs"


# --- the model

WORDS = {
    "S": st.sampled_from(["none", "mixed", "/x", "a b", "infinite", "1"]),
    "LS": st.sampled_from(["envvar", "volume-mounts,cdi-cri", "x", ""]),
    "LI": st.sampled_from(["0", "0,1", "0x1"]),
    "B": st.sampled_from(["true", "false"]),
    "D": st.sampled_from(["1s", "infinite"]),
}
FILE_VALUES = {
    "S": st.sampled_from(["none", "/file", ""]),
    "LS": st.sampled_from([["envvar"], [], ["a", "b"], "single"]),
    "LI": st.sampled_from([[0], [], [1, 2]]),
    "B": st.booleans(),
    "D": st.sampled_from(["5m", "infinite", 60]),
}
FILE_DURATIONS = {"5m": 300 * 10**9, "infinite": 2**63 - 1, 60: 60}
FLAG_DURATIONS = {"1s": 10**9, "infinite": 2**63 - 1}


@dataclass(frozen=True)
class Scenario:
    argv: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    file: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)


def from_text(kind: str, text: str) -> Any:
    if kind == "B":
        return text == "true"
    if kind == "LS":
        return tuple(text.split(","))
    if kind == "LI":
        return tuple(int(item, 0) for item in text.split(","))
    return FLAG_DURATIONS[text] if kind == "D" else text


def from_file(kind: str, value: Any) -> Any:
    if kind == "LS" and isinstance(value, str):
        return (value,)
    if kind in {"LS", "LI"}:
        return tuple(value)
    return FILE_DURATIONS[value] if kind == "D" else value


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        tree = tree.setdefault(name, {})
    tree[last] = value


@st.composite
def scenarios(draw: st.DrawFn, program: Program) -> Scenario:
    scenario = Scenario()
    for row in (row for row in rows(program) if row.path):
        unset = object()
        result = unset
        if draw(st.booleans()):
            value = draw(st.none() | FILE_VALUES[row.kind])
            put(scenario.file, row.path, value)
            result = unset if value is None else from_file(row.kind, value)
        given_env = draw(st.lists(st.sampled_from(row.env), unique=True, max_size=2))
        for name in given_env:
            scenario.environ[name] = draw(st.just("") | WORDS[row.kind])
        first = next((name for name in row.env if name in given_env), None)
        if first is not None:
            text = scenario.environ[first]
            if text:
                result = from_text(row.kind, text)
            elif row.kind in {"S", "B", "LS"}:
                result = {"S": "", "B": False, "LS": ("",)}[row.kind]
        name = draw(st.sampled_from(row.names))
        words = draw(st.lists(WORDS[row.kind], max_size=2))
        scenario.argv.extend(f"--{name}={word}" for word in words)
        values = [from_text(row.kind, word) for word in words]
        if values:
            result = sum(values, ()) if row.kind in {"LS", "LI"} else values[-1]
        scenario.expected[row.path] = row.default if result is unset else result
    flags = scenario.expected
    if "flags.nvidiaDevRoot" in flags and not flags["flags.nvidiaDevRoot"]:
        flags["flags.nvidiaDevRoot"] = flags["flags.nvidiaDriverRoot"]
    return scenario


def outcome(program: Program, scenario: Scenario) -> Mapping[str, Any]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(scenario.file, file)
        file.flush()
        argv = [*scenario.argv, f"--config-file={file.name}"]
        config = load(parse(program, argv, scenario.environ)).config
    return {path: at(config, path) for path in scenario.expected}


def at(config: Config, path: str) -> Any:
    key, found = SCHEMA, config
    for name in path.split("."):
        key = next(child for child in key.children if child.name == name)
        found = getattr(found, key.field)
    return found


@settings(max_examples=60, deadline=None)
@given(scenarios(PLUGIN))
def test_precedence_in_the_device_plugin(scenario: Scenario) -> None:
    assert outcome(PLUGIN, scenario) == scenario.expected


@settings(max_examples=40, deadline=None)
@given(scenarios(GFD))
def test_precedence_in_feature_discovery(scenario: Scenario) -> None:
    assert outcome(GFD, scenario) == scenario.expected


@settings(max_examples=20, deadline=None)
@given(scenarios(MPS))
def test_precedence_in_the_mps_daemon(scenario: Scenario) -> None:
    assert outcome(MPS, scenario) == scenario.expected
