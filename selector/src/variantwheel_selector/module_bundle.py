"""Modules in one text file, from which a selector sdist imports most of this package.

pip and uv take half a millisecond to unpack each file of an sdist, and Python's own import from zip
archives costs more than compiling what it imports. The file begins with a line for each part, its
size and its path; after an empty line come the parts, one after the other, to be read by anyone.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

BUNDLE = "modules.txt"
"""Its name in the package's folder; a package that is installed has none."""
KEPT = "__pycache__/modules.bin"
"""Beside it: what one process compiled for those that follow, as Python keeps it for files."""

_INIT = "/__init__.py"
_NO_PLACE = "<string>"


def parse_bundle(data: bytes) -> dict[str, memoryview]:
    """Read a bundle: files by their paths."""
    at = data.index(b"\n\n") + 2
    files: dict[str, memoryview] = {}
    view = memoryview(data)
    for line in data[: at - 2].decode("utf-8").split("\n"):
        size, _, path = line.partition(" ")
        files[path] = view[at : at + int(size)]
        at += int(size)
    return files


class BundleFinder:
    """Finds and loads the modules of one package that stand in its bundle."""

    def __init__(self, package: str, folder: str) -> None:
        """Take the package's name and folder; the bundle is read when a module is asked for."""
        self._prefix = f"{package}."
        self._folder = folder
        self._data = b""
        self._mode = 0
        self._files: dict[str, memoryview] | None = None
        self._kept: dict[str, CodeType] = {}
        self._keeping = False

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - of the interface
        target: ModuleType | None = None,  # noqa: ARG002 - of the interface
    ) -> ModuleSpec | None:
        """Return how a module of the bundle is loaded, or none for all other modules."""
        inside = self._path(name)
        if inside is None:
            return None
        spec = type(sys.__spec__)(name, self, origin=f"{self._folder}/{inside}")  # type: ignore[arg-type]  # has all that is asked for
        spec.has_location = True
        if inside.endswith(_INIT):
            spec.submodule_search_locations = [f"{self._folder}/{inside.removesuffix(_INIT)}"]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute a module's source."""
        place = str(module.__file__)
        source = self.get_data(place)
        inside = place.removeprefix(f"{self._folder}/")
        if self._keeping and inside not in self._kept:
            self._kept[inside] = compile(source, place, "exec", dont_inherit=True)
        code = self._kept.get(inside)
        if code is not None:
            exec(code, module.__dict__)  # noqa: S102 - as Python's loaders do
            return
        # `compile` is told the file's name, but its first call makes all classes of `ast`, which
        # takes as long as compiling two hundred lines.
        exec(source, module.__dict__)  # noqa: S102 - as above
        _tell_place(module, place)

    def start_keeping(self) -> None:
        """Keep what is compiled from now on, for `write_kept`, unless Python is to write none."""
        self._keeping = not sys.dont_write_bytecode and sys.pycache_prefix is None

    def write_kept(self) -> None:
        """Leave what was compiled for the processes that follow."""
        if not self._keeping:
            return
        from variantwheel_selector.kept_code import write_kept  # noqa: PLC0415 - rarely needed

        self._keeping = False
        write_kept(f"{self._folder}/{KEPT}", self._data, self._mode, self._kept)

    def get_source(self, name: str) -> str | None:
        """Return a module's source, for tracebacks."""
        inside = self._path(name)
        return None if inside is None else str(self._read()[inside], "utf-8")

    def get_data(self, path: str) -> bytes:
        """Return a file of the bundle.

        Raises:
            OSError: There is none at this path.
        """
        inside = path.removeprefix(f"{self._folder}/")
        files = self._read()
        if inside not in files:
            raise FileNotFoundError(f"{inside!r} is not in {self._folder}/{BUNDLE}")
        return bytes(files[inside])

    def _path(self, name: str) -> str | None:
        if not name.startswith(self._prefix):
            return None
        inside = name[len(self._prefix) :].replace(".", "/")
        files = self._read()
        return next((p for p in (f"{inside}.py", f"{inside}{_INIT}") if p in files), None)

    def _read(self) -> dict[str, memoryview]:
        if self._files is None:
            with open(f"{self._folder}/{BUNDLE}", "rb") as file:  # noqa: PTH123 - pathlib takes time
                self._data = file.read()
                self._mode = os.fstat(file.fileno()).st_mode
            self._files = parse_bundle(self._data)
            if os.path.exists(f"{self._folder}/{KEPT}"):  # noqa: PTH110 - as above
                from variantwheel_selector.kept_code import read_kept  # noqa: PLC0415 - as above

                self._kept = read_kept(f"{self._folder}/{KEPT}", self._data)
        return self._files


def _tell_place(owner: object, place: str) -> None:
    """Tell the functions of a module or class which file they are from, for tracebacks."""
    for value in vars(owner).values():
        function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
        code = getattr(function, "__code__", None)
        if code is not None and code.co_filename == _NO_PLACE:
            function.__code__ = _placed(code, place)
        elif isinstance(value, type) and value.__module__ == getattr(owner, "__name__", None):
            _tell_place(value, place)


def _placed(code: CodeType, place: str) -> CodeType:
    inner = [
        _placed(item, place) if hasattr(item, "co_filename") else item for item in code.co_consts
    ]
    return code.replace(co_filename=place, co_consts=tuple(inner))
