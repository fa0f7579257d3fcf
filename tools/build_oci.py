"""Packs a root file system into an image, without a container engine and without a base image.

    python tools/build_oci.py ROOTFS ARCHIVE

The archive holds two images that differ in their user, v<version> and v<version>-root. It can be
loaded by podman load, docker load, ctr images import and skopeo (oci-archive:). The same files give
the same archive. COMMIT in the environment is baked in.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "gpu-device-plugin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USERS = {"": "65532:65532", "-root": "0:0"}
"""Suffix of the tag: user. The first is the default."""
Json = dict[str, object]


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    pack(Path(arguments[0]), Path(arguments[1]), os.environ.get("COMMIT", ""))
    return 0


def version() -> str:
    text = (ROOT / "src/gpu_device_plugin/__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    assert found is not None
    return found[1]


def settings(commit: str, user: str) -> Json:
    """As in the Dockerfile; a test compares."""
    return {
        "User": user,
        "Entrypoint": ["nvidia-device-plugin"],
        "WorkingDir": "/",
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            "NVIDIA_DISABLE_REQUIRE=true",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            f"GPU_DEVICE_PLUGIN_COMMIT={commit}",
        ],
        "Labels": {
            "org.opencontainers.image.title": NAME,
            "org.opencontainers.image.description": "NVIDIA's Kubernetes GPU node stack in Python",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": version(),
            "org.opencontainers.image.revision": commit,
            "io.k8s.display-name": NAME,
            "name": NAME,
            "version": version(),
            "release": "N/A",
            "summary": "Device plugin, GPU feature discovery, config-manager and MPS control daemon",
            "description": "See summary",
        },
    }


def pack(rootfs: Path, archive: Path, commit: str = "") -> None:
    """Writes the archive."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w") as tar:
        blobs = Blobs(tar)
        plain = layer(rootfs)
        packed = gzip.compress(plain, 6, mtime=0)
        layer_place = blobs.add(packed, "application/vnd.oci.image.layer.v1.tar+gzip")
        manifests = []
        loaded = []
        for suffix, user in USERS.items():
            tag = f"v{version()}{suffix}"
            config = blobs.add_json(
                {
                    "architecture": ARCHITECTURES[os.uname().machine],
                    "os": "linux",
                    "config": settings(commit, user),
                    "rootfs": {
                        "type": "layers",
                        "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"],
                    },
                },
                "application/vnd.oci.image.config.v1+json",
            )
            media = "application/vnd.oci.image.manifest.v1+json"
            manifest = {"schemaVersion": 2, "mediaType": media}
            manifest |= {"config": config, "layers": [layer_place]}
            names = {
                "org.opencontainers.image.ref.name": tag,
                "io.containerd.image.name": full(tag),
            }
            manifests.append({**blobs.add_json(manifest, media), "annotations": names})
            loaded.append(
                {
                    "Config": path(config),
                    "RepoTags": [f"{NAME}:{tag}"],
                    "Layers": [path(layer_place)],
                }
            )
        index = {"schemaVersion": 2, "manifests": manifests}
        index["mediaType"] = "application/vnd.oci.image.index.v1+json"
        add(tar, "index.json", dump(index))
        add(tar, "manifest.json", dump(loaded))
        add(tar, "oci-layout", dump({"imageLayoutVersion": "1.0.0"}))
    print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB compressed")


def full(tag: str) -> str:
    """The name as containerd and the kubelet complete it."""
    return f"docker.io/library/{NAME}:{tag}"


class Blobs:
    """Contents by their hash."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def add(self, data: bytes, media: str) -> Json:
        digest = hashlib.sha256(data).hexdigest()
        add(self._tar, f"blobs/sha256/{digest}", data)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, value: object, media: str) -> Json:
        return self.add(dump(value), media)


def layer(rootfs: Path) -> bytes:
    """All files in a fixed order, owned by root, without times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for file in sorted(rootfs.rglob("*")):
            info = tar.gettarinfo(file, str(file.relative_to(rootfs)))
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if info.isreg():
                with file.open("rb") as stream:
                    tar.addfile(info, stream)
            else:
                tar.addfile(info)
    return buffer.getvalue()


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def path(place: Json) -> str:
    return "blobs/" + str(place["digest"]).replace(":", "/")


def dump(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
