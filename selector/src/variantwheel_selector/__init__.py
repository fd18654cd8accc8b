"""Finds out what a machine can run and picks the wheel variant that fits it."""

import os as _os

# In a selector sdist most modules stand in one file.
if _os.path.exists(f"{__path__[0]}/modules.txt"):  # noqa: PTH110 - pathlib takes time
    import sys as _sys

    from variantwheel_selector.module_bundle import BundleFinder as _BundleFinder

    _sys.meta_path.append(_BundleFinder(__name__, __path__[0]))
