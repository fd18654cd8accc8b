"""Real jobs of random operations under random faults: `./dev soak [--minutes N] [--seed S]`.

Each episode is one `horovodrun` with a placement, a transport and a fault drawn from the seed:
none, a rank killed at any moment, a rank stopped for a while (nothing may happen), or for longer
than the others are to wait (they name it). Afterwards no process, shared memory or wrong result
may be left.
"""
# ruff: noqa: T201 - it reports to whoever runs it

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

RANK = Path(__file__).parent / "ranks" / "soak_rank.py"
SILENCE = 5.0  # seconds after which a stopped rank is given up
FAULTS = ("none", "kill", "pause", "stop")
# Names of this machine that the launcher counts as unlike hosts, so that sockets join them.
PLACEMENTS = ("localhost:4", "localhost:2,127.0.0.1:2", "localhost:1,127.0.0.1:3")


@dataclass(frozen=True)
class Episode:
    """What follows from a seed."""

    seed: int
    ranks: int
    placement: str
    transport: str
    fault: str
    victim: int
    after: float  # seconds from the first round's end to the fault

    @classmethod
    def draw(cls, seed: int) -> "Episode":
        """The fault goes round, so that a few episodes show them all."""
        draw = random.Random(seed)  # noqa: S311 - a reproducible plan
        ranks = draw.choice((2, 3, 4))
        placement = draw.choice(PLACEMENTS)
        transport = "auto" if "," in placement else draw.choice(("auto", "shm", "tcp"))
        victim = draw.randrange(ranks)
        after = draw.uniform(0, 0.5)
        return cls(seed, ranks, placement, transport, FAULTS[seed % 4], victim, after)


def processes_with(mark: str) -> dict[int, str]:
    """Processes whose environment holds a text, with their ranks."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
            ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue  # it has ended, or is somebody else's
        if mark in environment and not ended:
            ranks = [word[13:] for word in environment if word.startswith("HOROVOD_RANK=")]
            found[int(folder.name)] = ranks[0] if ranks else ""
    return found


def stop_in_a_job(process: int, state: Path) -> None:
    """Stops a rank in the middle of a job: between two of them, others are right to wait for it."""
    while True:
        if state.read_bytes() == b"1":
            os.kill(process, signal.SIGSTOP)
            while Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.001)
            if state.read_bytes() == b"1":
                return
            os.kill(process, signal.SIGCONT)
        time.sleep(0.001)


def inflict(episode: Episode, mark: str, state: Path) -> None:
    """Does to the victim what the episode says."""
    victims = [p for p, rank in processes_with(mark).items() if rank == str(episode.victim)]
    time.sleep(episode.after)
    for process in victims:
        stop_in_a_job(process, state)
        if episode.fault == "kill":
            os.kill(process, signal.SIGKILL)
            continue
        time.sleep(SILENCE / 6 if episode.fault == "pause" else 2 * SILENCE)
        os.kill(process, signal.SIGCONT)


def act(episode: Episode, mark: str, seconds: float, end: Path) -> None:
    """The fault, then the end of the job, which a rank that is lost brings about earlier."""
    start = time.monotonic()
    if episode.fault != "none":
        inflict(episode, mark, end.with_name(f"{end.name}.{episode.victim}"))
    if episode.fault in ("none", "pause"):
        time.sleep(max(0, seconds - (time.monotonic() - start)))
        end.touch()


def run(episode: Episode, seconds: float, folder: Path) -> list[str]:
    """What was wrong with one episode."""
    end = folder / f"end.{episode.seed}"
    mark = f"HOROVOD_SOAK_MARK={os.getpid()}.{episode.seed}.{time.monotonic_ns()}"
    words = ["-np", str(episode.ranks), "-H", episode.placement, sys.executable, str(RANK)]
    name, _, value = mark.partition("=")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "horovod.runner", *words, str(episode.seed), str(end)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            name: value,
            "HOROVOD_TRANSPORT": episode.transport,
            "HOROVOD_SINGLE_COPY_BYTES": str((0, 1, 4096)[episode.seed % 3]),
            "HOROVOD_CONTROL_FANOUT": str((0, 2)[episode.seed % 2]),
            "HOROVOD_DYNAMIC_PROCESS_SETS": "1",
            "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS": str(SILENCE),
            "HOROVOD_START_TIMEOUT": "60",
        },
    )
    timer = threading.Timer(seconds + 120, launcher.kill)
    timer.start()
    lines: list[str] = []
    faults: list[threading.Thread] = []
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(launcher.stderr or ()))
    reader.start()
    for line in launcher.stdout or ():
        lines.append(line.rstrip())
        if line.startswith(f"[{episode.victim}]<stdout>:under way"):
            faults.append(threading.Thread(target=act, args=(episode, mark, seconds, end)))
            faults[-1].start()
    launcher.wait()
    timer.cancel()
    reader.join()
    for fault in faults:
        fault.join()
    problems = judge(episode, lines)
    deadline = time.monotonic() + 15
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        problems.append(f"processes are left: {left}")
    return [*problems, *(errors if problems else [])]


def judge(episode: Episode, lines: list[str]) -> list[str]:
    """What the ranks should not have said, or have not."""
    problems = [line for line in lines if ":wrong:" in line or ":left behind" in line]
    for rank in range(episode.ranks):
        said = [line.partition(">:")[2] for line in lines if line.startswith(f"[{rank}]<stdout>:")]
        failed = [line for line in said if line.startswith("failed: ")]
        is_victim = rank == episode.victim
        if is_victim and episode.fault == "kill":
            continue
        if said[-1:] != ["done"]:
            problems.append(f"rank {rank} did not end: {said}")
        if episode.fault in ("none", "pause") and failed:
            problems.append(f"rank {rank}: {failed}")
        named = any(f"rank {episode.victim} " in line for line in failed)
        if episode.fault in ("kill", "stop") and not is_victim and not named:
            problems.append(f"rank {rank} does not name rank {episode.victim}: {said}")
    return problems


def shared_memory() -> set[Path]:
    """What of the project has a name there."""
    return set(Path("/dev/shm").glob("*horovod*"))  # noqa: S108 - looks, and makes nothing


def main() -> int:
    """Runs episodes until the time is up, or one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--episodes", type=int, default=0, help="so many instead of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=4, help="of one episode")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    before = shared_memory()
    count = 0
    while count < options.episodes if options.episodes else time.monotonic() < end:
        episode = Episode.draw(options.seed + count)
        with tempfile.TemporaryDirectory() as folder:
            problems = run(episode, options.seconds, Path(folder))
        if new := shared_memory() - before:
            problems.append(f"shared memory is left: {new}")
        print(f"soak: {episode}: {'; '.join(problems) or 'fine'}", flush=True)
        if problems:
            return 1
        count += 1
    print(f"soak: {count} episodes, all fine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
