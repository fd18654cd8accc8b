"""Facts about a machine that help its users and never decide what is chosen."""

from __future__ import annotations

from variantwheel_selector.machine import AUXV, BATCH_SYSTEM, CPUINFO, LIBRARIES, SYSCTL, Machine
from variantwheel_selector.parse.auxv import parse_auxv, x86_disagreement
from variantwheel_selector.parse.cpuinfo import cpu_flags
from variantwheel_selector.parse.libraries import parse_libraries
from variantwheel_selector.parse.sysctl import is_translated, parse_sysctl

_KINDS = {"MPI": ("libmpi",), "NCCL": ("libnccl",), "RCCL": ("librccl",)}


def surroundings(machine: Machine) -> dict[str, str]:
    """Return facts by name, in words; what was not looked for is left out."""
    found: dict[str, str] = {}
    translation = _translation(machine)
    if translation:
        found["translation"] = translation
    if LIBRARIES in machine.texts:
        libraries = parse_libraries(machine.texts[LIBRARIES])
        for kind, starts in _KINDS.items():
            words = [item.words() for item in libraries if item.soname.startswith(starts)]
            found[kind] = "; ".join(words[:3]) or "none found"
    signs = machine.texts.get(BATCH_SYSTEM, "").split("\n")
    if any(signs):
        found["batch system"] = (
            f"{', '.join(sign for sign in signs if sign)}; other nodes may differ from this one: "
            "capture one there with 'variantwheel capture', and name it with the setting 'profile'"
        )
    return found


def _translation(machine: Machine) -> str:
    """Return how this process comes to run on a CPU of another kind, in words; or nothing."""
    if is_translated(parse_sysctl(machine.texts.get(SYSCTL, ""))):
        return "you run an x86-64 Python on Apple silicon, under Rosetta; an arm64 Python is faster"
    if machine.machine not in ("x86_64", "aarch64") or CPUINFO not in machine.texts:
        return ""
    text = machine.texts[CPUINFO]
    own, other = ("flags", "Features") if machine.machine == "x86_64" else ("Features", "flags")
    if cpu_flags(text, own) is None and cpu_flags(text, other) is not None:
        return f"{machine.machine} is emulated: /proc/cpuinfo describes another architecture"
    flags, hwcap = cpu_flags(text), parse_auxv(machine.texts.get(AUXV, "")).get("AT_HWCAP")
    if machine.machine == "x86_64" and flags and hwcap is not None:
        differing = x86_disagreement(flags, hwcap)
        if differing:
            return (
                "this process does not run on the CPU that /proc/cpuinfo describes, as under "
                f"user-mode emulation (AT_HWCAP differs in {' '.join(differing)})"
            )
    return ""
