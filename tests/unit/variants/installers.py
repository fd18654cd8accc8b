"""Stock pip and uv, with no settings and no cache of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from unit.variants.tiny_project import STEP_TIMEOUT

UV = Path(sys.executable).with_name("uv")


def run_installer(*command: str | Path, environment: Path) -> str:
    """Runs an installer, or something else, for an environment; returns what it wrote."""
    foreign = ("PIP_", "UV_", "VARIANTWHEEL_", "PYTHON", "VIRTUAL_ENV", "NV_", "AMD_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    variables |= {
        "VIRTUAL_ENV": str(environment),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(environment.parent / "uv-cache"),
    }
    done = subprocess.run(
        [str(word) for word in command],
        env=variables,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=STEP_TIMEOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def pip_install(environment: Path, *words: str) -> str:
    python = str(environment / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", *words]
    return run_installer(*command, environment=environment)


def dist_info(environment: Path, release: str = "tiny_variants-1.0") -> Path:
    (found,) = environment.glob(f"lib/python*/site-packages/{release}.dist-info")
    return found


def installed_label(environment: Path, release: str = "tiny_variants-1.0") -> str:
    text = (dist_info(environment, release) / "variant.json").read_text(encoding="utf-8")
    (label,) = json.loads(text)["variants"]
    return str(label)
