from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.grammar import Parsed, parse
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.errors import UsageError

GFD = Program.GPU_FEATURE_DISCOVERY
MPS = Program.MPS_CONTROL_DAEMON
MANAGER = Program.CONFIG_MANAGER


def plugin(*argv: str, **environ: str) -> Parsed:
    return parse(Program.DEVICE_PLUGIN, argv, environ)


def usage_error(*argv: str, program: Program = Program.DEVICE_PLUGIN, **environ: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(program, argv, environ)
    return str(caught.value)


# --- flags


@pytest.mark.parametrize(
    "argv",
    [
        ["--mig-strategy=single"],
        ["-mig-strategy=single"],
        ["--mig-strategy", "single"],
        ["-mig-strategy", "single"],
    ],
)
def test_one_dash_or_two_and_equals_or_blank(argv: list[str]) -> None:
    assert plugin(*argv).text("mig-strategy") == "single"


def test_a_value_may_begin_with_a_dash_or_hold_an_equals_sign() -> None:
    assert plugin("--mps-root", "--help").text("mps-root") == "--help"
    assert plugin("--mps-root=a=b").text("mps-root") == "a=b"
    assert plugin("--mps-root=").text("mps-root") == ""


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_words_for_true(word: str) -> None:
    assert plugin(f"--gds-enabled={word}").flag("gds-enabled") is True


@pytest.mark.parametrize("word", ["0", "f", "F", "FALSE", "false", "False"])
def test_words_for_false(word: str) -> None:
    assert plugin(f"--fail-on-init-error={word}").flag("fail-on-init-error") is False


@pytest.mark.parametrize("word", ["", "yes", "on", "tRUE", "2", " true"])
def test_other_words_are_no_booleans(word: str) -> None:
    message = usage_error(f"--gds-enabled={word}")
    assert message == (
        f'--gds-enabled: "{word}" is not a boolean (allowed: true, false, 1, 0, t or f)'
    )


def test_a_boolean_alone_is_true_and_takes_no_further_argument() -> None:
    """The original's trap: the word after the flag ends the flags."""
    parsed = plugin("--fail-on-init-error", "false", "--gds-enabled", "--no-such-flag")
    assert parsed.flag("fail-on-init-error") is True
    assert parsed.flag("gds-enabled") is False
    assert parsed.arguments == ("false", "--gds-enabled", "--no-such-flag")


@pytest.mark.parametrize("stop", ["--", "-", "word", ""])
def test_flags_end_at_the_first_argument_that_is_none(stop: str) -> None:
    parsed = plugin("--gds-enabled", stop, "--mofed-enabled")
    assert parsed.flag("gds-enabled")
    assert not parsed.flag("mofed-enabled")


def test_lists_are_split_trimmed_and_joined() -> None:
    argv = ["--device-list-strategy= envvar ,volume-mounts", "--device-list-strategy", "cdi-cri\t"]
    parsed = plugin(*argv, DEVICE_LIST_STRATEGY="cdi-annotations")
    assert parsed.strings("device-list-strategy") == ("envvar", "volume-mounts", "cdi-cri")


def test_an_empty_list_flag_is_a_list_of_one_empty_text() -> None:
    assert plugin("--cdi-feature-flags=").strings("cdi-feature-flags") == ("",)
    assert plugin("--cdi-feature-flags=a,,").strings("cdi-feature-flags") == ("a", "", "")


def test_blanks_are_what_go_takes_for_blanks() -> None:
    assert plugin("--cdi-feature-flags=\u3000a\x85,\x1cb").strings("cdi-feature-flags") == (
        "a",
        "\x1cb",
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0", (0,)),
        ("1, 2 ,+3", (1, 2, 3)),
        ("-1", (-1,)),
        ("0x1F,0X1f", (31, 31)),
        ("0o17,017,0O7,00", (15, 15, 7, 0)),
        ("0b11", (3,)),
        ("1_000,0x_ff,0_7", (1000, 255, 7)),
        (str(2**63 - 1), (2**63 - 1,)),
    ],
)
def test_integers_are_written_as_in_go(text: str, numbers: tuple[int, ...]) -> None:
    assert plugin(f"--imex-channel-ids={text}").integers("imex-channel-ids") == numbers


