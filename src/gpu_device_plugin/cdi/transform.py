"""From a draft with the plugin's paths to a specification with the host's.

Sources: nvidia-container-toolkit v1.19.1, `pkg/nvcdi/transform`; k8s-device-plugin v0.19.3,
`internal/cdi/cdi.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_device_plugin.cdi.draft import Draft
from gpu_device_plugin.cdi.model import ContainerEdits, DeviceNode, Hook, Mount
from gpu_device_plugin.cdi.options import Roots
from gpu_device_plugin.cdi.paths import below, clean, depth, join


def simplify(draft: Draft) -> Draft:
    """Drops repetitions and what devices share with the common edits, and sorts.

    Environment, hooks and options keep their order, which has a meaning.
    """
    common = _unique(draft.edits)
    devices = (replace(d, edits=_sorted(_without(_unique(d.edits), common))) for d in draft.devices)
    return Draft(tuple(sorted(devices, key=lambda d: d.name)), _sorted(common))


def to_host(draft: Draft, roots: Roots) -> Draft:
    """Turns paths in the plugin's roots into paths on the host.

    Only the driver root's target counts if the dev root is the same, as in the original.
    """
    draft = _move(draft, _Move(roots.driver, roots.target_driver))
    if roots.dev == roots.driver:
        return draft
    return _move(draft, _Move(_dev_directory(roots.dev), _dev_directory(roots.target_dev)))


@dataclass(frozen=True, slots=True)
class _Move:
    """One root for another."""

    root: str
    target: str

    def path(self, path: str) -> str:
        """The path at its new place; one outside the root is unchanged."""
        rest = below(clean(path), self.root) if path.startswith("/") else None
        return path if rest is None else join(self.target, rest)

    def node(self, node: DeviceNode) -> DeviceNode:
        """The node with a path on the host in any case, even if that stays the same."""
        return replace(node, host_path=self.path(node.host_path or node.path))

    def mount(self, mount: Mount) -> Mount:
        return replace(mount, host_path=self.path(mount.host_path))

    def hook(self, hook: Hook) -> Hook:
        """The hook's arguments are the container's business and stay."""
        return replace(hook, path=self.path(hook.path))

    def edits(self, edits: ContainerEdits) -> ContainerEdits:
        return replace(
            edits,
            device_nodes=tuple(map(self.node, edits.device_nodes)),
            mounts=tuple(map(self.mount, edits.mounts)),
            hooks=tuple(map(self.hook, edits.hooks)),
        )


def _move(draft: Draft, move: _Move) -> Draft:
    if move.root == move.target:
        return draft
    devices = tuple(replace(device, edits=move.edits(device.edits)) for device in draft.devices)
    return Draft(devices, move.edits(draft.edits))


def _dev_directory(root: str) -> str:
    return root if root.endswith("/dev") else join(root, "dev")


def _unique(edits: ContainerEdits) -> ContainerEdits:
    return replace(
        edits,
        env=tuple(dict.fromkeys(edits.env)),
        device_nodes=tuple(dict.fromkeys(edits.device_nodes)),
        hooks=tuple(dict.fromkeys(edits.hooks)),
        mounts=tuple(dict.fromkeys(edits.mounts)),
        additional_gids=tuple(sorted(set(edits.additional_gids))),
    )


def _without(edits: ContainerEdits, common: ContainerEdits) -> ContainerEdits:
    """Without what is in the common edits, unless nothing of it would be left."""
    rest = replace(
        edits,
        env=tuple(e for e in edits.env if e not in common.env),
        device_nodes=tuple(n for n in edits.device_nodes if n not in common.device_nodes),
        hooks=tuple(h for h in edits.hooks if h not in common.hooks),
        mounts=tuple(m for m in edits.mounts if m not in common.mounts),
    )
    return rest if rest.env or rest.device_nodes or rest.hooks or rest.mounts else edits


def _sorted(edits: ContainerEdits) -> ContainerEdits:
    return replace(
        edits,
        device_nodes=tuple(sorted(edits.device_nodes, key=lambda n: _order(n.path))),
        mounts=tuple(sorted(edits.mounts, key=lambda m: _order(m.container_path))),
    )


def _order(path: str) -> tuple[int, str]:
    """Parents before what is mounted in them."""
    return depth(path), path
