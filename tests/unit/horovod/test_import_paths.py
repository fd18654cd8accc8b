"""Where ranks look for the caller's modules."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from horovod.runner import import_paths
from horovod.runner.import_paths import ImportPaths, own_import_paths, paths_to_this_package

LIBRARY = sysconfig.get_paths()["stdlib"]


def test_what_the_interpreter_brings_along_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/script", "", LIBRARY, "/editable", *sys.path[-1:]])
    told = own_import_paths()
    assert told.first == ["/script", ""]
    assert told.last[0] == "/editable"
    assert LIBRARY not in told.last
    assert ImportPaths.decode(told.encode()) == told


def test_nothing_of_a_plain_interpreter_is_told() -> None:
    show = "import horovod.runner.import_paths as own; print(own.own_import_paths().first)"
    variable = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-c", show], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"{['', *filter(None, variable.split(os.pathsep))]}\n"


def test_the_callers_entries_stand_around_those_of_the_ranks_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = ImportPaths(["/script", "", "/variable", "lib"], ["/editable", "hook"])
    assert paths.around(["/variable", "/usr/lib/python3", "/site", "hook"]) == [
        "/script", str(tmp_path), "/variable", str(tmp_path / "lib"),
        "/usr/lib/python3", "/site", "hook", "/editable",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["beside", "package.beside"])
def test_the_current_folder_comes_last_where_modules_come_from_it_by_other_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["/script", LIBRARY, "/editable"])
    assert own_import_paths().last == ["/editable"]
    module = ModuleType(name)
    module.__file__ = str(tmp_path.joinpath(*name.split("."))) + ".py"
    monkeypatch.setitem(sys.modules, name, module)
    assert own_import_paths().last == ["/editable", str(tmp_path)]
    monkeypatch.setattr(sys, "path", ["", LIBRARY])
    assert own_import_paths() == ImportPaths([""], [])


@pytest.mark.parametrize(
    ("path", "variable", "told"),
    [
        (["", "{here}/lib", "/abs"], "lib:/abs", "{here}/lib:/abs"),
        (["", "/own", "/abs"], "/own:/abs", "/own:/abs"),
        (["/own", "/abs"], "/abs", "/own:/abs"),
        (["/script", "/abs", "/own"], "/abs", "/abs:/own"),
        (["", "/own"], "", "/own"),
        (["", "/other"], "", None),
        ([LIBRARY, "/own"], "", None),  # by a .pth file, which others find too
    ],
)
def test_the_folder_of_this_package_is_told_where_no_variable_names_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: list[str],
    variable: str,
    told: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_paths, "__file__", "/own/horovod/runner/import_paths.py")
    monkeypatch.setattr(sys, "path", [*(each.format(here=tmp_path) for each in path), LIBRARY])
    found = paths_to_this_package({"PYTHONPATH": variable, "HOME": "/home"})
    assert found == ({} if told is None else {"PYTHONPATH": told.format(here=tmp_path)})


def test_a_current_folder_that_is_gone_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert paths_to_this_package({"PYTHONPATH": "lib"}) == {}
