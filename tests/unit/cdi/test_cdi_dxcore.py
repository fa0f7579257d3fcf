"""libdxcore, played by a Python object that fills the structures as the library does."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import POINTER, c_uint32, c_wchar, cast
from typing import Any

import pytest

from gpu_device_plugin.cdi.dxcore import _RegistryQuery, driver_stores
from gpu_device_plugin.errors import HardwareError

STORE = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1"


class Library:
    """Adapters are (WDDM version, driver store); one without a store refuses the query."""

    def __init__(self, *adapters: tuple[int, str | None]) -> None:
        self.adapters = adapters
        self.sizes: list[int] = []

    def D3DKMTEnumAdapters2(self, request: Any) -> int:  # noqa: N802
        request = request._obj
        for number in range(request.count):
            request.adapters[number].handle = number
        request.count = len(self.adapters)
        return 0

    def D3DKMTQueryAdapterInfo(self, request: Any) -> int:  # noqa: N802
        request = request._obj
        version, store = self.adapters[request.handle]
        if request.type == 13:
            cast(request.data, POINTER(c_uint32))[0] = version
            return 0
        if store is None:
            return -1
        query = cast(request.data, POINTER(_RegistryQuery))[0]
        assert (request.type, query.type) == (48, 2)
        self.sizes.append(request.size)
        if query.value_size:
            query.value = store
        else:
            query.value_size = 4 * len(store)
        return 0


class Newer(Library):
    def D3DKMTEnumAdapters3(self, request: Any) -> int:  # noqa: N802
        assert request._obj.filter == 1
        return self.D3DKMTEnumAdapters2(request)


class Refusing(Newer):
    def D3DKMTEnumAdapters3(self, request: Any) -> int:  # noqa: N802, ARG002
        return -1


def loader(library: object) -> Callable[[str], Any]:
    return lambda name: {"libdxcore.so": library}[name]


@pytest.mark.parametrize("kind", [Library, Newer, Refusing])
def test_stores_come_once_and_old_adapters_never(kind: type[Library]) -> None:
    library = kind((3000, STORE), (2600, "/old"), (2700, STORE), (3000, None), (3000, "/other"))

    assert driver_stores(loader(library)) == (STORE, "/other")


def test_sizes_are_those_of_the_structures() -> None:
    library = Library((3000, STORE))

    driver_stores(loader(library))

    head = _RegistryQuery.value.offset + 8
    assert library.sizes == [head, head + 4 * len(STORE)]
    assert head == 1072


def test_the_longest_path_fits() -> None:
    longest = "/" + "x" * 259

    assert driver_stores(loader(Library((3000, longest)))) == (longest,)


@pytest.mark.parametrize(
    "library",
    [
        Library(),
        Library((3000, None)),
        Library((3000, "/" + "x" * 260)),
        object(),
        Library((1, STORE)),
    ],
)
def test_without_a_store(library: object) -> None:
    with pytest.raises(HardwareError, match=r"libdxcore\.so: "):
        driver_stores(loader(library))


def test_without_a_library() -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    with pytest.raises(HardwareError, match=r"libdxcore\.so: cannot be used: .* cannot open"):
        driver_stores(missing)


def test_without_adapters_that_can_be_listed() -> None:
    class Broken(Library):
        def D3DKMTEnumAdapters2(self, request: Any) -> int:  # noqa: N802, ARG002
            return -1

    with pytest.raises(HardwareError, match="cannot list adapters"):
        driver_stores(loader(Broken()))


def test_more_adapters_than_any_machine_has() -> None:
    class Broken(Library):
        def D3DKMTEnumAdapters2(self, request: Any) -> int:  # noqa: N802
            request._obj.count = 1 << 31
            return 0

    with pytest.raises(HardwareError, match="cannot list adapters"):
        driver_stores(loader(Broken()))


def test_a_wide_character_has_the_size_that_linux_has() -> None:
    assert _RegistryQuery.name.size == 260 * 4 == 260 * len(bytes(c_wchar()))
