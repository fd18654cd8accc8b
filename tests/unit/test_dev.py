"""What `./dev` makes of its command line."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from dev_program import DEV, ROOT, SESSIONS


@pytest.mark.parametrize(
    ("line", "sessions", "rest"),
    [
        ("", [], []),
        ("lint types", ["lint", "types"], []),
        ("deaths 10 memory", ["deaths"], ["10", "memory"]),
        ("cibuildwheel x86_64_v3", ["cibuildwheel"], ["x86_64_v3"]),
        ("bench variants release", ["bench"], ["variants", "release"]),
        ("bench --transport tcp lint", ["bench"], ["--transport", "tcp", "lint"]),
        ("tests -k ragged -- types", ["tests"], ["-k", "ragged", "--", "types"]),
        # A variant and a session have one name.
        ("matrix null rocm", ["matrix"], ["null", "rocm"]),
        ("matrix -- rocm", ["matrix"], ["rocm"]),
        ("cibuildwheel rocm", ["cibuildwheel", "rocm"], []),
        # nox says what is wrong with it.
        ("tets", ["tets"], []),
        ("tets lint", ["tets", "lint"], []),
    ],
)
def test_sessions_end_at_the_first_other_word(
    line: str, sessions: list[str], rest: list[str]
) -> None:
    assert DEV.split(line.split(), SESSIONS) == (sessions, rest)


def test_sessions_that_read_arguments_are_told_from_others() -> None:
    noxfile = """
import nox
@nox.session
def reads(session): session.run("pytest", *session.posargs)
@nox.session
def deaf(session): session.run("pytest")
def plain(session): session.run(*session.posargs)
"""
    assert DEV.sessions_in(noxfile) == {"reads": True, "deaf": False}
    assert SESSIONS["bench"]
    assert not SESSIONS["lint"]


def test_a_word_that_nobody_reads_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev"), "lint", "else"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "dev: error: 'else' is no session, and lint takes no arguments; ./dev lists the sessions\n"
    )


def test_a_checkout_may_be_moved(tmp_path: Path) -> None:
    """Scripts that pip installs name the folder of their environment; `dev` does without them."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    shutil.copy(ROOT / "dev", before)
    (before / "noxfile.py").write_text("")
    venv.create(before / ".dev" / "nox", with_pip=False)
    module = next((before / ".dev/nox").glob("lib/python*/site-packages")) / "nox.py"
    module.write_text("import sys; print('nox', sys.argv[1:])")
    (before / ".dev/nox/installed").write_text("\n".join(DEV.REQUIRED))
    before.rename(after)
    ran = subprocess.run(
        [sys.executable, after / "dev"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout.startswith("nox ['--noxfile'"), ran.stderr
    assert ran.returncode == 0
