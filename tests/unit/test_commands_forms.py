"""The forms in which commands of ``gpu-node`` print."""

from __future__ import annotations

import argparse
import re

import pytest

from gpu_device_plugin.programs.commands.completion import of_parser
from gpu_device_plugin.programs.commands.options import FOR_PEOPLE, OTHER_NAME, add_form_option
from gpu_device_plugin.programs.gpu_node import make_parser

FORMS = {
    command.path: option.values.words
    for command in of_parser(make_parser()).all()
    for option in command.options
    # The agent's is that of gpu-feature-discovery.
    if "-o" in option.names and option.values and command.path != ("agent",)
}
"""By the words of the command line that lead to a command; what shells suggest, too."""


def test_every_command_is_looked_at() -> None:
    names = "devices", "doctor", "explain", "labels", "pods", "status", "topology", "validate"
    assert set(FORMS) == {*((name,) for name in names), ("cdi", "list")}


@pytest.mark.parametrize("path", FORMS, ids=" ".join)
def test_the_form_for_people_is_called_the_same_everywhere(path: tuple[str, ...]) -> None:
    needed = ("f.yaml",) if path == ("validate",) else ()

    def chosen(*form: str) -> str:
        given = make_parser().parse_args([*path, *form, *needed])
        return str(given.output)

    assert FORMS[path][0] == FOR_PEOPLE
    # The one other form of that name was there first.
    assert (OTHER_NAME in FORMS[path]) == (path == ("labels",))
    assert chosen("-o", FOR_PEOPLE) == FOR_PEOPLE
    assert chosen(f"--output={OTHER_NAME}") == (OTHER_NAME if path == ("labels",) else FOR_PEOPLE)
    # That of the topology follows from the name of the file.
    assert chosen() == ("None" if path == ("topology",) else FOR_PEOPLE)


def test_other_words_are_refused_with_those_that_are_documented(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    add_form_option(parser, ("table", "json"), "what for")

    with pytest.raises(SystemExit):
        parser.parse_args(["-o", "xml"])

    assert re.search(r"choose from '?table'?, '?json'?\)", capsys.readouterr().err)
