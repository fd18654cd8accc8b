"""Commands in an unpacked Debian as their root folder: no installation, privileges, container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quiet_command import run


class DebianRoot:
    """A folder that packages were unpacked into, as the root folder of commands.

    Namespaces of the user's own stand in for privileges, where the system allows them. The
    commands' files can be put into `files`, which they see as `/files`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"
        for name in ("proc", "dev", "tmp", "files"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "lib", "lib64", "sbin"):  # links of a package that few depend on
            if not (folder / name).exists():
                (folder / name).symlink_to(f"usr/{name}")

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """Run a command; gives what it printed, both streams.

        Args:
            words: The program as the root has it, and its arguments.
            env: All of its variables but for PATH and HOME.

        Raises:
            CommandFailedError: It ended with an error.
        """
        variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"} | dict(env or {})  # noqa: S108 - the root's own
        inside = (
            f"mount --rbind /dev {self.folder}/dev && exec chroot {self.folder} "
            '/usr/bin/env -i "$@"'
        )
        settings = [f"{name}={value}" for name, value in variables.items()]
        return run(
            "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork",
            f"--mount-proc={self.folder}/proc", "sh", "-c", inside, "sh", *settings, *words,
        )  # fmt: skip
