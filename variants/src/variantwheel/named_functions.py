"""The functions of an ELF file that its symbol tables name, each with where it begins and ends."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct.core import ConstructError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_UNREADABLE = (
    *(DWARFError, ELFError, ConstructError),
    *(AssertionError, LookupError, RecursionError, ValueError),
)
"""What pyelftools raises on unwind tables that it does not understand."""


@dataclass(frozen=True, order=True)
class NamedFunction:
    """A function and the addresses that its symbol claims, the last one excluded."""

    start: int
    end: int
    name: str


class NamedFunctions:
    """Functions by the addresses in them; what lies in none of them has no name."""

    def __init__(self, functions: Iterable[NamedFunction] = ()) -> None:
        """Take the functions, in any order; they may have the same addresses or hold others."""
        self._functions = sorted(functions)
        self._starts = [function.start for function in self._functions]
        # How far anything up to a function reaches: where a search for what is around it may end.
        self._reach = list(accumulate((item.end for item in self._functions), max))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._functions)

    def names_at(self, address: int) -> Iterator[str]:
        """Return the names of the functions that an address lies in, the innermost first."""
        position = bisect.bisect_right(self._starts, address) - 1
        while position >= 0 and self._reach[position] > address:
            if self._functions[position].end > address:
                yield self._functions[position].name
            position -= 1


def read_functions(elf: ELFFile) -> NamedFunctions:
    """Read the functions of `.symtab` and `.dynsym`.

    A symbol without a size, as hand-written assembly has, claims its address to the end of the
    unwind table's entry for it, or else to whatever begins next: a function, an entry, or the end
    of the section.
    """
    sized: set[NamedFunction] = set()
    unsized: set[tuple[int, int, str]] = set()
    for address, size, limit, name in _symbols(elf):
        if size:
            sized.add(NamedFunction(address, min(address + size, limit), name))
        else:
            unsized.add((address, limit, name))
    if unsized:
        entries = _unwind_entries(elf)
        begins = sorted(
            {item.start for item in sized} | {item[0] for item in unsized} | entries.keys()
        )
        for start, limit, name in unsized:
            following = bisect.bisect_right(begins, start)
            ends = [limit, *entries.get(start, begins[following : following + 1])]
            sized.add(NamedFunction(start, min(ends), name))
    return NamedFunctions(sized)


def _symbols(elf: ELFFile) -> Iterator[tuple[int, int, int, str]]:
    """Yield address, size, end of the section and name of each defined function."""
    limits = [item["sh_addr"] + item["sh_size"] for item in elf.iter_sections()]
    for table in map(elf.get_section_by_name, (".symtab", ".dynsym")):
        for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
            place = symbol["st_shndx"]
            if symbol["st_info"]["type"] == "STT_FUNC" and isinstance(place, int):
                yield symbol["st_value"], symbol["st_size"], limits[place], symbol.name


def _unwind_entries(elf: ELFFile) -> dict[int, list[int]]:
    """Return the end of each piece of code that `.eh_frame` describes, by its start."""
    try:
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        found = dwarf.EH_CFI_entries() if dwarf.has_EH_CFI() else []
        return {
            entry.header["initial_location"]: [
                entry.header["initial_location"] + entry.header["address_range"]
            ]
            for entry in found
            if isinstance(entry, FDE)
        }
    except _UNREADABLE:
        return {}
