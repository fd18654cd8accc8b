"""Which package the solver takes, for machines of every kind, and what it must refuse."""

from __future__ import annotations

import pytest

from integration.conda_channels import CondaChannels, read_yaml
from integration.environments import ROOT
from variantwheel.project import read_project

OWN, FEEDSTOCK = "horovod-variants", "feedstock"
BASELINE = {"archspec": "x86_64"}
V3 = {"archspec": "x86_64_v3"}
ZEN3 = {"archspec": "zen3"}
OLD = {"archspec": "nehalem"}
NEOVERSE = {"archspec": "neoverse_v1", "subdir": "linux-aarch64"}
NEOVERSE_N1 = {"archspec": "neoverse_n1", "subdir": "linux-aarch64"}
PROJECT = "horovod-variants"

# Machine, what is asked for, and the beginning of the build string that has to come.
CHOICES = [
    (BASELINE, [PROJECT], "nompi_cpu"),
    (OLD, [PROJECT], "nompi_cpu"),
    (V3, [PROJECT], "nompi_x86_64_v3"),
    (ZEN3, [PROJECT], "nompi_x86_64_v3"),
    ({"archspec": "haswell"}, [PROJECT], "nompi_x86_64_v3"),
    ({"archspec": "x86_64_v4"}, [PROJECT], "nompi_x86_64_v3"),
    ({**BASELINE, "cuda": "12.4"}, [PROJECT], "nompi_cuda12"),
    ({**ZEN3, "cuda": "12.4"}, [PROJECT], "nompi_cuda12"),
    ({**BASELINE, "cuda": "13.0"}, [PROJECT], "nompi_cuda13"),
    ({**ZEN3, "cuda": "13.0"}, [PROJECT], "nompi_cuda13"),
    ({**ZEN3, "cuda": "13.0"}, [PROJECT, "cuda-version 12.*"], "nompi_cuda12"),
    # A client that knows the GPU's architecture: a driver runs builds without code for it.
    ({**ZEN3, "cuda": "13.0", "cuda_arch": "7.5"}, [PROJECT], "nompi_cuda13"),
    ({**ZEN3, "cuda": "13.0", "cuda_arch": "7.0"}, [PROJECT], "nompi_cuda12"),
    ({**ZEN3, "cuda": "13.0", "cuda_arch": "7.0"}, [f"{PROJECT}-gpu"], "nompi_cuda12"),
    ({**ZEN3, "cuda": "13.0", "cuda_arch": "5.2"}, [PROJECT], "nompi_x86_64_v3"),
    # With PyTorch: neither is CUDA given up for the newest CUDA, nor has a PyTorch without it a
    # use for it.
    ({**ZEN3, "cuda": "13.0"}, [PROJECT, "pytorch"], "nompi_cuda13"),
    ({**ZEN3, "cuda": "13.0"}, [PROJECT, "pytorch 2.0.*"], "nompi_cuda12"),
    ({**ZEN3, "cuda": "13.0"}, [f"{PROJECT}-gpu", "pytorch 2.0.*"], "nompi_cuda12"),
    ({**ZEN3, "cuda": "13.0"}, [PROJECT, "pytorch * cpu*"], "nompi_x86_64_v3"),
    (NEOVERSE_N1, [PROJECT], "nompi_cpu"),
    ({**NEOVERSE, "cuda": "12.8"}, [PROJECT], "nompi_cuda12"),
    ({**NEOVERSE, "cuda": "13.0"}, [PROJECT], "nompi_cuda13"),
    # By name, against the order of preference.
    ({**ZEN3, "cuda": "12.4"}, [f"{PROJECT} * *cpu*"], "nompi_cpu"),
    (ZEN3, [f"{PROJECT} * mpi_openmpi_*"], "mpi_openmpi_x86_64_v3"),
    (ZEN3, [f"{PROJECT} * mpi_mpich_*"], "mpi_mpich_x86_64_v3"),
    # The metapackage.
    ({**ZEN3, "cuda": "12.4"}, [f"{PROJECT}-gpu"], "nompi_cuda12"),
    ({**NEOVERSE, "cuda": "13.0"}, [f"{PROJECT}-gpu"], "nompi_cuda13"),
]  # fmt: skip

# On conda-forge alone, and on our own channel, which has more.
BY_CHANNEL = [
    ({**BASELINE, "cuda": "11.8"}, [PROJECT], {FEEDSTOCK: "nompi_cpu", OWN: "nompi_cuda11"}),
    ({**ZEN3, "cuda": "11.8"}, [PROJECT], {FEEDSTOCK: "nompi_x86_64_v3", OWN: "nompi_cuda11"}),
    (
        {**ZEN3, "cuda": "12.8", "cuda_arch": "6.1"}, [PROJECT],
        {FEEDSTOCK: "nompi_x86_64_v3", OWN: "nompi_cuda11"},
    ),
    ({**ZEN3, "cuda": "11.8"}, [PROJECT, "pytorch"], {OWN: "nompi_x86_64_v3"}),
    ({**ZEN3, "amdgpu": "0"}, [PROJECT], {FEEDSTOCK: "nompi_x86_64_v3", OWN: "nompi_x86_64_v3"}),
    ({**ZEN3, "amdgpu": "0"}, [f"{PROJECT}-rocm"], {OWN: "nompi_rocm"}),
    (ZEN3, [f"{PROJECT} * *rocm*"], {OWN: "nompi_rocm"}),
    (NEOVERSE, [PROJECT], {FEEDSTOCK: "nompi_cpu", OWN: "nompi_neoverse"}),
    ({**NEOVERSE, "archspec": "neoverse_n2"}, [PROJECT], {OWN: "nompi_neoverse"}),
    ({**NEOVERSE, "cuda": "11.8"}, [PROJECT], {FEEDSTOCK: "nompi_cpu", OWN: "nompi_neoverse"}),
]  # fmt: skip

