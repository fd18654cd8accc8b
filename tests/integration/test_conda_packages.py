"""The packages that were built here, as `variantwheel check` sees them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from integration.conda_channels import X86, CondaChannels, run_tool
from integration.environments import ROOT
from variantwheel.conda_package import read_conda_package
from variantwheel.conda_variants import (
    MACHINES,
    MPI_CHOICES,
    hardware_word,
    parse_build,
)
from variantwheel.project import read_project

VARIANTWHEEL = Path(sys.executable).with_name("variantwheel")
OWN_CHANNEL = {"cu11", "neoverse", "rocm"}


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [VARIANTWHEEL, "check", "--project", ROOT, *files],
        check=False, text=True, capture_output=True, timeout=900,
    )  # fmt: skip


def test_the_packages_pass_all_checks(conda_channels: CondaChannels) -> None:
    files = conda_channels.real_packages
    done = check(*files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(files)} files checked, 0 failed" in done.stdout
    for definition in read_project(ROOT).definitions:
        features = definition.variant.features()
        declared = features.get(("nvidia", "sm_arch"), features.get(("amd", "gfx_arch"), ()))
        if declared and f"nompi_{hardware_word(definition.label)}" in conda_channels.real[X86]:
            assert ", ".join(sorted(declared)) in done.stdout, f"{definition.label}: {done.stdout}"


def test_no_package_names_the_folder_that_it_was_built_in(conda_channels: CondaChannels) -> None:
    for file in conda_channels.real_packages:
        files = read_conda_package(file).files
        assert not [path for path in files if path.endswith("direct_url.json")], file
        (record,) = [data for path, data in files.items() if path.endswith(".dist-info/RECORD")]
        assert b"direct_url.json" not in record
        assert b".dist-info/WHEEL" in record


def test_metapackages_pass_all_checks(conda_channels: CondaChannels) -> None:
    found = conda_channels.packages("horovod-variants-gpu-*.conda")
    found += conda_channels.packages("horovod-variants-rocm-*.conda")
    assert len(found) >= 18
    done = check(*found)
    assert done.returncode == 0, done.stdout


def test_a_package_that_is_replaced_is_indexed_anew(
    conda_channels: CondaChannels, tmp_path: Path
) -> None:
    one, other, *_ = conda_channels.packages("horovod-variants-gpu-*.conda")
    place = tmp_path / "noarch" / one.name
    place.parent.mkdir()
    for file in (one, other):
        place.write_bytes(file.read_bytes())
        run_tool("conda_packages.py", "index", tmp_path)
    index = json.loads((place.parent / "repodata.json").read_text(encoding="utf-8"))
    (entry,) = index["packages.conda"].values()
    assert entry["sha256"] == hashlib.sha256(other.read_bytes()).hexdigest()


def rendered() -> list[dict[str, Any]]:
    both = ["--subdir", "linux-64", "--subdir", "linux-aarch64"]
    found = json.loads(run_tool("conda_packages.py", "render", *both))
    assert isinstance(found, list)
    return found


def test_the_recipe_stands_for_the_definitions() -> None:
    """Every label on every machine that it is defined for, and none that was never heard of."""
    project = read_project(ROOT)
    labels: dict[tuple[str, str], set[str]] = {}
    for item in rendered():
        build = parse_build(item["build"])
        assert build is not None, item
        assert 0 <= build.number - build.offset < 50, item
        used = {key.replace("-", "_"): value for key, value in item["variant"].items()}
        text = json.dumps(used, sort_keys=True).encode()
        assert hashlib.sha1(text, usedforsecurity=False).hexdigest()[:7] == build.hash, item
        assert item["overlay"] == (build.label in OWN_CHANNEL), item
        if item["name"] == "horovod-variants":
            labels.setdefault((build.label, MACHINES[item["subdir"]]), set()).add(build.mpi)
        else:
            pinned = item["variant"]["horovod-variants"].split(" ")[1]
            assert parse_build(pinned).label == build.label, item  # type: ignore[union-attr]
    assert all(mpis == set(MPI_CHOICES) for mpis in labels.values())
    assert {label for label, _ in labels} <= {item.label for item in project.definitions}
    for definition in project.definitions:
        for platform in definition.platforms:
            if platform.machine in MACHINES.values():
                assert (definition.label, platform.machine) in labels, definition.label


def test_the_driver_that_cuda_packages_ask_for_is_that_of_the_definitions() -> None:
    asked = {
        parse_build(item["build"]).label: item["variant"]["__cuda"]  # type: ignore[union-attr]
        for item in rendered()
        if "__cuda" in item["variant"]
    }
    assert asked == {"cu11": "__cuda >=11", "cu12": "__cuda >=12", "cu13": "__cuda >=13"}
    for definition in read_project(ROOT).definitions:
        bounds = [
            item.value
            for item in definition.variant.properties
            if item.feature == "cuda_version_lower_bound"
        ]
        for bound in bounds:
            assert asked[definition.label] == f"__cuda >={bound.removesuffix('.0')}", definition
