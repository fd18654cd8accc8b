"""Programs of a build end with all that they started, also those that will not hear of it."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

import pytest

from variantwheel import build_programs
from variantwheel.build_programs import BuildPrograms
from variantwheel.errors import BuildFailedError

TIMEOUT = 60
DEAF = "trap '' INT TERM; "


def test_a_program_says_how_it_ended_and_prints_into_the_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        words = ["sh", "-c", 'echo "$A $PWD"; exit 3']
        variables = {"A": "1", "PATH": os.environ["PATH"]}
        assert BuildPrograms().run(words, log.fileno(), variables, str(tmp_path)) == 3
    assert (tmp_path / "log").read_text() == f"1 {tmp_path}\n"


@pytest.mark.parametrize(
    "script",
    [
        "echo here; sleep 600",
        # As under a shell that has put it into the background, and worse.
        f"{DEAF}echo here; sleep 600",
        f"({DEAF}sleep 600) & echo here; wait",
    ],
    ids=["plain", "deaf", "deaf child"],
)
def test_stopping_ends_a_program_and_its_children(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings = tuple((number, 0.1) for number, _ in build_programs._ENDINGS)
    monkeypatch.setattr(build_programs, "_ENDINGS", endings)
    monkeypatch.setattr(build_programs, "_LEFT_BEHIND_S", 0.1)
    programs = BuildPrograms()
    reader, writer = os.pipe()
    found: list[int] = []
    thread = threading.Thread(
        target=lambda: found.append(programs.run(["sh", "-c", script], writer))
    )
    thread.start()
    assert select.select([reader], [], [], TIMEOUT)[0]
    assert os.read(reader, 100) == b"here\n"
    os.close(writer)
    programs.stop()
    thread.join(TIMEOUT)
    assert len(found) == 1
    assert found[0] != 0
    # The end of the file: nobody holds it open.
    assert select.select([reader], [], [], TIMEOUT)[0]
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_nothing_starts_after_the_end() -> None:
    programs = BuildPrograms()
    programs.stop()
    with pytest.raises(BuildFailedError, match="was interrupted"):
        programs.run(["true"], 2)
