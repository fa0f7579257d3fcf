from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.draft import NOTHING_OFFERED
from gpu_device_plugin.cdi.generate import GeneratedSpecs, generate
from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.cdi.options import CdiOptions, Naming
from gpu_device_plugin.cdi.tegra_csv import CSV_DIRECTORY, Entry, EntryType, parse_csv
from gpu_device_plugin.cdi.testing import FakeTree
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, Inventory, Platform, UnreadableGpu

THOR = Gpu(0, "GPU-thor", 0, "NVIDIA Thor", pci_bus_id="00000000:01:00.0")
ORIN = Gpu(0, "orin", 0, "Orin (nvgpu)")
RTX = Gpu(1, "GPU-rtx", 1, "NVIDIA RTX 6000", pci_bus_id="00000000:07:00.0")


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("dev, /dev/nvidia0", Entry(EntryType.DEVICE, "/dev/nvidia0")),
        ("  lib  ,\t/a,b  ", Entry(EntryType.LIBRARY, "/a,b")),
        ("dir,/a b", Entry(EntryType.DIRECTORY, "/a b")),
        ("sym,/a*\r", Entry(EntryType.SYMLINK, "/a*")),
        ("", None),
        ("# dev, /x", None),
        ("dev", None),
        ("dev,", None),
        ("dev,  ", None),
        ("DEV, /x", None),
        (",/x", None),
        ('"dev", "/x"', None),
    ],
)
def test_lines(line: str, entry: Entry | None) -> None:
    assert parse_csv(f"{line}\ndev,/end") == [
        *([entry] if entry else []),
        Entry(EntryType.DEVICE, "/end"),
    ]


@given(st.text(alphabet="devlibsymr,/ \t\n#*\0ü", max_size=200))
def test_any_text(text: str) -> None:
    for entry in parse_csv(text):
        assert entry.path == entry.path.strip() != ""
        assert "\n" not in entry.path


@given(
    st.lists(
        st.tuples(st.sampled_from(list(EntryType)), st.from_regex(r"/[a-z*,]+", fullmatch=True))
    )
)
def test_written_entries_are_read(rows: list[tuple[EntryType, str]]) -> None:
    text = "".join(f" {kind} , {path}\r\n" for kind, path in rows)

    assert parse_csv(text) == [Entry(kind, path) for kind, path in rows]


class Board:
    def __init__(self, directory: Path) -> None:
        self.tree = FakeTree(directory)
        self.options = CdiOptions("/r", naming=Naming.INDEX, tegra=True, target_driver_root="/")
        self.inventory = Inventory(
            Platform.TEGRA, (ORIN,), driver_version="540.4.0", cuda_driver_version=12060
        )
        self.tree.node("/r/dev/nvmap", 10, 60)
        self.write("devices.csv", "dev, /dev/nvmap\n")

    def write(self, name: str, text: str | bytes, root: str = "/r") -> None:
        self.tree.file(f"{root}{CSV_DIRECTORY}/{name}", text)

    def run(self) -> GeneratedSpecs:
        return generate(self.options, self.inventory, self.tree.system())

    def spec(self) -> Spec:
        return self.run().specs[0]

    def nodes(self) -> dict[str, list[str]]:
        return {d.name: [n.path for n in d.edits.device_nodes] for d in self.spec().devices}


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_one_gpu_has_all_nodes(board: Board) -> None:
    assert board.nodes() == {"0": ["/dev/nvmap"]}
    assert (
        "/r/etc/nvidia-container-runtime/host-files-for-container.d/l4t.csv: not used: "
        in (board.run().warnings[1])
    )


def test_files_of_the_plugins_own_root(board: Board) -> None:
    board.write("devices.csv", "dev, /dev/other\n", root="")
    board.tree.node("/r/dev/other", 1, 2)
    assert board.nodes() == {"0": ["/dev/nvmap"]}

    board.options = replace(board.options, tegra=False)
    assert board.nodes() == {"0": ["/dev/other"]}


def test_no_directory_below_the_driver_root(board: Board) -> None:
    board.options = replace(board.options, driver_root="/elsewhere", dev_root="/r")
    board.write("devices.csv", "dev, /dev/nvmap\n", root="")

    assert board.nodes() == {"0": ["/dev/nvmap"]}


def test_no_entries_and_no_release_file(board: Board) -> None:
    board.write("devices.csv", "# nothing\n")

    specs = board.run()

    assert specs.specs == ()
    assert specs.classes[0].reason == "the CSV files name no device or file that is there"
    assert specs.problems == ("device '0' is left out: none of its nodes is there",)
    assert any("says what containers need" in warning for warning in specs.warnings)


def test_nothing_but_the_release_file(board: Board) -> None:
    board.write("devices.csv", "")
    board.tree.file("/etc/nv_tegra_release")

    assert [m.container_path for m in board.spec().devices[0].edits.mounts] == [
        "/etc/nv_tegra_release"
    ]


def test_names_by_uuid_need_two_gpus(board: Board) -> None:
    board.options = replace(board.options, naming=Naming.UUID)
    with pytest.raises(ConfigError, match="has no UUID"):
        board.run()

    board.inventory = replace(board.inventory, gpus=(THOR, RTX))
    board.tree.node("/r/dev/nvidia1", 195, 1)
    board.tree.node("/r/dev/nvidia2", 195, 2)
    assert board.nodes() == {
        "GPU-rtx": ["/dev/nvidia1", "/dev/nvmap"],
        "GPU-thor": ["/dev/nvidia2", "/dev/nvmap"],
    }


