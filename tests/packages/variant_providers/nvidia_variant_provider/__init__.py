"""Stands in for the package of this name, which nobody has published yet."""
