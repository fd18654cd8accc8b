"""variant.json and variants.json: the formats of PEP 825 and PEP 850, with variantlib as oracle."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from variantlib.variants_json import VariantsJson  # type: ignore[import-untyped]

from unit.selector.test_model import LABEL, NAME, VALUE
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.model import Variant, VariantProperty
from variantwheel_selector.variants_json import (
    PEP_825_SCHEMA,
    PEP_850_SCHEMA,
    ProviderInfo,
    VariantsInfo,
    parse_variants_json,
    render_variants_json,
)
from variantwheel_selector.variants_merge import merge_variants_info

PROVIDER = st.one_of(
    st.builds(
        ProviderInfo,
        requires=st.just(("some-provider>=1",)),
        plugin_api=st.none() | st.just("some_provider.plugin:Plugin"),
        optional=st.booleans(),
    ),
    st.builds(
        ProviderInfo,
        static_properties=st.just({"f": ("2", "1"), "g": ("x",)}),
        feature_order=st.just(("g", "f")),
    ),
)


@st.composite
def infos(draw: st.DrawFn) -> VariantsInfo:
    namespaces = tuple(draw(st.lists(NAME, min_size=1, max_size=3, unique=True)))
    properties = st.lists(
        st.builds(VariantProperty, st.sampled_from(namespaces), NAME, VALUE),
        min_size=1,
        max_size=4,
    )
    labels = draw(st.lists(LABEL.filter(lambda label: label != "null"), max_size=4, unique=True))
    variants = {label: Variant(label, tuple(draw(properties))) for label in labels}
    if draw(st.booleans()):
        variants["null"] = Variant("null")
    providers = {namespace: draw(PROVIDER) for namespace in namespaces}
    return VariantsInfo(namespaces, variants, draw(st.sampled_from([providers, None])))


def document(**changes: object) -> dict[str, Any]:
    return {
        "$schema": PEP_850_SCHEMA,
        "default-priorities": {"namespace": ["x86_64"]},
        "providers": {"x86_64": {"requires": ["x86-64-variant-provider>=0.2"]}},
        "variants": {"null": {}, "v3": {"x86_64": {"level": ["v3"]}}},
        **changes,
    }


@given(infos())
def test_text_comes_back(info: VariantsInfo) -> None:
    text = render_variants_json(info)
    assert parse_variants_json(text) == info
    assert render_variants_json(parse_variants_json(text)) == text


@given(infos())
def test_text_does_not_depend_on_the_order_of_variants(info: VariantsInfo) -> None:
    turned = VariantsInfo(
        info.namespaces, dict(reversed(list(info.variants.items()))), info.providers
    )
    assert render_variants_json(turned) == render_variants_json(info)


@given(infos().filter(lambda info: info.providers is not None))
def test_variantlib_reads_what_is_written(info: VariantsInfo) -> None:
    theirs = VariantsJson(json.loads(render_variants_json(info)))
    assert {
        label: sorted((p.namespace, p.feature, p.value) for p in variant.properties)
        for label, variant in theirs.variants.items()
    } == {
        label: [(p.namespace, p.feature, p.value) for p in variant.properties]
        for label, variant in info.variants.items()
    }
    assert tuple(theirs.namespace_priorities) == info.namespaces


@given(infos().filter(lambda info: info.providers is not None))
def test_what_variantlib_writes_is_read(info: VariantsInfo) -> None:
    theirs = VariantsJson(json.loads(render_variants_json(info)))
    read = parse_variants_json(theirs.to_str())
    assert read.variants == info.variants
    assert read.namespaces == info.namespaces


def test_values_are_sorted_and_providers_follow_the_priorities() -> None:
    info = VariantsInfo(
        ("b", "a"),
        {"x": Variant.from_strings("x", ["a :: f :: 2", "a :: f :: 10", "b :: g :: 1"])},
        {"a": ProviderInfo(requires=("p",)), "b": ProviderInfo(requires=("q",))},
    )
    written = json.loads(render_variants_json(info))
    assert written["variants"]["x"]["a"]["f"] == ["10", "2"]
    assert list(written["providers"]) == ["b", "a"]
    assert written["$schema"] == PEP_850_SCHEMA


def test_pep_825_has_no_providers() -> None:
    info = VariantsInfo(("a",), {"null": Variant("null")})
    assert json.loads(render_variants_json(info)) == {
        "$schema": PEP_825_SCHEMA,
        "default-priorities": {"namespace": ["a"]},
        "variants": {"null": {}},
    }


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"$schema": PEP_850_SCHEMA.replace("v0.2.0", "v1.0.0")}, "1.0 is newer"),
        ({"$schema": "https://example.org/v0.2.0.json"}, "unknown schema"),
        ({"$schema": 1}, "expected a string"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"providers": {}}, "different namespaces"),
        ({"providers": {"x86_64": {"requires": ["a"], "builtin": "b"}}}, "exactly one"),
        ({"providers": {"x86_64": {"optional": True}}}, "exactly one"),
        ({"providers": {"x86_64": {"requires": []}}}, "names no requirement"),
        ({"providers": {"x86_64": {"builtin": "b", "plugin-api": "a:b"}}}, "without 'requires'"),
        (
            {"providers": {"x86_64": {"static-properties": {"a": ["1"], "b": ["1"]}}}},
            "'feature-order' is missing",
        ),
        ({"default-priorities": {"namespace": ["x86_64"], "feature": {}}}, "unknown key 'feature'"),
        ({"default-priorities": {"namespace": ["x86_64", "x86_64"]}}, "twice"),
        ({"variants": {"v3": {"arm": {"level": ["v3"]}}}}, "namespace 'arm'"),
        ({"variants": {"V3": {"x86_64": {"level": ["v3"]}}}}, "invalid variant label"),
        ({"variants": {"v3": {"x86_64": {"level": []}}}}, "names no value"),
        ({"variants": {"v3": {"x86_64": {"level": "v3"}}}}, "expected an array"),
        ({"variants": {"v3": {"x86_64": {"level": ["v 3"]}}}}, "does not match"),
        ({"variants": {"v3": {}}}, "reserved"),
        ({"variants": {"null": {"x86_64": {"level": ["v3"]}}}}, "reserved"),
        ({"variants": []}, "expected an object"),
    ],
)
def test_what_breaks_the_format_is_refused(broken: dict[str, object], words: str) -> None:
    with pytest.raises(VariantsJsonError, match=words):
        parse_variants_json(json.dumps(document(**broken)), "demo-variants.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"$schema": 1, "$schema": 1}', '{"a": NaN}', "[" * 100_000, b"\xff"]
)
def test_no_json(text: str | bytes) -> None:
    with pytest.raises(VariantsJsonError, match="demo"):
        parse_variants_json(text, "demo")


def test_a_key_may_not_occur_twice() -> None:
    text = json.dumps(document()).replace('"v3": {', '"v3": {"x86_64": {"level": ["v2"]}}, "v3": {')
    with pytest.raises(VariantsJsonError, match="the same key twice"):
        parse_variants_json(text)


def test_a_newer_minor_version_may_say_more() -> None:
    newer = document(**{"$schema": PEP_850_SCHEMA.replace("v0.2.0", "v0.9.0"), "extra": 1})
    assert set(parse_variants_json(json.dumps(newer)).variants) == {"null", "v3"}


def _info(namespaces: tuple[str, ...], **variants: str) -> VariantsInfo:
    return VariantsInfo(
        namespaces,
        {label: Variant.from_strings(label, [text]) for label, text in variants.items()},
        {namespace: ProviderInfo(requires=(namespace,)) for namespace in namespaces},
    )


def test_merging_joins_labels_and_keeps_the_longer_order() -> None:
    merged = merge_variants_info(
        [_info(("a",), x="a :: f :: 1"), _info(("a", "b"), x="a :: f :: 1", y="b :: g :: 1")]
    )
    assert merged.namespaces == ("a", "b")
    assert set(merged.variants) == {"x", "y"}
    assert merged.only("y").variants.keys() == {"y"}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (_info(("a",), x="a :: f :: 2"), "two sets of properties"),
        (_info(("b", "a"), y="a :: f :: 1"), "does not continue"),
        (VariantsInfo(("a",), {"null": Variant("null")}), "others do not"),
        (
            VariantsInfo(("a",), {}, {"a": ProviderInfo(requires=("other",))}),
            "two different providers",
        ),
    ],
)
def test_wheels_of_one_release_may_not_contradict_each_other(
    other: VariantsInfo, words: str
) -> None:
    with pytest.raises(VariantsJsonError, match=words):
        merge_variants_info([_info(("a",), x="a :: f :: 1"), other])
