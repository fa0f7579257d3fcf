"""What is said about the topology of each simulated node."""

from __future__ import annotations

import pytest

from gpu_device_plugin.console.screen import Screen
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.inspection.topology.choice import Request, choose
from gpu_device_plugin.inspection.topology.groups import find_groups
from gpu_device_plugin.inspection.topology.model import Topology, make_topology
from gpu_device_plugin.inspection.topology.text import text_lines
from gpu_device_plugin.inspection.topology.words import group_name, named


def topology_of(profile: str) -> Topology:
    backend = SimulatedBackend.from_profile(profile)
    inventory = backend.read()
    return make_topology(inventory, backend.read_links(inventory, lambda: False))


def text_of(topology: Topology, size: int, required: tuple[int, ...] = ()) -> str:
    choice = choose(topology, Request(topology.offered, required, size))
    return "".join(f"{line}\n" for line in text_lines(topology, choice, Screen()))


# ------------------------------------------------------------------ whole texts

T4X4 = """\
4 × Tesla T4, driver 535.183.06

GPU  PCI           NUMA  MODEL     STATE
  0  0000:3b:00.0     0  Tesla T4
  1  0000:5e:00.0     0  Tesla T4
  2  0000:af:00.0     1  Tesla T4  chosen
  3  0000:d8:00.0     1  Tesla T4  required

Links
     GPU0 GPU1 GPU2 GPU3
GPU0    X NODE  SYS  SYS
GPU1 NODE    X  SYS  SYS
GPU2  SYS  SYS    X NODE
GPU3  SYS  SYS NODE    X

Scores
     GPU0 GPU1 GPU2 GPU3
GPU0    -   20   10   10
GPU1   20    -   10   10
GPU2   10   10    -   20
GPU3   10   10   20    -

Groups
SYS 10              GPU 0-3
  NODE 20 · NUMA 0  GPU 0, 1
  NODE 20 · NUMA 1  GPU 2, 3

NV#   no NVLink joins two GPUs directly; those to NVSwitches do not count
NODE  one CPU or NUMA node, 20
SYS   different CPUs or NUMA nodes, 10

Preferred for 2 GPUs
asked for  2 of 4 GPUs, 0-3
required   GPU 3
preferred  GPU 2, 3
score      20
total      40 = 2 × 20 (2, 3; 0, 1); no division into sets of 2 scores more
as good    no other set
"""  # noqa: RUF001 - a sign, not a letter

DGX_1 = """\
8 × Tesla V100-SXM2-16GB, driver 535.183.06

GPU  PCI           NUMA  MODEL                 STATE
  0  0000:06:00.0     0  Tesla V100-SXM2-16GB  chosen
  1  0000:07:00.0     0  Tesla V100-SXM2-16GB  chosen
  2  0000:0a:00.0     0  Tesla V100-SXM2-16GB  chosen
  3  0000:0b:00.0     0  Tesla V100-SXM2-16GB  chosen
  4  0000:85:00.0     1  Tesla V100-SXM2-16GB
  5  0000:86:00.0     1  Tesla V100-SXM2-16GB
  6  0000:89:00.0     1  Tesla V100-SXM2-16GB
  7  0000:8a:00.0     1  Tesla V100-SXM2-16GB

Links
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
GPU0    X  NV1  NV1  NV2  NV2  SYS  SYS  SYS
GPU1  NV1    X  NV2  NV1  SYS  NV2  SYS  SYS
GPU2  NV1  NV2    X  NV2  SYS  SYS  NV1  SYS
GPU3  NV2  NV1  NV2    X  SYS  SYS  SYS  NV1
GPU4  NV2  SYS  SYS  SYS    X  NV1  NV1  NV2
GPU5  SYS  NV2  SYS  SYS  NV1    X  NV2  NV1
GPU6  SYS  SYS  NV1  SYS  NV1  NV2    X  NV2
GPU7  SYS  SYS  SYS  NV1  NV2  NV1  NV2    X

Scores
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7
GPU0    -  150  130  230  210   10   10   10
GPU1  150    -  230  130   10  210   10   10
GPU2  130  230    -  250   10   10  110   10
GPU3  230  130  250    -   10   10   10  110
GPU4  210   10   10   10    -  150  130  230
GPU5   10  210   10   10  150    -  230  130
GPU6   10   10  110   10  130  230    -  250
GPU7   10   10   10  110  230  130  250    -

Groups
SYS 10             GPU 0-7
  PHB 30 · NUMA 0  GPU 0-3
    PIX 50         GPU 0, 1
    PIX 50         GPU 2, 3
  PHB 30 · NUMA 1  GPU 4-7
    PIX 50         GPU 4, 5
    PIX 50         GPU 6, 7

NV#   # direct NVLinks, 100 each, added to the score of PCIe
PIX   one PCIe switch, 50
PHB   one PCIe host bridge, 30
SYS   different CPUs or NUMA nodes, 10

Preferred for 4 GPUs
asked for  4 of 8 GPUs, 0-7
preferred  GPU 0-3
score      1120
total      2240 = 2 × 1120 (0-3; 4-7); no division into sets of 4 scores more
as good    GPU 4-7. The first in the order of the request is taken
"""  # noqa: RUF001 - a sign, not a letter

