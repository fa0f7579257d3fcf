"""docs/cdi.md speaks of options, flags and classes that there are."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from gpu_device_plugin.cdi import hooks, options
from gpu_device_plugin.cdi.names import VENDOR, CdiClass
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.programs.commands.cdi_options import SHOWN
from gpu_device_plugin.programs.gpu_node import make_parser

PAGE = (Path(__file__).parents[3] / "docs" / "cdi.md").read_text(encoding="utf-8")
PLUGIN = {n for o in PROGRAMS[Program.DEVICE_PLUGIN].options for n in o.names}


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (name.lstrip("-") for name in action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from options_of(sub)


def test_every_option_is_one() -> None:
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", PAGE))
    named.remove("host-driver-version")  # an argument of a hook

    assert named - PLUGIN - set(options_of(make_parser())) == set()
    assert set(SHOWN) <= PLUGIN


def test_nothing_is_forgotten() -> None:
    flags = (
        options.EXPLICIT_LIBRARIES,
        options.COHERENT_ANNOTATIONS,
        options.PURE_CSV,
        options.NO_ADDITIONAL_GIDS,
        options.NO_IPC,
    )
    made = (
        hooks.CREATE_SYMLINKS,
        hooks.ENABLE_CUDA_COMPAT,
        hooks.UPDATE_LDCACHE,
        hooks.DISABLE_NODE_MODIFICATION,
    )

    assert [word for word in (*flags, *made) if f"\n| `{word}` |" not in PAGE] == []
    assert [cls for cls in CdiClass if f"| `{VENDOR}-{cls}.json` |" not in PAGE] == []
