from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.names import PREFIX, resource_name, shared_name
from gpu_device_plugin.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("mig-1g.5gb.me", "nvidia.com/mig-1g.5gb.me"),
        ("0", "nvidia.com/0"),
        ("a" * 52, "nvidia.com/" + "a" * 52),
    ],
)
def test_names_of_resources(text: str, name: str) -> None:
    assert resource_name(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvidia.com/",
        "GPU",
        "gpu_1",
        "a..b",
        "-a",
        "a-",
        ".a",
        "a.",
        "a-.b",
        "foo.com/gpu",
        "nvidia.com/nvidia.com/gpu",
        "NVIDIA.com/gpu",
        "gpu\n",
        "gpü",
        "1g.5gb+me",
    ],
)
def test_other_texts_are_no_names(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a resource name") as caught:
        resource_name(text)
    assert "at most 52 lower-case letters" in caught.value.hint


def test_names_that_are_too_long() -> None:
    with pytest.raises(ConfigError, match="is too long"):
        resource_name("a" * 53)
    with pytest.raises(ConfigError, match="is too long"):
        resource_name("nvidia.com/" + "a" * 53)


def test_the_default_name_of_a_shared_resource_may_be_too_long() -> None:
    assert shared_name("nvidia.com/gpu") == "nvidia.com/gpu.shared"
    assert len(shared_name(resource_name("a" * 52))) == 70


LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(st.lists(LABEL, min_size=1, max_size=4).map(".".join))
def test_a_name_stays_what_it_is(name: str) -> None:
    full = resource_name(name)
    assert full == PREFIX + name
    assert resource_name(full) == full
