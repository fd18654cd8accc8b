"""CPython 3.14 from Debian's testing suite, for machines that lack it: its headers, and itself.

    python ci/newer_python.py headers FOLDER          prints the folders of headers, 3.14t's too
    python ci/newer_python.py try FOLDER WHEEL        installs a wheel there, and reduces on 2 ranks

Nothing is installed on this machine. Modules are compiled from the headers alone.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from debian_packages import PackagesError, PackageSet, unpack
from debian_root import DebianRoot
from quiet_command import CommandFailedError

_VERSION = "3.14"
_SUITE = "forky"
_HEADERS = PackageSet(_SUITE, "amd64", (f"libpython{_VERSION}-dev",), dependencies=False)
_SYSTEM = PackageSet(
    _SUITE,
    "amd64",
    (f"python{_VERSION}-minimal", f"libpython{_VERSION}-stdlib", "dash", "coreutils"),
)
_WITH_GIL = "/* #undef Py_GIL_DISABLED */"
_WITHOUT_GIL = "#define Py_GIL_DISABLED 1"
_ALLREDUCE = """
import array, sys, horovod.array as hvd
hvd.init()
total = hvd.allreduce(array.array("f", [hvd.rank() + 1.0]), op=hvd.Sum)
assert list(total) == [3.0]
print("CPython", sys.version.split()[0], "reduced on rank", hvd.rank(), "of", hvd.size())
"""


def headers(folder: Path) -> Path:
    """Return the folder of headers, downloaded if need be.

    Raises:
        PackagesError: They cannot be had.
    """
    unpack(_HEADERS, folder / "headers")
    return folder / "headers" / "usr" / "include" / f"python{_VERSION}"


def free_threaded_headers(plain: Path, folder: Path) -> Path:
    """Return a folder with the headers of the free-threaded build, made of the usual one's.

    They are the same files; `configure --disable-gil` defines one more name in pyconfig.h.

    Args:
        plain: The usual build's, as Debian lays them out.
        folder: Gets the folder.

    Raises:
        PackagesError: The usual build's pyconfig.h is not as CPython's `configure` writes it.
    """
    target = folder / f"python{_VERSION}t"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(plain, target)
    (own,) = plain.parent.glob(f"*-linux-gnu/{plain.name}/pyconfig.h")
    text = own.read_text(encoding="utf-8")
    if text.count(_WITH_GIL) != 1:
        raise PackagesError(f"{own} does not say that there is a GIL: {_WITH_GIL!r} is not in it")
    (target / "pyconfig.h").write_text(text.replace(_WITH_GIL, _WITHOUT_GIL), encoding="utf-8")
    return target


def try_wheel(folder: Path, wheel: Path) -> str:
    """Reduce on two ranks of the newer Python; gives what they printed.

    Raises:
        PackagesError: It cannot be had.
        CommandFailedError: The wheel does not work there.
    """
    unpack(_SYSTEM, folder / "system")
    root = DebianRoot(folder / "system")
    shutil.rmtree(root.files / "site", ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(root.files / "site")
    (root.files / "allreduce.py").write_text(_ALLREDUCE, encoding="utf-8")
    python = f"/usr/bin/python{_VERSION}"
    words = ("-m", "horovod.runner", "-np", "2", python, "/files/allreduce.py")
    return root.run(python, *words, env={"PYTHONPATH": "/files/site"})


def main(verb: str, folder: Path, *wheels: Path) -> int:
    try:
        if verb == "headers":
            print(plain := headers(folder))
            print(free_threaded_headers(plain, folder / "free-threaded"))
        for wheel in wheels:
            print(try_wheel(folder, wheel), end="")
    except (PackagesError, CommandFailedError) as error:
        print(f"newer_python: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve(), *map(Path, sys.argv[3:])))
