"""Modules in one text file: what is in it, and that Python imports, shows and reads it."""

import importlib.util
import marshal
import os
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
    KEPT,
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


def _imported_anew(folder: Path) -> tuple[BundleFinder, str]:
    """Import a module with another finder, as the next process would."""
    finder = BundleFinder("bundled", str(folder))
    spec = finder.find_spec("bundled.inner.part")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    finder.exec_module(module)
    try:
        module.fail()
    except KeyError as error:
        return finder, "".join(traceback.format_exception(error))
    raise AssertionError


def _leave_compiled(folder: Path) -> None:
    """Compile a module, and leave it as the first hook does."""
    finder = BundleFinder("bundled", str(folder))
    finder.start_keeping()
    spec = finder.find_spec("bundled.inner.part")
    assert spec is not None
    finder.exec_module(importlib.util.module_from_spec(spec))
    finder.write_kept()


@pytest.mark.parametrize("change", ["", "text", "damage", "other content", "gone"])
def test_what_was_compiled_serves_the_next_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    bundle, kept = folder / BUNDLE, folder / KEPT
    kept.parent.mkdir(exist_ok=True)
    _leave_compiled(folder)
    assert [path.name for path in kept.parent.iterdir() if "modules" in path.name] == [kept.name]
    if change == "text":
        before = bundle.stat()
        bundle.write_bytes(bundle.read_bytes().replace(b"'told'", b"'TOLD'"))
        os.utime(bundle, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "damage":
        kept.write_bytes(kept.read_bytes()[:40])
    elif change == "other content":
        kept.write_bytes(marshal.dumps([1]))
    elif change == "gone":
        kept.unlink()
    finder, shown = _imported_anew(folder)
    assert bool(finder._kept) == (not change)
    assert f"KeyError: '{'TOLD' if change == 'text' else 'told'}'" in shown
    assert f'{folder}/inner/part.py", line 2, in fail' in shown


def test_a_wider_umask_lets_nobody_else_write_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / BUNDLE).chmod(0o644)
    (folder / KEPT).parent.mkdir(exist_ok=True)
    umask = os.umask(0)
    try:
        _leave_compiled(folder)
    finally:
        os.umask(umask)
    assert (folder / KEPT).stat().st_mode & 0o777 == 0o644


def test_what_cannot_be_put_in_place_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / KEPT).mkdir(parents=True)
    _leave_compiled(folder)
    assert list((folder / KEPT).parent.glob("modules*")) == [folder / KEPT]


@pytest.mark.parametrize("forbidden", ["by the user", "by the folder"])
def test_nothing_is_kept_where_nothing_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, forbidden: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", forbidden == "by the user")
    if forbidden == "by the user":
        (folder / KEPT).parent.mkdir(exist_ok=True)
    finder = BundleFinder("bundled", str(folder))
    finder.start_keeping()
    finder.write_kept()
    assert not (folder / KEPT).exists()


def test_hooks_compile_the_settings_once(tmp_path: Path) -> None:
    """The first hook of a front end leaves them to the next one, if anything is stated."""
    copy = copy_package(tmp_path)
    program = (
        "import os, sys\nsys.path.insert(0, sys.argv[1])\n"
        "from variantwheel_selector import backend, bundle_finder\n"
        "assert backend.get_requires_for_build_wheel() == []\n"
        "print(len(bundle_finder._kept))\n"
    )
    found = []
    for stated in ({}, {"VARIANTWHEEL_LOG": "short"}, {"VARIANTWHEEL_LOG": "short"}):
        environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_DIRS": str(tmp_path), **stated}
        words = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(words, check=True, timeout=60, env=environment, cwd=tmp_path,
                              capture_output=True)  # fmt: skip
        found.append((int(done.stdout), (copy / KEPT).exists()))
    (nothing, compiled, reused) = found
    assert nothing == (0, False)
    assert compiled[0] > 15
    assert compiled[1]
    assert reused == compiled


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
