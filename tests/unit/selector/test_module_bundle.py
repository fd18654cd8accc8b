"""Modules in one text file: what is in it, and that Python imports, shows and reads it."""

import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel_selector.module_bundle import (
    BUNDLE,
    BundleFinder,
    parse_bundle,
)
from variantwheel_selector.package_copy import copy_package, reachable_files, render_bundle

PATHS = st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), min_size=1)
MODULES = {
    "inner/__init__.py": b'"""A package."""\n',
    "inner/part.py": (
        b"def fail() -> None:\n    raise KeyError('told')  # the line itself\n"
        b"class Failing:\n"
        b"    @property\n"
        b"    def value(self): return [fail() for _ in 'x']  # a property\n"
        b"    @classmethod\n"
        b"    def make(cls): return cls().value  # a class method\n"
    ),
    "single.py": b"from bundled.inner.part import fail\nWHERE = __file__\n",
    "words.txt": b"some words",
}


@given(st.dictionaries(PATHS, st.binary(), min_size=1))
def test_files_come_back(files: dict[str, bytes]) -> None:
    found = parse_bundle(render_bundle(files))
    assert {path: bytes(data) for path, data in found.items()} == files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a bundle, which can be imported as `bundled`."""
    package = tmp_path / "bundled"
    package.mkdir()
    (package / "__init__.py").write_text("FROM_FILE = True\n")
    (package / BUNDLE).write_bytes(render_bundle(MODULES))
    monkeypatch.syspath_prepend(tmp_path)
    finder = BundleFinder("bundled", str(package))
    sys.meta_path.insert(0, finder)
    yield package
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "bundled"]:
        del sys.modules[name]


def test_modules_and_packages_are_imported(folder: Path) -> None:
    import bundled.single  # type: ignore[import-not-found]  # noqa: PLC0415 - made by the fixture

    assert bundled.FROM_FILE, "the package itself is a file"
    assert f"{folder}/single.py" == bundled.single.WHERE
    assert bundled.inner.__path__ == [f"{folder}/inner"]
    assert bundled.inner.part.__spec__.parent == "bundled.inner"
    with pytest.raises(ModuleNotFoundError, match=r"bundled\.missing"):
        import bundled.missing  # type: ignore[import-not-found]  # noqa: PLC0415 - as above


def test_tracebacks_show_the_source(folder: Path) -> None:
    from bundled.inner.part import (  # type: ignore[import-not-found]  # noqa: PLC0415 - as above
        Failing,
    )

    with pytest.raises(KeyError) as caught:
        Failing.make()
    shown = "".join(traceback.format_exception(caught.value))
    assert f'{folder}/inner/part.py", line 2, in fail' in shown
    assert "<string>" not in shown
    for words in ("# the line itself", "# a property", "# a class method"):
        assert words in shown


def test_other_files_are_data(folder: Path) -> None:
    finder = BundleFinder("bundled", str(folder))
    assert finder.get_data(f"{folder}/words.txt") == b"some words"
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        finder.get_data(f"{folder}/nothing.txt")
    assert finder.find_spec("json") is None


def test_only_what_hooks_reach_is_copied() -> None:
    files = {
        "__init__.py": b"",
        "backend.py": b"def hook():\n    from variantwheel_selector.near import thing\n",
        "near/__init__.py": b"from variantwheel_selector import beside\n",
        "near/thing.py": b"",
        "beside.py": b"import variantwheel_selector.near.deep.end\n",
        "near/deep/__init__.py": b"",
        "near/deep/end.py": b"from . import sister\nfrom ..cousin import x\n",
        "near/deep/sister.py": b"",
        "near/cousin.py": b"",
        "cli/__init__.py": b"",
        "far.py": b"",
    }
    assert set(reachable_files(files)) == set(files) - {"cli/__init__.py", "far.py"}


def test_every_module_of_a_copy_can_be_imported(tmp_path: Path) -> None:
    """None of them needs one that was left behind."""
    copy = copy_package(tmp_path)
    bundled = parse_bundle((copy / BUNDLE).read_bytes())
    assert not [path for path in bundled if path.startswith(("cli/", "_vendor/"))]
    names = [path[:-3].replace("/", ".") for path in bundled if path.endswith(".py")]
    names = [f"variantwheel_selector.{name.removesuffix('.__init__')}" for name in names]
    assert len(names) > 60
    program = (
        "import importlib, sys\nsys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]: importlib.import_module(name)\n"
        "ours = [m for n, m in sys.modules.items() if n.startswith('variantwheel_selector')]\n"
        "assert all(m.__file__.startswith(sys.argv[1]) for m in ours)\n"
        "assert not [n for n in sys.modules if n.partition('.')[0] == 'packaging']\n"
    )
    names.remove("variantwheel_selector.nvidia_query")  # a program
    subprocess.run([sys.executable, "-I", "-c", program, str(tmp_path), *names],
                   check=True, timeout=60)  # fmt: skip
