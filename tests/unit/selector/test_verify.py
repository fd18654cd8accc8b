"""An installed variant compared with a machine."""

from pathlib import Path
from typing import Any

import pytest

from unit.selector.test_manifest import DECISION
from unit.selector.tiny_release import NO_FILES, NULL, V3, V4, make_machine, release_info
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.decision import DecidedCandidate, Decision, render_decision
from variantwheel_selector.errors import DecisionError, NotInstalledError, VariantsJsonError
from variantwheel_selector.installed import installed_variants
from variantwheel_selector.machine import Machine, PythonFacts
from variantwheel_selector.machine_folder import write_machine
from variantwheel_selector.providers.x86_64 import LEVEL_FLAGS
from variantwheel_selector.record import replace
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.variants_json import render_variants_json
from variantwheel_selector.verify import verify_distribution

INFO = release_info([NULL, V3, V4])


def machine_of_level(level: str) -> Machine:
    levels = [name for name in LEVEL_FLAGS if name <= level]
    return make_machine(*[flag for name in levels for flag in LEVEL_FLAGS[name]])


def install(
    site: Path,
    label: str | None = None,
    decision: Decision | None = None,
    installer: str = "pip",
    project: str = "tiny_native",
) -> None:
    """Write the `.dist-info` folder that an installer would leave behind."""
    folder = site / f"{project}-1.0.dist-info"
    folder.mkdir()
    name = project.replace("_", "-")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.2\nName: {name}\nVersion: 1.0\n")
    (folder / "INSTALLER").write_text(f"{installer}\n")
    if label is not None:
        (folder / "variant.json").write_text(render_variants_json(INFO.only(label)))
    if decision is not None:
        (folder / "variant-decision.json").write_text(render_decision(decision))


def decided(label: str | None, **settings: str) -> Decision:
    """A decision for `label` in a release of null, x86_64_v3 and x86_64_v4."""
    candidates = tuple(
        DecidedCandidate(
            variant.label,
            accepted=True,
            properties=tuple(map(str, variant.properties)),
            filename=f"tiny_native-1.0-py3-none-any-{variant.label}.whl",
        )
        for variant in (V3, NULL, V4)
    )
    return replace(DECISION, label=label, candidates=candidates, settings=settings)


def test_a_variant_that_fits(site: Path) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    found = verify_distribution("tiny-native", machine_of_level("v4"))
    assert (found.project, found.version, found.label) == ("tiny-native", "1.0", "x86_64_v3")
    assert found.fits is True
    assert found.installed_properties == ("x86_64 :: level :: v3",)
    assert found.decision == decided("x86_64_v3")
    assert found.better_label is None


def test_a_variant_that_does_not_fit(site: Path) -> None:
    install(site, "x86_64_v3")
    found = verify_distribution("Tiny.Native", machine_of_level("v2"))
    assert found.fits is False
    assert "lacks abm avx avx2" in found.reason
    assert found.repair_command == (
        "pip install --no-cache-dir --force-reinstall --no-deps tiny-native==1.0"
    )


def test_the_repair_command_is_that_of_the_installer(site: Path) -> None:
    install(site, "null", installer="uv")
    found = verify_distribution("tiny-native", machine_of_level("v2"))
    assert (
        found.repair_command == "uv pip install --no-cache --reinstall --no-deps tiny-native==1.0"
    )


@pytest.mark.parametrize("recorded", [True, False], ids=["decision", "WHEEL"])
@pytest.mark.parametrize(
    ("tag", "changed", "fits"),
    [
        ("py3-none-any", {"libc": "musl 1.2", "machine": "aarch64"}, True),
        ("py3-none-manylinux_2_17_x86_64", {}, True),
        ("py3-none-manylinux_2_17_x86_64", {"libc": "glibc 2.3"}, False),
        ("py3-none-manylinux_2_17_x86_64", {"libc": "musl 1.2"}, False),
        ("py3-none-manylinux_2_17_x86_64", {"machine": "aarch64"}, False),
        ("py3-none-manylinux_2_17_x86_64", {"pointer_bits": 32}, False),
        ("py3-none-manylinux_2_17_x86_64", {"libc": None}, None),
        ("py3-none-manylinux_2_17_x86_64", {"libc": None, "machine": "aarch64"}, False),
        ("py3-none-linux_x86_64", {"libc": None}, True),
        ("cp311-cp311-linux_x86_64", {}, True),
        ("cp312-cp312-linux_x86_64", {}, False),
        # A capture does not say its version of macOS.
        ("py3-none-macosx_14_0_arm64", {"system": "darwin", "machine": "arm64"}, True),
    ],
)
def test_a_wheel_that_cannot_be_loaded_does_not_fit(
    site: Path, tag: str, changed: dict[str, Any], fits: object, recorded: object
) -> None:
    filename = f"tiny_native-1.0-{tag}-null.whl"
    install(site, "null", replace(decided("null"), filename=filename) if recorded else None)
    # Of a wheel that was renamed afterwards, the name that was chosen counts.
    wheel_tag = "py3-none-any" if recorded else tag
    wheel = f"Wheel-Version: 1.0\nTag: py2-none-any\nTag: {wheel_tag}\n"
    (site / "tiny_native-1.0.dist-info/WHEEL").write_text(wheel)
    found = verify_distribution("tiny-native", replace(machine_of_level("v2"), **changed))
    assert found.fits is fits
    if fits is True:
        assert found.reason == "needs nothing"
    else:
        assert "its wheel is for " in found.reason
        assert tag in found.reason
        assert found.reason.endswith("; needs nothing")
    assert not (fits is False and found.better_label)


