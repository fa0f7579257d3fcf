from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.doctor import Machine

from gpu_device_plugin.console.data import data_text
from gpu_device_plugin.console.screen import ANSI, Screen
from gpu_device_plugin.diagnosis.doctor import run
from gpu_device_plugin.diagnosis.doctor.catalogue import CHECKS, choose
from gpu_device_plugin.diagnosis.doctor.document import to_dict
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import (
    Check,
    Findings,
    Group,
    Outcome,
    Verdict,
    not_checked,
)
from gpu_device_plugin.diagnosis.doctor.run import Finished, run_checks
from gpu_device_plugin.diagnosis.doctor.text import Style, lines_of, list_lines
from gpu_device_plugin.errors import UsageError

WIDE = Screen(None)
DOCS = Path(__file__).parents[3] / "docs"


def a_check(outcome: Outcome, group: Group = Group.SYSTEM, name: str = "thing") -> Check:
    return Check(name, group, "what it is", "doctor.md#clock", lambda _: outcome)


def a_failure() -> Outcome:
    find = Findings()
    find.saw("/etc/thing: 3")
    find.gap("half of it", "look there")
    find.warn("it squeaks", "oil it")
    find.fail("it is broken", "mend it", "then try again")
    return find.outcome("well")


class TestRunning:
    def run_one(self, machine: Machine, check: Check) -> tuple[Outcome, list[Check | None]]:
        waited = list[Check | None]()
        (finished,) = run_checks([check], machine.host(), waited.append)
        return finished.outcome, waited

    def test_an_outcome_is_handed_over(self, machine: Machine) -> None:
        outcome, waited = self.run_one(machine, a_check(a_failure()))

        assert outcome.summary == "it is broken (and 1 more)"
        assert not waited

    def test_a_check_that_raises_is_not_checked(self, machine: Machine) -> None:
        def fail(_host: Host) -> Outcome:
            raise ZeroDivisionError("line\nbreak")

        outcome, _ = self.run_one(machine, replace(a_check(a_failure()), run=fail))

        assert outcome.verdict is Verdict.NOT_CHECKED
        assert outcome.summary == r"the check itself has failed: ZeroDivisionError: line\nbreak"

    def test_a_check_that_hangs_is_left_behind(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        over = threading.Event()
        monkeypatch.setattr(run, "PATIENCE_SECONDS", 0.01)

        def hang(_host: Host) -> Outcome:
            over.wait()
            return a_failure()

        check = replace(a_check(a_failure()), run=hang, seconds=0.05)
        outcome, waited = self.run_one(machine, check)
        over.set()

        assert "no result within 0.05 s" in outcome.summary
        assert waited == [check, None]

    def test_a_slow_check_is_shown_and_counts(
        self, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shown = threading.Event()
        monkeypatch.setattr(run, "PATIENCE_SECONDS", 0.01)

        def slow(_host: Host) -> Outcome:
            shown.wait()
            return not_checked("slow")

        check = replace(a_check(a_failure()), run=slow)
        (finished,) = run_checks([check], machine.host(), lambda _: shown.set())

        assert finished.outcome.summary == "slow"

    def test_checks_of_hardware_say_nothing_on_a_simulated_node(self, machine: Machine) -> None:
        machine.options = ["--simulate=t4x4"]

        outcome, _ = self.run_one(machine, replace(a_check(a_failure()), real=True))

        assert "the node is simulated (t4x4)" in outcome.summary


class TestChoice:
    def test_all_of_them_by_default(self) -> None:
        assert choose([], []) == list(CHECKS)

    def test_names_and_groups_can_be_mixed(self) -> None:
        names = [check.name for check in choose(["clock", "Driver"], ["hardware"])]

        assert names == ["driver-files", "kernel-module", "device-nodes", "clock"]

    def test_an_unknown_name_is_told_with_what_was_meant(self) -> None:
        with pytest.raises(UsageError, match="did you mean clock"):
            choose(["clok"], [])
        with pytest.raises(UsageError, match="see --list"):
            choose([], ["zzzz"])

    def test_nothing_left_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="no check is left"):
            choose(["clock"], ["clock"])

    def test_names_are_distinct_and_no_group_has_the_name_of_a_check(self) -> None:
        names = [check.name for check in CHECKS]

        assert len(set(names)) == len(names)
        assert not {group.name.lower() for group in Group} & set(names)

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_the_page_of_each_check_has_its_section(self, check: Check) -> None:
        page, _, anchor = check.page.partition("#")
        headings = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), re.MULTILINE)

        assert anchor in {re.sub(r"[^\w\- ]", "", h).lower().replace(" ", "-") for h in headings}

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_each_check_is_documented(self, check: Check) -> None:
        assert f"### {check.name}\n" in (DOCS / "doctor.md").read_text()


