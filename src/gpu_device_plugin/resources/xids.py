"""What XIDs mean, and what is done about them unless the configuration says otherwise.

Meanings are those of NVIDIA's XID catalogue, in few words. The default actions are those of
k8s-device-plugin v0.19.3: six XIDs come from applications and are ignored, every other one makes
a GPU unhealthy, whether it stands here or not.
"""

from __future__ import annotations

from collections.abc import Mapping

APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that an application causes: the GPU is well (internal/rm/health.go)."""

MEANINGS: Mapping[int, str] = {
    8: "GPU stopped processing",
    13: "graphics engine exception, by an application",
    31: "memory page fault, by an application",
    32: "invalid or corrupted push buffer stream",
    38: "driver firmware error",
    43: "GPU stopped processing, by an application",
    44: "graphics engine fault during context switch",
    45: "preemptive clean-up after an earlier error",
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    54: "auxiliary power is not connected",
    56: "display engine error",
    57: "error programming the video memory interface",
    58: "unstable video memory interface",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "memory page retirement or row remapping",
    64: "memory page retirement or row remapping failed",
    68: "video processor exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch timeout, by an application",
    110: "security fault",
    119: "GSP firmware did not answer in time",
    120: "GSP firmware error",
    121: "C2C link error",
    140: "unrecovered ECC error",
    143: "GPU initialisation failure",
    149: "NVLink error",
    154: "GPU recovery action changed",
}


def describe_xid(xid: int) -> str:
    """``XID 79 (GPU has fallen off the bus)``, or the bare number of one that is not known."""
    meaning = MEANINGS.get(xid)
    return f"XID {xid}" if meaning is None else f"XID {xid} ({meaning})"
