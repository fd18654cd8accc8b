"""Every command that a page shows is run by a test, or at least taken by its program's own parser.

A page whose commands a test types is in `TYPED`, with that test. Elsewhere each command is given to
the parser of its program; what is for other people's programs is in `FOREIGN`, with the reason why
it is not run.
"""

import argparse
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev_program import DEV, SESSIONS
from horovod.runner.arguments import parse_args
from variantwheel_selector.cli import _OWN_VERBS, _plugged_in_verbs

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "*/README.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"
)
# Pages and kinds of blocks, and the test that types what stands there.
TYPED = {
    ("README.md", "console"): "tests/integration/test_readme.py",
    ("docs/ci.md", "console"): "tests/unit/variants/test_documents.py",
    ("docs/conda.md", "console"): "tests/integration/test_conda_docs.py",
    ("docs/conda.md", "shell"): "tests/integration/test_conda_docs.py",
    ("docs/maintainers-guide.md", "console"): "tests/unit/variants/test_documents.py",
    ("variants/README.md", "console"): "tests/unit/variants/test_documents.py",
}
FOREIGN = {
    "pip install --no-cache-dir --force-reinstall --no-deps PROJECT==VERSION": (
        "run by tests/integration/test_emulated_cpus.py"
    ),
    "uv pip install --no-cache --reinstall --no-deps PROJECT==VERSION": (
        "compared with what verify prints by tests/unit/selector/test_cli.py"
    ),
    "pip install --force-reinstall --no-deps -r locked/pylock.gpu-node.toml": (
        "run by tests/unit/selector/test_lock.py"
    ),
    "pip install --force-reinstall --no-deps -r locked/requirements.gpu-node.txt": "likewise",
    "uv pip install --reinstall --no-deps -r locked/requirements.gpu-node.txt": "likewise",
    "cibuildwheel --config-file ci/cibuildwheel/x86_64_v3-x86_64.toml --output-dir"
    " wheelhouse/x86_64_v3": "needs containers; see docs/status.md",
}
SCRIPTS = ("bash", "sh", "shell")
LANGUAGES = ("", "console", *SCRIPTS)
# How a block that says no language begins each of its lines, if it holds commands.
PROGRAMS = ("./dev", "chrt", "horovodrun", "mpirun", "pip", "python", "uv", "variantwheel")
SETTINGS = re.compile(r"^(?:[A-Z_]+=\S+ )+")  # of the environment, before a program


def shown(page: str) -> Iterator[tuple[str, str]]:
    """The commands of a page: kind of block, and the command without what is said about it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if language not in LANGUAGES:
            continue
        lines = [line for line in block.splitlines() if line]
        bare = all(SETTINGS.sub("", line).split(" ")[0] in PROGRAMS for line in lines)
        for line in lines:
            if line.startswith("$ ") or bare or language in SCRIPTS:
                yield language, re.sub(r"\s{2,}#.*", "", line.removeprefix("$ ")).strip()


def untyped() -> list[tuple[str, str]]:
    return [
        (page, command)
        for page in PAGES
        for language, command in shown(page)
        if (page, language) not in TYPED
    ]


def check_options(script: Path, words: list[str]) -> None:
    """Its options are declared in the script, or in what scripts beside it share."""
    assert script.is_file(), script
    sources = [script, *(ROOT / "bench" / "turns").glob("*.py")]
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    for word in words:
        if word.startswith("--"):
            assert f'"{word}"' in text, f"{script.name} has no option {word}"


def check_dev(words: list[str]) -> None:
    named, rest = DEV.split(words, SESSIONS)
    assert SESSIONS.keys() >= set(named), f"./dev has no session {named[0]}"
    assert not rest or SESSIONS[named[0]], f"./dev {named[0]} takes no arguments"
    if named[0] == "bench":
        name = rest[0] if rest and not rest[0].startswith("-") else "allreduce"
        check_options(ROOT / "bench" / f"{name}.py", rest)


def check_python(words: list[str]) -> None:
    if words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None, words[1]
    else:
        check_options(ROOT / words[0], words[1:])


def check_variantwheel(words: list[str]) -> None:
    modules = {name: f"variantwheel_selector.cli.{name}" for name in _OWN_VERBS}
    verb = importlib.import_module({**modules, **_plugged_in_verbs()}[words[0]])
    parser = argparse.ArgumentParser()
    verb.configure(parser)
    parser.parse_args(words[1:])


def check(command: str) -> None:
    """Gives a command to the program that it is for."""
    program, *words = shlex.split(SETTINGS.sub("", command).partition(";")[0].rstrip("& "))
    if program == "chrt":
        program, *words = words[2:]
    if program == "./dev":
        check_dev(words)
    elif program == "python":
        check_python(words)
    elif program == "horovodrun":
        parse_args(words)
    elif program == "variantwheel":
        check_variantwheel(words)
    else:
        raise AssertionError(f"{program} is neither run nor in FOREIGN, with the reason")


@pytest.mark.parametrize(("page", "command"), untyped())
def test_a_command_is_one_that_its_program_takes(page: str, command: str) -> None:
    if command not in FOREIGN:
        check(command)


def test_the_lists_name_what_there_is() -> None:
    commands = {command for page in PAGES for _, command in shown(page)}
    assert set(FOREIGN) <= commands
    for (page, language), test in TYPED.items():
        assert any(kind == language for kind, _ in shown(page)), (page, language)
        assert Path(page).name.rpartition(".")[0] in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_sessions_that_a_page_speaks_of_take_what_it_says(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for words in re.findall(r"`\./dev ([^`]+)`", text):
        check_dev(re.sub(r"\[.*?\]", "", words).split())


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("./dev bench nothing", "nothing.py"),
        ("./dev fly", "no session fly"),
        ("HOROVOD_TRANSPORT=tcp ./dev lint types fly", "takes no arguments"),
        ("python bench/hosts.py --warp 9", "no option --warp"),
        ("rsync -a here there", "neither run nor in FOREIGN"),
    ],
)
def test_what_nothing_takes_is_found(command: str, why: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(why)):
        check(command)
