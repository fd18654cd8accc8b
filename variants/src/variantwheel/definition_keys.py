"""The keys of a definition and of `[tool.variantwheel]`, as they are read and documented."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TomlKey:
    """One key.

    Attributes:
        name: The key; in capitals where the user chooses it.
        kind: What its value is, in words.
        meaning: What it says.
        default: What counts when it is missing; empty for a required key.
    """

    name: str
    kind: str
    meaning: str
    default: str = ""


DEFINITION_KEYS = (
    TomlKey("label", "string", "the variant's label, `[0-9a-z_.]{1,16}`; the file has its name"),
    TomlKey("summary", "string", "what it is, in a few words"),
    TomlKey("platforms", "array of tables", "one for each machine that it is built for"),
    TomlKey(
        "properties",
        "table",
        "`NAMESPACE.FEATURE = [VALUE, …]`, any of the values will do; none for the label `null`",
        "none",
    ),
)
PLATFORM_KEYS = (
    TomlKey("machine", "string", "`x86_64`, `aarch64` or, on macOS, `arm64`"),
    TomlKey("runner", "string", "the CI runner"),
    TomlKey("toolchain", "string", "one of `[tool.variantwheel.toolchains]`", "`system`"),
    TomlKey("config-settings", "table of strings", "for the build backend", "none"),
    TomlKey("environment", "table of strings", "variables of the build", "none"),
    TomlKey(
        "requires", "array of strings", "requirements of this build, beside its toolchain's", "none"
    ),
    TomlKey(
        "isa",
        "string",
        "the highest instruction set that its code may need: `x86_64_v1` to `x86_64_v4`, "
        "`armv8.0` and newer",
        "the machine's lowest",
    ),
    TomlKey(
        "dispatched-levels",
        "array of strings",
        "levels of x86-64 above `isa`, in folders of their names, that the code opens where the "
        "CPU has them",
        "none",
    ),
    TomlKey("size-budget-kb", "integer", "largest size of the wheel in KiB", "no limit"),
    TomlKey("emulate", "table", "CPU models of qemu, for `check --emulate`", "none"),
)
EMULATE_KEYS = (
    TomlKey("runs", "array of strings", "models on which the variant runs at its level", "none"),
    TomlKey(
        "falls-back", "array of strings", "models on which its baseline code takes over", "none"
    ),
)
SETTINGS_KEYS = (
    TomlKey("definitions", "string", "the folder with one file per variant", "`variants`"),
    TomlKey(
        "namespace-priorities",
        "array of strings",
        "all namespaces, most important first; needed when there are two",
        "the only one",
    ),
    TomlKey("check", "table", "what `check` is to know", "none"),
    TomlKey("ci", "table", "what `workflow` is to know", "none"),
    TomlKey("toolchains", "table", "toolchains by name", "`system` alone"),
    TomlKey(
        "machines",
        "array of strings",
        "folders of captured machines, for `sdist --dry-run`",
        "typical ones",
    ),
    TomlKey(
        "pythons",
        "table",
        "the CPythons that each wheel carries modules for",
        "what the backend builds for",
    ),
    TomlKey("providers", "table", "providers by namespace", "the known ones"),
    TomlKey(
        "vocabulary",
        "table",
        "`NAMESPACE.FEATURE = [VALUE, …]`: values that definitions may use beside the known ones",
        "none",
    ),
    TomlKey(
        "source-exclude",
        "array of strings",
        "patterns of files in the project's sdist that a build does not need",
        "none",
    ),
)
CHECK_KEYS = (
    TomlKey(
        "command",
        "array of strings",
        "run beside each installed wheel by `check --run` and `--emulate`, word by word",
        "none",
    ),
    TomlKey("max-exports", "integer", "most symbols that a shared library may export", "100"),
    TomlKey(
        "exports",
        "array of strings",
        "patterns of the symbols that shared libraries may export, beside `PyInit_*` and those of"
        " `plugins`",
        "any",
    ),
    TomlKey(
        "libraries",
        "array of strings",
        "paths of libraries that each wheel and conda package with native code holds",
        "any",
    ),
    TomlKey(
        "plugins",
        "table of arrays",
        "libraries that each wheel holds and opens at run time: path, and all symbols that"
        " it exports",
        "none",
    ),
    TomlKey(
        "whole-wheel",
        "boolean",
        "all libraries of a wheel are of the level `isa`, without folders for levels",
        "`false`",
    ),
    TomlKey(
        "dispatched-functions",
        "array of strings",
        "patterns of functions that may be above the level, because the code asks the CPU first",
        "none",
    ),
)
CI_KEYS = (
    TomlKey("toolkit", "array of strings", "what pip installs to get it", "`variantwheel`"),
    TomlKey(
        "interpreters",
        "array of strings",
        "Pythons that wheels are built with, such as `cp312` and `cp314t`",
        "`cp312`",
    ),
    TomlKey(
        "test-interpreters",
        "array of strings",
        "Pythons that the wheels are tried with",
        "`interpreters`",
    ),
    TomlKey(
        "extra-wheels",
        "array of strings",
        "folders of further projects whose wheels are released beside",
        "none",
    ),
)
TOOLCHAIN_KEYS = (
    TomlKey("requires", "array of strings", "requirements of the build environment", "none"),
    TomlKey(
        "config-settings",
        "table of strings",
        "a definition's own ones win; `{machine}` in a value is what is built for",
        "none",
    ),
    TomlKey("environment", "table of strings", "likewise", "none"),
    TomlKey("machines", "array of strings", "machines it builds for", "the one it runs on"),
    TomlKey(
        "programs",
        "array of strings",
        "what it needs on the PATH that `requires` cannot bring",
        "none",
    ),
    TomlKey(
        "incremental",
        "boolean",
        "the backend compiles again exactly what changed (CMake with Ninja does), and `requires` "
        "pins the compiler: a machine's variants share a build folder, and finished ones are kept",
        "`false`",
    ),
)
PYTHON_KEYS = (
    TomlKey("versions", "array of strings", "those a release must have, such as `3.13`, `3.14t`"),
    TomlKey("optional", "array of strings", "others, built for where they are found", "none"),
    TomlKey(
        "setting",
        "string",
        "the config setting that gets them, as `ABI=FOLDER` with the headers, joined by `;`",
    ),
    TomlKey(
        "config-settings",
        "table of strings",
        "what else makes the backend's wheel one for all of them",
        "none",
    ),
)
PROVIDER_KEYS = (
    TomlKey("requires", "array of strings", "requirement of the provider's plug-in"),
    TomlKey("plugin-api", "string", "its object, `module:object`", "the package's own"),
    TomlKey("optional", "boolean", "whether users have to enable it", "`false`"),
)

_TABLES = (
    ("LABEL.toml", DEFINITION_KEYS),
    ("LABEL.toml, `[[platforms]]`", PLATFORM_KEYS),
    ("LABEL.toml, `platforms.emulate`", EMULATE_KEYS),
    ("pyproject.toml, `[tool.variantwheel]`", SETTINGS_KEYS),
    ("pyproject.toml, `[tool.variantwheel.check]`", CHECK_KEYS),
    ("pyproject.toml, `[tool.variantwheel.ci]`", CI_KEYS),
    ("pyproject.toml, `[tool.variantwheel.toolchains.NAME]`", TOOLCHAIN_KEYS),
    ("pyproject.toml, `[tool.variantwheel.pythons]`", PYTHON_KEYS),
    ("pyproject.toml, `[tool.variantwheel.providers.NAMESPACE]`", PROVIDER_KEYS),
)


def key_names(keys: Iterable[TomlKey]) -> tuple[str, ...]:
    """Return the names of some keys."""
    return tuple(key.name for key in keys)


def key_reference() -> str:
    """Write all keys as tables in Markdown."""
    lines: list[str] = []
    for title, keys in _TABLES:
        lines += [f"{title}:", "", "| key | value | meaning | if missing |", "|---|---|---|---|"]
        lines += [
            f"| `{key.name}` | {key.kind} | {key.meaning} | {key.default or '**required**'} |"
            for key in keys
        ]
        lines.append("")
    return "\n".join(lines)
