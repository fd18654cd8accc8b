"""Facts about libraries that a program could open at run time: MPI, NCCL and RCCL.

They never decide what is chosen: these libraries are opened when a program runs.
"""

from __future__ import annotations

import re

from variantwheel_selector.record import record

SONAMES = {
    "libmpi_abi.so.1": "MPI (standard ABI)",
    "libmpi.so.12": "MPI (MPICH ABI)",
    "libmpi.so.40": "Open MPI",
    "libnccl.so.2": "NCCL",
    "librccl.so.1": "RCCL",
}
"""What is looked for, and what it is."""

_VERSION = r"\.so\.([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})$"
_IN_CACHE = re.compile(
    rb"/[\x20-\x7e]{1,400}/(?:" + b"|".join(re.escape(n.encode()) for n in SONAMES) + rb")(?=\x00)"
)
_LINE = r"(/[^\t]{1,500})\t([^\t/]{1,200})"


@record
class FoundLibrary:
    """A library file.

    Attributes:
        soname: One of `SONAMES`.
        path: Where it is.
        version: From the name of the file that it leads to; empty if that has none.
    """

    soname: str
    path: str
    version: str

    def words(self) -> str:
        """Return the library in words."""
        version = f"{self.version}, " if self.version else ""
        return f"{SONAMES[self.soname]} ({version}{self.path})"


def cached_paths(data: bytes) -> list[str]:
    """Return paths in the dynamic linker's cache, `/etc/ld.so.cache`, without their order."""
    return sorted({match.decode("ascii") for match in _IN_CACHE.findall(data)})


def parse_libraries(text: str) -> tuple[FoundLibrary, ...]:
    """Return the libraries from lines `PATH<tab>NAME OF THE FILE`; other lines are passed over."""
    found: list[FoundLibrary] = []
    for line in text.split("\n"):
        match = re.fullmatch(_LINE, line)
        soname = match[1].rpartition("/")[2] if match else ""
        if match and soname in SONAMES:
            version = re.search(_VERSION, match[2])
            found.append(FoundLibrary(soname, match[1], version[1] if version else ""))
    return tuple(found)
