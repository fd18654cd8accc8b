"""The check that the shared libraries are there, and that they are such."""

from __future__ import annotations

import re
from collections.abc import Iterator

from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.device_code import find_device_code, is_device_object
from variantwheel.platform_tag import is_linux_platform
from variantwheel.release_folder import ANY_MACHINE

_CHECK = "libraries"
_NAME = re.compile(r"[^/]\.so(\.\d+)*\Z")
_SHOWN_BYTES = 8


def check_libraries(subject: CheckSubject) -> Finding:
    """See whether the declared libraries are there, and whether what is named like one is one.

    All other checks of native code look at ELF files alone, and find nothing in what is none.
    """
    platform = subject.archive.name.platform
    native = is_linux_platform(platform)
    if not native and subject.machine != ANY_MACHINE:
        return skip(_CHECK, f"for {platform}: only libraries of Linux are read")
    faults = list(_impostors(subject))
    held = {library.path for library in subject.libraries}
    if native:
        faults += [
            f"{path} is missing ([tool.variantwheel.check] libraries declares it)"
            for path in subject.project.check.libraries
            if path not in subject.archive.files
        ]
        if not faults and not held and not _for_gpus_alone(subject):
            faults.append(
                f"no native code at all, although it is for {subject.machine} alone: was it built? "
                "A wheel that needs none is tagged py3-none-any"
            )
    return judge(_CHECK, faults, f"{len(held)}, all ELF files")


def _impostors(subject: CheckSubject) -> Iterator[str]:
    held = {library.path for library in subject.libraries}
    for path, data in sorted(subject.archive.files.items()):
        if _NAME.search(path) and path not in held and not is_device_object(data):
            found = f"begins with {data[:_SHOWN_BYTES]!r}" if data else "is empty"
            yield f"{path}: named like a shared library, and no ELF file: {found}; nothing loads it"


def _for_gpus_alone(subject: CheckSubject) -> bool:
    return any(map(find_device_code, subject.archive.files.values()))
