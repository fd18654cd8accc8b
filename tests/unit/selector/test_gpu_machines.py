"""Every folder of tests/gpu_machines, and the real captures of GPUs, against what is known."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from unit.selector.gpu_release import GPU_RELEASE
from unit.selector.tiny_release import NO_FILES, make_machine
from variantwheel_selector.assumptions import Assumed, Assumptions
from variantwheel_selector.machine import Machine
from variantwheel_selector.machine_folder import read_machine, write_machine
from variantwheel_selector.parse.compute_cap import parse_compute_cap
from variantwheel_selector.parse.kfd import parse_kfd_nodes
from variantwheel_selector.parse.nvidia_version import parse_driver_version
from variantwheel_selector.providers import amd, nvidia, supported
from variantwheel_selector.providers.no_gpu import NO_AMD, NO_NVIDIA, TOOLKIT_ALONE, absent_gpu
from variantwheel_selector.resolve import Resolution
from variantwheel_selector.selection import select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.tags import supported_tags

FOLDER = Path(__file__).parents[2] / "gpu_machines"
MACHINES = sorted(path for path in FOLDER.iterdir() if path.is_dir())
CAPTURES = Path(
    os.environ.get("HVD_TEST_CAPTURES", str(Path(__file__).parents[4] / "shared/captures"))
)
every_machine = pytest.mark.parametrize("folder", MACHINES, ids=lambda path: path.name)


def _expected(folder: Path) -> dict[str, Any]:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert isinstance(expected, dict)
    return expected


def _resolution(machine: Machine, **environment: str) -> Resolution:
    settings = read_settings(None, NO_FILES | environment)
    return select(GPU_RELEASE, settings, machine, supported_tags(machine)).resolution


def _best(machine: Machine, namespace: str) -> list[str]:
    """The best value of each feature but the upper bound, which no variant should have.

    AMD's targets come without the settings that code may rely on.
    """
    return [
        next(value for value in feature.values if not value.endswith(("_on", "_off")))
        for feature in supported(machine)[namespace].features
        if feature.values and feature.name != "cuda_version_upper_bound"
    ]


def test_there_are_machines() -> None:
    assert len(MACHINES) >= 59


@every_machine
def test_supported_properties(folder: Path) -> None:
    expected, machine = _expected(folder), read_machine(folder)
    assert _best(machine, "nvidia") == expected["nvidia"]
    assert _best(machine, "amd") == expected["amd"]
    support = supported(machine)
    unknown = [namespace for namespace, answer in support.items() if answer.unknown]
    unknown += [
        f"{answer.namespace} {feature.name}"
        for answer in support.values()
        for feature in answer.features
        if feature.unknown and feature.name != "cuda_version_upper_bound"
    ]
    assert unknown == expected["unknown"]
    for answer in support.values():
        assert bool(answer.features) != bool(answer.absent or answer.unknown)


@every_machine
def test_chosen_variant_and_reasons_against_the_others(folder: Path) -> None:
    expected = _expected(folder)
    resolution = _resolution(read_machine(folder))
    winner = resolution.winner
    assert (winner.label if winner else None) == expected["chosen"]
    by_label = {item.label: item for item in resolution.candidates}
    for label, words in expected["rejected"].items():
        assert not by_label[label].accepted
        for word in words:
            assert word in "\n".join(by_label[label].reasons)


@every_machine
def test_a_captured_machine_is_the_same_machine(folder: Path, tmp_path: Path) -> None:
    machine = read_machine(folder)
    write_machine(machine, tmp_path / "again")
    assert read_machine(tmp_path / "again") == machine


@pytest.mark.parametrize("namespace", ["nvidia", "amd"])
def test_without_a_sign_the_providers_say_the_same_as_the_shortcut(namespace: str) -> None:
    folders = [*MACHINES, *(path for path in FOLDER.with_name("machines").iterdir())]
    machines = [read_machine(folder) for folder in folders if folder.is_dir()]
    machines.append(make_machine("sse2", texts={"device_files.txt": ""}))
    found = [machine for machine in machines if absent_gpu(namespace, machine)]
    reasons = {"nvidia": {NO_NVIDIA, TOOLKIT_ALONE}, "amd": {NO_AMD}}[namespace]
    assert {absent_gpu(namespace, machine) for machine in found} == reasons
    provider = {"nvidia": nvidia, "amd": amd}[namespace]
    for machine in found:
        assert provider.supported(machine) == supported(machine)[namespace]
    assumptions = Assumptions(cuda=Assumed((12, 8), "a test"))
    assert supported(found[0], assumptions=assumptions)["nvidia"].features
    others = (
        Assumptions(cuda=Assumed((12, 8), ""))
        if namespace == "amd"
        else (Assumptions(gfx=Assumed(("gfx942",), ""), rocm=Assumed((6, 3), "")))
    )
    for machine in found:
        assert provider.supported(machine, others) == provider.supported(machine)
        assert supported(machine, assumptions=others)[namespace] == provider.supported(machine)


def test_order_follows_namespaces_then_values() -> None:
    labels = [
        item.label
        for item in _resolution(read_machine(FOLDER / "nvidia_h100")).candidates
        if item.accepted
    ]
    assert labels == ["cu13", "cu12", "x86_64_v3", "null"]


def test_a_machine_of_which_no_device_files_were_captured_is_unknown() -> None:
    support = supported(make_machine("sse2"))
    assert "not captured" in support["nvidia"].unknown
    assert "not captured" in support["amd"].unknown


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({"VARIANTWHEEL_ASSUME_CUDA": "13.0", "VARIANTWHEEL_ASSUME_SM": "9.0"}, "cu13"),
        ({"VARIANTWHEEL_ASSUME_CUDA": "12.8", "VARIANTWHEEL_ASSUME_SM": "9.0,7.0"}, "cu12"),
        ({"CONDA_OVERRIDE_CUDA": "12.8", "CONDA_OVERRIDE_CUDA_ARCH": "8.6"}, "cu12"),
        ({"UV_CUDA_DRIVER_VERSION": "580.65.06", "VARIANTWHEEL_ASSUME_SM": "12.0"}, "cu13"),
        ({"VARIANTWHEEL_ASSUME_GFX": "gfx942", "VARIANTWHEEL_ASSUME_ROCM": "6.3"}, "rocm"),
        ({"VARIANTWHEEL_ASSUME_CUDA": "13.0"}, "x86_64_v3"),  # of that fact only
        ({"VARIANTWHEEL_ASSUME_CPU": "x86-64-v2"}, "null"),
        ({"VARIANTWHEEL_ASSUME_CPU": ""}, "null"),
    ],
)
def test_assumptions_where_there_is_no_gpu(environment: dict[str, str], chosen: str) -> None:
    resolution = _resolution(read_machine(FOLDER / "nvidia_driver_on_host"), **environment)
    assert resolution.winner is not None
    assert resolution.winner.label == chosen


@pytest.mark.parametrize(
    ("environment", "chosen", "words"),
    [
        ({"VARIANTWHEEL_ASSUME_CUDA": ""}, "x86_64_v3", "assumed by VARIANTWHEEL_ASSUME_CUDA"),
        ({"VARIANTWHEEL_ASSUME_SM": ""}, "x86_64_v3", "assumed by VARIANTWHEEL_ASSUME_SM"),
        ({"VARIANTWHEEL_ASSUME_CUDA": "12.2"}, "cu12", "assumed by VARIANTWHEEL_ASSUME_CUDA"),
    ],
)
def test_assumptions_replace_what_was_found(
    environment: dict[str, str], chosen: str, words: str
) -> None:
    resolution = _resolution(read_machine(FOLDER / "nvidia_h100"), **environment)
    assert resolution.winner is not None
    assert resolution.winner.label == chosen
    rejected = next(item for item in resolution.candidates if item.label == "cu13")
    assert words in "\n".join(rejected.reasons)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="captures are not beside this checkout")
def test_real_kfd_captures() -> None:
    expected = json.loads((CAPTURES / "kfd/expected.json").read_text(encoding="utf-8"))
    for name, facts in expected.items():
        nodes = CAPTURES / "kfd" / name.removeprefix("testdata/") / "nodes"
        text = "".join(
            f"node {node.name}\n{(node / 'properties').read_text(encoding='latin-1')}\n"
            for node in sorted(nodes.iterdir())
        )
        parsed = parse_kfd_nodes(text)
        assert len(parsed) == facts["nodes"]
        gpus = [node for node in parsed if node.is_gpu]
        assert len(gpus) == facts["gpu_nodes"]
        assert sorted({node.gfx for node in gpus if node.gfx}) == facts["gfx"]
        minors = [node.properties.get("drm_render_minor", 0) for node in gpus]
        files = "/dev/kfd read-write\n" + "".join(
            f"/dev/dri/renderD{m} read-write\n" for m in minors
        )
        machine = make_machine(texts={"device_files.txt": files, "kfd_nodes.txt": text})
        support = supported(machine)["amd"]
        if facts["gfx"]:
            values = support.features[0].values
            assert [value for value in values if "_" not in value] == facts["gfx"]
            assert values[0] == "gfx90a_sramecc_on_xnack_off"
        else:
            assert "does not tell the target" in support.unknown


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="captures are not beside this checkout")
@pytest.mark.parametrize(
    ("profile", "chosen", "best"),
    [
        ("t4", "cu12", "75_real"),
        ("a100", "cu12", "80_real"),
        ("h100", "cu12", "90_real"),
        ("gb200", "cu13", "100_real"),
    ],
)
def test_real_profiles_of_nvml(profile: str, chosen: str, best: str) -> None:
    """What NVIDIA's own mock of NVML answers for a device, put as the query's answer."""
    text = (CAPTURES / f"nvml-profiles/{profile}.yaml").read_text(encoding="utf-8")

    def stated(name: str) -> str:
        found = re.search(rf'^\s+{name}: "?([0-9.]+)"?', text, re.MULTILINE)
        assert found is not None
        return found[1]

    major, minor = map(int, stated("cuda_version").split("."))
    device = {"compute_capability": [int(stated("major")), int(stated("minor"))], "error": 0}
    answers = [
        {"nvml": {"library": "libnvidia-ml.so.1", "init": 0, "devices": [device],
                  "driver_version": stated("driver_version"), "cuda_version_error": 0,
                  "cuda_version": 1000 * major + 10 * minor}},
        {"cuda": {"library": "libcuda.so.1", "error": 0, "version": 1000 * major + 10 * minor}},
        {"cuda_devices": {"init": 0, "devices": []}},
    ]  # fmt: skip
    files = "/dev/nvidiactl read-write\n/dev/nvidia0 read-write\n"
    driver = "".join(f"{json.dumps(answer)}\n" for answer in answers)
    machine = make_machine(texts={"device_files.txt": files, "nvidia_driver.txt": driver})
    features = {item.name: item for item in supported(machine)["nvidia"].features}
    assert features["cuda_version_lower_bound"].values[0] == f"{major}.{minor}"
    assert features["sm_arch"].values[0] == best
    assert f"driver {stated('driver_version')}" in features["sm_arch"].basis
    winner = _resolution(machine).winner
    assert winner is not None
    assert winner.label == chosen


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="captures are not beside this checkout")
def test_what_real_tools_print_for_people_is_no_compute_capability() -> None:
    """Whole sessions and XML, labels of old and new drivers: none of it is taken for an answer."""
    files = [*(CAPTURES / "nvidia-smi").glob("*.txt"), *(CAPTURES / "nvidia-smi").glob("*.xml")]
    assert len(files) >= 8
    for path in files:
        assert parse_compute_cap(path.read_text(encoding="utf-8", errors="replace")) == (), path


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="captures are not beside this checkout")
def test_real_driver_versions() -> None:
    text = (CAPTURES / "nvidia-smi/proc-driver-version-lines.txt").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines() if "\tNVRM" in line]
    assert len(lines) >= 8
    for version, line in lines:
        assert parse_driver_version(line) == (None if version == "-" else version)
