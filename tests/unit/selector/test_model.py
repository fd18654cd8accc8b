"""Variant properties, labels and wheel file names."""

import re
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel_selector.errors import InvalidNameError
from variantwheel_selector.model import (
    FEATURE_PATTERN,
    LABEL_PATTERN,
    NAMESPACE_PATTERN,
    VALUE_PATTERN,
    Variant,
    VariantProperty,
    check_label,
    is_label,
)
from variantwheel_selector.wheel_name import WheelName, normalize_project

NAME = st.from_regex(r"[a-z0-9_]+", fullmatch=True)
VALUE = st.from_regex(r"[a-z0-9_.]+", fullmatch=True)
PROPERTY = st.builds(VariantProperty, NAME, NAME, VALUE)
LABEL = st.from_regex(r"[0-9a-z_.]{1,16}", fullmatch=True)


@given(PROPERTY)
def test_property_text_comes_back(item: VariantProperty) -> None:
    assert VariantProperty.from_str(item.to_str()) == item
    assert VariantProperty.from_str(f" {item.namespace}::{item.feature} ::{item.value}") == item


@pytest.mark.parametrize(
    "text",
    ["", "x86_64", "x86_64 :: level", "a :: b :: c :: d", "A :: b :: c", "a :: b-c :: d",
     "a :: b :: ", "a :: b :: c d", "a :: b :: c\n"],
)  # fmt: skip
def test_no_properties(text: str) -> None:
    if text.endswith("\n"):
        assert VariantProperty.from_str(text).value == "c"
        return
    with pytest.raises(InvalidNameError):
        VariantProperty.from_str(text)


@pytest.mark.parametrize("label", ["", "a" * 17, "A", "cu-12", "null\n", "ä"])
def test_no_labels(label: str) -> None:
    with pytest.raises(InvalidNameError):
        check_label(label)


def test_the_label_null_and_the_absence_of_properties_go_together() -> None:
    assert Variant("null").properties == ()
    with pytest.raises(InvalidNameError, match="reserved"):
        Variant("cpu")
    with pytest.raises(InvalidNameError, match="reserved"):
        Variant.from_strings("null", ["x86_64 :: level :: v3"])


def test_features_join_the_values_of_a_feature() -> None:
    variant = Variant.from_strings("cu", ["a :: f :: 2", "b :: g :: x", "a :: f :: 1"])
    assert variant.features() == {("a", "f"): ("1", "2"), ("b", "g"): ("x",)}


@given(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name[-1] != "_"),
    st.from_regex(r"[0-9]\.[0-9]", fullmatch=True),
    st.sampled_from(["", "1", "7cu12"]),
    st.sampled_from(["py3-none-any", "cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64"]),
    st.none() | LABEL,
)
def test_wheel_names_come_back(
    distribution: str, version: str, build: str, tag: str, label: str | None
) -> None:
    text = "-".join(filter(None, [distribution, version, build, tag, label])) + ".whl"
    name = WheelName.from_str(text)
    assert (name.build, name.label) == (build, label)
    assert str(name) == text
    assert str(name.with_label(None).with_label(label)) == text
    assert name.is_for(distribution.replace("_", "-").upper(), version)


@pytest.mark.parametrize(
    "text",
    ["a-1.0.whl", "a-1.0-py3-none-any", "a-1.0-py3-none-any-x-y-z.whl", "a-1.0-py3-none-any-X.whl",
     "../a-1.0-py3-none-any.whl", "a-1.0-1-2-none-any-null.whl", "-1.0-py3-none-any.whl",
     "a-1.0-py3-none-any-.whl", "a/b-1.0-py3-none-any.whl"],
)  # fmt: skip
def test_no_wheel_names(text: str) -> None:
    with pytest.raises(InvalidNameError):
        WheelName.from_str(text)


def test_tags_of_a_compressed_set() -> None:
    name = WheelName.from_str("a-1.0-py2.py3-none-linux_x86_64.any.whl")
    assert set(name.tags()) == {
        f"{python}-none-{platform}"
        for python in ("py2", "py3")
        for platform in ("linux_x86_64", "any")
    }


def test_build_tags_compare_as_numbers_first() -> None:
    names = ["a-1-py3-none-any.whl", "a-1-2-py3-none-any.whl", "a-1-10-py3-none-any.whl"]
    keys = [WheelName.from_str(name).build_key() for name in names]
    assert keys == sorted(keys)


def test_spellings_of_a_project() -> None:
    assert {normalize_project(name) for name in ("A.b_C", "a-b-c", "A--b..c")} == {"a-b-c"}


NEAR_MISSES = st.text(st.sampled_from([*"aZ0_.-+!: \n²ä"]), max_size=18)
WHEEL_NAME = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._]*[A-Za-z0-9])?-[A-Za-z0-9_.!+]+(?:-[0-9][A-Za-z0-9_.]*)?"
    r"(?:-(?![0-9])[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)(?:-[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*){2}"
    r"(?:-[0-9a-z_.]{1,16})?\.whl"
)


@given(NEAR_MISSES, st.integers(0, 6))
def test_names_are_read_as_their_patterns_say(text: str, place: int) -> None:
    assert is_label(text) == bool(re.fullmatch(LABEL_PATTERN, text))
    for fields in ((text, "a", "b"), ("a", text, "b"), ("a", "b", text)):
        patterns = (NAMESPACE_PATTERN, FEATURE_PATTERN, VALUE_PATTERN)
        fits = all(map(re.fullmatch, patterns, fields))
        with nullcontext() if fits else pytest.raises(InvalidNameError):
            VariantProperty(*fields)
    parts = ["demo", "1.0", "1", "py3", "none", "any", "null"]
    parts[place] = text
    filename = f"{'-'.join(parts)}.whl"
    with nullcontext() if WHEEL_NAME.fullmatch(filename) else pytest.raises(InvalidNameError):
        WheelName.from_str(filename)
