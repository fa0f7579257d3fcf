"""A report that returns gets every error; one that raises gets the first, as daemons want it."""

from __future__ import annotations

import pytest

from gpu_device_plugin.config.decode import decode
from gpu_device_plugin.config.diagnostics import (
    CombinedError,
    Place,
    PlacedError,
    raise_first,
    read_all,
    single_errors,
)
from gpu_device_plugin.config.flags import read_flags
from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.model import Config, Flags, Imex, PluginFlags
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.validate import (
    problems_for_labels,
    problems_for_manager,
    problems_for_plugin,
)
from gpu_device_plugin.errors import ConfigError, UsageError

OPTIONS = PROGRAMS[Program.DEVICE_PLUGIN].options


def collect(text: str) -> tuple[list[str], dict[str, object]]:
    errors: list[ConfigError] = []
    decoded = decode(text.encode(), "f", errors.append)
    return [str(error) for error in errors], decoded.values


def test_what_is_right_beside_an_error_is_read() -> None:
    errors, values = collect("flags: {migStrategy: 1, mpsRoot: /m}\nimex: {channelIDs: [0]}\n")

    assert len(errors) == 1
    assert values == {
        "version": "v1",
        "flags": {"mps_root": "/m"},
        "imex": {"channel_ids": (0,)},
    }


def test_entries_of_a_list_that_are_wrong_are_left_out() -> None:
    errors, values = collect(
        "extensions:\n  sharing:\n"
        "    - {strategy: mps}\n    - 5\n    - {}\n    - {strategy: exclusive}\n"
    )
    assert [error.partition(" ")[0] for error in errors] == ["f:3:", "f:4:", "f:5:"]
    (kept,) = values["extensions"]["sharing"]  # type: ignore[index]  # a mapping, as the text says
    assert kept.strategy == "none"


@pytest.mark.parametrize("text", ["5", "[1]", "flags: {}\nversion: v9", "version: [1]"])
def test_a_document_that_is_wrong_as_a_whole_is_one_error(text: str) -> None:
    errors, _ = collect(text)

    assert len(errors) == 1
    with pytest.raises(ConfigError) as raised:
        decode(text.encode(), "f")
    assert str(raised.value) == errors[0]


def test_all_items_of_a_list_are_read_before_it_is_refused() -> None:
    def fail(text: str) -> int:
        raise ConfigError(text)

    with pytest.raises(CombinedError, match="a") as raised:
        read_all([lambda: 1, lambda: fail("a"), lambda: fail("b")])
    assert [str(error) for error in single_errors(raised.value)] == ["a", "b"]
    assert read_all([lambda: 1, lambda: 2]) == [1, 2]


def test_an_error_has_its_place_and_its_text() -> None:
    error = Place("f", 3, "k").error("wrong", "right")

    assert isinstance(error, PlacedError)
    assert (str(error.place), error.what, error.hint) == ("f:3: k", "wrong", "right")
    assert str(error) == "f:3: k: wrong (right)"


def test_places_of_sections_and_entries_are_known() -> None:
    text = b"sharing:\n  mps:\n    resources:\n      - name: gpu\n        replicas: 2\n"
    parsed = parse(Program.DEVICE_PLUGIN, ["--config-file=f"], {})

    loaded = load(parsed, lambda _: text)
    lines = {
        path: place.line
        for path in ("sharing", "sharing.mps", "sharing.mps.resources[0]", "flags")
        if (place := loaded.origin(path))
    }
    assert lines == {"sharing": 1, "sharing.mps": 2, "sharing.mps.resources[0]": 4}


def test_flags_are_all_read() -> None:
    errors: list[tuple[str, int]] = []
    arguments = ["--foo", "--mig-strategy=none", "--imex-required=x", "--driver-root"]

    given = read_flags(OPTIONS, arguments, lambda error, n: errors.append((error.message, n)))

    assert given.values == {"mig-strategy": "none"}
    assert [number for _, number in errors] == [0, 2, 3]
    with pytest.raises(UsageError, match="--foo"):
        read_flags(OPTIONS, arguments)


def test_two_forms_of_a_flag_are_told_at_the_later_one() -> None:
    errors: list[int] = []

    read_flags(
        OPTIONS, ["--driver-root=/", "--nvidia-driver-root=/"], lambda _, n: errors.append(n)
    )
    assert errors == [1]


def test_everything_that_the_plugin_cannot_work_with() -> None:
    config = Config(
        flags=Flags(
            mig_strategy="x",
            device_discovery_strategy="x",
            plugin=PluginFlags(
                device_list_strategy=("x", "cdi-cri", "y"),
                device_id_strategy="x",
                shared_devices_allocation_policy="x",
            ),
        ),
        imex=Imex((1,)),
    )
    found = [str(error).partition(":")[0] for error in problems_for_plugin(config, lambda: False)]

    assert found == [
        "device-list-strategy",
        "device-list-strategy",
        "device-list-strategy",
        "device-id-strategy",
        "shared-devices-allocation-policy",
        "device-discovery-strategy",
        "mig-strategy",
        "imex-channel-ids",
    ]


def test_everything_that_the_others_cannot_work_with() -> None:
    parsed = parse(Program.GPU_FEATURE_DISCOVERY, [], {})
    config = Config(flags=Flags(device_discovery_strategy="x", use_node_feature_api=True))
    assert len(list(problems_for_labels(config, parsed))) == 2

    manager = parse(Program.CONFIG_MANAGER, ["--node-label="], {})
    assert len(list(problems_for_manager(manager))) == 4
    with pytest.raises(UsageError, match="node-name"):
        raise_first(problems_for_manager(manager))
