"""Names of NVIDIA GPUs by PCI device id, where there is no driver to ask.

The GPUs that servers and workstations have, as the PCI ID Project names them (pci.ids, where
device names come after the chip's); others are looked up in the system's copy of that file.
"""

from __future__ import annotations

SYSTEM_FILES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
UNKNOWN = "UNKNOWN_DEVICE"
"""What k8s-device-plugin calls a device that is in no list."""

NAMES = {
    0x101E: "GK110GL [Tesla K20X]",
    0x1020: "GK110GL [Tesla K20X]",
    0x1021: "GK110GL [Tesla K20Xm]",
    0x1022: "GK110GL [Tesla K20c]",
    0x1023: "GK110BGL [Tesla K40m]",
    0x1024: "GK180GL [Tesla K40c]",
    0x1028: "GK110GL [Tesla K20m]",
    0x1029: "GK110BGL [Tesla K40s]",
    0x102D: "GK210GL [Tesla K80]",
    0x102E: "GK110BGL [Tesla K40d]",
    0x103A: "GK110GL [Quadro K6000]",
    0x103C: "GK110GL [Quadro K5200]",
    0x118A: "GK104GL [GRID K520]",
    0x118F: "GK104GL [Tesla K10]",
    0x11BF: "GK104GL [GRID K2]",
    0x13BD: "GM107GL [Tesla M10]",
    0x13F0: "GM204GL [Quadro M5000]",
    0x13F1: "GM204GL [Quadro M4000]",
    0x13F2: "GM204GL [Tesla M60]",
    0x13F3: "GM204GL [Tesla M6]",
    0x1431: "GM206GL [Tesla M4]",
    0x15F0: "GP100GL [Quadro GP100]",
    0x15F7: "GP100GL [Tesla P100 PCIe 12GB]",
    0x15F8: "GP100GL [Tesla P100 PCIe 16GB]",
    0x15F9: "GP100GL [Tesla P100 SXM2 16GB]",
    0x17F0: "GM200GL [Quadro M6000]",
    0x17F1: "GM200GL [Quadro M6000 24GB]",
    0x17FD: "GM200GL [Tesla M40]",
    0x1B00: "GP102 [TITAN X]",
    0x1B02: "GP102 [TITAN Xp]",
    0x1B06: "GP102 [GeForce GTX 1080 Ti]",
    0x1B30: "GP102GL [Quadro P6000]",
    0x1B38: "GP102GL [Tesla P40]",
    0x1B39: "GP102GL [Tesla P10]",
    0x1B80: "GP104 [GeForce GTX 1080]",
    0x1B81: "GP104 [GeForce GTX 1070]",
    0x1B82: "GP104 [GeForce GTX 1070 Ti]",
    0x1BB0: "GP104GL [Quadro P5000]",
    0x1BB1: "GP104GL [Quadro P4000]",
    0x1BB3: "GP104GL [Tesla P4]",
    0x1BB4: "GP104GL [Tesla P6]",
    0x1C02: "GP106 [GeForce GTX 1060 3GB]",
    0x1C03: "GP106 [GeForce GTX 1060 6GB]",
    0x1C30: "GP106GL [Quadro P2000]",
    0x1C31: "GP106GL [Quadro P2200]",
    0x1D81: "GV100 [TITAN V]",
    0x1DB1: "GV100GL [Tesla V100 SXM2 16GB]",
    0x1DB2: "GV100GL [Tesla V100 DGXS 16GB]",
    0x1DB3: "GV100GL [Tesla V100 FHHL 16GB]",
    0x1DB4: "GV100GL [Tesla V100 PCIe 16GB]",
    0x1DB5: "GV100GL [Tesla V100 SXM2 32GB]",
    0x1DB6: "GV100GL [Tesla V100 PCIe 32GB]",
    0x1DB7: "GV100GL [Tesla V100 DGXS 32GB]",
    0x1DB8: "GV100GL [Tesla V100 SXM3 32GB]",
    0x1DBA: "GV100GL [Quadro GV100]",
    0x1DF5: "GV100GL [Tesla V100 SXM2 16GB]",
    0x1DF6: "GV100GL [Tesla V100S PCIe 32GB]",
    0x1E02: "TU102 [TITAN RTX]",
    0x1E04: "TU102 [GeForce RTX 2080 Ti]",
    0x1E07: "TU102 [GeForce RTX 2080 Ti Rev. A]",
    0x1E30: "TU102GL [Quadro RTX 6000/8000]",
    0x1E36: "TU102GL [Quadro RTX 6000]",
    0x1E37: "TU102GL [Tesla T10 16GB / GRID RTX T10-2/T10-4/T10-8]",
    0x1E38: "TU102GL [Tesla T40 24GB]",
    0x1E78: "TU102GL [Quadro RTX 6000/8000]",
    0x1E81: "TU104 [GeForce RTX 2080 SUPER]",
    0x1E82: "TU104 [GeForce RTX 2080]",
    0x1E84: "TU104 [GeForce RTX 2070 SUPER]",
    0x1E87: "TU104 [GeForce RTX 2080 Rev. A]",
    0x1EB0: "TU104GL [Quadro RTX 5000]",
    0x1EB1: "TU104GL [Quadro RTX 4000]",
    0x1EB4: "TU104GL [T4G]",
    0x1EB8: "TU104GL [Tesla T4]",
    0x1F02: "TU106 [GeForce RTX 2070]",
    0x1F06: "TU106 [GeForce RTX 2060 SUPER]",
    0x1F08: "TU106 [GeForce RTX 2060 Rev. A]",
    0x1FB1: "TU117GL [T600]",
    0x1FF0: "TU117GL [T1000 8GB]",
    0x20B0: "GA100 [A100 SXM4 40GB]",
    0x20B1: "GA100 [A100 PCIe 40GB]",
    0x20B2: "GA100 [A100 SXM4 80GB]",
    0x20B3: "GA100 [A100-SXM-64GB]",
    0x20B5: "GA100 [A100 PCIe 80GB]",
    0x20B6: "GA100GL [PG506-232]",
    0x20B7: "GA100GL [A30 PCIe]",
    0x20B8: "GA100 [A100X]",
    0x20B9: "GA100 [A30X]",
    0x20F1: "GA100 [A100 PCIe 40GB]",
    0x20F3: "GA100 [A800-SXM4-80GB]",
    0x20F5: "GA100 [A800 80GB PCIe]",
    0x20F6: "GA100 [A800 40GB PCIe]",
    0x2203: "GA102 [GeForce RTX 3090 Ti]",
    0x2204: "GA102 [GeForce RTX 3090]",
    0x2206: "GA102 [GeForce RTX 3080]",
    0x2208: "GA102 [GeForce RTX 3080 Ti]",
    0x220A: "GA102 [GeForce RTX 3080 12GB]",
    0x2230: "GA102GL [RTX A6000]",
    0x2231: "GA102GL [RTX A5000]",
    0x2232: "GA102GL [RTX A4500]",
    0x2233: "GA102GL [RTX A5500]",
    0x2235: "GA102GL [A40]",
    0x2236: "GA102GL [A10]",
    0x2237: "GA102GL [A10G]",
    0x2238: "GA102GL [A10M]",
    0x2321: "GH100 [H100L 94GB]",
    0x2322: "GH100 [H800 PCIe]",
    0x2324: "GH100 [H800]",
    0x2329: "GH100 [H20]",
    0x2330: "GH100 [H100 SXM5 80GB]",
    0x2331: "GH100 [H100 PCIe]",
    0x2335: "GH100 [H200 SXM 141GB]",
    0x2336: "GH100 [H100]",
    0x2337: "GH100 [H100 SXM5 64GB]",
    0x2338: "GH100 [H100 SXM5 96GB]",
    0x2339: "GH100 [H100 SXM5 94GB]",
    0x233A: "GH100 [H800L 94GB]",
    0x233B: "GH100 [H200 NVL]",
    0x233D: "GH100 [H100 96GB]",
    0x2342: "GH100 [GH200 120GB / 480GB]",
    0x2348: "GH100 [GH200 144G HBM3e]",
    0x2482: "GA104 [GeForce RTX 3070 Ti]",
    0x2484: "GA104 [GeForce RTX 3070]",
    0x2486: "GA104 [GeForce RTX 3060 Ti]",
    0x24B0: "GA104GL [RTX A4000]",
    0x2503: "GA106 [GeForce RTX 3060]",
    0x2531: "GA106 [RTX A2000]",
    0x2571: "GA106 [RTX A2000 12GB]",
    0x25B6: "GA107GL [A2 / A16]",
    0x2684: "AD102 [GeForce RTX 4090]",
    0x2685: "AD102 [GeForce RTX 4090 D]",
    0x26B1: "AD102GL [RTX 6000 Ada Generation]",
    0x26B2: "AD102GL [RTX 5000 Ada Generation]",
    0x26B3: "AD102GL [RTX 5880 Ada Generation]",
    0x26B5: "AD102GL [L40]",
    0x26B8: "AD102GL [L40G]",
    0x26B9: "AD102GL [L40S]",
    0x26BA: "AD102GL [L20]",
    0x2702: "AD103 [GeForce RTX 4080 SUPER]",
    0x2704: "AD103 [GeForce RTX 4080]",
    0x2782: "AD104 [GeForce RTX 4070 Ti]",
    0x2783: "AD104 [GeForce RTX 4070 SUPER]",
    0x2786: "AD104 [GeForce RTX 4070]",
    0x27B0: "AD104GL [RTX 4000 SFF Ada Generation]",
    0x27B1: "AD104GL [RTX 4500 Ada Generation]",
    0x27B2: "AD104GL [RTX 4000 Ada Generation]",
    0x27B6: "AD104GL [L2]",
    0x27B8: "AD104GL [L4]",
    0x2803: "AD106 [GeForce RTX 4060 Ti]",
    0x2882: "AD107 [GeForce RTX 4060]",
    0x28B0: "AD107GL [RTX 2000 / 2000E Ada Generation]",
    0x2901: "GB100 [B200]",
    0x2909: "GB100 [HGX B200 168GB]",
    0x2941: "GB100 [HGX GB200]",
    0x2B85: "GB202 [GeForce RTX 5090]",
    0x2B87: "GB202 [GeForce RTX 5090 D]",
    0x2BB1: "GB202GL [RTX PRO 6000 Blackwell Workstation Edition]",
    0x2BB3: "GB202GL [RTX PRO 5000 Blackwell / RTX PRO 5000 72GB Blackwell]",
    0x2BB4: "GB202GL [RTX PRO 6000 Blackwell Max-Q Workstation Edition]",
    0x2BB5: "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
    0x2C02: "GB203 [GeForce RTX 5080]",
    0x2C05: "GB203 [GeForce RTX 5070 Ti]",
    0x2C31: "GB203GL [RTX PRO 4500 Blackwell]",
    0x2C34: "GB203GL [RTX PRO 4000 Blackwell]",
    0x2C3A: "GB203GL [RTX PRO 4500 Blackwell Server Edition]",
    0x2D04: "GB206 [GeForce RTX 5060 Ti]",
    0x2D05: "GB206 [GeForce RTX 5060]",
    0x2D30: "GB206GL [RTX PRO 2000 Blackwell]",
    0x2F04: "GB205 [GeForce RTX 5070]",
    0x3182: "GB110 [B300 SXM6 AC]",
    0x31C2: "GB110 [GB300]",
    0x31C3: "GB110 [GB300]",
}


def product_name(device: int, files: tuple[str, ...] = SYSTEM_FILES) -> str:
    """Chip and product of a device id, such as ``TU104GL [Tesla T4]``.

    Args:
        device: the PCI device id; the vendor is NVIDIA.
        files: copies of pci.ids, the first of which that knows the device counts.
    """
    if device in NAMES:
        return NAMES[device]
    for path in files:
        name = _look_up(path, device)
        if name:
            return name
    return UNKNOWN


def _look_up(path: str, device: int) -> str:
    start, inside = f"\t{device:04x}  ", False
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if inside and line.startswith(start):
                    return line[len(start) :].strip()
                if line[:1] not in {"\t", "#", "\n"}:
                    if inside:
                        break
                    inside = line.startswith("10de")
    except OSError:
        return ""
    return ""
