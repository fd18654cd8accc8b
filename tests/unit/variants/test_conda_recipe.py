"""The recipes keep to conda-forge's rules, as far as a reader of the files can tell.

The rules are conda-smithy's (its LINTER.md; numbers in comments), which cannot be installed from
PyPI. rattler-build itself parses and renders the recipes in tests/integration/test_conda_*.py.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.licenses import canonicalize_license_expression
from packaging.version import Version
from ruamel.yaml import YAML

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

ROOT = Path(__file__).resolve().parents[3]
OURS = ("recipe/recipe.yaml", "recipe/selector/recipe.yaml")
RECIPES = (*OURS, "recipe/aarch64-level/recipe.yaml")
ORDER = (
    "schema_version", "context", "package", "recipe", "source", "build", "outputs",
    "requirements", "tests", "about", "extra",
)  # fmt: skip
REQUIREMENTS_ORDER = (
    "build", "host", "run", "run_constraints", "run_exports", "ignore_run_exports",
)  # fmt: skip
BUILD_BACKENDS = {"scikit-build-core", "hatchling"}
# Keys of the variant configuration that the context may read.
VARIANT_KEYS = {
    "cuda_compiler_version", "rocm_version", "microarch_level", "mpi", "python_min",
    "archspec_name",
}  # fmt: skip


def read_yaml(name: str) -> Any:
    return YAML(typ="safe").load((ROOT / name).read_text(encoding="utf-8"))


def outputs_of(recipe: dict[str, Any]) -> list[dict[str, Any]]:
    return recipe.get("outputs", [recipe])  # type: ignore[no-any-return]


def flat(section: list[Any]) -> Iterator[str]:
    """The requirements of a section, those of both branches of each condition included."""
    for item in section:
        if isinstance(item, dict):
            for branch in ("then", "else"):
                inner = item.get(branch, [])
                yield from flat(inner if isinstance(inner, list) else [inner])
        else:
            yield str(item)


def faults(recipe: dict[str, Any], text: str) -> Iterator[str]:
    keys = list(recipe)
    if keys != [key for key in ORDER if key in keys]:
        yield f"order of sections: {keys}"
    about = recipe.get("about", {})
    if not all(about.get(key) for key in ("homepage", "license", "summary")):
        yield "about needs homepage, license and summary"
    if not about.get("license_file"):
        yield "license_file is missing"
    expression = str(about.get("license", ""))
    if canonicalize_license_expression(expression) != expression or "License" in expression:
        yield f"{expression!r} is no SPDX expression"
    maintainers = recipe.get("extra", {}).get("recipe-maintainers")
    if not isinstance(maintainers, list) or not maintainers:
        yield "no list of recipe-maintainers"
    if str(recipe["extra"].get("feedstock-name", "")).endswith("-feedstock"):
        yield "feedstock-name ends in -feedstock"
    if "number" not in recipe.get("build", {}):
        yield "no build number"
    if not re.search(r"[^\n]\n\Z", text):
        yield "one newline at the end"
    if re.search(r"\$\{\{(?! )|(?<! )\}\}", text):
        yield "spaces in Jinja expressions"
    if re.search(r"#\s*\[(?:linux|osx|win|unix|not|py)", text):
        yield "a selector in a comment"
    if "track_features" in text or "down_prioritize_variant" in text:
        yield "prefers by track_features"
    yield from context_faults(recipe)
    source = recipe.get("source", {})
    if "url" in source and "sha256" not in source:
        yield "url without sha256"
    if str(source.get("url", "")).endswith(".whl"):
        yield "a wheel as source"
    if "pypi.io" in str(source):
        yield "the old name of the package index"
    names = {output["package"]["name"] for output in outputs_of(recipe)}
    for pinned in re.findall(r"pin_subpackage\([\"']([^\"']+)", text):
        if pinned not in names:
            yield f"pin_subpackage of {pinned}, which is no output"
    for pinned in re.findall(r"pin_compatible\([\"']([^\"']+)", text):
        if pinned in names:
            yield f"pin_compatible of {pinned}, which is an output"
    for output in outputs_of(recipe):
        yield from output_faults(output)
        yield from noarch_faults(output)


def context_faults(recipe: dict[str, Any]) -> Iterator[str]:
    context = recipe["context"]
    if not isinstance(context["version"], str):
        yield "version is not quoted"
    Version(context["version"])
    for name, value in context.items():
        for key in VARIANT_KEYS:
            if re.search(rf"\{{\{{ {key}\b(?! \| default)", str(value)):
                yield f"context.{name} reads {key} without a default"
    if not 0 <= context.get("build", 0) < 50:
        yield "the counter must stay below 50"


def output_faults(output: dict[str, Any]) -> Iterator[str]:
    name = output["package"]["name"]
    if not re.fullmatch(r"[a-z0-9_.-]+", name):
        yield f"{name}: characters"
    if not output.get("tests"):
        yield f"{name}: no tests"
    requirements = output.get("requirements", {})
    if list(requirements) != [key for key in REQUIREMENTS_ORDER if key in requirements]:
        yield f"{name}: order of requirements"
    sections = {
        key: list(flat(value)) for key, value in requirements.items() if isinstance(value, list)
    }
    build, host, run = (sections.get(key, []) for key in ("build", "host", "run"))
    for requirement in (*build, *host, *run, *sections.get("run_constraints", [])):
        plain = re.sub(r"\$\{\{.*?\}\}", "X", requirement)
        if re.search(r"[\[\]^$|]", plain):
            # libsolv, of conda and mamba, splits at "|" and knows no expressions.
            yield f"{name}: {requirement!r} is not understood by all solvers"
            continue
        if not re.fullmatch(r"[\w.-]+( [^ ]+( [^ ]+)?)?", plain) or re.search(r"[<>=] ", plain):
            yield f"{name}: spaces in {requirement!r}"
        if plain.startswith(("sysroot", "__osx")):
            yield f"{name}: {requirement!r} belongs to stdlib"
    noarch = output.get("build", {}).get("noarch")
    if any("compiler(" in item for item in build) and not any("stdlib(" in item for item in build):
        yield f"{name}: compiler without stdlib"
    if noarch == "python":
        if not any(re.fullmatch(r"python >=.+", item) for item in run):
            yield f"{name}: no lower bound of Python"
    elif "python" in host and "python" not in run:
        yield f"{name}: python is in host alone"
    script = str(output.get("build", {}).get("script", ""))
    if "pip install" in script and not all(
        option in script for option in ("--no-deps", "--no-build-isolation")
    ):
        yield f"{name}: pip may reach for an index"


def noarch_faults(output: dict[str, Any]) -> Iterator[str]:
    name, build = output["package"]["name"], output.get("build", {})
    requirements = output.get("requirements", {})
    host = list(flat(requirements.get("host", [])))
    if "pip" in host and not BUILD_BACKENDS & {item.split(" ")[0] for item in host}:
        yield f"{name}: no build backend in host"
    noarch = build.get("noarch")
    if noarch is None:
        return
    if noarch not in ("python", "generic"):
        yield f"{name}: noarch {noarch!r}"
    sections = [value for value in requirements.values() if isinstance(value, list)]
    if "skip" in build or any(isinstance(item, dict) for value in sections for item in value):
        yield f"{name}: conditions in a noarch package"  # R1-002
    if noarch == "python":
        versions = [
            item["python"].get("python_version") for item in output["tests"] if "python" in item
        ]
        run = list(flat(requirements["run"]))
        pins = {"python ${{ python_min }}.*": host, "python >=${{ python_min }}": run}
        if versions != ["${{ python_min }}.*"] or any(pin not in pins[pin] for pin in pins):
            yield f"{name}: python_min in host, run and tests"


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_keeps_the_rules(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert list(faults(read_yaml(name), text)) == []
    if name in OURS:
        assert read_yaml(name)["context"]["version"] == (ROOT / "VERSION").read_text().strip()


def _output(recipe: dict[str, Any]) -> dict[str, Any]:
    return outputs_of(recipe)[0]


BREACHES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("licence text", lambda r: r["about"].pop("license_file"), "license_file is missing"),
    ("tests", lambda r: _output(r).pop("tests"), "no tests"),
    ("stdlib", lambda r: _output(r)["requirements"]["build"].pop(1), "compiler without stdlib"),
    ("counter", lambda r: r["context"].update(build=50), "below 50"),
    ("url", lambda r: r["source"].update(url="https://example.org/x.tar.gz"), "without sha256"),
    (
        "default",
        lambda r: r["context"].update(level="${{ microarch_level }}"),
        "reads microarch_level without a default",
    ),
    ("space", lambda r: _output(r)["requirements"]["run"].append("numpy >= 2"), "spaces in"),
    (
        "expression",
        lambda r: _output(r)["requirements"]["run"].append("__archspec[build='^(m1|m2)$']"),
        "not understood by all solvers",
    ),
    ("order", lambda r: r.update(package=r.pop("about")), "order of sections"),
    ("unknown", lambda r: r.update(test=[]), "order of sections"),
    ("maintainers", lambda r: r["extra"].update({"recipe-maintainers": "me"}), "no list of"),
    ("backend", lambda r: _output(r)["requirements"]["host"].pop(3), "no build backend"),
    ("pin", lambda r: _output(r)["package"].update(name="other"), "which is no output"),
    ("noarch", lambda r: _output(r)["build"].update(noarch="generic"), "conditions in a noarch"),
]


@pytest.mark.parametrize(
    ("breach", "words"), [item[1:] for item in BREACHES], ids=[item[0] for item in BREACHES]
)
def test_a_breach_is_noticed(breach: Callable[[dict[str, Any]], object], words: str) -> None:
    recipe = copy.deepcopy(read_yaml(RECIPES[0]))
    breach(recipe)
    text = (ROOT / RECIPES[0]).read_text(encoding="utf-8")
    assert any(words in fault for fault in faults(recipe, text))


def test_the_tests_in_the_package_are_those_that_were_promised() -> None:
    tests = str(_output(read_yaml(RECIPES[0]))["tests"])
    for words in (
        "pip_check", "imports", "check_installed.py", "horovodrun -np 2", "mpiexec -n 2",
        "horovodrun --mpi -np 2", "HOROVOD_CPU_OPERATIONS=mpi",
    ):  # fmt: skip
        assert words in tests
    for script in ("check_installed.py", "two_ranks.py", "install_variant.py"):
        assert (ROOT / "recipe" / script).is_file()
    assert "--check-build" in (ROOT / "recipe" / "check_installed.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("label", "libraries", "words"),
    [
        ("cu99", (), "'cu99' is not defined for x86_64"),
        ("rocm", (), "bin/zig: needed to compile for AMD's GPUs"),
        ("cu12", (), "one libnvrtc.so.N is needed, found: none"),
        ("cu12", ("libnvrtc.alt.so.12", "libnvrtc.so", "libnvrtc-builtins.so.12.9"), "found: none"),
        ("cu12", ("libnvrtc.so.12", "libnvrtc.so.13"), "libnvrtc.so.13"),
    ],
)
def test_nothing_is_built_without_definition_or_compiler(
    tmp_path: Path, label: str, libraries: tuple[str, ...], words: str
) -> None:
    (tmp_path / "lib").mkdir()
    for library in libraries:
        (tmp_path / "lib" / library).touch()
    done = subprocess.run(
        [sys.executable, "recipe/install_variant.py", "linux-64"],
        check=False, text=True, capture_output=True, timeout=60, cwd=ROOT,
        env={
            **os.environ, "VARIANT_LABEL": label, "VARIANT_MPI": "nompi",
            "BUILD_PREFIX": str(tmp_path),
        },
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr
    assert not done.stdout


def test_the_environment_names_the_package_without_pins() -> None:
    environment = read_yaml("environment.yml")
    assert environment["channels"] == ["horovod-variants", "conda-forge"]
    wanted = {"python", "pip", "horovod-variants", "pytorch", "openmpi"}
    assert {item.split(" ")[0] for item in environment["dependencies"]} == wanted
    assert "horovod-variants" in environment["dependencies"]


def test_the_package_requires_what_the_wheels_require() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    required = tomllib.loads(text)["project"]["dependencies"]
    output = _output(read_yaml("recipe/recipe.yaml"))
    run = {spec.split(" ", 1)[0] for spec in flat(output["requirements"]["run"])}
    assert {re.split(r"[^\w-]", requirement, maxsplit=1)[0] for requirement in required} <= run


def test_nothing_is_exported_to_packages_that_are_built_with_ours() -> None:
    """No output holds a library to link to, or a guard that what is compiled with it needs."""
    for name in RECIPES:
        for output in outputs_of(read_yaml(name)):
            assert "run_exports" not in output.get("requirements", {})
            assert "-dev" not in output["package"]["name"]


# conda-smithy's model of the file: what each key that we set may be.
FEEDSTOCK_KEYS: dict[str, Callable[[Any], bool]] = {
    "conda_build_tool": lambda value: value in ("conda-build", "rattler-build"),
    "conda_install_tool": lambda value: value in ("conda", "mamba", "micromamba", "pixi"),
    "build_platform": lambda value: all(re.fullmatch("linux_[a-z0-9]+", key) for key in value),
    "provider": lambda value: set(value.values()) <= {"azure", "default", "emulated", "native"},
    "test": lambda value: value in ("all", "native", "native_and_emulated"),
    "conda_build": lambda value: all(isinstance(item, bool) for item in value.values()),
    "conda_forge_output_validation": lambda value: value is True,
    "github": lambda value: set(value) <= {"user_or_org", "repo_name", "branch_name",
                                           "tooling_branch_name"},
    "bot": lambda value: (
        isinstance(value["automerge"], bool)
        and value["inspection"] in ("hint", "hint-all", "hint-source", "update-all", "disabled")
    ),
}  # fmt: skip


def test_the_feedstock_builds_both_platforms_with_the_new_tool() -> None:
    settings = read_yaml("conda-forge.yml")  # keys that are written twice are an error
    assert [key for key, value in settings.items() if not FEEDSTOCK_KEYS[key](value)] == []
    assert settings["conda_build_tool"] == "rattler-build"
    assert settings["test"] == "native_and_emulated"
    assert settings["build_platform"] == {"linux_aarch64": "linux_64"}
    assert settings["conda_build"] == {"error_overlinking": True}
