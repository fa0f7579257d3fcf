"""The image: what is in it, how large it is, and its programs at work in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import build_oci
import build_rootfs
import build_sbom
import pytest
from deployment import rootfs
from deployment.charts import ROOT, containers, read_manifest
from deployment.containers import Container
from support.aio import run, until

import gpu_device_plugin
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

PROGRAMS = (
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "config-manager",
    "mps-control-daemon",
    "gpu-node",
)
LARGEST = 90 * 2**20
LONGEST_START = 0.7
DOCKERFILE = ROOT / "Dockerfile"


@pytest.fixture(scope="module", name="root")
def _root() -> Path:
    if reason := rootfs.why_not():
        pytest.skip(reason)
    directory, problem = rootfs.build()
    if directory is None:
        if re.search("Failed to fetch|Could not resolve|Temporary failure", problem):
            pytest.skip(f"the packages cannot be fetched: {problem}")
        pytest.fail(problem)
    return directory


@pytest.fixture(scope="module", name="archive")
def _archive(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "image.tar"
    build_oci.pack(root, path, commit="0123abc")
    return path


def files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if not path.is_symlink())


def test_it_is_small(root: Path) -> None:
    whole = build_rootfs.size_of(root)
    beyond = build_rootfs.size_of(root / "usr/local")

    assert beyond < LARGEST
    assert whole < LARGEST


def test_nothing_in_it_installs_or_compiles(root: Path) -> None:
    tools = re.compile(r"(pip\d*|ensurepip|setuptools|wheel|apt.*|dpkg|gcc|cc|ld|make|perl|bash)")

    assert not [path for path in files(root) if tools.fullmatch(path.name) and not path.is_dir()]
    assert not list((root / "usr/local/lib").rglob("pip*"))


def test_nobody_gets_more_rights_in_it(root: Path) -> None:
    modes = {path: path.stat().st_mode for path in files(root)}

    assert not [path for path, mode in modes.items() if mode & (stat.S_ISUID | stat.S_ISGID)]
    writable = [path for path, mode in modes.items() if mode & stat.S_IWOTH]
    assert {str(path.relative_to(root)) for path in writable} <= {"tmp", "var/tmp"}
    assert all(path.stat().st_uid == 0 for path in modes)


def test_modules_are_compiled(root: Path) -> None:
    for place in (build_rootfs.site_packages(root), root / f"usr/lib/python{build_rootfs.PYTHON}"):
        sources = [path for path in place.rglob("*.py") if path.parent.name != "__pycache__"]
        assert len(sources) > 100
        for path in sources:
            assert list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc")), path


def test_libraries_are_complete(root: Path) -> None:
    (loader,) = (root / "usr/lib64").glob("ld-linux-*")
    for path in files(root):
        if ".so" in path.name and path.is_file() and not path.name.startswith("ld-linux"):
            inside = "/" + str(path.relative_to(root))
            done = subprocess.run(
                ["chroot", str(root), f"/lib64/{loader.name}", "--list", inside],
                capture_output=True,
                text=True,
                check=False,
            )
            assert "not found" not in done.stdout, inside


def test_what_manifests_mount_has_a_place(root: Path) -> None:
    paths = {
        mount["mountPath"]
        for path in [
            *(ROOT / "deployments/static").iterdir(),
            ROOT / "deployments/examples/plain-daemonset.yml",
        ]
        for item in read_manifest(path)
        for container in containers(item)
        for mount in container["volumeMounts"]
    }

    assert len(paths) >= 3
    assert not [path for path in paths if not (root / path.lstrip("/")).is_dir()]


def test_what_the_runtime_of_nvidia_looks_for(root: Path) -> None:
    # It puts libraries where Debian has them if this file is there, and tells the loader of them.
    assert (root / "etc/debian_version").exists()
    assert "ld.so.conf.d" in (root / "etc/ld.so.conf").read_text()
    assert list((root / "etc/ld.so.conf.d").glob("*.conf"))


@pytest.mark.parametrize("user", [65532, 0, 1_234_567_890])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_start_as_any_user(root: Path, program: str, user: int) -> None:
    done = Container(root, user=user).run(program, "--version")

    assert done.code == 0, done.output
    assert f"v{gpu_device_plugin.__version__}" in done.output


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_start_quickly(root: Path, program: str) -> None:
    # The best of some, since tests that run at the same time slow each other down.
    seconds = min(Container(root).run(program, "--version").seconds for _ in range(4))

    assert seconds < LONGEST_START


def test_programs_are_where_manifests_call_them(root: Path) -> None:
    for program in PROGRAMS:
        done = Container(root).run(f"/usr/bin/{program}", "--version")
        assert done.code == 0, done.output


EVERY_MODULE = """\
import importlib, pkgutil, gpu_device_plugin as package
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(found.name)
import prometheus_client
"""


def test_no_module_lacks_what_it_imports(root: Path) -> None:
    done = Container(root).run("python3", "-c", EVERY_MODULE)

    assert done.code == 0, done.output


def test_the_demonstration_runs_in_it(root: Path) -> None:
    done = Container(root, scratch=True, environ={"LANG": "C.UTF-8"}).run(
        "gpu-node", "demo", "--speed=0"
    )

    assert done.code == 0, done.output
    assert "came out as they should" in done.output


def test_nothing_can_be_written_in_it(root: Path) -> None:
    done = Container(root, user=0).run("sh", "-c", "touch /tmp/x /x /usr/lib/x; id -u")

    assert done.output.count("Read-only file system") == 3
    assert "0" in done.output.splitlines()


def test_the_probe_of_the_mps_daemon_can_be_asked(root: Path, tmp_path: Path) -> None:
    container = Container(root, user=0, binds={"/mps": tmp_path})

    before = container.run("test", "-f", "/mps/.ready")
    (tmp_path / ".ready").touch()
    after = container.run("test", "-f", "/mps/.ready")

    assert (before.code, after.code) == (1, 0)


def test_the_mps_daemon_gets_ready_where_nothing_is_shared(root: Path, tmp_path: Path) -> None:
    container = Container(
        root, user=0, binds={"/mps": tmp_path}, environ={"GPU_NODE_SIMULATE": "t4x4"}
    )

    with container.running("mps-control-daemon"):
        run(until((tmp_path / ".ready").exists))
        assert container.run("test", "-f", "/mps/.ready").code == 0


def test_the_shared_memory_of_mps_is_mounted(root: Path, tmp_path: Path) -> None:
    container = Container(root, user=0, capabilities=("SYS_ADMIN",), binds={"/mps": tmp_path})

    done = container.run("sh", "-c", "mps-control-daemon mount-shm && grep /mps/shm /proc/mounts")

    assert done.code == 0, done.output
    assert re.search(r"^shm /mps/shm tmpfs rw,nosuid,nodev,noexec", done.output, re.MULTILINE)


def test_the_plugin_serves_without_capabilities(root: Path, tmp_path: Path) -> None:
    container = Container(
        root,
        user=0,
        binds={"/var/lib/kubelet/device-plugins": tmp_path},
        environ={"GPU_NODE_SIMULATE": "dgx-a100"},
    )

    async def serve() -> None:
        async with SimulatedKubelet(str(tmp_path)) as kubelet:
            with container.running("nvidia-device-plugin"):
                await kubelet.until(
                    lambda view: view.resource("nvidia.com/gpu").allocatable == 8, "8 GPUs"
                )

    run(serve())


def test_labels_are_written_in_it(root: Path) -> None:
    env = {"GPU_NODE_SIMULATE": "t4x4", "GFD_USE_NODE_FEATURE_API": "false", "GFD_OUTPUT_FILE": ""}

    done = Container(root, environ=env).run("gpu-feature-discovery", "--oneshot")

    assert done.code == 0, done.output
    assert "nvidia.com/gpu.count=4" in done.output


def test_the_bill_of_materials_is_complete(root: Path) -> None:
    bill = json.loads((root / build_sbom.PLACE).read_text(encoding="utf-8"))
    urls = [item["purl"] for item in bill["components"]]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)

    assert bill["bomFormat"] == "CycloneDX"
    project = bill["metadata"]["component"]
    assert project["purl"] == f"pkg:pypi/gpu-device-plugin@{gpu_device_plugin.__version__}"
    assert project["licenses"] == [{"expression": "Apache-2.0"}]
    assert {url.split("?")[0] for url in urls if "pypi" in url} == {
        f"pkg:pypi/{name}@{version}" for name, version in locked
    }
    debian = {item["name"] for item in bill["components"] if "pkg:deb/" in item["purl"]}
    assert debian == set(build_rootfs.DEBIAN)
    assert len(urls) == len(set(urls))
    assert (root / "licenses/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def read_archive(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        found = {}
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            found[member.name] = stream.read()
    return found


def test_the_archive_holds_two_images_of_one_layer(archive: Path, root: Path) -> None:
    blobs = read_archive(archive)

    def blob(place: dict[str, Any]) -> Any:
        data = blobs["blobs/" + place["digest"].replace(":", "/")]
        assert len(data) == place["size"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == place["digest"]
        return json.loads(data) if place["mediaType"].endswith("json") else data

    index = json.loads(blobs["index.json"])
    images = {
        place["annotations"]["org.opencontainers.image.ref.name"]: blob(place)
        for place in index["manifests"]
    }
    configs = {tag: blob(image["config"])["config"] for tag, image in images.items()}
    tag = f"v{gpu_device_plugin.__version__}"
    assert {name: config["User"] for name, config in configs.items()} == {
        tag: "65532:65532",
        f"{tag}-root": "0:0",
    }
    layers = [image["layers"] for image in images.values()]
    assert layers[0] == layers[1]
    assert len(layers[0]) == 1
    assert "GPU_DEVICE_PLUGIN_COMMIT=0123abc" in configs[tag]["Env"]
    assert configs[tag]["Labels"]["org.opencontainers.image.revision"] == "0123abc"
    blob(layers[0][0])
    loaded = json.loads(blobs["manifest.json"])
    assert [item["RepoTags"] for item in loaded] == [
        [f"gpu-device-plugin:{tag}"],
        [f"gpu-device-plugin:{tag}-root"],
    ]
    names = tarfile_names(blobs[loaded[0]["Layers"][0]])
    assert names == sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def tarfile_names(data: bytes) -> list[str]:
    import io  # noqa: PLC0415 - only here

    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    assert all((member.uid, member.gid, member.mtime) == (0, 0, 0) for member in members)
    return sorted(member.name for member in members)


def test_the_same_files_make_the_same_archive(archive: Path, root: Path, tmp_path: Path) -> None:
    build_oci.pack(root, tmp_path / "again.tar", commit="0123abc")

    assert (tmp_path / "again.tar").read_bytes() == archive.read_bytes()


def instructions() -> list[tuple[str, str]]:
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_dockerfile_says_the_same_as_the_archive() -> None:
    version = gpu_device_plugin.__version__
    found: dict[str, str] = {}
    arguments = {"VERSION": "", "COMMIT": ""}
    users = [value for name, value in instructions() if name == "USER"]
    for name, value in instructions():
        if name == "ARG":
            key, _, default = value.partition("=")
            arguments[key] = default.strip('"')
        if name in {"ENV", "LABEL"}:
            for key, quoted in re.findall(r'([\w.-]+)=("[^"]*"|\S+)', value):
                found[key] = re.sub(
                    r"\$\{(\w+)\}", lambda match: arguments[match[1]], quoted.strip('"')
                )
    settings: Any = build_oci.settings("", build_oci.USERS[""])

    assert arguments["VERSION"] == version
    assert found == dict(item.split("=", 1) for item in settings["Env"]) | settings["Labels"]
    assert users == ["0:0", settings["User"]]
    assert dict(instructions())["ENTRYPOINT"] == json.dumps(settings["Entrypoint"])


def test_the_dockerfile_copies_what_is_let_through() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    allowed = [line[1:] for line in ignored if line.startswith("!")]
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            for source in value.split()[:-1]:
                path = ROOT / source
                assert path.exists(), source
                assert any(path.match(pattern) for pattern in allowed), source
    # Nothing that the builder imports is missing.
    copied = {word for name, value in instructions() if name == "COPY" for word in value.split()}
    for module in ("build_rootfs", "build_sbom", "build_deployment_tools"):
        text = (ROOT / "tools" / f"{module}.py").read_text(encoding="utf-8")
        for imported in re.findall(r"^from (build_\w+) import", text, re.MULTILINE):
            assert f"tools/{imported}.py" in copied
    assert build_rootfs.PYTHON in dict(instructions())["ARG"] or any(
        build_rootfs.PYTHON in value and build_rootfs.SUITE in value
        for name, value in instructions()
        if name == "ARG"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can build a root file system")
def test_the_builder_refuses_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_rootfs.main([]) == 2
    assert "build_rootfs.py DIRECTORY" in capsys.readouterr().err
