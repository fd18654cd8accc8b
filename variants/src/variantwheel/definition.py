"""Variant definitions: one TOML file per label, the only place where a variant is described."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel.definition_keys import (
    DEFINITION_KEYS,
    EMULATE_KEYS,
    PLATFORM_KEYS,
    key_names,
)
from variantwheel.errors import DefinitionError
from variantwheel.isa_levels import isa_rank, promised_isa
from variantwheel.toml_table import TomlTable, read_toml, suggest
from variantwheel.vocabulary import MACHINES_OF, Vocabulary
from variantwheel_selector.errors import InvalidNameError
from variantwheel_selector.model import Variant, VariantProperty, check_label

SYSTEM_TOOLCHAIN = "system"
"""The toolchain that stands for the compilers which the machine has anyway."""

_ISA_PATTERNS = {
    "x86_64": re.compile(r"x86_64_v[1-4]"),
    "aarch64": re.compile(r"armv[89]\.[0-9]"),
    "arm64": re.compile(r"armv[89]\.[0-9]"),
}
_OTHER_NAMES = {
    **dict.fromkeys(("amd64", "x64", "intel64"), "x86_64"),
    **dict.fromkeys(("armv8", "arm64v8"), "aarch64"),
}
"""What else the machines are called, closer in letters to another of them or to none."""
_LEVEL_FEATURES = {
    "x86_64": ("x86_64", "level"),
    "aarch64": ("aarch64", "version"),
    "arm64": ("aarch64", "version"),
}
"""The property that says how new a machine's CPU has to be."""
_BASELINE_ISA = {"x86_64": "x86_64_v1", "aarch64": "armv8.0", "arm64": "armv8.0"}


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
        requires: Requirements of the build beside its toolchain's.
        dispatched_levels: Levels above it whose libraries the code opens where the CPU has them.
        size_budget_kb: Largest size of the wheel in KiB, or none.
        emulation: CPU models for tests without the hardware.
    """

    machine: str
    toolchain: str
    runner: str
    isa: str
    config_settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    dispatched_levels: tuple[str, ...] = ()
    size_budget_kb: int | None = None
    emulation: Emulation = field(default_factory=Emulation)


@dataclass(frozen=True)
class Definition:
    """One variant of a project: what it needs and how it is built.

    Attributes:
        document: The file as it was read; words faults with their place.
        variant: Label and properties.
        summary: What it is.
        platforms: One for each machine that it is built for.
    """

    document: TomlTable
    variant: Variant
    summary: str
    platforms: tuple[Platform, ...]

    @property
    def file(self) -> Path:
        """The file that defines it."""
        return self.document.file

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
            definition.document.fail(
                "properties",
                f"the same as in {other.file.name}; one of the two labels would never be chosen",
            )
    return tuple(found)


def read_definition(file: Path) -> Definition:
    """Read one definition.

    Raises:
        DefinitionError: The file is not a definition; names the file, the key and the fix.
    """
    document = read_toml(file)
    document.allow_only(key_names(DEFINITION_KEYS))
    label = document.string("label")
    try:
        check_label(label)
        variant = Variant(label, _read_properties(document.table("properties")))
    except InvalidNameError as error:
        raise document.fault("label", str(error)) from error
    if file.stem != label:
        document.fail("label", f"{label!r} stands in {file.name}; name the file {label}.toml")
    platforms = tuple(_read_platform(table) for table in document.tables("platforms"))
    machines = [platform.machine for platform in platforms]
    for machine in machines:
        if machines.count(machine) > 1:
            document.fail("platforms", f"machine {machine!r} stands in two of them; join them")
    definition = Definition(document, variant, document.string("summary"), platforms)
    _check_consistent(definition)
    return definition


def check_words(definition: Definition, vocabulary: Vocabulary) -> None:
    """Refuse properties that no machine can have.

    Raises:
        DefinitionError: Names the property and the closest one that exists.
    """
    properties = definition.document.table("properties")
    for namespace in properties.members:
        features = properties.table(namespace)
        for feature in features.members:
            if problem := vocabulary.feature_problem(namespace, feature):
                features.fail(feature, problem)
            for position, value in enumerate(features.strings(feature)):
                if problem := vocabulary.value_problem(namespace, feature, value):
                    features.fail(f"{feature}[{position}]", problem)


def check_whole_wheel(definition: Definition) -> None:
    """Refuse code above the baseline in wheels that hold no other, and that any machine may get.

    Raises:
        DefinitionError: Names the level and the property that would promise it.
    """
    tables = definition.document.tables("platforms")
    for platform, table in zip(definition.platforms, tables, strict=True):
        namespace, feature = _LEVEL_FEATURES[platform.machine]
        stated = (namespace, feature) in definition.variant.features()
        lowest = _BASELINE_ISA[platform.machine]
        # Each Mac with an arm64 CPU is above Arm's baseline.
        if stated or platform.machine == "arm64" or isa_rank(platform.isa) <= isa_rank(lowest):
            continue
        table.fail(
            "isa",
            f"{platform.isa!r} is above {lowest!r}, which is all that is promised without a "
            f"property {namespace} :: {feature}, and with whole-wheel the wheel holds no other "
            f"code: machines would choose the variant which cannot run it; state {namespace}."
            f"{feature} in the properties, or lower isa to {lowest!r}",
        )


def _check_consistent(definition: Definition) -> None:
    """Refuse platforms whose machines can never support the properties, or not run the code."""
    platforms = definition.document.tables("platforms")
    for platform, table in zip(definition.platforms, platforms, strict=True):
        for namespace, machines in MACHINES_OF.items():
            used = any(item.namespace == namespace for item in definition.variant.properties)
            if used and platform.machine not in machines:
                table.fail(
                    "machine",
                    f"no {platform.machine!r} supports a property of {namespace!r}; "
                    f"give the variant machines of {' or '.join(machines)} alone",
                )
        feature = _LEVEL_FEATURES[platform.machine]
        promised = promised_isa(definition.variant.features().get(feature, ()))
        if promised is not None and isa_rank(platform.isa) > isa_rank(promised[1]):
            words = " :: ".join((*feature, promised[0]))
            table.fail(
                "isa",
                f"{platform.isa!r} is above the property {words}, so that machines would choose "
                f"the variant which cannot run it; lower isa to {promised[1]!r} or raise the "
                "property",
            )


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
    table.allow_only(key_names(PLATFORM_KEYS))
    machine = table.string("machine")
    if machine not in _ISA_PATTERNS:
        proper = _OTHER_NAMES.get(machine.lower())
        meant = f"did you mean {proper!r}?" if proper else suggest(machine, _ISA_PATTERNS)
        table.fail("machine", f"unknown machine {machine!r}; {meant}")
    isa = table.string("isa", _BASELINE_ISA[machine])
    if not _ISA_PATTERNS[machine].fullmatch(isa):
        table.fail(
            "isa",
            f"{isa!r} is no level of {machine}: must match {_ISA_PATTERNS[machine].pattern}, "
            f"the lowest is {_BASELINE_ISA[machine]!r}",
        )
    dispatched = table.strings("dispatched-levels", ())
    for position, level in enumerate(dispatched):
        known = machine == "x86_64" and re.fullmatch(r"x86_64_v[2-4]", level)
        if not known or level <= isa:
            table.fail(
                f"dispatched-levels[{position}]",
                f"{level!r} is no level of x86_64 above isa, {isa!r}; only such need be named",
            )
    emulate = table.table("emulate")
    emulate.allow_only(key_names(EMULATE_KEYS))
    return Platform(
        machine=machine,
        toolchain=table.string("toolchain", SYSTEM_TOOLCHAIN),
        runner=table.string("runner"),
        isa=isa,
        config_settings=table.string_map("config-settings"),
        environment=table.string_map("environment"),
        requires=table.strings("requires", ()),
        dispatched_levels=dispatched,
        size_budget_kb=table.positive_integer("size-budget-kb"),
        emulation=Emulation(emulate.strings("runs", ()), emulate.strings("falls-back", ())),
    )
