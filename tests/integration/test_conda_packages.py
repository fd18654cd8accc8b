"""The packages that were built here, as `variantwheel check` sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from integration.conda_channels import DEFINED, CondaChannels, run_tool
from integration.environments import ROOT

VARIANTWHEEL = Path(sys.executable).with_name("variantwheel")


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [VARIANTWHEEL, "check", "--project", ROOT, *files],
        check=False, text=True, capture_output=True, timeout=120,
    )  # fmt: skip


def test_the_packages_pass_all_checks(conda_channels: CondaChannels) -> None:
    """But the ones whose label is not defined: nothing says what their code needs."""
    good: list[Path] = []
    rehearsed: list[Path] = []
    for file in conda_channels.real_packages:
        (rehearsed if "cuda12" in file.name and "cu12" not in DEFINED else good).append(file)
    done = check(*good)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(good)} files checked, 0 failed" in done.stdout
    if rehearsed:
        done = check(*rehearsed)
        assert done.returncode == 1
        assert "FAILED   variant" in done.stdout
        assert "label 'cu12' has no definition" in done.stdout


def test_metapackages_pass_all_checks(conda_channels: CondaChannels) -> None:
    found = conda_channels.packages("horovod-variants-gpu-*.conda")
    found += conda_channels.packages("horovod-variants-rocm-*.conda")
    assert len(found) == 18
    done = check(*found)
    assert done.returncode == 0, done.stdout


def test_a_label_without_definition_is_not_built(
    conda_channels: CondaChannels, tmp_path: Path
) -> None:
    undefined = next(word for word in ("cuda12", "cuda13", "cuda11", "rocm")
                     if word.replace("cuda", "cu") not in DEFINED)  # fmt: skip
    out = run_tool(
        "conda_packages.py", "build", tmp_path / "out", conda_channels.folder / "conda-forge",
        "--only", f"nompi_{undefined}", expect=1,
    )  # fmt: skip
    assert "is not defined for" in out
