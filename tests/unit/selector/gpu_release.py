"""A release with GPU variants, as it is judged on the machines of tests/gpu_machines."""

from variantwheel_selector.model import Variant
from variantwheel_selector.selection import Release
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo

PROVIDERS = {
    "nvidia": ProviderInfo(
        requires=("nvidia-variant-provider==0.0.1",),
        plugin_api="nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    ),
    "amd": ProviderInfo(requires=("amd-variant-provider>=0.0.1",)),
    "x86_64": ProviderInfo(requires=("x86-64-variant-provider>=0.2",)),
    "aarch64": ProviderInfo(requires=("aarch64-variant-provider>=0.2",)),
}


def _nvidia(label: str, bound: str, *codes: str) -> Variant:
    needs = [f"nvidia :: sm_arch :: {code}" for code in codes]
    return Variant.from_strings(label, [f"nvidia :: cuda_version_lower_bound :: {bound}", *needs])


VARIANTS = [
    Variant("null"),
    Variant.from_strings("x86_64_v3", ["x86_64 :: level :: v3"]),
    _nvidia("cu12", "12.0", "70_real", "80_real", "90_real", "90_virtual"),
    _nvidia("cu13", "13.0", "75_real", "80_real", "90_real", "100_real", "120_real", "120_virtual"),
    _nvidia("cu12_sbsa", "12.0", "80_real", "90_real", "100_real", "110_real"),
    Variant.from_strings(
        "rocm",
        ["amd :: rocm_version :: 6.3", "amd :: gfx_arch :: gfx90a", "amd :: gfx_arch :: gfx942"],
    ),
]
_X86, _ARM = "py3-none-manylinux_2_17_x86_64", "py3-none-manylinux_2_17_aarch64"
_TAGS = {"null": (_X86, _ARM), "cu12_sbsa": (_ARM,)}

GPU_INFO = VariantsInfo(tuple(PROVIDERS), {item.label: item for item in VARIANTS}, PROVIDERS)
GPU_RELEASE = Release(
    "tiny-native",
    "1.0",
    GPU_INFO,
    {
        f"tiny_native-1.0-{tag}-{item.label}.whl": None
        for item in VARIANTS
        for tag in _TAGS.get(item.label, (_X86,))
    },
)