def test_an_installed_v4_is_not_a_misfit_because_of_the_cap(site: Path) -> None:
    install(site, "x86_64_v4", decided("x86_64_v4", variant="x86_64_v4 (somewhere)"))
    found = verify_distribution("tiny-native", machine_of_level("v4"))
    assert found.fits is True
    assert found.better_label is None


def test_the_null_variant_fits_and_a_better_one_is_named(site: Path) -> None:
    """A wheel from a shared cache: chosen on an old machine, found on a new one."""
    install(site, "null", decided("null"))
    found = verify_distribution("tiny-native", machine_of_level("v4"))
    assert (found.fits, found.better_label) == (True, "x86_64_v3")
    assert verify_distribution("tiny-native", machine_of_level("v2")).better_label is None


def test_who_asked_for_a_variant_is_not_told_of_a_better_one(site: Path) -> None:
    install(site, "null", decided("null", variant="null (config setting 'variant')"))
    assert verify_distribution("tiny-native", machine_of_level("v4")).better_label is None


@pytest.mark.parametrize(
    "stated",
    [{}, {"variant": "null"}, {"variant": "x86_64_v4"}, {"prefer": "cpu::v4"}, {"prefer": "cpu"}],
)
def test_an_unchanged_machine_has_not_changed(site: Path, stated: dict[str, str]) -> None:
    """Whoever asks for a variant may have more than the default cap on CPU levels."""
    variables = {f"VARIANTWHEEL_{name.upper()}": text for name, text in stated.items()}
    release = Release("tiny-native", "1.0", INFO, {
        f"tiny_native-1.0-py3-none-any-{label}.whl": "0" * 64 for label in INFO.variants
    })  # fmt: skip
    settings = read_settings(None, NO_FILES | variables)
    decision = select(release, settings, machine_of_level("v4")).decision("1.0")
    install(site, decision.label, decision)
    assert verify_distribution("tiny-native", machine_of_level("v4")).changes == {}
    changed = verify_distribution("tiny-native", machine_of_level("v2")).changes
    assert list(changed) == ["x86_64 :: level"]
    assert changed["x86_64 :: level"].endswith(" -> v2, v1 (/proc/cpuinfo)")


def test_a_variant_without_wheel_is_not_better(site: Path) -> None:
    decision = decided("null")
    without = [replace(item, filename=None) for item in decision.candidates[:1]]
    install(site, "null", replace(decision, candidates=(*without, *decision.candidates[1:])))
    assert verify_distribution("tiny-native", machine_of_level("v3")).better_label is None


