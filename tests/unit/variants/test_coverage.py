"""`sdist --dry-run`: what every known machine would get, as the selector itself says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from unit.variants.tiny_project import TinyRelease, TinySite, copy_project, variantwheel
from variantwheel.cli import sdist
from variantwheel.coverage import coverage, typical_machines
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.model import Variant
from variantwheel_selector.variants_json import VariantsInfo

MACHINES = Path(__file__).parents[2] / "machines"


def test_the_table_says_what_explain_says_of_each_machine(
    tiny_release: TinyRelease, tiny_site: TinySite, capsys: pytest.CaptureFixture[str]
) -> None:
    done = variantwheel(
        "sdist", tiny_release.folder, "--dry-run", "--json", "--machines", MACHINES,
        "--project", tiny_release.project,
    )  # fmt: skip
    document = json.loads(done.stdout)
    table = {item["machine"]: item["labels"]["cp312"] for item in document["machines"]}
    assert set(table) == {folder.name for folder in MACHINES.iterdir()}
    (archive,) = tiny_site.release.glob("*.tar.gz")
    for name in ("zen4", "nehalem", "movbe_missing", "emulated_haswell", "neoverse_v1", "musl"):
        capsys.readouterr()
        machine = ("--machine", str(MACHINES / name), "--json")
        run_commandline(["explain", "tiny-variants", str(archive), *machine])
        decision = json.loads(capsys.readouterr().out)
        assert table[name] == decision["label"], name
    assert not list(tiny_release.folder.glob("*.tar.gz"))


def test_without_captures_typical_machines_are_tried(tiny_release: TinyRelease) -> None:
    shared = ("--dry-run", "--project", tiny_release.project)
    shown = variantwheel("sdist", tiny_release.folder, *shared).stdout.splitlines()
    assert shown[0].split() == ["machine", "cp312"]
    rows = dict(line.rsplit(maxsplit=1) for line in shown[1:-1])
    assert rows["x86-64-v2"] == "null"
    assert rows["x86-64-v3"] == rows["x86-64-v4"] == "x86_64_v3"
    assert rows["aarch64 8a"] == rows["x86-64-v3, musl 1.2"] == "-"


def test_gpus_and_interpreters_have_rows_and_columns_of_their_own() -> None:
    variants = [
        Variant.from_strings("null", []),
        Variant.from_strings("cu12", [
            "nvidia :: cuda_version_lower_bound :: 12.0", "nvidia :: sm_arch :: 80_real",
        ]),
        Variant.from_strings("rocm", ["amd :: gfx_arch :: gfx90a"]),
    ]  # fmt: skip
    info = VariantsInfo(("nvidia", "amd"), {variant.label: variant for variant in variants})
    wheels = [f"a-1-cp310-abi3-manylinux_2_17_x86_64-{variant.label}.whl" for variant in variants]
    wheels.append("a-1-cp314-cp314t-manylinux_2_17_x86_64-null.whl")
    machines = typical_machines(info.namespaces)
    table = coverage(info, wheels, machines, ["cp39", "cp313", "cp314t"])
    rows = {item.name: tuple(item.choices.values()) for item in table}
    assert rows["CUDA 12.4, compute capability 8.0"] == (None, "cu12", "null")
    assert rows["CUDA 11.8, compute capability 8.0"] == (None, "null", "null")
    assert rows["CUDA 13.0, compute capability 9.0"] == (None, "null", "null")
    assert rows["ROCm 6.3, gfx90a"] == (None, "rocm", "null")
    assert rows["x86-64-v1"] == (None, "null", "null")


def test_a_matrix_with_a_gap_is_refused(tiny_release: TinyRelease, tmp_path: Path) -> None:
    shutil.copy(tiny_release.wheel("null"), tmp_path)
    shared = ("--dry-run", "--project", tiny_release.project)
    done = variantwheel("sdist", tmp_path, *shared, expect=1)
    assert "x86_64_v3 for x86_64" in done.stderr
    assert "warning: released without x86_64_v3" in (
        variantwheel("sdist", tmp_path, *shared, "--allow-partial").stderr
    )


def test_a_payload_above_the_limit_of_public_indexes_is_warned_about(
    tiny_release: TinyRelease, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sdist, "SIZE_BUDGET", 5000)
    command = ["sdist", str(tiny_release.folder), "--project", str(tiny_release.project)]
    assert run_commandline([*command, "--dry-run"]) == 0
    assert "public indexes refuse files above" in capsys.readouterr().err
    assert run_commandline([*command, "--dry-run", "--payload", "manifest"]) == 0
    assert "refuse" not in capsys.readouterr().err


def test_wrong_use_is_told(tiny_release: TinyRelease, tmp_path: Path) -> None:
    shared = ("--project", tiny_release.project)
    assert "-o DIR" in variantwheel("sdist", tiny_release.folder, *shared, expect=2).stderr
    done = variantwheel(
        "sdist", tiny_release.folder, "--dry-run", "--machines", tmp_path, *shared, expect=2
    )
    assert "holds no captured machine" in done.stderr
    project = copy_project(tmp_path)
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    text = text.replace("max-exports", "max-export")
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    done = variantwheel("sdist", tiny_release.folder, "--project", project, "--dry-run", expect=2)
    assert "did you mean 'max-exports'?" in done.stderr
