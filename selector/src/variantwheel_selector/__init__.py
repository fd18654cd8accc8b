"""Finds out what a machine can run and picks the wheel variant that fits it."""

import os as _os
import sys as _sys

# In a selector sdist most modules stand in one file; see `module_bundle`.
if _os.path.exists(f"{__path__[0]}/modules.txt"):  # noqa: PTH110 - pathlib takes time
    from variantwheel_selector.module_bundle import BundleFinder as _BundleFinder

    _sys.meta_path.insert(0, _BundleFinder(__name__, __path__[0]))
