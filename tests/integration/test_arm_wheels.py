"""Whole wheels for AArch64, compiled by the toolchain of the releases: sound, and with a defect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from integration.environments import ROOT, Release, run
from unit.variants.tiny_project import DIST_INFO, EPOCH, PACKAGE, copy_project
from variantwheel.checks.report import Result
from variantwheel.checks.suite import CheckOptions, check_wheels
from variantwheel.labelling import label_wheel
from variantwheel.project import Project, read_project
from variantwheel.wheel_archive import WheelArchive
from variantwheel.wheel_writing import write_wheel
from variantwheel_selector.wheel_name import WheelName

TAG = "manylinux_2_17_aarch64"
BASELINE = "tiny_variants/_native/baseline/libtiny.so"
NEOVERSE = "tiny_variants/_native/neoverse/libtiny.so"
DEFINITION = """
label = "neoverse"
summary = "Armv8.4-A"
[properties]
aarch64.version = ["8.4a"]
[[platforms]]
machine = "aarch64"
runner = "ubuntu-24.04-arm"
isa = "armv8.4"
"""
API = '__attribute__((visibility("default")))'
ADD = f"{API} int tiny_add(int* x) {{ return __atomic_fetch_add(x, 1, __ATOMIC_ACQ_REL); }}\n"
DOT = f"""{API} int tiny_dot(const signed char* x, const signed char* y) {{
  int sum = 0;
  for (int i = 0; i < 64; ++i) sum += x[i] * y[i];
  return sum;
}}
"""
SUM = f"""{API} double tiny_sum(const double* x, long n) {{
  double sum = 0;
  for (long i = 0; i < n; ++i) sum += x[i];
  return sum;
}}
"""
LEAK = f'{API} int leak(void) __asm__("_ZNSt6vectorIiE4leakEv");\nint leak(void) {{ return 1; }}\n'
BASE, LSE, ARMV84 = "generic", "generic+v8_1a", "generic+v8_4a"
SVE = f"{ARMV84}+sve"


@dataclass(frozen=True)
class ArmWheels:
    """Makes wheels for AArch64 of the small project."""

    zig: Path
    project: Project
    folder: Path

    def compile(self, source: str, cpu: str, *options: str) -> bytes:
        """Compiles C into a shared library, as the wheels' own are."""
        file, library = self.folder / "planted.c", self.folder / "planted.so"
        file.write_text(source, encoding="utf-8")
        # Linked for one CPU: zig makes a runtime library of its own for each.
        zig = (self.zig, "cc", "-target", "aarch64-linux-gnu.2.17", "-O3", "-g0", "-fPIC")
        run(
            *zig, f"-mcpu={cpu}", "-ffast-math", "-fno-sanitize=all", "-fvisibility=hidden",
            "-c", file, "-o", file.with_suffix(".o"),
        )  # fmt: skip
        run(
            *zig, f"-mcpu={BASE}", "-fno-sanitize=all", "-shared", file.with_suffix(".o"), *options,
            "-o", library,
        )  # fmt: skip
        return library.read_bytes()

    def write(self, label: str, libraries: Mapping[str, bytes], tag: str = TAG) -> Path:
        """Writes a wheel that is right but for its libraries and its tag."""
        metadata = "Metadata-Version: 2.4\nName: tiny-variants\nVersion: 1.0\n"
        files = {
            "tiny_variants/__init__.py": b"",
            f"{DIST_INFO}/METADATA": f"{metadata}License-File: LICENSE\n".encode(),
            f"{DIST_INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n",
            f"{DIST_INFO}/licenses/LICENSE": (PACKAGE / "LICENSE").read_bytes(),
            **libraries,
        }
        name = WheelName("tiny_variants", "1.0", "", "py3", "none", tag)
        info = self.project.variants_info([label])
        labelled = label_wheel(WheelArchive(name, DIST_INFO, files), label, info, None)
        return write_wheel(labelled, self.folder, EPOCH)

    def faults(self, wheel: Path, *dispatched: str) -> dict[str, str]:
        """The checks that fail, with their facts."""
        check = replace(self.project.check, dispatched_functions=dispatched)
        (report,) = check_wheels([wheel], replace(self.project, check=check), CheckOptions())
        failed = [item for item in report.findings if item.result is Result.FAILED]
        return {item.check: "\n".join(item.facts) for item in failed}


