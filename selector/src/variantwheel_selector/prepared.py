"""Answers that were found when the sdist was packed, for machines with nothing out of the ordinary.

Most machines that install have no sign of a GPU, an x86-64 CPU of level v3 and a user who states
nothing. What all of this package would find out on them is known beforehand, and to compile the
package would take most of an installation's time. Each answer says what it takes for granted; where
any of that is not so, none is given and the machine is judged. `variantwheel sdist` prepares them.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from variantwheel_selector.bounded_read import read_bounded
from variantwheel_selector.checked_wheel import hand_over_checked, outcome, prepared_members
from variantwheel_selector.gpu_signs import without_gpu
from variantwheel_selector.json_text import render_json
from variantwheel_selector.parse.auxv import decode_auxv, parse_auxv, x86_disagreement
from variantwheel_selector.parse.cpuinfo import cpu_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = dict[str, Any]

_MEMBERS: dict[str, type] = {
    "machine": str, "pythons": list, "glibc": list, "flags": list, "without_flags": list,
    "device_files": list, "filename": str, "path": str, "ranges": list, "size": int,
    "dist_info": str, "decision_file": str, "index_variables": list, "decision": dict,
}  # fmt: skip
_DECIDED: dict[str, type] = {"project": str, "label": str, "machine": dict, "payload": dict}
_CPUINFO_LIMIT = 16 * 1024
_AUXV_LIMIT = 4 * 1024


def hand_over_prepared(wheel_directory: str) -> str | None:
    """Write the wheel that was found beforehand for machines like this one.

    The sdist is the one in the current folder; nothing must be stated by settings.

    Returns:
        The file name, without label; none if this machine or this wheel has to be looked at.
    """
    if sys.platform != "linux" or sys.maxsize <= 2**32 or "_PYTHON_HOST_PLATFORM" in os.environ:
        return None
    try:
        answers: Any = prepared_members()["answers"]
        cpuinfo = read_bounded("/proc/cpuinfo", _CPUINFO_LIMIT).decode("utf-8", errors="replace")
        auxv = decode_auxv(read_bounded("/proc/self/auxv", _AUXV_LIMIT), 64)
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        devices = without_gpu()
        if sys.implementation.name != "cpython" or not _plain_abi(python) or devices is None:
            return None
        facts = (os.uname().machine, python, libc, cpuinfo, auxv, devices)
        for answer in answers:
            if _is_answer(answer) and holds(answer, *facts):
                return _hand_over(answer, libc, python, wheel_directory)
    except (OSError, ValueError, OverflowError, RecursionError):
        pass  # whoever looks closer says what is wrong
    except (LookupError, TypeError, AttributeError):
        pass  # the file is of another shape, which is as if there were none
    return None


def _is_answer(answer: Answer) -> bool:
    """Tell whether it has what is read here, in the types that it has to be of."""
    parts = ((answer, _MEMBERS), (answer["decision"], _DECIDED))
    return all(isinstance(part[key], kind) for part, kinds in parts for key, kind in kinds.items())


def holds(
    answer: Answer, machine: str, python: str, libc: str, cpuinfo: str, auxv: str, devices: str
) -> bool:
    """Tell whether all is so that an answer takes for granted, on a machine without sign of a GPU.

    Args:
        answer: One of those prepared.
        machine: The CPU's architecture.
        python: The interpreter, such as `cp311`, 64-bit, with the global lock and no debug build.
        libc: Such as `glibc 2.36`.
        cpuinfo: `/proc/cpuinfo`.
        auxv: Of this process, as text.
        devices: What `without_gpu` said.
    """
    flags, hwcap = cpu_flags(cpuinfo), parse_auxv(auxv).get("AT_HWCAP")
    oldest, newest = answer["glibc"]
    minor = libc.removeprefix("glibc 2.")
    return (
        machine == answer["machine"]
        and devices in answer["device_files"]
        and python in answer["pythons"]
        and minor.isdecimal()
        and libc == f"glibc 2.{minor}"
        and oldest <= int(minor) <= newest
        and flags is not None
        and flags.issuperset(answer["flags"])
        and flags.isdisjoint(answer["without_flags"])
        and hwcap is not None
        and not x86_disagreement(flags, hwcap)
    )


def completed(
    answer: Answer, libc: str, python: str, index_options: tuple[str, ...] = ()
) -> Answer:
    """Return the decision of an answer, with what may differ from one of its machines to another.

    Args:
        answer: One that holds.
        libc: Such as `glibc 2.36`.
        python: Interpreter and version, such as `cp311 3.11.7`.
        index_options: Where the installer takes packages from.
    """
    decision = answer["decision"]
    return {
        **decision,
        "machine": {**decision["machine"], "libc": libc, "python": python},
        "index_options": list(index_options),
    }


def _plain_abi(python: str) -> bool:
    """Tell whether extensions are those of an ordinary build of CPython."""
    first = EXTENSION_SUFFIXES[0] if EXTENSION_SUFFIXES else ""
    return first.startswith(f".cpython-{python[2:]}-")


def _hand_over(answer: Answer, libc: str, python: str, folder: str) -> str | None:
    version = ".".join(map(str, sys.version_info[:3]))
    options: tuple[str, ...] = ()
    if not os.environ.keys().isdisjoint(answer["index_variables"]):
        from variantwheel_selector.front_end import index_options  # noqa: PLC0415 - rarely needed
        from variantwheel_selector.installer_folder import installer_folder  # noqa: PLC0415

        options = index_options(os.environ, installer_folder(os.environ))
    decision = completed(answer, libc, f"{python} {version}", options)
    payload, name = decision["payload"], answer["filename"]
    done = hand_over_checked(
        answer["path"],
        answer["ranges"],
        (answer["size"], payload["sha256"]),
        (answer["dist_info"], answer["decision_file"], render_json(decision).encode("utf-8")),
        (folder, name),
    )
    if not done:
        return None
    sys.stdout.write(outcome(decision["project"], decision["label"], name))
    return str(name)
