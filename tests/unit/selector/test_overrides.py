"""Assume, freeze, narrow, force and be strict: what each setting does to a choice."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from unit.selector.gpu_release import GPU_RELEASE
from unit.selector.tiny_release import NO_FILES, NULL, V3, V4, release_info
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.errors import SettingsError, StrictnessError, VariantMisfitError
from variantwheel_selector.machine import Machine
from variantwheel_selector.machine_folder import read_machine, write_machine, write_profile
from variantwheel_selector.model import Variant
from variantwheel_selector.profile import Profile, intersect
from variantwheel_selector.providers import supported
from variantwheel_selector.record import replace
from variantwheel_selector.selection import Release, Selection, select
from variantwheel_selector.settings import Settings, read_settings
from variantwheel_selector.variants_json import VariantsInfo

TESTS = Path(__file__).parents[2]
MACHINES = {
    path.name: path
    for folder in ("machines", "gpu_machines")
    for path in sorted((TESTS / folder).iterdir())
    if path.is_dir()
}


def machine(name: str) -> Machine:
    return read_machine(MACHINES[name])


def judged(name: str, **stated: str) -> Selection:
    """The release with GPU variants on a machine, under config settings (`max_cpu_level`)."""
    config = {key.replace("_", "-"): value for key, value in stated.items()}
    return select(GPU_RELEASE, read_settings(config, NO_FILES), machine(name))


def chosen(name: str, **stated: str) -> str | None:
    winner = judged(name, **stated).resolution.winner
    return winner.label if winner else None


def accepted(name: str, **stated: str) -> list[str | None]:
    return [item.label for item in judged(name, **stated).resolution.candidates if item.accepted]


def reasons(selection: Selection, label: str) -> str:
    found = next(item for item in selection.resolution.candidates if item.label == label)
    assert not found.accepted
    return "\n".join(found.reasons)


@pytest.mark.parametrize(
    ("stated", "labels"),
    [
        ({}, ["cu13", "cu12", "x86_64_v3", "null"]),
        ({"forbid": "cu13"}, ["cu12", "x86_64_v3", "null"]),
        ({"forbid": "nvidia"}, ["x86_64_v3", "null"]),
        ({"forbid": "gpu"}, ["x86_64_v3", "null"]),
        ({"forbid": "gpu,cpu::v3"}, ["null"]),
        ({"forbid": "nvidia::cuda_version_lower_bound::13.*"}, ["cu12", "x86_64_v3", "null"]),
        ({"forbid": "nvidia::sm_arch::120_virtual"}, ["cu12", "x86_64_v3", "null"]),
        ({"only": "cpu"}, ["x86_64_v3", "null"]),
        ({"only": "cu12,null"}, ["cu12", "null"]),
        ({"only": "gpu"}, ["cu13", "cu12"]),
        ({"only": "amd"}, []),
        ({"prefer": "cpu"}, ["x86_64_v3", "null", "cu13", "cu12"]),
        ({"prefer": "null,cu12"}, ["null", "cu12", "cu13", "x86_64_v3"]),
        ({"prefer": "amd"}, ["cu13", "cu12", "x86_64_v3", "null"]),
        ({"prefer": "cu12", "forbid": "cpu"}, ["cu12", "cu13"]),
        ({"require": "gpu"}, ["cu13", "cu12", "x86_64_v3", "null"]),
    ],
)
def test_narrowing_and_reordering(stated: dict[str, str], labels: list[str]) -> None:
    assert accepted("nvidia_h100", **stated) == labels


def test_what_is_ruled_out_says_by_which_setting() -> None:
    selection = judged("nvidia_h100", forbid="amd,nvidia", only="cpu")
    assert reasons(selection, "cu13").startswith("forbidden by nvidia: config setting 'forbid'")
    assert "needs nvidia :: cuda_version" in reasons(selection, "cu13")
    selection = judged("nvidia_h100", only="cpu")
    assert reasons(selection, "cu13").startswith("not among cpu: config setting 'only'")


def test_require_is_an_error_rather_than_another_choice() -> None:
    assert chosen("nvidia_h100", require="gpu") == "cu13"
    with pytest.raises(StrictnessError, match="'x86_64_v3' would be chosen, which is not 'gpu'"):
        judged("haswell", require="gpu")
    with pytest.raises(StrictnessError, match=r"cu12: needs nvidia.*no NVIDIA device file"):
        judged("haswell", require="cu12")
    with pytest.raises(StrictnessError, match="not 'cu12'"):
        judged("nvidia_h100", require="gpu,cu12")
    settings = read_settings({"require": "gpu"}, NO_FILES)
    found = select(GPU_RELEASE, settings, machine("haswell"), strict=False)
    assert found.resolution.winner is None
    assert "which is not 'gpu'" in found.refusal


def test_unknown_facts_can_be_an_error() -> None:
    assert chosen("nvidia_hangs") == "x86_64_v3"
    with pytest.raises(StrictnessError, match=r"on-unknown is 'error'(.|\n)*did not end in time"):
        judged("nvidia_hangs", on_unknown="error")
    assert chosen("nvidia_hangs", on_unknown="error", forbid="gpu") == "x86_64_v3"
    assert chosen("nvidia_h100", on_unknown="error") == "cu13"


def test_the_last_resort_can_be_an_error() -> None:
    assert chosen("nehalem") == "null"
    with pytest.raises(StrictnessError, match=r"only 'null' fits(.|\n)*x86_64_v3: .*lacks"):
        judged("nehalem", on_fallback="error")
    assert chosen("haswell", on_fallback="error") == "x86_64_v3"
    assert chosen("nehalem", on_fallback="error", only="null") == "null"


RELEASE = Release(
    "tiny-native",
    "1.0",
    release_info(
        [NULL, V3, V4]
        + [Variant.from_strings(f"arm{v}", [f"aarch64 :: version :: {v}a"]) for v in ("8.2", "9")]
    ),
    {
        f"tiny_native-1.0-py3-none-any-{label}.whl": None
        for label in ("null", "x86_64_v3", "x86_64_v4", "arm8.2", "arm9")
    },
)


def level(name: str, **stated: str) -> str | None:
    config = {key.replace("_", "-"): value for key, value in stated.items()}
    found = select(RELEASE, read_settings(config, NO_FILES), machine(name)).resolution.winner
    return found.label if found else None


def test_cpu_levels_are_capped_unless_asked_for() -> None:
    assert level("zen4") == "x86_64_v3"
    assert level("zen4", variant="x86_64_v4") == "x86_64_v4"
    assert level("zen4", max_cpu_level="x86-64-v4") == "x86_64_v4"
    assert level("zen4", prefer="cpu::v4") == "x86_64_v4"
    assert level("zen4", prefer="x86_64::level::v4") == "x86_64_v4"
    assert level("zen4", prefer="x86_64_v4") == "x86_64_v4"
    assert level("zen4", prefer="cpu") == "x86_64_v3"
    assert level("zen4", max_cpu_level="v2,armv9-a") == "null"
    assert level("haswell", prefer="cpu::v4") == "x86_64_v3"
    with pytest.raises(VariantMisfitError, match="capped at v2 by max-cpu-level"):
        level("zen4", max_cpu_level="v2", variant="x86_64_v3")


def test_a_cap_for_one_architecture_leaves_the_others_as_they_are() -> None:
    assert level("zen4", max_cpu_level="armv8.2-a") == "x86_64_v3"
    assert level("zen4", max_cpu_level="armv8.2-a", variant="x86_64_v4") == "x86_64_v4"
    assert level("zen4", max_cpu_level="armv8.2-a", prefer="cpu::v4") == "x86_64_v4"
    settings = read_settings({"max-cpu-level": "armv8.2-a"}, NO_FILES)
    selection = select(RELEASE, settings, machine("zen4"))
    why = "levels are capped at v3 unless the variant is asked for by name"
    assert why in reasons(selection, "x86_64_v4")
    settings = read_settings({"max-cpu-level": "armv8.2-a,v3"}, NO_FILES)
    selection = select(RELEASE, settings, machine("zen4"))
    assert "levels are capped at v3 by max-cpu-level" in reasons(selection, "x86_64_v4")
    assert level("neoverse_v2", max_cpu_level="v2") == "arm9"


@pytest.mark.parametrize(
    ("stated", "variables", "label"),
    [
        ({}, {"UV_TORCH_BACKEND": "cu128"}, "x86_64_v3"),
        ({"prefer": "nvidia::cuda_version_lower_bound::12.0"}, {}, "x86_64_v3"),
        ({"prefer": "nvidia"}, {}, "x86_64_v3"),
        ({"prefer": "cu12_v4"}, {}, "x86_64_v4"),
        ({"prefer": "nvidia::cuda_version_lower_bound::12.0,cpu::v4"}, {}, "x86_64_v4"),
    ],
)
def test_what_is_said_about_gpus_does_not_ask_for_a_cpu_level(
    stated: dict[str, str], variables: dict[str, str], label: str
) -> None:
    cuda = "nvidia :: cuda_version_lower_bound :: 12.0"
    both = Variant.from_strings("cu12_v4", [cuda, "x86_64 :: level :: v4"])
    info = VariantsInfo(("nvidia", "x86_64"), {item.label: item for item in (NULL, V3, V4, both)})
    files = {f"tiny_native-1.0-py3-none-any-{item}.whl": None for item in info.variants}
    release = Release("tiny-native", "1.0", info, files)
    settings = read_settings(stated, {**NO_FILES, **variables})
    winner = select(release, settings, machine("zen4")).resolution.winner
    assert winner is not None
    assert winner.label == label


def test_arm_versions_are_capped_when_asked_for() -> None:
    assert level("neoverse_v2") == "arm9"
    assert level("neoverse_v2", max_cpu_level="armv8.4-a") == "arm8.2"
    assert level("neoverse_v2", max_cpu_level="armv8-a") == "null"


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"only": "gppu"}, "known are .*did you mean 'gpu'"),
        ({"forbid": "cu_13"}, "did you mean 'cu13'"),
        ({"prefer": "nvidai::sm_arch"}, "did you mean 'nvidia'"),
        ({"prefer": "nvidia::sm_arhc"}, "did you mean 'sm_arch'"),
        ({"prefer": "nvidia::sm_arch::90real"}, "did you mean '90_real'"),
        ({"require": "cpu::v33"}, "did you mean 'v3'"),
        ({"forbid": "x86_64::level::v5"}, "looks like v1, v2, v3, v4"),
        ({"forbid": "GPU"}, "accepted is a list of"),
        ({"forbid": "gpu::x"}, "accepted is a list of"),
        ({"forbid": "nvidia::sm_arch::9*"}, "accepted is a list of"),
        ({"forbid": ""}, "accepted is a list of"),
        ({"max-cpu-level": "v5"}, "accepted is 'x86-64-v1'"),
        ({"max-cpu-level": "v2,v3"}, "or one of each"),
        ({"on-unknown": "fail"}, "accepted is fallback, error"),
        ({"on-fallback": "acept"}, "did you mean 'accept'"),
        ({"assume-libc": "2.28"}, "accepted is 'glibc 2.28'"),
        ({"log": "ful"}, "did you mean 'full'"),
    ],
)
def test_misspelt_values_are_errors_with_a_suggestion(stated: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        select(GPU_RELEASE, read_settings(stated, NO_FILES), machine("haswell"))


def test_an_assumed_c_library_replaces_the_real_one() -> None:
    assert chosen("musl") is None
    assert chosen("musl", assume_libc="glibc 2.28") == "x86_64_v3"
    assert chosen("haswell", assume_libc="glibc 2.12") is None
    assert judged("musl", assume_libc="glibc 2.28").decision("").machine["libc"] == "glibc 2.28"


def write(tmp_path: Path, *names: str) -> str:
    for name in names:
        write_profile(machine(name), tmp_path / f"{name}.json")
    return ":".join(str(tmp_path / f"{name}.json") for name in names)


def test_a_profile_stands_for_this_machine(tmp_path: Path) -> None:
    assert chosen("haswell", profile=write(tmp_path, "nvidia_h100")) == "cu13"
    assert chosen("nvidia_h100", profile=write(tmp_path, "nehalem")) == "null"
    folder = tmp_path / "folder"
    write_machine(machine("nvidia_h100"), folder)
    assert chosen("haswell", profile=str(folder)) == "cu13"


def test_several_profiles_intersect(tmp_path: Path) -> None:
    profile = write(tmp_path, "nvidia_h100", "nvidia_volta", "haswell", "nehalem")
    first, volta, haswell, nehalem = profile.split(":")
    assert chosen("haswell", profile=first) == "cu13"
    selection = judged("haswell", profile=f"{first}:{volta}")
    assert selection.resolution.winner is not None
    assert selection.resolution.winner.label == "cu12"
    assert "no code for nvidia_volta" in reasons(selection, "cu13")
    selection = judged("nvidia_h100", profile=f"{first}:{haswell}")
    assert "haswell: no NVIDIA device file" in reasons(selection, "cu13")
    assert selection.resolution.winner is not None
    assert selection.resolution.winner.label == "x86_64_v3"
    assert chosen("haswell", profile=f"{haswell}:{nehalem}") == "null"


def test_profiles_with_the_same_file_name_count_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for folder, name in (("old", "nehalem"), ("new", "haswell"), ("x/new", "nvidia_h100")):
        (tmp_path / folder).mkdir(parents=True)
        paths.append(str(tmp_path / folder / "node.json"))
        write_profile(machine(name), Path(paths[-1]))
    old, new, other = paths
    assert chosen("nvidia_h100", profile=f"{old}:{new}") == "null"
    selection = judged("nvidia_h100", profile=f"{new}:{old}:{old}")
    assert selection.resolution.winner is not None
    assert selection.resolution.winner.label == "null"
    assert [profile.name for profile in selection.settings.profiles] == ["new/node", "old/node"]
    selection = judged("nvidia_h100", profile=f"{old}:{new}:{other}")
    names = [profile.name for profile in selection.settings.profiles]
    assert names == ["old/node", new, other]
    monkeypatch.setenv("VARIANTWHEEL_PROFILE", f"{old}:{new}")
    assert run_commandline(["detect", "--json"]) == 0
    assert "x86_64 :: level :: v3" not in json.loads(capsys.readouterr().out)["properties"]


def test_a_profile_of_another_architecture_leaves_nothing(tmp_path: Path) -> None:
    assert chosen("haswell", profile=write(tmp_path, "neoverse_n1")) is None


@hypothesis_settings(max_examples=60)
@given(st.lists(st.sampled_from(sorted(MACHINES)), min_size=1, max_size=3, unique=True))
def test_the_intersection_accepts_what_every_machine_accepts(names: list[str]) -> None:
    profiles = tuple(Profile(name, machine(name)) for name in names)
    assume(len({profile.machine.machine for profile in profiles}) == 1)
    together = select(GPU_RELEASE, Settings(profiles=profiles), profiles[0].machine).resolution
    alone = [
        {
            item.label
            for item in select(
                GPU_RELEASE, Settings(), replace(one.machine, python=profiles[0].machine.python)
            ).resolution.candidates
            if item.accepted
        }
        for one in profiles
    ]
    found = {item.label for item in together.candidates if item.accepted}
    assert found == set.intersection(*alone)


def test_intersecting_says_who_knows_nothing() -> None:
    answers = {
        name: supported(machine(name))["nvidia"]
        for name in ("nvidia_h100", "nvidia_hangs", "nvidia_volta")
    }
    assert "nvidia_hangs: the process" in intersect(answers).unknown
    assert not intersect({"a": answers["nvidia_h100"]}).unknown


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        ("{}", "key 'schema' is missing"),
        ('{"schema": 1}', "it has no 'texts'"),
        ('{"schema": 1, "texts": {"secret": ""}}', "unknown key 'secret'"),
    ],
)
def test_damaged_profiles_are_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "node.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=f"config setting 'profile': .*{words}"):
        read_settings({"profile": str(path)}, NO_FILES)
    with pytest.raises(SettingsError, match="absolute path"):
        read_settings({"profile": "node.json"}, NO_FILES)


def test_a_profile_comes_before_facts_of_files(tmp_path: Path) -> None:
    profile = write(tmp_path, "nvidia_h100")
    config = tmp_path / "config.toml"
    config.write_text(f'profile = "{profile}"\n[assume]\ncuda = ""\ncpu = "x86-64-v2"\n')
    environment = {"VARIANTWHEEL_CONFIG": str(config), "CONDA_OVERRIDE_CUDA": "11.8"}
    stated = read_settings({"assume-cpu": "v1"}, environment)
    found = select(GPU_RELEASE, stated, machine("haswell"))
    assert found.resolution.winner is not None
    assert found.resolution.winner.label == "cu13"
    assert stated.assumptions.cuda is None
    assert stated.assumptions.cpu is not None
    described = stated.described()
    assert "passed over: the profile has this fact" in described["assume-cuda"]
    assert "passed over: assume-cuda is stated" in described["CONDA_OVERRIDE_CUDA"]
    assert described["assume-cpu"] == "v1 (config setting 'assume-cpu')"


def test_facts_that_a_site_locks_hold_beside_a_profile(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('locked = ["assume-cuda"]\n[assume]\ncuda = ""\ncpu = "x86-64-v2"\n')
    environment = {"VARIANTWHEEL_CONFIG": str(config)}
    stated = read_settings({"profile": write(tmp_path, "nvidia_h100")}, environment)
    selection = select(GPU_RELEASE, stated, machine("haswell"))
    assert selection.resolution.winner is not None
    assert selection.resolution.winner.label == "x86_64_v3", "the profile's own CPU"
    assert "none, assumed by" in reasons(selection, "cu13")
    assert stated.described()["assume-cuda"].startswith("none (")


def test_the_decision_records_settings_and_origins(tmp_path: Path) -> None:
    profile = write(tmp_path, "nvidia_h100")
    decision = judged("haswell", profile=profile, forbid="cu13").decision("1.0")
    assert json.loads(json.dumps(decision.to_json()))["settings"] == {
        "forbid": "cu13 (config setting 'forbid')",
        "profile": f"{profile} (config setting 'profile')",
    }
    assert any("nvidia_h100" in text or "CUDA" in text for text in decision.machine.values())


@given(st.data())
def test_no_setting_but_force_makes_a_misfit_win(data: st.DataObject) -> None:
    """Whatever is narrowed or preferred, what is accepted is a part of what fits."""
    name = data.draw(st.sampled_from(sorted(MACHINES)))
    patterns = st.lists(
        st.sampled_from(["gpu", "cpu", "nvidia", "amd", "cu12", "cu13", "rocm", "null", "cpu::v4",
                         "nvidia::sm_arch::90_real", "amd::gfx_arch"]),
        min_size=1, max_size=3,
    ).map(",".join)  # fmt: skip
    keys = st.sampled_from(["forbid", "only", "prefer"])
    stated = data.draw(st.dictionaries(keys, patterns))
    fitting = accepted(name)
    narrowed = accepted(name, **stated)
    assert set(narrowed) <= set(fitting)
    if set(stated) <= {"prefer"}:
        assert set(narrowed) == set(fitting)
    if "prefer" not in stated:
        assert narrowed == [label for label in fitting if label in narrowed]
