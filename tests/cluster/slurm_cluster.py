"""A real Slurm whose nodes are all this machine, in namespaces that end with the tests.

`ci/slurm.py` has unpacked it below `.dev/slurm`; it is laid over /usr and /etc there, in a mount
namespace. A PID namespace ends whatever is left of it.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from collective.launching import LAUNCH_SECONDS, Launched, rank_environment

UNPACKED = Path(__file__).parents[2] / ".dev/slurm/root"
NODES = ("node01", "node02", "node03")
_START_SECONDS = 60.0
_FIRST_PORT = 17817

# All daemons as one user, on loopback. TmpFS apart for each node: that of PMIx tells them apart.
_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=5
InactiveLimit=0
MessageTimeout=60
SlurmdParameters=config_overrides
TmpFS={folder}/tmp/%n
"""
_NODE = (
    "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=1000\n"
)
_PARTITION = "PartitionName=main Nodes=node[01-03] Default=YES MaxTime=60 State=UP\n"

# Its end is the end of all processes of the namespace.
_RUN = """
set -e
cd "$1"
for folder in /usr /etc; do
  mount -t overlay -o "lowerdir=$0$folder:$folder" overlay "$folder"
done
# MPICH names its segments by the number of the job, which every cluster begins anew.
mount -t tmpfs tmpfs /dev/shm
dd if=/dev/urandom of=munge.key bs=1 count=1024 2>/dev/null
chmod 400 munge.key
munged --force --key-file="$1/munge.key" --socket="$1/munge.socket" --pid-file="$1/munged.pid" \
  --log-file="$1/munged.log" --seed-file="$1/munge.seed"
slurmctld -c -f slurm.conf
shift
for node in "$@"; do mkdir -p spool/$node tmp/$node; slurmd -N $node -f slurm.conf; done
exec sleep infinity
"""


@dataclass(frozen=True)
class Cluster:
    """Of running daemons.

    Attributes:
        folder: their files.
        process: the first one of their namespaces.
    """

    folder: Path
    process: int

    def run(self, *words: str | Path, variables: Mapping[str, str] | None = None) -> Launched:
        """Runs a command among them, from a shared folder; fails the test when it does not end."""
        done = subprocess.run(
            [
                "nsenter",
                f"--target={self.process}",
                "--mount",
                "--pid",
                "--wd=/tmp",
                *map(str, words),
            ],
            env=self._environment() | dict(variables or {}),
            capture_output=True,
            text=True,
            timeout=LAUNCH_SECONDS,
            check=False,
        )
        return Launched(done.returncode, done.stdout, done.stderr)

    def _environment(self) -> dict[str, str]:
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return rank_environment() | {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": programs,
        }


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Starts the daemons, and ends them, with all that runs on the nodes.

    Args:
        folder: for their files; its path is short, since sockets lie there.
    """
    nodes = [_NODE.format(name=name, port=_FIRST_PORT + 1 + at) for at, name in enumerate(NODES)]
    settings = _CONFIGURATION.format(folder=folder, port=_FIRST_PORT)
    (folder / "slurm.conf").write_text("".join([settings, *nodes, _PARTITION]))
    folder.chmod(0o755)  # munged refuses a socket that others cannot reach
    (folder / "state").mkdir()
    words = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _RUN]
    with (folder / "start.log").open("w") as log:
        holder = subprocess.Popen(
            ["unshare", *words, str(UNPACKED), str(folder), *NODES], stdout=log, stderr=log
        )
    try:
        yield _started(folder, holder)
    finally:
        holder.kill()
        holder.wait()


def _started(folder: Path, holder: "subprocess.Popen[bytes]") -> Cluster:
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and holder.poll() is None:
        time.sleep(0.2)  # Slurm tells nobody when its nodes are up
        if first := children.read_text().split():
            cluster = Cluster(folder, int(first[0]))
            told = cluster.run("sinfo", "--noheader", "--format=%D %t")
            if told.out.split() == [str(len(NODES)), "idle"]:
                return cluster
    logs = "\n".join(f"{log.name}: {log.read_text()}" for log in sorted(folder.glob("*.log")))
    raise AssertionError(f"Slurm did not start: {logs}")
