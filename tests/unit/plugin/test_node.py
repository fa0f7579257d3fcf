"""From configuration and hardware to what is served."""

from __future__ import annotations

import errno
import logging
import os
from dataclasses import replace

import pytest
from support.backends import ToldBackend
from support.configs import a_config
from support.inventories import a_node, cut_gpu

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import AllocationPolicy, Config, Imex
from gpu_device_plugin.errors import ConfigError, HardwareError, InitError, UnwritableError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.plugin import node as module
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.node import Node, NodeReader, check_fit


def read(config: Config, inventory: Inventory | InitError | None = None, cdi="/nowhere") -> Node:
    hardware = ToldBackend(a_node(2) if inventory is None else inventory)
    reader = NodeReader(
        load_config=lambda: Loaded(config),
        open_backend=lambda _: hardware,
        cdi=CdiSettings(directory=str(cdi)),
    )
    return reader.read(*reader.configure())


def test_a_node_is_read_and_its_configuration_logged(caplog):
    with caplog.at_level(logging.INFO):
        node = read(a_config(shared_devices_allocation_policy="packed"))

    assert node.plan.names() == ("nvidia.com/gpu",)
    assert node.policy is AllocationPolicy.PACKED
    assert node.init_problem == ""
    assert '"name": "nvidia.com/gpu"' in caplog.text


def test_the_policy_is_distributed_where_nothing_is_said():
    assert read(a_config()).policy is AllocationPolicy.DISTRIBUTED


def test_flags_that_do_not_fit_are_refused_before_the_hardware_is_read():
    with pytest.raises(ConfigError, match="--device-id-strategy"):
        read(a_config(device_id_strategy="serial"), InitError("never asked"))


def test_what_set_a_flag_that_does_not_fit_is_named():
    origins = {"flags.plugin.deviceIDStrategy": Place("f.yaml", 3)}
    loaded = Loaded(a_config(device_id_strategy="serial"), origins=origins)
    reader = NodeReader(lambda: loaded, lambda _: ToldBackend(a_node(1)), CdiSettings())

    with pytest.raises(ConfigError, match=r'^f\.yaml:3: "serial" is not allowed'):
        reader.configure()


def test_a_driver_that_cannot_be_used_is_an_error_or_a_reason_to_wait(caplog):
    problem = InitError("Driver Not Loaded")

    with caplog.at_level(logging.INFO), pytest.raises(InitError, match="Driver Not Loaded"):
        read(a_config(), problem)
    assert '"failOnInitError": true' in caplog.text
    node = read(a_config(fail_on_init_error=False, mig_strategy="mixed"), problem)
    assert (node.init_problem, node.inventory) == ("Driver Not Loaded", None)
    assert node.plan.resources == ()


def test_an_uneven_node_is_an_error_even_where_waiting_for_the_driver_is_allowed():
    config = a_config(fail_on_init_error=False, mig_strategy="single")

    with pytest.raises(HardwareError, match="'single'"):
        read(config, a_node([cut_gpu(0, 1), cut_gpu(1)]))


def test_warnings_of_the_plan_are_logged(caplog):
    read(a_config(mig_strategy="mixed"), a_node([cut_gpu(0)]))

    assert "GPU 0 has MIG enabled but no MIG devices" in caplog.text


def test_required_channels_that_are_missing_are_an_error():
    config = replace(a_config(container_driver_root="/"), imex=Imex((0,), required=True))

    with pytest.raises(ConfigError, match="IMEX channel 0"):
        read(config)


def test_required_channels_do_not_wait_for_a_driver():
    config = a_config(fail_on_init_error=False, container_driver_root="/")
    config = replace(config, imex=Imex((0,), required=True))

    with pytest.raises(ConfigError, match="IMEX channel 0"):
        read(config, InitError("Driver Not Loaded"))


def test_cdi_is_set_up_where_a_strategy_needs_it(monkeypatch):
    seen, injector = [], object()

    def set_up(_config, settings, _inventory, plan, channels):
        seen.append((settings.directory, plan.names(), channels))
        return injector

    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", set_up)

    node = read(a_config(device_list_strategy=("cdi-cri",)), cdi="/there")

    assert seen == [("/there", ("nvidia.com/gpu",), ())]
    assert list(node.settings.injectors) == [injector]
    waiting = read(
        a_config(device_list_strategy=("envvar",), fail_on_init_error=False), InitError("no")
    )
    assert waiting.settings.injectors == ()


