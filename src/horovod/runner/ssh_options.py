"""How other hosts are reached: the command that runs an agent there, and what it may be told."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from horovod.runner.remote import agent_command

CONNECT_SECONDS = 10
CONNECT_ATTEMPTS = 5
# A host that has vanished closes no connection; without these, ssh would wait for it for ever.
ALIVE_SECONDS = 30
ALIVE_QUESTIONS = 4

# What belongs to one host or one login and is wrong elsewhere.
_NOT_FORWARDED = re.compile(
    r"BASH_FUNC_.*|OLDPWD|PWD|SHLVL|_|HOSTNAME|.*CUDA_VISIBLE_DEVICES|_?HOROVOD_SECRET_KEY|SSH_.*|XDG_.*|DBUS_.*"
)


@dataclass(frozen=True)
class SshOptions:
    """How to reach other hosts.

    Attributes:
        port: None for ssh's own choice.
        identity_file: a private key; None for ssh's own choice.
        kubexec: Kubeflow's program that is used in place of ssh; None for ssh.
    """

    port: int | None
    identity_file: str | None
    kubexec: str | None = None

    @property
    def any_name(self) -> bool:
        """Whether hosts are reached by names that need not have addresses here: pods' are."""
        return self.kubexec is not None


def find_kubexec(environment: Mapping[str, str]) -> str | None:
    """Kubeflow's program for commands in other pods, where it is what mpirun would use.

    Other programs that mpirun is told to use need not do what ssh does.
    """
    agent = environment.get("OMPI_MCA_plm_rsh_agent", "")
    return agent if PurePath(agent).name == "kubexec.sh" else None


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that makes sense on another host."""
    return {
        name: value for name, value in environment.items() if not _NOT_FORWARDED.fullmatch(name)
    }


def ssh_command(hostname: str, options: SshOptions, python: str) -> list[str]:
    """The command that runs the agent on another host.

    No secret and no environment appear in it, but for the paths by which it is found.

    Args:
        hostname: as the user wrote it; ssh's own configuration may know it.
        options: the user's wishes.
        python: path of the interpreter over there.
    """
    # No terminal, whatever ssh's configuration wants: it would change the bytes of the frames.
    command = ["ssh", "-T", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"]
    command += ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    command += ["-o", f"ConnectionAttempts={CONNECT_ATTEMPTS}"]
    command += ["-o", f"ServerAliveInterval={ALIVE_SECONDS}"]
    command += ["-o", f"ServerAliveCountMax={ALIVE_QUESTIONS}"]
    if options.port is not None:
        command += ["-p", str(options.port)]
    if options.identity_file is not None:
        command += ["-i", options.identity_file]
    return [*command, hostname, agent_command(python)]
