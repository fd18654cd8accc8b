"""The known edge cases of hardware detection, each with its right answer.

Most are captured machines: which variant is chosen, and what is said. The others are about the
process of installing; they name the tests that show them.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

from unit.selector.gpu_release import GPU_RELEASE
from unit.selector.test_overrides import MACHINES
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.selection import select
from variantwheel_selector.settings import Settings
from variantwheel_selector.surroundings import surroundings

TESTS = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """One case on a captured machine.

    Attributes:
        what: The case.
        machine: A folder of tests/machines or tests/gpu_machines.
        chosen: The right choice among cu13, cu12, rocm, x86_64_v3 and null, or none.
        said: Words that the answer has to hold.
    """

    what: str
    machine: str
    chosen: str | None
    said: tuple[str, ...] = ()


CASES = [
    Case("1 WSL2 without kernel module and procfs", "wsl_nvidia", "cu12", ("driver 571.96",)),
    Case("2 WSL's nvidia-smi prints ERR!", "wsl_smi_error", "x86_64_v3", ("unknown",)),
    Case("3 container with devices and without nvidia-smi", "nvidia_no_smi", "cu12"),
    Case("4 driver on the host, no device here", "nvidia_driver_on_host", "x86_64_v3", ("--gpus",)),
    Case("5 NVML without libcuda", "nvidia_utility_only", "x86_64_v3", ("compute,utility",)),
    Case("6 toolkit image without driver", "cuda_toolkit_image", "x86_64_v3", ("assume-cuda",)),
    Case("7 MIG counts as its parent", "nvidia_mig", "cu13", ("MIG is on",)),
    Case("8 forward compatibility fails", "nvidia_forward_compatibility", "cu12", ("804",)),
    Case("9 minor-version compatibility", "nvidia_minor_version", "cu12"),
    Case("10 PTX needs a driver that knows it", "nvidia_ptx_needs_newer_driver", "cu12"),
    Case("11 newer driver, older toolkit", "nvidia_newer_than_known", "cu13"),
    Case("12 open kernel module", "nvidia_open_module", "cu13", ("driver 580.65.06",)),
    Case("13 Jetson before Thor", "nvidia_jetson_orin", "null", ("this is a Jetson",)),
    Case("13 Jetson Thor", "nvidia_jetson_thor", "cu12_sbsa"),
    Case("14 Arm server with NVIDIA", "nvidia_gb200", "cu12_sbsa"),
    Case("15 Pascal with CUDA 13", "nvidia_pascal", "x86_64_v3", ("compute capability 6.",)),
    Case("15 Volta with CUDA 13", "nvidia_volta", "cu12", ("compute capability 7.0",)),
    Case("16 mixed generations, all served", "nvidia_mixed_generations", "cu12", ("no code for",)),
    Case("16 mixed generations, one unserved", "nvidia_mixed_unserved", "x86_64_v3"),
    Case("17 device newer than the machine code", "nvidia_newer_device", "cu13"),
    Case("18 NVIDIA beside an integrated AMD GPU", "nvidia_beside_amd_integrated", "cu12"),
    Case("19 APU that no wheel serves", "amd_apu_alone", "x86_64_v3", ("gfx1103",)),
    Case("19 APU beside a discrete GPU", "amd_apu_beside_discrete", "rocm", ("does not count",)),
    Case("21 CUDA_VISIBLE_DEVICES", "nvidia_hidden_by_variable", "cu12", ("does not count",)),
    Case("22 fell off the bus", "nvidia_fell_off_the_bus", "x86_64_v3", ("no device does",)),
    Case("22 one of two is lost", "nvidia_one_of_two_lost", "cu12", ("no answer from device",)),
    Case("22 no device at all", "nvidia_zero_devices", "x86_64_v3"),
    Case("23 update without restart", "nvidia_version_mismatch", "x86_64_v3", ("restart",)),
    Case("24 the driver hangs", "nvidia_hangs", "x86_64_v3", ("did not end in time",)),
    Case("25 nvidia-smi's table for people", "nvidia_smi_new_labels", "x86_64_v3", ("in time",)),
    Case("26 nvidia-smi is the last resort", "nvidia_only_smi", "cu12", ("nvidia-smi",)),
    Case("27 hostile answers", "nvidia_hostile_answers", "x86_64_v3", ("unknown",)),
    Case("28 vfio-pci holds the card", "nvidia_on_vfio", "x86_64_v3", ("vfio-pci",)),
    Case("28 nouveau holds the card", "nvidia_on_nouveau", "x86_64_v3", ("nouveau",)),
    Case("28 no driver holds the card", "nvidia_without_driver", "x86_64_v3", ("install it",)),
    Case("28 no driver holds the card", "amd_without_driver", "x86_64_v3", ("amdgpu driver",)),
    Case("29 no /dev/kfd", "amd_no_kfd_in_container", "x86_64_v3", ("--device=/dev/kfd",)),
    Case("29 render group", "amd_render_group_missing", "x86_64_v3", ("--group-add render",)),
    Case("29 another container's GPU", "amd_one_of_two_permitted", "rocm", ("not this process's",)),
    Case("30 HSA_OVERRIDE_GFX_VERSION", "amd_override", "x86_64_v3", ("warning",)),
    Case("31 AMD in WSL", "wsl_without_nvidia", "x86_64_v3", ("under WSL",)),
    Case("32 partitions of one GPU", "amd_partitions", "rocm"),
    Case("33 a hypervisor masks AVX", "x86_64_v2_aes", "null", ("lacks", "avx2")),
    Case("33 a hypervisor's oldest model", "kvm64", "null"),
    Case("34 one flag is missing", "movbe_missing", "null", ("lacks movbe",)),
    Case("35 AVX-512 in part", "avx512_without_vl", "x86_64_v3"),
    Case("35 the system did not enable AVX", "avx_off_in_system", "null"),
    Case("36 hybrid cores", "alder_lake_hybrid", "x86_64_v3"),
    Case("37 Zhaoxin", "zhaoxin", "x86_64_v3"),
    Case("37 Hygon", "hygon", "x86_64_v3"),
    Case("38 Rosetta 2", "rosetta", None, ("x86-64 Python on Apple silicon",)),
    Case("39 emulated on x86", "emulated_haswell", "x86_64_v3", ("user-mode emulation",)),
    Case("39 emulated, glibc too old", "emulated_old_glibc", "null", ("does not run on the CPU",)),
    Case("39 emulated on Arm", "x86_64_on_arm_host", "null", ("another architecture",)),
    Case("40 32-bit Python, 64-bit kernel", "python_32_bit", None, ("32-bit",)),
    Case("41 musl with a GPU", "musl_with_gpu", None, ("no wheel for this Python and platform",)),
    Case("41 musl", "musl_1_2", None, ("musl 1.2",)),
    Case("42 without the GIL", "free_threaded_python", "cu13", ("free-threaded",)),
    Case("43 login node without GPU", "slurm_login_node", "x86_64_v3", ("setting 'profile'",)),
    Case("46 automatic levels end at v3", "zen4", "x86_64_v3"),
    Case("51 sandbox without /proc", "no_proc", "null", ("No such file or directory",)),
    Case("51 sandbox that forbids /proc", "sandbox_eperm", "null", ("Operation not permitted",)),
    Case("52 a library crashes", "nvidia_cuinit_crashes", "cu12", ("not confirmed by cuInit",)),
    Case("53 driver newer than known", "nvidia_newer_than_known", "cu13"),
    Case("54 a cgroup hides the GPU", "nvidia_hidden_by_cgroup", "x86_64_v3", ("may not use it",)),
    Case("55 the toolkit's stub", "nvidia_toolkit_stub", "x86_64_v3", ("stub (error 34)",)),
]

ELSEWHERE = {
    "20 a probe wakes the GPU": "unit/selector/test_probe_gpu.py::"
    "test_no_process_for_a_release_without_such_variants",
    "24 a child that cannot be killed": "unit/selector/test_probe_gpu.py::"
    "test_a_child_that_no_signal_ends_is_not_waited_for",
    "25 labels of nvidia-smi": "unit/selector/test_gpu_parse.py::"
    "test_what_is_no_compute_capability",
    "27 huge and hostile output": "unit/selector/test_gpu_parse.py::test_huge_and_hostile_answers",
    "44 login CPU newer than compute": "unit/selector/test_overrides.py::"
    "test_several_profiles_intersect",
    "45 shared cache": "unit/selector/test_verify.py::test_a_variant_that_does_not_fit",
    "47 foreign tags": "unit/selector/test_payload.py::"
    "test_a_wheel_for_another_platform_is_refused",
    "48 hashes": "unit/selector/test_front_ends.py::test_a_tampered_payload_is_not_installed",
    "49 metadata without detection": "unit/selector/test_hooks.py::"
    "test_metadata_is_static_and_needs_no_detection",
    "50 cross target": "unit/selector/test_overrides.py::test_a_profile_stands_for_this_machine",
    "52 a detector crashes": "unit/selector/test_probe_gpu.py::"
    "test_a_crash_in_nvml_is_no_crash_here",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.what.split()[0]}-{case.machine}")
def test_right_answer(case: Case) -> None:
    machine = read_machine(MACHINES[case.machine])
    selection = select(GPU_RELEASE, Settings(), machine)
    winner = selection.resolution.winner
    assert (winner.label if winner else None) == case.chosen, case.what
    said = [reason for item in selection.resolution.candidates for reason in item.reasons]
    said += [*machine.facts().values(), *surroundings(machine).values()]
    said += [f.basis for answer in selection.support.values() for f in answer.features]
    for words in case.said:
        assert any(words in text for text in said), f"{case.what}: {words!r} is not said"


def test_every_case_is_there() -> None:
    numbers = {int(what.split()[0]) for what in (*(case.what for case in CASES), *ELSEWHERE)}
    assert numbers == set(range(1, 56))
    assert len({case.machine for case in CASES}) >= 40


@pytest.mark.parametrize("what", ELSEWHERE)
def test_the_other_cases_have_a_test(what: str) -> None:
    path, _, name = ELSEWHERE[what].partition("::")
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
