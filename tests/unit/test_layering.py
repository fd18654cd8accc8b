"""The arrows of docs/architecture.md, checked on Python imports and on C++ includes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Package folder -> packages of ours that its modules may import.
PYTHON_ARROWS = {
    "selector/src/variantwheel_selector": {"variantwheel_selector"},
    "variants/src/variantwheel": {"variantwheel", "variantwheel_selector"},
    "src/horovod": {"horovod"},
}
OURS = {"variantwheel_selector", "variantwheel", "horovod"}
# The only modules of horovod that may look at the selector.
HOROVOD_MAY_ASK_SELECTOR = {"_installation.py", "runner/check_build.py"}

# `--check-build` tries torch out in a process of its own, which this module is.
MAY_TRY_TORCH = {"runner/build_probe.py"}

NATIVE_ARROWS = {
    "base": {"base"},
    "kernels": {"base", "kernels"},
    "device": {"base", "device"},
    "transport": {"base", "kernels", "transport"},
    "ops": {"base", "kernels", "device", "transport", "ops"},
    "timeline": {"base", "timeline"},
    "runtime": {"base", "kernels", "device", "transport", "ops", "timeline", "runtime"},
    "bindings": {"base", "runtime", "bindings"},
}


def _imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the arrows"
            yield node.module or ""


def _top_level(names: Iterator[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def _includes(source: str) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', source, flags=re.MULTILINE)


def _native_faults(folder: str, source: str) -> list[str]:
    faults = []
    for name in _includes(source):
        layer = name.split("/")[0]
        if layer not in NATIVE_ARROWS[folder]:
            faults.append(f"{folder} may not include {name}")
        if folder == "bindings" and layer == "runtime" and name != "runtime/c_api.h":
            faults.append(f"bindings may include runtime/c_api.h alone, not {name}")
    if folder != "bindings" and re.search(r"pybind11|Python\.h", source):
        faults.append(f"only bindings may know Python, not {folder}")
    if "getenv(" in source:
        faults.append("options come in through the C interface, never from the environment")
    return faults


@pytest.mark.parametrize("folder", PYTHON_ARROWS)
def test_python_imports_follow_the_arrows(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert len(files) >= 5, "an empty folder would pass"
    for file in files:
        imported = _top_level(_imports(file.read_text(encoding="utf-8"))) & OURS
        allowed = set(PYTHON_ARROWS[folder])
        if str(file.relative_to(ROOT / folder)) in HOROVOD_MAY_ASK_SELECTOR:
            allowed |= {"variantwheel_selector"}
        assert imported <= allowed, f"{file.relative_to(ROOT)} imports {imported - allowed}"


def test_torch_is_imported_by_its_front_end_alone() -> None:
    for file in sorted((ROOT / "src/horovod").rglob("*.py")):
        inside = file.relative_to(ROOT / "src/horovod")
        if inside.parts[0] == "torch" or str(inside) in MAY_TRY_TORCH:
            continue
        assert "torch" not in _top_level(_imports(file.read_text(encoding="utf-8"))), file


@pytest.mark.parametrize("folder", NATIVE_ARROWS)
def test_native_includes_follow_the_arrows(folder: str) -> None:
    files = [
        file
        for file in sorted((ROOT / "src/native" / folder).rglob("*"))
        if file.suffix in {".h", ".cc"}
    ]
    assert len(files) >= 2, "an empty folder would pass"
    for file in files:
        faults = _native_faults(folder, file.read_text(encoding="utf-8"))
        assert not faults, f"{file.relative_to(ROOT)}: {faults}"


def test_a_planted_native_violation_is_found() -> None:
    assert _native_faults("base", '#include "runtime/runtime.h"\n')
    assert _native_faults("bindings", '#include "runtime/runtime.h"\n')
    assert _native_faults("ops", "#include <pybind11/pybind11.h>\n")
    assert not _native_faults("ops", '#include "transport/transport.h"\n')


def test_module_names_say_what_they_hold() -> None:
    banned = {"utils", "helpers", "misc", "manager", "common", "backend"}
    public_paths = {"src/horovod/common", "selector/src/variantwheel_selector/backend.py"}
    for root in (*PYTHON_ARROWS, "src/native"):
        for path in sorted((ROOT / root).rglob("*")):
            if path.suffix in {".py", ".h", ".cc", ""} and path.stem in banned:
                assert str(path.relative_to(ROOT)) in public_paths, path


def test_the_three_distributions_share_one_version() -> None:
    for pyproject in ("pyproject.toml", "selector/pyproject.toml", "variants/pyproject.toml"):
        text = (ROOT / pyproject).read_text(encoding="utf-8")
        assert re.search(r'^dynamic = \["version"\]', text, flags=re.MULTILINE), pyproject
        assert re.search(r'(input|path) = "(\.\./)?VERSION"', text), pyproject
