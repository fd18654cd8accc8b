"""The parsers of GPU texts: what is known comes back, and no text makes them fail."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel_selector.parse.compute_cap import compute_capability, parse_compute_cap
from variantwheel_selector.parse.device_files import (
    parse_device_files,
    parse_environment,
    parse_file_lines,
)
from variantwheel_selector.parse.kfd import decode_gfx, override_gfx, parse_kfd_nodes
from variantwheel_selector.parse.nvidia_driver import NvidiaDriver, parse_nvidia_driver
from variantwheel_selector.parse.nvidia_version import (
    cuda_of_driver,
    cuda_version,
    decode_cuda_version,
    parse_driver_version,
)
from variantwheel_selector.parse.rocm_version import rocm_version
from variantwheel_selector.providers.nvidia import architectures, lower_bounds, upper_bounds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
STEPS = st.sampled_from(["nvml", "cuda", "cuda_devices"])
KEYS = st.sampled_from(
    ["library", "init", "devices", "cuda_version", "cuda_version_error", "error", "version"]
)


@given(st.text() | st.text(alphabet="0123456789.\n gfxnode_{}[]\"':,"))
def test_no_text_is_too_odd(text: str) -> None:
    for parse in (
        parse_compute_cap, compute_capability, parse_device_files, parse_file_lines,
        parse_environment, parse_kfd_nodes, parse_nvidia_driver, parse_driver_version,
        cuda_version, rocm_version, override_gfx,
    ):  # fmt: skip
        parse(text)


@given(STEPS, st.dictionaries(KEYS, JSON))
def test_no_answer_of_a_library_is_too_odd(step: str, content: dict[str, object]) -> None:
    parse_nvidia_driver(json.dumps({step: content})).capabilities()


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"nvml": ' * 5_000, "9" * 100_000, "{" + "1" * 20_000, '{"nvml": 1e999}\n' * 9,
     '{"nvml": {"init": ' + "9" * 5_000 + "}}"],
)  # fmt: skip
def test_huge_and_hostile_answers(text: str) -> None:
    assert parse_nvidia_driver(text) == NvidiaDriver()
    assert parse_compute_cap(text) == ()
    assert parse_kfd_nodes(text) == ()
    assert parse_driver_version(text) is None


ANSWER = (
    '{"nvml": {"library": "a", "init": 0, "driver_version": "580.65.06", "cuda_version": 13010, '
    '"cuda_version_error": 0, "devices": [{"error": 0, "compute_capability": [9, 0], '
    '"mig": true}, {"error": 15}]}}\n'
    '{"cuda": {"library": "b", "error": 0, "version": 13010}}\n'
    '{"cuda_devices": {"init": 0, "devices": [{"error": 0, "compute_capability": [9, 0]}]}}\n'
)


def test_an_answer_comes_back() -> None:
    answer = parse_nvidia_driver(ANSWER)
    assert answer.nvml is not None
    assert (answer.nvml.driver, answer.nvml.cuda, answer.nvml.init) == ("580.65.06", (13, 1), 0)
    assert [device.capability for device in answer.nvml.devices] == [(9, 0), None]
    assert answer.nvml.devices[0].mig
    assert answer.cuda is not None
    assert answer.cuda.version == (13, 1)
    assert answer.capabilities() == ((9, 0),)
    older = ANSWER.replace('"compute_capability": [9, 0], "mig": true', '"mig": true')
    assert older != ANSWER
    assert parse_nvidia_driver(older).capabilities() == ((9, 0),), "what CUDA says of its devices"


@given(st.integers(0, len(ANSWER)))
def test_a_truncated_answer_keeps_its_whole_lines(length: int) -> None:
    whole = ANSWER[:length].count("}}\n") + (ANSWER[:length].endswith("}}") and length > 0)
    answer = parse_nvidia_driver(ANSWER[:length])
    found = sum(step is not None for step in (answer.nvml, answer.cuda, answer.cuda_devices))
    assert found == whole


@pytest.mark.parametrize("number", [0, 999, 99991, -13000, 2**40, True, 13000.0, "13000"])
def test_versions_out_of_range_do_not_count(number: object) -> None:
    text = json.dumps({"cuda": {"library": "b", "error": 0, "version": number}})
    answer = parse_nvidia_driver(text).cuda
    assert answer is not None
    assert answer.version is None


def test_not_more_than_64_devices() -> None:
    device = {"error": 0, "compute_capability": [8, 0]}
    text = json.dumps({"cuda_devices": {"init": 0, "devices": [device] * 65}})
    answer = parse_nvidia_driver(text).cuda_devices
    assert answer is not None
    assert len(answer.devices) == 64
    assert parse_compute_cap("8.0\n" * 64) == ((8, 0),) * 64
    assert parse_compute_cap("8.0\n" * 65) == ()


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Thu Apr  3", "535.216.03"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  550.120  Fri Sep 13", "550.120"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release", "580.142"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06", "580.65.06"),
        ("NVRM version: NVIDIA UNIX Kernel Module for aarch64  34.1.1  Release Build", "34.1.1"),
        ("580.65.06\n", "580.65.06"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 malformed", None),
        ("GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)", None),
        ("", None),
    ],
)
def test_driver_versions(line: str, version: str | None) -> None:
    assert parse_driver_version(line) == version


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("450.80.02", (11, 0)), ("525.60.13", (12, 0)), ("535.216.03", (12, 2)), ("580.65", (13, 0)),
     ("585.1", (13, 0)), ("900.1", (13, 1)), ("440.33", None), ("34.1.1", None)],
)  # fmt: skip
def test_cuda_of_a_driver(driver: str, cuda: tuple[int, int] | None) -> None:
    assert cuda_of_driver(driver) == cuda


@given(st.integers(1, 99), st.integers(0, 99))
def test_cuda_versions_come_back(major: int, minor: int) -> None:
    assert decode_cuda_version(1000 * major + 10 * minor) == (major, minor)
    assert cuda_version(f"{major}.{minor}") == (major, minor)


@pytest.mark.parametrize(
    ("number", "gfx"),
    [(90010, "gfx90a"), (90402, "gfx942"), (110501, "gfx1151"), (100302, "gfx1032"),
     (90012, "gfx90c"), (90006, "gfx906"), (120001, "gfx1201"), (0, None), (99, None),
     (92000, None), (90099, None), (10**19, None)],
)  # fmt: skip
def test_gfx_targets_are_hexadecimal(number: int, gfx: str | None) -> None:
    assert decode_gfx(number) == gfx


@pytest.mark.parametrize(
    ("text", "gfx"),
    [("10.3.0", "gfx1030"), ("9.0.10", "gfx90a"), ("11.0.1", "gfx1101"), ("10.3", None),
     ("", None), ("9.0.100", None), ("gfx1030", None)],
)  # fmt: skip
def test_overrides_of_the_target(text: str, gfx: str | None) -> None:
    assert override_gfx(text) == gfx


@pytest.mark.parametrize(
    "text",
    ["Failed to initialize NVML: Driver/library version mismatch\n", "[N/A]\n", "8.0\nERR!\n",
     'Field "compute_cap" is not a valid field to query.\n', "0.0\n", "8\n", "8.0 8.0\n", ""],
)  # fmt: skip
def test_what_is_no_compute_capability(text: str) -> None:
    assert parse_compute_cap(text) == ()


@pytest.mark.parametrize(
    ("text", "version"),
    [("6.3.0-39", (6, 3)), ("7.0.2", (7, 0)), ("6.4", (6, 4)), ("6", None), ("", None),
     ("unknown", None), ("6.3.0~rc1", (6, 3))],
)  # fmt: skip
def test_rocm_versions(text: str, version: tuple[int, int] | None) -> None:
    assert rocm_version(text) == version


def test_values_of_a_driver_and_a_device() -> None:
    lower = lower_bounds((12, 2))
    assert lower[:5] == ("12.2", "12.1", "12.0", "12", "11.20")
    assert lower[-2:] == ("11.0", "11")
    upper = upper_bounds((12, 18))
    assert upper[0] == "15.20"
    assert upper[-4:] == ("13.0", "13", "12.20", "12.19")
    assert not set(lower) & set(upper_bounds((12, 2)))
    assert architectures((8, 9))[:2] == ("89_real", "88_real")
    assert architectures((8, 9))[9:] == ("80_real", "80_virtual", "70_virtual", "60_virtual",
                                         "50_virtual")  # fmt: skip
