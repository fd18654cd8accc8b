"""A wheel under test, with everything that the checks look at read once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from variantwheel.core_metadata import CoreMetadata, parse_core_metadata
from variantwheel.definition import Definition, Platform
from variantwheel.errors import WheelFormatError
from variantwheel.native_library import NativeLibrary, read_native_libraries
from variantwheel.platform_tag import PlatformAudit, audit_platform, is_linux_platform
from variantwheel.project import Project
from variantwheel.release_folder import ANY_MACHINE, machine_of
from variantwheel.wheel_archive import WheelArchive, read_wheel


@dataclass(frozen=True)
class CheckSubject:
    """A wheel and what it is compared with.

    Attributes:
        file: The wheel.
        archive: Its content.
        project: The project that it should be a variant of.
        definition: Of its label, or none.
        platform: Of the definition for the wheel's machine, or none.
        machine: From the platform tag.
        metadata: From METADATA.
        libraries: Its ELF files.
        audit: auditwheel's analysis, or none for a wheel without native Linux code.
        audit_problem: Why there is no analysis although there should be.
    """

    file: Path
    archive: WheelArchive
    project: Project
    definition: Definition | None
    platform: Platform | None
    machine: str
    metadata: CoreMetadata
    libraries: tuple[NativeLibrary, ...]
    audit: PlatformAudit | None
    audit_problem: str

    def platform_here(self) -> Platform | None:
        """Return how the wheel is built and run on this machine: for any machine, as its own."""
        if self.machine != ANY_MACHINE or self.definition is None:
            return self.platform
        return self.definition.platform_for(os.uname().machine)


def read_subject(file: Path, project: Project) -> CheckSubject:
    """Read a wheel.

    Raises:
        WheelFormatError: It cannot be read as one.
    """
    archive = read_wheel(file)
    machine = machine_of(archive.name)
    label = archive.name.label
    found = [item for item in project.definitions if item.label == label]
    definition = found[0] if found else None
    audit, problem = None, ""
    if is_linux_platform(archive.name.platform):
        try:
            audit = audit_platform(file, machine)
        except WheelFormatError as error:
            problem = str(error)
    return CheckSubject(
        file=file,
        archive=archive,
        project=project,
        definition=definition,
        platform=None if definition is None else definition.platform_for(machine),
        machine=machine,
        metadata=parse_core_metadata(archive.dist_info_file("METADATA")),
        libraries=tuple(read_native_libraries(archive.files)),
        audit=audit,
        audit_problem=problem,
    )
