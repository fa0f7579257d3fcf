"""Label, contents and processes are followed."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run, until

from gpu_device_plugin.config.files import ONCE_ONLY
from gpu_device_plugin.errors import ConfigError, UsageError
from gpu_device_plugin.telemetry import Happening, Outcome, ProfileApplied
from gpu_device_plugin.watch import follow as module
from gpu_device_plugin.watch.follow import ProfileFollower, SignalFailed, Target
from gpu_device_plugin.watch.node_label import NodeLabel
from gpu_device_plugin.watch.processes import Process, Signaller
from gpu_device_plugin.watch.profiles import ProfileError, ProfileRules

LABEL = "nvidia.com/device-plugin.config"


class Stage:
    """A directory like the mount of a ConfigMap, a link, a label and a process."""

    def __init__(self, root: Path) -> None:
        self.source, self.link = root / "source", root / "link"
        self.source.mkdir()
        self.versions = 0
        self.put(default="default 1", a="a 1", b="b 1")
        self.process: Process | None = Process(7, started=0.0)
        self.refusal: OSError | None = None
        self.signals = 0
        self.now = 100.0
        self.bad: set[str] = set()
        self.judged: list[str] = []
        self.told: list[Happening] = []

    def put(self, **profiles: str) -> None:
        """Swaps the contents as the kubelet's atomic writer does."""
        self.versions += 1
        fresh = self.source / f"..{self.versions}"
        fresh.mkdir()
        for name, text in profiles.items():
            (fresh / name).write_text(text)
        (self.source / "..data_tmp").symlink_to(fresh.name)
        os.rename(self.source / "..data_tmp", self.source / "..data")
        for name in profiles:
            if not (self.source / name).is_symlink():
                (self.source / name).symlink_to(f"..data/{name}")
        for path in self.source.iterdir():
            if not path.name.startswith("..") and path.name not in profiles:
                path.unlink()

    def follower(
        self, *fallbacks: str, validate: bool = False, tell: bool = True
    ) -> ProfileFollower:
        def kill(_: int, __: int) -> None:
            if self.refusal is not None:
                raise self.refusal
            self.signals += 1

        signaller = Signaller("plugin", 1, find=lambda _: self.process, kill=kill)
        return ProfileFollower(
            ProfileRules(str(self.source), LABEL, "", fallbacks),
            Target(str(self.link), signaller if tell else None),
            self.judge if validate else None,
            clock=lambda: self.now,
            tell=self.told.append,
        )

    def judge(self, path: str) -> None:
        text = Path(path).read_text()
        self.judged.append(text)
        if text in self.bad:
            raise ConfigError(f"{path}: line 1: it is bad")

    @property
    def target(self) -> str:
        return os.path.basename(os.readlink(self.link)) if self.link.is_symlink() else ""


def told(follower: ProfileFollower, value: str | None) -> None:
    """What the label is now; None: the node is gone."""
    follower.label._take(None if value is None else {"metadata": {"labels": {LABEL: value}}})


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(module, "FIRST_SIGHT_SECONDS", 0.01)


@asynccontextmanager
async def following(follower) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def reached(stage: Stage, signals: int) -> None:
    await until(lambda: stage.signals == signals)


