"""The wheel tags that a machine accepts, best first, computed from its captured facts alone.

In the order of `packaging.tags`, which would ask the running interpreter, and which takes longer to
import than all the rest takes. Nothing is asked here, so that the answer for another machine's
folder is as good as the answer for this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from variantwheel_selector.machine import Machine, PythonFacts

_MAC_FORMATS = {
    "arm64": ("arm64", "universal2"),
    "x86_64": ("x86_64", "intel", "fat64", "fat3", "universal2", "universal"),
}
_LEGACY_MANYLINUX = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


def supported_tags(machine: Machine) -> tuple[str, ...]:
    """Return tags such as `cp311-cp311-manylinux_2_36_x86_64`, best first."""
    python = machine.python
    major, minor = (int(part) for part in python.version.split(".")[:2])
    platforms = tuple(_platforms(machine))
    if python.interpreter.startswith("cp"):
        found = _cpython_tags((major, minor), python, platforms)
    else:
        abis = [*python.abis, *(["none"] if "none" not in python.abis else [])]
        found = [f"{python.interpreter}-{abi}-{place}" for abi in abis for place in platforms]
    is_cpython = python.interpreter.startswith("cp")
    interpreter = python.interpreter if is_cpython else f"{python.interpreter[:2]}3"
    return (*found, *_pure_tags((major, minor), interpreter, platforms))


def _cpython_tags(
    version: tuple[int, int], python: PythonFacts, platforms: Sequence[str]
) -> list[str]:
    name = f"cp{version[0]}{version[1]}"
    free_threaded = bool(python.abis) and python.abis[0].rstrip("d").endswith("t")
    stable = "abi3t" if free_threaded else "abi3"
    own = [abi for abi in python.abis if abi not in (stable, "abi3", "none")]
    found = [f"{name}-{abi}-{place}" for abi in (*own, stable, "none") for place in platforms]
    found += [
        f"cp{version[0]}{older}-{stable}-{place}"
        for older in range(version[1] - 1, 1, -1)
        for place in platforms
    ]
    return found


def _pure_tags(version: tuple[int, int], interpreter: str, platforms: Sequence[str]) -> list[str]:
    major, minor = version
    versions = [f"py{major}{minor}", f"py{major}"]
    versions += [f"py{major}{older}" for older in range(minor - 1, -1, -1)]
    found = [f"{name}-none-{place}" for name in versions for place in platforms]
    return [*found, f"{interpreter}-none-any", *(f"{name}-none-any" for name in versions)]


def _platforms(machine: Machine) -> Iterator[str]:
    if machine.system == "linux":
        yield from _linux_platforms(machine)
    elif machine.system == "darwin":
        yield from _mac_platforms("arm64" if machine.machine == "arm64" else "x86_64")
    elif machine.system == "win32":
        yield "win32" if machine.pointer_bits == 32 else f"win_{machine.machine.lower()}"


def _mac_platforms(architecture: str) -> Iterator[str]:
    """Return those of macOS 11, the oldest that runs Apple silicon; a capture does not say its own.

    Programs of one architecture were new with macOS 11, of both together they may be older.
    """
    formats = _MAC_FORMATS[architecture]
    yield from (f"macosx_11_0_{name}" for name in formats)
    older = formats[1:] if architecture == "arm64" else formats
    for minor in range(16, 3, -1):
        yield from (f"macosx_10_{minor}_{name}" for name in older)


def _linux_platforms(machine: Machine) -> Iterator[str]:
    architecture = machine.machine
    if machine.pointer_bits == 32:
        architecture = {"x86_64": "i686", "aarch64": "armv8l"}.get(architecture, architecture)
    architectures = {"armv8l": ["armv8l", "armv7l"]}.get(architecture, [architecture])
    # In the order of packaging 26.
    for arch in architectures:
        yield f"linux_{arch}"
    libc = machine.libc or ""
    glibc, musl = _minor(libc, "glibc 2."), _minor(libc, "musl 1.")
    if glibc is not None:
        oldest = 5 if {"x86_64", "i686"} & set(architectures) else 17
        for arch in architectures:
            for minor in range(glibc, oldest - 1, -1):
                yield f"manylinux_2_{minor}_{arch}"
                if minor in _LEGACY_MANYLINUX:
                    yield f"{_LEGACY_MANYLINUX[minor]}_{arch}"
    elif musl is not None:
        for arch in architectures:
            for minor in range(musl, -1, -1):
                yield f"musllinux_1_{minor}_{arch}"


def _minor(libc: str, start: str) -> int | None:
    """Return the number of at most three digits behind `start`, whatever follows it."""
    if not libc.startswith(start):
        return None
    rest = libc[len(start) :]
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return int(digits) if 1 <= len(digits) <= 3 else None
