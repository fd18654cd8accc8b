"""Launches for the tests: a program on some ranks, or a file of checks once for all its tests."""

import functools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from collective.launching import LAUNCHER, RANKS, Launched, Suite, horovodrun

# What takes longest is begun first, lest one process be left with it in the end.
LONGEST = (
    "test_torch.py", "test_examples.py", "test_elastic.py", "test_bench.py", "test_freed_memory.py",
    "test_devices.py", "test_hosts.py", "test_launcher_limits.py", "test_launcher.py",
    "test_stalls.py", "test_process_sets.py", "test_soak.py", "test_ssh.py", "test_late_ranks.py",
    "test_chosen_ranks.py",
)  # fmt: skip
TAIL = 20_000  # characters of output, told with each check that did not run
Launch = Callable[..., Launched]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Brings tests into the order of `LONGEST`; those of other files follow as they are."""
    place = {name: index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONGEST)))


def text_of(written: bytes | str | None) -> str:
    return written.decode(errors="replace") if isinstance(written, bytes) else written or ""


@pytest.fixture
def launch() -> Launch:
    """Runs a program of `ranks/` on some ranks: `launch(2, "name.py", "argument", env={})`."""

    def run(
        np: int,
        program: str,
        *arguments: str,
        env: dict[str, str] | None = None,
        launcher: Sequence[str] = LAUNCHER,
    ) -> Launched:
        words = ("-np", str(np), sys.executable, str(RANKS / program), *arguments)
        return horovodrun(*words, env=env, launcher=launcher)

    return run


@pytest.fixture(scope="session")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Suite, str], Sequence[str]]:
    """What a check came to on each rank: "" or a traceback. Each suite is launched once."""

    @functools.cache
    def run(suite: Suite) -> tuple[Launched, list[dict[str, str]]]:
        folder = tmp_path_factory.mktemp("results")
        try:
            launched = horovodrun(
                "-np",
                str(suite.ranks),
                sys.executable,
                RANKS / "run_checks.py",
                *(RANKS / file for file in suite.files),
                folder,
                env=suite.variables(),
            )
        except subprocess.TimeoutExpired as late:  # told with what has been done
            launched = Launched(-signal.SIGKILL, *map(text_of, (late.stdout, late.stderr)))
        reports = [folder / f"{rank}.json" for rank in range(suite.ranks)]
        return launched, [json.loads(r.read_text()) if r.exists() else {} for r in reports]

    def look_up(suite: Suite, check: str) -> list[str]:
        launched, results = run(suite)
        missing = (
            f"did not run; code {launched.code}\n{launched.out[-TAIL:]}\n{launched.err[-TAIL:]}"
        )
        return [result.get(check, missing) for result in results]

    return look_up