async def settled(follower) -> None:
    """Until what was woken has been seen to."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not follower.wake.is_set()


def test_once_the_label_decides_and_the_process_is_told_once(stage):
    follower = stage.follower("named")
    told(follower, "a")
    run(follower.run_once())
    assert (stage.target, stage.signals) == ("a", 1)


def test_without_seeing_the_node_the_default_is_used_after_a_while(stage, caplog):
    run(stage.follower("named").run_once())
    assert stage.target == "default"
    assert "the node was not seen within" in caplog.text


def test_without_seeing_the_node_a_good_link_stays(stage):
    stage.link.symlink_to(stage.source / "a")
    run(stage.follower("named").run_once())
    assert (stage.target, stage.signals) == ("a", 0)


def test_a_link_that_is_right_is_left_alone(stage):
    stage.link.symlink_to(stage.source / "a")
    follower = stage.follower()
    told(follower, "a")
    before = os.lstat(stage.link).st_ino
    run(follower.run_once())
    assert os.lstat(stage.link).st_ino == before
    assert stage.signals == 0


@pytest.mark.parametrize("name", ["config.yaml", "elsewhere/config.yaml"])
def test_a_relative_directory_counts_from_that_of_the_link(stage, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    stage.source, stage.link = Path("source"), Path(name)
    follower = stage.follower()
    told(follower, "a")

    for _ in range(3):  # it is looked at again and again
        problems = follower._update()

    if stage.link.parent == Path():
        assert (str(stage.link.readlink()), stage.signals, problems) == ("source/a", 1, [])
    else:
        assert "would not lead to source/a" in str(problems[0])
        assert (os.path.lexists(stage.link), stage.signals) == (False, 0)


@pytest.mark.parametrize("tell", [True, False])
def test_nobody_need_be_told(stage, tell):
    follower = stage.follower(tell=tell)
    told(follower, "a")
    run(follower.run_once())
    assert stage.signals == int(tell)


def test_once_without_a_process_is_an_error_after_the_link_is_made(stage):
    stage.process = None
    follower = stage.follower()
    told(follower, "a")
    with pytest.raises(SignalFailed, match=r"no process plugin to signal .*shareProcessNamespace"):
        run(follower.run_once())
    assert stage.target == "a"


def test_once_a_typo_is_named_and_the_default_used(stage, caplog):
    follower = stage.follower("named")
    told(follower, "typo")
    run(follower.run_once())
    assert (stage.target, stage.signals) == ("default", 1)
    assert "'typo', which does not exist" in caplog.text


def test_once_a_typo_keeps_what_is_there(stage, caplog):
    stage.link.symlink_to(stage.source / "b")
    follower = stage.follower("named")
    told(follower, "typo")
    run(follower.run_once())
    assert (stage.target, stage.signals) == ("b", 0)
    assert "'typo', which does not exist" in caplog.text


@pytest.mark.parametrize("value", ["", "typo"])
def test_once_without_anything_is_an_error(stage, value):
    follower = stage.follower()
    told(follower, value)
    with pytest.raises(ProfileError):
        run(follower.run_once())
    assert not stage.link.is_symlink()


def test_once_an_unknown_strategy_is_an_error(stage):
    follower = stage.follower("wish")
    told(follower, "")
    with pytest.raises(UsageError):
        run(follower.run_once())


def test_once_a_destination_without_a_directory_is_an_error(stage):
    stage.link = stage.link.parent / "absent" / "link"
    follower = stage.follower()
    told(follower, "a")
    with pytest.raises(ConfigError, match=r"cannot be made a link: No such .*CONFIG_FILE_DST"):
        run(follower.run_once())


def test_labels_are_followed_there_and_back(stage):
    async def work():
        follower = stage.follower("named")
        told(follower, "a")
        async with following(follower):
            for number, (value, target) in enumerate(
                [("a", "a"), ("b", "b"), ("", "default"), ("a", "a"), (None, "default")], 1
            ):
                told(follower, value)
                await reached(stage, number)
                assert stage.target == target

    run(work())


def test_changes_that_change_nothing_tell_nobody(stage):
    async def work():
        follower = stage.follower("named")
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            told(follower, "a")
            follower.wake.set()
            await settled(follower)
            stage.put(default="default 1", a="a 1", b="b 2")
            follower.wake.set()
            await settled(follower)
            assert stage.signals == 1

    run(work())


def test_changed_contents_are_told(stage, caplog):
    async def work():
        follower = stage.follower()
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            stage.put(a="a 2")
            follower.wake.set()
            await until(lambda: stage.signals == 2)
            assert stage.target == "a"

    with caplog.at_level(logging.INFO):
        run(work())
    assert "have changed" in caplog.text


def test_contents_written_in_place_are_noticed_without_an_event(stage, monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.005)

    async def work():
        follower = stage.follower()
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            (stage.source / "a").write_text("a, edited")
            await until(lambda: stage.signals == 2)

    run(work())


def test_a_profile_that_is_absent_keeps_the_last_good_one_until_it_comes(stage, caplog):
    async def work():
        follower = stage.follower("named")
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            told(follower, "late")
            await settled(follower)
            follower.wake.set()
            await settled(follower)
            assert (stage.target, stage.signals) == ("a", 1)
            stage.put(a="a 1", late="late 1")
            follower.wake.set()
            await until(lambda: stage.target == "late")
            assert stage.signals == 2

    with caplog.at_level(logging.INFO):
        run(work())
    assert caplog.text.count("'late', which does not exist") == 1
    assert "the problem is over" in caplog.text


def test_a_pipe_is_no_configuration(stage, caplog):
    async def work():
        follower = stage.follower("named")
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            os.mkfifo(stage.source / "pipe")
            told(follower, "pipe")
            await settled(follower)
            assert (stage.target, stage.signals) == ("a", 1)

    run(work())
    assert f"pipe cannot be read: {ONCE_ONLY}" in caplog.text


def test_a_profile_that_is_taken_away_leaves_the_process_alone(stage, caplog):
    """Report k8s-device-plugin#364: the profile goes, then the label follows."""

    async def work():
        follower = stage.follower("named")
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            stage.put(default="default 1", b="b 1")
            follower.wake.set()
            await until(lambda: "'a', which does not exist" in caplog.text)
            assert (stage.target, stage.signals) == ("a", 1)
            told(follower, "b")
            await until(lambda: stage.target == "b")
            assert stage.signals == 2

    run(work())


