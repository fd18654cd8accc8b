"""Runs the checks of `horovod.torch` on the oldest PyTorch that is served, or another.

Its builds for x86-64 bring gigabytes of CUDA along, that for AArch64 is small: two ranks run in an
emulator, under this machine's `horovodrun`.

    python ci/oldest_torch.py FOLDER WHEEL EMULATOR SYSTEM [VERSION]
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from debian_packages import PackagesError, PackageSet, unpack
from quiet_command import CommandFailedError, run

from collective.launching import RANKS, TESTS
from collective.test_torch import FILES

_OLDEST = "2.0.1"
# What the checks need, as it was when that PyTorch was new, and what PyTorchs import: pip would
# judge by this machine what else they require, and bring CUDA along.
_PACKAGES = (
    "numpy==1.26.4", "pytest==9.1.1", "hypothesis==6.112.0", "cloudpickle==3.1.2",
    "filelock==3.16.1", "fsspec==2024.10.0", "jinja2==3.1.6", "networkx==3.4.2", "sympy==1.13.3",
    "typing-extensions==4.12.2",
)  # fmt: skip
_LIBRARIES = PackageSet("bookworm", "arm64", ("libstdc++6", "libgomp1"))
_SECONDS = 1800
# What they check is left to PyTorchs whose tensors have C functions of their own.
_FAST_WAYS = {"torch_blocking_checks.py", "torch_started_checks.py"}
_NOT_THERE = {
    **dict.fromkeys(
        (
            "check_a_gradient_that_is_clipped_on_its_way_is_named_once",
            "check_a_gradient_is_reduced_before_backward_ends",
            "check_a_large_gradient_is_reduced_before_backward_ends",
            "check_a_divided_gradient_is_reduced_before_backward_ends",
            "check_groups_of_gradients_are_reduced_before_backward_ends",
        ),
        "gradients of linear layers are sent as copies there",
    ),
    "check_a_compiled_step_compiles_nothing_for_each_parameter": "no torch.compile on Python 3.11",
}


def install(site: Path, version: str, wheel: Path) -> None:
    """Put PyTorch, what it needs and a wheel of this project's into a folder.

    Raises:
        CommandFailedError: pip cannot do it.
    """
    wanted = site.with_suffix(".wanted")
    packages = (f"torch=={version}", *_PACKAGES)
    if not wanted.is_file() or wanted.read_text() != "\n".join(packages):
        shutil.rmtree(site, ignore_errors=True)
        install_there = [
            sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site), "--upgrade",
            "--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64",
            "--python-version", "3.11", "--only-binary", ":all:",
        ]  # fmt: skip
        run(*install_there, "--no-deps", packages[0])
        run(*install_there, *_PACKAGES)
        wanted.write_text("\n".join(packages))
    shutil.rmtree(site / "horovod", ignore_errors=True)  # of another wheel
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def run_checks(folder: Path, emulator: str, system: str) -> list[dict[str, str]]:
    """Give what the checks came to on each rank: name to "" or a traceback.

    Raises:
        CommandFailedError: The job failed.
    """
    libraries = next((folder / "libraries").glob("usr/lib/aarch64*"))
    emulated = [
        emulator, "-L", system, "-E", f"LD_LIBRARY_PATH={libraries}",
        "-E", f"PYTHONPATH={folder / 'site'}{os.pathsep}{TESTS}", f"{system}/usr/bin/python3.11",
    ]  # fmt: skip
    os.environ |= {
        "HOROVOD_TRANSPORT": "shm",
        "HOROVOD_DYNAMIC_PROCESS_SETS": "1",
        "HOROVOD_START_TIMEOUT": "600",
        "OMP_NUM_THREADS": "1",
    }
    files = [str(RANKS / name) for name in FILES if name not in _FAST_WAYS]
    with tempfile.TemporaryDirectory() as results:
        run(
            sys.executable, "-m", "horovod.runner", "-np", "2", *emulated,
            str(RANKS / "run_checks.py"), *files, results, seconds=_SECONDS,
        )  # fmt: skip
        return [json.loads(Path(results, f"{rank}.json").read_text()) for rank in (0, 1)]


def main(folder: Path, wheel: Path, emulator: str, system: str, version: str = _OLDEST) -> int:
    """Say which checks fail; 1 when one does that could pass."""
    not_there = _NOT_THERE if version == _OLDEST else {}
    try:
        unpack(_LIBRARIES, folder / "libraries")
        install(folder / "site", version, wheel)
        print(f"oldest_torch: PyTorch {version}; minutes, under emulation", flush=True)
        outcomes = run_checks(folder, emulator, system)
    except (PackagesError, CommandFailedError) as error:
        print(f"oldest_torch: error: {error}", file=sys.stderr)
        return 1
    failed = {name: text for each in outcomes for name, text in each.items() if text}
    for name, reason in not_there.items():
        if failed.pop(name, None) is not None:
            print(f"left out: {name}: {reason}")
    for name, text in failed.items():
        print(f"FAILED {name}\n{text}")
    print(f"oldest_torch: {len(outcomes[0]) - len(not_there)} checks, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), *sys.argv[3:]))
