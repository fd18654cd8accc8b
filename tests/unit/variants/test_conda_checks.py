"""Good conda packages pass, and each planted defect fails the check that looks for it."""

from __future__ import annotations

import bz2
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.variants.checking import project_with
from unit.variants.conda_files import SITE, CondaDraft, draft, metapackage
from unit.variants.tiny_project import DIST_INFO, TinyRelease, compile_library, variantwheel
from variantwheel.checks.report import Result
from variantwheel.conda_checks import check_conda_packages
from variantwheel.project import read_project
from variantwheel_selector.archive_tail import LARGE

RECORD = f"{SITE}/{DIST_INFO}/variant.json"
MODULE = f"{SITE}/tiny_variants/__init__.py"
BASELINE = f"{SITE}/tiny_variants/_native/baseline/libtiny.so"
V3 = f"{SITE}/tiny_variants/_native/x86_64_v3/libtiny.so"


def failed(release: TinyRelease, *files: Path) -> dict[str, str]:
    """The names of the failed checks of the last package, with their facts."""
    reports = check_conda_packages(files, read_project(release.project))
    return {
        finding.check: "\n".join(finding.facts)
        for finding in reports[-1].findings
        if finding.result is Result.FAILED
    }


def good(release: TinyRelease, hardware: str = "x86_64_v3") -> CondaDraft:
    return draft(release.wheel("null" if hardware == "cpu" else "x86_64_v3"), hardware)


def test_good_packages_pass(tiny_release: TinyRelease, tmp_path: Path) -> None:
    files = [good(tiny_release, word).write(tmp_path) for word in ("cpu", "x86_64_v3")]
    done = variantwheel("check", *files, "--project", tiny_release.project)
    assert "2 files checked, 0 failed" in done.stdout
    for word in ("build hash", "dependencies", "variant", "instructions", "overlap", "licence"):
        assert f"  {word}" in done.stdout
    assert "x86_64_v3, as defined" in done.stdout