class TestText:
    def text(self, *results: Finished, style: Style | None = None) -> str:
        return "\n".join(lines_of(results, style or Style(WIDE)))

    def test_a_failure_is_shown_with_everything(self) -> None:
        text = self.text(Finished(a_check(a_failure()), a_failure(), 0.1))

        assert text.splitlines() == [
            "System",
            "  FAILED   thing: what it is",
            "            saw: /etc/thing: 3",
            "            FAILED: it is broken",
            "            next: mend it",
            "            next: then try again",
            "            warning: it squeaks",
            "            next: oil it",
            "            -: half of it",
            "            next: look there",
            "            see docs/doctor.md#clock",
            "",
            "1 checks: 1 failed, 0 warnings, 0 ok, 0 not checked; --verbose shows what was seen",
        ]

    def test_one_problem_is_the_headline(self) -> None:
        find = Findings()
        find.warn("it squeaks")
        outcome = find.outcome("")

        lines = self.text(Finished(a_check(outcome), outcome, 0)).splitlines()

        assert lines[1:3] == [
            "  warning  thing: it squeaks",
            "            see docs/doctor.md#clock",
        ]

    def test_what_is_well_is_one_line_unless_asked(self) -> None:
        find = Findings()
        find.saw("a thing")
        outcome = find.outcome("well")
        result = Finished(a_check(outcome), outcome, 0)

        assert "a thing" not in self.text(result)
        verbose = self.text(result, style=Style(WIDE, verbose=True))
        assert "saw: a thing" in verbose
        assert "--verbose" not in verbose

    def test_the_worst_of_a_group_comes_first(self) -> None:
        ok = Findings().outcome("well")
        results = [
            Finished(a_check(ok, name="a"), ok, 0),
            Finished(a_check(not_checked("why"), name="b"), not_checked("why"), 0),
            Finished(a_check(a_failure(), name="c"), a_failure(), 0),
        ]

        heads = re.findall(r"^  \S+ +(\w): ", self.text(*results), re.MULTILINE)

        assert heads == ["c", "a", "b"]

    def test_lines_are_wrapped_to_the_terminal_and_coloured(self) -> None:
        find = Findings()
        find.fail("word " * 30, "step " * 30)
        outcome = find.outcome("")
        style = Style(Screen(60, ANSI))

        text = self.text(Finished(a_check(outcome), outcome, 0), style=style)

        assert "\x1b[31mFAILED" in text
        assert "\x1b[36mnext:\x1b[0m" in text
        plain = re.sub(r"\x1b\[\d+m", "", text)
        assert all(len(line) <= 60 for line in plain.splitlines()[:-1])

    def test_the_list_names_every_check(self) -> None:
        text = "\n".join(list_lines(CHECKS))

        assert all(f"  {check.name} " in text for check in CHECKS)
        assert "Container runtime (runtime)" in text


class TestDocument:
    def test_it_has_everything(self, machine: Machine) -> None:
        result = Finished(a_check(a_failure()), a_failure(), 0.12345)

        data = to_dict(machine.host(), [result])

        assert data["schema"] == "gpu-node/doctor/v1"
        assert data["node"] == "node-1"
        assert data["summary"] == {"ok": 0, "warning": 0, "failed": 1, "not-checked": 0}
        assert data["checks"] == [
            {
                "name": "thing",
                "group": "System",
                "title": "what it is",
                "verdict": "failed",
                "summary": "it is broken (and 1 more)",
                "problems": [
                    {
                        "verdict": "failed",
                        "text": "it is broken",
                        "next": ["mend it", "then try again"],
                    },
                    {"verdict": "warning", "text": "it squeaks", "next": ["oil it"]},
                    {"verdict": "not-checked", "text": "half of it", "next": ["look there"]},
                ],
                "evidence": ["/etc/thing: 3"],
                "page": "docs/doctor.md#clock",
                "seconds": 0.123,
            }
        ]
        assert json.loads(data_text(data, "json")) == data
        assert yaml.safe_load(data_text(data, "yaml")) == data
