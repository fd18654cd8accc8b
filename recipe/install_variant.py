"""Builds and installs one variant into the conda package, and records which one it is.

The build script of `recipe.yaml`; runs in the source tree. `VARIANT_LABEL` is the label; compiler
settings are those of its definition. `VARIANT_MPI` is `nompi`, or the MPI that the package depends
on, whose plug-in is then the only one in it. A label without definition is refused, because nothing
would say what its code needs. GPU code is compiled by the build environment's NVRTC or zig.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path.cwd()
sys.path[:0] = [str(SOURCE / "variants" / "src"), str(SOURCE / "selector" / "src")]

# Found only after the line above: the toolkit is used from the source tree that is being built.
from variantwheel.conda_recording import record_variant  # noqa: E402
from variantwheel.errors import ReleaseToolError  # noqa: E402
from variantwheel.project import read_project  # noqa: E402

MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}
GPU_SETTING = "cmake.define.HVD_GPU"
NVRTC_SETTING = "cmake.define.HVD_NVRTC"
ZIG_SETTING = "cmake.define.HVD_ZIG_PROGRAM"
MPI_SETTING = "cmake.define.HVD_MPI"
NO_MPI = "nompi"


def main(target_platform: str) -> int:
    """Installs.

    Args:
        target_platform: Of conda, such as `linux-64`.

    Returns:
        0, or 2 when the variant is not defined for the platform, or its compiler is missing.
    """
    label = os.environ["VARIANT_LABEL"]
    machine = MACHINES[target_platform]
    project = read_project(SOURCE)
    defined = {item.label: item for item in project.definitions}
    definition = defined.get(label)
    platform = None if definition is None else definition.platform_for(machine)
    if platform is None:
        print(f"error: {label!r} is not defined for {machine} in variants/definitions; "
              f"defined are {', '.join(sorted(defined))}", file=sys.stderr)  # fmt: skip
        return 2
    try:
        found = conda_settings(platform.config_settings, Path(os.environ["BUILD_PREFIX"]))
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    mpi = os.environ["VARIANT_MPI"]
    if mpi != NO_MPI:
        found[MPI_SETTING] = mpi
    settings = [f"-C{key}={value}" for key, value in found.items()]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", ".", "-vv", "--no-deps", "--no-build-isolation",
         *settings],
        check=True,
        # Build tools for conda ask for makefiles, which are worked through one by one.
        env={**os.environ, "CMAKE_GENERATOR": "Ninja", **platform.environment},
    )  # fmt: skip
    # Where cross-compiling, `purelib` of this very interpreter is the host environment's.
    site = Path(os.environ.get("SP_DIR") or sysconfig.get_path("purelib"))
    record_variant(site, project, label)
    return 0


def conda_settings(settings: Mapping[str, str], build_prefix: Path) -> dict[str, str]:
    """Returns a definition's settings, with conda's compilers for GPU code in place of PyPI's.

    Args:
        settings: Of the definition's platform.
        build_prefix: The build environment: where packages are that run on this machine.

    Raises:
        FileNotFoundError: A compiler is needed, and not exactly one is there.
    """
    if settings.get(GPU_SETTING) == "hip":
        zig = build_prefix / "bin" / "zig"
        if not zig.is_file():
            raise FileNotFoundError(f"{zig}: needed to compile for AMD's GPUs, and not there")
        return {**settings, ZIG_SETTING: str(zig)}
    if NVRTC_SETTING not in settings:
        return dict(settings)
    # Not libnvrtc.so, which -dev packages have, nor libnvrtc.alt.so.12, nor two names of one file.
    named = re.compile(r"libnvrtc\.so\.\d[\d.]*")
    found = {
        path.resolve(): path
        for path in sorted((build_prefix / "lib").glob("libnvrtc.so.*"))
        if named.fullmatch(path.name)
    }
    if len(found) != 1:
        listing = ", ".join(map(str, found.values())) or "none"
        raise FileNotFoundError(
            f"{build_prefix}/lib: one libnvrtc.so.N is needed, found: {listing}"
        )
    return {**settings, NVRTC_SETTING: str(next(iter(found.values())))}


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except ReleaseToolError as error:
        sys.exit(f"error: {error}")