@pytest.mark.parametrize(
    "text",
    ["", "x", "1,", "08", "0x", "1__0", "_1", "1_", "1.0", "0b2", "٣", str(2**63), "9" * 5000],
)
def test_other_texts_are_no_integers(text: str) -> None:
    message = usage_error(f"--imex-channel-ids={text}")
    assert message.startswith("--imex-channel-ids: ")
    assert message.endswith("(allowed: whole numbers, separated by commas)")


def test_integer_lists_join_too() -> None:
    assert plugin("--imex-channel-ids=0", "--imex-channel-ids=0").integers("imex-channel-ids") == (
        0,
        0,
    )


def test_of_a_repeated_flag_the_last_counts() -> None:
    assert plugin("--mig-strategy=single", "-mig-strategy=mixed").text("mig-strategy") == "mixed"


def test_two_names_of_one_flag_are_an_error() -> None:
    message = usage_error("--driver-root=/a", "--nvidia-driver-root=/a")
    assert message == (
        "--driver-root and --nvidia-driver-root are the same flag (give one of them)"
    )
    assert "-h and --help" not in usage_error("-h", "--help")
    assert "--help and -h are the same flag" in usage_error("-h", "--help")


def test_other_names_mean_the_same() -> None:
    parsed = plugin("--nvidia-dev-root=/dev", "--container-driver-root=/c", "--nvidia-ctk-path=/k")
    assert parsed.text("dev-root") == "/dev"
    assert parsed.text("driver-root-ctr-path") == "/c"
    assert parsed.text("nvidia-cdi-hook-path") == "/k"
    assert parse(GFD, ["-o", "x"], {}).text("output-file") == "x"
    assert parse(GFD, ["--o=x"], {}).text("output-file") == "x"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--no-such-flag", 'there is no flag "--no-such-flag" (see --help)'),
        ("--mig_strategy=x", 'there is no flag "--mig_strategy" (did you mean --mig-strategy?)'),
        ("-migstratgy", 'there is no flag "--migstratgy" (did you mean --mig-strategy?)'),
        ("--\n", 'there is no flag "-\\n" (see --help)'),
        ("---mig-strategy", '"---mig-strategy" is not a flag (allowed: --name, --name=value)'),
        ("--=x", '"--=x" is not a flag (allowed: --name, --name=value)'),
        ("-=", '"-=" is not a flag (allowed: --name, --name=value)'),
        ("--mps-root", "the flag --mps-root needs a value"),
        (
            "--mig-strategy",
            "the flag --mig-strategy needs a value (allowed: none, single, mixed)",
        ),
    ],
)
def test_arguments_that_are_no_flags(argument: str, message: str) -> None:
    assert usage_error(argument) == message


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5.0), ("2.5", 2.5), (".5", 0.5), ("1e3", 1000.0), ("-1.", -1.0), ("+Inf", float("inf"))],
)
def test_numbers(text: str, number: float) -> None:
    assert parse(GFD, [f"--kube-api-qps={text}"], {}).number("kube-api-qps") == number


@pytest.mark.parametrize("text", ["", "x", "1,5", " 1", "1e999", "1_0"])
def test_other_texts_are_no_numbers(text: str) -> None:
    assert "allowed: a number" in usage_error(f"--kube-api-qps={text}", program=GFD)


def test_integers_and_durations() -> None:
    parsed = parse(GFD, ["--kube-api-burst=0x10", "--sleep-interval=1h5m"], {})
    assert parsed.integer("kube-api-burst") == 16
    assert parsed.integer("sleep-interval") == 3900 * 10**9
    assert parse(GFD, ["--sleep-interval=infinite"], {}).integer("sleep-interval") == INFINITE


@pytest.mark.parametrize("text", ["", "60", "soon", "Infinite", "1 h"])
def test_other_texts_are_no_durations(text: str) -> None:
    message = usage_error(f"--sleep-interval={text}", program=GFD)
    assert message.startswith(f'--sleep-interval: "{text}" is ')
    assert message.endswith("(allowed: such as 30s, 5m or 1h30m, or infinite)")


# --- variables


