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
import sys
from pathlib import Path

from compile_hip_code import hipcc_words
from debian_packages import PackagesError, PackageSet, unpack
from debian_root import DebianRoot
from quiet_command import CommandFailedError, run

ROOT = Path(__file__).resolve().parents[1]
# Debian 13 has HIP 5.7 and RCCL 2.13, the oldest that the wheel declares. Without a package's
# script being run, what those would call comes along: a shell, Perl and the like.
_ROCM = PackageSet(
    "trixie",
    "amd64",
    ("hipcc", "libamdhip64-dev", "librccl-dev", "bash", "dash", "coreutils", "perl-base", "sed"),
)
_ARGUMENT = re.compile(r"\.offset: +(\d+)\s+\.size: +(\d+)\s+\.value_kind: +by_value")
_PROBE_SOURCES = (
    "tests/native/open_gpu_libraries.cc",
    "src/native/base/error.cc",
    "src/native/base/shared_library.cc",
    "src/native/device/*driver.cc",
    "src/native/transport/nccl/nccl_library.cc",
)


class CheckFailedError(Exception):
    """The code for AMD's GPUs does not fit a real ROCm; the text says how."""


def _llvm(root: DebianRoot, program: str) -> str:
    """Return the path, inside the root, of one of the programs of ROCm's LLVM."""
    found = sorted(root.folder.glob(f"usr/lib/llvm-*/bin/{program}"))
    if not found:
        raise CheckFailedError(f"{root.folder}: holds no {program} of LLVM")
    return f"/{found[-1].relative_to(root.folder)}"


def check_bundle(rocm: DebianRoot, bundle: Path) -> list[str]:
    """Take the bundle apart with ROCm's own tools, and compare it with what hipcc makes.

    Returns:
        What was found, a line for each architecture.
    """
    work = rocm.files
    shutil.copy(bundle, work / "ours.bundle")
    shutil.copytree(ROOT / "src" / "native" / "device", work / "device", dirs_exist_ok=True)
    bundler = _llvm(rocm, "clang-offload-bundler")
    listed = rocm.run(bundler, "--list", "--type=o", "--input=/files/ours.bundle").split()
    targets = [name.rpartition("-")[2] for name in listed if "amdgcn" in name]
    if not targets:
        raise CheckFailedError(f"{bundle}: clang-offload-bundler lists no code: {listed}")
    words = hipcc_words(Path("/files/device/kernels.cu"), Path("/files"), targets)
    rocm.run("/usr/bin/hipcc", *words, "-o", "/files/hipcc.bundle", env={"HIP_PLATFORM": "amd"})
    lines = []
    for name in targets:
        ours, theirs = (_kernels(rocm, bundler, whose, name) for whose in ("ours", "hipcc"))
        if ours != theirs:
            raise CheckFailedError(f"{name}: not the kernels of hipcc:\n{ours}\n{theirs}")
        lines.append(f"{name}: {len(ours)} kernels, called as those of hipcc are")
    return lines


def _kernels(
    rocm: DebianRoot, bundler: str, whose: str, target: str
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the places and sizes of each kernel's arguments."""
    rocm.run(
        bundler, "--unbundle", "--type=o", f"--targets=hipv4-amdgcn-amd-amdhsa--{target}",
        f"--input=/files/{whose}.bundle", f"--output=/files/{whose}.{target}",
    )  # fmt: skip
    notes = rocm.run(_llvm(rocm, "llvm-readelf"), "--notes", f"/files/{whose}.{target}")
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


def check_libraries(rocm: DebianRoot) -> list[str]:
    """Open the real HIP and RCCL with the core's own code.

    Returns:
        What they answered.
    """
    program = rocm.files / "open_gpu_libraries"
    sources = [str(path) for pattern in _PROBE_SOURCES for path in sorted(ROOT.glob(pattern))]
    run(
        sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.17", "-std=c++20",
        "-O1", f"-I{ROOT / 'src' / 'native'}", *sources, "-o", str(program),
    )  # fmt: skip
    hip = sorted((rocm.folder / "usr/lib/x86_64-linux-gnu").glob("libamdhip64.so.?"))
    if not hip:
        raise CheckFailedError(f"{rocm.folder}: holds no libamdhip64")
    printed = rocm.run("/files/open_gpu_libraries", "hip", hip[0].name, "librccl.so.1")
    # Every function is looked up before the first one is called.
    if not re.search(r"^(driver: hipInit: |HIP devices \d)", printed, re.MULTILINE):
        raise CheckFailedError(f"{hip[0].name} could not be asked:\n{printed}")
    return printed.splitlines()


def main(folder: Path, bundle: Path) -> int:
    system = folder / "system"
    try:
        unpack(_ROCM, system)
        rocm = DebianRoot(system)
        for line in (*check_libraries(rocm), *check_bundle(rocm, bundle)):
            print(line)
    except (PackagesError, CommandFailedError, CheckFailedError) as error:
        print(f"rocm: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
