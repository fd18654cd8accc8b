"""Checks of the native libraries: needs, exports, instruction sets and traces of the build."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from variantwheel.arm_instructions import (
    BASELINE,
    Version,
    arm_instructions_above,
    parse_version,
)
from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.instruction_levels import instructions_above
from variantwheel.native_library import NativeLibrary
from variantwheel.release_folder import ANY_MACHINE

_X86_LEVEL = re.compile(r"x86_64_v([1-4])")
_MOST_FAULTS = 5
# Mangled names of the C++ runtime: std::, __gnu_cxx::, __cxxabiv1::, new, delete, the unwinder.
_RUNTIME_SYMBOL = re.compile(
    r"_ZG?[TV]?[ISTV]?N?V?K?[RO]?(St|S[absiod]|9__gnu_cxx|10__cxxabiv1)"
    r"|_Z(n[wa]|d[la])|__cxa_|__gxx_|_Unwind_"
)
_SOURCE_PATH = re.compile(
    rb"(?<![\w.+@/-])/[\w.+@-]+(?:/[\w.+@-]+)+\.(?:c|cc|cpp|cxx|h|hh|hpp|hxx|inl|ipp|S|cu|cuh|pyx)"
    rb"(?![\w.])"
)
_SYSTEM_PATHS = (b"/usr/",)
_COMMON_HOMES = (b"/root",)
"""Homes on every system, of which texts speak whoever built the wheel."""


def check_needs(subject: CheckSubject) -> Finding:
    """See whether the libraries that are needed are on every Linux of the tag's kind."""
    if subject.audit is None:
        return skip("needed libraries", subject.audit_problem or "no native Linux code")
    needed = sorted({name for library in subject.libraries for name in library.needed})
    faults = [
        f"{name} is needed ({_users(subject, name)}), and on no manylinux system"
        for name in subject.audit.foreign_libraries
    ]
    return judge("needed libraries", faults, ", ".join(needed) or "none")


def check_search_paths(subject: CheckSubject) -> Finding:
    """Refuse RPATH and RUNPATH: what is loaded must not depend on folders of the build."""
    faults = [
        f"{library.path}: RPATH or RUNPATH {path!r}"
        for library in subject.libraries
        for path in library.search_paths
    ]
    return judge("search paths", faults, "no RPATH, no RUNPATH")


def check_exports(subject: CheckSubject) -> Finding:
    """See whether the libraries export a small interface and nothing of the C++ runtime."""
    limit = subject.project.check.max_exports
    faults: list[str] = []
    for library in subject.libraries:
        leaked = [name for name in library.exports if _RUNTIME_SYMBOL.match(name)]
        if leaked:
            faults.append(
                f"{library.path}: exports {len(leaked)} symbols of the C++ runtime, which could "
                f"take the place of another library's: {', '.join(leaked[:3])}"
            )
        if len(library.exports) > limit:
            faults.append(
                f"{library.path}: exports {len(library.exports)} symbols, the limit is {limit} "
                f"([tool.variantwheel.check] max-exports): {', '.join(library.exports[:3])}, …"
            )
        stray = _undeclared_exports(subject, library)
        if stray:
            faults.append(
                f"{library.path}: exports {', '.join(stray[:_MOST_FAULTS])}, which "
                "[tool.variantwheel.check] exports does not name; hide them, by "
                "-fvisibility=hidden or a version script"
            )
    counts = [f"{item.path.rpartition('/')[2]} {len(item.exports)}" for item in subject.libraries]
    return judge("exports", faults, ", ".join(counts) or "no libraries")


def check_plugins(subject: CheckSubject) -> Finding:
    """See whether the declared plug-ins are there, each with its own symbols and no others."""
    check, declared = "plug-ins", subject.project.check.plugins
    if not declared:
        return skip(check, "none are declared")
    if subject.machine == ANY_MACHINE:
        return skip(check, "for any machine: it has no libraries")
    libraries = {library.path: library for library in subject.libraries}
    faults: list[str] = []
    for path, symbols in declared.items():
        if path not in libraries:
            faults.append(f"{path} is missing ([tool.variantwheel.check.plugins] declares it)")
        elif set(libraries[path].exports) != set(symbols):
            found = ", ".join(libraries[path].exports) or "nothing"
            faults.append(f"{path} exports {found}; declared is {', '.join(symbols)}")
    return judge(check, faults, ", ".join(path.rpartition("/")[2] for path in declared))


def check_level_folders(subject: CheckSubject) -> Finding:
    """See whether the libraries of the declared levels are there, and of none above them."""
    check = "level folders"
    if subject.platform is None or subject.machine not in ("x86_64", "aarch64"):
        return skip(check, "no level is declared")
    if subject.project.check.whole_wheel:
        return skip(check, "the project's wheels are of one level as a whole")
    level = subject.platform.isa
    if subject.machine == "aarch64":
        return _judge_arm_folders(subject, level)
    found = sorted({_level_folder(library) for library in subject.libraries})
    faults: list[str] = []
    if level_number(level) > 1 and level not in found:
        faults.append(
            f"no library lies in a folder {level!r}, the level that the definition declares; "
            f"there are {', '.join(found) or 'none'}"
        )
    dispatched = subject.platform.dispatched_levels
    faults += [
        f"no library lies in a folder {folder!r}, which dispatched-levels declares"
        for folder in dispatched
        if folder not in found
    ]
    faults += [
        f"a folder {folder!r} is above the declared level {level!r}, and not one of "
        "dispatched-levels"
        for folder in found
        if level_number(folder) > level_number(level) and folder not in dispatched
    ]
    return judge(check, faults, ", ".join(found))