def test_a_flag_beats_a_variable() -> None:
    parsed = plugin("--mig-strategy=none", MIG_STRATEGY="mixed")
    assert parsed.text("mig-strategy") == "none"
    assert parsed.origins["mig-strategy"] == "--mig-strategy"


def test_variables_are_case_sensitive_and_others_do_not_count() -> None:
    assert plugin(mig_strategy="mixed", GFD_MIG_STRATEGY="mixed").text("mig-strategy") == "none"


@pytest.mark.parametrize("second", [{}, {"NVIDIA_CTK_PATH": "/b"}])
def test_the_first_variable_that_is_defined_counts(second: dict[str, str]) -> None:
    parsed = plugin(NVIDIA_CDI_HOOK_PATH="/a", **second)
    assert parsed.text("nvidia-cdi-hook-path") == "/a"
    assert parsed.origins["nvidia-cdi-hook-path"] == "NVIDIA_CDI_HOOK_PATH"


def test_the_first_variable_counts_even_if_it_is_empty() -> None:
    environ = {"GFD_MIG_STRATEGY": "", "MIG_STRATEGY": "mixed"}
    assert parse(GFD, [], environ).text("mig-strategy") == ""
    assert parse(GFD, [], {"MIG_STRATEGY": "mixed"}).text("mig-strategy") == "mixed"
    assert plugin(CONTAINER_DRIVER_ROOT="/x").text("driver-root-ctr-path") == "/x"


def test_empty_variables() -> None:
    parsed = plugin(
        NVIDIA_DRIVER_ROOT="", FAIL_ON_INIT_ERROR="", DEVICE_LIST_STRATEGY="", IMEX_CHANNEL_IDS=""
    )
    assert parsed.text("driver-root") == ""
    assert parsed.flag("fail-on-init-error") is False
    assert parsed.strings("device-list-strategy") == ("",)
    assert parsed.integers("imex-channel-ids") == ()
    assert set(parsed.origins) == {"driver-root", "fail-on-init-error", "device-list-strategy"}


def test_empty_variables_of_numbers_and_durations_do_not_count() -> None:
    parsed = parse(GFD, [], {"GFD_SLEEP_INTERVAL": "", "KUBE_API_QPS": "", "KUBE_API_BURST": ""})
    assert parsed.integer("sleep-interval") == 60 * 10**9
    assert parsed.number("kube-api-qps") == 5
    assert not parsed.origins
    parsed = parse(MANAGER, [], {"SIGNAL": "", "PROCESS_TO_SIGNAL": "", "FALLBACK_STRATEGIES": ""})
    assert parsed.integer("signal") == 1
    assert parsed.text("process-to-signal") == ""
    assert parsed.strings("fallback-strategies") == ("",)


@pytest.mark.parametrize(
    ("environ", "program", "message"),
    [
        ({"GDS_ENABLED": "yes"}, Program.DEVICE_PLUGIN, 'GDS_ENABLED: "yes" is not a boolean'),
        ({"IMEX_CHANNEL_IDS": "x"}, Program.DEVICE_PLUGIN, 'IMEX_CHANNEL_IDS: "x" is not an'),
        ({"IMEX_CHANNEL_IDS": ","}, Program.DEVICE_PLUGIN, 'IMEX_CHANNEL_IDS: "," is not an'),
        ({"GFD_SLEEP_INTERVAL": "1"}, GFD, 'GFD_SLEEP_INTERVAL: "1" is a duration without a unit'),
        ({"SIGNAL": "HUP"}, MANAGER, 'SIGNAL: "HUP" is not an integer'),
    ],
)
def test_variables_that_cannot_be_read(
    environ: dict[str, str], program: Program, message: str
) -> None:
    assert usage_error(program=program, **environ).startswith(message)


@pytest.mark.parametrize("argv", [["--gds-enabled=true"], ["--help"], ["--version"], ["help"]])
def test_a_bad_variable_is_an_error_whatever_the_command_line_says(argv: list[str]) -> None:
    assert usage_error(*argv, GDS_ENABLED="perhaps").startswith("GDS_ENABLED: ")


def test_blanks_in_the_list_of_a_variable() -> None:
    parsed = plugin(DEVICE_LIST_STRATEGY="envvar, volume-mounts")
    assert parsed.strings("device-list-strategy") == ("envvar", "volume-mounts")


