"""``gpu-node completion``: the scripts, completing in genuine shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.terminal import Terminal, terminal

from gpu_device_plugin.programs.commands.completion import script
from gpu_device_plugin.programs.gpu_node import make_parser

COMMAND = [sys.executable, "-c", "from gpu_device_plugin.programs.gpu_node import main; main()"]
PROGRAMS = (
    "gpu-node",
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "config-manager",
    "mps-control-daemon",
)
SHELLS = ("bash", "zsh", "fish")
CASES = [
    ("gpu-node doc", {"doctor"}),
    ("gpu-node cdi ", {"generate", "list", "validate", "diff"}),
    ("gpu-node doctor --verb", {"--verbose"}),
    ("gpu-node doctor --o", {"--output", "--only"}),
    ("gpu-node doctor -o ", {"table", "json", "yaml"}),
    ("gpu-node doctor --kubeconfig x -o y", {"yaml"}),
    ("gpu-node doctor --only clo", {"clock"}),
    ("gpu-node doctor --only nvml,clo", {"nvml,clock"}),
    ("gpu-node doctor --mig-strategy m", {"mixed"}),
    ("gpu-node cdi list --spec", {"--spec-dir"}),
    ("gpu-node cdi generate --device-id-s", {"--device-id-strategy"}),
    ("gpu-node simulate dgx-a100-mig-", {"dgx-a100-mig-single"}),
    ("gpu-node labels --simulate t4", {"t4x4"}),
    ("gpu-node completion f", {"fish"}),
    ("gpu-node completion zsh --program mps", {"mps-control-daemon"}),
    ("gpu-node doctor --config-file ./a-conf", {"./a-config.yaml"}),
    ("gpu-node cdi validate ./a-conf", {"./a-config.yaml"}),
    ("gpu-node doctor --host-root ./a-d", {"./a-directory"}),
    ("nvidia-device-plugin --device-list-strategy cdi-c", {"cdi-cri"}),
    ("nvidia-device-plugin --device-list-strategy envvar,cdi-c", {"envvar,cdi-cri"}),
    ("nvidia-device-plugin --simulate gh", {"gh200"}),
    ("mps-control-daemon mount", {"mount-shm"}),
    ("config-manager --validate", {"--validate-config"}),
    ("gpu-feature-discovery --log-level deb", {"debug"}),
]


def needs(shell: str) -> str:
    """The path of a shell; without it the test is skipped."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    return path


