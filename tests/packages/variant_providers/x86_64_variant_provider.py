"""Stands in for the package of this name, which is not published: a stated level alone."""

import os

from nvidia_variant_provider.plugin import Feature  # type: ignore[import-not-found]  # beside

LEVELS = ["v4", "v3", "v2", "v1"]


def get_all_configs() -> list[Feature]:
    return [Feature("level", multi_value=False, values=LEVELS)]


def get_supported_configs() -> list[Feature]:
    stated = os.environ.get("PARITY_X86_64_LEVEL")
    values = LEVELS[LEVELS.index(stated) :] if stated else []
    return [Feature("level", multi_value=False, values=values)] if values else []
