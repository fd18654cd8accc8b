"""The same release on many machines: stock pip through the selector, uv's preview, and variantlib.

Each machine is stated by variables that all three read. Where a tool chooses otherwise, the reason
is one of DIFFERENCES, which docs/installing.md explains.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
import variantlib.api  # type: ignore[import-untyped]
from variantlib.plugins.loader import (  # type: ignore[import-untyped]
    VARIANT_PROVIDER_CACHE_TABLE,
)

from integration.environments import ROOT, run
from integration.environments import Release as Built
from integration.many_variants import PROJECT, UV, Home, ManyVariants
from variantwheel.release_folder import machine_of
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.manifest import MANIFEST_PATH, Manifest, parse_manifest
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.variants_json import parse_variants_json
from variantwheel_selector.wheel_name import WheelName

PROVIDERS = ROOT / "tests/packages/variant_providers"
DIFFERENCES = {
    "cap": "v4 only when asked for",
    "all-devices": "every device must be served",
    "older-ptx": "PTX of an older major counts",
    "no-amd": "uv has no provider for AMD",
}


@dataclass(frozen=True)
class Stated:
    """A machine as its user states it.

    Attributes:
        name: For messages.
        chosen: The label that the selector chooses.
        cpu: Level of x86-64.
        cuda: The driver's CUDA version; none without NVIDIA.
        sm: Compute capabilities.
        gfx: Targets of AMD GPUs.
        rocm: ROCm's version.
        others: Tools that choose another label, each with the label and a key of DIFFERENCES.
    """

    name: str
    chosen: str
    cpu: str = "v2"
    cuda: str = ""
    sm: str = ""
    gfx: str = ""
    rocm: str = ""
    others: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """What the tools read; this project's own variables say only what no other tool can."""
        found = {"VARIANTWHEEL_ASSUME_CPU": f"x86-64-{self.cpu}", "PARITY_X86_64_LEVEL": self.cpu}
        if self.cuda:
            found["NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"] = self.cuda
            found["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = self.sm
        else:
            found["VARIANTWHEEL_ASSUME_CUDA"] = ""
        if self.gfx:
            found["AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"] = self.gfx
            found["AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION"] = self.rocm
        else:
            found["VARIANTWHEEL_ASSUME_GFX"] = ""
        return found

    def expected(self, tool: str) -> str:
        return self.others.get(tool, (self.chosen, ""))[0]


NO_AMD = {"uv": ("null", "no-amd")}
OLDER_PTX = dict.fromkeys(("uv", "variantlib"), ("null", "older-ptx"))
# On this repository's own variants.
MACHINES = [
    Stated("baseline", "null", cpu="v1"),
    Stated("v2", "null"),
    Stated("v3", "x86_64_v3", cpu="v3"),
    Stated("v4", "x86_64_v3", cpu="v4"),
    Stated("Kepler", "null", cuda="11.4", sm="3.5"),
    Stated("Pascal", "cu11", cuda="12.2", sm="6.1"),
    Stated("A100, old driver", "cu11", cuda="11.4", sm="8.0"),
    Stated("L4", "cu12", cuda="12.8", sm="8.9"),
    Stated("B200, older driver", "cu12", cuda="12.8", sm="10.0"),
    Stated("H100", "cu13", cuda="13.0", sm="9.0"),
    Stated("RTX 5090", "cu13", cuda="13.1", sm="12.0"),
    Stated("newer than known", "cu13", cuda="14.0", sm="13.0", others=OLDER_PTX),
    Stated("MI300X", "rocm", gfx="gfx942", rocm="6.3", others=NO_AMD),
    Stated("MI210, too old a ROCm", "null", gfx="gfx90a", rocm="5.6"),
    Stated("MI100", "null", gfx="gfx908", rocm="6.3"),
    Stated("both vendors", "cu12", cuda="12.8", sm="9.0", gfx="gfx942", rocm="6.3"),
    Stated("V100 beside B200", "cu12", cuda="12.8", sm="7.0,10.0"),
    Stated(
        "P40 beside H100", "cu11", cuda="12.8", sm="6.1,9.0",
        others={"variantlib": ("cu12", "all-devices")},
    ),
]  # fmt: skip
# uv takes no list of devices, and another machine's CPU only as x86-64-v2.
FOR_UV = [machine for machine in MACHINES if machine.cpu == "v2" and "," not in machine.sm]

# On a release with more levels and fewer architectures, where orders differ more.
ON_MANY = [
    Stated("v2", "x86_64_v2"),
    Stated("v4", "x86_64_v3", cpu="v4", others={"variantlib": ("x86_64_v4", "cap")}),
    Stated("old driver", "x86_64_v2", cuda="11.4", sm="8.0"),
    Stated("A100", "cu12", cuda="12.4", sm="8.0"),
    Stated(
        "B200, older driver", "cu12", cuda="12.8", sm="10.0",
        others={"variantlib": ("x86_64_v2", "older-ptx")},
    ),
    Stated("MI210, other ROCm", "x86_64_v2", gfx="gfx90a", rocm="6.2"),
]  # fmt: skip


# What the selector chooses on captured machines, and what variantlib does.
CAPTURED_DIFFERENCES = {
    "amd_mixed": ("rocm", "x86_64_v3"),  # all-devices
    "nvidia_newer_device": ("cu13", "x86_64_v3"),  # older-ptx
    "nvidia_newer_than_known": ("cu13", "x86_64_v3"),  # older-ptx
}


def test_there_are_machines_enough(own: ManyVariants) -> None:
    assert len(MACHINES) >= 12
    there = set(own.release.info.variants)
    assert there == {"null", "x86_64_v3", "neoverse", "cu11", "cu12", "cu13", "rocm"}
    assert {machine.chosen for machine in MACHINES} == there - {"neoverse"}
    assert len(FOR_UV) >= 12


def test_stock_pip_and_the_selector(own: ManyVariants, home: Home) -> None:
    """Whole installations, two at a time."""
    base = {"PIP_INDEX_URL": own.index, "PIP_NO_CACHE_DIR": "1", "PIP_NO_DEPS": "1"}

    def install(number: int) -> str:
        name = f"environment{number}"
        home.pip(name, "install", PROJECT, env=base | MACHINES[number].variables())
        return home.label(name)

    home.variables({})
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(install, range(len(MACHINES))))
    assert found == [machine.chosen for machine in MACHINES]


