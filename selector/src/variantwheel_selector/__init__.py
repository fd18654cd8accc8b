"""Finds out what a machine can run and picks the wheel variant that fits it."""

import os as _os
import sys as _sys


class _Bundle:
    """Stands in for the bundle's finder until a module is asked for that is no file.

    Without types, which would be compiled in each installation.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN205, ARG004
        if not name.startswith(f"{__name__}."):
            return None
        from variantwheel_selector.module_bundle import BundleFinder  # noqa: PLC0415 - see above

        _sys.meta_path.remove(_Bundle)
        _sys.meta_path.insert(0, BundleFinder(__name__, __path__[0]))
        return _sys.meta_path[0].find_spec(name, path)


# In a selector sdist most modules stand in one file, which many hooks do not need.
if _os.path.exists(f"{__path__[0]}/modules.txt"):  # noqa: PTH110 - pathlib takes time
    _sys.meta_path.append(_Bundle)