def completion(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "completion", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every script, and a few files to be completed."""
    directory = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        for program in PROGRAMS:
            text = script(shell, program, make_parser())
            (directory / f"{program}.{shell}").write_text(text)
    (directory / "work").mkdir()
    (directory / "work/a-config.yaml").touch()
    (directory / "work/a-directory").mkdir()
    return directory


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_prints_the_script(scripts: Path, shell: str) -> None:
    done = completion(shell)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (scripts / f"gpu-node.{shell}").read_text()
    mps = completion(shell, "--program=mps-control-daemon")
    assert mps.stdout == (scripts / f"mps-control-daemon.{shell}").read_text()


def run_shell(command: list[str], scripts: Path) -> str:
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=scripts / "work",
        env={**os.environ, "HOME": str(scripts), "XDG_CONFIG_HOME": str(scripts)},
        timeout=60,
    )
    assert not done.stderr
    return done.stdout


def sources(scripts: Path, shell: str) -> str:
    return "; ".join(f"source {scripts}/{program}.{shell}" for program in PROGRAMS)


def in_bash(scripts: Path, line: str) -> set[str]:
    """Calls the function as bash does, with the words as bash splits them."""
    words = line.replace("=", " = ").split(" ")
    function = "_" + words[0].replace("-", "_")
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"{sources(scripts, 'bash')}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        f'{function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    found = run_shell([needs("bash"), "--norc", "-c", code], scripts)
    return set(found.split())


def in_fish(scripts: Path, line: str) -> set[str]:
    """Asks fish for what it would suggest."""
    code = f"{sources(scripts, 'fish')}; complete -C '{line}'"
    found = run_shell([needs("fish"), "--no-config", "-c", code], scripts)
    # An option that may have a value is suggested with "=", too.
    return {each.partition("\t")[0].rstrip("/=") for each in found.splitlines()}


@pytest.mark.parametrize(("line", "wanted"), CASES)
@pytest.mark.parametrize("shell", [in_bash, in_fish])
def test_words_are_suggested(
    scripts: Path, shell: Callable[[Path, str], set[str]], line: str, wanted: set[str]
) -> None:
    assert shell(scripts, line) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("gpu-node doctor --output=j", {"json"}),
        ("gpu-node doctor --pass-device-specs=t", {"true"}),
        ("gpu-node doctor --simulate=gh", {"gh200"}),
        ("nvidia-device-plugin --mig-strategy=s", {"single"}),
    ],
)
def test_values_behind_an_equals_sign_are_suggested(
    scripts: Path, line: str, wanted: set[str]
) -> None:
    assert in_bash(scripts, line) == wanted
    name = line.rsplit(maxsplit=1)[-1].partition("=")[0]
    assert in_fish(scripts, line) == {f"{name}={value}" for value in wanted}


def test_a_switch_does_not_take_the_next_word(scripts: Path) -> None:
    line = "gpu-node doctor --pass-device-specs --verb"

    assert in_bash(scripts, line) == in_fish(scripts, line) == {"--verbose"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_scripts_are_read_without_complaint(scripts: Path, shell: str, program: str) -> None:
    path = needs(shell)

    run_shell([path, "-n", f"{scripts}/{program}.{shell}"], scripts)
    run_shell([path, "-c", f"source {scripts}/{program}.{shell}"], scripts)


@pytest.fixture
def zsh(scripts: Path) -> Iterator[Terminal]:
    """A zsh that has read the scripts."""
    path = needs("zsh")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(scripts),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
    }
    with terminal([path, "-f", "-i"], environ) as shell:
        shell.type(
            f"PS1='READY> '; cd {scripts}/work; autoload -Uz compinit; compinit -u -D; "
            f"unsetopt beep zle_bracketed_paste prompt_sp; {sources(scripts, 'zsh')}; "
            "echo all-$((1 + 1))-read\n"
        )
        shell.until("all-2-read")
        shell.until("READY> ", shell.text.index("all-2-read"))
        yield shell


class TestInZsh:
    @pytest.mark.parametrize(
        ("line", "wanted"),
        [(line, min(wanted)) for line, wanted in CASES if len(wanted) == 1],
    )
    def test_words_are_completed(self, zsh: Terminal, line: str, wanted: str) -> None:
        # Ctrl-A and # make a comment of the line, so that it is written out and not run.
        zsh.type(f"{line}\t")
        before = line.rpartition(" ")[0]
        zsh.until(f"{before} {wanted}")

    def test_commands_and_values_are_listed(self, zsh: Terminal) -> None:
        shown = zsh.after_typing("gpu-node \t", "which ones go together")
        assert "find what is wrong with this node" in shown
        shown = zsh.after_typing("\x15gpu-node doctor -o \t", "yaml")
        assert "json" in shown

    def test_values_behind_an_equals_sign_are_completed(self, zsh: Terminal) -> None:
        zsh.type("gpu-node doctor --pass-device-specs=t\t")
        zsh.until("--pass-device-specs=true")


def test_in_a_bash_terminal(scripts: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(scripts), "TERM": "dumb", "PS1": "READY> "}
    with terminal([needs("bash"), "--norc", "--noprofile", "-i"], environ) as shell:
        shell.type(
            f"bind 'set show-all-if-ambiguous on'; cd {scripts}/work; {sources(scripts, 'bash')}; "
            "echo all-$((1 + 1))-read\n"
        )
        shell.until("all-2-read")
        shell.after_typing("gpu-node doctor --only nvml,clo\t", "nvml,clock")
        shown = shell.after_typing("\x15gpu-node doctor -o \t", "yaml")
        assert "json" in shown
        shell.after_typing("\x15gpu-node doctor --config-file ./a-c\t", "./a-config.yaml")
        shell.after_typing("\x15gpu-node doctor --output=js\t", "--output=json")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: SHELL"),
        (["csh"], "invalid choice: 'csh'"),
        (["bash", "--program", "kubectl"], "invalid choice: 'kubectl'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], text: str) -> None:
    done = completion(*arguments)

    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
