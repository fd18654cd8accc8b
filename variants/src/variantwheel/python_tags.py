"""Which Pythons a wheel is for, by its Python and ABI tags alone."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Iterable

from packaging.tags import Tag, compatible_tags, cpython_tags, sys_tags

from variantwheel_selector.wheel_name import WheelName


def not_for_this_python(name: WheelName) -> str:
    """Say why this Python does not install a wheel, whatever the machine.

    Args:
        name: The wheel's file name.

    Returns:
        The reason; empty where it does install it.
    """
    here = f"{platform.python_implementation()} {platform.python_version()}"
    return _misfit(name, here, sys_tags())


def not_for_cpython(name: WheelName, version: tuple[int, int]) -> str:
    """Say why a CPython with a GIL does not install a wheel, whatever the machine.

    Args:
        name: The wheel's file name.
        version: The CPython's, such as `(3, 12)`.

    Returns:
        The reason; empty where it does install it.

    >>> not_for_cpython(WheelName.from_str("a-1-cp311-abi3-linux_x86_64-null.whl"), (3, 12))
    ''
    >>> not_for_cpython(WheelName.from_str("a-1-cp313-cp313-linux_x86_64-null.whl"), (3, 12))
    'for cp313-cp313, which CPython 3.12 does not install'
    """
    words = ".".join(map(str, version))
    own = f"cp{words.replace('.', '')}"
    taken = itertools.chain(
        cpython_tags(version, [own], ["any"]), compatible_tags(version, own, ["any"])
    )
    return _misfit(name, f"CPython {words}", taken)


def _misfit(name: WheelName, python: str, taken: Iterable[Tag]) -> str:
    pairs = set(itertools.product(name.python.split("."), name.abi.split(".")))
    if any((tag.interpreter, tag.abi) in pairs for tag in taken):
        return ""
    return f"for {name.python}-{name.abi}, which {python} does not install"