def test_a_package_of_conda_build_is_hashed_its_way(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    """It writes hash_input.json indented and unsorted, and hashes it with sorted keys."""
    package = good(tiny_release)
    package.about["conda_build_version"] = "26.7.1"
    pretty = json.dumps(dict(reversed(package.hash_input.items())), indent=2)
    package.info["info/hash_input.json"] = pretty.encode()
    assert failed(tiny_release, package.write(tmp_path)) == {}
    del package.about["conda_build_version"]
    assert set(failed(tiny_release, package.write(tmp_path))) == {"build hash"}


def _set(what: str, value: object) -> Callable[[CondaDraft], None]:
    return lambda package: setattr(package, what, value)


def _replace_dependency(old: str, new: str | None) -> Callable[[CondaDraft], None]:
    def spoil(package: CondaDraft) -> None:
        package.depends = [spec for spec in package.depends if not spec.startswith(old)]
        package.depends += [new] if new else []

    return spoil


def _add(path: str, data: bytes = b"x") -> Callable[[CondaDraft], None]:
    return lambda package: package.files.__setitem__(path, data)


def _relabel(package: CondaDraft) -> None:
    package.files[RECORD] = package.files[RECORD].replace(b'"v3"', b'"v4"')


def _with_openmpi(package: CondaDraft) -> None:
    package.prefix, package.number = "mpi_openmpi_x86_64_v3_py311", 200


def _undefined(package: CondaDraft) -> None:
    package.prefix, package.number = "nompi_rocm_py311", 50
    package.depends.remove("_x86_64-microarch-level >=3")


DEFECTS: list[tuple[str, Callable[[CondaDraft], object], str, str]] = [
    ("wrong hash", _set("hash", "0123456"), "build hash", "shows 0123456"),
    (
        "hashed for another platform",
        lambda p: p.hash_input.update(target_platform="linux-aarch64"),
        "build hash",
        "hashed for linux-aarch64, the package is for linux-64",
    ),
    ("other file name", _set("file_name", "tiny-variants-2.0-x_0.conda"), "name", "is of tiny"),
    (
        "track_features",
        lambda p: p.index.update(track_features="tiny"),
        "name",
        "solvers prefer older versions",
    ),
    (
        "counter beyond the next variant",
        _set("number", 320),
        "build string",
        "starts at 250, and a counter of 70 is not between 0 and 49",
    ),
    ("number below its place", _set("number", 150), "build string", "counter of -100"),
    (
        "index says another number",
        lambda p: p.index.update(build_number=251),
        "build string",
        "ends in 250, the build number is 251",
    ),
    ("form of the build string", _set("prefix", "py311"), "build string", "not of the form"),
    (
        "level not guarded",
        _replace_dependency("_x86_64", None),
        "dependencies",
        "lacks '_x86_64-microarch-level >=3'",
    ),
    (
        "direct dependency on the CPU's name",
        _replace_dependency("_x86_64", "__archspec 1.* x86_64_v3"),
        "dependencies",
        "keeps it from machines",
    ),
    (
        "GPU asked for by a CPU package",
        lambda p: p.depends.append("__cuda"),
        "dependencies",
        "'__cuda' keeps it from machines that it is built for",
    ),
    (
        "any Python",
        _replace_dependency("python_abi", None),
        "dependencies",
        "lacks python_abi of py311",
    ),
    (
        "other Python",
        _replace_dependency("python_abi", "python_abi 3.12.* *_cp312"),
        "dependencies",
        "lacks python_abi of py311",
    ),
    (
        "MPI not required",
        _with_openmpi,
        "dependencies",
        "lacks 'openmpi', which it is built for",
    ),
    (
        "requirement of METADATA",
        lambda p: p.files.__setitem__(
            f"{SITE}/{DIST_INFO}/METADATA",
            p.files[f"{SITE}/{DIST_INFO}/METADATA"].replace(
                b"Requires-Python", b"Requires-Dist: numpy>=2\nRequires-Python", 1
            ),
        ),
        "dependencies",
        "lacks 'numpy', which METADATA requires",
    ),
    ("file not listed", lambda p: p.listed.update({"bin/tool": "0" * 64}), "paths", "not there"),
    (
        "changed bytes",
        lambda p: p.listed.update({MODULE: "0" * 64}),
        "paths",
        "its bytes are not those",
    ),
    ("way out", _add("../outside"), "paths", "leads out of the environment"),
    ("vendored MPI", _add("lib/libmpi.so.40"), "vendored", "lib/libmpi.so.40: belongs to another"),
    ("static library", _add("lib/libtiny.a"), "vendored", "belongs to another package"),
    (
        "second distribution",
        _add(f"{SITE}/numpy-2.0.dist-info/METADATA"),
        "vendored",
        "holds the distribution numpy as well",
    ),
    ("no record", lambda p: p.files.pop(RECORD), "variant", "variant.json is missing"),
    ("record of another variant", _relabel, "variant", "differs from x86_64_v3.toml"),
    ("label without definition", _undefined, "variant", "label 'rocm' has no definition"),
    ("empty library", lambda p: p.files.update({BASELINE: b""}), "libraries", "is empty"),
    (
        "nothing but metadata",
        lambda p: [p.files.pop(path) for path in (BASELINE, V3, MODULE)],
        "libraries",
        "no native code at all, although it is for x86_64 alone",
    ),
    (
        "no library of the level",
        lambda p: p.files.pop(V3),
        "level folders",
        "no library lies in a folder 'x86_64_v3'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "check", "words"), [item[1:] for item in DEFECTS], ids=[item[0] for item in DEFECTS]
)
def test_a_planted_defect_is_found(
    tiny_release: TinyRelease,
    tmp_path: Path,
    spoil: Callable[[CondaDraft], object],
    check: str,
    words: str,
) -> None:
    package = good(tiny_release)
    spoil(package)
    found = failed(tiny_release, package.write(tmp_path))
    assert words in found.get(check, ""), found


def test_the_module_of_the_packages_python_is_there(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    declared = '[tool.variantwheel.pythons]\nversions = ["3.11"]\nsetting = "x"\n'
    settings = "[tool.variantwheel.check]\n"
    project = project_with(tmp_path, {"pyproject.toml": (settings, declared + settings)})
    release, package = TinyRelease(project, tmp_path), good(tiny_release)
    library = package.files[BASELINE]
    module = f"{SITE}/tiny_variants/m.cpython-312-x86_64-linux-gnu.so"
    package.files[module] = library
    told = failed(release, package.write(tmp_path))
    assert told == {"CPythons": "no module for cp311; there is cp312"}
    package.files[module.replace("312", "311")] = library
    assert failed(release, package.write(tmp_path)) == {}


def test_code_above_the_baseline_is_found(tiny_release: TinyRelease, tmp_path: Path) -> None:
    """What CXXFLAGS of conda's compilers would do to the baseline library."""
    source = (
        "double s(const double* x, long n) { double t = 0; for (long i = 0; i < n; ++i) t += x[i];"
    )
    package = good(tiny_release, "cpu")
    package.files[BASELINE] = compile_library(
        tmp_path, f"{source} return t; }}\n", "-O3", "-march=haswell", "-ffast-math"
    )
    assert "x86_64_v3" in failed(tiny_release, package.write(tmp_path))["instructions"]


def test_a_licence_text_is_needed(tiny_release: TinyRelease, tmp_path: Path) -> None:
    package = good(tiny_release)
    package.info["info/licenses/LICENSE"] = b""  # left out when written
    assert "no licence text" in failed(tiny_release, package.write(tmp_path))["licence"]


def test_packages_that_write_the_same_file_are_found(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    """Also where one of them is for every Python; variants of one package never meet."""
    mine = good(tiny_release).write(tmp_path)
    variant = good(tiny_release, "cpu").write(tmp_path)
    other = CondaDraft("other", {"target_platform": "noarch"}, "py", 0, ["python"])
    other.index = {"subdir": "noarch"}
    other.files = {"site-packages/tiny_variants/__init__.py": b"x"}
    found = failed(tiny_release, mine, variant, other.write(tmp_path))
    assert "site-packages/tiny_variants/__init__.py: also in tiny-variants" in found["overlap"]
    assert "overlap" not in failed(tiny_release, mine, variant)


def test_a_metapackage_pins_one_build_and_holds_nothing(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    pin = "==1.0 nompi_cuda12_py311h0bbb928_450"
    assert failed(tiny_release, metapackage(pin).write(tmp_path)) == {}
    loose = metapackage(">=1.0").write(tmp_path)
    assert "not exactly" in failed(tiny_release, loose)["metapackage"]
    of_cpu = metapackage("==1.0 nompi_cpu_py311h0bbb928_150").write(tmp_path)
    assert "same MPI and hardware" in failed(tiny_release, of_cpu)["metapackage"]
    full = metapackage(pin)
    full.files = {"bin/tool": b"x"}
    assert "holds no files" in failed(tiny_release, full.write(tmp_path))["metapackage"]


@pytest.mark.parametrize("form", ["file of a conda", "file of a tar.bz2", "name in a tar.bz2"])
def test_small_packages_that_ask_for_much_are_refused(
    tiny_release: TinyRelease, tmp_path: Path, form: str
) -> None:
    file = tmp_path / "tiny-variants-1.0-py_0.tar.bz2"
    if form == "file of a conda":
        package = good(tiny_release)
        package.files["lib/zeros"] = bytes(LARGE + 1)
        file = package.write(tmp_path)
    else:
        member = tarfile.TarInfo("lib/zeros")
        member.size = LARGE + 1
        member.type = tarfile.GNUTYPE_LONGNAME if form.startswith("name") else tarfile.REGTYPE
        with bz2.open(file, "wb") as packed:
            packed.write(member.tobuf() + bytes(LARGE + 1))
    done = variantwheel("check", file, "--project", tiny_release.project, expect=1)
    assert "not a readable conda package: it would expand from" in done.stdout
    assert f"to more than {LARGE} bytes" in done.stdout


def test_what_is_no_package_is_told_beside_the_others(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    whole = good(tiny_release).write(tmp_path)
    cut = tmp_path / "tiny-variants-1.0-cut_0.conda"
    cut.write_bytes(whole.read_bytes()[:5000])
    wheel = tiny_release.wheel("null")
    done = variantwheel(
        "check", whole, cut, wheel, "--project", tiny_release.project, "--json", expect=1
    )
    passed = {item["file"]: item["passed"] for item in json.loads(done.stdout)["wheels"]}
    assert passed == {whole.name: True, cut.name: False, wheel.name: True}
    done = variantwheel("check", cut, "--project", tiny_release.project, expect=1)
    assert "not a readable conda package" in done.stdout
