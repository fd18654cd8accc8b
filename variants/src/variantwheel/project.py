"""A project that adopts variantwheel: `[tool.variantwheel]` of its pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.utils import canonicalize_version

from variantwheel.ci_settings import CiSettings, read_ci_settings
from variantwheel.definition import (
    SYSTEM_TOOLCHAIN,
    Definition,
    Platform,
    check_whole_wheel,
    check_words,
    read_definitions,
)
from variantwheel.definition_keys import (
    CHECK_KEYS,
    PROVIDER_KEYS,
    PYTHON_KEYS,
    SETTINGS_KEYS,
    TOOLCHAIN_KEYS,
    key_names,
)
from variantwheel.errors import DefinitionError
from variantwheel.interpreters import VERSION_PATTERN
from variantwheel.providers import KNOWN_PROVIDERS
from variantwheel.toml_table import TomlTable, read_toml, suggest
from variantwheel.vocabulary import Vocabulary, known_vocabulary
from variantwheel_selector.model import NAMESPACE_PATTERN
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo
from variantwheel_selector.wheel_name import normalize_project

_DEFAULT_MAX_EXPORTS = 100


@dataclass(frozen=True)
class CheckSettings:
    """What a project tells `check`.

    Attributes:
        command: What is executed beside an installed wheel, word by word.
        max_exports: Most symbols that a shared library may export.
        exports: Patterns of the symbols that libraries may export beside those of Python's modules
            and of plug-ins; none for any.
        libraries: Paths of libraries that every wheel and conda package with native code holds.
        plugins: Libraries that every wheel holds and opens at run time, by their paths, each with
            the symbols that it exports, and no others.
        whole_wheel: Whether all libraries of a wheel are of its platform's level; otherwise only
            those in folders named after a level are above the baseline.
        dispatched_functions: Patterns of functions that may be of any level, because the code
            itself asks the CPU before it calls them.
    """

    command: tuple[str, ...] = ()
    max_exports: int = _DEFAULT_MAX_EXPORTS
    exports: tuple[str, ...] | None = None
    libraries: tuple[str, ...] = ()
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole_wheel: bool = False
    dispatched_functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Toolchain:
    """What a named toolchain adds to a build.

    Attributes:
        requires: Requirements installed into the build environment.
        config_settings: Handed to the build backend; a definition's own ones win.
        environment: Environment variables of the build; a definition's own ones win.
        machines: Machines it builds for; none stands for the machine that it runs on.
        programs: What it needs on the PATH.
        incremental: Whether the backend compiles exactly what changed, with a pinned compiler.
    """

    requires: tuple[str, ...] = ()
    config_settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    machines: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    incremental: bool = False

    def for_platform(self, platform: Platform) -> Toolchain:
        """Return what it adds to a build, joined with what the platform adds itself."""

        def join(mine: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
            filled = {
                key: text.replace("{machine}", platform.machine) for key, text in mine.items()
            }
            return {**filled, **own}

        return replace(
            self,
            requires=(*self.requires, *platform.requires),
            config_settings=join(self.config_settings, platform.config_settings),
            environment=join(self.environment, platform.environment),
        )


@dataclass(frozen=True)
class Pythons:
    """The CPythons that each wheel carries modules for.

    Attributes:
        versions: Those a release must have.
        optional: Those that are built for where they are found.
        setting: The config setting that gets them.
        config_settings: What else makes the backend's wheel one for all of them.
    """

    versions: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    setting: str = ""
    config_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Project:
    """A project and the variants of its release.

    Attributes:
        folder: Where its pyproject.toml lies.
        name: `project.name` there; empty if it says none.
        version: `project.version` there; empty if the build backend finds it.
        definitions: Sorted by label.
        namespaces: Most important first; the order in which variants are preferred.
        providers: Of each of the namespaces.
        toolchains: By name, `system` included.
        pythons: What each wheel carries modules for; none where the backend decides.
        check: What `check` is to know.
        machines: Folders of captured machines, relative to the project.
        ci: What the generators of CI configurations are to know.
        source_exclude: Patterns of files that a source build does not need.
        build_requires: What its build backend needs.
    """

    folder: Path
    definitions: tuple[Definition, ...]
    namespaces: tuple[str, ...]
    providers: Mapping[str, ProviderInfo]
    toolchains: Mapping[str, Toolchain]
    name: str = ""
    version: str = ""
    pythons: Pythons = field(default_factory=Pythons)
    check: CheckSettings = field(default_factory=CheckSettings)
    machines: tuple[str, ...] = ()
    ci: CiSettings = field(default_factory=CiSettings)
    source_exclude: tuple[str, ...] = ()
    build_requires: tuple[str, ...] = ()

    def definition(self, label: str) -> Definition:
        """Return the definition of a label.

        Raises:
            DefinitionError: There is none.
        """
        by_label = {definition.label: definition for definition in self.definitions}
        if label not in by_label:
            raise DefinitionError(
                f"no variant {label!r} in {self.folder}: {suggest(label, by_label)}"
            )
        return by_label[label]

    def contradiction(self, name: str, version: str) -> str:
        """Word in which way pyproject.toml is of another project or version, or nothing.

        Args:
            name: A wheel's distribution.
            version: A wheel's version.
        """
        said = {}
        if self.name and normalize_project(self.name) != normalize_project(name):
            said["name"] = self.name
        if self.version and canonicalize_version(self.version) != canonicalize_version(version):
            said["version"] = self.version
        words = " and ".join(f"project.{key} = {value!r}" for key, value in said.items())
        return f"{self.folder / 'pyproject.toml'} says {words}" if words else ""

    def for_machine(self, machine: str) -> tuple[Definition, ...]:
        """Return the variants that are built for a machine."""
        return tuple(item for item in self.definitions if item.platform_for(machine) is not None)

    def toolchain_of(self, platform: Platform) -> Toolchain:
        """Return the toolchain of a platform, with the platform's own settings."""
        return self.toolchains[platform.toolchain].for_platform(platform)

    def variants_info(self, labels: Iterable[str]) -> VariantsInfo:
        """Return what variants.json says about some labels."""
        variants = {label: self.definition(label).variant for label in labels}
        return VariantsInfo(self.namespaces, variants, self.providers)


