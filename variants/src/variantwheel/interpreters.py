"""The CPythons that a wheel carries modules for, found with their headers on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from variantwheel.errors import DefinitionError

VERSION_PATTERN = re.compile(r"3\.([0-9]+)(t?)")
"""A version as it is declared: `3.13`, or `3.13t` for the free-threaded build."""

_ASK_DEADLINE = 30.0
_QUESTION = """\
import json, sys, sysconfig
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": "%d.%d" % sys.version_info[:2],
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "headers": sysconfig.get_path("include"),
    "config": sysconfig.get_config_h_filename(),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython that modules can be built for.

    Attributes:
        version: As it is declared, such as `3.13` or `3.13t`.
        program: The interpreter, or none where headers are all there is of it.
        headers: The folder that holds Python.h.
        config: Its pyconfig.h, which Debian keeps in a folder for each machine.
    """

    version: str
    program: Path | None
    headers: Path
    config: Path

    @property
    def abi(self) -> str:
        """The ABI tag.

        >>> Interpreter("3.13t", None, Path("i"), Path("i/pyconfig.h")).abi
        'cp313t'
        """
        return abi_of(self.version)


@dataclass(frozen=True)
class FoundInterpreters:
    """What a search found.

    Attributes:
        interpreters: In the order in which their versions are declared.
        missing: Declared versions that there is no interpreter of.
    """

    interpreters: tuple[Interpreter, ...]
    missing: tuple[str, ...]


def abi_of(version: str) -> str:
    """Return the ABI tag of a declared version."""
    return "cp" + version.replace(".", "")


def module_abis(paths: Iterable[str]) -> list[str]:
    """Return the ABIs of the extension modules among some paths.

    >>> module_abis(["a/b.cpython-313t-x86_64-linux-gnu.so", "a/c.abi3.so"])
    ['cp313t']
    """
    found = (re.search(r"\.cpython-(\d+t?)-[^/]*\.so$", path) for path in paths)
    return sorted({f"cp{match[1]}" for match in found if match})


def find_interpreters(
    versions: Sequence[str], stated: Sequence[Path], environment: Mapping[str, str]
) -> FoundInterpreters:
    """Look for interpreters and their headers.

    Args:
        versions: What is looked for.
        stated: Interpreters, or folders of headers, that are preferred.
        environment: PATH and PYENV_ROOT are read.

    Raises:
        DefinitionError: One of the stated is no CPython with headers, or of no declared version.
    """
    by_version: dict[str, Interpreter] = {}
    for path in stated:
        interpreter = _read_headers(path) if path.is_dir() else _ask(path)
        if interpreter is None:
            raise DefinitionError(
                f"--python {path}: neither a CPython with headers (Python.h) nor a folder of them"
            )
        if interpreter.version not in versions:
            raise DefinitionError(
                f"--python {path}: is {interpreter.version}; declared are {', '.join(versions)}"
            )
        by_version.setdefault(interpreter.version, interpreter)
    for version in versions:
        if version not in by_version:
            found = filter(None, map(_ask, _candidates(version, environment)))
            match = next((item for item in found if item.version == version), None)
            if match is not None:
                by_version[version] = match
    return FoundInterpreters(
        tuple(by_version[version] for version in versions if version in by_version),
        tuple(version for version in versions if version not in by_version),
    )


def copy_headers(interpreter: Interpreter, folder: Path) -> Path:
    """Copy the headers to where no other project's headers are, changed files alone.

    Args:
        interpreter: Whose headers.
        folder: Gets a folder named after the ABI.

    Returns:
        That folder.
    """
    target = folder / interpreter.abi
    sources = {
        file.relative_to(interpreter.headers): file
        for file in interpreter.headers.rglob("*.h")
        if file.is_file()
    }
    sources[Path("pyconfig.h")] = interpreter.config
    for path, source in sources.items():
        data, copy = source.read_bytes(), target / path
        if not copy.is_file() or copy.read_bytes() != data:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
    return target


def _candidates(version: str, environment: Mapping[str, str]) -> Iterator[Path]:
    """Name the places where an interpreter of a version is usually found."""
    name = f"python{version}"
    found = shutil.which(name, path=environment.get("PATH"))
    if found:
        yield Path(found)
    plain = version.rstrip("t")
    root = Path(environment.get("PYENV_ROOT") or Path.home() / ".pyenv")
    # Newest first; pyenv's folder of a free-threaded build ends in t.
    pattern = re.compile(re.escape(plain) + r"\.\d+" + ("t" if version.endswith("t") else ""))
    folders = [item for item in root.glob("versions/*") if pattern.fullmatch(item.name)]
    folders.sort(key=lambda item: [int(part) for part in re.findall(r"\d+", item.name)])
    for folder in reversed(folders):
        yield folder / "bin" / name
    # Where manylinux containers keep them.
    abi = abi_of(version)
    yield Path("/opt/python") / f"{abi.rstrip('t')}-{abi}" / "bin" / "python"


def _ask(program: Path) -> Interpreter | None:
    if not os.access(program, os.X_OK):
        return None
    try:
        done = subprocess.run(
            [program, "-I", "-c", _QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_DEADLINE,
        )
        # A shim of pyenv's ends with an error where its version is not active.
        facts = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    if facts.get("implementation") != "cpython":
        return None
    headers, config = Path(facts["headers"]), Path(facts["config"])
    if not (headers / "Python.h").is_file() or not config.is_file():
        return None
    version = facts["version"] + ("t" if facts["free_threaded"] else "")
    return Interpreter(version, program, headers, config)


def _read_headers(folder: Path) -> Interpreter | None:
    """Read the version out of a folder of headers, such as that of an unpacked package."""
    patchlevel, config = folder / "patchlevel.h", folder / "pyconfig.h"
    if not patchlevel.is_file() or not config.is_file() or not (folder / "Python.h").is_file():
        return None
    found = dict(
        re.findall(r"#define\s+PY_(MAJOR|MINOR)_VERSION\s+(\d+)", patchlevel.read_text("utf-8"))
    )
    text = config.read_text("utf-8")
    own = re.search(rf"include <([a-z0-9_]+-linux-gnu/{re.escape(folder.name)}/pyconfig\.h)>", text)
    if own is not None:
        # Debian's dispatches to the machine's own file, in the folder beside.
        config = folder.parent / own[1]
        if not config.is_file():
            return None
        text = config.read_text("utf-8")
    free_threaded = re.search(r"^#define\s+Py_GIL_DISABLED\s+1", text, re.MULTILINE) is not None
    version = f"{found.get('MAJOR')}.{found.get('MINOR')}" + ("t" if free_threaded else "")
    if VERSION_PATTERN.fullmatch(version) is None:
        return None
    return Interpreter(version, None, folder.resolve(), config.resolve())
