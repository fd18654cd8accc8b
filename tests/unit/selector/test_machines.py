"""Every folder of tests/machines, and the real captures, against what is known about them."""

import json
from pathlib import Path
from typing import Any

import pytest

from unit.selector.tiny_release import NO_FILES, NULL, V3, V4, make_machine, release_info
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.model import Variant
from variantwheel_selector.providers import supported
from variantwheel_selector.providers.level_cap import NO_CAP
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import Settings, read_settings
from variantwheel_selector.tags import supported_tags

MACHINES = sorted(
    path for path in (Path(__file__).parents[2] / "machines").iterdir() if path.is_dir()
)
CAPTURES = Path(__file__).parents[4] / "shared/captures/cpuinfo"

NEOVERSE = Variant.from_strings("neoverse", ["aarch64 :: version :: 8.4a"])
X86_TAG, ARM_TAG = "py3-none-manylinux_2_17_x86_64", "py3-none-manylinux_2_17_aarch64"
RELEASE = Release(
    "tiny-native",
    "1.0",
    release_info([NULL, V3, V4, NEOVERSE]),
    {
        f"tiny_native-1.0-{tag}-{label}.whl": None
        for tag, label in [
            (X86_TAG, "null"),
            (ARM_TAG, "null"),
            (X86_TAG, "x86_64_v3"),
            (X86_TAG, "x86_64_v4"),
            (ARM_TAG, "neoverse"),
        ]
    },
)


def _expected(folder: Path) -> dict[str, Any]:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert isinstance(expected, dict)
    return expected


def test_there_are_machines() -> None:
    assert len(MACHINES) >= 33


@pytest.mark.parametrize("folder", MACHINES, ids=lambda path: path.name)
def test_supported_properties(folder: Path) -> None:
    expected = _expected(folder)
    support = supported(read_machine(folder), cap=NO_CAP)
    found = [
        f"{answer.namespace} :: {feature.name} :: {value}"
        for answer in support.values()
        for feature in answer.features
        for value in feature.values
    ]
    assert found == expected["properties"]
    assert any(answer.unknown for answer in support.values()) == expected["unknown"]


@pytest.mark.parametrize("folder", MACHINES, ids=lambda path: path.name)
def test_chosen_variant_and_reasons_against_the_others(folder: Path) -> None:
    expected = _expected(folder)
    machine = read_machine(folder)
    selection = select(RELEASE, Settings(), machine, supported_tags(machine))
    winner = selection.resolution.winner
    assert (winner.label if winner else None) == expected["chosen"]
    by_label = {item.label: item for item in selection.resolution.candidates}
    for label, words in expected["rejected"].items():
        assert not by_label[label].accepted
        reasons = "\n".join(by_label[label].reasons)
        for word in words:
            assert word in reasons


@pytest.mark.parametrize("label", ["x86_64_v3", "x86_64_v4"])
def test_a_variant_that_is_asked_for_is_not_capped(label: str) -> None:
    machine = read_machine(next(path for path in MACHINES if path.name == "zen4"))
    selection = select(
        RELEASE, read_settings({"variant": label}, NO_FILES), machine, supported_tags(machine)
    )
    assert selection.resolution.winner is not None
    assert selection.resolution.winner.label == label


# What the newest architecture versions of the captures are, by the rules of the provider.
_ARM_NEWEST = {
    "linux-amazon-cortex_a72": "8a",
    "linux-rocky8-a64fx": "8.2a",
    "linux-amazon-neoverse_v1": "8.4a",
    "linux-rhel8-neoverse_v1": "8.4a",
    "linux-rhel9-neoverse_n2": "9.1a",
    "linux-ubuntu22.04-neoverse_v2": "9.1a",
    "linux-unknown-neoverse_v2": "9.1a",
    "linux-ubuntu24.04-neoverse_v3ae": "9.2a",
    "linux-ubuntu22.04-ampere1a": "8.6a",
    "linux-asahi-m2": "8.6a",
}


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="captures are not beside this checkout")
def test_real_captures() -> None:
    captures = json.loads((CAPTURES / "expected.json").read_text(encoding="utf-8"))
    checked = 0
    for name, facts in captures.items():
        family = facts["family"]
        if facts["platform"] != "linux" or family not in ("x86_64", "aarch64"):
            continue
        text = (CAPTURES / name).read_text(encoding="utf-8", errors="replace")
        machine = make_machine(machine=family, texts={"cpuinfo.txt": text})
        feature, *_ = supported(machine, cap=NO_CAP)[family].features
        if family == "x86_64":
            assert feature.values[0] == facts["psabi_level"], name
        else:
            assert feature.values[0] == _ARM_NEWEST[name], name
            generic = facts["generic"].replace("aarch64", "8a").replace("armv", "")
            assert generic.replace("9.0a", "9a") in feature.values, name
        checked += 1
    assert checked >= 15
