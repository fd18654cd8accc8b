"""Where modules are looked for: of one process, told to others that have to find the same."""

import json
import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

# What starts a module's `main` without the current folder, which anybody's files may lie in: `-c`
# and `-m` put it first on the path.
WITHOUT_CURRENT_FOLDER = "import sys; sys.path[:] = filter(None, sys.path)"

# By which an interpreter finds its libraries and this package.
_PATHS = ("LD_LIBRARY_PATH", "PYTHONPATH")


def absolute_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which an interpreter finds the same in another folder as it does in this."""
    return {
        name: os.pathsep.join(map(os.path.abspath, environment[name].split(os.pathsep)))
        for name in _PATHS
        if environment.get(name)
    }


def paths_to_this_package(environment: Mapping[str, str]) -> dict[str, str]:
    """`absolute_paths`, with the folder that this package itself has been found in.

    That may be the current folder or a script's, which no variable names; such folders with other
    things are not added.
    """
    try:
        paths = absolute_paths(environment)
        first = list(map(os.path.abspath, own_import_paths().first))
    except FileNotFoundError:  # the current folder is gone, and nothing leads there any more
        return {}
    given = paths["PYTHONPATH"].split(os.pathsep) if "PYTHONPATH" in paths else []
    own = str(Path(__file__).absolute().parents[2])
    entries = dict.fromkeys([*(each for each in first if each == own or each in given), *given])
    return {**paths, "PYTHONPATH": os.pathsep.join(entries)} if entries else paths


@dataclass(frozen=True)
class ImportPaths:
    """The entries of a process's `sys.path` that its interpreter does not bring along.

    Attributes:
        first: those in front of the interpreter's own.
        last: the others.
    """

    first: Sequence[str]
    last: Sequence[str]

    def encode(self) -> bytes:
        """One line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "ImportPaths":
        """Reads what `encode` wrote."""
        return cls(**json.loads(line))

    def around(self, own: Sequence[str]) -> list[str]:
        """The path of another process, which may run another interpreter.

        Args:
            own: its `sys.path` so far. Relative entries are meant as in its current folder.
        """

        def there(entries: Sequence[str]) -> list[str]:
            return [each if each in own else str(Path(each).absolute()) for each in entries]

        return list(dict.fromkeys([*there(self.first), *own, *there(self.last)]))


def own_import_paths() -> ImportPaths:
    """Those of this process."""
    found: Sequence[object] = sys.path
    entries = [each for each in found if isinstance(each, str)]  # as Python itself looks
    interpreters = _interpreters_own()
    first = next((i for i, each in enumerate(entries) if each in interpreters), len(entries))
    last = [each for each in entries[first:] if each not in interpreters]
    return ImportPaths(entries[:first], [*last, *_current_folder_in_use(entries, sys.modules)])


def _interpreters_own() -> frozenset[str]:
    """Where this interpreter looks for its library and for what has been installed into it."""
    folders = sysconfig.get_paths()
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return frozenset(
        [
            *(folders[each] for each in ("stdlib", "platstdlib", "purelib", "platlib")),
            str(Path(folders["platstdlib"], "lib-dynload")),
            str(Path(folders["stdlib"]).with_name(archive)),
            *site.getsitepackages(),
            site.getusersitepackages(),
        ]
    )


def _current_folder_in_use(entries: Sequence[str], modules: Mapping[str, ModuleType]) -> list[str]:
    """The current folder, if modules have been loaded from it that the path does not lead to.

    pytest does so with `--import-mode=importlib`.
    """
    try:
        folder = str(Path.cwd())
    except OSError:
        return []  # it is gone
    if folder in entries or "" in entries:
        return []
    loaded = ((name, _file_of(module)) for name, module in list(modules.items()))
    return [folder] if any(file in _files_for(folder, name) for name, file in loaded) else []


def _file_of(module: object) -> object:
    """The file of a module; a lazy one is not loaded by the question."""
    if not isinstance(module, ModuleType):
        return None
    return ModuleType.__getattribute__(module, "__dict__").get("__file__")


def _files_for(folder: str, name: str) -> tuple[str, str]:
    stem = Path(folder, *name.split("."))
    return f"{stem}.py", str(stem / "__init__.py")
