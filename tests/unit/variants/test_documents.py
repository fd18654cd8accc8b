"""What the documents tell a maintainer to type, typed in a copy of a sample project."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from static_site import served

from unit.variants.index_servers import NGINX_LOCATION
from unit.variants.installers import installed_label, pip_install, run_installer
from unit.variants.tiny_project import EPOCH
from variantwheel.definition import check_words, read_definition
from variantwheel.vocabulary import known_vocabulary

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "maintainers-guide.md"
TIMEOUT = 300
RUN_AND_EMULATE = "variantwheel check release/*.whl --run --emulate"
# Build environments are those of the tests: nothing is downloaded for each command.
WRAPPER = """\
#!/bin/sh
case "$1" in build|sdist) set -- "$@" --no-isolation ;; esac
case "$*" in *--rebuild*) set -- "$@" --no-isolation ;; esac
exec {program} "$@"
"""


def blocks(document: Path, language: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def commands(document: Path) -> list[str]:
    """The lines after `$` in the console blocks, without the remarks behind them."""
    lines = [line for block in blocks(document, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines), lines
    return [re.sub(r"\s{2,}#.*", "", line[2:]).strip() for line in lines]


def copy_of(package: str, folder: Path) -> Path:
    """A sample project under version control, which meson's sdists need."""
    project = folder / package
    shutil.copytree(ROOT / "tests" / "packages" / package, project)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "a project"]):
        who = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
        subprocess.run(["git", *who, *words], check=True, cwd=project, timeout=60)
    return project


def run_as_typed(lines: list[str], project: Path, folder: Path) -> str:
    """Runs a page's commands one after the other; returns what they showed."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    wrapper = bin_folder / "variantwheel"
    wrapper.write_text(WRAPPER.format(program=Path(sys.executable).with_name("variantwheel")))
    wrapper.chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
    for line in lines:
        shown = line.replace("8000", str(port))
        script += f"echo {_quoted('$ ' + shown)}\n{shown}\n"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    path = f"{bin_folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=project, check=False, text=True, timeout=TIMEOUT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**kept, "PATH": path, "SOURCE_DATE_EPOCH": str(EPOCH), "PIP_NO_CACHE_DIR": "1",
             "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="no AVX2 code is made on this kind of machine"
)


def test_the_guide_leads_from_nothing_to_an_installed_variant(
    tmp_path: Path, best_label: str
) -> None:
    project = copy_of("norm_variants", tmp_path)
    shown = run_as_typed(commands(GUIDE), project, tmp_path)
    assert "2 wheels checked, 0 failed" in shown
    assert "ok       reproducible" in shown
    assert "\n25.0\n" in shown
    (decision,) = project.glob("stock/lib/python*/site-packages/*.dist-info/variant-decision.json")
    assert f'"label": "{best_label}"' in decision.read_text(encoding="utf-8")
    assert (project / ".github" / "workflows" / "variants.yml").is_file()


def test_the_readme_of_the_toolkit_releases_a_project_with_pybind11(
    tmp_path: Path, environment: Path, best_label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKBUILD_CMAKE_BUILD_TYPE", "MinSizeRel")  # compiles faster
    project = copy_of("dot_variants", tmp_path)
    lines = commands(ROOT / "variants" / "README.md")
    assert [line.split()[1] for line in lines] == [
        "matrix", "build", "check", "sdist", "sdist", "index", "workflow",
    ]  # fmt: skip
    shown = run_as_typed([*lines, RUN_AND_EMULATE], project, tmp_path)
    assert shown.count("2 wheels checked, 0 failed") == 2
    assert re.search(r"^x86-64-v4 +x86_64_v3$", shown, flags=re.MULTILINE)
    with served(project / "site") as address:
        pip_install(environment, "--index-url", f"{address}/simple/", "dot-variants")
    assert installed_label(environment, "dot_variants-2.0") == best_label
    code = "from array import array as a; import dot_variants as d; "
    code += "print(d.LEVEL, d.dot(a('d', [1, 2]), a('d', [3, 4])))"
    python = environment / "bin" / "python"
    told = run_installer(python, "-c", code, environment=environment).split()
    assert told == [{"null": "baseline"}.get(best_label, best_label), "11.0"]


def test_the_page_about_ci_names_no_other_commands() -> None:
    tested = {*commands(GUIDE), *commands(ROOT / "variants" / "README.md")}
    assert set(commands(ROOT / "docs" / "ci.md")) <= tested


def test_the_guide_shows_what_is_tested(tmp_path: Path) -> None:
    assert blocks(GUIDE, "nginx") == [NGINX_LOCATION]
    (definition,) = blocks(GUIDE, "toml")
    file = tmp_path / "cu12.toml"
    file.write_text(definition, encoding="utf-8")
    check_words(read_definition(file), known_vocabulary())
    for name in re.findall(r"`(tests/packages/[\w/.]+)`", GUIDE.read_text(encoding="utf-8")):
        assert (ROOT / name).exists()
