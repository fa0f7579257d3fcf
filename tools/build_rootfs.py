"""Builds the root file system of the image: some packages of Debian, the locked dependencies and
the wheel of this project. No shell but busybox, no package manager, no pip, no compiler.

    python tools/build_rootfs.py DIRECTORY

Needs root, a Debian with apt, and pip. Used by the Dockerfile, and by tests where no image can be
pulled; packages are kept in DEPLOYMENT_TOOLS, else in build/deployment.
"""

from __future__ import annotations

import configparser
import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from build_deployment_tools import tools_directory
from build_sbom import write_sbom

ROOT = Path(__file__).resolve().parent.parent
SUITE = "trixie"
PYTHON = "3.13"
DEBIAN = (
    "base-files",
    "busybox-static",
    "ca-certificates",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libssl3t64",
    "libzstd1",
    f"python{PYTHON}-minimal",
    "zlib1g",
)
APPLETS = (
    *("[", "awk", "cat", "chmod", "cp", "cut", "date", "df", "du", "env", "find", "grep", "head"),
    *("hostname", "id", "kill", "ln", "ls", "mkdir", "mount", "mv", "nc", "netstat", "ps", "pwd"),
    *("readlink", "rm", "sed", "sh", "sleep", "sort", "stat", "tail", "test", "top", "touch", "tr"),
    *("true", "umount", "uname", "vi", "wc", "which", "xargs"),
)
"""For probes, and for whoever looks around with kubectl exec."""
NOT_NEEDED = (
    *("usr/share/lintian", "usr/share/man", "usr/share/bug", "usr/share/binfmts"),
    *("usr/share/base-files", "usr/share/debconf", "usr/share/dpkg", "usr/lib/binfmt.d"),
    *("usr/share/zsh", "usr/share/info", "usr/share/pixmaps", "usr/share/applications"),
    *("usr/share/initramfs-tools", "usr/share/doc-base", "usr/sbin/update-ca-certificates"),
    *("etc/update-motd.d", "etc/init.d", "etc/default", "etc/skel", "etc/profile.d", "etc/motd"),
    *("etc/opt", "etc/issue", "etc/issue.net", "etc/dpkg", "etc/ca-certificates"),
    *("usr/share/perl5", "usr/games", "usr/local/games", "usr/local/man", "var/backups"),
)
MODULES_NOT_NEEDED = (
    *("ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo", "venv"),
    *("curses", "dbm", "sqlite3", "unittest", "xmlrpc", "_pyrepl", "__phello__"),
    *("antigravity.py", "doctest.py", "pdb.py", "pydoc.py", "turtle.py", "mailbox.py"),
    *("imaplib.py", "smtplib.py", "poplib.py", "ftplib.py", "cProfile.py", "profile.py"),
)
EXTENSIONS_NOT_NEEDED = re.compile(
    r"_(bz2|codecs_\w+|ctypes_test|curses\w*|dbm|lzma|sqlite3|test\w+|uuid|xxtestfuzz)\.|readline\.|xx"
)
"""Their libraries are not there, or nobody decodes such texts."""
ACCOUNTS = {"root": 0, "nobody": 65534, "nonroot": 65532}
MOUNT_POINTS = (
    *("dev", "proc", "sys", "run/cdi", "mps", "config", "available-configs", "driver-root"),
    *("simulated-node", "var/lib/kubelet/device-plugins", "var/lib/kubelet/pod-resources"),
    *("metrics-tls", "metrics-token"),
    "etc/kubernetes/node-feature-discovery/features.d",
)
"""Of manifests; a runtime would make them otherwise."""
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("only root can build a root file system", file=sys.stderr)
        return 1
    try:
        build(Path(arguments[0]).absolute())
    except subprocess.CalledProcessError as error:
        print(f"failed, see above: {shlex.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return 0


def build(root: Path) -> None:
    """Builds the file system in a directory, which is replaced."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    packages = fetch_packages(tools_directory() / f"debian-{SUITE}")
    unpack(packages, root)
    prune(root)
    configure(root)
    size = size_of(root)
    install_project(root)
    compile_modules(root)
    write_sbom(root, site_packages(root))
    print(f"{root}: Debian and Python {mebibytes(size)}, all {mebibytes(size_of(root))}")


def fetch_packages(cache: Path) -> list[Path]:
    """The newest versions of the packages, checked by apt against Debian's signatures."""
    for name in ("lists/partial", "archives/partial", "debs"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    mirror, keys = find_mirror(), find_keys()
    (cache / "status").touch()
    (cache / "sources.list").write_text(
        f"deb [signed-by={keys}] {mirror} {SUITE} main\n"
        f"deb [signed-by={keys}] {mirror}-security {SUITE}-security main\n"
    )
    options = [
        f"-oDir::State={cache}",
        f"-oDir::State::lists={cache}/lists",
        f"-oDir::State::status={cache}/status",
        f"-oDir::Cache={cache}",
        f"-oDir::Etc::sourcelist={cache}/sources.list",
        "-oDir::Etc::sourceparts=-",
        "-oAPT::Sandbox::User=root",
    ]
    debs = cache / "debs"
    run(["apt-get", *options, "--quiet", "--quiet", "update"], cwd=debs)
    before = set(debs.iterdir())
    run(["apt-get", *options, "--quiet", "--quiet", "download", *DEBIAN], cwd=debs)
    found = [newest(debs, name) for name in DEBIAN]
    for old in before - set(found):
        old.unlink()
    return found


def newest(directory: Path, package: str) -> Path:
    """The file of a package that came last."""
    return max(directory.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)


def find_mirror() -> str:
    """The mirror in DEBIAN_MIRROR, else the one that this machine uses for Debian."""
    if given := os.environ.get("DEBIAN_MIRROR"):
        return given
    for path in sorted(Path("/etc/apt").glob("sources.list*/**/*.sources")):
        found = re.search(r"^URIs:\s*(\S+/debian)/?\s*$", path.read_text(), re.MULTILINE)
        if found:
            return found[1]
    raise SystemExit("no mirror of Debian in /etc/apt; set DEBIAN_MIRROR to its address")


def find_keys() -> str:
    for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"):
        path = Path("/usr/share/keyrings", name)
        if path.exists():
            return str(path)
    raise SystemExit("no keys of Debian; install debian-archive-keyring")


def unpack(packages: Iterable[Path], root: Path) -> None:
    """As dpkg would, without scripts; what scanners look for goes to status.d."""
    for link, target in LINKS.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(target)
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as p:
            run(["tar", "-C", str(root), "--keep-directory-symlink", "-xf", "-"], stdin=p.stdout)
        control = output(["dpkg-deb", "--field", str(package)])
        (status / email.message_from_string(control)["Package"]).write_text(control)


def prune(root: Path) -> None:
    for name in NOT_NEEDED:
        remove(root / name)
    library = root / f"usr/lib/python{PYTHON}"
    for name in MODULES_NOT_NEEDED:
        remove(library / name)
    for path in (library / "lib-dynload").iterdir():
        if EXTENSIONS_NOT_NEEDED.match(path.name):
            path.unlink()
    for path in sorted((root / "usr/lib").glob("*/gconv")):
        remove(path)
    for path in sorted((root / "usr/share/doc").rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != "copyright":
            path.unlink()


def configure(root: Path) -> None:
    """What the packages' scripts would do, and what the programs need."""
    for name in (*MOUNT_POINTS, "etc/ssl/certs", "licenses"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    remove(root / "var/lock")
    remove(root / "var/run")
    (root / "var/run").symlink_to("/run")
    (root / "etc/passwd").write_text(
        "".join(f"{n}:x:{i}:{i}:{n}:/:/usr/sbin/nologin\n" for n, i in ACCOUNTS.items())
    )
    (root / "etc/group").write_text("".join(f"{n}:x:{i}:\n" for n, i in ACCOUNTS.items()))
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs/ca-certificates.crt").write_text(
        "".join(path.read_text(encoding="utf-8") for path in certificates)
    )
    remove(root / "usr/share/ca-certificates")
    (root / "usr/bin/python3").symlink_to(f"python{PYTHON}")
    for applet in APPLETS:
        (root / "usr/bin" / applet).symlink_to("busybox")
    shutil.copy(ROOT / "LICENSE", root / "licenses/LICENSE")


def install_project(root: Path) -> None:
    """The locked dependencies and the wheel; a launcher for each program in /usr/bin."""
    with tempfile.TemporaryDirectory() as name:
        wheel = build_wheel(Path(name))
        machine = os.uname().machine
        platforms = [f"--platform=manylinux_2_{n}_{machine}" for n in (17, 28, 34)]
        target = [
            *(f"--target={site_packages(root)}", f"--python-version={PYTHON}"),
            *("--implementation=cp", "--only-binary=:all:", "--no-compile", "--no-deps"),
            *(*platforms, f"--platform=manylinux2014_{machine}"),
        ]
        pip("install", "--require-hashes", "-r", str(ROOT / "requirements.lock"), *target)
        site = site_packages(root)
        remove(site / "bin")
        pip("install", *target, str(wheel))
    for name in ("bin", "example.py"):  # the launchers are ours; the example is nvidia-ml-py's
        remove(site / name)
    for path in site.glob("*.dist-info/RECORD"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith("../")))
    for program, place in entry_points(site).items():
        module, function = place.split(":")
        path = root / "usr/bin" / program
        path.write_text(
            f"#!/usr/bin/python{PYTHON} -I\n"
            f"import sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        )
        path.chmod(0o755)


def build_wheel(directory: Path) -> Path:
    """Builds the wheel with the setuptools of the lock."""
    tools = directory / "tools"
    lock = (ROOT / "requirements-dev.lock").read_text()
    wanted = re.search(r"^setuptools==.*?(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)
    if wanted is None:
        raise SystemExit("requirements-dev.lock: no setuptools")
    requirements = directory / "requirements.txt"
    requirements.write_text(wanted[0])
    pip("install", "--require-hashes", "--no-deps", f"--target={tools}", "-r", str(requirements))
    source = directory / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    arguments = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={directory}"]
    pip(*arguments, str(source), PYTHONPATH=str(tools))
    (wheel,) = directory.glob("*.whl")
    return wheel


def entry_points(site: Path) -> dict[str, str]:
    (path,) = site.glob("gpu_device_plugin-*.dist-info/entry_points.txt")
    parser = configparser.ConfigParser()
    parser.read(path)
    return dict(parser["console_scripts"])


def compile_modules(root: Path) -> None:
    """By the Python of the file system; nothing can be written there later."""
    places = [f"/usr/lib/python{PYTHON}", "/" + str(site_packages(root).relative_to(root))]
    mode = ["--invalidation-mode", "unchecked-hash"]
    python = f"/usr/bin/python{PYTHON}"
    run(["chroot", str(root), python, "-IS", "-m", "compileall", "-q", *mode, *places])


def site_packages(root: Path) -> Path:
    return root / f"usr/local/lib/python{PYTHON}/dist-packages"


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size_of(root: Path) -> int:
    """Bytes of all files; what has several names counts once."""
    seen = {}
    for path in root.rglob("*"):
        stat = path.lstat()
        seen[stat.st_ino] = stat.st_size
    return sum(seen.values())


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def pip(*arguments: str, **variables: str) -> None:
    options = ["--disable-pip-version-check", "--quiet", "--root-user-action=ignore"]
    command, *rest = arguments
    if command != "install":
        options.pop()
    run([sys.executable, "-m", "pip", command, *options, *rest], env={**os.environ, **variables})


def run(command: list[str], **options: object) -> None:
    subprocess.run(command, check=True, **options)  # type: ignore[call-overload]  # as they are


def output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
