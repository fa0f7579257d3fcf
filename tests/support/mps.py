"""Stand-ins for NVIDIA's MPS tools that behave as the genuine ones were seen to, and record it.

The control program's daemon is a real process that holds the lock, takes commands and writes
its log; files in a directory beside let single things go wrong:

    hang-WORD      the command WORD, or -d, never returns
    fail-WORD      it ends with exit code 1
    ignore-WORD    it ends with exit code 0 and has no effect
    unknown-WORD   it is not known
    no-lock        the daemon holds no lock: nobody sees whether it lives
    smi-fails      nvidia-smi refuses
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from gpu_device_plugin.mps.compute_mode import DriverComputeModes
from gpu_device_plugin.mps.daemon import Surroundings
from gpu_device_plugin.mps.limits import set_limits
from gpu_device_plugin.mps.lock import lock_holder
from gpu_device_plugin.mps.names import DaemonFiles, ready_file, touch
from gpu_device_plugin.mps.plan import DaemonSpec
from gpu_device_plugin.mps.tool import ControlTool

GPU = "nvidia.com/gpu"

CONTROL = """#!{python} -SE
import fcntl, json, os, signal, struct, sys, time
ctl = {knobs!r}
pipe, logs = os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
text = "" if sys.argv[1:] else sys.stdin.read()
word = (sys.argv[1:] or text.split() or [""])[0]
name = " ".join(sys.argv[1:]) or text
extra = sorted(set(os.environ) - {{"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "LC_CTYPE"}})
with open(ctl + "/journal", "a") as journal:
    journal.write("control " + name + (" " + ",".join(extra) if extra else "") + "\\n")
knob = lambda what: os.path.exists(ctl + "/" + what)
if knob("hang-" + word):
    time.sleep(60)
if knob("fail-" + word):
    print("told to fail")
    sys.exit(1)
if knob("unknown-" + word):
    print('Unknown command "' + name + '"')
    sys.exit(0)
lock, state = pipe + "/control_lock", pipe + "/state"

def holder():
    try:
        fd = os.open(lock, os.O_RDWR)
    except OSError:
        return 0
    got = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", 1, 0, 0, 0, 0)))
    os.close(fd)
    return 0 if got[0] == 2 else got[4]

def note(line):
    with open(logs + "/control.log", "a") as log:
        log.write("[now Control 1] " + line + "\\n")

if word == "-d":
    if holder():
        print("An instance of this daemon is already running")
        sys.exit(1)
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        os.read(read, 1)
        sys.exit(0)
    os.setsid()
    if not knob("no-lock"):
        fd = os.open(lock, os.O_RDWR | os.O_CREAT)
        fcntl.lockf(fd, fcntl.LOCK_EX)
    note("Starting control daemon using socket " + pipe + "/control")
    with open(state, "w") as file:
        json.dump({{"percentage": 100.0, "limits": {{}}}}, file)
    if knob("dies"):
        os.close(fd)  # the lock is gone before anybody can ask for it
    os.write(write, b".")
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    if knob("no-lock") or knob("dies"):
        os._exit(0)
    signal.pause()
if not holder() and not knob("no-lock"):
    print("Cannot find MPS control daemon process", file=sys.stderr)
    sys.exit(1)
note("Cmd:" + text)
if knob("ignore-" + word):
    sys.exit(0)
turn = open(state)  # commands take their turn, as those of the genuine daemon do
fcntl.flock(turn, fcntl.LOCK_EX)
with open(state) as file:
    values = json.load(file)
words = text.split()
if word == "quit":
    if holder():
        os.kill(holder(), signal.SIGKILL)
elif word == "set_default_active_thread_percentage":
    if 0 < float(words[1]) <= 100:
        values["percentage"] = float(words[1])
    print(values["percentage"])
elif word == "get_default_active_thread_percentage":
    print(values["percentage"])
elif word == "set_default_device_pinned_mem_limit":
    values["limits"][words[1]] = int(words[2].rstrip("M"))
elif word == "get_default_device_pinned_mem_limit":
    limit = values["limits"].get(words[1])
    if limit:
        print(f"{{limit // 1024}}G" if limit >= 1024 else f"{{limit}}M")
with open(state, "w") as file:
    json.dump(values, file)
"""

SMI = """#!/bin/sh
echo "smi $*" >> {knobs}/journal
[ -f {knobs}/smi-fails ] && {{ echo "told to fail"; exit 3; }}
exit 0
"""


@dataclass
class MpsTools:
    """The tools, what they were told, and what shall go wrong with them."""

    root: Path
    knobs: Path
    control: Path
    smi: Path

    @classmethod
    def make(cls, directory: Path) -> MpsTools:
        knobs, root = directory / "knobs", directory / "mps"
        knobs.mkdir()
        root.mkdir()
        tools = cls(root, knobs, directory / "nvidia-cuda-mps-control", directory / "nvidia-smi")
        tools.control.write_text(CONTROL.format(python=sys.executable, knobs=str(knobs)))
        tools.smi.write_text(SMI.format(knobs=knobs))
        for program in (tools.control, tools.smi):
            program.chmod(0o755)
        return tools

    def around(self, seconds: float = 5.0) -> Surroundings:
        """What a daemon needs, made of these tools."""
        return Surroundings(
            str(self.root),
            ControlTool(str(self.control), seconds),
            DriverComputeModes(str(self.smi)),
        )

    def turn(self, *names: str) -> None:
        """Lets things go wrong."""
        for name in names:
            (self.knobs / name).touch()

    def turn_back(self, *names: str) -> None:
        for name in names:
            (self.knobs / name).unlink()

    def journal(self) -> list[str]:
        """What the tools were told."""
        try:
            return (self.knobs / "journal").read_text().splitlines()
        except FileNotFoundError:
            return []

    def files(self, resource: str = GPU) -> DaemonFiles:
        return DaemonFiles(str(self.root), resource)

    def daemon(self, resource: str = GPU) -> int | None:
        """The daemon's process."""
        return lock_holder(self.files(resource))

    def kill_daemon(self, resource: str = GPU) -> None:
        pid = self.daemon(resource)
        assert pid
        os.kill(pid, signal.SIGKILL)
        limit = time.monotonic() + 10
        while self.daemon(resource) == pid:  # the kernel gives the lock back a moment later
            assert time.monotonic() < limit
            time.sleep(0.001)

    async def leave_behind(self, spec: DaemonSpec) -> int:
        """A daemon, with limits and mark, whose program was killed; its process."""
        files, tool = self.files(spec.resource), self.around().tool
        for path in (files.pipe, files.log):
            os.makedirs(path, exist_ok=True)
        await tool.start_daemon(files)
        await set_limits(tool, files, spec, verify=False)
        touch(files.started)
        touch(ready_file(files.root))
        (self.knobs / "journal").unlink()
        pid = self.daemon(spec.resource)
        assert pid
        return pid

    def clean_up(self) -> None:
        """Ends what a failed test has left."""
        for files in self.root.glob("*/*/pipe"):
            resource = str(files.parent.relative_to(self.root))
            if self.daemon(resource):
                self.kill_daemon(resource)


def a_daemon(resource: str = GPU, percentage: int = 25) -> DaemonSpec:
    """A daemon for two GPUs."""
    return DaemonSpec(resource, ("GPU-0", "GPU-1"), percentage, ((0, 8188), (1, 500)))


START = [
    "smi -i GPU-0 -c EXCLUSIVE_PROCESS",
    "smi -i GPU-1 -c EXCLUSIVE_PROCESS",
    "control -d",
    "control set_default_device_pinned_mem_limit 0 8188M",
    "control get_default_device_pinned_mem_limit 0",
    "control set_default_device_pinned_mem_limit 1 500M",
    "control get_default_device_pinned_mem_limit 1",
    "control set_default_active_thread_percentage 25",
]
END = ["control quit", "smi -i GPU-0 -c DEFAULT", "smi -i GPU-1 -c DEFAULT"]