DGX_2 = """\
Scores
    0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15
 0  - 50 40 40 20 20 20 20 10 10 10 10 10 10 10 10
 1 50  - 40 40 20 20 20 20 10 10 10 10 10 10 10 10
 2 40 40  - 50 20 20 20 20 10 10 10 10 10 10 10 10
 3 40 40 50  - 20 20 20 20 10 10 10 10 10 10 10 10
 4 20 20 20 20  - 50 40 40 10 10 10 10 10 10 10 10
 5 20 20 20 20 50  - 40 40 10 10 10 10 10 10 10 10
 6 20 20 20 20 40 40  - 50 10 10 10 10 10 10 10 10
 7 20 20 20 20 40 40 50  - 10 10 10 10 10 10 10 10
 8 10 10 10 10 10 10 10 10  - 50 40 40 20 20 20 20
 9 10 10 10 10 10 10 10 10 50  - 40 40 20 20 20 20
10 10 10 10 10 10 10 10 10 40 40  - 50 20 20 20 20
11 10 10 10 10 10 10 10 10 40 40 50  - 20 20 20 20
12 10 10 10 10 10 10 10 10 20 20 20 20  - 50 40 40
13 10 10 10 10 10 10 10 10 20 20 20 20 50  - 40 40
14 10 10 10 10 10 10 10 10 20 20 20 20 40 40  - 50
15 10 10 10 10 10 10 10 10 20 20 20 20 40 40 50  -

Groups
SYS 10              GPU 0-15
  NODE 20 · NUMA 0  GPU 0-7
    PXB 40          GPU 0-3
      PIX 50        GPU 0, 1
      PIX 50        GPU 2, 3
    PXB 40          GPU 4-7
      PIX 50        GPU 4, 5
      PIX 50        GPU 6, 7
  NODE 20 · NUMA 1  GPU 8-15
    PXB 40          GPU 8-11
      PIX 50        GPU 8, 9
      PIX 50        GPU 10, 11
    PXB 40          GPU 12-15
      PIX 50        GPU 12, 13
      PIX 50        GPU 14, 15

NV#   no NVLink joins two GPUs directly; those to NVSwitches do not count
PIX   one PCIe switch, 50
PXB   several PCIe switches, 40
NODE  one CPU or NUMA node, 20
SYS   different CPUs or NUMA nodes, 10

Preferred for 4 GPUs
asked for  4 of 16 GPUs, 0-15
preferred  GPU 0-3
score      260
total      1040 = 4 × 260 (0-3; 4-7; 8-11; 12-15); no division into sets of 4
           scores more
as good    GPU 4-7; GPU 8-11; GPU 12-15. The first in the order of the request
           is taken
"""  # noqa: RUF001 - a sign, not a letter


