"""Broken wheels and packages fail a check, whatever is broken, and the others are checked."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.variants.checking import BASELINE, NOTHING_SLOW, failed_checks
from unit.variants.conda_files import draft
from unit.variants.tiny_project import DIST_INFO, TinyRelease, respoil, tamper, variantwheel
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
