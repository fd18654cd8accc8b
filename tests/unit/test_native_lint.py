"""Files that are compiled one by one, but do not fit into the one file of a unity build."""

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
    commands = native_lint.read_commands(tmp_path)
    assert native_lint.fit_together(sorted(commands), commands) == fits
    printed = capfd.readouterr()
    assert ("redefinition" in printed.err) != fits
    assert list(tmp_path.glob("*.o")) == []
