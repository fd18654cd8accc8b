"""PEP 825's matching and ordering: rules, properties of the order, and variantlib as oracle."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from variantlib.api import (  # type: ignore[import-untyped]  # has no annotations
    get_variants_by_priority,
)

from unit.selector.tiny_release import make_machine
from variantwheel_selector.errors import VariantMisfitError
from variantwheel_selector.model import Variant, VariantProperty
from variantwheel_selector.providers import release_support
from variantwheel_selector.resolution import choose, nothing_fits
from variantwheel_selector.resolve import Resolution, resolve
from variantwheel_selector.variants_json import (
    ProviderInfo,
    VariantsInfo,
    render_variants_json,
)

TAGS = ("py3-none-manylinux_2_36_x86_64", "py3-none-manylinux_2_17_x86_64", "py3-none-any")

# What an imagined machine supports, best first; stated by the release, so that nothing is probed.
PROVIDERS = {
    "nvidia": ProviderInfo(
        static_properties={
            "cuda_version_lower_bound": ("12.8", "12.6", "12.0"),
            "sm_arch": ("90",),
        },
        feature_order=("cuda_version_lower_bound", "sm_arch"),
    ),
    "x86_64": ProviderInfo(static_properties={"level": ("v4", "v3", "v2", "v1")}),
}


def resolve_labels(info: VariantsInfo, tag: str = "py3-none-any") -> Resolution:
    names = [f"a-1-{tag}-{label}.whl" for label in info.variants]
    return resolve(info, names, release_support(info, make_machine()), TAGS)


def accepted(resolution: Resolution) -> list[str | None]:
    return [item.label for item in resolution.candidates if item.accepted]


def info_of(*variants: Variant) -> VariantsInfo:
    return VariantsInfo(tuple(PROVIDERS), {v.label: v for v in variants}, PROVIDERS)


CUDA, SM, LEVEL = "nvidia :: cuda_version_lower_bound", "nvidia :: sm_arch", "x86_64 :: level"

RANKED = [
    Variant.from_strings("gpu_and_cpu_v4", [f"{CUDA} :: 12.8", f"{LEVEL} :: v4"]),
    Variant.from_strings("gpu_and_cpu_v2", [f"{CUDA} :: 12.8", f"{LEVEL} :: v2"]),
    Variant.from_strings("gpu", [f"{CUDA} :: 12.8"]),
    Variant.from_strings("one_of_two", [f"{CUDA} :: 99.0", f"{CUDA} :: 12.6"]),
    Variant.from_strings("older_cuda", [f"{CUDA} :: 12.0"]),
    Variant.from_strings("second_feature", [f"{SM} :: 90"]),
    Variant.from_strings("cpu_v4", [f"{LEVEL} :: v4"]),
    Variant("null"),
]
MISFITS = [
    Variant.from_strings("newer_cuda", [f"{CUDA} :: 13.0"]),
    Variant.from_strings("other_sm", [f"{SM} :: 80"]),
    Variant.from_strings("one_feature_off", [f"{CUDA} :: 12.8", f"{SM} :: 80"]),
    Variant.from_strings("cpu_off", [f"{CUDA} :: 12.8", f"{LEVEL} :: v5"]),
    Variant.from_strings("unknown_feature", ["nvidia :: colour :: red"]),
]


def test_the_order_of_pep_825() -> None:
    for shuffled in (RANKED + MISFITS, list(reversed(RANKED + MISFITS)), MISFITS + RANKED):
        resolution = resolve_labels(info_of(*shuffled))
        assert accepted(resolution) == [variant.label for variant in RANKED]
        assert resolution.winner is resolution.candidates[0]
        rejected = resolution.candidates[len(RANKED) :]
        assert {item.label for item in rejected} == {variant.label for variant in MISFITS}
        assert all(item.reasons for item in rejected)


def test_equal_variants_are_ordered_by_label() -> None:
    twins = [Variant.from_strings(label, [f"{LEVEL} :: v3"]) for label in ("b", "a", "c")]
    assert accepted(resolve_labels(info_of(*twins))) == ["a", "b", "c"]


def test_plain_wheels_come_after_the_null_variant() -> None:
    info = info_of(Variant("null"))
    names = ["a-1-py3-none-any.whl", "a-1-py3-none-any-null.whl"]
    resolution = resolve(info, names, release_support(info, make_machine()), TAGS)
    assert accepted(resolution) == ["null", None]


def test_the_variant_counts_before_the_tag_and_the_tag_before_the_build_number() -> None:
    info = info_of(Variant("null"), Variant.from_strings("v3", [f"{LEVEL} :: v3"]))
    names = [
        "a-1-py3-none-manylinux_2_36_x86_64-null.whl",
        "a-1-9-py3-none-any-v3.whl",
        "a-1-1-py3-none-manylinux_2_17_x86_64-v3.whl",
        "a-1-2-py3-none-manylinux_2_17_x86_64-v3.whl",
        "a-1-3-py3-none-win_amd64-v3.whl",
    ]
    resolution = resolve(info, names, release_support(info, make_machine()), TAGS)
    assert resolution.winner is not None
    assert resolution.winner.filename == "a-1-2-py3-none-manylinux_2_17_x86_64-v3.whl"


def test_a_wheel_for_another_platform_is_rejected_with_its_tag() -> None:
    resolution = resolve_labels(info_of(Variant("null")), tag="cp39-cp39-win_amd64")
    assert resolution.winner is None
    assert "only cp39-cp39-win_amd64" in resolution.candidates[0].reasons[-1]
    assert "null: no wheel for this Python and platform" in str(nothing_fits("a", "1", resolution))


def test_a_refused_wheel_does_not_count() -> None:
    info = info_of(Variant("null"))
    name = "a-1-py3-none-any-null.whl"
    support = release_support(info, make_machine())
    resolution = resolve(info, [name], support, TAGS, {name: "needs Python >=4"})
    assert resolution.winner is None
    assert resolution.candidates[0].reasons[-1] == "needs Python >=4"


def test_a_label_without_properties_in_the_json_is_rejected() -> None:
    info = info_of(Variant("null"))
    names = ["a-1-py3-none-any-null.whl", "a-1-py3-none-any-stray.whl"]
    resolution = resolve(info, names, release_support(info, make_machine()), TAGS)
    assert accepted(resolution) == ["null"]


def test_a_named_variant_wins_only_if_it_fits() -> None:
    resolution = resolve_labels(info_of(*RANKED, *MISFITS))
    chosen = choose(resolution, "cpu_v4", forced=False)
    assert chosen.winner is not None
    assert (chosen.winner.label, chosen.forced) == ("cpu_v4", False)
    with pytest.raises(VariantMisfitError, match="newer_cuda! installs it nevertheless"):
        choose(resolution, "newer_cuda", forced=False)
    with pytest.raises(VariantMisfitError, match="no variant 'cu99'; the release has cpu_off"):
        choose(resolution, "cu99", forced=True)


def test_force_does_not_reach_across_platforms() -> None:
    resolution = resolve_labels(info_of(*RANKED), tag="cp39-cp39-win_amd64")
    with pytest.raises(VariantMisfitError, match="no wheel for this Python"):
        choose(resolution, "gpu", forced=True)


def test_forced_choice_is_marked() -> None:
    forced = choose(resolve_labels(info_of(*RANKED, *MISFITS)), "newer_cuda", forced=True)
    assert forced.winner is not None
    assert (forced.winner.label, forced.winner.accepted, forced.forced) == (
        "newer_cuda",
        False,
        True,
    )


def test_optional_unknown_and_builtin_providers_support_nothing() -> None:
    providers = {
        "opt": ProviderInfo(static_properties={"f": ("1",)}, optional=True),
        "tpu": ProviderInfo(requires=("tpu-variant-provider",)),
        "torch": ProviderInfo(builtin="abi_dependency"),
    }
    variants = [Variant.from_strings(name, [f"{name} :: f :: 1"]) for name in providers]
    info = VariantsInfo(tuple(providers), {v.label: v for v in variants}, providers)
    resolution = resolve_labels(info)
    assert accepted(resolution) == []
    reasons = {item.label: item.reasons[0] for item in resolution.candidates}
    assert "optional" in reasons["opt"]
    assert "no provider" in reasons["tpu"]
    assert "abi_dependency" in reasons["torch"]


NAMESPACES = ("a", "b", "c")
FEATURES = ("f", "g")
VALUES = ("1", "2", "3", "4")


@st.composite
def releases(draw: st.DrawFn) -> VariantsInfo:
    """Releases whose providers state what the machine supports."""
    providers: dict[str, ProviderInfo] = {}
    namespaces = draw(st.permutations(NAMESPACES))
    for namespace in namespaces:
        order = tuple(draw(st.permutations(FEATURES)))
        static = {
            feature: tuple(
                draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True))
            )
            for feature in order
        }
        providers[namespace] = ProviderInfo(static_properties=static, feature_order=order)
    item = st.builds(
        VariantProperty,
        st.sampled_from(NAMESPACES),
        st.sampled_from(FEATURES),
        st.sampled_from(VALUES),
    )
    # Distinct: variantlib refuses two labels for one set of properties.
    sets = draw(st.lists(st.frozensets(item, min_size=1, max_size=4), max_size=6, unique=True))
    variants = {f"x{number}": Variant(f"x{number}", tuple(s)) for number, s in enumerate(sets)}
    variants["null"] = Variant("null")
    return VariantsInfo(tuple(namespaces), variants, providers)


@given(releases())
def test_variantlib_gives_the_same_order(info: VariantsInfo) -> None:
    theirs = get_variants_by_priority(variants_json=json.loads(render_variants_json(info)))
    assert accepted(resolve_labels(info)) == [variant.label for variant in theirs]


@given(releases())
def test_the_null_variant_fits_and_is_last(info: VariantsInfo) -> None:
    assert accepted(resolve_labels(info))[-1] == "null"


@given(releases(), st.data())
def test_the_order_of_the_files_does_not_matter(info: VariantsInfo, data: st.DataObject) -> None:
    labels = data.draw(st.permutations(sorted(info.variants)))
    turned = VariantsInfo(info.namespaces, {k: info.variants[k] for k in labels}, info.providers)
    assert accepted(resolve_labels(turned)) == accepted(resolve_labels(info))


@given(releases())
def test_needing_more_never_makes_a_variant_fit(info: VariantsInfo) -> None:
    """Adding a feature can turn a fitting variant into a misfit, never the other way round."""
    fitting = set(accepted(resolve_labels(info)))
    for first, second in itertools.combinations(info.variants.values(), 2):
        if set(first.features()) & set(second.features()):
            continue  # values of one feature are alternatives: more of them ask for less
        joined = Variant("joined", first.properties + second.properties)
        both = VariantsInfo(info.namespaces, {"joined": joined}, info.providers)
        assert bool(accepted(resolve_labels(both))) == ({first.label, second.label} <= fitting)


@given(releases())
def test_of_two_fitting_variants_the_one_that_needs_more_is_preferred(info: VariantsInfo) -> None:
    """One variant's features and one feature more, of a later namespace: it comes first."""
    last = info.namespaces[-1]
    for label in accepted(resolve_labels(info)):
        base = info.variants[str(label)]
        if any(item.namespace == last for item in base.properties) or not base.properties:
            continue
        provider = (info.providers or {})[last]
        feature = provider.feature_order[0]
        extra = VariantProperty(last, feature, provider.static_properties[feature][0])
        # The label sorts last, so that it cannot be what decides.
        longer = Variant("zz", (*base.properties, extra))
        two = VariantsInfo(info.namespaces, {base.label: base, "zz": longer}, info.providers)
        assert accepted(resolve_labels(two)) == ["zz", base.label]
