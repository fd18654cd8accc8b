"""Prepared answers: whatever machine they hold for, judging it comes to the same decision."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.selector.tiny_release import NULL, V3, V4, TinyRelease, release_info
from variantwheel.prepared_answers import GLIBCS, PYTHONS, prepared_answers, render_prepared
from variantwheel_selector import backend
from variantwheel_selector.checked_wheel import PREPARED_PATH
from variantwheel_selector.config_paths import OTHER_TOOLS
from variantwheel_selector.errors import PayloadError
from variantwheel_selector.machine import AUXV, CPUINFO, DEVICE_FILES, Machine, PythonFacts
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.model import Variant
from variantwheel_selector.parse.auxv import X86_HWCAP_BITS
from variantwheel_selector.prepared import completed, hand_over_prepared, holds
from variantwheel_selector.probe import probe
from variantwheel_selector.providers.x86_64 import LEVEL_FLAGS
from variantwheel_selector.record import replace
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import Settings
from variantwheel_selector.variants_json import ProviderInfo

TESTS = Path(__file__).parents[2]
MACHINES = sorted(
    path
    for folder in ("machines", "gpu_machines")
    for path in (TESTS / folder).iterdir()
    if (path / "machine.json").is_file()
)
CUDA = Variant.from_strings("cu12", ["nvidia :: cuda_version_lower_bound :: 12.0"])
NVIDIA = ProviderInfo(requires=("nvidia-variant-provider>=0.0.1",))
ARM = Variant.from_strings("neoverse", ["aarch64 :: version :: 8.4a"])
FLAGS = sorted({flag for flags in LEVEL_FLAGS.values() for flag in flags} | {"acpi", "ht", "sha"})


def _release(folder: Path, *variants: Variant, tag: str = "py3-none-any") -> TinyRelease:
    info = release_info(variant for variant in variants if variant != CUDA)
    if CUDA in variants:
        info = replace(
            info,
            namespaces=(*info.namespaces, "nvidia"),
            variants={**info.variants, CUDA.label: CUDA},
            providers={**(info.providers or {}), "nvidia": NVIDIA},
        )
    tiny = TinyRelease(folder, info, tag)
    for label in tiny.info.variants:
        tiny.add(label)
    return tiny


@pytest.fixture(scope="module")
def releases(
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[Release, list[dict[str, Any]]]]:
    """Releases with answers; some have variants for v4, one Python alone, or NVIDIA's GPUs."""
    found = []
    for number, (variants, tag) in enumerate(
        [
            ((NULL, V3, ARM), "py3-none-manylinux_2_28_x86_64"),
            ((NULL, V3, V4), "py3-none-any"),
            ((NULL, V3), "cp311-cp311-manylinux_2_17_x86_64"),
            ((NULL, V3, CUDA), "py3-none-any"),
        ]
    ):
        tiny = _release(tmp_path_factory.mktemp(str(number)), *variants, tag=tag)
        answers = prepared_answers(tiny.manifest)
        found.append((Release.from_manifest(tiny.manifest), json.loads(json.dumps(answers))))
    return found


def _applies(answer: dict[str, Any], machine: Machine) -> bool:
    """What `hand_over_prepared` asks of the machine that it runs on."""
    python = machine.python
    return (
        machine.system == "linux"
        and machine.pointer_bits == 64
        and python.abis == (python.interpreter,)
        and not any("gpu" in name or "pci" in name for name in machine.texts)
        and holds(
            answer,
            machine.machine,
            python.interpreter,
            machine.libc or "",
            machine.texts.get(CPUINFO, ""),
            machine.texts.get(AUXV, ""),
            machine.texts.get(DEVICE_FILES, "missing"),
        )
    )


