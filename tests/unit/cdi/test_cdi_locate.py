from __future__ import annotations

from pathlib import Path

import pytest

from gpu_device_plugin.cdi.locate import (
    Libraries,
    char_devices,
    executables,
    is_directory,
    is_file,
    is_file_by_plain_links,
    link_chain,
    resolved,
    search,
)
from gpu_device_plugin.cdi.match import PatternError
from gpu_device_plugin.cdi.notes import Notes
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.testing import FakeTree, ld_cache


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    return FakeTree(tmp_path)


def mounted(tree: FakeTree) -> Root:
    return Root("/r", tree.system())


def test_directories_are_searched_in_order(tree: FakeTree) -> None:
    for path in ("/r/b/x.1", "/r/a/x.2", "/r/a/x.1"):
        tree.file(path)
    tree.folder("/r/a/x.3")
    root = mounted(tree)

    assert search(root, ("/b", "/a", "/b/"))("x.*") == ["/b/x.1", "/a/x.1", "/a/x.2"]
    assert search(root, ("/b", "/a"), count=2)("x.*") == ["/b/x.1", "/a/x.1"]
    assert search(root, ("/a",), is_directory)("x.*") == ["/a/x.3"]
    assert search(root, ("/a",))("y") == []


def test_names_of_directories_are_no_patterns(tree: FakeTree) -> None:
    tree.file("/r/a/x")
    tree.file("/r/[a]*/x")

    assert search(mounted(tree), ("/[a]*",))("?") == ["/[a]*/x"]


def test_malformed_patterns_are_told(tree: FakeTree) -> None:
    tree.file("/r/a")
    with pytest.raises(PatternError):
        search(mounted(tree), ("/",))("[a")


def test_sockets_and_devices_are_files(tree: FakeTree) -> None:
    tree.socket("/r/run/socket")
    tree.node("/r/dev/x", 1, 2)
    tree.link("/r/dev/y", "x")
    tree.link("/r/dev/z", "missing")
    root = mounted(tree)

    assert all(is_file(root, path) for path in ("/run/socket", "/dev/x", "/dev/y"))
    assert not is_file(root, "/dev/z")
    assert char_devices(root)("/dev/*") == ["/dev/x"]
    assert char_devices(root)("x") == ["/dev/x"]


def test_real_files_come_once(tree: FakeTree) -> None:
    tree.file("/r/real/libx.so.1.2")
    tree.link("/r/a/libx.so.1", "../real/libx.so.1.2")
    tree.link("/r/a/libx.so", "libx.so.1")
    root = mounted(tree)

    assert resolved(root, search(root, ("/a",)))("libx.so*") == ["/real/libx.so.1.2"]


def test_binaries_in_the_order_of_path(tree: FakeTree) -> None:
    for folder in ("/r/usr/bin", "/r/opt/bin", "/r/bin"):
        tree.file(f"{folder}/tool", mode=0o755)
    tree.file("/r/usr/local/sbin/tool", mode=0o644)
    tree.file("/r/sbin/only", mode=0o010)
    root = mounted(tree)

    assert executables(root, "/opt/bin::/bin")("tool") == ["/opt/bin/tool"]
    assert executables(root, "")("tool") == ["/usr/bin/tool"]
    assert executables(root, "")("only") == ["/sbin/only"]


def test_chain_of_links(tree: FakeTree) -> None:
    tree.file("/r/lib/libx.so.1.2")
    tree.link("/r/lib/libx.so.1", "libx.so.1.2")
    tree.link("/r/usr/libx.so", "/lib/libx.so.1")
    tree.link("/r/loop/a", "b")
    tree.link("/r/loop/b", "a")
    tree.link("/r/loop/out", "../../../etc/passwd")
    root = mounted(tree)

    assert link_chain(root, "/usr/libx.so") == [
        "/usr/libx.so",
        "/lib/libx.so.1",
        "/lib/libx.so.1.2",
    ]
    assert link_chain(root, "/loop/a") == ["/loop/a", "/loop/b"]
    assert link_chain(root, "/loop/out") == ["/loop/out"]


def test_links_that_leave_a_mounted_root(tree: FakeTree) -> None:
    tree.file("/r/x")
    tree.link("/r/absolute", "/x")
    tree.link("/r/relative", "x")
    root = mounted(tree)

    assert is_file(root, "/absolute")
    assert not is_file_by_plain_links(root, "/absolute")
    assert is_file_by_plain_links(root, "/relative")


def test_libraries_in_all_directories(tree: FakeTree) -> None:
    tree.file("/r/usr/lib64/libx.so.1")
    tree.file("/r/usr/lib/x86_64-linux-gnu/libx.so.1")
    tree.file("/r/usr/lib/libx.so.1")
    tree.file("/r/usr/lib/i386-linux-gnu/libx.so.1")
    tree.link("/r/lib64", "usr/lib64")

    assert Libraries(mounted(tree), Notes())("libx.so.*") == [
        "/usr/lib64/libx.so.1",
        "/usr/lib/x86_64-linux-gnu/libx.so.1",
    ]


def test_the_linkers_cache_is_the_last_resort(tree: FakeTree) -> None:
    tree.file("/r/opt/libx.so.1.2")
    tree.link("/r/opt/libx.so.1", "libx.so.1.2")
    tree.file("/r/usr/lib64/liby.so.1")
    cache = [("libx.so.1", "/opt/libx.so.1"), ("liby.so.1", "/opt/y"), ("z", "/opt/z")]
    tree.file("/r/etc/ld.so.cache", ld_cache(cache))
    notes = Notes()
    libraries = Libraries(mounted(tree), notes)

    assert libraries("libx.so.1.*") == ["/opt/libx.so.1.2"]
    assert libraries("libx.so.?") == ["/opt/libx.so.1.2"]
    assert libraries("liby.so.1") == ["/usr/lib64/liby.so.1"]
    assert libraries("libnone.so") == []
    assert notes.warnings == ()


@pytest.mark.parametrize("content", [None, b"", b"glibc-ld.so.cache1.1", b"x" * 100])
def test_a_bad_cache_is_a_warning(tree: FakeTree, content: bytes | None) -> None:
    tree.folder("/r/etc")
    if content is not None:
        tree.file("/r/etc/ld.so.cache", content)
    notes = Notes()

    assert Libraries(mounted(tree), notes)("libx.so") == []
    assert len(notes.warnings) == 1
    assert notes.warnings[0].startswith("/r/etc/ld.so.cache: not used: ")