def test_a_variant_without_wheel_for_the_earlier_python_is_perhaps_better(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = machine_of_level("v3")
    decision = replace(decided("null"), machine=machine.facts())
    without = [replace(item, filename=None) for item in decision.candidates[:1]]
    install(site, "null", replace(decision, candidates=(*without, *decision.candidates[1:])))
    newer = replace(machine, python=PythonFacts("cp313", "3.13.1", ("cp313",)))
    other = replace(machine, libc="musl 1.2")
    for changed in (newer, other):
        found = verify_distribution("tiny-native", changed)
        assert (found.better_label, found.perhaps_better) == (None, ("x86_64_v3",))
    patched = replace(machine, python=replace(machine.python, version="3.11.9"))
    for same in (machine, patched, replace(newer, texts=machine_of_level("v2").texts)):
        assert verify_distribution("tiny-native", same).perhaps_better == ()
    write_machine(newer, site / "newer")
    assert run_commandline(["verify", "tiny-native", "--machine", str(site / "newer")]) == 0
    said = capsys.readouterr().out
    assert "x86_64_v3 would fit better, but had no wheel for the Python or platform" in said
    assert "variantwheel explain tiny-native==1.0 --index URL" in said


def test_unknown_facts_are_not_a_misfit(site: Path) -> None:
    install(site, "x86_64_v3")
    machine = make_machine(texts={}, unknown={"cpuinfo": "cannot read /proc/cpuinfo: EPERM"})
    found = verify_distribution("tiny-native", machine)
    assert found.fits is None
    assert "cannot read /proc/cpuinfo: EPERM" in found.reason


def test_what_is_no_variant(site: Path) -> None:
    install(site)
    found = verify_distribution("tiny-native", machine_of_level("v3"))
    assert (found.label, found.fits) == (None, None)
    assert found.reason == "not a variant: its dist-info holds no variant.json"
    assert installed_variants() == ([], [])


def test_what_was_built_from_source(site: Path) -> None:
    install(site, None, replace(decided(None), filename=None, sha256=None))
    found = verify_distribution("tiny-native", machine_of_level("v3"))
    assert (found.label, found.fits) == (None, None)
    assert "built from source" in found.reason
    assert installed_variants() == (["tiny-native"], [])


def test_a_plain_wheel_that_a_selector_chose_was_not_built_from_source(site: Path) -> None:
    plain = "tiny_native-1.0-py3-none-any.whl"
    install(site, None, replace(decided(None), filename=plain))
    found = verify_distribution("tiny-native", machine_of_level("v3"))
    assert (found.label, found.fits) == (None, None)
    assert found.reason == f"a plain wheel, which is no variant: {plain}"


def test_a_variant_that_lost_its_variant_json_is_incomplete(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, None, decided("x86_64_v3"))
    assert run_commandline(["verify", "tiny-native"]) == 2
    said = capsys.readouterr().err
    assert "tiny-native 1.0 is incomplete: its dist-info holds no variant.json" in said
    assert "says that x86_64_v3 was installed; install it anew: pip install " in said


def test_what_is_not_installed(site: Path) -> None:
    with pytest.raises(NotInstalledError, match="'tiny-native' is not installed"):
        verify_distribution("tiny-native")


def test_damaged_files_are_named(site: Path) -> None:
    install(site, "null", decided("null"))
    (site / "tiny_native-1.0.dist-info/variant-decision.json").write_text("{}")
    with pytest.raises(DecisionError, match=r"tiny-native 1.0: variant-decision.json"):
        verify_distribution("tiny-native")
    (site / "tiny_native-1.0.dist-info/variant-decision.json").unlink()
    (site / "tiny_native-1.0.dist-info/variant.json").write_text(render_variants_json(INFO))
    with pytest.raises(VariantsJsonError, match="names 3 variants"):
        verify_distribution("tiny-native")


def test_what_is_not_utf_8_is_damaged(site: Path) -> None:
    install(site, "null")
    (site / "tiny_native-1.0.dist-info/variant.json").write_bytes(b"\xff\xfe")
    assert installed_variants() == (["tiny-native"], [])
    with pytest.raises(VariantsJsonError, match="not valid JSON"):
        verify_distribution("tiny-native")


def test_metadata_that_is_not_text(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    folder = site / "tiny_native-1.0.dist-info"
    with (folder / "METADATA").open("ab") as metadata:
        metadata.write(b"Author: J\xf6rg\n")
    for words in (["verify", "tiny-native"], ["verify"], ["explain", "tiny-native"]):
        assert run_commandline(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"the installation in {str(folder)!r} is damaged: its METADATA is not UTF" in line


def test_a_folder_without_metadata(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    (site / "tiny_native-1.0.dist-info/METADATA").unlink()
    for words in (["verify", "tiny-native"], ["explain", "tiny-native"]):
        assert run_commandline(words) == 2
        assert "is damaged: its METADATA says no name and version" in capsys.readouterr().err
    assert run_commandline(["verify"]) == 0


def test_an_installer_that_is_not_text(site: Path) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    (site / "tiny_native-1.0.dist-info/INSTALLER").write_bytes(b"\xff\n")
    found = verify_distribution("tiny-native", machine_of_level("v4"))
    assert (found.fits, *found.repair_commands) == (True, "pip", "uv")
