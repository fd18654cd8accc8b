"""Variants in conda's words: build strings, priorities, dependencies, the variant configuration."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel.conda_recording import record_variant
from variantwheel.conda_variants import (
    MPI_CHOICES,
    CondaBuild,
    cuda_arch_expression,
    hardware_dependencies,
    hardware_word,
    oldest_cuda_arch,
    parse_build,
    render_variants_yaml,
    unexpressed,
)
from variantwheel.definition import read_definitions
from variantwheel.errors import WheelFormatError
from variantwheel.project import read_project
from variantwheel.wheel_archive import parse_record
from variantwheel_selector.model import Variant, VariantProperty
from variantwheel_selector.variants_json import parse_variants_json

ROOT = Path(__file__).resolve().parents[3]
LABELS = ("null", "x86_64_v2", "x86_64_v3", "x86_64_v4", "cu11", "cu12", "cu13", "neoverse", "rocm")
PLATFORM = '[[platforms]]\nmachine = "x86_64"\nrunner = "ubuntu-24.04"\n'


def build_of(label: str, mpi: str, counter: int = 0) -> CondaBuild:
    build = CondaBuild(mpi, hardware_word(label), "py311", "0123456", 0)
    return CondaBuild(mpi, build.hardware, "py311", "0123456", build.offset + counter)


@given(
    label=st.sampled_from(LABELS), mpi=st.sampled_from(MPI_CHOICES), counter=st.integers(0, 49),
    python=st.sampled_from(("", "py310", "py314")),
)  # fmt: skip
def test_a_build_string_is_read_as_it_was_made(
    label: str, mpi: str, counter: int, python: str
) -> None:
    made = build_of(label, mpi, counter)
    prefix = mpi if mpi == "nompi" else f"mpi_{mpi}"
    text = f"{prefix}_{made.hardware}_{python}h0123456_{made.number}"
    found = parse_build(text)
    assert found is not None
    assert (found.label, found.mpi, found.python) == (label, mpi, python)
    assert found.number - found.offset == counter


@pytest.mark.parametrize(
    "text", ["py311h0123456_0", "nompi_cpu_py311_0", "mpi_cpu_h0123456_1x", "cpu_h0123456_0", ""]
)
def test_other_build_strings_are_none(text: str) -> None:
    assert parse_build(text) is None


@given(st.integers(0, 49), st.integers(0, 49))
def test_no_rebuild_of_one_variant_overtakes_another(one: int, other: int) -> None:
    """The order holds whatever the counters are, and without MPI comes before with one."""
    order = ["rocm", "null", "x86_64_v3", "cu11", "cu12", "cu13"]
    for lesser, better in itertools.pairwise(order):
        assert build_of(lesser, "nompi", one).number < build_of(better, "openmpi", other).number
    for label in order:
        with_mpi = {build_of(label, mpi, one).number for mpi in MPI_CHOICES[1:]}
        assert max(with_mpi) < build_of(label, "nompi", other).number


def test_each_kind_of_hardware_is_guarded() -> None:
    assert hardware_dependencies("cpu") == hardware_dependencies("rocm") == ()
    assert hardware_dependencies("x86_64_v3") == ("_x86_64-microarch-level >=3",)
    assert hardware_dependencies("neoverse") == ("_aarch64-version-level >=8.4a",)
    assert hardware_dependencies("cuda12") == ("__cuda >=12", "cuda-version >=12,<13")


def test_levels_come_from_the_definitions(tmp_path: Path) -> None:
    (tmp_path / "null.toml").write_text('label = "null"\nsummary = "baseline"\n' + PLATFORM)
    alone = render_variants_yaml(read_definitions(tmp_path))
    assert '"3"' not in alone
    assert "  - nompi\n" in alone
    for level in ("v4", "v3"):
        (tmp_path / f"x86_64_{level}.toml").write_text(
            f'label = "x86_64_{level}"\nsummary = "fast"\n[properties]\n'
            f'x86_64.level = ["{level}"]\n{PLATFORM}isa = "x86_64_{level}"\n'
        )
    text = render_variants_yaml(read_definitions(tmp_path))
    assert text.index('then: "3"') < text.index('then: "4"')
    assert text.count("if: linux and x86_64") == 2


def test_what_conda_cannot_guard_is_told(tmp_path: Path) -> None:
    arm = Variant("neoverse", (VariantProperty("aarch64", "version", "8.4a"),))
    assert "conda-forge has no package that guards it" in unexpressed(arm)[0]
    assert unexpressed(level_variant("v3")) == []
    (tmp_path / "neoverse.toml").write_text(
        'label = "neoverse"\nsummary = "V1"\n[properties]\naarch64.version = ["8.4a"]\n'
        + PLATFORM.replace("x86_64", "aarch64")
    )
    text = render_variants_yaml(read_definitions(tmp_path))
    assert "# Not here: aarch64 :: version :: 8.4a of neoverse: conda-forge has no package" in text
    for definition in read_project(ROOT).definitions:
        if "aarch64" not in {item.namespace for item in definition.variant.properties}:
            assert unexpressed(definition.variant) == []


def test_the_oldest_gpu_is_that_of_machine_code() -> None:
    arches = ("120_virtual", "50_virtual", "90_real", "100_real")
    made = Variant("cu12", tuple(VariantProperty("nvidia", "sm_arch", arch) for arch in arches))
    assert oldest_cuda_arch(made) == "9.0"
    assert oldest_cuda_arch(level_variant("v3")) == ""


def test_the_recipe_takes_the_oldest_gpu_of_each_cuda(tmp_path: Path) -> None:
    for label, arch in (("cu9", "35_real"), ("cu12", "70_real"), ("cu13", "100_real")):
        (tmp_path / f"{label}.toml").write_text(
            f'label = "{label}"\nsummary = "GPUs"\n[properties]\nnvidia.sm_arch = ["{arch}"]\n'
            + PLATFORM
        )
    assert cuda_arch_expression(read_definitions(tmp_path)) == (
        '${{ "3.5" if cuda_major == "9" else ("7.0" if cuda_major == "12" else "10.0") }}'
    )


def level_variant(level: str) -> Variant:
    return Variant(f"x86_64_{level}", (VariantProperty("x86_64", "level", level),))


def test_the_record_is_that_of_a_wheel(tmp_path: Path) -> None:
    project = read_project(ROOT)
    with pytest.raises(WheelFormatError, match="has none"):
        record_variant(tmp_path, project, "null")
    dist_info = tmp_path / "horovod_variants-9.9.dist-info"
    dist_info.mkdir()
    origin = dist_info / "direct_url.json"
    origin.write_text('{"url": "file:///work"}', encoding="utf-8")
    (dist_info / "RECORD").write_text(
        f"horovod/__init__.py,,\n{dist_info.name}/direct_url.json,,\n", encoding="utf-8"
    )
    file = record_variant(tmp_path, project, "x86_64_v3")
    info = parse_variants_json(file.read_text(encoding="utf-8"), "variant.json")
    assert info == project.variants_info(["x86_64_v3"])
    lines = list(parse_record((dist_info / "RECORD").read_bytes()))
    assert lines[-1][0] == f"{dist_info.name}/variant.json"
    assert lines[-1][2] == str(file.stat().st_size)
    assert not origin.exists()
    assert [path for path, _, _ in lines[:-1]] == ["horovod/__init__.py"]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_second_record_takes_the_place_of_the_first(tmp_path: Path, end: str) -> None:
    project = read_project(ROOT)
    dist_info = tmp_path / "horovod_variants-9.9.dist-info"
    dist_info.mkdir()
    record = dist_info / "RECORD"
    record.write_bytes(f"horovod/__init__.py,,{end}".encode())
    for label in ("null", "x86_64_v3"):
        file = record_variant(tmp_path, project, label)
        lines = list(parse_record(record.read_bytes()))
        assert [path for path, _, _ in lines] == [
            "horovod/__init__.py",
            f"{dist_info.name}/variant.json",
        ]
        assert lines[-1][2] == str(file.stat().st_size)
