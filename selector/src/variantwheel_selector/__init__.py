"""Finds out what a machine can run and picks the wheel variant that fits it."""

import os as _os

bundle_finder = None
"""In a selector sdist, where most modules stand in one file, what imports them."""

if _os.path.exists(f"{__path__[0]}/modules.txt"):  # noqa: PTH110 - pathlib takes time
    import sys as _sys

    from variantwheel_selector.module_bundle import BundleFinder as _BundleFinder

    bundle_finder = _BundleFinder(__name__, __path__[0])
    _sys.meta_path.append(bundle_finder)