def test_an_integrated_gpu_without_pci_address(board: Board) -> None:
    board.inventory = replace(board.inventory, gpus=(ORIN, RTX))

    assert list(board.nodes()) == ["0", "1"]


@pytest.mark.parametrize(
    ("left_out", "names"), [({"0"}, ["1"]), ({"1"}, ["0"]), (set(), ["0", "1"])]
)
def test_either_of_two_gpus_may_be_left_out(
    board: Board, left_out: set[str], names: list[str]
) -> None:
    board.inventory = replace(board.inventory, gpus=(THOR, RTX))
    board.options = replace(board.options, left_out=frozenset(left_out))

    assert list(board.nodes()) == names


@pytest.mark.parametrize("gpus", [(), (ORIN,), (THOR, RTX)])
def test_without_any_gpu_there_is_no_specification(board: Board, gpus: tuple[Gpu, ...]) -> None:
    board.inventory = replace(board.inventory, gpus=gpus)
    board.options = replace(board.options, naming=Naming.UUID, left_out=frozenset({"0", "1"}))

    (result,) = board.run().classes
    assert (result.spec, result.reason) == (None, NOTHING_OFFERED.reason)


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": (replace(RTX, index=0), replace(THOR, index=1))},
        {"gpus": (THOR, RTX, replace(RTX, index=2))},
        {"gpus": (THOR, replace(RTX, index=2))},
        {"gpus": (THOR,), "unreadable": (UnreadableGpu(1, "lost"),)},
        {"gpus": (THOR, RTX), "driver_version": ""},
        {"gpus": (THOR, replace(RTX, name="Orin (nvgpu)", pci_bus_id=""))},
    ],
)
def test_other_pairs_are_one_device(board: Board, change: dict[str, object]) -> None:
    board.inventory = replace(board.inventory, **change)  # type: ignore[arg-type]

    assert list(board.nodes()) == ["0"]


def test_one_device_if_so_asked(board: Board) -> None:
    board.inventory = replace(board.inventory, gpus=(THOR, RTX))
    board.options = replace(
        board.options, feature_flags=frozenset({"disable-multiple-csv-devices"})
    )

    assert list(board.nodes()) == ["0"]


def test_cuda_is_nvmls_word(board: Board) -> None:
    def compat() -> list[str]:
        return [a for h in board.spec().edits.hooks for a in h.args if a.startswith("--")]

    assert compat() == [
        "--host-cuda-version=12.6",
        "--cuda-compat-container-root=/usr/local/cuda/compat_orin",
    ]
    board.inventory = replace(board.inventory, driver_version="")
    assert compat() == []


def test_entries_in_a_mounted_root(board: Board) -> None:
    board.tree.library("/r/usr/lib/libx.so.1.2", "libx.so.1")
    board.tree.link("/r/usr/lib/libx.so.1", "libx.so.1.2")
    board.tree.link("/r/usr/lib/libabs.so", "/usr/lib/libx.so.1.2")
    board.tree.link("/r/usr/lib/libup.so", "../../../../etc/passwd")
    board.tree.link("/r/usr/lib/lib::x.so", "libx.so.1.2")
    board.tree.link("/r/folder", "/usr/lib")
    board.tree.folder("/r/usr/share/fw")
    board.write(
        "drivers.csv",
        b"lib, /usr/lib/libx.so.1\nsym, /usr/lib/libabs.so\nlib, /usr/lib/libup.so\n"
        b"sym, /usr/lib/libx.so.1\nsym, /usr/lib/lib::x.so\nlib, /usr/lib/[x\ndir, /folder\n"
        b"dir, /usr/share/fw\nlib, /usr/share/fw\nlib, /usr/lib/nul\0\n" + b"lib, /\xff\n",
    )

    specs = board.run()
    edits = specs.specs[0].edits

    assert [(m.host_path, m.container_path) for m in edits.mounts] == [
        ("/usr/lib/libx.so.1.2", "/usr/lib/libx.so.1.2"),
        ("/usr/share/fw", "/usr/share/fw"),
    ]
    assert [a for h in edits.hooks for a in h.args if "::" in a] == [
        "libx.so.1.2::/usr/lib/libx.so.1",
        "libx.so.1.2::/r/usr/lib/libx.so.1",
    ]
    for path in ("/usr/lib/libabs.so", "/usr/lib/libup.so", "/folder"):
        assert f"{path}: not found below /r" in specs.warnings
    assert any("malformed class" in warning for warning in specs.warnings)
    assert any("no hook would understand it" in warning for warning in specs.warnings)


def test_absolute_links_are_right_in_the_plugins_own_root(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.options = CdiOptions("/", naming=Naming.INDEX, tegra=True)
    board.tree.node("/dev/nvmap", 10, 60)
    board.tree.file("/usr/lib/x.json")
    board.tree.link("/usr/share/x.json", "/usr/lib/x.json")
    board.write("devices.csv", "dev, /dev/nvmap\nsym, /usr/share/x.json\n", root="")

    edits = board.spec().edits

    assert [m.host_path for m in edits.mounts] == ["/usr/lib/x.json"]
    assert "/usr/lib/x.json::/usr/share/x.json" in edits.hooks[0].args
