"""Network namespaces as separate hosts: a switch between them, silent cuts, delay and loss.

`ip netns add` makes the hosts, named after this process, and a further one that holds the switch.
A plain network is a bridge and veth pairs, at full speed. One with delay or loss is a TAP device
for each host and a program that forwards frames between them (frame_switch.py), because the
kernel's own emulator (netem) is an option that many kernels are built without. A host is reached
by a stand-in for `ssh` that enters its namespace. Process ids and shared memory stay common, so it
is the launcher's name of a host that tells its ranks apart from others'.
"""

import contextlib
import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SWITCH = Path(__file__).parent / "frame_switch.py"
_networks = itertools.count()


def run(*words: str | Path) -> None:
    """Runs a command that must succeed."""
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        raise OSError(f"{shlex.join(map(str, words))}: {done.stderr.strip()}")


def missing() -> str:
    """Why no namespaces can be made here; "" where they can."""
    name = f"hvd{os.getpid()}-try"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "delete", name)
    except OSError as error:
        return str(error)
    return ""


@dataclass
class Network:
    """Some hosts on one network.

    Attributes:
        name: of the switch's namespace, and the start of the hosts'.
        count: how many hosts there are.
        program: that forwards frames with delay and loss; None where a bridge does it.
        path: folders for PATH, the stand-in for ssh first.
    """

    name: str
    count: int
    program: "subprocess.Popen[str] | None" = None
    path: str = field(default="")

    def host(self, index: int) -> str:
        """The namespace of a host."""
        return f"{self.name}-{index}"

    def address(self, index: int, version: int = 4) -> str:
        """A host's address on the network."""
        return f"10.77.0.{index + 1}" if version == 4 else f"fd77::{index + 1}"

    def inside(self, index: int, *words: str) -> list[str]:
        """The command that runs another one on a host."""
        return ["ip", "netns", "exec", self.host(index), *words]

    def slots(self, per_host: Sequence[int], version: int = 4) -> str:
        """What `-H` says of the first hosts, all of which are reached over ssh."""
        form = "{}:{}" if version == 4 else "[{}]:{}"
        return ",".join(
            form.format(self.address(index, version), slots) for index, slots in enumerate(per_host)
        )

    def cut(self, index: int) -> None:
        """From now on nothing reaches the host, and nobody is told."""
        if self.program is not None:
            self._tell(f"cut {index}")
        else:
            run("ip", "-n", self.name, "link", "set", f"port{index}", "nomaster")

    def mend(self, index: int) -> None:
        """Undoes `cut`."""
        if self.program is not None:
            self._tell(f"mend {index}")
        else:
            run("ip", "-n", self.name, "link", "set", f"port{index}", "master", "bridge")

    def cut_between(self, one: int, other: int) -> None:
        """From now on nothing reaches the second host from the first, which both stay connected."""
        run(
            "ip", "-n", self.host(one), "neighbour", "replace", self.address(other),
            "lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent",
        )  # fmt: skip

    def mend_between(self, one: int, other: int) -> None:
        """Undoes `cut_between`."""
        run("ip", "-n", self.host(one), "neighbour", "delete", self.address(other), "dev", "eth0")

    def _tell(self, line: str) -> None:
        program = self.program
        assert program is not None
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(line + "\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"


def _write_ssh(network: Network, folder: Path) -> None:
    """A stand-in for `ssh [options] address command` that enters the address's namespace."""
    cases = "\n".join(
        f"    {network.address(i)}|{network.address(i, 6)}) host={network.host(i)};;"
        for i in range(network.count)
    )
    script = folder / "ssh"
    script.write_text(
        "#!/bin/sh\n"
        "while [ $# -gt 2 ]; do shift; done\n"
        f'case "$1" in\n{cases}\n    *) echo "ssh: no host $1" >&2; exit 255;;\nesac\n'
        'exec ip netns exec "$host" sh -c "$2"\n'
    )
    script.chmod(0o755)
    network.path = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _start_program(network: Network, delay_ms: float, loss: float) -> None:
    words = [sys.executable, str(SWITCH), str(network.count), str(delay_ms), str(loss)]
    network.program = subprocess.Popen(
        ["ip", "netns", "exec", network.name, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert network.program.stdout is not None
    assert network.program.stdout.readline() == "done\n"


def _connect(network: Network) -> None:
    for index in range(network.count):
        host, port = network.host(index), f"port{index}"
        if network.program is not None:
            run("ip", "-n", network.name, "link", "set", port, "netns", host, "name", "eth0")
        else:
            run(
                "ip", "-n", network.name, "link", "add", port, "type", "veth",
                "peer", "name", "eth0", "netns", host,
            )  # fmt: skip
            run("ip", "-n", network.name, "link", "set", port, "up", "master", "bridge")
        run("ip", "-n", host, "address", "add", f"{network.address(index)}/24", "dev", "eth0")
        run(
            "ip", "-n", host, "address", "add", f"{network.address(index, 6)}/64", "dev", "eth0",
            "nodad",
        )  # fmt: skip
        run("ip", "-n", host, "link", "set", "lo", "up")
        run("ip", "-n", host, "link", "set", "eth0", "up")


@contextlib.contextmanager
def network_of(
    count: int,
    folder: Path,
    *,
    delay_ms: float = 0,
    loss: float = 0,
    congestion_control: str = "",
) -> Iterator[Network]:
    """Makes hosts for the time of a block.

    Args:
        count: of the hosts.
        folder: for the stand-in for ssh.
        delay_ms: how long every frame takes to the other side.
        loss: which part of the frames does not arrive.
        congestion_control: of the hosts' TCP; "" for this machine's.
    """
    network = Network(f"hvd{os.getpid()}n{next(_networks)}", count)
    names = [network.name, *map(network.host, range(count))]
    with contextlib.ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "delete", name)
        if delay_ms or loss:
            _start_program(network, delay_ms, loss)
            assert network.program is not None
            stack.enter_context(network.program)
            stack.callback(network.program.terminate)
        else:
            run("ip", "-n", network.name, "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", network.name, "link", "set", "bridge", "up")
        _connect(network)
        if congestion_control:
            for index in range(count):
                setting = f"net.ipv4.tcp_congestion_control={congestion_control}"
                run(*network.inside(index, "sysctl", "-qw", setting))
        folder.mkdir(parents=True, exist_ok=True)
        _write_ssh(network, folder)
        yield network
