"""Writes the bill of materials of a root file system, in the JSON of CycloneDX 1.5."""

from __future__ import annotations

import email
import json
import re
import uuid
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

PLACE = "usr/share/sbom/gpu-device-plugin.cdx.json"
PROJECT = "gpu-device-plugin"


def write_sbom(root: Path, site_packages: Path) -> None:
    """Of what the metadata of Debian's and Python's packages in there say."""
    path = root / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(make_sbom(root, site_packages), indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def make_sbom(root: Path, site_packages: Path) -> dict[str, object]:
    python = list(python_packages(site_packages))
    (project,) = (item for item in python if item["name"] == PROJECT)
    components = [*debian_packages(root), *(item for item in python if item != project)]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([project, components], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {**project, "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": project["bom-ref"], "dependsOn": [item["bom-ref"] for item in components]}
        ],
    }


def debian_packages(root: Path) -> Iterator[dict[str, object]]:
    release = (root / "usr/lib/os-release").read_text(encoding="utf-8")
    distribution = re.search(r"^VERSION_CODENAME=(\S+)", release, re.MULTILINE)
    for path in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = email.message_from_string(path.read_text(encoding="utf-8"))
        version = fields["Version"].replace("+", "%2B").replace(":", "%3A").replace("~", "~")
        qualifiers = f"arch={fields['Architecture']}"
        if distribution:
            qualifiers += f"&distro={distribution[1]}"
        url = f"pkg:deb/debian/{fields['Package']}@{version}?{qualifiers}"
        yield component(fields["Package"], fields["Version"], url, fields.get("Description", ""))


def python_packages(site_packages: Path) -> Iterator[dict[str, object]]:
    for path in sorted(site_packages.glob("*.dist-info/METADATA")):
        fields = email.message_from_string(path.read_text(encoding="utf-8"))
        name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
        url = f"pkg:pypi/{name}@{fields['Version']}"
        item = component(name, fields["Version"], url, fields.get("Summary", ""))
        yield item | licenses(fields)


def component(name: str, version: str, url: str, description: str) -> dict[str, object]:
    return {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "purl": url,
        "description": description.split("\n", maxsplit=1)[0],
    }


def licenses(fields: Message) -> dict[str, object]:
    """As an expression where there is one, else the names that are given."""
    expression = fields.get("License-Expression")
    if expression:
        return {"licenses": [{"expression": expression}]}
    names = [
        text.rpartition(" :: ")[2]
        for text in fields.get_all("Classifier") or ()
        if text.startswith("License :: ")
    ]
    short = (fields.get("License") or "").split("\n")[0]
    return {"licenses": [{"license": {"name": name}} for name in names or [short] if name]}
