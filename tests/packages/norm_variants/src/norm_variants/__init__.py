"""Norms of vectors."""

from norm_variants._norm import norm  # type: ignore[import-not-found]

__all__ = ["norm"]