def test_uv_with_wheel_variants(own: ManyVariants, home: Home) -> None:
    command = (UV, "pip", "install", "--preview-features", "wheel-variants", "--reinstall",
               "--python-platform", "x86_64-unknown-linux-gnu",
               "--python", home.environment("a"))  # fmt: skip
    for machine in FOR_UV:
        environment = {"UV_DEFAULT_INDEX": own.index, "UV_NO_CONFIG": "1"} | machine.variables()
        run(*command, PROJECT, env=home.variables(environment))
        assert home.label("a") == machine.expected("uv"), machine.name
        assert not (home.dist_info("a") / "variant-decision.json").exists()


def variantlib_choice(
    monkeypatch: pytest.MonkeyPatch, release: Release, variables: Mapping[str, str], machine: str
) -> str:
    """The first label in variantlib's order that has a wheel for the machine."""
    with monkeypatch.context() as patch:
        for name, value in {"PYTHONPATH": str(PROVIDERS), **variables}.items():
            patch.setenv(name, value)
        VARIANT_PROVIDER_CACHE_TABLE.clear()
        document = release.variants.to_json()
        order = variantlib.api.get_variants_by_priority(variants_json=document)
    names = [WheelName.from_str(name) for name in release.hashes]
    there = {name.label for name in names if name.platform.endswith(machine)}
    return next(str(item.label) for item in order if item.label in there)