def test_specifications_that_cannot_be_written_are_told_with_their_path(monkeypatch):
    def fail(*_):
        raise PermissionError(13, os.strerror(13), "/var/run/cdi/x.json")

    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", fail)

    with pytest.raises(HardwareError, match=r"CDI.*Permission denied: '/var/run/cdi/x.json'"):
        read(a_config(device_list_strategy=("cdi-annotations",)))


def test_devices_are_probed_below_the_driver_root_or_in_the_container(tmp_path):
    config = a_config(container_driver_root=str(tmp_path))

    assert module._dev_root(config) == "/"
    (tmp_path / "dev").mkdir()
    assert module._dev_root(config) == str(tmp_path)


UNEVEN = a_node([cut_gpu(0, 1), cut_gpu(1)])
SINGLE = Loaded(a_config(mig_strategy="single"))


def test_a_node_that_need_not_fit_offers_nothing_and_says_why(caplog):
    reader = NodeReader(lambda: SINGLE, lambda _: ToldBackend(UNEVEN), CdiSettings())

    node = reader.read(*reader.configure(), must_fit=False)

    assert node.plan.resources == ()
    assert node.inventory == UNEVEN
    assert "'single'" in node.plan_problem
    assert node.problem_is_over is None
    assert "nothing is offered until this is mended" in caplog.text
    fitting = NodeReader(lambda: SINGLE, lambda _: ToldBackend(a_node(2)), CdiSettings())
    assert fitting.read(*fitting.configure(), must_fit=False).plan_problem == ""


def test_what_cannot_be_offered_for_now_says_how_to_know_that_it_can(monkeypatch):
    def fail(*_):
        raise UnwritableError("the disk is full", "free some space", lambda: True)

    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", fail)
    loaded = Loaded(a_config(device_list_strategy=("cdi-cri",)))
    reader = NodeReader(lambda: loaded, lambda _: ToldBackend(a_node(2)), CdiSettings())

    node = reader.read(*reader.configure(), must_fit=False)

    assert node.plan_problem == "the disk is full (free some space)"
    assert node.problem_is_over is not None
    assert node.problem_is_over()


def test_changed_hardware_that_cannot_be_described_for_now_keeps_what_is_still_there(
    monkeypatch, caplog
):
    problems: list[Exception | None] = [None]

    def set_up(*_):
        if problems[0] is not None:
            raise problems[0]

    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", set_up)
    loaded = Loaded(a_config(device_list_strategy=("cdi-cri",)))
    two, three = a_node(2), a_node(3)
    reader = NodeReader(lambda: loaded, lambda _: ToldBackend(two), CdiSettings())
    before = reader.read(*reader.configure())

    problems[0] = UnwritableError("the disk is full", "free some space", lambda: True)
    less = replace(three, gpus=three.gpus[1:])
    node = reader.plan_anew(before, less)

    assert [d.id for r in node.plan.resources for d in r.devices] == ["GPU-1"]
    assert (node.inventory, node.settings, node.plan_problem) == (less, before.settings, "")
    assert node.problem_is_over is not None
    assert "the disk is full (free some space); what was offered before" in caplog.text
    problems[0] = ConfigError("a name is wrong")
    assert reader.plan_anew(before, less).plan_problem == "a name is wrong"
    problems[0] = None
    fresh = reader.plan_anew(node, less)
    assert len(fresh.plan.resources[0].devices) == 2
    assert fresh.problem_is_over is None


