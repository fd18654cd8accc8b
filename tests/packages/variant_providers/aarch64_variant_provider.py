"""Stands in for the package of this name, which is not published: a stated version alone."""

import os

from nvidia_variant_provider.plugin import Feature  # type: ignore[import-not-found]  # beside

VERSIONS = ["8.4a", "8.3a", "8.2a", "8.1a", "8a"]


def get_all_configs() -> list[Feature]:
    return [Feature("version", multi_value=False, values=VERSIONS)]


def get_supported_configs() -> list[Feature]:
    stated = os.environ.get("PARITY_AARCH64_VERSION")
    # As in uv, which knows nothing newer.
    newest = 0 if stated and stated not in VERSIONS else VERSIONS.index(stated or "8a")
    values = VERSIONS[newest:] if stated else []
    return [Feature("version", multi_value=False, values=values)] if values else []
