"""Variant definitions: one TOML file per label, the only place where a variant is described."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel.errors import DefinitionError
from variantwheel.toml_table import TomlTable, read_toml, suggest
from variantwheel_selector.errors import InvalidNameError
from variantwheel_selector.model import Variant, VariantProperty, check_label

SYSTEM_TOOLCHAIN = "system"
"""The toolchain that stands for the compilers which the machine has anyway."""

_ISA_PATTERNS = {
    "x86_64": re.compile(r"x86_64_v[1-4]"),
    "aarch64": re.compile(r"armv[89]\.[0-9]"),
    "arm64": re.compile(r"armv[89]\.[0-9]"),
}
_BASELINE_ISA = {"x86_64": "x86_64_v1", "aarch64": "armv8.0", "arm64": "armv8.0"}
_PLATFORM_KEYS = (
    "machine",
    "toolchain",
    "runner",
    "config-settings",
    "environment",
    "isa",
    "size-budget-kb",
    "emulate",
)


@dataclass(frozen=True)
class Emulation:
    """CPU models under which qemu's user-mode emulation tries the wheel.

    Attributes:
        runs: Models on which the variant runs at its own level.
        falls_back: Models on which its baseline library has to take over.
    """

    runs: tuple[str, ...] = ()
    falls_back: tuple[str, ...] = ()


@dataclass(frozen=True)
class Platform:
    """How a variant is built for one kind of machine.

    Attributes:
        machine: As `uname -m` and platform tags spell it.
        toolchain: `system`, or a toolchain of `[tool.variantwheel.toolchains]`.
        runner: The CI runner.
        isa: The highest instruction set that its code may need.
        config_settings: Handed to the build backend.
        environment: Environment variables of the build.
        size_budget_kb: Largest size of the wheel in KiB, or none.
        emulation: CPU models for tests without the hardware.
    """

    machine: str
    toolchain: str
    runner: str
    isa: str
    config_settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    size_budget_kb: int | None = None
    emulation: Emulation = field(default_factory=Emulation)


@dataclass(frozen=True)
class Definition:
    """One variant of a project: what it needs and how it is built."""

    file: Path
    variant: Variant
    summary: str
    platforms: tuple[Platform, ...]

    @property
    def label(self) -> str:
        """The variant's label."""
        return self.variant.label

    def platform_for(self, machine: str) -> Platform | None:
        """Return how the variant is built for a machine, or none where it is not."""
        return next((item for item in self.platforms if item.machine == machine), None)


def read_definitions(folder: Path) -> tuple[Definition, ...]:
    """Read all definitions of a project, sorted by label.

    Raises:
        DefinitionError: The folder holds none, one is wrong, or two contradict each other.
    """
    if not folder.is_dir():
        raise DefinitionError(
            f"{folder}: no such folder; `definitions` in [tool.variantwheel] of pyproject.toml "
            "has to name the folder with one TOML file per variant"
        )
    found = sorted(
        (read_definition(file) for file in sorted(folder.glob("*.toml"))), key=lambda d: d.label
    )
    if not found:
        raise DefinitionError(f"{folder}: holds no variant definition; write null.toml first")
    by_properties: dict[tuple[VariantProperty, ...], Definition] = {}
    for definition in found:
        other = by_properties.setdefault(definition.variant.properties, definition)
        if other is not definition:
            raise DefinitionError(
                f"{definition.file}: properties: the same as in {other.file.name}; "
                "one of the two labels would never be chosen"
            )
    return tuple(found)


def read_definition(file: Path) -> Definition:
    """Read one definition.

    Raises:
        DefinitionError: The file is not a definition; names the file, the key and the fix.
    """
    document = read_toml(file)
    document.allow_only(("label", "summary", "properties", "platforms"))
    label = document.string("label")
    try:
        check_label(label)
        variant = Variant(label, _read_properties(document.table("properties")))
    except InvalidNameError as error:
        raise DefinitionError(f"{file}: label: {error}") from error
    if file.stem != label:
        document.fail("label", f"{label!r} stands in {file.name}; name the file {label}.toml")
    platforms = tuple(_read_platform(table) for table in document.tables("platforms"))
    machines = [platform.machine for platform in platforms]
    for machine in machines:
        if machines.count(machine) > 1:
            document.fail("platforms", f"machine {machine!r} stands in two of them; join them")
    return Definition(file, variant, document.string("summary"), platforms)


def _read_properties(table: TomlTable) -> tuple[VariantProperty, ...]:
    properties: list[VariantProperty] = []
    for namespace in table.members:
        features = table.table(namespace)
        for feature in features.members:
            values = features.strings(feature)
            if not values:
                features.fail(feature, "names no value; delete the key or name one")
            try:
                properties += [VariantProperty(namespace, feature, value) for value in values]
            except InvalidNameError as error:
                features.fail(feature, str(error))
    return tuple(properties)


def _read_platform(table: TomlTable) -> Platform:
    table.allow_only(_PLATFORM_KEYS)
    machine = table.string("machine")
    if machine not in _ISA_PATTERNS:
        table.fail("machine", f"unknown machine {machine!r}; {suggest(machine, _ISA_PATTERNS)}")
    isa = table.string("isa", _BASELINE_ISA[machine])
    if not _ISA_PATTERNS[machine].fullmatch(isa):
        table.fail(
            "isa",
            f"{isa!r} is no level of {machine}: must match {_ISA_PATTERNS[machine].pattern}, "
            f"the lowest is {_BASELINE_ISA[machine]!r}",
        )
    emulate = table.table("emulate")
    emulate.allow_only(("runs", "falls-back"))
    return Platform(
        machine=machine,
        toolchain=table.string("toolchain", SYSTEM_TOOLCHAIN),
        runner=table.string("runner"),
        isa=isa,
        config_settings=table.string_map("config-settings"),
        environment=table.string_map("environment"),
        size_budget_kb=table.positive_integer("size-budget-kb"),
        emulation=Emulation(emulate.strings("runs", ()), emulate.strings("falls-back", ())),
    )
