"""Files of a unity build: what is compiled together, and what does not fit into one file."""

import json
import shutil
from pathlib import Path

import native_lint
import pytest


@pytest.mark.parametrize(("name", "fits"), [("Behind", True), ("Ahead", False)])
def test_equal_names_in_anonymous_namespaces_are_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, *, fits: bool
) -> None:
    compiler = shutil.which("g++")
    assert compiler is not None
    entries = []
    for file, function in (("a.cc", "Ahead"), ("b.cc", name)):
        source = f"namespace {{ int {function}() {{ return 1; }} }}\n"
        (tmp_path / file).write_text(source + f"int Of{file[0]}() {{ return {function}(); }}\n")
        command = f"{compiler} -std=c++20 -Wall -o {file}.o -c {tmp_path / file}"
        entries.append({"directory": str(tmp_path), "file": file, "command": command})
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    units = native_lint.one_unit_per_file(native_lint.read_units(tmp_path))
    assert native_lint.fit_together(sorted(units), units) == fits
    printed = capfd.readouterr()
    assert ("redefinition" in printed.err) != fits
    assert list(tmp_path.glob("*.o")) == []


def test_a_file_is_looked_at_in_the_last_unit_that_holds_it(tmp_path: Path) -> None:
    folder = tmp_path / "Unity"
    folder.mkdir()
    together = folder / "unity_0_cxx.cxx"
    together.write_text(f'/* made */\n#include "{tmp_path}/a.cc"\n\n#include "{tmp_path}/b.cc"\n')
    entries = [
        {"directory": str(tmp_path), "file": file, "command": f"{level} -o x -c {file}"}
        for level, file in (("low", "c.cc"), ("low", str(together)), ("high", "c.cc"))
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    units = native_lint.one_unit_per_file(native_lint.read_units(tmp_path))
    assert {file.name: unit.file.name for file, unit in units.items()} == {
        "a.cc": "unity_0_cxx.cxx",
        "b.cc": "unity_0_cxx.cxx",
        "c.cc": "c.cc",
    }
    assert units[tmp_path / "c.cc"].command["command"].startswith("high")
