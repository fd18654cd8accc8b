"""Modules in one text file, from which a selector sdist imports most of this package.

pip and uv take half a millisecond to unpack each file of an sdist, and Python's own import from zip
archives costs more than compiling what it imports. The file begins with a line for each part, its
size and its path; after an empty line come the parts, one after the other, to be read by anyone.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

BUNDLE = "modules.txt"
"""Its name in the package's folder; a package that is installed has none."""

_INIT = "/__init__.py"


def render_bundle(files: Mapping[str, bytes]) -> bytes:
    """Write a bundle of files by their paths; the same files always give the same bytes."""
    paths = sorted(files)
    index = "".join(f"{len(files[path])} {path}\n" for path in paths)
    return b"".join([index.encode("utf-8"), b"\n", *(files[path] for path in paths)])


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
        self._files: dict[str, memoryview] | None = None

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
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - as Python's loaders do

    def get_code(self, name: str) -> CodeType:
        """Compile a module's source."""
        inside = self._path(name)
        if inside is None:
            raise ImportError(f"{name} is not in {self._folder}/{BUNDLE}", name=name)
        place = f"{self._folder}/{inside}"
        return compile(self._read()[inside], place, "exec", dont_inherit=True)

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

    def is_package(self, name: str) -> bool:
        """Tell whether a module is a package."""
        return (self._path(name) or "").endswith(_INIT)

    def _path(self, name: str) -> str | None:
        if not name.startswith(self._prefix):
            return None
        inside = name[len(self._prefix) :].replace(".", "/")
        files = self._read()
        return next((p for p in (f"{inside}.py", f"{inside}{_INIT}") if p in files), None)

    def _read(self) -> dict[str, memoryview]:
        if self._files is None:
            with open(f"{self._folder}/{BUNDLE}", "rb") as file:  # noqa: PTH123 - pathlib takes time
                self._files = parse_bundle(file.read())
        return self._files
