"""Whether what a specification names is on the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.inspection.samples import minimal

from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.testing import FakeTree
from gpu_device_plugin.inspection.check import check_data


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    made = FakeTree(tmp_path)
    made.node("/dev/nvidia0", 195, 0)
    made.file("/usr/bin/nvidia-ctk", mode=0o755)
    made.file("/etc/text")
    made.link("/absolute", "/etc")
    return made


def found(tree: FakeTree, **edits: Any) -> list[str]:
    data = json.dumps(minimal(**edits)).encode()
    checked = check_data(data, "f", Root("/", tree.system()))
    assert checked.spec is not None
    return [str(f).replace("f:1: devices[0].containerEdits.", "") for f in checked.findings]


def test_nothing_is_said_where_all_is_there(tree: FakeTree) -> None:
    assert not found(
        tree,
        deviceNodes=[
            {"path": "/dev/nvidia0"},
            {"path": "/dev/x", "hostPath": "/dev/nvidia0", "major": 195},
        ],
        mounts=[
            {"hostPath": "/etc/text", "containerPath": "/a"},
            {"hostPath": "/absolute/text", "containerPath": "/b"},
            {"hostPath": "/etc", "containerPath": "/c"},
        ],
        hooks=[{"hookName": "poststop", "path": "/usr/bin/nvidia-ctk"}],
    )


def test_nodes_that_are_missing_or_others(tree: FakeTree) -> None:
    nodes = [
        {"path": "/dev/nvidia1"},
        {"path": "/dev/nvidia0", "hostPath": "/driver/dev/nvidia0"},
        {"path": "/etc/text"},
        {"path": "/dev/nvidia0", "major": 195, "minor": 3},
        {"path": "dev"},
        {},
    ]

    assert found(tree, deviceNodes=nodes[:4]) == [
        "warning: deviceNodes[0].path: /dev/nvidia1 is not on this host",
        "warning: deviceNodes[1].hostPath: /driver/dev/nvidia0 is not on this host",
        "warning: deviceNodes[2].path: /etc/text is no device node on this host",
        (
            "warning: deviceNodes[3].major: is 195:3, but /dev/nvidia0 is 195:0 on this host "
            "(the specification is older than the node; have it written anew)"
        ),
    ]
    assert found(tree, deviceNodes=nodes[4:5]) == [
        'warning: deviceNodes[0].path: "dev" is not an absolute path'
    ]


def test_files_that_are_missing(tree: FakeTree) -> None:
    mounts = [{"hostPath": path, "containerPath": "/a"} for path in ("/etc/none", "/none/../x\n")]

    assert found(tree, mounts=mounts) == [
        "warning: mounts[0].hostPath: /etc/none is not on this host",
        "warning: mounts[1].hostPath: /x\\n is not on this host",
    ]


def test_hook_programs_that_cannot_be_run(tree: FakeTree) -> None:
    hooks = [{"hookName": "poststop", "path": p} for p in ("/none", "/etc/text", "/etc", "/none")]

    assert found(tree, hooks=hooks) == [
        (
            "warning: hooks[0].path: the program /none is not on this host, named 2 times "
            "(containers will not start; --nvidia-cdi-hook-path names another one to the plugin)"
        ),
        "warning: hooks[1].path: /etc/text is not a program that can be run",
        "warning: hooks[2].path: /etc is not a program that can be run",
    ]