def read_project(folder: Path) -> Project:
    """Read a project's settings and definitions.

    Raises:
        DefinitionError: A file is missing or wrong; names the file, the key and the fix.
    """
    file = folder / "pyproject.toml"
    if not file.is_file():
        raise DefinitionError(f"{file}: no such file; name the project's folder with --project DIR")
    document = read_toml(file)
    tool = document.table("tool")
    if "variantwheel" not in tool.members:
        tool.fail(
            "variantwheel",
            "missing table; a project with variants says there where they are defined: "
            '[tool.variantwheel] with definitions = "FOLDER"; `variantwheel init` writes it',
        )
    settings = tool.table("variantwheel")
    settings.allow_only(key_names(SETTINGS_KEYS))
    definitions = read_definitions(folder / settings.string("definitions", "variants"))
    namespaces = _read_namespaces(settings, definitions)
    vocabulary = _read_vocabulary(settings.table("vocabulary"), namespaces)
    for definition in definitions:
        check_words(definition, vocabulary)
    check = _read_check(settings.table("check"))
    if check.whole_wheel:
        for definition in definitions:
            check_whole_wheel(definition)
    toolchains = _read_toolchains(settings.table("toolchains"))
    for definition in definitions:
        for position, platform in enumerate(definition.platforms):
            if platform.toolchain not in toolchains:
                definition.document.fail(
                    f"platforms[{position}].toolchain",
                    f"unknown toolchain {platform.toolchain!r}; "
                    f"{suggest(platform.toolchain, toolchains)}",
                )
    return Project(
        folder=folder,
        definitions=definitions,
        namespaces=namespaces,
        providers=_read_providers(settings, namespaces),
        toolchains=toolchains,
        name=document.table("project").string("name", "-").removeprefix("-"),
        version=document.table("project").string("version", "-").removeprefix("-"),
        pythons=_read_pythons(settings),
        check=check,
        machines=settings.strings("machines", ()),
        ci=read_ci_settings(settings.table("ci")),
        source_exclude=settings.strings("source-exclude", ()),
        build_requires=document.table("build-system").strings("requires", ()),
    )


