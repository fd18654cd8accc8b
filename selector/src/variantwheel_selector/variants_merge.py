"""Joins what the wheels of one release say of its variants."""

from __future__ import annotations

from collections.abc import Iterable

from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.model import Variant
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo


def merge_variants_info(parts: Iterable[VariantsInfo]) -> VariantsInfo:
    """Join what the wheels of one release say.

    Raises:
        VariantsJsonError: A label stands for two sets of properties, a namespace has two
            providers, or no order of namespaces continues all others.
    """
    namespaces: tuple[str, ...] = ()
    variants: dict[str, Variant] = {}
    providers: dict[str, ProviderInfo] = {}
    with_providers: set[bool] = set()
    for part in parts:
        shorter, longer = sorted((namespaces, part.namespaces), key=len)
        if longer[: len(shorter)] != shorter:
            raise VariantsJsonError(
                f"the namespace order {', '.join(part.namespaces)} does not continue "
                f"{', '.join(namespaces)}"
            )
        namespaces = longer
        for label, variant in part.variants.items():
            if variants.setdefault(label, variant) != variant:
                raise VariantsJsonError(
                    f"label {label!r} stands for two sets of properties: "
                    f"{_words(variants[label])} and {_words(variant)}"
                )
        with_providers.add(part.providers is not None)
        for namespace, provider in (part.providers or {}).items():
            if providers.setdefault(namespace, provider) != provider:
                raise VariantsJsonError(f"namespace {namespace!r} has two different providers")
    if len(with_providers) == 2:
        raise VariantsJsonError("some of the wheels name providers (PEP 850) and others do not")
    return VariantsInfo(namespaces, variants, providers if True in with_providers else None)


def _words(variant: Variant) -> str:
    return ", ".join(map(str, variant.properties)) or "none"