def test_a_dangling_link_at_the_start_is_replaced(stage):
    stage.link.symlink_to(stage.source / "gone")
    follower = stage.follower()
    told(follower, "b")
    run(follower.run_once())
    assert stage.target == "b"


def test_a_profile_that_leads_nowhere_is_refused(stage):
    (stage.source / "broken").symlink_to("..data/broken")
    follower = stage.follower("named")
    told(follower, "broken")
    run(follower.run_once())
    assert stage.target == "default"


def test_without_a_process_the_program_goes_on_and_tells_later(stage, monkeypatch, caplog):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.005)
    stage.process = None

    async def work():
        follower = stage.follower()
        told(follower, "a")
        async with following(follower):
            await until(lambda: "no process plugin" in caplog.text)
            assert stage.target == "a"
            stage.process = Process(8, started=stage.now - 1)
            await until(lambda: stage.signals == 1)

    run(work())
    assert caplog.text.count("no process plugin") == 1


def test_a_process_that_began_after_the_change_is_not_told_of_it(stage, monkeypatch, caplog):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.005)
    stage.process = None

    async def work():
        follower = stage.follower()
        told(follower, "a")
        async with following(follower):
            await until(lambda: "no process plugin" in caplog.text)
            stage.process = Process(8, started=stage.now + 1)
            await until(lambda: "the problem is over" in caplog.text)
            assert stage.signals == 0
            stage.now += 5
            told(follower, "b")
            await until(lambda: stage.signals == 1)

    with caplog.at_level(logging.INFO):
        run(work())


def test_a_process_that_must_not_be_signalled_is_named(stage, caplog):
    stage.refusal = PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    async def work():
        follower = stage.follower()
        told(follower, "a")
        async with following(follower):
            await until(lambda: "signal 1 cannot be sent to plugin: Operation not" in caplog.text)
            stage.refusal = None
            follower.wake.set()
            await until(lambda: stage.signals == 1)

    run(work())


def test_a_bad_profile_is_refused_and_looked_at_once_only(stage, caplog):
    stage.bad = {"b 1", "a 2"}

    async def work():
        follower = stage.follower(validate=True)
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            told(follower, "b")
            await until(lambda: "refused" in caplog.text)
            follower.wake.set()
            await settled(follower)
            assert (stage.target, stage.signals) == ("a", 1)
            told(follower, "a")
            await settled(follower)
            stage.put(a="a 2", b="b 2")
            follower.wake.set()
            await settled(follower)
            assert stage.signals == 1
            told(follower, "b")
            await until(lambda: stage.target == "b")
            assert stage.signals == 2

    run(work())
    assert stage.judged == ["a 1", "b 1", "a 2", "b 2"]
    assert "source/b: line 1: it is bad" in caplog.text


def test_contents_that_were_bad_for_a_while_are_no_change(stage):
    stage.bad = {"a 2"}

    async def work():
        follower = stage.follower(validate=True)
        told(follower, "a")
        async with following(follower):
            await until(lambda: stage.signals == 1)
            for text in ("a 2", "a 1"):
                stage.put(a=text)
                follower.wake.set()
                await settled(follower)
            assert stage.signals == 1
            stage.put(a="a 3")
            follower.wake.set()
            await until(lambda: stage.signals == 2)

    run(work())


