"""What the programs beside the plugin tell of themselves."""

from __future__ import annotations

import asyncio

import pytest
from support.aio import run
from support.configs import a_config
from support.mps import MpsTools

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.node_facts import open_source
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.output import FileOutput
from gpu_device_plugin.labels.record import LabelRecord
from gpu_device_plugin.labels.service import LabelService
from gpu_device_plugin.labels.work import Work
from gpu_device_plugin.mps.supervisor import MpsSupervisor, Wanted
from gpu_device_plugin.status.model import MpsStatus
from gpu_device_plugin.status.of_labels import (
    SILENCE_SECONDS,
    labelling,
    labels_configuration,
    labels_readiness,
)
from gpu_device_plugin.status.of_mps import mps_daemons, mps_readiness
from gpu_device_plugin.status.of_profiles import profile_configuration, profile_readiness
from gpu_device_plugin.watch.follow import ProfileFollower, Target
from gpu_device_plugin.watch.profiles import ProfileRules


def never() -> Work:
    raise AssertionError


# ------------------------------------------------------------------ labels


def test_a_service_that_has_done_nothing_says_so():
    service = LabelService(never)
    assert labelling(service).time == 0
    assert labelling(service).place == ""
    assert labels_configuration(service) is None
    assert labels_readiness(service).reasons == ("the labels have not been published yet",)


def with_work(directory) -> LabelService:
    service = LabelService(never)
    loaded = load(parse(Program.GPU_FEATURE_DISCOVERY, [], {}))
    output = FileOutput(f"{directory}/gfd")
    reader = FactReader(open_source("auto", "t4x4"), "")
    service.work = Work(a_config(), reader, output, loaded=loaded)
    return service


def test_labels_that_are_out_make_ready(tmp_path):
    service = with_work(tmp_path)
    service.record.publish({"b": "1", "a": "2"})
    told = labelling(service)
    assert (told.place, told.labels, told.problem) == (
        f"{tmp_path}/gfd",
        (("b", "1"), ("a", "2")),
        "",
    )
    assert told.time > 0
    assert labels_readiness(service).ok
    configuration = labels_configuration(service)
    assert configuration is not None
    assert len(configuration.hash) == 16


def test_a_label_that_cannot_be_made_is_told_and_no_reason(tmp_path):
    service = with_work(tmp_path)
    service.record.take("", ("no memory size",))
    service.record.publish({})
    assert labelling(service).problem == "no memory size"
    assert labels_readiness(service).ok


def test_each_thing_that_is_in_the_way_is_a_reason(tmp_path):
    service = with_work(tmp_path)
    record = service.record
    record.publish({})
    record.take("no driver", ())
    record.output_problem = "read-only"
    record.reload_problem = "version: v9"
    assert labels_readiness(service).reasons == (
        "the new configuration cannot be used: version: v9",
        "nothing is known of GPUs: no driver",
        "the labels are not published: read-only",
    )
    configuration = labels_configuration(service)
    assert configuration is not None
    assert configuration.problem == "version: v9"


def test_another_place_begins_without_labels(tmp_path):
    service = with_work(tmp_path)
    service.record.publish({"a": "1"})
    service.record.move()
    assert not labels_readiness(service).ok
    assert labelling(service).labels == ()


def test_a_driver_that_holds_the_reading_up_is_a_reason(tmp_path):
    now = 5.0
    service = with_work(tmp_path)
    service.record = LabelRecord(steady=lambda: now)
    service.record.publish({})
    service.record.ask()
    assert labels_readiness(service).ok
    now += SILENCE_SECONDS + 1
    assert labels_readiness(service).reasons == ("the driver has not answered for 61 s",)
    service.record.take("", ())
    assert labels_readiness(service).ok
    assert not service.record.seconds_reading


# ------------------------------------------------------------------ profiles


@pytest.fixture
def follower(tmp_path):
    source = tmp_path / "configs"
    source.mkdir()
    (source / "a").write_text("version: v1")
    rules = ProfileRules(directory=str(source), label="l", default="a")
    return ProfileFollower(rules, Target(str(tmp_path / "link")))


async def looked_at(follower: ProfileFollower) -> None:
    """Runs until it waits for the next change."""
    following = asyncio.create_task(follower.run())
    follower.label._take({"metadata": {"labels": {}}})
    while not (follower.is_linked or follower.problem):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.001)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


def test_a_configuration_that_is_linked_makes_ready(follower):
    assert profile_readiness(follower).reasons == ("no configuration has been applied yet",)
    assert profile_configuration(follower) is None
    run(looked_at(follower))
    assert profile_readiness(follower).ok
    configuration = profile_configuration(follower)
    assert configuration is not None
    assert (configuration.profile, configuration.hash, configuration.problem) == ("a", "", "")
    assert configuration.file == follower.link


def test_one_that_is_not_there_is_a_reason(follower, tmp_path):
    (tmp_path / "configs" / "a").unlink()
    run(looked_at(follower))
    (reason,) = profile_readiness(follower).reasons
    assert reason.startswith("there are no configurations in ")


def test_a_link_that_leads_nowhere_any_more_is_none(follower, tmp_path):
    run(looked_at(follower))
    (tmp_path / "configs" / "a").unlink()
    assert not profile_readiness(follower).ok


# ------------------------------------------------------------------ MPS daemons


def supervisor(tmp_path, wanted: Wanted) -> MpsSupervisor:
    return MpsSupervisor(lambda: wanted, MpsTools.make(tmp_path).around())


async def until_waiting(running: MpsSupervisor, *, ready: bool) -> None:
    life = asyncio.create_task(running.run())
    while not (running.is_ready if ready else running.problem):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.001)
    check = mps_readiness(running)
    running.stop()
    await life
    assert check.ok is ready
    if not ready:
        assert check.reasons == ("no driver",)


def test_before_anything_is_known_there_is_a_reason(tmp_path):
    known = supervisor(tmp_path, Wanted())
    assert mps_readiness(known).reasons == ("it is not known yet which daemons are needed",)
    assert mps_daemons(known) == ()


def test_where_no_daemon_is_needed_it_is_ready(tmp_path):
    run(until_waiting(supervisor(tmp_path, Wanted()), ready=True))


def test_a_driver_that_is_waited_for_is_a_reason(tmp_path):
    run(until_waiting(supervisor(tmp_path, Wanted(problem="no driver")), ready=False))


def test_a_daemon_that_is_being_started_is_a_reason(tmp_path, monkeypatch):
    known = supervisor(tmp_path, Wanted())

    class Starting:
        resource, is_up, problem = "nvidia.com/gpu", False, ""

    monkeypatch.setattr(known, "observe", lambda: (Starting,))
    assert mps_daemons(known) == (MpsStatus("nvidia.com/gpu", ready=False, detail="being started"),)
    assert mps_readiness(known).reasons == ("nvidia.com/gpu: being started",)


def test_errors_of_users_are_what_configure_raises():
    """What ends a program at its start is no matter of probes."""

    def refuse() -> Work:
        raise UserError("no")

    with pytest.raises(UserError):
        run(LabelService(refuse).run())
