"""AMD's targets: which code a GPU runs, in LLVM's target IDs and as values of `amd :: gfx_arch`.

A target ID such as `gfx90a:sramecc+:xnack-` joins a processor with settings that its code may rely
on. Code that says nothing of a setting runs under either, other code under its own alone. A generic
target such as `gfx10-3-generic` runs on all processors of a family. Values of properties cannot
hold these signs: there it is `gfx90a_sramecc_on_xnack_off` and `gfx10_3_generic`.

Source: LLVM, "User Guide for AMDGPU Backend", target IDs, processors and generic processors.
"""

from __future__ import annotations

from itertools import combinations

SRAMECC, XNACK = "sramecc", "xnack"

_GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": tuple(f"gfx103{number}" for number in range(7)),
    "gfx11-generic": tuple(f"gfx11{number}" for number in ("00", "01", "02", "03", *range(50, 54))),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}
_GENERIC_SETTINGS = {
    "gfx9-generic": (XNACK,),
    "gfx9-4-generic": (SRAMECC, XNACK),
    "gfx10-1-generic": (XNACK,),
}
_WITH_SRAMECC = frozenset({"gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
# Of others with the setting, in one chip with a CPU, the system decides.
_XNACK_ON_REQUEST = _WITH_SRAMECC | {"gfx900", "gfx904", "gfx1010", "gfx1011", "gfx1012"}


def target_id(processor: str, *, sramecc: bool | None, xnack: bool | None) -> str:
    """Return the target ID of a GPU, with the settings that it has and that are known.

    Args:
        processor: Such as `gfx90a`.
        sramecc: Whether its memories correct errors; none if unknown.
        xnack: Whether programs are to repeat accesses that failed, which they do on request alone;
            none if nobody asked for either.
    """
    text = processor
    if processor in _WITH_SRAMECC and sramecc is not None:
        text += f":{SRAMECC}{'+' if sramecc else '-'}"
    if processor in _XNACK_ON_REQUEST:
        text += f":{XNACK}{'+' if xnack else '-'}"
    return text


def runnable_code(target: str) -> tuple[str, ...]:
    """Return the values of `gfx_arch` whose code a GPU runs, the most specific first."""
    processor, *settings = target.split(":")
    values = _with_settings(processor, settings)
    for generic, processors in _GENERIC.items():
        if processor in processors:
            known = _GENERIC_SETTINGS.get(generic, ())
            values += _with_settings(generic, [item for item in settings if item[:-1] in known])
    return tuple(values)


def property_value(target: str) -> str:
    """Return the value of `gfx_arch` that means code for a target ID."""
    name, *settings = target.split(":")
    words = [f"_{item[:-1]}_{'on' if item.endswith('+') else 'off'}" for item in settings]
    return "".join([name.replace("-", "_"), *words])


def _with_settings(name: str, settings: list[str]) -> list[str]:
    return [
        property_value(":".join([name, *chosen]))
        for size in range(len(settings), -1, -1)
        for chosen in combinations(settings, size)
    ]
