"""Ranks on several hosts, which are network namespaces: real TCP, delay, loss and a cut cable."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collective.launching import LAUNCH_SECONDS, RANKS, Launched, checks_of, clean_environment
from collective.networks import Network, missing, network_of, run

PROGRAM = RANKS / "across_hosts.py"
CHECKS = ("array_checks.py", "process_set_checks.py")
ABOUT_ONE_HOST = {"check_ranks_are_all_there", "check_transport_is_the_forced_one"}
SILENCE = "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS"

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    if reason := missing():
        pytest.skip(f"no network namespaces: {reason}")
    with network_of(3, tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


def launch(
    network: Network,
    *arguments: str | Path,
    env: dict[str, str] | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> Launched:
    """Runs `horovodrun` on the first host, and tells of every line of its output."""
    command = network.inside(0, sys.executable, "-m", "horovod.runner", *map(str, arguments))
    environment = {**clean_environment(), "PATH": network.path, **(env or {})}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "HOROVOD_START_TIMEOUT": "120"},
        cwd=Path(__file__).parent,
    ) as launcher:
        timer = threading.Timer(LAUNCH_SECONDS, launcher.kill)
        timer.start()
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=errors.extend, args=(launcher.stderr,))
        reader.start()
        lines = []
        for line in launcher.stdout:
            lines.append(line)
            on_line(line)
        reader.join()
        timer.cancel()
    return Launched(launcher.returncode, "".join(lines), "".join(errors))


def test_every_operation_works_across_hosts(network: Network, tmp_path: Path) -> None:
    launched = launch(
        network, "-np", "4", "-H", network.slots([2, 1, 1]), sys.executable,
        RANKS / "run_checks.py", *(RANKS / file for file in CHECKS), tmp_path,
        env={"HOROVOD_DYNAMIC_PROCESS_SETS": "1"},
    )  # fmt: skip
    reports = [tmp_path / f"{rank}.json" for rank in range(4)]
    assert all(report.exists() for report in reports), launched.err
    for report in reports:
        outcomes = json.loads(report.read_text())
        assert {name for name, text in outcomes.items() if text} <= ABOUT_ONE_HOST, outcomes
        assert set(outcomes) == {check for file in CHECKS for check in checks_of(file)}


@pytest.mark.parametrize(
    ("slots", "version", "transport"),
    [([2, 1], 4, "shm+tcp"), ([1, 2], 6, "shm+tcp"), ([1, 1, 1], 6, "tcp")],
)
def test_ranks_use_shared_memory_inside_a_host(
    network: Network, slots: list[int], version: int, transport: str
) -> None:
    hosts = network.slots(slots, version)
    launched = launch(
        network, "-np", str(sum(slots)), "-H", hosts, sys.executable, PROGRAM, "12",
        env={"HOROVOD_HIERARCHICAL_ALLREDUCE": str(version % 3)},
    )  # fmt: skip
    for rank in range(sum(slots)):
        assert launched.lines(rank) == [f"transport: {transport}", "under way", "done"], (
            launched.err
        )


def test_a_chosen_interface_that_no_host_has_is_named(network: Network) -> None:
    launched = launch(
        network, "-np", "2", "-H", network.slots([1, 1]), "--network-interfaces", "nosuch0",
        sys.executable, PROGRAM, "1",
    )  # fmt: skip
    assert launched.code == 2
    assert "'nosuch0' has no address here" in launched.err
    assert "eth0" in launched.err
    chosen = launch(
        network, "-np", "2", "-H", network.slots([1, 1]), "--network-interfaces", "nosuch0,eth0",
        sys.executable, PROGRAM, "12",
    )  # fmt: skip
    assert chosen.lines(1)[-1] == "done", chosen.err


def test_the_ways_to_an_interface_that_only_other_hosts_have_work(network: Network) -> None:
    one, other = network.host(1), network.host(2)
    run(
        "ip",
        "-n",
        one,
        "link",
        "add",
        "fast0",
        "type",
        "veth",
        "peer",
        "name",
        "fast0",
        "netns",
        other,
    )
    command: list[str | Path] = [
        "-np", "2", "-H", f"{network.address(1)}:1,{network.address(2)}:1",
        sys.executable, PROGRAM, "12",
    ]  # fmt: skip
    try:
        for index, host in enumerate((one, other), 1):
            run("ip", "-n", host, "address", "add", f"10.78.0.{index}/24", "dev", "fast0")
            run("ip", "-n", host, "link", "set", "fast0", "up")
        refused = launch(network, "--network-interfaces", "fast0", *command)
        assert refused.code == 2
        assert "--network-interfaces fast0,eth0, or HOROVOD_GLOO_IFACE=fast0," in refused.err
        for flags, chosen in (
            (("--network-interfaces", "fast0,eth0"), {}),
            ((), {"HOROVOD_GLOO_IFACE": "fast0"}),
        ):
            launched = launch(network, *flags, *command, env=chosen)
            assert launched.code == 0, launched.err
            assert launched.lines(1)[-1] == "done"
    finally:
        run("ip", "-n", one, "link", "delete", "fast0")


@pytest.mark.parametrize("elastic", [False, True])
def test_pods_need_no_names_that_the_launcher_knows(
    network: Network,
    tmp_path: Path,
    elastic: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    program = tmp_path / "kubexec.sh"
    program.write_text(
        f'#!/bin/sh\nhost="{network.name}-${{1#pod-}}"\n'
        'exec ip netns exec "$host" env -i PATH="$PATH" sh -c "$2" </dev/null\n'
    )
    program.chmod(0o755)
    chosen = ["--min-np", "2"] if elastic else []
    launched = launch(
        network, "-np", "2", *chosen, "-H", "pod-1:1,pod-2:1", sys.executable, PROGRAM, "12",
        env={"OMPI_MCA_plm_rsh_agent": str(program)},
    )  # fmt: skip
    for rank in range(2):
        assert launched.lines(rank) == ["transport: tcp", "under way", "done"], launched.err


@pytest.mark.parametrize("fanout", ["0", "2"])
def test_a_host_behind_a_cut_cable_is_named(network: Network, fanout: str) -> None:
    """Nobody is told; each side finds that it hears nothing of the other one.

    Rank 0 hears rank 3 itself, or through rank 2.
    """

    def cut(line: str) -> None:
        if "under way" in line and not has_been_cut:
            has_been_cut.append(True)
            network.cut(1)

    has_been_cut: list[bool] = []
    try:
        launched = launch(
            network, "-np", "4", "-H", network.slots([2, 2]), sys.executable, PROGRAM, "0",
            env={SILENCE: "5", "HOROVOD_CONTROL_FANOUT": fanout}, on_line=cut,
        )  # fmt: skip
    finally:
        network.mend(1)
    said = [launched.lines(rank)[-1] for rank in range(4)]
    for rank, others in ((0, (2, 3)), (1, (2, 3)), (2, (0,)), (3, (0,))):
        assert said[rank].startswith(tuple(f"failed: rank {other}" for other in others)), said
        assert "nothing was heard of it for 5 s" in said[rank], said


def test_two_hosts_that_reach_the_first_alone_name_each_other(network: Network) -> None:
    """Rank 0 hears of both all the time, so it is their own connection that tells."""

    def cut(line: str) -> None:
        if "under way" in line and not has_been_cut:
            has_been_cut.append(True)
            network.cut_between(1, 2)

    has_been_cut: list[bool] = []
    try:
        launched = launch(
            network, "-np", "3", "-H", network.slots([1, 1, 1]), sys.executable, PROGRAM, "0",
            env={SILENCE: "3"}, on_line=cut,
        )  # fmt: skip
    finally:
        network.mend_between(1, 2)
    said = [launched.lines(rank)[-1] for rank in range(3)]
    assert len(set(said)) == 1, said
    assert said[0].startswith(("failed: rank 1", "failed: rank 2")), said
    assert "the way between the two hosts has failed" in said[0], said


@pytest.mark.parametrize("silence", ["0", "60"])
def test_a_network_that_comes_back_in_time_ends_nothing(network: Network, silence: str) -> None:
    """Even where the hosts' own setting gives up what is not acknowledged for three seconds."""
    cut: list[threading.Timer] = []

    def cut_for_a_while(line: str) -> None:
        if "under way" in line and not cut:
            network.cut(1)
            cut.append(threading.Timer(5, network.mend, [1]))
            cut[0].start()

    def repeat(times: int) -> None:
        for host in range(2):
            setting = "/proc/sys/net/ipv4/tcp_retries2"
            run(*network.inside(host, "sh", "-c", f"echo {times} >{setting}"))

    repeat(3)
    try:
        launched = launch(
            network, "-np", "2", "-H", network.slots([1, 1]), sys.executable, PROGRAM, "3000",
            env={SILENCE: silence}, on_line=cut_for_a_while,
        )  # fmt: skip
    finally:
        for timer in cut:
            timer.join()
        repeat(15)
    for rank in range(2):
        assert launched.lines(rank)[-1] == "done", launched.out


def test_a_slow_network_that_loses_frames_is_used_all_the_same(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(f"no network namespaces: {reason}")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("no TAP devices: /dev/net/tun cannot be opened")
    with network_of(2, tmp_path, delay_ms=5, loss=0.01) as network:
        launched = launch(
            network, "-np", "3", "-H", network.slots([2, 1]), sys.executable, PROGRAM, "12"
        )
    for rank in range(3):
        assert launched.lines(rank)[-1] == "done", launched.err
