"""Unpacks Debian's Open MPI below a folder, beside the MPIs that `ci/mpi_wheels.py` brings.

    python ci/debian_mpi.py FOLDER

FOLDER/debian is laid over /usr and /etc by what uses it: nothing is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from debian_packages import PackagesError, PackageSet, move_below_usr, unpack

# Open MPI and what its components link that a small machine lacks; not the C library, which a
# folder laid over /usr would replace.
_PACKAGES = PackageSet(
    "bookworm",
    "amd64",
    (
        "openmpi-bin", "openmpi-common", "libopenmpi3", "libpmix2", "libhwloc15", "libmunge2",
        "libevent-2.1-7", "libevent-core-2.1-7", "libevent-pthreads-2.1-7", "libucx0", "libfabric1",
        "libibverbs1", "ibverbs-providers", "librdmacm1", "libnl-3-200", "libnl-route-3-200",
        "libpsm-infinipath1", "libpsm2-2",
    ),
    dependencies=False,
)  # fmt: skip


def main(folder: Path) -> int:
    """Unpacks the packages; gives the exit code."""
    tree = folder / "debian"
    try:
        unpack(_PACKAGES, tree)
    except PackagesError as error:
        print(f"debian_mpi: error: {error}", file=sys.stderr)
        return 1
    move_below_usr(tree)
    # The names that a package's script would give the programs and the library, as alternatives.
    for name, target in (
        ("bin/mpirun", "mpirun.openmpi"),
        ("lib/x86_64-linux-gnu/libmpi.so.40", "openmpi/lib/libmpi.so.40"),
    ):
        link = tree / "usr" / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