# --- our own options


def test_our_own_options_are_checked_at_once() -> None:
    assert plugin(GPU_NODE_LOG_FORMAT="json").text("log-format") == "json"
    assert usage_error("--log-format=xml") == (
        '--log-format: "xml" is not allowed (allowed: text, json)'
    )
    assert usage_error(GPU_NODE_LOG_FORMAT="yaml").startswith(
        'GPU_NODE_LOG_FORMAT: "yaml" is not allowed'
    )
    assert plugin(GPU_NODE_LOG_FORMAT="").text("log-format") == "text"
    assert plugin("--simulate=dgx-a100").text("simulate") == "dgx-a100"
    assert plugin(GPU_NODE_SIMULATE="n.yaml").text("simulate") == "n.yaml"


def test_every_item_of_a_list_of_our_own_has_to_be_allowed() -> None:
    given = parse(Program.DEVICE_PLUGIN, ["--metrics-endpoints=probes,metrics"], {})
    assert given.strings("metrics-endpoints") == ("probes", "metrics")
    with pytest.raises(UsageError, match=r'"x" is not allowed \(allowed: metrics, probes'):
        parse(Program.DEVICE_PLUGIN, ["--metrics-endpoints=probes,x"], {})


# --- help, version, sub-commands


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["-help"], ["help"], ["h"], ["--h=true"]])
@pytest.mark.parametrize("program", list(Program))
def test_ways_to_ask_for_help(argv: list[str], program: Program) -> None:
    parsed = parse(program, argv, {})
    assert parsed.wants_help
    assert not parsed.wants_version


@pytest.mark.parametrize("argv", [["--version"], ["-v"], ["--version", "mount-shm"]])
@pytest.mark.parametrize("program", list(Program))
def test_ways_to_ask_for_the_version(argv: list[str], program: Program) -> None:
    parsed = parse(program, argv, {})
    assert parsed.wants_version
    assert not parsed.wants_help


def test_help_beats_version_and_can_be_declined() -> None:
    assert plugin("--version", "--help").wants_help
    assert not plugin("--version", "--help").wants_version
    assert not plugin("--help=false").wants_help
    assert not plugin("--version=0").wants_version


@pytest.mark.parametrize(
    ("argv", "wants_help", "command"),
    [
        (["mount-shm"], False, "mount-shm"),
        (["--mig-strategy=none", "mount-shm", "ignored"], False, "mount-shm"),
        (["mount-shm", "--help=false"], False, "mount-shm"),
        (["mount-shm", "--help"], True, "mount-shm"),
        (["mount-shm", "-h"], True, "mount-shm"),
        (["mount-shm", "help"], True, "mount-shm"),
        (["mount-shm", "h", "x"], True, "mount-shm"),
        (["help", "mount-shm"], True, "mount-shm"),
        (["--help", "mount-shm"], True, "mount-shm"),
        (["--help", "mount-everything"], True, ""),
        (["help", "--help", "mount-shm"], True, ""),
        (["help", "help"], True, ""),
        (["mount-everything"], False, ""),
        (["--", "mount-shm"], False, "mount-shm"),
    ],
)
def test_sub_commands(argv: list[str], wants_help: bool, command: str) -> None:
    parsed = parse(MPS, argv, {})
    assert (parsed.wants_help, parsed.command) == (wants_help, command)


def test_only_mps_control_daemon_has_a_sub_command() -> None:
    assert plugin("mount-shm").command == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["mount-shm", "--version"], 'there is no flag "--version" (see --help)'),
        (["mount-shm", "--mig-strategy=none"], 'there is no flag "--mig-strategy" (see --help)'),
        (["help", "--all"], 'there is no flag "--all" (see --help)'),
        (["help", "mount-everything"], 'there is no help on "mount-everything" (see --help)'),
    ],
)
def test_sub_commands_that_go_wrong(argv: list[str], message: str) -> None:
    assert usage_error(*argv, program=MPS) == message


# --- the least number


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("0s", 0), ("100ms", 10**8), ("1h", 3600 * 10**9)]
)
def test_times_between_rescans(text: str, value: int) -> None:
    assert plugin(f"--rescan-interval={text}").integer("rescan-interval") == value