def _judge_arm_folders(subject: CheckSubject, isa: str) -> Finding:
    """See whether a variant above the baseline has libraries in a folder of its own name."""
    label = "" if subject.definition is None else subject.definition.label
    found = sorted({library.folder for library in subject.libraries})
    faults = []
    if parse_version(isa) > BASELINE and label not in found:
        faults = [f"no library lies in a folder {label!r}; there are {', '.join(found) or 'none'}"]
    return judge("level folders", faults, ", ".join(found))


def check_isa_notes(subject: CheckSubject) -> Finding:
    """See whether each library's note makes the loader refuse it on a CPU that is too old."""
    if subject.machine != "x86_64":
        return skip("ISA notes", f"no such notes on {subject.machine}")
    faults: list[str] = []
    for library in subject.libraries:
        level = _level(subject, library)
        highest = max((level_number(item) for item in library.isa_needed), default=1)
        if highest != level:
            fix = f"link with -Wl,-z,x86-64-v{level}" if level > 1 else "link without -z x86-64-v…"
            place = "definition" if subject.project.check.whole_wheel else "folder"
            faults.append(
                f"{library.path}: the note says x86_64_v{highest}, "
                f"the {place} x86_64_v{level}; {fix}"
            )
    return judge("ISA notes", faults, "each library's note is that of its level")


def check_instructions(subject: CheckSubject) -> Finding:
    """Disassemble the libraries and look for instructions above the level of their folder."""
    if subject.machine not in ("x86_64", "aarch64"):
        return skip("instructions", f"no disassembler for {subject.machine} here")
    faults: list[str] = []
    dispatched = subject.project.check.dispatched_functions
    for library in subject.libraries:
        code, functions = library.code, library.functions
        found: Sequence[object]
        if subject.machine == "x86_64":
            found = instructions_above(_level(subject, library), code, functions, dispatched)
        else:
            version = _arm_version(subject, library)
            found = arm_instructions_above(version, code, functions, dispatched)
        faults += [f"{library.path}: {finding}" for finding in found[:_MOST_FAULTS]]
    size = sum(len(section.data) for item in subject.libraries for section in item.code)
    return judge("instructions", faults, f"{size / 1024:.0f} KiB of code disassembled")


def check_machine(subject: CheckSubject) -> Finding:
    """See whether the libraries are for the machine of the platform tag."""
    faults = [
        f"{library.path}: for {library.machine}, the tag says {subject.machine}"
        for library in subject.libraries
        if library.machine != subject.machine
    ]
    return judge("machine", faults, f"{len(subject.libraries)} libraries for {subject.machine}")


def check_build_paths(subject: CheckSubject) -> Finding:
    """Look for folders of the machine that built the wheel."""
    faults: list[str] = []
    folders = {
        os.fsencode(folder)
        for folder in (subject.project.folder.resolve(), Path.home())
        if len(folder.parts) > 1
    }
    for library in subject.libraries:
        faults += [f"{library.path}: {path}" for path in _source_paths(library)]
    for path, data in subject.archive.files.items():
        faults += [
            f"{path}: holds the path {folder.decode(errors='replace')}"
            for folder in folders
            if folder not in _COMMON_HOMES or b"\0" in data
            # Not a part of a longer path, nor of words that slashes join.
            if re.search(rb"(?<![\w.+@-])" + re.escape(folder) + b"/", data)
        ]
    return judge("build paths", faults[: 2 * _MOST_FAULTS], "none")


def level_number(folder: str) -> int:
    """Return the psABI level that a name stands for; 1 for `baseline` and all others."""
    found = _X86_LEVEL.fullmatch(folder)
    return int(found[1]) if found else 1


def _level(subject: CheckSubject, library: NativeLibrary) -> int:
    """Return the level that a library may need."""
    if subject.project.check.whole_wheel and subject.platform is not None:
        return level_number(subject.platform.isa)
    return level_number(_level_folder(library))


def _arm_version(subject: CheckSubject, library: NativeLibrary) -> Version:
    """Return the version that a library may need: the declared one in the label's own folder."""
    if subject.platform is None or subject.definition is None:
        return BASELINE
    own = library.folder == subject.definition.label or subject.project.check.whole_wheel
    return parse_version(subject.platform.isa) if own else BASELINE


def _level_folder(library: NativeLibrary) -> str:
    """Return the level of the folder that a library lies in: outside of all, the baseline."""
    return library.folder if _X86_LEVEL.fullmatch(library.folder) else "baseline"


def _undeclared_exports(subject: CheckSubject, library: NativeLibrary) -> list[str]:
    declared = subject.project.check.exports
    if declared is None:
        return []
    patterns = (*declared, "PyInit_*", *subject.project.check.plugins.get(library.path, ()))
    return [name for name in library.exports if not any(fnmatchcase(name, p) for p in patterns)]


def _users(subject: CheckSubject, name: str) -> str:
    return ", ".join(item.path for item in subject.libraries if name in item.needed) or "indirectly"


def _source_paths(library: NativeLibrary) -> Iterator[str]:
    found = {match[0] for match in _SOURCE_PATH.finditer(library.data)}
    for path in sorted(found)[:_MOST_FAULTS]:
        if not path.startswith(_SYSTEM_PATHS):
            yield f"{path.decode(errors='replace')}; compile with -ffile-prefix-map"
