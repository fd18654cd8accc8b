"""Which CPythons are found, with which headers, and what is said about those that are not."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest
from debian_packages import PackagesError
from newer_python import free_threaded_headers

from variantwheel.build_plan import check_pythons
from variantwheel.errors import DefinitionError
from variantwheel.interpreters import copy_headers, find_interpreters, module_abis
from variantwheel.project import read_project

HERE = f"{sys.version_info.major}.{sys.version_info.minor}" + (
    "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
)


def _headers(folder: Path, minor: int, config: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "Python.h").write_text("/* */\n")
    (folder / "patchlevel.h").write_text(
        f"#define PY_MAJOR_VERSION        3\n#define PY_MINOR_VERSION        {minor}\n"
    )
    (folder / "pyconfig.h").write_text(config)
    return folder


def test_the_headers_of_debians_python_serve_its_free_threaded_build(tmp_path: Path) -> None:
    dispatch = "#include <x86_64-linux-gnu/python3.14/pyconfig.h>\n"
    plain = _headers(tmp_path / "python3.14", 14, dispatch)
    own = tmp_path / "x86_64-linux-gnu" / "python3.14" / "pyconfig.h"
    own.parent.mkdir(parents=True)
    own.write_text("#define SIZEOF_LONG 8\n/* #undef Py_GIL_DISABLED */\n")
    derived = free_threaded_headers(plain, tmp_path / "derived")
    found = find_interpreters(["3.14", "3.14t"], [plain, derived], {"PATH": ""})
    assert [item.abi for item in found.interpreters] == ["cp314", "cp314t"]
    assert "#define SIZEOF_LONG 8" in (derived / "pyconfig.h").read_text()
    own.write_text("#define SIZEOF_LONG 8\n")
    with pytest.raises(PackagesError, match="does not say that there is a GIL"):
        free_threaded_headers(plain, tmp_path / "derived")


def _project(folder: Path, pythons: str) -> Path:
    (folder / "variants").mkdir()
    (folder / "variants" / "null.toml").write_text(
        'label = "null"\nsummary = "s"\n[[platforms]]\nmachine = "x86_64"\nrunner = "r"\n'
    )
    (folder / "pyproject.toml").write_text(f"[tool.variantwheel]\n{pythons}")
    return folder


def test_this_python_is_found_by_its_path_and_by_its_name(tmp_path: Path) -> None:
    found = find_interpreters([HERE], [Path(sys.executable)], {"PATH": ""})
    (interpreter,) = found.interpreters
    assert (interpreter.version, interpreter.program) == (HERE, Path(sys.executable))
    (tmp_path / f"python{HERE}").symlink_to(Path(sys.executable).resolve())
    by_name = find_interpreters([HERE], [], {"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path)})
    assert [item.headers for item in by_name.interpreters] == [interpreter.headers]


def test_pyenvs_newest_patch_version_is_taken(tmp_path: Path) -> None:
    for patch in ("3.8.9", "3.8.10"):
        program = tmp_path / "versions" / patch / "bin" / "python3.8"
        headers = _headers(tmp_path / "include" / patch, 8, "")
        program.parent.mkdir(parents=True)
        answer = (
            '{"implementation": "cpython", "version": "3.8", "free_threaded": false, '
            f'"headers": "{headers}", "config": "{headers}/pyconfig.h"}}'
        )
        program.write_text(f"#!/bin/sh\necho '{answer}'\n")
        program.chmod(0o755)
    found = find_interpreters(["3.8"], [], {"PATH": "", "PYENV_ROOT": str(tmp_path)})
    assert [item.headers.name for item in found.interpreters] == ["3.8.10"]


def test_headers_alone_will_do_as_distributions_pack_them(tmp_path: Path) -> None:
    dispatch = "#include <aarch64-linux-gnu/python3.14/pyconfig.h>\n"
    headers = _headers(tmp_path / "python3.14", 14, dispatch)
    own = tmp_path / "aarch64-linux-gnu" / "python3.14" / "pyconfig.h"
    own.parent.mkdir(parents=True)
    own.write_text("#define Py_GIL_DISABLED 1\n")
    (headers / "internal").mkdir()
    (headers / "internal" / "pycore.h").write_text("/* 1 */")
    found = find_interpreters(["3.14", "3.14t"], [headers], {"PATH": "", "PYENV_ROOT": "/none"})
    (interpreter,) = found.interpreters
    assert (interpreter.abi, found.missing) == ("cp314t", ("3.14",))
    copied = copy_headers(interpreter, tmp_path / "copied")
    assert (copied / "pyconfig.h").read_text() == own.read_text()
    before = (copied / "internal" / "pycore.h").stat().st_mtime_ns
    copy_headers(interpreter, tmp_path / "copied")
    assert (copied / "internal" / "pycore.h").stat().st_mtime_ns == before, "nothing is touched"


def test_what_is_stated_must_be_usable_and_declared(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DefinitionError, match=r"neither a CPython with headers"):
        find_interpreters(["3.14"], [tmp_path / "empty"], os.environ)
    headers = _headers(tmp_path / "python3.9", 9, "")
    with pytest.raises(DefinitionError, match=r"is 3\.9; declared are 3\.14"):
        find_interpreters(["3.14"], [headers], os.environ)


def test_a_declared_python_that_is_missing_stops_the_build_unless_that_is_wanted(
    tmp_path: Path,
) -> None:
    text = '[tool.variantwheel.pythons]\nversions = ["3.13"]\noptional = ["3.14"]\nsetting = "s"\n'
    project = read_project(_project(tmp_path, text))
    with pytest.raises(DefinitionError, match=r"CPython 3\.13 .*--python .*--pythons available"):
        check_pythons(project, ["3.13", "3.14"], allow_missing=False)
    (warning,) = check_pythons(project, ["3.14"], allow_missing=False)
    assert "without a module for CPython 3.14" in warning
    with pytest.raises(DefinitionError, match="if there are any"):
        check_pythons(project, ["3.13", "3.14"], allow_missing=True)
    (warning,) = check_pythons(project, ["3.13"], allow_missing=True)
    assert "without a module for CPython 3.13" in warning


@pytest.mark.parametrize(
    ("pythons", "problem"),
    [
        ('versions = ["cp313"]\nsetting = "s"', r"'cp313' is no CPython; write 3\.13"),
        ('versions = ["3.13"]\noptional = ["3.13"]\nsetting = "s"', "one or the other"),
        ('versions = ["3.13"]', "setting: missing key"),
    ],
)
def test_a_wrong_declaration_is_told(tmp_path: Path, pythons: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        read_project(_project(tmp_path, f"[tool.variantwheel.pythons]\n{pythons}\n"))


def test_the_modules_in_a_wheel_tell_their_pythons() -> None:
    paths = ["a/_b.cpython-310-x86_64-linux-gnu.so", "a/_b.cpython-314t-aarch64-linux-gnu.so"]
    assert module_abis([*paths, "a/libcore.so", "a/_b.abi3.so"]) == ["cp310", "cp314t"]