@pytest.fixture(scope="module")
def arm(release: Release, tmp_path_factory: pytest.TempPathFactory) -> ArmWheels:
    """The compiler is that which has just built the release."""
    tools = "build/variantwheel/environments/*/lib/python3*/site-packages"
    (zig,) = ROOT.glob(f"{tools}/ziglang/zig")
    folder = tmp_path_factory.mktemp("arm")
    project = copy_project(folder)
    (project / "variants" / "neoverse.toml").write_text(DEFINITION, encoding="utf-8")
    settings = project / "pyproject.toml"
    text = settings.read_text(encoding="utf-8")
    text = text.replace('priorities = ["x86_64"]', 'priorities = ["x86_64", "aarch64"]')
    settings.write_text(f'{text}exports = ["tiny_*"]\n', encoding="utf-8")
    return ArmWheels(zig, read_project(project), folder)


def test_what_is_sound_passes_and_each_planted_defect_fails_its_check(arm: ArmWheels) -> None:
    base, dot = arm.compile(ADD + DOT + SUM, BASE), arm.compile(DOT, ARMV84)
    atomic, wide = arm.compile(ADD, LSE), arm.compile(SUM, SVE)
    assert arm.faults(arm.write("null", {BASELINE: base})) == {}
    sound = arm.write("neoverse", {BASELINE: base, NEOVERSE: dot})
    assert arm.faults(sound) == {}

    def only_fault(label: str, libraries: Mapping[str, bytes], check: str, *dispatched: str) -> str:
        faults = arm.faults(arm.write(label, libraries), *dispatched)
        assert set(faults) == {check}, faults
        return faults[check]

    # Above the level: in the core of the baseline, in that of a better variant, and beside it.
    told = only_fault("null", {BASELINE: atomic}, "instructions")
    assert told.startswith(f"{BASELINE}: `ldaddal ")
    assert "in tiny_add at 0x" in told
    assert "needs LSE (armv8.1); 1 such" in told
    told = only_fault("neoverse", {BASELINE: atomic, NEOVERSE: dot}, "instructions")
    assert "needs LSE (armv8.1)" in told
    told = only_fault("neoverse", {BASELINE: dot, NEOVERSE: dot}, "instructions")
    assert f"{BASELINE}: " in told
    assert f"{NEOVERSE}: " not in told
    assert "needs DotProd (armv8.4)" in told
    told = only_fault("neoverse", {BASELINE: base, NEOVERSE: wide}, "instructions")
    assert told.startswith(f"{NEOVERSE}: ")
    assert "needs SVE or SME (no version)" in told
    # Code that asks the CPU first may hold them, and no other.
    assert arm.faults(arm.write("null", {BASELINE: atomic}), "tiny_add") == {}
    both = arm.compile(ADD + SUM, f"{LSE}+sve")
    told = only_fault("null", {BASELINE: both}, "instructions", "tiny_add")
    assert "LSE" not in told
    assert "needs SVE or SME" in told

    told = only_fault("neoverse", {BASELINE: base}, "level folders")
    assert told.startswith("no library lies in a folder 'neoverse'")
    stray = arm.compile(ADD + f"{API} int scratch(void) {{ return 2; }}\n", BASE)
    told = only_fault("null", {BASELINE: stray}, "exports")
    assert f"{BASELINE}: exports scratch, which" in told
    told = only_fault("null", {BASELINE: arm.compile(ADD + LEAK, BASE)}, "exports")
    assert "symbols of the C++ runtime" in told
    searching = arm.compile(ADD, BASE, "-Wl,-rpath,/opt/lib")
    assert "'/opt/lib'" in only_fault("null", {BASELINE: searching}, "search paths")

    other = arm.write("null", {BASELINE: base}, TAG.replace("aarch64", "x86_64"))
    faults = arm.faults(other)
    assert "for aarch64, the tag says x86_64" in faults["machine"]
    assert "not for x86_64" in faults["tags"]
    older = arm.write("null", {BASELINE: base}, "manylinux_2_5_aarch64")
    assert "promises manylinux_2_5_aarch64, auditwheel finds" in arm.faults(older)["tags"]