REFUSED = [
    (ZEN3, [f"{PROJECT}-gpu"]),
    ({**ZEN3, "cuda": "11.8"}, [f"{PROJECT} * *cuda12*"]),
    ({**ZEN3, "cuda": "12.4"}, [f"{PROJECT} * *cuda13*"]),
    (BASELINE, [f"{PROJECT} * *x86_64_v3*"]),
    (OLD, [f"{PROJECT} * *x86_64_v3*"]),
    (NEOVERSE, [f"{PROJECT} * *x86_64_v3*"]),
    (NEOVERSE_N1, [f"{PROJECT} * *neoverse*"]),
    (ZEN3, [f"{PROJECT} * *neoverse*"]),
    (NEOVERSE, [f"{PROJECT}-rocm"]),
    (ZEN3, [f"{PROJECT} * mpi_openmpi_*", "mpich"]),
    (ZEN3, [PROJECT, "openmpi", "mpich"]),
    ({**ZEN3, "cuda": "12.4"}, [f"{PROJECT}-gpu", f"{PROJECT} * *cpu*"]),
    (ZEN3, [PROJECT, "pytorch <2"]),
    (ZEN3, [PROJECT, "horovod"]),
    ({**ZEN3, "cuda": "13.0"}, [f"{PROJECT}-gpu", "pytorch * cpu*"]),
    ({**ZEN3, "cuda": "13.0", "cuda_arch": "5.2"}, [f"{PROJECT}-gpu"]),
]


def build_of(answer: dict[str, object]) -> str:
    """The build string that was chosen, or why there is none."""
    packages = answer.get("packages")
    if not isinstance(packages, dict):
        return f"refused: {answer['refused']}"
    return str(packages[PROJECT]).split(" ")[1]


@pytest.mark.parametrize("channel", [OWN, FEEDSTOCK])
def test_the_solver_takes_the_build_for_the_machine(
    conda_channels: CondaChannels, channel: str
) -> None:
    cases = [(machine, specs, wanted) for machine, specs, wanted in CHOICES]
    cases += [
        (machine, specs, wanted[channel])
        for machine, specs, wanted in BY_CHANNEL
        if channel in wanted
    ]
    answers = conda_channels.solve(
        channel, [{"machine": machine, "specs": specs} for machine, specs, _ in cases]
    )
    wrong = [
        f"{machine} {specs}: {build_of(answer)}, not {wanted}"
        for (machine, specs, wanted), answer in zip(cases, answers, strict=True)
        if not build_of(answer).startswith(f"{wanted}_")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("channel", [OWN, FEEDSTOCK])
def test_what_does_not_fit_the_machine_is_refused(
    conda_channels: CondaChannels, channel: str
) -> None:
    answers = conda_channels.solve(
        channel, [{"machine": machine, "specs": specs} for machine, specs in REFUSED]
    )
    granted = [
        f"{machine} {specs}: {build_of(answer)}"
        for (machine, specs), answer in zip(REFUSED, answers, strict=True)
        if "refused" not in answer
    ]
    assert not granted, "\n".join(granted)


def test_an_environment_that_moves_to_a_lesser_machine_is_mended(
    conda_channels: CondaChannels,
) -> None:
    """What the repair command relies on: an installed build that does not fit is not kept."""
    moves = [
        ({**ZEN3, "cuda": "12.4"}, ZEN3, "nompi_x86_64_v3"),
        (ZEN3, BASELINE, "nompi_cpu"),
        ({**ZEN3, "cuda": "13.0"}, {**ZEN3, "cuda": "12.4"}, "nompi_cuda12"),
        (ZEN3, V3, "nompi_x86_64_v3"),
    ]
    answers = conda_channels.solve(
        OWN, [{"machine": to, "installed_on": of, "specs": [PROJECT]} for of, to, _ in moves]
    )
    for (_, _, wanted), answer in zip(moves, answers, strict=True):
        assert build_of(answer).startswith(f"{wanted}_")


def test_a_pinned_pytorch_keeps_its_cuda(conda_channels: CondaChannels) -> None:
    """Beside a driver for a newer CUDA than that PyTorch has a build for."""
    specs = ["python >=3.10", "pip", PROJECT, "pytorch 2.0.*", "openmpi"]
    machine = {**ZEN3, "cuda": "13.0"}
    (answer,) = conda_channels.solve(OWN, [{"machine": machine, "specs": specs}])
    assert build_of(answer).startswith("nompi_cuda12_")
    assert answer["packages"]["pytorch"] == "2.0 cuda129_hostboot"  # type: ignore[index]


def test_a_python_of_another_version_is_not_taken(conda_channels: CondaChannels) -> None:
    """The native module serves one Python: the package must not be installable beside another."""
    (answer,) = conda_channels.solve(
        OWN, [{"machine": ZEN3, "specs": [PROJECT, "python_abi 3.9.*"]}]
    )
    assert "refused" in answer


def test_the_guard_for_arm_names_all_cpus_of_the_definition() -> None:
    import archspec.cpu  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - the session's

    recipe = read_yaml("recipe/aarch64-level/recipe.yaml")
    version = recipe["context"]["version"]
    wanted = [
        name
        for name, target in archspec.cpu.TARGETS.items()
        if target.family.name == "aarch64"
        and f"armv{version}" in (name, *(parent.name for parent in target.ancestors))
    ]
    named = read_yaml("recipe/aarch64-level/variants.yaml")["archspec_name"]
    assert named == sorted(wanted)
    versions = [
        item.value
        for definition in read_project(ROOT).definitions
        if definition.label == "neoverse"
        for item in definition.variant.properties
    ]
    assert versions == [version]
