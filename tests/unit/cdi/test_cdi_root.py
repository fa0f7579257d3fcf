"""A hostile or merely unusual driver root must not lead out of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.cdi.testing import FakeTree


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    return FakeTree(tmp_path)


def mounted(tree: FakeTree) -> Root:
    return Root("/driver-root", tree.system())


def real(root: Root, path: str) -> tuple[str, bool] | None:
    found = root.real(path)
    return None if found is None else (found.path, found.plain)


def test_absolute_links_start_at_the_root(tree: FakeTree) -> None:
    tree.file("/etc/secret")
    tree.file("/driver-root/etc/secret", "inside")
    tree.link("/driver-root/usr/link", "/etc/secret")

    root = mounted(tree)

    assert real(root, "/usr/link") == ("/etc/secret", False)
    assert root.read("/usr/link", 100) == b"inside"
    assert root.source("/usr/link") == "/driver-root/etc/secret"


def test_links_upwards_stop_at_the_root(tree: FakeTree) -> None:
    tree.file("/secret")
    tree.link("/driver-root/a/link", "../../secret")
    tree.file("/driver-root/own")
    tree.link("/driver-root/a/up", "../../../own")

    root = mounted(tree)

    assert root.real("/a/link") is None
    assert real(root, "/a/up") == ("/own", False)


def test_relative_links_are_the_hosts_business(tree: FakeTree) -> None:
    tree.file("/driver-root/usr/lib/firmware/x")
    tree.link("/driver-root/lib", "usr/lib")

    root = mounted(tree)

    assert real(root, "/lib/firmware/x") == ("/usr/lib/firmware/x", True)
    assert root.source("/lib/firmware/x") == "/driver-root/lib/firmware/x"


def test_in_the_own_root_every_link_is_plain(tree: FakeTree) -> None:
    tree.file("/usr/lib/x")
    tree.link("/lib", "/usr/lib")

    root = Root("/", tree.system())

    assert real(root, "/lib/x") == ("/usr/lib/x", True)
    assert root.source("/lib/x") == "/lib/x"


def test_loops_end(tree: FakeTree) -> None:
    tree.link("/driver-root/a", "b")
    tree.link("/driver-root/b", "a")
    tree.link("/driver-root/self", "self/x")

    root = mounted(tree)

    assert [root.real(p) for p in ("/a", "/b", "/self", "/a/x")] == [None] * 4
    assert root.readlink("/a") == "b"


def test_a_root_that_is_a_link_itself(tree: FakeTree) -> None:
    tree.file("/real-root/usr/x", "there")
    tree.link("/driver-root", "real-root")

    root = mounted(tree)

    assert root.read("/usr/x", 10) == b"there"
    assert root.outer("/usr/x") == "/driver-root/usr/x"


def test_a_root_with_a_slash_too_many(tree: FakeTree) -> None:
    tree.file("/driver-root/x", "there")

    assert Root("//driver-root/", tree.system()).outer("/x") == "/driver-root/x"


@pytest.mark.parametrize("path", ["/", "/missing", "/file/below", "/nul\0", "/" + "x" * 5000])
def test_what_is_not_there_is_not_there(tree: FakeTree, path: str) -> None:
    tree.file("/driver-root/file")
    root = mounted(tree)

    with pytest.raises(OSError, match=r"."):
        root.read(path, 10)
    assert root.listdir(path) == (["file"] if path == "/" else [])


def test_only_regular_files_are_read(tree: FakeTree) -> None:
    tree.folder("/driver-root/dir")
    os.mkfifo(tree.real("/driver-root/fifo"))
    tree.socket("/driver-root/socket")
    root = mounted(tree)

    for path in ("/dir", "/fifo", "/socket"):
        with pytest.raises(OSError, match=r"."):
            root.read(path, 10)


def test_large_files_are_refused(tree: FakeTree) -> None:
    tree.file("/driver-root/x", b"12345")
    root = mounted(tree)

    assert root.read("/x", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        root.read("/x", 4)


def test_names_that_are_not_text_are_skipped(tree: FakeTree) -> None:
    tree.file("/driver-root/good")
    (tree.directory / "driver-root" / os.fsdecode(b"bad\xff")).touch()
    (tree.directory / "driver-root" / "odd").symlink_to(os.fsdecode(b"to\xff"))

    root = mounted(tree)

    assert root.listdir("/") == ["good", "odd"]
    assert root.readlink("/odd") is None
    assert root.real("/odd") is None


def test_glob_goes_by_name_and_takes_hidden_files(tree: FakeTree) -> None:
    for name in ("b/2", "b/10", "a/1", ".h/0", "c"):
        tree.file(f"/driver-root/{name}")

    root = mounted(tree)

    assert root.glob("/*/*") == ["/.h/0", "/a/1", "/b/10", "/b/2"]
    assert root.glob("/?/[12]") == ["/a/1", "/b/2"]
    assert root.glob("/b/2") == ["/b/2"]
    assert root.glob("/b/3") == []


def test_the_roots_own_name_is_no_pattern(tree: FakeTree) -> None:
    tree.file("/root[1]/x")

    assert Root("/root[1]", tree.system()).glob("/*") == ["/x"]


def test_files_are_looked_at_once(tree: FakeTree) -> None:
    tree.file("/driver-root/a/b")
    seen: list[str] = []

    def lstat(path: str) -> os.stat_result:
        seen.append(path)
        return os.lstat(path)

    root = Root("/driver-root", System(prefix=str(tree.directory), lstat=lstat))
    for _ in range(3):
        assert root.stat("/a/b") is not None

    assert len(seen) == len(set(seen)) == 2


PARTS = st.sampled_from(["a", "b", "c", "..", "."])
TARGETS = st.tuples(st.booleans(), st.lists(PARTS, min_size=1, max_size=4)).map(
    lambda t: ("/" if t[0] else "") + "/".join(t[1])
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "c", "a2", "b2"]), TARGETS, max_size=5))
def test_no_tree_of_links_leads_out(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
) -> None:
    tree = FakeTree(tmp_path_factory.mktemp("tree"))
    tree.folder("/root/a")
    for name, target in links.items():
        where = f"/root/a/{name}" if name.endswith("2") else f"/root/{name}"
        if not os.path.lexists(tree.real(where)):
            tree.link(where, target)
    root = Root("/root", tree.system())

    for path in ("/a", "/b", "/c", "/a/a2", "/a/b2", "/b/a2"):
        found = root.real(path)
        if found is None:
            continue
        inside = tree.directory / "root" / found.path.lstrip("/")
        assert os.path.realpath(inside) == str(inside)
        if found.plain:
            assert os.path.realpath(tree.real(f"/root{path}")) == str(inside)
