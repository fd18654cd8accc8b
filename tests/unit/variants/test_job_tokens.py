"""The job server: builds that run at once share one machine's cores."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import closing
from pathlib import Path

from variantwheel.job_tokens import JobTokens

EDGES = 6
TIMEOUT = 60


def test_ninja_takes_part(tmp_path: Path) -> None:
    """With one token for all, no two jobs overlap, although Ninja alone would run several."""
    log = tmp_path / "log"
    rule = f"rule job\n  command = echo begin >> {log} && echo end >> {log} && touch $out\n"
    edges = "".join(f"build out{number}: job\n" for number in range(EDGES))
    ninja = shutil.which("ninja")
    assert ninja is not None
    (tmp_path / "build.ninja").write_text(rule + edges)
    # One of the two is in the hands of another build; Ninja has the other by running at all.
    with closing(JobTokens(tmp_path / "jobs", 2)) as tokens, tokens.one(), tokens.one():
        done = subprocess.run(
            [ninja, "-C", str(tmp_path)],
            env={**os.environ, **tokens.environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT,
        )
    assert "observer" not in done.stderr
    lines = log.read_text().split()
    assert lines == ["begin", "end"] * EDGES


def test_a_token_is_waited_for_and_given_back(tmp_path: Path) -> None:
    with closing(JobTokens(tmp_path / "jobs", 1)) as tokens:
        got = threading.Event()

        def take() -> None:
            with tokens.one():
                got.set()

        with tokens.one():
            waiting = threading.Thread(target=take)
            waiting.start()
            assert not got.is_set()
        waiting.join(TIMEOUT)
        assert got.is_set()
    assert not (tmp_path / "jobs").exists()


def test_more_cores_than_a_pipe_has_room_for_are_no_hang(tmp_path: Path) -> None:
    made = threading.Event()

    def make() -> None:
        with closing(JobTokens(tmp_path / "jobs", 70_000)) as tokens, tokens.one():
            made.set()

    # One that hangs does not keep the tests from ending.
    threading.Thread(target=make, daemon=True).start()
    assert made.wait(TIMEOUT)
