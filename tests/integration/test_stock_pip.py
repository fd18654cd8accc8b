"""Stock pip, nothing but an index URL: the fitting variant, its reasons, its pins."""

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.environments import Environment, Release

PROJECT = "horovod-variants"


@pytest.mark.parametrize("pip", ["bundled", "newest"])
def test_the_fitting_variant_is_installed_and_works(
    release: Release, environment: Environment, native_label: str, allreduce_script: Path, pip: str
) -> None:
    if pip == "bundled":
        environment.pip_install("--index-url", release.index_url, PROJECT)
    else:
        environment.run(
            sys.executable, "-m", "pip", "--python", environment.python, "install",
            "--index-url", release.index_url, PROJECT,
        )  # fmt: skip
    decision = environment.decision()
    assert decision["label"] == environment.installed_label() == native_label
    assert decision["forced"] is False
    environment.run("variantwheel", "verify", PROJECT)
    shown = environment.run("horovodrun", "--check-build")
    assert "[X] Gloo" in shown
    assert native_label in shown
    printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
    assert "[0]<stdout>:allreduce fine on rank 0 of 2" in printed
    assert "[1]<stdout>:allreduce fine on rank 1 of 2" in printed


def test_every_candidate_is_explained(
    release: Release, environment: Environment, native_label: str
) -> None:
    environment.pip_install("--index-url", release.index_url, PROJECT)
    shown = environment.run("variantwheel", "explain", PROJECT, "--index", release.index_url)
    for label in ("null", "x86_64_v3"):
        assert label in shown
    candidates = environment.decision()["candidates"]
    assert isinstance(candidates, list)
    assert {candidate["label"] for candidate in candidates} == {
        "null", "x86_64_v3", "cu11", "cu12", "cu13", "rocm",
    }  # fmt: skip
    assert all(candidate["reasons"] or candidate["accepted"] for candidate in candidates)
    assert native_label in shown


def test_a_label_can_be_asked_for(release: Release, environment: Environment) -> None:
    environment.pip_install(
        "--index-url", release.index_url, PROJECT, env={"VARIANTWHEEL_VARIANT": "null"}
    )
    assert environment.installed_label() == "null"


def test_an_unknown_label_is_an_error_that_lists_the_known(
    release: Release, environment: Environment
) -> None:
    printed = environment.pip_install(
        "--index-url",
        release.index_url,
        PROJECT,
        env={"VARIANTWHEEL_VARIANT": "x86_64_v33"},
        expect=1,
    )
    assert "x86_64_v33" in printed
    assert "x86_64_v3" in printed
    assert "Traceback" not in printed


def test_one_hash_pins_everything(
    release: Release, environment: Environment, native_label: str, tmp_path: Path
) -> None:
    (selector,) = release.folder.glob("variantwheel_selector-*.whl")
    (cloudpickle,) = release.folder.glob("cloudpickle-*.whl")
    lines = [
        f"{name}=={file.name.split('-')[1].removesuffix('.tar.gz')} "
        f"--hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"
        for name, file in (
            (PROJECT, release.sdist),
            ("variantwheel-selector", selector),
            ("cloudpickle", cloudpickle),
        )
    ]
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("".join(lines), encoding="utf-8")
    environment.pip_install(
        "--index-url", release.index_url, "--require-hashes", "-r", requirements
    )
    assert environment.installed_label() == native_label


def test_a_download_installs_without_an_index(
    release: Release, environment: Environment, native_label: str, tmp_path: Path
) -> None:
    carried = tmp_path / "carried"
    environment.run(
        "python", "-m", "pip", "download", "--index-url", release.index_url, "-d", carried, PROJECT
    )
    assert release.sdist.name in {file.name for file in carried.iterdir()}
    environment.pip_install("--no-index", "--find-links", carried, PROJECT)
    assert environment.installed_label() == native_label


def test_a_tampered_payload_is_not_installed(
    release: Release, environment: Environment, tmp_path: Path
) -> None:
    """Bytes of embedded wheels differ from what the manifest says."""
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(release.sdist, unpacked)
    (tree,) = unpacked.iterdir()
    shared = tree / "payload/wheels.bin"
    shared.write_bytes(bytes(byte ^ 1 for byte in shared.read_bytes()))
    printed = environment.pip_install("--no-deps", tree, expect=1)
    assert "sha256" in printed
    assert "Traceback" not in printed


def test_a_source_build_when_asked_for(
    release: Release, new_environment: Callable[[], Environment]
) -> None:
    """Build requirements come from the user's usual index, so only the selector is left out."""
    environment = new_environment()
    environment.variables.pop("PIP_CONFIG_FILE")
    # Of the project's own settings, one that makes compiling quicker.
    environment.pip_install(
        "--no-deps", release.sdist, "-C", "source-build=force",
        "-C", "cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O1",
    )  # fmt: skip
    printed = environment.run(
        "python", "-c", "import horovod.array as hvd; hvd.init(); print(hvd.size())"
    )
    assert printed.strip().endswith("1")
