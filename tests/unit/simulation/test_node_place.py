from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.simulation import node_place
from gpu_device_plugin.simulation.node_place import (
    NodePlace,
    NodeState,
    NotRunning,
    default_directory,
)

STATE = NodeState("t4x4", 7, "/d/kubelet.sock", "/d/pods", "/d/events", "http://127.0.0.1:1/")


@pytest.fixture
def base() -> Iterator[Path]:
    # pytest's own directories have names too long for a socket.
    with tempfile.TemporaryDirectory(prefix="place-") as path:
        yield Path(path)


def test_a_directory_is_made_for_this_user_alone(base: Path) -> None:
    place = NodePlace(str(base / "new/node"))

    assert place.prepare()
    assert not place.prepare()
    assert os.stat(place.directory).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("name", "text"), [("x" * 80, "the path is too long"), ("file/below", "cannot be made")]
)
def test_a_path_that_cannot_be_used_is_refused(base: Path, name: str, text: str) -> None:
    (base / "file").touch()

    with pytest.raises(ConfigError, match=text):
        NodePlace(str(base / name)).prepare()


def test_a_directory_of_others_is_refused(base: Path) -> None:
    (base / "real").mkdir()
    (base / "link").symlink_to("real")
    (base / "open").mkdir()
    (base / "open").chmod(0o777)

    with pytest.raises(ConfigError, match="is not a directory of yours"):
        NodePlace(str(base / "link")).prepare()
    with pytest.raises(ConfigError, match="may be written by others"):
        NodePlace(str(base / "open")).prepare()


def test_a_node_is_found_while_it_runs(base: Path) -> None:
    place = NodePlace(str(base))
    with pytest.raises(NotRunning, match="start one with gpu-node simulate"):
        place.running()

    with place.locked():
        place.save(STATE)
        assert place.running() == STATE
        assert json.loads((base / "node.json").read_text())["schema"] == "gpu-node/simulated/v1"

    # As after a kill: the file is still there.
    with pytest.raises(NotRunning):
        place.running()


def test_a_node_that_starts_is_waited_for(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = NodePlace(str(base))
    monkeypatch.setattr(node_place, "TRIES", 100)
    found = list[NodeState]()
    with place.locked():
        looker = threading.Thread(target=lambda: found.append(place.running()))
        looker.start()
        (base / "node.json").write_text("{")
        place.save(STATE)
        looker.join()

    assert found == [STATE]


def test_a_place_is_for_one_node(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_place, "PAUSE", 0.001)
    place = NodePlace(str(base))

    with place.locked(), pytest.raises(ConfigError, match="already"), place.locked():
        pass
    with place.locked():
        pass


def test_nothing_is_left_but_what_was_there(base: Path) -> None:
    place = NodePlace(str(base / "node"))
    place.prepare()
    with place.locked():
        place.furnish()
        place.save(STATE)
        Path(place.sockets, "x.sock").touch()
        Path(place.events).write_text("xid 0 1\n")
        place.furnish()
        assert not Path(place.events).read_text()
        place.clear(with_directory=False)
    assert os.listdir(place.directory) == []

    place.furnish()
    Path(place.directory, "mine").touch()
    place.clear(with_directory=True)
    assert os.listdir(place.directory) == ["mine"]
    Path(place.directory, "mine").unlink()
    place.furnish()
    place.clear(with_directory=True)
    assert not os.path.exists(place.directory)


def test_the_default_is_a_place_of_this_user(base: Path) -> None:
    assert default_directory({"XDG_RUNTIME_DIR": str(base)}) == f"{base}/gpu-node-simulated"
    elsewhere = f"{tempfile.gettempdir()}/gpu-node-simulated-{os.geteuid()}"
    assert default_directory({}) == elsewhere
    assert default_directory({"XDG_RUNTIME_DIR": "/none"}) == elsewhere
    assert default_directory({"XDG_RUNTIME_DIR": "relative"}) == elsewhere
