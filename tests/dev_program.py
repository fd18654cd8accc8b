"""The program `./dev` as a module, and the sessions that it finds."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def _load() -> ModuleType:
    loader = SourceFileLoader("dev", str(ROOT / "dev"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


DEV = _load()
SESSIONS: dict[str, bool] = DEV.sessions_in((ROOT / "noxfile.py").read_text(encoding="utf-8"))
