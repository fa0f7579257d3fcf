"""From the file to the configuration: types, nulls, spelling of keys, unknown keys."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpu_device_plugin.config.decode import MOST_WARNINGS, decode
from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.model import Config, ResourcePattern
from gpu_device_plugin.config.schema import build, walk
from gpu_device_plugin.errors import ConfigError

ITEM = "name: nvidia.com/gpu, replicas: 2"


def config(text: str) -> Config:
    """What the file alone says, without defaults."""
    built: Config = build(SCHEMA, decode(text.encode(), "f.yaml").values)
    return built


def value(text: str, path: str) -> Any:
    found: Any = config(text)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        decode(text.encode(), "f.yaml")
    return str(caught.value)


def warnings(text: str) -> list[str]:
    return [str(warning) for warning in decode(text.encode(), "f.yaml").warnings]


# --- the top level


@pytest.mark.parametrize(
    "text", ["", "# x", "~", "{}", "version: v1", "version:", "version: ''", "VERSION: ''"]
)
def test_files_that_say_nothing(text: str) -> None:
    assert config(text) == Config()
    assert not warnings(text)


@pytest.mark.parametrize(
    "text",
    [
        "flags:\nresources:\nsharing:\nimex:\nextensions:\n",
        "flags: {}\nresources: {}\nsharing: {}\nimex: {}\nextensions: {}\n",
        "resources: {gpus: null, mig: null}\nsharing: {mps: null}\nimex: {channelIDs: null, required: null}",
        "flags: {gdsEnabled: null, migStrategy: ~, plugin: {deviceListStrategy: null}}",
    ],
)
def test_null_and_empty_are_as_if_absent(text: str) -> None:
    assert config(text) == Config()


@pytest.mark.parametrize(
    ("version", "shown"),
    [("v2", '"v2" is not a known version'), ("v1 beta", '"v1 beta" is not a known version')],
)
def test_unknown_versions(version: str, shown: str) -> None:
    assert error(f"# x\nversion: {version}") == f"f.yaml:2: version: {shown} (allowed: v1)"


@pytest.mark.parametrize("version", ["1", "1.0", "true"])
def test_a_version_that_is_no_text_is_an_error(version: str) -> None:
    assert error(f"version: {version}").startswith("f.yaml:1: version: the ")


# --- values


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("flags: {migStrategy: anything}", "flags.mig_strategy", "anything"),
        ("flags: {migStrategy: ''}", "flags.mig_strategy", ""),
        ("flags: {migStrategy: 1:10}", "flags.mig_strategy", "1:10"),
        ("flags: {migStrategy: 2001-01-01}", "flags.mig_strategy", "2001-01-01"),
        ("flags: {mpsRoot: /x}", "flags.mps_root", "/x"),
        ("flags: {gdsEnabled: yes}", "flags.gds_enabled", True),
        ("flags: {mofedEnabled: on}", "flags.mofed_enabled", True),
        ("flags: {gdrcopyEnabled: n}", "flags.gdrcopy_enabled", False),
        ("flags: {useNodeFeatureAPI: false}", "flags.use_node_feature_api", False),
        ("flags: {plugin: {deviceListStrategy: a}}", "flags.plugin.device_list_strategy", ("a",)),
        (
            "flags: {plugin: {deviceListStrategy: 'a,b'}}",
            "flags.plugin.device_list_strategy",
            ("a,b",),
        ),
        (
            "flags: {plugin: {deviceListStrategy: [a, b]}}",
            "flags.plugin.device_list_strategy",
            ("a", "b"),
        ),
        ("flags: {plugin: {deviceListStrategy: []}}", "flags.plugin.device_list_strategy", ()),
        (
            "flags: {plugin: {deviceListStrategy: [a, null]}}",
            "flags.plugin.device_list_strategy",
            ("a", ""),
        ),
        ("flags: {gfd: {oneshot: true}}", "flags.gfd.oneshot", True),
        ("imex: {channelIDs: [0, 1.0, 0x10, 1e3]}", "imex.channel_ids", (0, 1, 16, 1000)),
        ("imex: {channelIDs: [null]}", "imex.channel_ids", (0,)),
        ("imex: {channelIDs: []}", "imex.channel_ids", ()),
        ("imex: {required: true}", "imex.required", True),
    ],
)
def test_values(text: str, path: str, expected: Any) -> None:
    assert value(text, path) == expected


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("60s", 60 * 10**9),
        ("infinite", INFINITE),
        ("'0'", 0),
        ("-5s", -5 * 10**9),
        ("60", 60),
        ("1.5", 1),
        ("-1.5", -1),
        ("1e3", 1000),
        ("0.9", 0),
        ("9223372036854775807", -(2**63)),
        ("18446744073709551615", -(2**63)),
        ("1e300", -(2**63)),
        ("9007199254740993", 9007199254740992),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    found = value(f"flags: {{gfd: {{sleepInterval: {text}}}}}", "flags.gfd.sleep_interval")
    assert found == nanoseconds


@pytest.mark.parametrize("text", ["true", "[]", "{}", "''", "soon", "'60'", "1:10", "Infinite"])
def test_other_values_are_no_durations(text: str) -> None:
    message = error(f"flags:\n  gfd:\n    sleepInterval: {text}")
    assert message.startswith("f.yaml:3: flags.gfd.sleepInterval: ")
    assert message.endswith("(allowed: such as 30s, 5m or 1h30m, or infinite)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a list where a mapping belongs"),
        ("- version: v1", "a list where a mapping belongs"),
        ("text", 'the text "text" where a mapping belongs'),
        ("''", 'the text "" where a mapping belongs'),
        ("5", "the number 5 where a mapping belongs"),
        ("false", "the boolean false where a mapping belongs"),
        (".inf", "the number inf where a mapping belongs"),
    ],
)
def test_the_top_level_must_be_a_mapping(text: str, message: str) -> None:
    assert error(f"# x\n{text}") == f"f.yaml:2: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flags: []", "flags: a list where a mapping belongs"),
        ("flags: {plugin: 1}", "flags.plugin: the number 1 where a mapping belongs"),
        ("flags: {plugin: ''}", 'flags.plugin: the text "" where a mapping belongs'),
        ("sharing: all", 'sharing: the text "all" where a mapping belongs'),
        ("imex: true", "imex: the boolean true where a mapping belongs"),
        (
            "flags: {gdsEnabled: 'true'}",
            (
                'flags.gdsEnabled: the text "true" is not a boolean '
                "(allowed: true, false, without quotes)"
            ),
        ),
        (
            "flags: {gdsEnabled: 1}",
            "flags.gdsEnabled: the number 1 is not a boolean (allowed: true, false, without quotes)",
        ),
        (
            "flags: {migStrategy: 7}",
            "flags.migStrategy: the number 7 is not a text (allowed: none, single, mixed)",
        ),
        (
            "flags: {migStrategy: true}",
            "flags.migStrategy: the boolean true is not a text (allowed: none, single, mixed)",
        ),
        (
            "flags: {mpsRoot: [/a]}",
            (
                "flags.mpsRoot: a list is not a text "
                "(allowed: texts; put numbers and booleans in quotes)"
            ),
        ),
        (
            "flags: {plugin: {deviceListStrategy: 3}}",
            "flags.plugin.deviceListStrategy: the number 3 where a text or a list of texts belongs",
        ),
        (
            "flags: {plugin: {deviceListStrategy: {a: b}}}",
            "flags.plugin.deviceListStrategy: a mapping where a text or a list of texts belongs",
        ),
        (
            "flags: {plugin: {deviceListStrategy: [envvar, 3]}}",
            "flags.plugin.deviceListStrategy[1]: the number 3 is not a text (allowed: ",
        ),
        (
            "flags: {plugin: {deviceListStrategy: [[envvar]]}}",
            "flags.plugin.deviceListStrategy[0]: a list is not a text (allowed: ",
        ),
        (
            "imex: {channelIDs: 0}",
            "imex.channelIDs: the number 0 where a list of whole numbers belongs",
        ),
        (
            "imex: {channelIDs: ['0']}",
            (
                'imex.channelIDs[0]: the text "0" is not a whole number '
                "(allowed: whole numbers without quotes)"
            ),
        ),
        (
            "imex: {channelIDs: [0, 1.5]}",
            "imex.channelIDs[1]: the number 1.5 is not a whole number",
        ),
        (
            "imex: {channelIDs: [true]}",
            "imex.channelIDs[0]: the boolean true is not a whole number",
        ),
        (
            "imex: {channelIDs: [9223372036854775808]}",
            "imex.channelIDs[0]: 9223372036854775808 is too large (allowed: numbers of 64 bits)",
        ),
        ("imex: {required: 1}", "imex.required: the number 1 is not a boolean"),
        ("sharing: {mps: []}", "sharing.mps: a list where a mapping belongs"),
    ],
)
def test_values_of_the_wrong_form(text: str, message: str) -> None:
    assert error(text).startswith(f"f.yaml:1: {message}")


# --- resources


def test_patterns_of_resources() -> None:
    text = "resources: {gpus: [{pattern: 'Tesla*', name: t}, {pattern: null, name: nvidia.com/x}]}"
    assert value(text, "resources.gpus") == (
        ResourcePattern("Tesla*", "nvidia.com/t"),
        ResourcePattern("", "nvidia.com/x"),
    )
    assert value("resources: {mig: [{pattern: 1g*, name: s}]}", "resources.mig") == (
        ResourcePattern("1g*", "nvidia.com/s"),
    )


@pytest.mark.parametrize("section", ["gpus", "mig"])
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("[{pattern: '*'}]", '[0]: "name" is missing'),
        ("[{name: a, pattern: b}, {name: a}]", '[1]: "pattern" is missing'),
        (
            "[{name: a, Pattern: b}]",
            '[0]: "pattern" is missing ("Pattern" must be written pattern here)',
        ),
        ("[null]", "[0]: null where a mapping belongs"),
        ("[x]", '[0]: the text "x" where a mapping belongs'),
        ("{pattern: '*', name: gpu}", ": a mapping where a list of mappings belongs"),
        ("x", ': the text "x" where a list of mappings belongs'),
        ("[{pattern: 1, name: a}]", "[0].pattern: the number 1 is not a text"),
        ("[{pattern: '', name: null}]", "[0].name: null is not a text"),
        ("[{pattern: '', name: ''}]", '[0].name: "" is not a resource name (allowed: at most 52'),
        (
            "[{pattern: '', name: a_b}]",
            '[0].name: "a_b" is not a resource name (allowed: at most 52',
        ),
        ("[{pattern: '', name: 1}]", "[0].name: the number 1 is not a text"),
    ],
)
def test_patterns_that_are_wrong(section: str, items: str, message: str) -> None:
    assert error(f"resources: {{{section}: {items}}}").startswith(
        f"f.yaml:1: resources.{section}{message}"
    )


# --- sharing


def test_shared_resources() -> None:
    text = f"""
    sharing:
      timeSlicing:
        renameByDefault: true
        failRequestsGreaterThanOne: null
        resources: [{{{ITEM}}}, {{name: mig-1g.5gb, replicas: 3.0, rename: small}}]
      mps: {{renameByDefault: null, failRequestsGreaterThanOne: false, resources: [{{{ITEM}}}]}}
    """
    sharing = config(text).sharing
    assert sharing.time_slicing.fail_requests_greater_than_one is None
    assert [(r.name, r.replicas, r.rename) for r in sharing.time_slicing.resources] == [
        ("nvidia.com/gpu", 2, "nvidia.com/gpu.shared"),
        ("nvidia.com/mig-1g.5gb", 3, "nvidia.com/small"),
    ]
    assert sharing.mps is not None
    assert sharing.mps.rename_by_default is False
    assert sharing.mps.fail_requests_greater_than_one is False
    assert sharing.mps.resources[0].rename == ""


@pytest.mark.parametrize("section", ["timeSlicing", "mps"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", ': "resources" is missing'),
        ("{renameByDefault: true}", ': "resources" is missing'),
        (
            "{Resources: []}",
            ': "resources" is missing ("Resources" must be written resources here)',
        ),
        ("[]", ": a list where a mapping belongs"),
        ("{resources: []}", ".resources: the list is empty (at least one entry is needed)"),
        ("{resources: null}", ".resources: null where a list of mappings belongs"),
        ("{resources: {name: gpu}}", ".resources: a mapping where a list of mappings belongs"),
        ("{resources: [null]}", ".resources[0]: null where a mapping belongs"),
        ("{resources: [{replicas: 2}]}", '.resources[0]: "name" is missing'),
        ("{resources: [{name: gpu}]}", '.resources[0]: "replicas" is missing'),
        (
            "{resources: [{name: gpu, Replicas: 2}]}",
            '.resources[0]: "replicas" is missing ("Replicas"',
        ),
        ("{resources: [{name: null, replicas: 2}]}", ".resources[0].name: null is not a text"),
        ("{resources: [{name: GPU, replicas: 2}]}", '.resources[0].name: "GPU" is not a resource'),
        (
            "{resources: [{name: gpu, replicas: 2, rename: null}]}",
            ".resources[0].rename: null is not a text",
        ),
        (
            "{resources: [{name: gpu, replicas: 2, rename: ''}]}",
            '.resources[0].rename: "" is not a',
        ),
        (
            "{resources: [{name: gpu, replicas: 2, rename: _x}]}",
            '.resources[0].rename: "_x" is not a',
        ),
        ("{renameByDefault: 1, resources: []}", ".renameByDefault: the number 1 is not a boolean"),
        ("{failRequestsGreaterThanOne: x, resources: []}", ".failRequestsGreaterThanOne: the text"),
    ],
)
def test_shared_resources_that_are_wrong(section: str, body: str, message: str) -> None:
    assert error(f"sharing: {{{section}: {body}}}").startswith(
        f"f.yaml:1: sharing.{section}{message}"
    )


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ("1", "1 is too small (allowed: whole numbers without quotes, 2 or more)"),
        ("0", "0 is too small"),
        ("-1", "-1 is too small"),
        ("null", "null is not a whole number"),
        ("'2'", 'the text "2" is not a whole number'),
        ("2.5", "the number 2.5 is not a whole number"),
        ("9223372036854775808", "9223372036854775808 is too large"),
        ("99999999999999999999", "100000000000000000000 is too large"),
        ("true", "the boolean true is not a whole number"),
        ("[2]", "a list is not a whole number"),
    ],
)
def test_numbers_of_replicas_that_are_wrong(replicas: str, message: str) -> None:
    found = error(f"sharing: {{mps: {{resources: [{{name: gpu, replicas: {replicas}}}]}}}}")
    assert found.startswith(f"f.yaml:1: sharing.mps.resources[0].replicas: {message}")


@pytest.mark.parametrize(("replicas", "number"), [("2", 2), ("4.0", 4), ("100", 100), ("48", 48)])
def test_numbers_of_replicas(replicas: str, number: float) -> None:
    text = f"sharing: {{mps: {{resources: [{{name: gpu, replicas: {replicas}}}]}}}}"
    assert value(text, "sharing.mps.resources")[0].replicas == number


def test_null_for_time_slicing_is_an_error_but_not_for_mps() -> None:
    assert error("sharing: {timeSlicing: null}") == (
        "f.yaml:1: sharing.timeSlicing: null where a mapping belongs"
    )
    assert value("sharing: {mps: null}", "sharing.mps") is None


# --- spelling of keys


def test_case_does_not_matter_in_plain_mappings() -> None:
    text = "VERSION: v1\nFlags: {GDSENABLED: true, Plugin: {DeviceIdStrategy: index}}\nIMEX: {CHANNELids: [0]}"
    assert value(text, "flags.gds_enabled") is True
    assert value(text, "flags.plugin.device_id_strategy") == "index"
    assert value(text, "imex.channel_ids") == (0,)
    assert not warnings(text)


def test_case_folding_is_that_of_go() -> None:
    assert value("flag\u017f: {gd\u017fEnabled: true}", "flags.gds_enabled") is True
    assert error("ver\u017fion: v2").startswith("f.yaml:1: ver\u017fion: ")
    assert value("flags: {pa\u00dfDeviceSpecs: true}", "flags.plugin.pass_device_specs") is None


def test_of_several_spellings_the_last_in_byte_order_counts() -> None:
    assert value("flags: {migStrategy: a, MIGSTRATEGY: b}", "flags.mig_strategy") == "a"
    assert value("flags: {migstrategy: a, migStrategy: b}", "flags.mig_strategy") == "a"
    assert value("flags: {migStrategy: null, MIGSTRATEGY: b}", "flags.mig_strategy") is None
    assert value("imex: {required: null, REQUIRED: true}", "imex.required") is True
    assert config("version: v1\nVERSION: v2\n").version == "v1"
    assert error("VERSION: v1\nversion: v2\n").startswith("f.yaml:2: version: ")


def test_several_spellings_of_a_mapping_are_united() -> None:
    text = "Flags: {gdsEnabled: true, mofedEnabled: true}\nflags: {gdsEnabled: false}\nFLAGS: null"
    assert value(text, "flags.gds_enabled") is False
    assert value(text, "flags.mofed_enabled") is True
    text = "flags: {Plugin: {deviceIDStrategy: index}, plugin: null}"
    assert value(text, "flags.plugin.device_id_strategy") is None
    text = "flags: {PLUGIN: null, plugin: {deviceIDStrategy: index}}"
    assert value(text, "flags.plugin.device_id_strategy") == "index"


def test_several_spellings_give_a_warning() -> None:
    assert warnings("flags:\n  migStrategy: a\n  MIGSTRATEGY: b\n") == [
        "f.yaml:2: flags.migStrategy: the same key as MIGSTRATEGY; this spelling counts last"
    ]


def test_a_repeated_key_gives_a_warning() -> None:
    assert warnings("flags: {gdsEnabled: true}\nflags:\n  gdsEnabled: false\n  x: 1\n  x: 2\n") == [
        "f.yaml:3: flags: given more than once; the last one counts".replace(":3:", ":2:"),
        "f.yaml:5: flags.x: unknown key, ignored",
    ]


# --- unknown keys


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("surprise: 1", "surprise: unknown key, ignored"),
        ("flags: {nonsense: [{}]}", "flags.nonsense: unknown key, ignored"),
        (
            "flags: {renameByDefault: true}",
            (
                "flags.renameByDefault: unknown key, ignored "
                "(it belongs to sharing.timeSlicing or sharing.mps)"
            ),
        ),
        ("flags: {channelIDs: [0]}", "flags.channelIDs: unknown key, ignored (it belongs to imex)"),
        ("plugin: {}", "plugin: unknown key, ignored (it belongs to flags)"),
        (
            "flags: {version: v1}",
            "flags.version: unknown key, ignored (it belongs to the top level)",
        ),
        (
            "flags: {migStratgy: none}",
            "flags.migStratgy: unknown key, ignored (did you mean migStrategy?)",
        ),
        (
            "flags: {mig-strategy: none}",
            "flags.mig-strategy: unknown key, ignored (did you mean migStrategy?)",
        ),
        ("resources: {migs: []}", "resources.migs: unknown key, ignored (did you mean mig?)"),
        (
            "mig_strategy: none",
            "mig_strategy: unknown key, ignored (did you mean flags.migStrategy?)",
        ),
        (
            "flags: {plugin: {nvidiaCDIHookPath: /x}}",
            (
                "flags.plugin.nvidiaCDIHookPath: unknown key, ignored "
                "(did you mean flags.plugin.nvidiaCTKPath?)"
            ),
        ),
        (
            "flags: {NVIDIA_DRIVER_ROOT: /x}",
            "flags.NVIDIA_DRIVER_ROOT: unknown key, ignored (did you mean nvidiaDriverRoot?)",
        ),
        (
            "flags: {kubeletSocket: x}",
            (
                "flags.kubeletSocket: unknown key, ignored "
                "(set it by --kubelet-socket or KUBELET_SOCKET)"
            ),
        ),
        (
            f"sharing: {{mps: {{RenameByDefault: true, resources: [{{{ITEM}}}]}}}}",
            "sharing.mps.RenameByDefault: unknown key, ignored (did you mean renameByDefault?)",
        ),
        (
            f"sharing: {{mps: {{resources: [{{{ITEM}, Devices: all}}]}}}}",
            "sharing.mps.resources[0].Devices: unknown key, ignored (did you mean devices?)",
        ),
        (
            "flags: {help: true}",
            "flags.help: unknown key, ignored",
        ),
        ("1: {}", "1: unknown key, ignored"),
        ('"a\\n\\e": 1', r"a\n\x1b: unknown key, ignored"),
        ("k" * 300 + ": 1", "k" * 197 + "...: unknown key, ignored"),
    ],
)
def test_unknown_keys_give_a_warning(text: str, warning: str) -> None:
    assert warnings(text) == [f"f.yaml:1: {warning}"]


@pytest.mark.parametrize(
    "text",
    ["x-anything: {a: 1}", "base: &b {gdsEnabled: true}\nflags: *b", "b: &b v1\nversion: *b"],
)
def test_places_for_anchors_give_no_warning(text: str) -> None:
    assert not warnings(text)


@pytest.mark.parametrize("text", ["a: &a 1", "flags: {x-y: 1}", "flags: {x: &a 1}\nimex: {y: *a}"])
def test_other_anchors_do(text: str) -> None:
    assert warnings(text)


def test_further_documents_give_a_warning() -> None:
    assert warnings("version: v1\n---\nversion: v2\n") == [
        "f.yaml:2: only the first document counts; the rest is ignored"
    ]


def test_warnings_are_in_the_order_of_lines_and_not_too_many() -> None:
    found = warnings("flags:\n  b: 1\n  a: 1\nc: 1\n")
    assert [line.split(":")[1] for line in found] == ["2", "3", "4"]
    many = "version: v1\n" * 2000 + "".join(f"a{i}: 1\n" for i in range(2000))
    assert len(warnings(many)) == MOST_WARNINGS


# --- the table of keys


def test_every_field_of_the_model_has_a_key_and_the_reverse() -> None:
    for path, key in [("", SCHEMA), *walk(SCHEMA)]:
        if not key.children:
            continue
        assert key.build is not None, path
        if isinstance(key.build, type):
            fields = {field.name for field in dataclasses.fields(key.build)}
            assert {child.field for child in key.children} == fields, path
