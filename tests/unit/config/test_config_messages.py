"""What a person reads who has made a mistake: one line with file, line, key, and what is allowed."""

from __future__ import annotations

import pytest

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.programs.device_plugin import serve

ERRORS: dict[str, tuple[str | bytes, str]] = {
    "unknown version": (
        """
        version: v2
        """,
        'f.yaml:2: version: "v2" is not a known version (allowed: v1)',
    ),
    "list for a mapping": (
        """
        version: v1
        sharing: [timeSlicing]
        """,
        "f.yaml:3: sharing: a list where a mapping belongs",
    ),
    "too few replicas": (
        """
        sharing:
          mps:
            resources:
              - name: nvidia.com/gpu
                replicas: 1
        """,
        (
            "f.yaml:6: sharing.mps.resources[0].replicas: 1 is too small "
            "(allowed: whole numbers without quotes, 2 or more)"
        ),
    ),
    "number in quotes": (
        """
        sharing:
          timeSlicing:
            resources:
              - name: nvidia.com/gpu
                replicas: 2
              - name: nvidia.com/mig-1g.5gb
                replicas: "4"
        """,
        (
            'f.yaml:8: sharing.timeSlicing.resources[1].replicas: the text "4" is not a whole number '
            "(allowed: whole numbers without quotes, 2 or more)"
        ),
    ),
    "boolean in quotes": (
        """
        flags:
          failOnInitError: "false"
        """,
        (
            'f.yaml:3: flags.failOnInitError: the text "false" is not a boolean '
            "(allowed: true, false, without quotes)"
        ),
    ),
    "missing key": (
        """
        sharing:
          timeSlicing:
            resources:
              - name: nvidia.com/gpu
        """,
        'f.yaml:5: sharing.timeSlicing.resources[0]: "replicas" is missing',
    ),
    "missing list": (
        """
        sharing:
          timeSlicing:
            renameByDefault: true
        """,
        'f.yaml:3: sharing.timeSlicing: "resources" is missing',
    ),
    "forgotten value": (
        """
        sharing:
          timeSlicing:
        """,
        "f.yaml:3: sharing.timeSlicing: null where a mapping belongs",
    ),
    "bad name": (
        """
        sharing:
          timeSlicing:
            resources:
              - {name: example.com/gpu, replicas: 2}
        """,
        (
            'f.yaml:5: sharing.timeSlicing.resources[0].name: "example.com/gpu" is not a resource name '
            "(allowed: at most 52 lower-case letters, digits, '-' and '.' after nvidia.com/, each "
            "part between dots beginning and ending with a letter or digit)"
        ),
    ),
    "bad interval": (
        """
        flags:
          gfd:
            sleepInterval: "60"
        """,
        (
            'f.yaml:4: flags.gfd.sleepInterval: "60" is a duration without a unit '
            "(allowed: such as 30s, 5m or 1h30m, or infinite)"
        ),
    ),
    "indented by a tab": (
        "flags:\n\tmigStrategy: none\n",
        (
            "f.yaml:2: not YAML: found character that cannot start any token "
            "while scanning for the next token (indent with blanks, not tabs)"
        ),
    ),
    "unclosed bracket": (
        "flags: {plugin: {deviceListStrategy: [envvar}}\n",
        "f.yaml:1: not YAML: did not find expected ',' or ']' while parsing a flow sequence",
    ),
    "no indentation": (
        "flags:\nmigStrategy: none\n  mpsRoot: /x\n",
        "f.yaml:3: not YAML: mapping values are not allowed in this context",
    ),
    "binary": (
        b"\x7fELF\x02\x01\x01\x00",
        "f.yaml:1: not YAML: control characters are not allowed",
    ),
    "value from an anchor": (
        """
        x-on: &on "yes"
        flags:
          gdsEnabled: *on
        """,
        (
            'f.yaml:4: flags.gdsEnabled: the text "yes" is not a boolean '
            "(allowed: true, false, without quotes)"
        ),
    ),
}

WARNINGS: dict[str, tuple[str, list[str]]] = {
    "keys one level too high": (
        """
        version: v1
        flags:
          migStrategy: none
          renameByDefault: true
          failRequestsGreaterThanOne: false
        """,
        [
            (
                "f.yaml:5: flags.renameByDefault: unknown key, ignored "
                "(it belongs to sharing.timeSlicing or sharing.mps)"
            ),
            (
                "f.yaml:6: flags.failRequestsGreaterThanOne: unknown key, ignored "
                "(it belongs to sharing.timeSlicing or sharing.mps)"
            ),
        ],
    ),
    "misspelled": (
        """
        flags:
          migStratgy: single
        sharring: {}
        """,
        [
            "f.yaml:3: flags.migStratgy: unknown key, ignored (did you mean migStrategy?)",
            "f.yaml:4: sharring: unknown key, ignored (did you mean sharing?)",
        ],
    ),
    "given twice": (
        """
        flags: {migStrategy: single}
        flags: {gdsEnabled: true}
        """,
        ["f.yaml:3: flags: given more than once; the last one counts"],
    ),
}


def dedent(text: str | bytes) -> str | bytes:
    return text.replace("\n        ", "\n") if isinstance(text, str) else text


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    text, message = ERRORS[case]
    with pytest.raises(ConfigError) as caught:
        load_text(dedent(text))
    assert str(caught.value) == message


@pytest.mark.parametrize("case", WARNINGS)
def test_warnings(case: str) -> None:
    text, messages = WARNINGS[case]
    assert [str(warning) for warning in load_text(dedent(text)).warnings] == messages


@pytest.mark.parametrize("name", ["kubelet-socket", "plugin-directory"])
def test_directories_that_flags_name_stay_on_one_line(name: str) -> None:
    argv = ["--kubelet-socket=", f"--{name}=/no\nsuch/a"]
    with pytest.raises(ConfigError) as caught:
        serve(parse(Program.DEVICE_PLUGIN, argv, {}))
    assert str(caught.value).isprintable()
    assert "/no\\nsuch" in str(caught.value)
