"""Builds of an incremental toolchain: what is unchanged is kept, what is shared is made once."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from unit.variants.tiny_project import STEP_TIMEOUT
from variantwheel.build_plan import BuildPlan, select_jobs
from variantwheel.kept_wheels import digest_inputs
from variantwheel.project import read_project
from variantwheel.sdist_archive import SdistArchive
from variantwheel.variant_build import BuildOutcome, build_variants
from variantwheel_selector.cli import run_commandline

PROJECT = """\
[build-system]
requires = []
build-backend = "own"
backend-path = ["."]

[tool.variantwheel.toolchains.pinned]
incremental = true
machines = ["x86_64", "aarch64"]
config-settings = { target = "{machine}-linux" }
"""
BACKEND = """\
import io, os, pathlib, subprocess, tarfile, zipfile

def build_sdist(directory, settings=None):
    with tarfile.open(os.path.join(directory, "own-1.tar.gz"), "w:gz") as archive:
        for name in ("pyproject.toml", "own.py", "source.txt"):
            archive.add(name, "own-1/" + name)
    return "own-1.tar.gz"

def build_wheel(directory, settings=None, metadata=None):
    text = pathlib.Path("source.txt").read_text()
    if settings["level"] in text:
        raise SystemExit("cannot compile " + settings["level"])
    if "GATE_" + settings["level"] in os.environ:
        with open(os.environ["GATE_" + settings["level"]], "w") as gate:
            gate.write("here")
            gate.flush()
            subprocess.run(["sleep", "600"], pass_fds=[gate.fileno()])
    objects = pathlib.Path("objects")
    seen = objects.read_text() if objects.exists() else ""
    objects.write_text(seen + settings["level"] + " ")
    name = "own-1-py3-none-any.whl"
    files = {
        "own.txt": text + settings["target"] + "|" + objects.read_text(),
        "own-1.dist-info/METADATA": "Metadata-Version: 2.2\\nName: own\\nVersion: 1\\n",
        "own-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: own\\n"
        "Root-Is-Purelib: true\\nTag: py3-none-any\\n",
        "own-1.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return name
"""
DEFINITION = """\
label = "{label}"
summary = "s"
{properties}
[[platforms]]
machine = "x86_64"
toolchain = "pinned"
runner = "r"
config-settings = {{ level = "{label}" }}
"""


@pytest.fixture
def plan(tmp_path: Path) -> BuildPlan:
    folder = tmp_path / "project"
    (folder / "variants").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "own.py").write_text(BACKEND)
    (folder / "source.txt").write_text("one ")
    for label, properties in (("null", ""), ("v3", 'properties.x86_64.level = ["v3"]')):
        text = DEFINITION.format(label=label, properties=properties)
        (folder / "variants" / f"{label}.toml").write_text(text)
    project = read_project(folder)
    work = tmp_path / "work"
    return BuildPlan(
        project=project,
        jobs=select_jobs(project, [], [])[0],
        output=tmp_path / "release",
        work=work,
        environments=work / "environments",
        isolated=False,
        epoch=1_700_000_000,
        cores=2,
    )


def _build(plan: BuildPlan) -> list[BuildOutcome]:
    return build_variants(plan, lambda _: None)


def _kept(outcomes: list[BuildOutcome]) -> list[bool]:
    return [outcome.kept for outcome in outcomes]


def test_variants_of_a_machine_share_a_folder_and_unchanged_wheels_are_kept(
    plan: BuildPlan,
) -> None:
    assert [len(group) for group in plan.groups()] == [2]
    first = _build(plan)
    assert _kept(first) == [False, False]
    (source,) = plan.work.glob("*/source/objects")
    assert source.read_text() == "null v3 "
    wheels = [outcome.wheel for outcome in first if outcome.wheel]
    before = [wheel.read_bytes() for wheel in wheels]
    elsewhere = replace(plan, output=plan.output.with_name("other"))
    second = _build(elsewhere)
    assert _kept(second) == [True, True]
    assert [outcome.wheel.read_bytes() for outcome in second if outcome.wheel] == before
    assert source.read_text() == "null v3 ", "nothing was built"


def test_a_setting_of_one_variant_does_not_linger_in_another(plan: BuildPlan) -> None:
    definition = plan.project.folder / "variants" / "v3.toml"
    text = definition.read_text()
    definition.write_text(text.replace('level = "v3" }', 'level = "v3", gpu = "yes" }'))
    project = read_project(plan.project.folder)
    apart = replace(plan, project=project, jobs=select_jobs(project, [], [])[0])
    assert [len(group) for group in apart.groups()] == [1, 1]
    _build(apart)
    assert sorted(file.read_text() for file in plan.work.glob("*/source/objects")) == [
        "null ",
        "v3 ",
    ]


def test_a_file_that_a_setting_names_has_a_folder_for_each_of_its_texts(plan: BuildPlan) -> None:
    project = plan.project
    flags = project.folder / "flags.cmake"
    named = {
        name: replace(each, config_settings={**each.config_settings, "file": "flags.cmake"})
        for name, each in project.toolchains.items()
    }
    plan = replace(plan, project=replace(project, toolchains=named))
    without = plan.build_folder(plan.jobs[0])
    flags.write_text("-O2")
    before = plan.build_folder(plan.jobs[0])
    flags.write_text("-O2 -flto")
    after = plan.build_folder(plan.jobs[0])
    flags.write_text("-O2")
    assert len({without, before, after}) == 3
    assert plan.build_folder(plan.jobs[0]) == before


def test_each_set_of_tools_has_a_folder_of_its_own(plan: BuildPlan) -> None:
    def folder(*tools: str) -> Path:
        named = {
            name: replace(each, requires=tools) for name, each in plan.project.toolchains.items()
        }
        other = replace(plan, project=replace(plan.project, toolchains=named))
        return other.build_folder(plan.jobs[0])

    one, two = folder("compiler==1"), folder("compiler==2")
    assert len({folder(), one, two}) == 3
    assert folder("compiler==1") == one


def test_what_a_wheel_is_made_of_decides_whether_it_is_made_again(
    plan: BuildPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    _build(plan)
    (plan.project.folder / "source.txt").write_text("two ")
    assert _kept(_build(plan)) == [False, False]
    later = replace(plan, epoch=plan.epoch + 1)
    assert _kept(_build(later)) == [False, False]
    assert _kept(_build(replace(later, rebuild=True))) == [False, False]
    monkeypatch.setenv("CXXFLAGS", "-Ofast")
    assert _kept(_build(later)) == [False, False]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("MACOSX_DEPLOYMENT_TARGET", True),
        ("RUSTFLAGS", True),
        ("CARGO_PROFILE_RELEASE_LTO", True),
        ("PKG_CONFIG_PATH", True),
        ("ARCHFLAGS", True),
        ("CPATH", True),
        ("LDSHARED", True),
        ("CARGO_BUILD_JOBS", False),
        ("CMAKE_BUILD_PARALLEL_LEVEL", False),
        ("EDITOR", False),
    ],
)
def test_variables_that_compilers_read_decide_too(
    plan: BuildPlan, monkeypatch: pytest.MonkeyPatch, *, name: str, counts: bool
) -> None:
    def digest() -> str:
        request = plan.request(plan.jobs[0], plan.work)
        return digest_inputs(SdistArchive("own-1", {}), request, "{}", ())

    monkeypatch.delenv(name, raising=False)
    before = digest()
    monkeypatch.setenv(name, "9")
    assert (digest() != before) is counts


def test_a_kept_wheel_that_somebody_changed_is_made_again(plan: BuildPlan) -> None:
    _build(plan)
    (wheel,) = (plan.work / "wheels").glob("*-v3.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert _kept(_build(plan)) == [True, False]


def test_one_failure_leaves_the_others_and_the_next_run_goes_on_from_there(
    plan: BuildPlan,
) -> None:
    source = plan.project.folder / "source.txt"
    source.write_text("v3 ")
    outcomes = _build(plan)
    assert [bool(outcome.wheel) for outcome in outcomes] == [True, False]
    assert "cannot compile v3" in outcomes[1].problem
    again = _build(plan)
    assert _kept(again) == [True, False]


def test_finished_wheels_of_any_toolchain_are_taken_when_that_is_asked_for(plan: BuildPlan) -> None:
    toolchains = {
        name: replace(each, incremental=False) for name, each in plan.project.toolchains.items()
    }
    plan = replace(plan, project=replace(plan.project, toolchains=toolchains))
    source = plan.project.folder / "source.txt"
    source.write_text("v3 ")
    _build(plan)
    assert _kept(_build(plan)) == [False, False]
    resumed = _build(replace(plan, resume=True))
    assert _kept(resumed) == [True, False]
    assert "cannot compile v3" in resumed[1].problem
    source.write_text("one ")
    assert _kept(_build(replace(plan, resume=True))) == [False, False], "other sources"
    assert _kept(_build(replace(plan, resume=True))) == [True, True]


@pytest.mark.parametrize(
    ("number", "send", "exit_code"),
    [
        (signal.SIGINT, os.killpg, 130),
        (signal.SIGINT, os.kill, 130),
        (signal.SIGTERM, os.kill, 143),
        (signal.SIGHUP, os.kill, 129),
    ],
    ids=["Ctrl-C", "SIGINT", "SIGTERM", "SIGHUP"],
)
def test_an_interrupted_build_starts_no_other_and_is_taken_up_again(
    plan: BuildPlan,
    tmp_path: Path,
    number: signal.Signals,
    send: Callable[[int, int], None],
    exit_code: int,
) -> None:
    project = plan.project.folder
    text = DEFINITION.format(label="v4", properties='properties.x86_64.level = ["v4"]')
    (project / "variants" / "v4.toml").write_text(text)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    reader = os.open(gate, os.O_RDONLY | os.O_NONBLOCK)
    program = str(Path(sys.executable).with_name("variantwheel"))
    command = [program, "build", "--all", "--project", str(project), "-o", str(tmp_path / "out")]
    command += ["--no-isolation"]
    (tmp_path / "temporary").mkdir()
    variables = {"GATE_v3": str(gate), "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(
        command, env={**os.environ, **variables}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as build:  # fmt: skip
        assert select.select([reader], [], [], STEP_TIMEOUT)[0], "v3 is not being built"
        assert os.read(reader, 100) == b"here"
        send(build.pid, number)
        printed, _ = build.communicate(timeout=STEP_TIMEOUT)
    # The end of the file: neither the backend nor what it started holds it open.
    assert select.select([reader], [], [], 0)[0], "the build goes on"
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert build.returncode == exit_code, printed
    told = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert printed.endswith(f"variantwheel: {told}\n")
    assert "v4" not in printed
    assert "FAILED" not in printed
    assert not list((tmp_path / "temporary").iterdir())
    again = subprocess.run(
        command, check=True, timeout=STEP_TIMEOUT, capture_output=True, text=True
    )
    results = [line.split()[:3] for line in again.stdout.splitlines()[1:4]]
    assert results == [["null", "x86_64", "kept"], ["v3", "x86_64", "ok"], ["v4", "x86_64", "ok"]]


def test_variables_need_not_be_text(plan: BuildPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", os.fsdecode(b"-I/lat\xfcn"))
    _build(plan)
    assert _kept(_build(plan)) == [True, True]
    monkeypatch.setenv("CFLAGS", os.fsdecode(b"-I/lat\xffn"))
    assert _kept(_build(plan)) == [False, False]


def test_a_file_that_the_sources_no_longer_hold_is_removed(plan: BuildPlan) -> None:
    _build(plan)
    backend = plan.project.folder / "own.py"
    (plan.project.folder / "more.txt").write_text("more")
    text = backend.read_text()
    backend.write_text(text.replace('"source.txt"):', '"source.txt", "more.txt"):'))
    _build(plan)
    (more,) = plan.work.glob("*/source/more.txt")
    backend.write_text(text)
    _build(plan)
    assert not more.exists()


def test_the_machine_stands_in_the_settings(plan: BuildPlan) -> None:
    request = plan.request(plan.jobs[0], plan.work)
    assert request.config_settings == {"target": "x86_64-linux", "level": "null"}


def test_a_complete_release_has_modules_for_all_declared_pythons(
    plan: BuildPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = f"3.{sys.version_info.minor}"
    settings = plan.project.folder / "pyproject.toml"
    pythons = f'[tool.variantwheel.pythons]\nversions = ["{here}", "3.99"]\nsetting = "headers"\n'
    settings.write_text(settings.read_text() + pythons)
    command = ["build", "--all", "-o", str(tmp_path / "release"), "--no-isolation"]
    command += ["--project", str(plan.project.folder), "--pythons", "available"]
    assert run_commandline(command) == 0
    shown = capsys.readouterr()
    assert "2 of 2 wheels, without modules for CPython 3.99, " in shown.out
    assert "warning: without a module for CPython 3.99: not found here" in shown.err
    assert run_commandline([*command, "--complete"]) == 1
