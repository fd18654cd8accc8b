"""The providers that released installers recognise, by namespace.

uv acts on a namespace only when package name, requirement and endpoint are the ones of the provider
that is built into it (uv 0.13.8, `uv-distribution/src/variant/mod.rs`), hence the exact spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from variantwheel_selector.variants_json import ProviderInfo

KNOWN_PROVIDERS: Mapping[str, ProviderInfo] = MappingProxyType(
    {
        "nvidia": ProviderInfo(
            requires=("nvidia-variant-provider==0.0.1",),
            plugin_api="nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        ),
        "amd": ProviderInfo(requires=("amd-variant-provider>=0.0.1",)),
        "x86_64": ProviderInfo(requires=("x86-64-variant-provider>=0.2",)),
        "aarch64": ProviderInfo(requires=("aarch64-variant-provider>=0.2",)),
    }
)
