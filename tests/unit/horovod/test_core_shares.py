"""Ranks of a host share its cores."""

import os
from pathlib import Path

import pytest

from horovod.runner.core_shares import THREADS, share_of_cores, usable_cores
from horovod.runner.remote import Order


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight CPUs on four cores, of which this process may use six on four."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2, 3, 4, 5}, raising=False)
    for cpu in range(8):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        write(topology / "thread_siblings_list", f"{cpu % 4},{cpu % 4 + 4}")
    return tmp_path


def test_threads_of_one_core_count_once(host: Path) -> None:
    assert usable_cores(host) == 4


def test_a_machine_that_tells_no_topology_has_as_many_cores_as_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {2, 7, 9}, raising=False)
    assert usable_cores(tmp_path) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores(tmp_path) == os.cpu_count()


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/pod/job", {"pod/cpu.max": "250000 100000", "pod/job/cpu.max": "max 100000"}, 2),
        ("0::/pod/job", {"pod/cpu.max": "250000 100000", "pod/job/cpu.max": "100000 100000"}, 1),
        ("0::/", {"cpu.max": "300000 100000"}, 3),
        ("0::/../outside", {"cpu.max": "300000 100000"}, 3),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "900000 100000"}, 4),
        (
            "5:memory:/\n4:cpu,cpuacct:/pod",
            {"cpu/pod/cpu.cfs_quota_us": "200000", "cpu/pod/cpu.cfs_period_us": "100000"},
            2,
        ),
        (
            "4:cpu,cpuacct:/",
            {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("no group", {"cpu.max": "100000 100000"}, 4),
    ],
)  # fmt: skip
def test_a_control_group_bounds_them(
    host: Path, groups: str, files: dict[str, str], cores: int
) -> None:
    write(host / "proc/self/cgroup", groups)
    for name, text in files.items():
        write(host / "sys/fs/cgroup" / name, text)
    assert usable_cores(host) == cores


@pytest.mark.parametrize(
    ("environment", "ranks", "cores", "threads"),
    [
        ({}, 1, 8, None),
        ({}, 2, 8, "4"),
        ({}, 3, 8, "2"),
        ({}, 4, 2, "1"),
        ({THREADS: "7"}, 2, 8, None),
        ({THREADS: ""}, 2, 8, "4"),
    ],
)
def test_each_rank_gets_its_share(
    environment: dict[str, str], ranks: int, cores: int, threads: str | None
) -> None:
    assert share_of_cores(environment, ranks, lambda: cores).get(THREADS) == threads


def test_what_a_host_has_set_stays() -> None:
    ranks = {rank: {"HOROVOD_LOCAL_SIZE": "2"} for rank in (4, 5)}
    order = Order(["true"], "/", {}, ranks)
    assert [worker.environment[THREADS] for worker in order.commands({THREADS: "5"})] == ["5", "5"]
    own = str(max(1, usable_cores() // 2))
    assert [worker.environment[THREADS] for worker in order.commands({})] == [own, own]
