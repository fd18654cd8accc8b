"""Facts that the user states by environment variables."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.selector.tiny_release import make_machine
from variantwheel_selector.assumptions import Assumed, Assumptions
from variantwheel_selector.errors import SettingsError
from variantwheel_selector.providers import supported
from variantwheel_selector.providers.level_cap import NO_CAP, LevelCap
from variantwheel_selector.selection import described_for
from variantwheel_selector.settings import Settings
from variantwheel_selector.settings_file import ConfigFile
from variantwheel_selector.stated_settings import merge_settings

VARIABLES = [
    "VARIANTWHEEL_ASSUME_CUDA", "VARIANTWHEEL_ASSUME_SM", "VARIANTWHEEL_ASSUME_GFX",
    "VARIANTWHEEL_ASSUME_ROCM", "VARIANTWHEEL_ASSUME_CPU",
]  # fmt: skip
NV_CUDA = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"


def read(environment: dict[str, str]) -> Settings:
    return merge_settings(None, environment, [], [])


def test_nothing_is_assumed_by_itself() -> None:
    settings = read({"PATH": "/bin"})
    assert settings.assumptions == Assumptions()
    assert settings.described() == {}


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("VARIANTWHEEL_ASSUME_CUDA", "12.8", "cuda", (12, 8)),
        ("VARIANTWHEEL_ASSUME_CUDA", "13", "cuda", (13, 0)),
        ("VARIANTWHEEL_ASSUME_SM", "9.0, 8.0,9.0", "sm", ((8, 0), (9, 0))),
        ("VARIANTWHEEL_ASSUME_GFX", "gfx942,gfx90a", "gfx", ("gfx90a", "gfx942")),
        ("VARIANTWHEEL_ASSUME_GFX", "gfx90a:xnack+", "gfx", ("gfx90a:xnack+",)),
        ("VARIANTWHEEL_ASSUME_ROCM", "6.3.1", "rocm", (6, 3)),
        ("VARIANTWHEEL_ASSUME_CPU", "x86-64-v3", "cpu", "v3"),
        ("VARIANTWHEEL_ASSUME_CPU", "armv8.2-a", "cpu", "8.2a"),
        (NV_CUDA, "12.4", "cuda", (12, 4)),
        ("UV_CUDA_DRIVER_VERSION", "550.54.15", "cuda", (12, 4)),
        ("UV_CUDA_DRIVER_VERSION", "550", "cuda", (12, 4)),
        ("CONDA_OVERRIDE_CUDA", "11.8", "cuda", (11, 8)),
        ("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "8.9", "sm", ((8, 9),)),
        ("CONDA_OVERRIDE_CUDA_ARCH", "8.9", "sm", ((8, 9),)),
        ("AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "gfx1100", "gfx", ("gfx1100",)),
        ("UV_AMD_GPU_ARCHITECTURE", "gfx1100", "gfx", ("gfx1100",)),
        ("AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", "7.0", "rocm", (7, 0)),
        ("CONDA_OVERRIDE_ARCHSPEC", "x86_64_v3", "cpu", "v3"),
        ("CONDA_OVERRIDE_ARCHSPEC", "x86_64", "cpu", "v1"),
        ("CONDA_OVERRIDE_ARCHSPEC", "armv8.4a", "cpu", "8.4a"),
        ("CONDA_OVERRIDE_ARCHSPEC", "armv9.0a", "cpu", "9a"),
    ],
)
def test_accepted_values(variable: str, text: str, field: str, value: object) -> None:
    settings = read({variable: text})
    assert getattr(settings.assumptions, field) == Assumed(value, variable)
    (described,) = settings.described().values()
    assert text in described
    assert variable in described
    assert ("taken for VARIANTWHEEL_ASSUME_" in described) == (variable not in VARIABLES)


@pytest.mark.parametrize("variable", [*VARIABLES, "CONDA_OVERRIDE_CUDA"])
def test_an_empty_value_states_that_there_is_nothing(variable: str) -> None:
    described = read({variable: ""}).described()
    assert [text.split()[0] for text in described.values()] == ["none"]


@pytest.mark.parametrize("variable", [NV_CUDA, "UV_AMD_GPU_ARCHITECTURE"])
def test_an_empty_value_elsewhere_states_nothing(variable: str) -> None:
    assert read({variable: ""}).described() == {}


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("VARIANTWHEEL_ASSUME_CUDA", "cu128"),
        ("VARIANTWHEEL_ASSUME_CUDA", "12.x"),
        ("VARIANTWHEEL_ASSUME_SM", "90"),
        ("VARIANTWHEEL_ASSUME_SM", "9.0,"),
        ("VARIANTWHEEL_ASSUME_SM", "9.0a"),
        ("VARIANTWHEEL_ASSUME_GFX", "gfx90a:xnack"),
        ("VARIANTWHEEL_ASSUME_GFX", "gfx90a:xnack+:sramecc+"),
        ("VARIANTWHEEL_ASSUME_GFX", "mi300"),
        ("VARIANTWHEEL_ASSUME_ROCM", "six"),
        ("VARIANTWHEEL_ASSUME_CPU", "zen4"),
        ("VARIANTWHEEL_ASSUME_CPU", "v5"),
        ("UV_CUDA_DRIVER_VERSION", "12.8"),
        ("UV_CUDA_DRIVER_VERSION", "12"),
        (NV_CUDA, "abc"),
    ],
)
def test_invalid_values_name_the_accepted_form(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} is '.*'; accepted is .*'"):
        read({variable: text})


def test_the_own_variable_comes_before_those_of_others() -> None:
    environment = {
        "CONDA_OVERRIDE_CUDA": "11.8", NV_CUDA: "12.4", "VARIANTWHEEL_ASSUME_CUDA": "13.0"
    }  # fmt: skip
    for expected in ((13, 0), (12, 4), (11, 8)):
        found = read(environment).assumptions.cuda
        assert found is not None
        assert found.value == expected
        del environment[found.origin]


@pytest.mark.parametrize("name", ["UV_CUDA_DRIVER_VERSION", NV_CUDA, "CONDA_OVERRIDE_CUDA"])
def test_what_does_not_count_need_not_be_understood(name: str) -> None:
    settings = read({"VARIANTWHEEL_ASSUME_CUDA": "12.4", name: "1!2\n"})
    assert settings.described()[name] == "'1!2' (passed over: assume-cuda is stated)"
    file = ConfigFile("site.toml", {}, ("assume-cuda",))
    settings = merge_settings(None, {name: "x\x1bx"}, [], [file])
    locked = r"'x\x1bx' (passed over: assume-cuda is locked by site.toml)"
    assert settings.described() == {name: locked}
    settings = read({"VARIANTWHEEL_PROFILE": "/node.json", name: "?"})
    assert settings.described()[name] == "'?' (passed over: the profile has this fact)"


def test_a_name_of_a_cpu_is_noted_and_not_used() -> None:
    settings = read({"CONDA_OVERRIDE_ARCHSPEC": "haswell"})
    assert settings.assumptions.cpu is None
    noted = "not a CPU level such as 'x86_64_v3'; names of single CPUs are not used"
    assert settings.described() == {"CONDA_OVERRIDE_ARCHSPEC": f"haswell (passed over: {noted})"}


def test_settings_carry_them_for_the_record() -> None:
    settings = read({"VARIANTWHEEL_ASSUME_CUDA": "12.8"})
    assert settings.assumptions.cuda == Assumed((12, 8), "VARIANTWHEEL_ASSUME_CUDA")
    assert settings.described() == {
        "assume-cuda": "12.8 (environment variable VARIANTWHEEL_ASSUME_CUDA)"
    }


def test_a_misspelt_variable_is_an_error() -> None:
    with pytest.raises(SettingsError, match="did you mean 'VARIANTWHEEL_ASSUME_CUDA'"):
        read({"VARIANTWHEEL_ASUME_CUDA": "12.8"})


@given(st.sampled_from(VARIABLES), st.text(max_size=40))
def test_any_other_text_is_an_error_and_nothing_else(variable: str, text: str) -> None:
    with contextlib.suppress(SettingsError):
        described = read({variable: text}).described()
        assert all(variable in words for words in described.values())
        assert described


def test_an_arm_version_that_is_assumed() -> None:
    machine = make_machine(machine="aarch64", texts={"device_files.txt": ""})
    assumptions = read({"VARIANTWHEEL_ASSUME_CPU": "armv8.1-a"}).assumptions
    feature, *_ = supported(machine, assumptions=assumptions)["aarch64"].features
    assert feature.values == ("8.1a", "8a")
    assert "VARIANTWHEEL_ASSUME_CPU" in feature.basis


def test_an_assumed_level_is_capped_like_any_other() -> None:
    assumptions = read({"VARIANTWHEEL_ASSUME_CPU": "v4"}).assumptions
    machine = make_machine("sse2")
    for cap, best in ((LevelCap(), "v3"), (NO_CAP, "v4")):
        answer = supported(machine, cap=cap, assumptions=assumptions)["x86_64"]
        assert answer.features[0].values[0] == best


@pytest.mark.parametrize(
    ("variable", "text", "machine", "words"),
    [
        ("ASSUME_CPU", "armv8.2-a", "x86_64", ": no effect, this machine is x86_64"),
        ("ASSUME_CPU", "x86-64-v2", "aarch64", ": no effect, this machine is aarch64"),
        ("MAX_CPU_LEVEL", "armv8-a", "x86_64", ": no effect, this machine is x86_64"),
        ("ASSUME_CPU", "x86-64-v2", "x86_64", ""),
        ("ASSUME_CPU", "x86-64-v2", "AMD64", ""),
        ("ASSUME_CPU", "", "aarch64", ""),
        ("MAX_CPU_LEVEL", "armv8-a,x86-64-v2", "x86_64", ""),
        ("MAX_CPU_LEVEL", "armv8-a", "aarch64", ""),
    ],
)
def test_what_is_stated_about_other_cpus_is_noted(
    variable: str, text: str, machine: str, words: str
) -> None:
    settings = read({f"VARIANTWHEEL_{variable}": text})
    (described,) = described_for(settings, make_machine(machine=machine)).values()
    origin = f"(environment variable VARIANTWHEEL_{variable})"
    assert described == f"{text or 'none'} {origin}{words}"
