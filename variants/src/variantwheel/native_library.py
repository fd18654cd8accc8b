"""What an ELF file in a wheel says about itself: needs, exports, notes and code."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.construct.core import ConstructError
from elftools.elf.dynamic import DynamicSection, DynamicTag
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection

from variantwheel.device_code import is_device_object
from variantwheel.errors import WheelFormatError
from variantwheel.named_functions import NamedFunctions, read_functions

ELF_DAMAGE = (ELFError, ConstructError, AssertionError, LookupError, OverflowError, ValueError)
"""What pyelftools raises on files that are no sound ELF files."""

_ELF_MAGIC = b"\x7fELF"
_EXECUTABLE_SECTION = 0x4
_MACHINES = {"x64": "x86_64", "AArch64": "aarch64"}
# GNU_PROPERTY_X86_ISA_1_NEEDED, bit by bit (x86-64 psABI, section "Program Property").
_ISA_BITS = (
    (1, "x86_64_v1"),
    (2, "x86_64_v2"),
    (4, "x86_64_v3"),
    (8, "x86_64_v4"),
)
# The linker defines these in every library that does not hide them.
_LINKER_SYMBOLS = frozenset({"_init", "_fini", "_edata", "_end", "__bss_start", "_start"})


@dataclass(frozen=True)
class CodeSection:
    """Machine code and the address that it is loaded to."""

    name: str
    address: int
    data: bytes


@dataclass(frozen=True)
class NativeLibrary:
    """One ELF file.

    Attributes:
        path: Inside the wheel.
        machine: As platform tags spell it.
        needed: DT_NEEDED.
        search_paths: DT_RPATH and DT_RUNPATH.
        exports: Defined symbols that other libraries can see, sorted.
        isa_needed: Levels of the note `x86 ISA needed`, lowest first.
        code: Executable sections.
        functions: Those that the symbol tables name.
        data: The whole file.
    """

    path: str
    machine: str
    needed: tuple[str, ...]
    search_paths: tuple[str, ...]
    exports: tuple[str, ...]
    isa_needed: tuple[str, ...]
    code: tuple[CodeSection, ...]
    functions: NamedFunctions
    data: bytes

    @property
    def folder(self) -> str:
        """The name of the folder it lies in."""
        return self.path.rpartition("/")[0].rpartition("/")[2]


def read_native_libraries(files: Mapping[str, bytes]) -> list[NativeLibrary]:
    """Read all ELF files among the files of a wheel, but for those that a GPU executes.

    Raises:
        WheelFormatError: One of them is damaged.
    """
    return [
        parse_native_library(path, files[path])
        for path in sorted(files)
        if files[path].startswith(_ELF_MAGIC) and not is_device_object(files[path])
    ]


def parse_native_library(path: str, data: bytes) -> NativeLibrary:
    """Read one ELF file.

    Args:
        path: Its path inside the wheel.
        data: Its bytes.

    Raises:
        WheelFormatError: It is damaged, or hides what would be checked.
    """
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf.num_sections() == 0:
            raise ELFError(
                "no section headers (sstrip and UPX take them out), without which neither its "
                "needs nor its code can be checked"
            )
        dynamic = elf.get_section_by_name(".dynamic")
        tags = list(dynamic.iter_tags()) if isinstance(dynamic, DynamicSection) else []
        arch = str(elf.get_machine_arch())
        return NativeLibrary(
            path=path,
            machine=_MACHINES.get(arch, arch),
            needed=_tag_values(tags, "DT_NEEDED", "needed"),
            search_paths=(
                *_tag_values(tags, "DT_RPATH", "rpath"),
                *_tag_values(tags, "DT_RUNPATH", "runpath"),
            ),
            exports=tuple(sorted(_exports(elf))),
            isa_needed=_isa_needed(elf),
            code=tuple(_code(elf)),
            functions=read_functions(elf),
            data=data,
        )
    except ELF_DAMAGE as error:
        raise WheelFormatError(f"{path}: a damaged ELF file: {error}") from error


def _tag_values(tags: list[DynamicTag], kind: str, attribute: str) -> tuple[str, ...]:
    # pyelftools adds the attribute to the tags of the kind alone.
    return tuple(str(getattr(tag, attribute)) for tag in tags if tag.entry.d_tag == kind)


def _exports(elf: ELFFile) -> Iterator[str]:
    table = elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return
    for symbol in table.iter_symbols():
        defined = symbol["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")
        visible = symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
        bound = symbol["st_info"]["bind"] != "STB_LOCAL"
        if defined and visible and bound and symbol.name and symbol.name not in _LINKER_SYMBOLS:
            yield symbol.name


def _isa_needed(elf: ELFFile) -> tuple[str, ...]:
    # The loader reads note segments, whatever the sections in them are called.
    bits = 0
    for section in elf.iter_sections("SHT_NOTE"):
        for note in section.iter_notes() if isinstance(section, NoteSection) else ():
            # Types are numbers of each owner's own.
            if (note["n_name"], note["n_type"]) == ("GNU", "NT_GNU_PROPERTY_TYPE_0"):
                for item in note["n_desc"]:
                    if item["pr_type"] == "GNU_PROPERTY_X86_ISA_1_NEEDED":
                        bits |= int(item["pr_data"])
    return tuple(level for bit, level in _ISA_BITS if bits & bit)


def _code(elf: ELFFile) -> Iterator[CodeSection]:
    for section in elf.iter_sections("SHT_PROGBITS"):
        if section["sh_flags"] & _EXECUTABLE_SECTION:
            yield CodeSection(section.name, section["sh_addr"], section.data())