def _agreeing(release: Release, answers: list[dict[str, Any]], machine: Machine) -> int:
    """Return how many answers hold, all of which have to be what judging comes to."""
    judged = select(release, Settings(), machine).decision("0.1.0", ["--no-index"]).to_json()
    matching = [answer for answer in answers if _applies(answer, machine)]
    for answer in matching:
        words = machine.facts()["python"]
        found = completed(answer, machine.libc or "", words, ("--no-index",))
        assert found == judged
        assert list(found) == list(judged)
        assert list(found["machine"]) == list(judged["machine"])  # type: ignore[call-overload]
    return len(matching)


def test_captured_machines_are_judged_alike(
    releases: list[tuple[Release, list[dict[str, Any]]]],
) -> None:
    held = 0
    for folder in MACHINES:
        machine = read_machine(folder)
        without = replace(machine, texts={**machine.texts, DEVICE_FILES: ""})
        for release, answers in releases:
            for variation in (machine, without):
                found = _agreeing(release, answers, variation)
                assert found <= 1
                held += found
    assert held > 10


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Machines that are nearly ordinary."""
    flags = set(FLAGS) - set(
        draw(st.lists(st.sampled_from(FLAGS), max_size=draw(st.sampled_from([0, 1, 6]))))
    )
    named = {name: bit for bit, name in X86_HWCAP_BITS.items()}
    hwcap = sum(1 << named[flag] for flag in flags if flag in named)
    hwcap ^= draw(st.sampled_from([0, 0, 0, 0, 1 << 28, 1 << 26, 1 << 10]))
    minor = draw(st.sampled_from([7, *PYTHONS, 21]))
    libc = draw(st.sampled_from([16, *GLIBCS, 61]))
    name = f"cp3{minor}"
    return Machine(
        "linux",
        draw(st.sampled_from(["x86_64", "x86_64", "x86_64", "aarch64"])),
        64,
        f"glibc 2.{libc}",
        PythonFacts(name, f"3.{minor}.4", (name,)),
        {
            CPUINFO: f"processor : 0\nflags : {' '.join(sorted(flags))}\n\nprocessor : 1\n",
            AUXV: f"AT_HWCAP {hwcap:#x}\n",
            DEVICE_FILES: draw(st.sampled_from(["", "/usr/local/cuda present\n"])),
        },
    )


@settings(max_examples=150, deadline=None)
@given(machines())
def test_whatever_holds_is_right(
    releases: list[tuple[Release, list[dict[str, Any]]]], machine: Machine
) -> None:
    for release, answers in releases:
        _agreeing(release, answers, machine)


def test_a_variant_for_a_higher_level_makes_two_kinds_of_machines(
    releases: list[tuple[Release, list[dict[str, Any]]]],
) -> None:
    needed = {flag for level in ("v1", "v2", "v3") for flag in LEVEL_FLAGS[level]}
    (_, ordinary), (_, capped), (_, own_python), _ = releases
    assert [set(answer["flags"]) for answer in ordinary] == [needed]
    assert [answer["without_flags"] for answer in ordinary] == [[]]
    assert [answer["glibc"] for answer in ordinary] == [[28, GLIBCS[-1]]]
    assert [len(answer["without_flags"]) for answer in capped] == [len(LEVEL_FLAGS["v4"]), 0]
    assert [answer["pythons"] for answer in own_python] == [["cp311"]]
    assert {answer["decision"]["label"] for answer in (*ordinary, *capped, *own_python)} == {
        "x86_64_v3"
    }


def test_a_wheel_that_is_not_sound_is_not_promised(tmp_path: Path) -> None:
    tiny = _release(tmp_path, NULL, V3)
    files = tiny.wheel_files("x86_64_v3")
    tiny.wheels = [wheel for wheel in tiny.wheels if wheel.label == "null"]
    tiny.add("x86_64_v3", {**files, f"{tiny.dist_info}/METADATA": b"Name: other\nVersion: 1\n\n"})
    with pytest.raises(PayloadError, match="is a wheel of other 1"):
        render_prepared(tiny.manifest, tiny.root)


def test_nothing_is_prepared_for_other_machines(tmp_path: Path) -> None:
    tiny = _release(tmp_path, NULL, ARM, tag="py3-none-manylinux_2_17_aarch64")
    assert prepared_answers(tiny.manifest) == []


PLAIN = "tiny_native-1.0-py3-none-any.whl"


@pytest.fixture
def sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyRelease:
    """An unpacked sdist with answers, in the current folder; nothing is stated."""
    tiny = _release(tmp_path / "sdist", NULL, V3)
    tiny.share()
    answers = prepared_answers(tiny.manifest)
    tiny.finish()
    (tiny.root / PREPARED_PATH).write_text(render_prepared(tiny.manifest, tiny.root))
    for name in os.environ:
        if name.startswith(("PIP_", "UV_", "VARIANTWHEEL_")) or name in OTHER_TOOLS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path))
    monkeypatch.chdir(tiny.root)
    if not any(_applies(answer, probe()) for answer in json.loads(json.dumps(answers))):
        pytest.skip("this machine is not one of those that answers are prepared for")
    return tiny


def _refuse(*_: object) -> None:
    pytest.fail("the machine was judged")


@pytest.mark.parametrize("stated", ["", "PIP_INDEX_URL", "PIP_NO_INDEX"])
def test_the_wheel_is_the_one_of_judging(
    sdist: TinyRelease,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stated: str,
) -> None:
    if stated:
        monkeypatch.setenv(stated, "1")
    with monkeypatch.context() as patched:
        patched.setattr("variantwheel_selector.wheel_hook.make_wheel", _refuse)
        assert backend.build_wheel(str(tmp_path / "prepared")) == PLAIN
    log = capsys.readouterr().out
    (sdist.root / PREPARED_PATH).unlink()
    assert backend.build_wheel(str(tmp_path / "judged")) == PLAIN
    assert capsys.readouterr().out == log == f"tiny-native: variant x86_64_v3 -> {PLAIN}\n"
    judged = (tmp_path / "judged" / PLAIN).read_bytes()
    assert (tmp_path / "prepared" / PLAIN).read_bytes() == judged
    assert [path.name for path in (tmp_path / "prepared").iterdir()] == [PLAIN]


@pytest.mark.parametrize(
    "name", ["VARIANTWHEEL_VARIANT", "CONDA_OVERRIDE_ARCHSPEC", "config file", "config setting"]
)
def test_nothing_that_is_stated_is_passed_over(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings = {}
    if name == "config file":
        (tmp_path / "variantwheel").mkdir()
        (tmp_path / "variantwheel/config.toml").write_text('forbid = ["x86_64"]\n')
    elif name == "config setting":
        settings = {"variant": "null"}
    else:
        monkeypatch.setenv(name, "null" if name.endswith("VARIANT") else "x86_64")
    assert backend.build_wheel(str(tmp_path / "out"), settings) == PLAIN
    with zipfile.ZipFile(tmp_path / "out" / PLAIN) as archive:
        decision = json.loads(archive.read(f"{sdist.dist_info}/variant-decision.json"))
    assert decision["label"] == "null"
    assert decision["settings"]
    monkeypatch.setenv("VARIANTWHEEL_VARIAMT", "null")
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path / "out"))


def test_what_is_wrong_is_said(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path / "file"))
    assert f"cannot write {PLAIN} into" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["the end", "a file's content"])
def test_a_changed_wheel_is_not_handed_over(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    for wheel in sdist.wheels:
        # The archive's form stays as it is where content alone changes: the hash has to tell.
        content = sdist.content(wheel).index(b"__init__.py") + len("__init__.py") + 2
        sdist.flip(wheel, -1 if place == "the end" else content)
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path / "out"))
    assert "is not the released one" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "ranges", [[], [[0, 5]], [[-5, 5]], [[5, -5]], [[0, 10**9]] * 3, [[10**30, 5]], [[5, 10**30]]]
)
def test_damaged_ranges_are_left_to_judging(
    sdist: TinyRelease, tmp_path: Path, ranges: list[list[int]]
) -> None:
    path = sdist.root / PREPARED_PATH
    document = json.loads(path.read_text())
    assert backend.build_wheel(str(tmp_path / "prepared")) == PLAIN
    for answer in document["answers"]:
        answer["ranges"] = ranges
    path.write_text(json.dumps(document))
    assert hand_over_prepared(str(tmp_path / "none")) is None
    assert list(tmp_path.glob("none/*")) == []
    assert backend.build_wheel(str(tmp_path / "judged")) == PLAIN
    judged = (tmp_path / "judged" / PLAIN).read_bytes()
    assert (tmp_path / "prepared" / PLAIN).read_bytes() == judged


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_answers_of_another_shape_are_as_none(sdist: TinyRelease, data: st.DataObject) -> None:
    path = sdist.root / PREPARED_PATH
    original = path.read_text()
    document = json.loads(original)
    answer = document["answers"][0]
    read = [(answer["decision"], key) for key in ("project", "label", "machine", "payload")]
    places = [(document, "answers"), *((answer, key) for key in answer), *read]
    owner, key = data.draw(st.sampled_from([*places, (None, "")]), "place")
    value = data.draw(JSON.filter(lambda v: owner is None or type(v) is not type(owner[key])))
    remove = owner is not None and data.draw(st.booleans(), "remove")
    if owner is None:
        document = value
    elif remove:
        del owner[key]
    else:
        owner[key] = value
    path.write_text(json.dumps(document))
    try:
        assert hand_over_prepared(str(sdist.root / "prepared")) is None
        assert backend.build_wheel(str(sdist.root / "judged")) == PLAIN
    finally:
        path.write_text(original)


def test_wheels_of_another_form_are_rewritten(sdist: TinyRelease, tmp_path: Path) -> None:
    sdist.wheels.clear()
    for label in sdist.info.variants:
        sdist.add(label, record_last=False)
    sdist.finish()
    (sdist.root / PREPARED_PATH).write_text(render_prepared(sdist.manifest, sdist.root))
    assert backend.build_wheel(str(tmp_path / "out")) == PLAIN
    with zipfile.ZipFile(tmp_path / "out" / PLAIN) as archive:
        assert json.loads(archive.read(f"{sdist.dist_info}/variant-decision.json"))["label"]


@pytest.mark.parametrize("change", ["", "manifest", "hash", "list", "form"])
def test_judging_opens_only_wheels_that_were_not_checked(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setenv("VARIANTWHEEL_VARIANT", "null")
    path = sdist.root / PREPARED_PATH
    document = json.loads(path.read_text())
    if change == "manifest":
        manifest = sdist.root / "payload/manifest.json"
        manifest.write_bytes(manifest.read_bytes() + b"\n")
    elif change == "hash":
        document["checked"]["wheels"] = ["0" * 64]
    elif change:
        document["checked"] = [1] if change == "list" else {"wheels": 1, "manifest": 2}
    path.write_text(json.dumps(document))
    opened = []
    monkeypatch.setattr("variantwheel_selector.wheel.check_wheel", lambda *_: opened.append(1))
    assert backend.build_wheel(str(tmp_path / "out")) == PLAIN
    assert len(opened) == bool(change)
    path.unlink()
    assert backend.build_wheel(str(tmp_path / "opened")) == PLAIN
    assert (tmp_path / "opened" / PLAIN).read_bytes() == (tmp_path / "out" / PLAIN).read_bytes()


def test_a_changed_wheel_is_not_handed_over_by_judging(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wheel in sdist.wheels:
        sdist.flip(wheel, sdist.content(wheel).index(b"__init__.py") + len("__init__.py") + 2)
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path / "out"), {"variant": "null"})
    assert "is not the released one" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []
