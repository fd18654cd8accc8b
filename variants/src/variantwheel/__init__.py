"""Declares, builds, checks, indexes and releases hardware variants of native Python packages."""