def test_variantlib(own: ManyVariants, many: ManyVariants, monkeypatch: pytest.MonkeyPatch) -> None:
    for served, machines in ((own, MACHINES), (many, ON_MANY)):
        release = Release.from_manifest(served.release.manifest)
        here = read_machine(ROOT / "tests/machines/zen4")
        for machine in machines:
            variables = machine.variables()
            found = variantlib_choice(monkeypatch, release, variables, "x86_64")
            assert found == machine.expected("variantlib"), machine.name
            settings = read_settings(None, {"VARIANTWHEEL_CONFIG": "/dev/null"} | variables)
            winner = select(release, settings, here).resolution.winner
            assert winner is not None
            assert winner.label == machine.chosen, machine.name


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the release is of this machine")
def test_the_release_as_built_is_judged_alike(
    own: ManyVariants, release: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests above find on wheels without content holds for the real ones."""
    with tarfile.open(release.sdist) as archive:
        member = f"{release.sdist.name.removesuffix('.tar.gz')}/{MANIFEST_PATH}"
        manifest = parse_manifest(_present(archive.extractfile(member)).read())
    (file,) = release.folder.glob("horovod_variants-*-variants.json")
    assert parse_variants_json(file.read_bytes()) == manifest.variants
    here = {label for label, machine in _offered(own.release.manifest) if machine == "x86_64"}
    assert {label for label, _ in _offered(manifest)} == set(manifest.variants.variants) == here
    assert manifest.variants.namespaces == own.release.info.namespaces
    for label, variant in manifest.variants.variants.items():
        assert variant == own.release.info.variants[label]
    real = Release.from_manifest(manifest)
    zen4 = read_machine(ROOT / "tests/machines/zen4")
    for machine in MACHINES:
        variables = machine.variables()
        settings = read_settings(None, {"VARIANTWHEEL_CONFIG": "/dev/null"} | variables)
        winner = select(real, settings, zen4).resolution.winner
        assert winner is not None
        assert winner.label == machine.chosen, machine.name
        found = variantlib_choice(monkeypatch, real, variables, "x86_64")
        assert found == machine.expected("variantlib"), machine.name


def _offered(manifest: Manifest) -> set[tuple[str, str]]:
    """Labels and machines of a release's wheels."""
    return {
        (wheel.label, machine_of(WheelName.from_str(wheel.filename))) for wheel in manifest.wheels
    }


def _present(file: IO[bytes] | None) -> IO[bytes]:
    assert file is not None
    return file


def captured() -> list[tuple[Path, dict[str, str], str]]:
    """Captured machines, what the providers are told of each, and its architecture."""
    found = []
    for folder in sorted([*(ROOT / "tests/machines").iterdir(),
                          *(ROOT / "tests/gpu_machines").iterdir()]):  # fmt: skip
        expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        architecture = read_machine(folder).machine
        best = next(iter(expected.get("cpu") or expected.get("properties") or []), None)
        namespace, feature, value = best.split(" :: ") if best else ("", "", "")
        variables = {f"PARITY_{namespace}_{feature}".upper(): value} if best else {}
        nvidia, amd = expected.get("nvidia"), expected.get("amd")
        if nvidia and len(nvidia) == 2:
            code = nvidia[1].partition("_")[0]
            variables["NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"] = nvidia[0]
            variables["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] = f"{code[:-1]}.{code[-1]}"
        if amd and len(amd) == 2:
            variables["AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"] = amd[0]
            variables["AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION"] = amd[1]
        found.append((folder, variables, architecture))
    return found


def test_captured_machines(own: ManyVariants, monkeypatch: pytest.MonkeyPatch) -> None:
    release = Release.from_manifest(own.release.manifest)
    settings = read_settings(None, {"VARIANTWHEEL_CONFIG": "/dev/null"})
    cache: dict[str, str] = {}
    compared: dict[str, tuple[str, str]] = {}
    for folder, variables, architecture in captured():
        winner = select(release, settings, read_machine(folder)).resolution.winner
        if winner is None:
            continue  # no wheel for its tags, which variantlib does not look at
        key = json.dumps([variables, architecture], sort_keys=True)
        if key not in cache:
            cache[key] = variantlib_choice(monkeypatch, release, variables, architecture)
        compared[folder.name] = (str(winner.label), cache[key])
    different = {name: labels for name, labels in compared.items() if labels[0] != labels[1]}
    assert different == CAPTURED_DIFFERENCES
    assert len(compared) >= 70


def test_every_difference_is_documented() -> None:
    text = (ROOT / "docs/installing.md").read_text(encoding="utf-8")
    for words in DIFFERENCES.values():
        assert words in text
    used = {reason for machine in [*MACHINES, *ON_MANY] for _, reason in machine.others.values()}
    assert used <= set(DIFFERENCES)
