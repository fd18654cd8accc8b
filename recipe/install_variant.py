"""Builds and installs one variant into the conda package, and records which one it is.

The build script of `recipe.yaml`; runs in the source tree. `VARIANT_LABEL` is the label; compiler
settings are those of its definition. A label without definition is refused, because nothing would
say what its code needs; with `UNDEFINED_LABELS=rehearse` it is built like the null variant and
nothing is recorded, for trying out channels and solvers before the native code is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCE = Path.cwd()
sys.path[:0] = [str(SOURCE / "variants" / "src"), str(SOURCE / "selector" / "src")]

# Found only after the line above: the toolkit is used from the source tree that is being built.
from variantwheel.conda_recording import record_variant  # noqa: E402
from variantwheel.errors import ReleaseToolError  # noqa: E402
from variantwheel.project import read_project  # noqa: E402

MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}
NULL_LABEL = "null"


def main(target_platform: str) -> int:
    """Installs.

    Args:
        target_platform: Of conda, such as `linux-64`.

    Returns:
        0, or 2 when the variant is not defined for the platform.
    """
    label = os.environ["VARIANT_LABEL"]
    machine = MACHINES[target_platform]
    project = read_project(SOURCE)
    defined = {item.label: item for item in project.definitions}
    rehearsal = label not in defined and os.environ.get("UNDEFINED_LABELS") == "rehearse"
    definition = defined.get(NULL_LABEL if rehearsal else label)
    platform = None if definition is None else definition.platform_for(machine)
    if platform is None:
        print(f"error: {label!r} is not defined for {machine} in variants/definitions; "
              f"defined are {', '.join(sorted(defined))}", file=sys.stderr)  # fmt: skip
        return 2
    settings = [f"-C{key}={value}" for key, value in platform.config_settings.items()]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", ".", "-vv", "--no-deps", "--no-build-isolation",
         *settings],
        check=True,
        env={**os.environ, **platform.environment},
    )  # fmt: skip
    if not rehearsal:
        # Where cross-compiling, `purelib` of this very interpreter is the host environment's.
        site = Path(os.environ.get("SP_DIR") or sysconfig.get_path("purelib"))
        record_variant(site, project, label)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except ReleaseToolError as error:
        sys.exit(f"error: {error}")
