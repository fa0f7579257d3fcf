"""The processes that are seen from here."""

from __future__ import annotations

import os

from gpu_device_plugin.processes import command_lines


def test_our_own_command_line_is_among_them():
    found = dict(command_lines())
    assert "python" in found[os.getpid()][0]


def test_a_process_is_its_number_and_its_arguments(tmp_path):
    for name, line in {
        "1": b"/sbin/init\0--long\0\0",
        "2": b"",  # a kernel thread
        "3": b"caf\xe9\0",
        "self": b"us\0",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(line)
    (tmp_path / "4").mkdir()

    assert dict(command_lines(str(tmp_path))) == {1: ["/sbin/init", "--long"], 3: ["caf\udce9"]}