def test_what_the_disk_describes_is_offered_again_when_it_is_back(monkeypatch):
    problems: list[Exception | None] = [None]

    def set_up(*_):
        if problems[0] is not None:
            raise problems[0]

    def without(*indices: int) -> Inventory:
        return replace(all_of_it, gpus=tuple(g for g in all_of_it.gpus if g.index not in indices))

    def offered(node: Node) -> list[str]:
        return [device.id for r in node.plan.resources for device in r.devices]

    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", set_up)
    loaded = Loaded(a_config(device_list_strategy=("cdi-cri",)))
    all_of_it = a_node(3)
    reader = NodeReader(lambda: loaded, lambda _: ToldBackend(all_of_it), CdiSettings())
    node = reader.read(*reader.configure())
    settings = node.settings

    full = UnwritableError("the disk is full", "free some space", lambda: True)
    problems[0] = full
    for gone in ((1,), (), (0, 1, 2), (0,), ()):
        node = reader.plan_anew(node, without(*gone))
        assert offered(node) == [f"GPU-{i}" for i in range(3) if i not in gone]
        assert (node.settings, node.plan_problem) == (settings, "")
        assert node.problem_is_over is not None
    node = reader.plan_anew(node, a_node(4))
    assert offered(node) == ["GPU-0", "GPU-1", "GPU-2"], "nothing describes the fourth"
    problems[0] = HardwareError("they are uneven")
    node = reader.plan_anew(node, without(2))
    assert (offered(node), node.plan_problem) == ([], "they are uneven")
    problems[0] = full
    node = reader.plan_anew(node, all_of_it)
    assert (len(offered(node)), node.plan_problem) == (3, "")
    problems[0] = None
    node = reader.plan_anew(node, without(2))
    problems[0] = full
    assert offered(reader.plan_anew(node, all_of_it)) == ["GPU-0", "GPU-1"], "written since"


def test_the_plan_s_warnings_are_those_of_the_hardware_as_it_is_now(monkeypatch, caplog):
    def fail(*_):
        raise UnwritableError("the disk is full", "free some space", lambda: True)

    loaded = Loaded(a_config(device_list_strategy=("cdi-cri",), mig_strategy="mixed"))
    before, now = a_node(2), a_node([*a_node(1).gpus, cut_gpu(1)])
    reader = NodeReader(lambda: loaded, lambda _: ToldBackend(before), CdiSettings())
    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", lambda *_: None)
    node = reader.read(*reader.configure())
    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", fail)

    node = reader.plan_anew(node, now)

    warning = "GPU 1 has MIG enabled but no MIG devices"
    assert caplog.text.count(warning) == 1
    assert any(warning in each for each in node.plan.warnings)


def test_a_limit_that_is_reached_on_the_way_to_a_specification_may_pass(monkeypatch, tmp_path):
    def fail(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/proc/devices")

    monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", fail)

    with pytest.raises(UnwritableError, match=r"open files: '/proc/devices' \(raise") as caught:
        read(a_config(device_list_strategy=("cdi-cri",)), cdi=tmp_path)
    assert caught.value.is_over()


def test_nothing_is_written_for_what_is_refused(monkeypatch, tmp_path):
    """Else the disk would describe what is not offered."""

    def refuse(*_, **__):
        raise ConfigError("no MPS here")

    monkeypatch.setattr("gpu_device_plugin.plugin.node._uses_mps", refuse)
    monkeypatch.setattr(
        "gpu_device_plugin.plugin.cdi.set_up_cdi", lambda *_: pytest.fail("it is written")
    )

    with pytest.raises(ConfigError, match="no MPS here"):
        read(a_config(device_list_strategy=("cdi-cri",)), cdi=tmp_path)


def test_what_would_fit_is_told_without_any_effect(tmp_path):
    cdi = Loaded(a_config(device_list_strategy=("cdi-cri",)))

    check_fit(SINGLE, ToldBackend(UNEVEN), None)
    check_fit(SINGLE, ToldBackend(UNEVEN), a_node(2))
    check_fit(cdi, ToldBackend(a_node(2)), a_node(2))
    assert os.listdir(tmp_path) == []
    with pytest.raises(HardwareError, match="'single'"):
        check_fit(SINGLE, ToldBackend(UNEVEN), UNEVEN)
    with pytest.raises(ConfigError, match="--mig-strategy"):
        check_fit(Loaded(a_config(mig_strategy="x")), ToldBackend(UNEVEN), None)
    with pytest.raises(ConfigError, match="NVML"):
        check_fit(cdi, ToldBackend(InitError("no driver")), None)


def test_a_channel_that_has_to_be_there_is_looked_for():
    imex = replace(a_config(), imex=Imex(channel_ids=(0,), required=True))
    with pytest.raises(ConfigError, match="IMEX channel 0"):
        check_fit(Loaded(imex), ToldBackend(a_node(2)), a_node(2))
