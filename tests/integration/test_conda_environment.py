"""The unchanged `environment.yml`, made into an environment from local channels, and used."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from integration.conda_channels import (
    AS_ROOT,
    BASELINE,
    WHOLE,
    CondaChannels,
    as_environment,
    create,
    run_tool,
)
from integration.environments import ROOT, Environment, run

GPU_NODE = {"CONDA_OVERRIDE_CUDA": "12.4"}
PROJECT = "horovod-variants"


def test_the_environment_is_complete_and_consistent(
    conda_baseline: tuple[Environment, Path],
) -> None:
    environment, lock = conda_baseline
    assert "No broken requirements found" in environment.run("python", "-m", "pip", "check")
    names = {line.split("/")[-1].split("-0")[0] for line in lock.read_text().splitlines()}
    for name in ("horovod-variants", "variantwheel-selector", "packaging"):
        assert any(found.startswith(name) for found in names), names
    # The selector uses conda's package, not a copy inside it.
    vendored = list(environment.folder.glob("lib/python*/site-packages/**/_vendor/packaging"))
    assert not [path for path in vendored if "variantwheel_selector" in str(path)]


def test_two_ranks_and_the_reports(conda_baseline: tuple[Environment, Path]) -> None:
    environment, _ = conda_baseline
    environment.run("horovodrun", "-np", "2", "python", ROOT / "recipe" / "two_ranks.py")
    report = environment.run("horovodrun", "--check-build")
    assert "    [X] Gloo" in report
    assert "label: null (fits this machine" in report
    assert "chosen by: conda's solver, build nompi_cpu_py" in report
    facts = json.loads(environment.run("horovodrun", "--check-build", "--json"))
    assert facts["variant"]["conda"]["prefix"] == str(environment.folder)
    assert facts["variant"]["conda"]["channel"].endswith("/horovod-variants")
    verified = environment.run("variantwheel", "verify", "horovod-variants")
    assert "variant null fits this machine" in verified
    assert "conda package, build nompi_cpu_py" in verified


def mend(command: str, machine: Mapping[str, str]) -> None:
    """Executes a command `conda install ...` by the one client that is there, on a machine."""
    program, *words = shlex.split(command)
    assert program == "conda"
    run_tool("conda_client.py", *words, env=machine)


def test_a_misfit_is_mended_by_the_command_that_is_named(
    conda_baseline: tuple[Environment, Path], conda_channels: CondaChannels
) -> None:
    """A build for a better machine, brought here by a shared disk: the record says so."""
    environment, _ = conda_baseline
    record = environment.dist_info() / "variant.json"
    original = record.read_text(encoding="utf-8")
    document = json.loads(original)
    document["variants"] = {"cu99": {"nvidia": {"cuda_version_lower_bound": ["20.0"]}}}
    try:
        record.write_text(json.dumps(document), encoding="utf-8")
        verified = environment.run("variantwheel", "verify", "horovod-variants", expect=1)
        report = environment.run("horovodrun", "--check-build", expect=1)
        version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
        command = (
            f"conda install --prefix {environment.folder} "
            f"--channel {conda_channels.alias}horovod-variants "
            f"--channel {conda_channels.alias}conda-forge "
            f"--force-reinstall horovod-variants={version}"
        )
        assert "choose anew" in verified
        assert f"{command}\n" in verified
        assert f"to mend it: {command}" in report
        mend(command, BASELINE)
        assert record.read_text(encoding="utf-8") == original
        environment.run("variantwheel", "verify", "horovod-variants")
    finally:
        record.write_text(original, encoding="utf-8")


def test_a_gpu_node_is_told_what_would_use_its_gpu(
    conda_baseline: tuple[Environment, Path], tmp_path: Path
) -> None:
    """An environment that was made where there was none; the node is this machine with one."""
    environment, _ = conda_baseline
    file = tmp_path / "node.json"
    environment.run("variantwheel", "capture", file)
    node = json.loads(file.read_text(encoding="utf-8"))
    answers = [
        {"nvml": {"library": "libnvidia-ml.so.1", "init": 0, "driver_version": "550.54.15",
                  "devices": [{"compute_capability": [9, 0], "error": 0}],
                  "cuda_version_error": 0, "cuda_version": 12040}},
        {"cuda": {"library": "libcuda.so.1", "error": 0, "version": 12040}},
        {"cuda_devices": {"init": 0, "devices": []}},
    ]  # fmt: skip
    node["texts"] |= {
        "device_files.txt": "/dev/nvidiactl read-write\n/dev/nvidia0 read-write\n",
        "nvidia_driver.txt": "".join(f"{json.dumps(answer)}\n" for answer in answers),
    }
    file.write_text(json.dumps(node), encoding="utf-8")
    verified = environment.run("variantwheel", "verify", PROJECT, "--machine", file)
    assert "it has no code for GPUs, and there is a device of compute capability 9.0" in verified
    command = verified.partition("a build for it, if a channel has one: ")[2].splitlines()[0]
    assert f"--prefix {environment.folder} " in command
    assert f" {PROJECT}-gpu=" in command
    refused = run_tool("conda_client.py", *shlex.split(command)[1:], expect=1)
    assert "__cuda" in refused  # of this machine


def test_a_lock_notices_a_file_that_was_exchanged(
    conda_baseline: tuple[Environment, Path], tmp_path: Path
) -> None:
    _, lock = conda_baseline
    changed = tmp_path / "changed.lock"
    lines = lock.read_text(encoding="utf-8").splitlines()
    ours = next(line for line in lines if "/horovod-variants-" in line)
    lines[lines.index(ours)] = ours[:-64] + "0" * 64
    changed.write_text("\n".join(lines), encoding="utf-8")
    refused = run_tool(
        "conda_client.py", "create", changed, tmp_path / "never", expect=1, env=BASELINE
    )
    assert "the lock says 0000" in refused
    assert not (tmp_path / "never" / "bin").exists()


def _runs_through_its_own_mpi(environment: Environment, mpi: Mapping[str, str]) -> None:
    """The MPI that environment.yml names starts ranks, and computes for them."""
    assert mpi["version"].startswith("Open MPI")
    assert mpi["library"] == str(environment.folder / "lib" / "libmpi.so.40")
    two_ranks = ("-np", "2", "python", ROOT / "recipe" / "two_ranks.py")
    by_mpi = AS_ROOT | {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}
    environment.run("mpirun", *two_ranks, env=by_mpi)
    environment.run("horovodrun", "--mpi", *two_ranks, env=AS_ROOT)


@pytest.mark.whole
def test_this_machine_gets_its_best_build_and_trains(
    conda_channels: CondaChannels, tmp_path: Path, native_label: str
) -> None:
    assert WHOLE, "run by `./dev conda`"
    environment = create(conda_channels, tmp_path / "env", {})
    assert environment.installed_label() == native_label
    report = json.loads(environment.run("horovodrun", "--check-build", "--json"))
    # The wheels of the level hold kernels for AVX-512 too, which gain on some CPUs.
    expected = ("baseline",) if native_label == "null" else (native_label, "x86_64_v4")
    assert report["runtime"]["facts"]["level"] in expected
    assert report["frameworks"]["pytorch"]
    _runs_through_its_own_mpi(environment, report["runtime"]["facts"]["mpi"])
    trained = environment.run(
        "horovodrun", "-np", "2", "python", ROOT / "examples" / "torch_mlp.py"
    )
    assert "loss" in trained


@pytest.mark.whole
def test_a_login_node_prepares_an_environment_for_gpu_nodes(
    conda_channels: CondaChannels, tmp_path: Path, native_label: str
) -> None:
    """On this machine, without a GPU, it runs, says that it does not fit, and can be mended."""
    environment = create(conda_channels, tmp_path / "env", GPU_NODE)
    assert list(environment.folder.glob("conda-meta/horovod-variants-*-nompi_cuda12_py*.json"))
    two_ranks = ("horovodrun", "-np", "2", "python", ROOT / "recipe" / "two_ranks.py")
    environment.run(*two_ranks)
    verified = environment.run("variantwheel", "verify", PROJECT, expect=1)
    mend(verified.partition("choose anew: ")[2].splitlines()[0], {})
    assert environment.installed_label() == native_label
    environment.run("variantwheel", "verify", PROJECT)
    environment.run(*two_ranks)
    # The metapackage insists on a driver: it brings the CUDA build back, or nothing.
    channels = [f"{conda_channels.alias}{name}" for name in (PROJECT, "conda-forge")]
    install: list[str | Path] = ["install", "--prefix", environment.folder, f"{PROJECT}-gpu"]
    for channel in channels:
        install += ["--channel", channel]
    refused = run_tool("conda_client.py", *install, expect=1)
    assert "__cuda" in refused
    assert environment.installed_label() == native_label
    run_tool("conda_client.py", *install, env=GPU_NODE)
    assert environment.installed_label() == "cu12"
    assert list(environment.folder.glob(f"conda-meta/{PROJECT}-gpu-*-nompi_cuda12_h*.json"))
    environment.run(*two_ranks)


@pytest.mark.whole
@pytest.mark.parametrize("client", ["conda", "mamba", "micromamba"])
def test_other_clients_make_the_same_environment(
    conda_channels: CondaChannels, tmp_path: Path, client: str
) -> None:
    if shutil.which(client) is None:
        pytest.skip(f"no {client} on PATH; only tried where there is one")
    settings = {**os.environ, **BASELINE, "CONDA_CHANNEL_ALIAS": conda_channels.alias}
    prefix = tmp_path / "env"
    run(client, "env", "create", "-f", ROOT / "environment.yml", "-p", prefix, env=settings)
    report = as_environment(prefix).run("horovodrun", "--check-build")
    assert "build nompi_cpu_py" in report


@pytest.mark.whole
def test_pixi_makes_the_same_environment(conda_channels: CondaChannels, tmp_path: Path) -> None:
    if shutil.which("pixi") is None:
        pytest.skip("no pixi on PATH; only tried where there is one")
    run("pixi", "init", "--import", ROOT / "environment.yml", tmp_path)
    manifest = tmp_path / "pixi.toml"
    text = manifest.read_text(encoding="utf-8")
    for name in (PROJECT, "conda-forge"):  # pixi has no setting for the channel alias
        assert f'"{name}"' in text
        text = text.replace(f'"{name}"', f'"{conda_channels.alias}{name}"')
    manifest.write_text(text, encoding="utf-8")
    settings = {**os.environ, **BASELINE}
    checked = ("pixi", "run", "--manifest-path", manifest, "horovodrun", "--check-build")
    assert "build nompi_cpu_py" in run(*checked, env=settings).stdout