def test_the_label_is_read_out_of_whatever_the_api_gives():
    changes = []
    label = NodeLabel(LABEL, lambda: changes.append(label.value))

    async def nodes():
        yield None
        yield {"metadata": {}}
        yield {"metadata": {"labels": {LABEL: "a"}}}
        yield {"metadata": {"labels": {LABEL: "a", "other": "x"}}}
        yield {"metadata": None}
        yield {"metadata": {"labels": {LABEL: "b"}}}
        yield None

    async def work():
        assert label.value is None
        await label.follow(nodes())

    run(work())
    assert changes == ["", "", "a", "", "b", ""]
    assert label.seen.is_set()


def test_a_node_that_does_not_exist_is_not_seen():
    label = NodeLabel(LABEL, lambda: None)
    label._take(None)
    assert (label.value, label.seen.is_set()) == ("", False)


class TestTelling:
    """Each change, and each problem, is told once."""

    def test_a_configuration_that_is_linked(self, stage):
        follower = stage.follower()
        told(follower, "a")
        run(follower.run_once())
        assert stage.told == [ProfileApplied("a", Outcome.OK)]
        assert follower.profile == "a"

    def test_one_that_was_linked_before_is_no_news(self, stage):
        stage.link.symlink_to(stage.source / "a")
        follower = stage.follower()
        told(follower, "a")
        run(follower.run_once())
        assert stage.told == []
        assert follower.profile == "a"

    def test_the_empty_one_has_no_name(self, stage):
        follower = stage.follower("empty")
        assert follower.profile == ""
        told(follower, "")
        run(follower.run_once())
        assert stage.told == [ProfileApplied("", Outcome.OK)]
        assert follower.profile == ""

    def test_changed_contents(self, stage):
        async def work():
            follower = stage.follower()
            told(follower, "a")
            async with following(follower):
                await reached(stage, 1)
                stage.put(a="a 2", b="b 1")
                follower.wake.set()
                await reached(stage, 2)
                follower.wake.set()
                await settled(follower)

        run(work())
        assert stage.told == [ProfileApplied("a", Outcome.OK)] * 2

    def test_a_typo_and_its_end(self, stage):
        async def work():
            follower = stage.follower()
            told(follower, "a")
            async with following(follower):
                await reached(stage, 1)
                told(follower, "typo")
                for _ in range(3):
                    follower.wake.set()
                    await settled(follower)
                told(follower, "a")
                await until(lambda: len(stage.told) == 3)

        run(work())
        good, bad, again = stage.told
        assert good == again == ProfileApplied("a", Outcome.OK)
        assert (bad.profile, bad.outcome) == ("typo", Outcome.FAILED)
        assert "'typo', which does not exist" in bad.error

    def test_another_typo_is_another_problem(self, stage):
        async def work():
            follower = stage.follower()
            told(follower, "a")
            async with following(follower):
                await reached(stage, 1)
                told(follower, "typo")
                await until(lambda: len(stage.told) == 2)
                told(follower, "tipo")
                await until(lambda: len(stage.told) == 3)

        run(work())
        assert [each.profile for each in stage.told] == ["a", "typo", "tipo"]

    def test_one_that_is_refused(self, stage):
        stage.bad.add("b 1")
        stage.link.symlink_to(stage.source / "a")
        follower = stage.follower(validate=True)
        told(follower, "b")
        run(follower.run_once())
        (refused,) = stage.told
        assert (refused.profile, refused.outcome) == ("b", Outcome.FAILED)
        assert "line 1: it is bad" in refused.error

    def test_a_process_that_is_not_there_yet(self, stage):
        async def work():
            stage.process = None
            follower = stage.follower()
            told(follower, "a")
            async with following(follower):
                await until(lambda: len(stage.told) == 1)
                stage.process = Process(8, started=200.0)
                follower.wake.set()
                await until(lambda: len(stage.told) == 2)

        run(work())
        waiting, done = stage.told
        assert (waiting.profile, waiting.outcome) == ("a", Outcome.FAILED)
        assert "there is no process plugin to signal" in waiting.error
        assert done == ProfileApplied("a", Outcome.OK)

    def test_a_change_that_no_process_is_told_of(self, stage):
        follower = stage.follower(tell=False)
        told(follower, "a")
        run(follower.run_once())
        run(follower.run_once())
        assert stage.told == [ProfileApplied("a", Outcome.OK)]
