"""What to do about a broken GPU, in half a sentence.

The actions are those of NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors) in few words.
"""

from __future__ import annotations

LOST = (
    "drain the node and reboot it; a GPU that stays away or falls off the bus again needs service"
)
RESET = "drain its pods, then reset it (nvidia-smi --gpu-reset) or reboot the node"
UNWATCHED = "look at nvidia-smi and the kernel log of the node; the plugin tries again by itself"
LOOK_UP = "look the XID up in NVIDIA's XID catalogue; a reset of the GPU often helps"

_MEMORY = "drain its pods, then reset it, so that bad memory is mapped out"
_LINK = "check the links (nvidia-smi nvlink --status), then reset all GPUs that they join"
_BY_XID = {
    8: RESET,
    46: RESET,
    48: _MEMORY,
    54: "check the power cables of the GPU",
    62: RESET,
    63: _MEMORY,
    64: f"{_MEMORY}; if it happens again the GPU needs service",
    74: _LINK,
    79: LOST,
    94: "restart the application that was hit, and reset the GPU when that is convenient",
    95: _MEMORY,
    119: RESET,
    120: RESET,
    121: _LINK,
    140: RESET,
    143: LOST,
    149: _LINK,
    154: "do what nvidia-smi -q tells as GPU recovery action",
}


def advice_on(xid: int) -> str:
    """What to do about an XID."""
    return _BY_XID.get(xid, LOOK_UP)
