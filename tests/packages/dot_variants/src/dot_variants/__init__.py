"""Dot products with the extension module for the highest level that wheel and CPU have."""

import importlib

# The loader refuses a module whose note names a level that the CPU does not have (glibc 2.33).
for LEVEL in ("x86_64_v3", "baseline"):
    try:
        dot = importlib.import_module(f"dot_variants.{LEVEL}._dot").dot
        break
    except ImportError:
        if LEVEL == "baseline":
            raise

__all__ = ["LEVEL", "dot"]
