"""The platform tag that a wheel's native libraries deserve, by auditwheel's analysis."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auditwheel.architecture import Architecture  # type: ignore[import-untyped,unused-ignore]
from auditwheel.error import (  # type: ignore[import-untyped,unused-ignore]
    AuditwheelError,
    NonPlatformWheelError,
)
from auditwheel.wheel_abi import analyze_wheel_abi  # type: ignore[import-untyped,unused-ignore]

from variantwheel.errors import WheelFormatError
from variantwheel.native_library import ELF_DAMAGE
from variantwheel.wheel_archive import read_wheel, wheel_name_of
from variantwheel_selector.system_refusal import is_refusal


@dataclass(frozen=True)
class PlatformAudit:
    """What auditwheel says about the native libraries of a wheel.

    Attributes:
        tag: The platform tag of the strictest policy that holds, such as
            `manylinux_2_34_x86_64`; `linux_x86_64` if none does.
        foreign_libraries: Needed libraries that no policy allows.
        newest_symbols: The newest version of each kind of symbol that is needed, in words.
    """

    tag: str
    foreign_libraries: tuple[str, ...]
    newest_symbols: tuple[str, ...]


def is_linux_platform(platform: str) -> bool:
    """Tell whether a platform tag is one that auditwheel can judge."""
    return platform.startswith(("linux_", "manylinux", "musllinux"))


def audit_platform(wheel: Path, machine: str) -> PlatformAudit | None:
    """Analyse a wheel.

    Args:
        wheel: A file with or without a variant label.
        machine: What its libraries have to be built for.

    Returns:
        The audit, or none for a wheel without native libraries.

    Raises:
        WheelFormatError: The libraries are built for something else or are damaged, or RECORD is
            no list of what is there.
        OSError: The system refuses, as with a full disk.
    """
    plain = str(wheel_name_of(wheel).with_label(None))
    # auditwheel keeps results by path and knows no labels: it gets a fresh path of a plain name.
    with tempfile.TemporaryDirectory(prefix="variantwheel-audit-") as folder, _quiet_auditwheel():
        link = Path(folder) / plain
        link.symlink_to(wheel.resolve())
        try:
            found = analyze_wheel_abi(
                None,
                Architecture(machine),
                link,
                frozenset(),
                # A variant's libraries are meant to need more than the baseline.
                disable_isa_ext_check=True,
                allow_graft=False,
            )
        except NonPlatformWheelError as error:
            if not _holds_native_code(wheel):
                return None
            raise WheelFormatError(f"{wheel.name}: not for {machine}: {error.message}") from error
        except OSError as error:
            if is_refusal(error):
                raise
            # auditwheel opens what RECORD lists, in a folder of its own that nobody can look at.
            place = f"{Path(os.fsdecode(error.filename)).name}: " if error.filename else ""
            raise WheelFormatError(f"{wheel.name}: auditwheel: {place}{error.strerror}") from error
        # LookupError: a RECORD with an empty line, too.
        except (AuditwheelError, RuntimeError, *ELF_DAMAGE) as error:
            words = str(error) or "a damaged ELF file"
            raise WheelFormatError(f"{wheel.name}: auditwheel: {words}") from error
    lowest = found.policies.lowest.name
    return PlatformAudit(
        tag=found.overall_policy.name,
        foreign_libraries=tuple(sorted(found.external_refs[lowest].libs)),
        newest_symbols=tuple(_newest(found.versioned_symbols)),
    )


def _holds_native_code(wheel: Path) -> bool:
    return any(data.startswith(b"\x7fELF") for data in read_wheel(wheel).files.values())


def _newest(symbols: dict[str, set[str]]) -> Iterator[str]:
    newest: dict[str, tuple[tuple[int, ...], str]] = {}
    for library, versions in symbols.items():
        for version in versions:
            prefix, _, number = version.rpartition("_")
            parts = number.split(".")
            if prefix and all(part.isdigit() for part in parts):
                key = tuple(int(part) for part in parts)
                newest[prefix] = max(newest.get(prefix, ((), "")), (key, f"{version} ({library})"))
    for _, text in sorted(newest.values(), key=lambda item: item[1]):
        yield text


@contextmanager
def _quiet_auditwheel() -> Iterator[None]:
    """Keep auditwheel's own remarks off the terminal."""
    logger = logging.getLogger("auditwheel")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
