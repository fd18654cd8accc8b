"""Broken wheels and packages fail a check, whatever is broken, and the others are checked."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from unit.variants.checking import BASELINE, NOTHING_SLOW, failed_checks
from unit.variants.conda_files import draft
from unit.variants.tiny_project import DIST_INFO, TinyRelease, respoil, tamper, variantwheel
from variantwheel.checks.report import Result, render_reports
from variantwheel.checks.suite import check_wheels
from variantwheel.conda_checks import check_conda_packages
from variantwheel.errors import WheelFormatError
from variantwheel.native_library import parse_native_library
from variantwheel.project import read_project
from variantwheel.wheel_archive import read_wheel, render_record
from variantwheel_selector.archive_tail import LARGE

RECORD = f"{DIST_INFO}/RECORD"
_WITHOUT_DEADLINE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def _record_of(files: Mapping[str, bytes]) -> bytes:
    return render_record({path: files[path] for path in files if path != RECORD}, RECORD)


@pytest.mark.parametrize(
    ("changes", "check", "told"),
    [
        ({BASELINE: None}, "record", f"{BASELINE}: listed, and not there"),
        ({f"{DIST_INFO}/licenses/LICENSE": None}, "record", "LICENSE: listed, and not there"),
        ({f"{DIST_INFO}/variant.json": None}, "record", "variant.json: listed, and not there"),
        ({f"{DIST_INFO}/METADATA": None}, "archive", "METADATA is missing"),
        ({f"{DIST_INFO}/WHEEL": None}, "tags", f"{DIST_INFO}/WHEEL is missing"),
        ({f"{DIST_INFO}/WHEEL": None}, "installable", "WHEEL: Wheel-Version is missing"),
        ({RECORD: None}, "record", "RECORD is missing"),
        ({RECORD: b"nowhere.so\n"}, "record", "line 1 has 1 fields instead of 3"),
        ({RECORD: b"nowhere.so,,\n"}, "tags", "auditwheel: nowhere.so: No such file"),
        ({RECORD: f"{BASELINE},shake_128=x,\n".encode()}, "record", "has no strong digest"),
        ({RECORD: f"{BASELINE},sha224=x,\n".encode()}, "record", "has no strong digest"),
        ({BASELINE: b"\x7fELF"}, "archive", f"{BASELINE}: a damaged ELF file"),
    ],
)
def test_one_broken_wheel_leaves_the_others_checked(
    tiny_release: TinyRelease,
    tmp_path: Path,
    changes: Mapping[str, bytes | None],
    check: str,
    told: str,
) -> None:
    good = tiny_release.wheel("x86_64_v3")
    broken = tamper(tiny_release.wheel("null"), tmp_path, changes)
    done = variantwheel(
        "check", broken, good, "--project", tiny_release.project, "--json", expect=1
    )
    assert "Traceback" not in done.stderr
    first, second = json.loads(done.stdout)["wheels"]
    assert (first["file"], first["passed"]) == (broken.name, False)
    assert (second["file"], second["passed"]) == (good.name, True)
    facts = {item["name"]: " ".join(item["facts"]) for item in first["checks"]}
    assert told in facts[check]
    # Folders that are gone by now help nobody.
    assert str(Path(tempfile.gettempdir())) not in facts.get("tags", "")


def test_what_a_wheel_says_does_not_steer_the_terminal(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    changes = {
        f"{DIST_INFO}/METADATA": b"Metadata-Version: 2.4\nName: a\nVersion: \x1b[31m9\n",
        f"{DIST_INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: \x1b]0;x\x07\n",
        f"{DIST_INFO}/entry_points.txt": b"[console_scripts]\n\x1b[2Jrun = nowhere\n",
    }
    wheel = respoil(tiny_release.wheel("null"), tmp_path, changes)
    done = variantwheel("check", wheel, "--project", tiny_release.project, expect=1)
    assert "\\x1b[31m9" in done.stdout
    assert (done.stdout + done.stderr).replace("\n", "").isprintable()


def test_a_library_cut_anywhere_is_found(tiny_release: TinyRelease, tmp_path: Path) -> None:
    wheel = tiny_release.wheel("null")
    data = read_wheel(wheel).files[BASELINE]
    for length in (5, 16, 64, 1000, len(data) // 2, len(data) - 1):
        failed = failed_checks(tiny_release, respoil(wheel, tmp_path, {BASELINE: data[:length]}))
        assert "a damaged ELF file" in failed["archive"], length


def test_what_installations_would_refuse_as_too_large_is_found(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    wheel = tiny_release.wheel("null")
    bomb = respoil(wheel, tmp_path, {"tiny_variants/zeros": bytes(LARGE + 1)})
    assert "would expand from" in failed_checks(tiny_release, bomb)["archive"]
    done = variantwheel(
        "sdist", tmp_path, "-o", tmp_path, "--project", tiny_release.project,
        "--allow-partial", "--no-source", expect=1,
    )  # fmt: skip
    assert "would expand from" in done.stderr


@dataclass(frozen=True)
class _Damage:
    """Bytes that replace others at some places, and where the rest is cut off."""

    replaced: tuple[tuple[int, bytes], ...]
    length: int | None

    def done_to(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for place, new in self.replaced:
            start = place % max(len(changed), 1)
            changed[start : start + len(new)] = new
        return bytes(changed[: self.length])


_EXTREMES = st.sampled_from([b"\0", b"\xff", b"\xff" * 8, b"\0" * 7 + b"\x80"])
_PLACES = st.one_of(st.integers(0, 63), st.integers(0, 1023), st.integers(0, 1 << 20))
_DAMAGES = st.builds(
    _Damage,
    st.lists(
        st.tuples(_PLACES, st.one_of(_EXTREMES, st.binary(min_size=1, max_size=8))),
        min_size=1,
        max_size=4,
    ).map(tuple),
    st.one_of(st.none(), st.none(), st.integers(0, 1 << 14)),
)


@settings(max_examples=200, deadline=None, suppress_health_check=_WITHOUT_DEADLINE)
@given(_DAMAGES)
def test_any_library_is_read_or_told(tiny_release: TinyRelease, damage: _Damage) -> None:
    library = read_wheel(tiny_release.wheel("null")).files[BASELINE]
    try:
        parse_native_library("a.so", damage.done_to(library))
    except WheelFormatError as error:
        assert "a.so: a damaged ELF file" in str(error)  # noqa: PT017 - either outcome is right


def test_sections_that_lie_nowhere_are_told(tiny_release: TinyRelease) -> None:
    library = read_wheel(tiny_release.wheel("null")).files[BASELINE]
    (headers,), (count,) = (
        struct.unpack_from("<Q", library, 0x28),
        struct.unpack_from("<H", library, 0x3C),
    )
    told = 0
    for number in range(count):
        for field in (0x18, 0x20):  # where it begins, and its size
            spoiled = bytearray(library)
            # More than Python seeks to.
            struct.pack_into("<Q", spoiled, headers + 64 * number + field, (1 << 64) - 1)
            try:
                parse_native_library("a.so", bytes(spoiled))
            except WheelFormatError:
                told += 1
    assert told > count // 2


@settings(max_examples=60, deadline=None, suppress_health_check=_WITHOUT_DEADLINE)
@given(damage=st.one_of(st.none(), _DAMAGES), number=st.integers(0, 20), listed=st.booleans())
def test_any_file_of_a_wheel_may_be_damaged(
    tiny_release: TinyRelease, damage: _Damage | None, number: int, *, listed: bool
) -> None:
    wheel = tiny_release.wheel("null")
    files = dict(read_wheel(wheel).files)
    path = sorted(files)[number % len(files)]
    changes: dict[str, bytes | None] = {
        path: None if damage is None else damage.done_to(files[path])
    }
    if listed and path != RECORD:
        kept = {**files, **changes}
        changes[RECORD] = _record_of({name: data for name, data in kept.items() if data})
    with tempfile.TemporaryDirectory() as folder:
        broken = tamper(wheel, Path(folder), changes)
        reports = check_wheels(
            [broken, tiny_release.wheel("x86_64_v3")],
            read_project(tiny_release.project),
            NOTHING_SLOW,
        )
    assert len(reports) == 2


@settings(max_examples=60, deadline=None, suppress_health_check=_WITHOUT_DEADLINE)
@given(_DAMAGES)
def test_any_bytes_are_a_wheel_or_told(tiny_release: TinyRelease, damage: _Damage) -> None:
    wheel = tiny_release.wheel("null")
    content = wheel.read_bytes()
    tail = len(content) - 2000  # where the directory of members stands
    spoiled = content[:tail] + damage.done_to(content[tail:])
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder, wheel.name)
        broken.write_bytes(spoiled)
        (report,) = check_wheels([broken], read_project(tiny_release.project), NOTHING_SLOW)
    assert report.file == wheel.name


_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["tiny-variants", "nompi_cpu_py311h1234567_150", "\ud800", "noarch"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
_INFO_KEYS = {
    "index": ("name", "version", "build", "build_number", "subdir", "depends", "license"),
    "paths": ("paths",),
    "about": ("summary", "conda_build_version"),
    "hash_input": ("target_platform", "python", "__cuda"),
}
_LONG_BUILD = "nompi_cpu_py311h1234567_" + "9" * 5000
_WHOLE_DOCUMENTS = st.one_of(
    st.binary(max_size=9),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b"null", b"[]", b"9" * 5000]),
    _JSON.map(lambda value: json.dumps(value).encode()),
)


@st.composite
def _spoiled_info(draw: st.DrawFn) -> tuple[str, bytes | dict[str, object]]:
    """A document of `info`, and its bytes or what is changed in it."""
    file = draw(st.sampled_from(sorted(_INFO_KEYS)))
    changed = st.dictionaries(st.sampled_from(_INFO_KEYS[file]), _JSON, min_size=1)
    return file, draw(st.one_of(_WHOLE_DOCUMENTS, changed))


@settings(max_examples=150, deadline=None, suppress_health_check=_WITHOUT_DEADLINE)
@given(spoiled=_spoiled_info(), by_conda_build=st.booleans())
@example(spoiled=("hash_input", b"[" * 100_000), by_conda_build=True)
@example(spoiled=("hash_input", b"null"), by_conda_build=False)
@example(spoiled=("index", {"build": _LONG_BUILD}), by_conda_build=False)
def test_any_metadata_of_a_conda_package_is_judged(
    tiny_release: TinyRelease,
    spoiled: tuple[str, bytes | dict[str, object]],
    *,
    by_conda_build: bool,
) -> None:
    (name, content), wheel = spoiled, tiny_release.wheel("x86_64_v3")
    package = draft(wheel, "x86_64_v3")
    package.file_name = "tiny-variants-1.0-spoiled.conda"
    if by_conda_build:
        package.about["conda_build_version"] = "26.7.1"
    if isinstance(content, bytes):
        package.info[f"info/{name}.json"] = content
    elif name in ("index", "about"):
        getattr(package, name).update(content)
    else:
        package.info[f"info/{name}.json"] = json.dumps(content).encode()
    with tempfile.TemporaryDirectory() as folder:
        good = draft(wheel, "x86_64_v3").write(Path(folder))
        files = [package.write(Path(folder)), good]
        reports = check_conda_packages(files, read_project(tiny_release.project))
    assert [report.file for report in reports] == [package.file_name, good.name]
    # Under another name it is another package, with the same files.
    faults = {each.check for each in reports[1].findings if each.result is Result.FAILED}
    assert faults <= {"overlap"}
    assert package.file_name in render_reports(reports)


@settings(max_examples=60, deadline=None, suppress_health_check=_WITHOUT_DEADLINE)
@given(_DAMAGES, st.sampled_from([0, 100, -400]))
def test_any_bytes_are_a_conda_package_or_told(
    tiny_release: TinyRelease, damage: _Damage, start: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        package = draft(tiny_release.wheel("x86_64_v3"), "x86_64_v3").write(Path(folder))
        content = package.read_bytes()
        package.write_bytes(content[:start] + damage.done_to(content[start:]))
        (report,) = check_conda_packages([package], read_project(tiny_release.project))
    assert report.file == package.name