def _read_namespaces(settings: TomlTable, definitions: tuple[Definition, ...]) -> tuple[str, ...]:
    used = {item.namespace for definition in definitions for item in definition.variant.properties}
    key = "namespace-priorities"
    namespaces = settings.strings(key, tuple(sorted(used)) if len(used) < 2 else None)
    for namespace in namespaces:
        if not re.fullmatch(NAMESPACE_PATTERN, namespace):
            settings.fail(key, f"{namespace!r} must match {NAMESPACE_PATTERN}")
    for definition in definitions:
        for item in definition.variant.properties:
            if item.namespace not in namespaces:
                definition.document.fail(
                    f"properties.{item.namespace}",
                    f"not in {key} of {settings.file.name}; {suggest(item.namespace, namespaces)}",
                )
    return namespaces


def _read_check(table: TomlTable) -> CheckSettings:
    table.allow_only(key_names(CHECK_KEYS))
    plugins = table.table("plugins")
    return CheckSettings(
        command=table.words("command"),
        max_exports=table.positive_integer("max-exports") or _DEFAULT_MAX_EXPORTS,
        exports=table.strings("exports") if "exports" in table.members else None,
        libraries=table.strings("libraries", ()),
        plugins={path: plugins.strings(path) for path in plugins.members},
        whole_wheel=table.boolean("whole-wheel", default=False),
        dispatched_functions=table.strings("dispatched-functions", ()),
    )


def _read_vocabulary(table: TomlTable, namespaces: tuple[str, ...]) -> Vocabulary:
    table.allow_only(namespaces)
    words = {
        namespace: {
            feature: table.table(namespace).strings(feature)
            for feature in table.table(namespace).members
        }
        for namespace in table.members
    }
    return known_vocabulary().extended(words)


def _read_toolchains(table: TomlTable) -> dict[str, Toolchain]:
    toolchains = {SYSTEM_TOOLCHAIN: Toolchain()}
    for name in table.members:
        entry = table.table(name)
        entry.allow_only(key_names(TOOLCHAIN_KEYS))
        toolchains[name] = Toolchain(
            requires=entry.strings("requires", ()),
            config_settings=entry.string_map("config-settings"),
            environment=entry.string_map("environment"),
            machines=entry.strings("machines", ()),
            programs=entry.strings("programs", ()),
            incremental=entry.boolean("incremental", default=False),
        )
    return toolchains


def _read_pythons(settings: TomlTable) -> Pythons:
    if "pythons" not in settings.members:
        return Pythons()
    table = settings.table("pythons")
    table.allow_only(key_names(PYTHON_KEYS))
    versions, optional = table.strings("versions"), table.strings("optional", ())
    for key, found in (("versions", versions), ("optional", optional)):
        for version in found:
            if not VERSION_PATTERN.fullmatch(version):
                table.fail(key, f"{version!r} is no CPython; write 3.13, or 3.13t free-threaded")
    for version in set(versions) & set(optional):
        table.fail("optional", f"{version!r} stands in `versions` too; it is one or the other")
    return Pythons(
        versions=versions,
        optional=optional,
        setting=table.string("setting"),
        config_settings=table.string_map("config-settings"),
    )


def _read_providers(settings: TomlTable, namespaces: tuple[str, ...]) -> dict[str, ProviderInfo]:
    table = settings.table("providers")
    table.allow_only(namespaces)
    providers: dict[str, ProviderInfo] = {}
    for namespace in namespaces:
        if namespace in table.members:
            entry = table.table(namespace)
            entry.allow_only(key_names(PROVIDER_KEYS))
            api = entry.string("plugin-api") if "plugin-api" in entry.members else None
            providers[namespace] = ProviderInfo(
                requires=entry.strings("requires"),
                plugin_api=api,
                optional=entry.boolean("optional", default=False),
            )
        elif namespace in KNOWN_PROVIDERS:
            providers[namespace] = KNOWN_PROVIDERS[namespace]
        else:
            settings.fail(
                "namespace-priorities",
                f"nothing is known about who provides {namespace!r}; name its plug-in in "
                f"[tool.variantwheel.providers.{namespace}] with requires = [...]",
            )
    return providers