def test_four_cards_on_two_sockets():
    assert text_of(topology_of("t4x4"), 2, (3,)) == T4X4


def test_a_cube_mesh():
    assert text_of(topology_of("dgx-1"), 4) == DGX_1


def test_sixteen_gpus_below_switches():
    text = text_of(topology_of("dgx-2"), 4)

    assert text.endswith(DGX_2)
    assert "GPU  PCI           NUMA  MODEL                 STATE\n" in text
    assert " 15  0000:e7:00.0     1  Tesla V100-SXM3-32GB\n" in text


# ------------------------------------------------------------------ every built-in profile

PAIRS_OF_A100 = (
    "SYS 10: 0-7; PXB 40 · NUMA 3: 0, 1; PXB 40 · NUMA 1: 2, 3; PXB 40 · NUMA 7: 4, 5; "
    "PXB 40 · NUMA 5: 6, 7"
)
CUBE_MESH = (
    "SYS 10: 0-7; PHB 30 · NUMA 0: 0-3; PIX 50: 0, 1; PIX 50: 2, 3; "
    "PHB 30 · NUMA 1: 4-7; PIX 50: 4, 5; PIX 50: 6, 7"
)
SIXTEEN = (
    "SYS 10: 0-15; NODE 20 · NUMA 0: 0-7; PXB 40: 0-3; PIX 50: 0, 1; PIX 50: 2, 3; "
    "PXB 40: 4-7; PIX 50: 4, 5; PIX 50: 6, 7; NODE 20 · NUMA 1: 8-15; PXB 40: 8-11; "
    "PIX 50: 8, 9; PIX 50: 10, 11; PXB 40: 12-15; PIX 50: 12, 13; PIX 50: 14, 15"
)
SOCKETS = "SYS 10: 0-7; NODE 20 · NUMA 0: 0-3; NODE 20 · NUMA 1: 4-7"


@pytest.mark.parametrize(
    ("profile", "groups", "two"),
    [
        ("a30-mig", "", None),
        (
            "dgx-1",
            CUBE_MESH,
            ("0, 3", 230, 920),
        ),
        (
            "dgx-2",
            SIXTEEN,
            ("0, 1", 50, 400),
        ),
        ("dgx-a100", PAIRS_OF_A100, ("0, 1", 40, 160)),
        ("dgx-a100-mig", PAIRS_OF_A100, ("0, 1", 40, 160)),
        ("dgx-a100-mig-single", PAIRS_OF_A100, ("0, 1", 40, 160)),
        ("gh200", "", None),
        ("hgx-b200", SOCKETS, ("0, 1", 20, 80)),
        ("hgx-h100", SOCKETS, ("0, 1", 20, 80)),
        ("hgx-h100-mig", "NODE 20 · NUMA 0: 0, 1", ("0, 1", 20, 20)),
        ("jetson-orin", "", None),
        ("k80x2", "PIX 50: 0, 1", ("0, 1", 50, 50)),
        ("l40s", "", None),
        ("no-gpu", "", None),
        ("rtx4090x2", "PHB 30: 0, 1", ("0, 1", 30, 30)),
        ("rtx8000x2", "PHB 30 · NUMA 0: 0, 1", ("0, 1", 230, 230)),
        (
            "t4x4",
            "SYS 10: 0-3; NODE 20 · NUMA 0: 0, 1; NODE 20 · NUMA 1: 2, 3",
            ("0, 1", 20, 40),
        ),
    ],
)
def test_groups_and_the_best_two(profile, groups, two):
    topology = topology_of(profile)
    root = find_groups(topology)
    found = [] if root is None else [group for _, group in root.walk()]

    assert "; ".join(f"{group_name(g)}: {named(topology, g.gpus)}" for g in found) == groups
    if two is not None:
        choice = choose(topology, Request(topology.offered, (), 2))
        chosen = named(topology, choice.chosen)
        assert (chosen, choice.score, choice.division.total) == two
