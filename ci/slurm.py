"""Unpacks Slurm, and what it needs to speak PMIx, below a folder.

    python ci/slurm.py FOLDER

What is unpacked is laid over /usr and /etc by what uses it: nothing is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from debian_packages import PackagesError, PackageSet, move_below_usr, unpack

# The plug-in for PMIx opens its library by the name that only the package for development has.
_PACKAGES = PackageSet(
    "bookworm",
    "amd64",
    (
        "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libmunge2",
        "libpmix2", "libpmix-dev", "libhwloc15", "libevent-core-2.1-7", "libevent-pthreads-2.1-7",
        "libpmi2-0", "libjson-c5", "libnuma1", "libdbus-1-3", "libreadline8", "libxxhash0",
    ),
    dependencies=False,
)  # fmt: skip


def main(folder: Path) -> int:
    """Unpacks the packages; gives the exit code."""
    tree = folder / "root"
    try:
        unpack(_PACKAGES, tree)
    except PackagesError as error:
        print(f"slurm: error: {error}", file=sys.stderr)
        return 1
    move_below_usr(tree)
    # The names that the packages' scripts would give the programs, as alternatives.
    for program in (tree / "usr/sbin").glob("*-wlm"):
        link = program.with_name(program.name.removesuffix("-wlm"))
        link.unlink(missing_ok=True)
        link.symlink_to(program.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