@pytest.mark.parametrize("text", ["99ms", "1ns", "-1s"])
def test_times_between_rescans_that_are_too_short(text: str) -> None:
    message = (
        f'"{text}" is too small (allowed: 0, or 100ms and more, such as 30s, 5m or 1h30m, or '
        "infinite)"
    )
    assert usage_error(f"--rescan-interval={text}") == f"--rescan-interval: {message}"
    with pytest.raises(UsageError) as caught:
        parse(Program.DEVICE_PLUGIN, [], {"GPU_NODE_RESCAN_INTERVAL": text})
    assert str(caught.value) == f"GPU_NODE_RESCAN_INTERVAL: {message}"


# --- what is left over


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], ""),
        (["--fail-on-init-error=false", "--mig-strategy", "single"], ""),
        (
            ["--fail-on-init-error", "false", "--mig-strategy=single"],
            (
                'arguments without effect: "false", "--mig-strategy=single" '
                '(a boolean takes its value after "=": --fail-on-init-error=false)'
            ),
        ),
        (
            ["--fail-on-init-error=true", "false"],
            (
                'arguments without effect: "false" '
                '(flags are read up to the first argument that is none, "false")'
            ),
        ),
        (
            ["--gds-enabled", "", "--mofed-enabled"],
            (
                'arguments without effect: "", "--mofed-enabled" '
                '(flags are read up to the first argument that is none, "")'
            ),
        ),
        (
            ["--gds-enabled", "--", "true"],
            (
                'arguments without effect: "true" '
                '(flags are read up to the first argument that is none, "true")'
            ),
        ),
        (
            list("abcdefg"),
            (
                'arguments without effect: "a", "b", "c", "d", "e", 2 more '
                '(flags are read up to the first argument that is none, "a")'
            ),
        ),
    ],
)
def test_arguments_that_are_left_over_give_a_warning(argv: list[str], message: str) -> None:
    assert plugin(*argv).ignored() == message


def test_those_of_a_sub_command_do_too() -> None:
    assert parse(MPS, ["mount-shm"], {}).ignored() == ""
    assert parse(MPS, ["mount-shm", "--help=false", "a\n"], {}).ignored() == (
        'arguments without effect: "a\\n" (mount-shm takes none)'
    )


# --- access


def test_access_by_the_wrong_type_is_a_programming_error() -> None:
    parsed = plugin("--mig-strategy=none")
    with pytest.raises(TypeError, match="option mig-strategy is str, not bool"):
        parsed.flag("mig-strategy")
    with pytest.raises(KeyError):
        parsed.text("no-such-option")
    assert parsed.is_set("mig-strategy")
    assert not parsed.is_set("mps-root")


WORDS = st.sampled_from(
    [f"--{name}" for spec in PROGRAMS.values() for o in spec.options for name in o.names]
)
ARGUMENTS = st.one_of(
    WORDS,
    st.builds("{}={}".format, WORDS, st.text(max_size=8)),
    st.text(max_size=8),
    st.sampled_from(["-", "--", "=", "true", "0", "help", "h", "mount-shm", "\udcff"]),
)
VARIABLES = st.sampled_from(
    [name for spec in PROGRAMS.values() for o in spec.options for name in o.env]
)


def attempt(
    program: Program, argv: list[str], environ: dict[str, str]
) -> tuple[Parsed | None, str]:
    try:
        return parse(program, argv, environ), ""
    except UsageError as error:
        return None, str(error)


@given(
    st.sampled_from(list(Program)),
    st.lists(ARGUMENTS, max_size=6),
    st.dictionaries(VARIABLES, st.text(max_size=8), max_size=4),
)
def test_whatever_is_given_is_understood_or_refused_in_one_line(
    program: Program, argv: list[str], environ: dict[str, str]
) -> None:
    parsed, message = attempt(program, argv, environ)
    assert message.isprintable()
    if parsed is not None:
        assert parsed.ignored().isprintable()
        assert set(parsed.values) == {option.name for option in PROGRAMS[program].options}
        assert set(parsed.origins) <= set(parsed.values)
