"""An installation whose kernels library is gone, foreign, or for a better CPU than this one."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import horovod
from collective.launching import clean_environment
from horovod._loader import KERNELS_LIBRARY, select_core

CORE = select_core()
PROGRAM = """
import json
from horovod.runner.build_probe import try_runtime
print(json.dumps(try_runtime()))
"""

pytestmark = pytest.mark.skipif(
    CORE.kernels is None, reason=f"this build has no kernels above the baseline for a {CORE.cpu}"
)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the installed package."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(horovod.__file__).parent, folder / "horovod")
    return folder


def library(installation: Path) -> Path:
    return installation / "horovod/_native" / CORE.level / KERNELS_LIBRARY


def started(installation: Path) -> tuple[int, str]:
    """The exit code of a job of one rank, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**clean_environment(), "PYTHONPATH": str(installation)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout


def replace_level(data: bytes) -> bytes:
    """Makes the level in the table one that no CPU has."""
    name, other = CORE.level.encode() + b"\0", CORE.level.encode()[:-1] + b"9\0"
    assert data.count(name) == 1
    return data.replace(name, other)


def test_the_kernels_of_the_level_are_used(installation: Path) -> None:
    code, printed = started(installation)
    assert code == 0, printed
    facts = json.loads(printed.splitlines()[-1])
    assert facts["level"] == CORE.level
    assert facts["kernels"] == str(library(installation))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "libhorovod_kernels.so is missing: the installation of horovod-variants is not"),
        (lambda _: b"no library", "OSError: cannot open the kernels library: "),
        (lambda data: data.replace(b"hvd_kernels", b"hvd_colonel"), "lacks hvd_kernels"),
        (replace_level, f"this CPU supports {CORE.cpu}: reinstall horovod-variants"),
    ],
    ids=["gone", "no library", "another library", "for a better CPU"],
)
def test_a_broken_installation_says_what_to_do(
    installation: Path, change: Callable[[bytes], bytes] | None, message: str
) -> None:
    path = library(installation)
    whole = path.read_bytes()
    path.unlink()  # not written over: a process may have it mapped
    try:
        if change is not None:
            path.write_bytes(change(whole))
        code, printed = started(installation)
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(whole)
    assert code == 1
    assert message in printed
    assert "einstall" in printed
