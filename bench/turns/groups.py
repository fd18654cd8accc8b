"""Groups of ranks, one for each library, all held open and asked one at a time.

A process cannot be joined to two MPIs, so that each library has processes of its own. Ranks that
are not asked sleep in a read from a socket, so that the machine belongs to the one group whose turn
it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from turns.cases import Case

RANK_PROGRAM = Path(__file__).with_name("rank.py")
# For MPI's launchers: any user, more ranks than cores.
LAUNCH_OPTIONS = {"openmpi": ["--allow-run-as-root", "--oversubscribe"]}
BEFORE = "before"  # another build of ours
MPI_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel MPI"}
ANSWER_SECONDS = 120.0


class GroupError(Exception):
    """A group did not start, did not answer, or computed something wrong."""


@dataclass(frozen=True)
class Start:
    """How the ranks of a group are started: commands and what they add to the environment."""

    commands: Sequence[Sequence[str]]
    environments: Sequence[Mapping[str, str]]


def horovod_start(ranks: int, path: str, python: str = sys.executable) -> Start:
    program = [python, str(RANK_PROGRAM), "horovod", path]
    return Start([[python, "-m", "horovod.runner", "-np", str(ranks), *program]], [{}])


def gloo_start(ranks: int, path: str) -> Start:
    program = [sys.executable, str(RANK_PROGRAM), "gloo", path]
    shared = {"WORLD_SIZE": str(ranks), "TURNS_STORE": f"{path}.store"}
    return Start([program] * ranks, [shared | {"RANK": str(rank)} for rank in range(ranks)])


def mpi_start(kind: str, environment: Path, ranks: int, path: str) -> Start:
    """Ranks of the MPI that is installed in a virtual environment of its own."""
    binaries = environment.absolute() / "bin"
    launcher = [str(binaries / "mpirun"), *LAUNCH_OPTIONS.get(kind, []), "-n", str(ranks)]
    program = [str(binaries / "python"), str(RANK_PROGRAM), "mpi", path]
    return Start([[*launcher, *program]], [{"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}])


class Group:
    """The ranks of one library."""

    def __init__(self, name: str, start: Start, ranks: int, path: str) -> None:
        self.name = name
        self._lines: list[IO[str]] = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(ranks)
            listener.settimeout(ANSWER_SECONDS)
            self._processes = [
                subprocess.Popen(
                    command,
                    env={**os.environ, "OMP_NUM_THREADS": "1", **more},
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr,
                )
                for command, more in zip(start.commands, start.environments, strict=True)
            ]
            try:
                for _ in range(ranks):
                    connection, _ = listener.accept()
                    connection.settimeout(ANSWER_SECONDS)
                    self._lines.append(connection.makefile("rw", encoding="utf-8"))
            except TimeoutError:
                self.end()
                raise GroupError(
                    f"{name}: of {ranks} ranks {len(self._lines)} came within"
                    f" {ANSWER_SECONDS:.0f} s; what they printed stands above"
                ) from None
        hellos = [self._answer(lines) for lines in self._lines]
        self.facts: dict[str, str] = hellos[0]["facts"]

    def _answer(self, lines: IO[str]) -> Any:
        try:
            line = lines.readline()
        except TimeoutError:
            line = ""
        if not line:
            raise GroupError(f"{self.name}: a rank ended or did not answer; see what it printed")
        return json.loads(line)

    def ask(self, verb: str, **arguments: Any) -> list[Any]:
        """Gives all ranks an order and waits for their answers."""
        for lines in self._lines:
            lines.write(json.dumps({"verb": verb, **arguments}) + "\n")
            lines.flush()
        return [self._answer(lines) for lines in self._lines]

    def prepare(self, label: str, case: Case) -> None:
        """Makes the tensors of a case, and compares one result with the expected one.

        Raises:
            GroupError: it is another one.
        """
        if not all(self.ask("prepare", label=label, case=asdict(case))):
            raise GroupError(f"{self.name}: the result of {case} is wrong")

    def seconds(self, label: str, repetitions: int) -> float:
        """Time for each of some calls in a row, of the slowest rank."""
        return float(max(self.ask("time", label=label, repetitions=repetitions)))

    def drop(self) -> None:
        """Frees the tensors of all cases."""
        self.ask("drop")

    def close(self) -> None:
        """Lets the ranks leave in order."""
        with contextlib.suppress(GroupError, OSError):
            self.ask("close")
        self.end()

    def end(self) -> None:
        """Waits for the processes, and ends those that stay."""
        for lines in self._lines:
            with contextlib.suppress(OSError):
                lines.close()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.terminate()
            process.wait()


class Groups:
    """All libraries that are compared; the first one is ours.

    Args:
        ranks: of each group.
        peers: "gloo", MPIs by the names of `MPI_NAMES`, and `BEFORE`.
        environments: for each MPI the virtual environment with it and mpi4py; for `BEFORE` the one
            with that build.
    """

    def __init__(self, ranks: int, peers: Sequence[str], environments: Mapping[str, Path]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._members: dict[str, Group] = {}
        self._ranks = ranks
        self._peers = peers
        self._environments = environments

    def __enter__(self) -> dict[str, Group]:
        try:
            for key in ("horovod", *self._peers):
                path = str(Path(self._folder.name, key))
                if key == "horovod":
                    start, name = horovod_start(self._ranks, path), "horovod"
                elif key == "gloo":
                    start, name = gloo_start(self._ranks, path), "Gloo"
                elif key == BEFORE:
                    python = str(self._environments[key].absolute() / "bin" / "python")
                    start, name = horovod_start(self._ranks, path, python), BEFORE
                else:
                    start = mpi_start(key, self._environments[key], self._ranks, path)
                    name = MPI_NAMES[key]
                self._members[key] = Group(name, start, self._ranks, path)
        except GroupError:
            self.__exit__(None, None, None)
            raise
        return self._members

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for group in self._members.values():
            group.close()
        self._folder.cleanup()
