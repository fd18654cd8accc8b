"""Builds: each label from its own sources, reproducible, and one failure among others."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from unit.variants.tiny_project import EPOCH, TinyRelease, copy_project, variantwheel
from variantwheel.build_frontend import BuildRequest, open_frontend
from variantwheel.build_plan import select_jobs
from variantwheel.errors import BuildFailedError, DefinitionError, ReleaseFolderError
from variantwheel.project import read_project
from variantwheel.release_folder import machine_of, superseded_wheels, update_variants_json
from variantwheel.source_date import EARLIEST_EPOCH, source_date_epoch
from variantwheel.wheel_archive import read_wheel
from variantwheel_selector.errors import SelectorError
from variantwheel_selector.model import Variant
from variantwheel_selector.variants_json import (
    ProviderInfo,
    VariantsInfo,
    parse_variants_json,
    render_variants_json,
)
from variantwheel_selector.wheel_name import WheelName


def _native_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.endswith(".so")}


def test_each_label_holds_its_levels_and_the_release_says_what_they_need(
    tiny_release: TinyRelease,
) -> None:
    baseline = "tiny_variants/_native/baseline/libtiny.so"
    assert _native_files(tiny_release.wheel("null")) == {baseline}
    v3 = {baseline, "tiny_variants/_native/x86_64_v3/libtiny.so"}
    assert _native_files(tiny_release.wheel("x86_64_v3")) == v3
    text = (tiny_release.folder / "tiny_variants-1.0-variants.json").read_bytes()
    project = read_project(tiny_release.project)
    assert parse_variants_json(text) == project.variants_info(["null", "x86_64_v3"])


def test_a_folder_whose_name_is_no_text(
    tiny_release: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    folder = tmp_path / os.fsdecode(b"lat\xfcn")
    folder.mkdir()
    project = ("--project", copy_project(folder))
    wheel = tiny_release.wheel("null")
    variantwheel("check", wheel, *project)
    build = ("build", "null", "-o", folder / "release", *project)
    # CMake, which this project builds with, takes no such name for what it makes.
    variantwheel(*build, "--work", tmp_path / "work", "--no-isolation")
    done = variantwheel(*build, expect=1)
    assert "Python's venv takes no name that is no text" in done.stderr
    assert "lat\\udcfcn" in done.stderr


def test_a_second_build_gives_the_same_bytes(tiny_release: TinyRelease, tmp_path: Path) -> None:
    words = ("--all", "-o", tmp_path, "--project", tiny_release.project, "--no-isolation")
    printed = variantwheel("build", *words, "--complete", expect=1).stdout  # null for aarch64 lacks
    assert re.search(r"^2 of 3 wheels, 1 not here, \d\.\d MiB, \d+ s$", printed, re.MULTILINE)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {
        path.name: path.read_bytes()
        for path in tiny_release.folder.iterdir()
        if path.suffix in (".whl", ".json")
    }


def test_a_label_that_fails_keeps_the_others_and_shows_its_log(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    project = copy_project(tmp_path)
    definition = project / "variants" / "x86_64_v3.toml"
    text = definition.read_text(encoding="utf-8")
    definition.write_text(text.replace("baseline;x86_64_v3", "baseline;x86_64_v9"))
    release = tmp_path / "release"
    done = variantwheel(
        "build", "--all", "-o", release, "--project", project, "--no-isolation", expect=1
    )
    assert [path.name for path in release.glob("*.whl")] == [tiny_release.wheel("null").name]
    assert re.search(r"x86_64_v3 +x86_64 +FAILED", done.stdout)
    assert "x86-64-v9" in done.stderr  # the end of the compiler's log
    info = parse_variants_json((release / "tiny_variants-1.0-variants.json").read_bytes())
    assert list(info.variants) == ["null"]


def test_a_later_build_adds_its_label_to_the_release(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    info = read_project(tiny_release.project).variants_info
    update_variants_json(tmp_path, [tiny_release.wheel("null")], info(["null"]))
    file = update_variants_json(tmp_path, [tiny_release.wheel("x86_64_v3")], info(["x86_64_v3"]))
    assert file is not None
    assert parse_variants_json(file.read_bytes()) == info(["null", "x86_64_v3"])


def test_a_variants_json_that_does_not_go_with_the_build_is_told(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    file = tmp_path / "tiny_variants-1.0-variants.json"
    other = VariantsInfo(("acme",), {"null": Variant("null")}, {"acme": ProviderInfo(("p",))})
    file.write_text(render_variants_json(other))
    info = read_project(tiny_release.project).variants_info(["x86_64_v3"])
    with pytest.raises(ReleaseFolderError, match="into an empty folder"):
        update_variants_json(tmp_path, [tiny_release.wheel("x86_64_v3")], info)
    assert parse_variants_json(file.read_bytes()) == other


def test_a_wheel_under_another_platform_tag_is_superseded(tmp_path: Path) -> None:
    names = [
        "a-1-py3-none-manylinux_2_17_x86_64-null.whl",
        "a-1-py3-none-manylinux_2_34_x86_64-null.whl",
        "a-1-py3-none-manylinux_2_34_x86_64-v3.whl",
        "a-1-py3-none-manylinux_2_17_aarch64-null.whl",
        "a-2-py3-none-manylinux_2_17_x86_64-null.whl",
    ]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in superseded_wheels(tmp_path / names[0])] == [names[1]]


@pytest.mark.parametrize(
    ("platform", "machine"),
    [
        ("linux_x86_64", "x86_64"),
        ("manylinux_2_17_aarch64.manylinux2014_aarch64", "aarch64"),
        ("macosx_11_0_arm64", "arm64"),
        ("any", "any"),
    ],
)
def test_the_machine_is_read_from_the_platform_tag(platform: str, machine: str) -> None:
    assert machine_of(WheelName.from_str(f"a-1-py3-none-{platform}.whl")) == machine


def test_what_cannot_be_built_here_is_told_before_it_starts(tiny_release: TinyRelease) -> None:
    project = read_project(tiny_release.project)
    with pytest.raises(DefinitionError, match=r"did you mean 'x86_64_v3'\?"):
        select_jobs(project, ["x86_64_v33"], ["x86_64"])
    with pytest.raises(DefinitionError, match="not built for 'aarch64', only for x86_64"):
        select_jobs(project, ["x86_64_v3"], ["aarch64"])
    with pytest.raises(DefinitionError, match=r"builds for x86_64, not for aarch64; run this on"):
        select_jobs(project, ["null"], ["aarch64"])
    with pytest.raises(DefinitionError, match="no variant is built for 'riscv64'"):
        select_jobs(project, [], ["riscv64"])


@pytest.mark.parametrize(
    ("runner", "ending"),
    [
        ("ubuntu-24.04-arm", "; on Linux the machine is called 'aarch64'"),
        ("macos-15", " or name a toolchain that can"),
    ],
)
def test_the_name_of_64_bit_arm_on_linux_is_told_where_it_is_meant(
    tmp_path: Path, runner: str, ending: str
) -> None:
    project = copy_project(tmp_path)
    file = project / "variants/null.toml"
    text = file.read_text(encoding="utf-8").replace("aarch64", "arm64")
    file.write_text(text.replace("ubuntu-24.04-arm", runner), encoding="utf-8")
    _, (reason,) = select_jobs(read_project(project), [], [])
    assert reason.endswith(ending)


def test_without_a_machine_all_that_can_be_built_here_are_built(tiny_release: TinyRelease) -> None:
    jobs, elsewhere = select_jobs(read_project(tiny_release.project), [], [])
    assert [job.name for job in jobs] == ["null-x86_64", "x86_64_v3-x86_64"]
    (reason,) = elsewhere
    assert "not for aarch64; run this on such a machine (CI runner 'ubuntu-24.04-arm')" in reason


def test_wrong_usage_is_exit_code_two(tiny_release: TinyRelease, tmp_path: Path) -> None:
    options = ("-o", tmp_path, "--project", tiny_release.project)
    assert "--all" in variantwheel("build", *options, expect=2).stderr
    assert "--all" in variantwheel("build", "null", "--all", *options, expect=2).stderr
    nowhere = variantwheel("build", "--all", "-o", tmp_path, "--project", tmp_path, expect=2)
    assert "pyproject.toml: no such file" in nowhere.stderr
    (tmp_path / "file").touch()
    words = ("build", "--all", "--project", tiny_release.project, "-o", tmp_path / "file")
    refused = variantwheel(*words, expect=2).stderr
    assert "file: no folder" in refused
    assert "building" not in refused


@pytest.mark.parametrize("verb", ["build", "sdist"])
def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_built(
    tiny_release: TinyRelease, tmp_path: Path, verb: str
) -> None:
    words: list[str | Path] = ["--all"] if verb == "build" else [tiny_release.folder]
    (tmp_path / "file").touch()
    for place, told in (
        (Path("/proc/x"), "/proc/x: nothing can be written there (No such file or directory)"),
        (tmp_path / "file/x", "file/x: nothing can be written there (Not a directory)"),
        (tmp_path / "file", "file: no folder; name the one for the results"),
    ):
        done = variantwheel(verb, *words, "-o", place, "--project", tiny_release.project, expect=2)
        assert told in done.stderr
        assert "building" not in done.stderr


def test_missing_build_requirements_are_named(tmp_path: Path) -> None:
    text = '[build-system]\nrequires = ["no-such-backend>=7"]\nbuild-backend = "nothing"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    with open_frontend(tmp_path / "env", isolated=False) as frontend:
        request = BuildRequest("wheel", tmp_path, tmp_path / "out", tmp_path / "log")
        with pytest.raises(BuildFailedError, match="no-such-backend>=7"):
            frontend.build(request)


def test_an_isolated_build_brings_its_own_environment(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )
    (source / "own.py").write_text(
        "import os, pathlib, sys\n"
        "def build_wheel(directory, settings=None, metadata=None):\n"
        "    text = '|'.join([sys.prefix, os.environ['COLOUR'], settings['level']])\n"
        "    pathlib.Path(directory, 'own-1-py3-none-any.whl').write_text(text)\n"
        "    return 'own-1-py3-none-any.whl'\n"
    )
    request = BuildRequest(
        "wheel", source, tmp_path / "out", tmp_path / "log", {"level": "v3"}, {"COLOUR": "green"}
    )
    with open_frontend(tmp_path / "env", isolated=True) as frontend:
        built = frontend.build(request)
    (python,) = tmp_path.glob("env/*/bin/python")
    assert built.read_text() == f"{python.parents[1]}|green|v3", "kept for the next build"


def test_the_matrix_has_a_job_for_each_label_and_machine(tiny_release: TinyRelease) -> None:
    words = ("matrix", "--project", tiny_release.project)
    jobs = json.loads(variantwheel(*words, "--format", "json").stdout)["jobs"]
    found = [(job["label"], job["machine"], job["runner"]) for job in jobs]
    assert found == [
        ("null", "x86_64", "ubuntu-24.04"),
        ("null", "aarch64", "ubuntu-24.04-arm"),
        ("x86_64_v3", "x86_64", "ubuntu-24.04"),
    ]
    line = variantwheel(*words, "--format", "github", "--machine", "x86_64").stdout
    assert line.count("\n") == 1
    assert [job["label"] for job in json.loads(line)["include"]] == ["null", "x86_64_v3"]
    table = variantwheel(*words).stdout.splitlines()
    assert table[0].split()[:3] == ["label", "machine", "runner"]
    assert len(table) == 4
    nowhere = variantwheel(*words, "--machine", "riscv64", expect=2)
    assert "no variant is built for 'riscv64', only for aarch64, x86_64" in nowhere.stderr
    assert nowhere.stdout == ""


def test_the_release_time_is_what_was_asked_for(tmp_path: Path) -> None:
    assert source_date_epoch(tmp_path, {"SOURCE_DATE_EPOCH": str(EPOCH)}) == EPOCH
    with pytest.raises(SelectorError, match="no number of seconds"):
        source_date_epoch(tmp_path, {"SOURCE_DATE_EPOCH": "yesterday"})


@pytest.mark.parametrize("late", ["4294967296", "4354819200", "9" * 5000], ids=len)
def test_a_time_that_no_sdist_carries_is_told_as_one(tmp_path: Path, late: str) -> None:
    with pytest.raises(SelectorError, match=r"is later than 4294967295, in February 2106"):
        source_date_epoch(tmp_path, {"SOURCE_DATE_EPOCH": late})
    assert (
        source_date_epoch(tmp_path, {"SOURCE_DATE_EPOCH": "0" * 5000 + "4294967295"}) == 2**32 - 1
    )


def test_without_it_the_last_commit_counts(tmp_path: Path) -> None:
    assert source_date_epoch(tmp_path, {}) == EARLIEST_EPOCH
    when = {"GIT_COMMITTER_DATE": f"{EPOCH} +0000", "GIT_AUTHOR_DATE": f"{EPOCH} +0000"}
    identity = ("-c", "user.name=x", "-c", "user.email=x@y.invalid")
    for command in (("init", "-q"), (*identity, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(
            ("git", "-C", str(tmp_path), *command),
            check=True,
            env={**os.environ, **when},
            timeout=60,
        )
    assert source_date_epoch(tmp_path, {}) == EPOCH


def test_the_reference_library_reads_the_same_from_a_wheel(tiny_release: TinyRelease) -> None:
    reference = importlib.import_module("variantlib.variant_dist_info")
    for label, properties in (("null", []), ("x86_64_v3", ["x86_64 :: level :: v3"])):
        text = read_wheel(tiny_release.wheel(label)).dist_info_file("variant.json").decode()
        found = reference.VariantDistInfo(text).variant_desc
        assert (found.label, [item.to_str() for item in found.properties]) == (label, properties)


_CURIOUS_BACKEND = """\
import os, shutil


