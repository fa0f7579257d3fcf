"""Whatever is configured, every device is offered once, and a file of v0.19.3 means what it meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from hypothesis import given, settings
from hypothesis import strategies as st
from support.configs import a_config
from support.inventories import a_gpu, a_node, cut_gpu

from gpu_device_plugin.config.model import (
    Config,
    Extensions,
    GpuSelection,
    GpuSharing,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, Inventory
from gpu_device_plugin.resources.defaults import mig_resource_name, with_default_resources
from gpu_device_plugin.resources.model import Plan, split_id
from gpu_device_plugin.resources.plan import make_plan

GPU = "nvidia.com/gpu"
NAMES = (GPU, "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb", "nvidia.com/absent")
MODELS = ("NVIDIA A100", "NVIDIA T4")


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    gpus = []
    for index in range(draw(st.integers(0, 5))):
        slices = draw(st.lists(st.sampled_from([1, 2]), max_size=3))
        gpu = cut_gpu(index, *slices) if slices else a_gpu(index)
        gpus.append(replace(gpu, name=draw(st.sampled_from(MODELS))))
    return a_node(gpus)


REPLICATED = st.builds(ReplicatedResource, st.sampled_from(NAMES), st.integers(2, 5), st.just(""))


@st.composite
def sections(draw: st.DrawFn) -> ReplicatedResources:
    by_default = draw(st.booleans())
    items = draw(st.lists(REPLICATED, min_size=1, max_size=4))
    if by_default:
        items = [replace(item, rename=item.name + ".shared") for item in items]
    return ReplicatedResources(by_default, draw(st.none() | st.booleans()), tuple(items))


SHARING = st.builds(Sharing, sections() | st.just(ReplicatedResources()), st.none() | sections())
STRATEGIES = st.sampled_from(["none", "mixed"])


def plan(config: Config, inventory: Inventory) -> Plan:
    return make_plan(with_default_resources(config, inventory), inventory)


def plain(inventory: Inventory, strategy: str) -> Iterator[tuple[str, Gpu, str, str, str]]:
    """Name of the resource, GPU, id, index and profile of each device, without any sharing."""
    for gpu in inventory.gpus:
        if strategy == "none" or not gpu.mig_enabled:
            yield GPU, gpu, gpu.uuid, str(gpu.index), ""
        else:
            for mig in gpu.mig_devices:
                profile = str(mig.profile)
                index = f"{gpu.index}:{mig.slot}"
                yield mig_resource_name(profile), gpu, mig.uuid, index, profile


def offered(plan: Plan) -> dict[str, tuple[str, int]]:
    """Resource and replicas of each device; a device that is offered twice fails the test."""
    found = {}
    for resource in plan.resources:
        counts = Counter(split_id(i)[0] for i in resource.ids())
        for device in resource.devices:
            assert device.id not in found
            assert counts[device.id] == (device.replicas or 1)
            found[device.id] = (resource.name, device.replicas)
    return found


@settings(max_examples=200, deadline=None)
@given(inventories(), SHARING, STRATEGIES)
def test_without_extensions_the_section_alone_decides(inventory, sharing, strategy):
    config = replace(a_config(mig_strategy=strategy), sharing=sharing)
    section = sharing.time_slicing if sharing.mps is None else sharing.mps
    wanted = {}
    for name, _, device_id, _, _ in plain(inventory, strategy):
        entries = [item for item in section.resources if item.name == name]
        most = max((item.replicas for item in entries), default=0)
        wanted[device_id] = (entries[0].shared_name if entries else name, most)

    got = plan(config, inventory)

    assert offered(got) == wanted
    assert got.warnings == ()
    single = section.fail_requests_greater_than_one
    for resource in got.resources:
        if resource.devices[0].is_replicated:
            assert resource.sharing is sharing.strategy
            assert resource.requires_single is (
                sharing.mps is not None if single is None else single
            )
        else:
            assert resource.sharing is SharingStrategy.NONE


SELECTORS = st.sampled_from(
    ["0", "1", "2", "4", "9", "GPU-0", "GPU-3", "MIG-1-0", "0:0", "1:1", "*", "*A100", "*T4*"]
)
LISTS = st.lists(SELECTORS, min_size=1, max_size=4).map(tuple)


@st.composite
def entries(draw: st.DrawFn) -> GpuSharing:
    strategy = draw(st.sampled_from(SharingStrategy))
    shared = strategy is not SharingStrategy.NONE
    profiles = None if strategy is SharingStrategy.MPS else st.none() | st.just(("1g.*",))
    return GpuSharing(
        strategy,
        draw(st.none() | LISTS),
        None if profiles is None else draw(profiles),
        draw(st.integers(2, 5)) if shared else 0,
        # Mostly a name for each way of sharing, so that there are few conflicts.
        draw(st.sampled_from([f"nvidia.com/{strategy}"] * 5 + [""])),
    )


EXTENSIONS = st.builds(
    Extensions,
    st.booleans(),
    st.builds(GpuSelection, st.none() | LISTS, st.just(()) | LISTS),
    st.lists(entries(), max_size=4).map(tuple),
)


def selects(selectors: tuple[str, ...], gpu: Gpu, device_id: str, index: str) -> bool:
    words = {str(gpu.index), gpu.uuid, device_id, index}
    return any(s in words or fnmatchcase(gpu.name, s) for s in selectors)


def wanted_offers(
    extensions: Extensions, sharing: Sharing, inventory: Inventory, strategy: str
) -> dict[str, tuple[str, int]]:
    wanted = {}
    section = sharing.time_slicing if sharing.mps is None else sharing.mps
    for name, gpu, device_id, index, profile in plain(inventory, strategy):
        chosen = extensions.gpus
        if chosen.include is not None and not selects(chosen.include, gpu, device_id, index):
            continue
        if selects(chosen.exclude, gpu, device_id, index):
            continue
        for entry in extensions.sharing:
            if entry.gpus is not None and not selects(entry.gpus, gpu, device_id, index):
                continue
            if entry.mig is None or (profile and profile.startswith("1g.")):
                wanted[device_id] = (entry.rename or name, entry.replicas)
                break
        else:
            given = [item for item in section.resources if item.name == name]
            most = max((item.replicas for item in given), default=0)
            wanted[device_id] = (given[0].shared_name if given else name, most)
    return wanted


@settings(max_examples=400, deadline=None)
@given(inventories(), SHARING, EXTENSIONS, STRATEGIES)
def test_every_selected_device_is_offered_once_on_the_terms_of_its_first_entry(
    inventory, sharing, extensions, strategy
):
    config = replace(a_config(mig_strategy=strategy), sharing=sharing, extensions=extensions)
    wanted = wanted_offers(extensions, sharing, inventory, strategy)
    try:
        got = plan(config, inventory)
    except ConfigError as error:
        message = str(error)
        assert message.isprintable()
        assert "extensions.sharing[" in message
        return

    assert offered(got) == wanted
    ids = [device_id for resource in got.resources for device_id in resource.ids()]
    assert len(ids) == len(set(ids))
    for resource in got.resources:
        shared = {device.is_replicated for device in resource.devices}
        assert shared == {resource.sharing is not SharingStrategy.NONE}
        assert not (
            resource.sharing is SharingStrategy.MPS
            and len({device.replicas for device in resource.devices}) > 1
        )


@settings(max_examples=100, deadline=None)
@given(inventories(), SHARING, EXTENSIONS, STRATEGIES, st.randoms())
def test_the_order_in_which_gpus_are_read_changes_nothing(
    inventory, sharing, extensions, strategy, random
):
    config = replace(a_config(mig_strategy=strategy), sharing=sharing, extensions=extensions)
    shuffled = list(inventory.gpus)
    random.shuffle(shuffled)

    def outcome(gpus: tuple[Gpu, ...]) -> object:
        try:
            return plan(config, replace(inventory, gpus=gpus)).resources
        except ConfigError as error:
            return type(error)

    assert outcome(tuple(shuffled)) == outcome(inventory.gpus)
