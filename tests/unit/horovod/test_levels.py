"""Which library a CPU gets, and what is said when it is not the best."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from horovod._levels import (
    choose_level,
    describe_misfit,
    describe_missing_module,
    level_asked_for,
    runs_on,
)
from horovod._loader import select_core

LEVELS = ("baseline", "x86_64_v3", "x86_64_v4")


@pytest.mark.parametrize(
    ("levels", "cpu", "chosen"),
    [
        (LEVELS, "x86_64_v1", "baseline"),
        (LEVELS, "x86_64_v2", "baseline"),
        (LEVELS, "x86_64_v3", "x86_64_v3"),
        (LEVELS, "x86_64_v4", "x86_64_v4"),
        (LEVELS[:2], "x86_64_v4", "x86_64_v3"),
        (("baseline",), "x86_64_v4", "baseline"),
        (LEVELS, "baseline", "baseline"),
    ],
)
def test_the_highest_level_that_runs_is_chosen(
    levels: tuple[str, ...], cpu: str, chosen: str
) -> None:
    assert choose_level(levels, cpu, cpu) == chosen


@pytest.mark.parametrize(
    ("levels", "chosen"),
    [
        (LEVELS, "x86_64_v3"),
        (("baseline", "x86_64_v4"), "x86_64_v4"),  # what was asked for
        (("baseline",), "baseline"),
    ],
)
def test_a_level_that_gains_nothing_is_used_where_the_wheel_asks_for_it_alone(
    levels: tuple[str, ...], chosen: str
) -> None:
    assert choose_level(levels, "x86_64_v4", "x86_64_v3") == chosen


@pytest.mark.parametrize(
    ("levels", "asked_for"),
    [(LEVELS, "x86_64_v3"), (LEVELS[:2], "x86_64_v3"), (LEVELS[:1], "baseline")],
)
def test_levels_beyond_the_first_are_not_asked_for(levels: tuple[str, ...], asked_for: str) -> None:
    assert level_asked_for(levels) == asked_for


def test_levels_of_other_processors_do_not_run() -> None:
    assert not runs_on("neoverse", "x86_64_v4")
    assert not runs_on("x86_64_v3", "baseline")


def test_a_wheel_without_anything_that_runs_is_refused() -> None:
    with pytest.raises(ImportError, match="holds code for x86_64_v4; this CPU supports x86_64_v2"):
        choose_level(("x86_64_v4",), "x86_64_v2", "x86_64_v2")


def test_a_misfit_names_both_levels_and_the_way_out() -> None:
    line = describe_misfit(LEVELS, "baseline", "x86_64_v2")
    assert line.startswith(
        "horovod-variants: this build is for x86_64_v3 but this CPU supports x86_64_v2;"
        " using the baseline kernels. To install the fitting build: "
    )
    assert "horovod-variants==" in line
    assert "\n" not in line


def test_a_module_for_another_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "_bindings.cpython-310-x86_64-linux-gnu.so").touch()
    message = describe_missing_module(tmp_path, ".cpython-399-x86_64-linux-gnu.so", "no module")
    assert "no _bindings.cpython-399-x86_64-linux-gnu.so for this Python" in message
    assert "only _bindings.cpython-310-x86_64-linux-gnu.so" in message
    message = describe_missing_module(tmp_path, ".cpython-310t-x86_64-linux-gnu.so", "no module")
    assert "no _bindings.cpython-310t-x86_64-linux-gnu.so for this free-threaded Python" in message


def test_a_module_that_does_not_load_is_told_from_a_missing_one(tmp_path: Path) -> None:
    missing = describe_missing_module(tmp_path, ".so", "no module")
    (tmp_path / "_bindings.x.so").touch()
    broken = describe_missing_module(tmp_path, ".x.so", "undefined symbol")
    assert "there is no _bindings.so nor any other" in missing
    assert "_bindings.x.so is there but does not load (undefined symbol)" in broken


def test_a_file_system_that_forbids_code_is_told_from_a_broken_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_bindings.x.so").touch()
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=0))
    reason = "/x.so: failed to map segment from shared object"
    forbidden = describe_missing_module(tmp_path, ".x.so", reason)
    assert f"noexec, a security policy or a limit of memory forbids it ({reason})" in forbidden
    broken = describe_missing_module(tmp_path, ".x.so", "undefined symbol")
    assert "noexec" not in broken
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    noexec = describe_missing_module(tmp_path, ".x.so", "Operation not permitted")
    assert "does not load: the file system there is mounted noexec (Operation not per" in noexec
    for message in (forbidden, noexec):
        assert "Install into an environment on a file system that programs may be run" in message
        assert "Reinstall" not in message
    assert "Reinstall: " in broken
    assert "Reinstall: " in describe_missing_module(tmp_path, ".y.so", "no module")


def test_a_library_that_has_been_found_is_not_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its environment may be installed anew while a job goes on."""
    found = select_core()
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    assert select_core() == found
    monkeypatch.setattr("horovod._loader.NATIVE", Path("elsewhere"))
    with pytest.raises(ImportError, match="elsewhere"):
        select_core()