def get_requires_for_build_wheel(config_settings=None):
    if "ASK_ME_NOT" in open("pyproject.toml").read():
        raise SystemExit("no answer today")
    found = [shutil.which("sh"), os.environ.get("CMAKE_EXECUTABLE")]
    return [] if any(found) else ["ninja>=1.5", "cmake>=3.15"]
"""


@pytest.fixture
def curious_project(tmp_path: Path) -> Path:
    """A project whose backend leaves out of its requirements what it finds on the machine."""
    folder = tmp_path / "curious"
    folder.mkdir()
    (folder / "curious_backend.py").write_text(_CURIOUS_BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "curious_backend"\nbackend-path = ["."]\n'
    )
    return folder


@pytest.mark.parametrize("isolated", [True, False])
def test_a_backend_is_asked_what_a_machine_without_tools_needs(
    curious_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, isolated: bool
) -> None:
    monkeypatch.setenv("CMAKE_EXECUTABLE", "/usr/bin/cmake")
    with open_frontend(tmp_path / "env", isolated=isolated) as frontend:
        found = frontend.wheel_requirements(curious_project, tmp_path / "log")
    assert found == ("cmake>=3.15", "ninja>=1.5")


def test_a_backend_that_does_not_answer_is_told_with_its_log(
    curious_project: Path, tmp_path: Path
) -> None:
    with (curious_project / "pyproject.toml").open("a") as file:
        file.write("# ASK_ME_NOT\n")
    with (
        open_frontend(tmp_path / "env", isolated=False) as frontend,
        pytest.raises(BuildFailedError, match=r"get_requires_for_build_wheel[^$]*no answer today"),
    ):
        frontend.wheel_requirements(curious_project, tmp_path / "log")
