"""Holds the code for AMD's GPUs against a real ROCm, Debian's, without a GPU.

    PYTHONPATH=cmake python ci/rocm.py FOLDER BUNDLE

The bundle is that of a wheel, horovod/_native/gpu/kernels.hip.bundle. Debian's packages are
unpacked into the folder, which is then the root folder of commands, without privileges:

* ROCm's clang-offload-bundler takes the bundle apart, and hipcc compiles the same kernels;
* both agree on the kernels, on their arguments' places and sizes, and use no scratch memory;
* the core's own code opens the real libamdhip64 and librccl and finds every function.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from compile_hip_code import hipcc_words
from debian_packages import PackagesError, PackageSet, unpack

ROOT = Path(__file__).resolve().parents[1]
# Debian 13 has HIP 5.7 and RCCL 2.13, the oldest that the wheel declares. Without a package's
# script being run, what those would call comes along: a shell, Perl and the like.
_ROCM = PackageSet(
    "trixie",
    "amd64",
    ("hipcc", "libamdhip64-dev", "librccl-dev", "bash", "dash", "coreutils", "perl-base", "sed"),
)
_ARGUMENT = re.compile(r"\.offset: +(\d+)\s+\.size: +(\d+)\s+\.value_kind: +by_value")
_DEADLINE = 600
_PROBE_SOURCES = (
    "tests/native/open_gpu_libraries.cc",
    "src/native/base/error.cc",
    "src/native/base/shared_library.cc",
    "src/native/device/cuda_driver.cc",
    "src/native/device/hip_driver.cc",
    "src/native/transport/nccl/nccl_library.cc",
)


class CheckFailedError(Exception):
    """The code for AMD's GPUs does not fit a real ROCm; the text says how."""


class RocmRoot:
    """Debian's ROCm as the root folder of commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("proc", "dev", "tmp", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "dev" / "null").touch()
        self.llvm = next(iter(sorted(folder.glob("usr/lib/llvm-*/bin"))), None)

    def run(self, *words: str) -> str:
        """Run a command of the root; gives what it printed.

        Raises:
            CheckFailedError: It ended with an error.
        """
        inside = (
            f"mount --rbind /dev {self.folder}/dev && exec chroot {self.folder} "
            '/usr/bin/env -i PATH=/usr/bin:/bin HIP_PLATFORM=amd HOME=/tmp "$@"'
        )
        namespaces = ("--user", "--map-root-user", "--mount", "--pid", "--fork")
        return _run(
            "unshare", *namespaces, f"--mount-proc={self.folder}/proc",
            "sh", "-c", inside, "sh", *words,
        )  # fmt: skip

    def tool(self, name: str) -> str:
        """Return the path of one of LLVM's programs inside the root."""
        if self.llvm is None:
            raise CheckFailedError(f"{self.folder}: holds no LLVM")
        return f"/{self.llvm.relative_to(self.folder)}/{name}"


def check_bundle(rocm: RocmRoot, bundle: Path) -> list[str]:
    """Take the bundle apart with ROCm's own tools, and compare it with what hipcc makes.

    Returns:
        What was found, a line for each architecture.
    """
    work = rocm.folder / "work"
    shutil.copy(bundle, work / "ours.bundle")
    shutil.copytree(ROOT / "src" / "native" / "device", work / "device", dirs_exist_ok=True)
    bundler = rocm.tool("clang-offload-bundler")
    listed = rocm.run(bundler, "--list", "--type=o", "--input=/work/ours.bundle").split()
    targets = [name.rpartition("-")[2] for name in listed if "amdgcn" in name]
    if not targets:
        raise CheckFailedError(f"{bundle}: clang-offload-bundler lists no code: {listed}")
    words = hipcc_words(Path("/work/device/kernels.cu"), Path("/work"), targets)
    rocm.run("/usr/bin/hipcc", *words, "-o", "/work/hipcc.bundle")
    lines = []
    for name in targets:
        ours, theirs = (_kernels(rocm, bundler, whose, name) for whose in ("ours", "hipcc"))
        if ours != theirs:
            raise CheckFailedError(f"{name}: not the kernels of hipcc:\n{ours}\n{theirs}")
        lines.append(f"{name}: {len(ours)} kernels, called as those of hipcc are")
    return lines


def _kernels(
    rocm: RocmRoot, bundler: str, whose: str, target: str
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the places and sizes of each kernel's arguments."""
    rocm.run(
        bundler, "--unbundle", "--type=o", f"--targets=hipv4-amdgcn-amd-amdhsa--{target}",
        f"--input=/work/{whose}.bundle", f"--output=/work/{whose}.{target}",
    )  # fmt: skip
    notes = rocm.run(rocm.tool("llvm-readelf"), "--notes", f"/work/{whose}.{target}")
    if f"amdhsa--{target}" not in notes:
        raise CheckFailedError(f"{whose}.{target}: is code for another target:\n{notes[-300:]}")
    kernels = {}
    for text in re.split(r"\n  - (?=\.)", notes)[1:]:
        name = re.search(r"\.name: +(\w+)", text)
        scratch = re.search(r"\.private_segment_fixed_size: (\d+)", text)
        if name is None or scratch is None:
            raise CheckFailedError(f"{whose}.{target}: a kernel without a name:\n{text}")
        if whose == "ours" and scratch[1] != "0":
            raise CheckFailedError(f"{name[1]} for {target} needs {scratch[1]} bytes of scratch")
        kernels[name[1]] = tuple(_ARGUMENT.findall(text))
    return kernels


def check_libraries(rocm: RocmRoot) -> list[str]:
    """Open the real HIP and RCCL with the core's own code.

    Returns:
        What they answered.
    """
    program = rocm.folder / "work" / "open_gpu_libraries"
    _run(
        sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.17", "-std=c++20",
        "-O1", f"-I{ROOT / 'src' / 'native'}", *(str(ROOT / path) for path in _PROBE_SOURCES),
        "-o", str(program),
    )  # fmt: skip
    hip = sorted((rocm.folder / "usr/lib/x86_64-linux-gnu").glob("libamdhip64.so.?"))
    if not hip:
        raise CheckFailedError(f"{rocm.folder}: holds no libamdhip64")
    printed = rocm.run("/work/open_gpu_libraries", "hip", hip[0].name, "librccl.so.1")
    # Every function is looked up before the first one is called.
    if not re.search(r"^(driver: hipInit: |HIP devices \d)", printed, re.MULTILINE):
        raise CheckFailedError(f"{hip[0].name} could not be asked:\n{printed}")
    return printed.splitlines()


def _run(*words: str) -> str:
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_DEADLINE,
    )
    if done.returncode != 0:
        raise CheckFailedError(
            f"{' '.join(words[-6:])} ended with {done.returncode}:\n{done.stdout}"
        )
    return done.stdout


def main(folder: Path, bundle: Path) -> int:
    system = folder / "system"
    try:
        unpack(_ROCM, system)
        rocm = RocmRoot(system)
        for line in (*check_libraries(rocm), *check_bundle(rocm, bundle)):
            print(line)
    except (PackagesError, CheckFailedError) as error:
        print(f"rocm: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
