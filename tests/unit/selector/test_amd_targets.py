"""Which code AMD's GPUs run: single targets, settings in target IDs, generic targets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.selector.gpu_release import PROVIDERS
from unit.selector.tiny_release import NO_FILES
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.model import Variant
from variantwheel_selector.providers.amd_targets import runnable_code, target_id
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.variants_json import VariantsInfo
from variantwheel_selector.vocabulary import problem_of_value

FOLDER = Path(__file__).parents[2] / "gpu_machines"
VALUES = ("gfx90a_xnack_on", "gfx90a_xnack_off", "gfx90a", "gfx10_3_generic", "gfx9_4_generic")
VARIANTS = [
    Variant("null"),
    *(Variant.from_strings(f"v{n}", [f"amd :: gfx_arch :: {v}"]) for n, v in enumerate(VALUES)),
]
INFO = VariantsInfo(tuple(PROVIDERS), {item.label: item for item in VARIANTS}, PROVIDERS)
RELEASE = Release(
    "tiny", "1.0", INFO, {f"tiny-1.0-py3-none-any-{item.label}.whl": None for item in VARIANTS}
)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("gfx1100", ("gfx1100", "gfx11_generic")),
        ("gfx908", ("gfx908",)),
        ("gfx906:sramecc-:xnack-",
         ("gfx906_sramecc_off_xnack_off", "gfx906_sramecc_off", "gfx906_xnack_off", "gfx906",
          "gfx9_generic_xnack_off", "gfx9_generic")),
        ("gfx942:sramecc+:xnack+",
         ("gfx942_sramecc_on_xnack_on", "gfx942_sramecc_on", "gfx942_xnack_on", "gfx942",
          "gfx9_4_generic_sramecc_on_xnack_on", "gfx9_4_generic_sramecc_on",
          "gfx9_4_generic_xnack_on", "gfx9_4_generic")),
    ],
)  # fmt: skip
def test_code_that_a_gpu_runs_best_first(target: str, code: tuple[str, ...]) -> None:
    assert runnable_code(target) == code
    for value in code:
        assert problem_of_value("amd", "gfx_arch", value) == ""


@pytest.mark.parametrize(
    ("processor", "sramecc", "xnack", "target"),
    [
        ("gfx90a", True, True, "gfx90a:sramecc+:xnack+"),
        ("gfx90a", None, None, "gfx90a:xnack-"),
        ("gfx906", False, False, "gfx906:sramecc-:xnack-"),
        ("gfx1030", True, True, "gfx1030"),
        ("gfx90c", None, True, "gfx90c"),
    ],
)
def test_settings_of_a_gpu(
    processor: str,
    sramecc: bool | None,  # noqa: FBT001 - a case
    xnack: bool | None,  # noqa: FBT001 - a case
    target: str,
) -> None:
    assert target_id(processor, sramecc=sramecc, xnack=xnack) == target


@given(st.sampled_from(["gfx90a", "gfx942", "gfx906", "gfx1012"]), st.booleans(), st.booleans())
def test_no_code_runs_under_both_settings_unless_it_says_nothing(
    processor: str,
    sramecc: bool,  # noqa: FBT001 - a case
    xnack: bool,  # noqa: FBT001 - a case
) -> None:
    here = set(runnable_code(target_id(processor, sramecc=sramecc, xnack=xnack)))
    there = set(runnable_code(target_id(processor, sramecc=sramecc, xnack=not xnack)))
    assert not any("xnack" in value for value in here & there)
    assert any("xnack" in value for value in here)


@pytest.mark.parametrize(
    ("machine", "stated", "labels"),
    [
        ("amd_xnack_on", {}, ["v0", "v2", "null"]),
        ("amd_mi210", {}, ["v1", "v2", "null"]),
        ("amd_one_family", {}, ["v3", "null"]),
        ("amd_mixed", {}, ["null"]),
        ("amd_mi210", {"assume-gfx": "gfx90a"}, ["v2", "null"]),
        ("amd_mi210", {"assume-gfx": "gfx90a:xnack+"}, ["v0", "v2", "null"]),
        ("amd_mi210", {"assume-gfx": "gfx90a:xnack+,gfx90a:xnack-"}, ["v2", "null"]),
        ("amd_mi210", {"assume-gfx": "gfx950"}, ["v4", "null"]),
        ("nvidia_h100", {}, ["null"]),
    ],
)
def test_settings_must_be_equal_or_absent(
    machine: str, stated: dict[str, str], labels: list[str]
) -> None:
    settings = read_settings(stated, NO_FILES)
    found = select(RELEASE, settings, read_machine(FOLDER / machine)).resolution.candidates
    assert [item.label for item in found if item.accepted] == labels


def test_the_reason_names_the_target_with_its_settings() -> None:
    settings = read_settings(None, NO_FILES)
    found = select(RELEASE, settings, read_machine(FOLDER / "amd_xnack_on")).resolution.candidates
    reasons = {item.label: "\n".join(item.reasons) for item in found}
    assert "this machine supports gfx90a:sramecc+:xnack+ (KFD topology" in reasons["v1"]
    assert "gfx90a_xnack_off" in reasons["v1"]
