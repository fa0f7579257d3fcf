from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.labels import is_label_value

from gpu_device_plugin.labels.values import is_key_name, is_value, mend, product, sanitise

ANY = st.text(max_size=120)
PROFILES = st.sampled_from(["1g.5gb", "1g.5gb.me", "1c.3g.20gb", "1g.24gb-me", "7g.80gb"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("a  b", "a-b"),
        (" a ", "a"),
        ("Foo/Bar", "FooBar"),
        ("a\tb\nc", "abc"),
        ("NVIDIA® RTX™ 6000", "NVIDIA-RTX-6000"),
        ("英伟达", ""),
        ("(+)", ""),
        ("", ""),
        ("-NVIDIA X.", "-NVIDIA-X."),
        ("a_b-c.d", "a_b-c.d"),
        ("Orin (nvgpu)", "Orin-nvgpu"),
    ],
)
def test_names_are_sanitised_as_in_the_original(text: str, wanted: str) -> None:
    assert sanitise(text) == wanted


@given(ANY)
def test_sanitising_twice_changes_nothing(text: str) -> None:
    once = sanitise(text)

    assert sanitise(once) == once
    assert " " not in once
    assert once.isascii()


@given(ANY)
def test_what_is_mended_is_a_value_and_values_need_no_mending(text: str) -> None:
    mended = mend(sanitise(text))

    assert mended is None or is_label_value(mended)
    if is_label_value(text):
        assert mend(text) == text


@given(ANY)
def test_values_are_told_as_kubernetes_tells_them(text: str) -> None:
    assert is_value(text) == is_label_value(text)
    assert is_key_name(text) == (is_label_value(text) and text != "")


@given(ANY, PROFILES, st.booleans())
def test_a_product_is_a_value_and_keeps_profile_and_sharing(
    model: str, profile: str, shared: bool
) -> None:
    suffixes = ("MIG", profile, *(("SHARED",) if shared else ()))
    value = product(model, *suffixes)

    assert value is not None
    assert is_label_value(value)
    assert value.endswith("-".join(suffixes))


@given(ANY)
def test_a_product_begins_as_the_model_does(model: str) -> None:
    value, whole = product(model), sanitise(model)

    assert value is None or (is_label_value(value) and value in whole)
    if value is None:
        assert not any(char.isalnum() for char in whole)


@pytest.mark.parametrize(
    ("model", "suffixes", "wanted"),
    [
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            ("MIG", "1g.24gb"),
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edi-MIG-1g.24gb",
        ),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            ("MIG", "1g.24gb", "SHARED"),
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstat-MIG-1g.24gb-SHARED",
        ),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            ("SHARED",),
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-SHARED",
        ),
        ("NVIDIA X (rev. 2)_-", (), "NVIDIA-X-rev.-2"),
        ("-NVIDIA X.", (), "NVIDIA-X"),
        ("-NVIDIA X.", ("SHARED",), "NVIDIA-X.-SHARED"),
        ("(+)", (), ""),
        ("-._", (), None),
        ("英伟达显卡", (), None),
        ("英伟达显卡", ("MIG", "1g.5gb"), "MIG-1g.5gb"),
        ("a" * 62 + ".b", (), "a" * 62),
        ("a" * 50 + "." * 20, ("MIG", "1g.5gb"), "a" * 50 + "-MIG-1g.5gb"),
    ],
)
def test_products_that_do_not_fit_are_cut_in_the_model(
    model: str, suffixes: tuple[str, ...], wanted: str | None
) -> None:
    assert product(model, *suffixes) == wanted
