"""Definitions and project settings: what is read, and how each mistake is told."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from variantwheel.definition import check_words, read_definition, read_definitions
from variantwheel.definition_keys import DEFINITION_KEYS, PLATFORM_KEYS, TomlKey
from variantwheel.errors import DefinitionError
from variantwheel.project import read_project
from variantwheel.providers import KNOWN_PROVIDERS
from variantwheel.toml_lines import key_lines
from variantwheel.vocabulary import known_vocabulary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

V3 = """\
label = "v3"
summary = "AVX2"
[properties]
x86_64.level = ["v3"]
[[platforms]]
machine = "x86_64"
runner = "ubuntu-24.04"
isa = "x86_64_v3"
config-settings = { "cmake.define.LEVELS" = "baseline;x86_64_v3" }
size-budget-kb = 100
emulate = { runs = ["Haswell"], falls-back = ["Nehalem"] }
"""
NULL = """\
label = "null"
summary = "baseline"
[[platforms]]
machine = "x86_64"
runner = "ubuntu-24.04"
"""


def _write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_a_definition_is_read_as_written(tmp_path: Path) -> None:
    definition = read_definition(_write(tmp_path, "v3.toml", V3))
    assert [str(item) for item in definition.variant.properties] == ["x86_64 :: level :: v3"]
    (platform,) = definition.platforms
    assert platform.toolchain == "system"
    assert platform.config_settings == {"cmake.define.LEVELS": "baseline;x86_64_v3"}
    assert platform.emulation.falls_back == ("Nehalem",)
    assert definition.platform_for("aarch64") is None


def test_levels_that_the_code_dispatches_are_above_the_isa_and_x86_64s(tmp_path: Path) -> None:
    line = 'dispatched-levels = ["x86_64_v4"]\n'
    (platform,) = read_definition(
        _write(tmp_path, "v3.toml", V3.replace("size", line + "size"))
    ).platforms
    assert platform.dispatched_levels == ("x86_64_v4",)
    text = NULL.replace("x86_64", "aarch64") + line
    with pytest.raises(
        DefinitionError, match=r"'x86_64_v4' is no level of x86_64 above isa, 'armv8"
    ):
        read_definition(_write(tmp_path, "null.toml", text))


def test_the_isa_defaults_to_the_lowest_of_the_machine(tmp_path: Path) -> None:
    definition = read_definition(_write(tmp_path, "null.toml", NULL))
    assert definition.platforms[0].isa == "x86_64_v1"


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ('label = "v3"', 'label = "V3!"', ":1", r"label: invalid variant label 'V3!'"),
        ('label = "v3"', 'label = "v4"', ":1", r"label: 'v4' stands in v3.toml; name the file v4"),
        ('label = "v3"', "", "", r"label: missing key"),
        ("summary =", "sumary =", ":2", r"sumary: unknown key; did you mean 'summary'\?"),
        ("runner =", "runer =", ":7", r"platforms\[0\]\.runer: .*; did you mean 'runner'\?"),
        ('runner = "ubuntu-24.04"', "", ":5", r"platforms\[0\]\.runner: missing key"),
        ('"x86_64_v3"\nconfig', '"avx2"\nconfig', ":8", r"isa: 'avx2' is no level of x86_64"),
        ('machine = "x86_64"', 'machine = "x86-64"', ":6", r"did you mean 'x86_64'\?"),
        ('machine = "x86_64"', 'machine = "AMD64"', ":6", r"did you mean 'x86_64'\?"),
        ('machine = "x86_64"', 'machine = "armv8"', ":6", r"did you mean 'aarch64'\?"),
        ('["v3"]', "[]", ":4", r"properties\.x86_64\.level: names no value"),
        ('["v3"]', '"v3"', ":4", r"properties\.x86_64\.level: expected an array of strings"),
        ('["v3"]', '["v 3"]', ":4", r"properties\.x86_64\.level: invalid value 'v 3'"),
        ("budget-kb = 100", "budget-kb = 0", ":10", r"expected an integer above zero, found 0"),
        ('level = ["v3"]', 'level = ["v3"', "", r"not valid TOML: .*line 5"),
        ('["v3"]', '[\n"v3",\n"v33"]', ":6", r"level\[1\]: no .*'v33'; did you mean 'v3'\?"),
        ("x86_64.level", "x86_64.levl", ":4", r"x86_64\.levl: .*; did you mean 'level'"),
        (
            'x86_64.level = ["v3"]',
            'nvidia.sm_arch = ["86_virtual"]',
            ":4",
            r"no machine supports the value '86_virtual'.* only a major version's first",
        ),
        ('64_v3"\nconfig', '64_v4"\nconfig', ":8", r"isa: 'x86_64_v4' is above the property"),
        (
            "size-budget",
            'dispatched-levels = ["x86_64_v4", "x86_64_v3"]\nsize-budget',
            ":10",
            r"dispatched-levels\[1\]: 'x86_64_v3' is no level of x86_64 above isa, 'x86_64_v3'",
        ),
        ("size-budget", 'dispatched-levels = ["avx512"]\nsize-budget', ":10", r"\[0\]: 'avx512'"),
        ('machine = "x86_64"', 'machine = "aarch64"', ":8", r"'x86_64_v3' is no level of aarch64"),
        (
            'machine = "x86_64"\nrunner = "ubuntu-24.04"\nisa = "x86_64_v3"',
            'machine = "aarch64"\nrunner = "ubuntu-24.04"',
            ":6",
            r"no 'aarch64' supports a property of 'x86_64'",
        ),
        ("falls-back", "falls_back", ":11", r"emulate\.falls_back: .*did you mean 'falls-back'\?"),
    ],
)
def test_a_mistake_names_file_line_key_and_fix(
    tmp_path: Path, old: str, new: str, line: str, told: str
) -> None:
    assert old in V3
    file = _write(tmp_path, "v3.toml", V3.replace(old, new))
    with pytest.raises(DefinitionError, match=told) as caught:
        check_words(read_definition(file), known_vocabulary())
    assert str(caught.value).startswith(f"{file}{line}: ")


@pytest.mark.parametrize("key", [*DEFINITION_KEYS, *PLATFORM_KEYS], ids=lambda key: key.name)
def test_the_keys_that_are_said_to_be_required_are(tmp_path: Path, key: TomlKey) -> None:
    text = V3.replace("[properties]\nx86_64.level", "properties.x86_64.level")
    pattern = rf"^{key.name}\b.*\n" if key.name != "platforms" else r"(?s)\[\[platforms\]\].*"
    file = _write(tmp_path, "v3.toml", re.sub(pattern, "", text, flags=re.MULTILINE))
    if key.default and key.name != "properties":
        read_definition(file)
    else:
        told = "properties" if key.name == "properties" else f"{key.name}: missing key"
        with pytest.raises(DefinitionError, match=told):
            read_definition(file)


def _dotted(value: object, place: str = "") -> Iterator[str]:
    if place:
        yield place
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _dotted(member, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield from _dotted(member, f"{place}[{position}]")


TOML_PIECES = st.sampled_from(
    [
        "a = 1", "b.c = [1, # ]\n 2]", 'd = """x\n[e]\n"""', "f = {g = 1, h.i = ']'}", "[j]",
        "[[k]]", "[k.l]", "[[k.m]]", '"n o" = "#"', "p = '''\n= '''", "# q = 1", "",
        "[[k.m.r]]", "s = [{t = '}'}, [\"u\"]]", "[ v . w ]", "x = 2026-01-01 10:00:00",
    ]
)  # fmt: skip


@given(st.lists(TOML_PIECES))
def test_every_key_that_tomllib_reads_has_the_line_it_stands_in(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        key_lines(text)  # ends
        return
    lines = key_lines(text)
    assert set(lines) == set(_dotted(document))
    for place, line in lines.items():
        name = re.sub(r"(\[\d+\])+$", "", place).rpartition(".")[2]
        assert name in text.splitlines()[line - 1] or place.endswith("]")


def test_null_with_properties_and_others_without_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="reserved"):
        read_definition(_write(tmp_path, "null.toml", V3.replace('"v3"\nsum', '"null"\nsum')))


def test_two_labels_for_the_same_properties_are_refused(tmp_path: Path) -> None:
    _write(tmp_path, "v3.toml", V3)
    _write(tmp_path, "avx2.toml", V3.replace('label = "v3"', 'label = "avx2"'))
    with pytest.raises(DefinitionError, match=r"the same as in avx2\.toml"):
        read_definitions(tmp_path)


def test_an_empty_folder_and_a_missing_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"write null\.toml first"):
        read_definitions(tmp_path)
    with pytest.raises(DefinitionError, match="no such folder"):
        read_definitions(tmp_path / "nowhere")


def test_files_that_are_no_toml_of_a_usual_kind_are_told(tmp_path: Path) -> None:
    for text, told in (
        ("\ufeff" + NULL, "begins with a byte order mark"),
        (f"{NULL}x = {'[' * 20_000}", "lie in each other too deeply"),
        (f"{NULL}x = {'[' * 180}{']' * 180}", "lie in each other too deeply|unknown key"),
    ):
        with pytest.raises(DefinitionError, match=rf"^{tmp_path}/null\.toml:.*({told})"):
            read_definition(_write(tmp_path, "null.toml", text))


def test_a_pipe_among_the_definitions_keeps_nobody_waiting(tmp_path: Path) -> None:
    _write(tmp_path, "null.toml", NULL)
    os.mkfifo(tmp_path / "x.toml")
    with pytest.raises(DefinitionError, match=r"x\.toml: a named pipe"):
        read_definitions(tmp_path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*V3.splitlines(), "x = 1", "[a]", "[[platforms]]", "]"])))
def test_any_text_is_a_definition_or_a_told_mistake(tmp_path: Path, lines: list[str]) -> None:
    file = _write(tmp_path, "v3.toml", "\n".join(lines))
    try:
        definition = read_definition(file)
    except DefinitionError as error:
        assert str(error).startswith(f"{file}:")  # noqa: PT017 - either outcome is right
    else:
        assert definition.label == "v3"


_ARM = """\
label = "v8"
summary = "Arm"
[properties]
aarch64.version = {versions}
[[platforms]]
machine = "{machine}"
runner = "ubuntu-24.04-arm"
isa = "{isa}"
"""


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
@pytest.mark.parametrize(
    ("versions", "isa", "lowest"),
    [
        ('["8.1a"]', "armv8.5", "8.1a"),
        ('["8.4a", "8.1a"]', "armv8.2", "8.1a"),
        ('["9a"]', "armv9.1", "9a"),
        ('["9a"]', "armv8.6", "9a"),
        ('["8.4a"]', "armv8.4", None),
        ('["9a"]', "armv8.5", None),
        ('["8.5a"]', "armv9.0", None),
    ],
)
def test_no_code_is_above_the_lowest_version_that_is_stated(
    tmp_path: Path, machine: str, versions: str, isa: str, lowest: str | None
) -> None:
    text = _ARM.format(versions=versions, machine=machine, isa=isa)
    file = _write(tmp_path, "v8.toml", text)
    if lowest is None:
        read_definition(file)
        return
    told = rf"v8\.toml:8: platforms\[0\]\.isa: '{isa}' is above .* version :: {lowest}, .*lower isa"
    with pytest.raises(DefinitionError, match=told):
        read_definition(file)


def _project(folder: Path, tool: str) -> Path:
    _write(folder, "variants/null.toml", NULL)
    _write(folder, "variants/v3.toml", V3)
    _write(folder, "pyproject.toml", f"[tool.variantwheel]\n{tool}")
    return folder


def test_a_project_knows_its_variants_and_their_providers(tmp_path: Path) -> None:
    project = read_project(_project(tmp_path, 'namespace-priorities = ["nvidia", "x86_64"]'))
    assert [item.label for item in project.for_machine("x86_64")] == ["null", "v3"]
    info = project.variants_info(["v3"])
    assert info.namespaces == ("nvidia", "x86_64")
    assert info.providers == {name: KNOWN_PROVIDERS[name] for name in ("nvidia", "x86_64")}


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("namespace-priority = []", "did you mean 'namespace-priorities'"),
        ('namespace-priorities = ["nvidia"]', r"v3\.toml:4: properties\.x86_64: not in"),
        (
            'namespace-priorities = ["x86_64", "acme"]',
            r"requires = \[\.\.\.\]",
        ),
        ('definitions = "nowhere"', "no such folder"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, tool: str, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        read_project(_project(tmp_path, tool))


@pytest.mark.parametrize(
    ("machine", "isa", "lowest"),
    [("x86_64", "x86_64_v2", "x86_64_v1"), ("aarch64", "armv8.1", "armv8.0")],
)
def test_a_whole_wheel_without_a_level_is_baseline_code(
    tmp_path: Path, machine: str, isa: str, lowest: str
) -> None:
    folder = _project(tmp_path, 'namespace-priorities = ["x86_64"]\ncheck.whole-wheel = true\n')
    null = folder / "variants" / "null.toml"
    line = f'isa = "{isa}"\n'
    null.write_text(NULL.replace("x86_64", machine) + line, encoding="utf-8")
    told = rf"null\.toml:6: .*isa: '{isa}' is above '{lowest}'.*state .*or lower isa to '{lowest}'"
    with pytest.raises(DefinitionError, match=told):
        read_project(folder)
    settings = folder / "pyproject.toml"
    whole = settings.read_text(encoding="utf-8")
    settings.write_text(whole.replace("true", "false"), encoding="utf-8")
    read_project(folder)
    settings.write_text(whole, encoding="utf-8")
    null.write_text(NULL.replace("x86_64", "arm64") + 'isa = "armv8.4"\n', encoding="utf-8")
    read_project(folder)


def test_a_project_without_variants_is_told_how_to_have_some(tmp_path: Path) -> None:
    _write(tmp_path, "pyproject.toml", '[project]\nname = "demo"\n')
    with pytest.raises(DefinitionError, match=r"missing table.*`variantwheel init` writes it"):
        read_project(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "properties", "told"),
    [
        ("", 'x86_64.level = ["v33"]', r"v3\.toml:4: .*did you mean 'v3'"),
        ('x86_64.level = ["v33"]', 'x86_64.level = ["v33"]', None),
        ('acme.width = ["128"]', 'acme.width = ["128"]', None),
        ('acme.width = ["128"]', 'acme.width = ["182"]', r"values are 128"),
        ("", 'acme.width = ["182"]', None),  # a namespace whose words nobody declared is free
        ('amce.width = ["128"]', 'acme.width = ["128"]', r"amce: unknown key; did you mean 'acme'"),
    ],
)
def test_a_project_adds_to_the_vocabulary(
    tmp_path: Path, vocabulary: str, properties: str, told: str | None
) -> None:
    tool = 'namespace-priorities = ["x86_64", "acme"]\n'
    tool += f"[tool.variantwheel.vocabulary]\n{vocabulary}\n"
    tool += '[tool.variantwheel.providers.acme]\nrequires = ["acme-provider>=1"]\n'
    _project(tmp_path, tool)
    _write(tmp_path, "variants/v3.toml", V3.replace('x86_64.level = ["v3"]', properties))
    if told is None:
        assert read_project(tmp_path).definition("v3").label == "v3"
    else:
        with pytest.raises(DefinitionError, match=told):
            read_project(tmp_path)


def test_an_own_provider_is_taken_over(tmp_path: Path) -> None:
    tool = 'namespace-priorities = ["x86_64", "acme"]\n'
    tool += '[tool.variantwheel.providers.acme]\nrequires = ["acme-provider>=1"]\n'
    project = read_project(_project(tmp_path, tool))
    assert project.providers["acme"].requires == ("acme-provider>=1",)


def test_an_unknown_toolchain_is_told_with_its_file(tmp_path: Path) -> None:
    _project(tmp_path, '[tool.variantwheel.toolchains.zig]\nrequires = ["ziglang"]')
    _write(tmp_path, "variants/null.toml", NULL + 'toolchain = "zigg"\n')
    with pytest.raises(DefinitionError, match=r"null\.toml:6: .*'zigg'; did you mean 'zig'"):
        read_project(tmp_path)


def test_a_project_without_the_table_is_told_what_to_write(tmp_path: Path) -> None:
    _write(tmp_path, "pyproject.toml", "[project]\nname = 'x'\n")
    with pytest.raises(DefinitionError, match=r"\[tool\.variantwheel\] with definitions"):
        read_project(tmp_path)
    with pytest.raises(DefinitionError, match="--project DIR"):
        read_project(tmp_path / "nowhere")


def test_uv_recognises_the_providers_by_these_very_words() -> None:
    spelled = {name: (item.requires, item.plugin_api) for name, item in KNOWN_PROVIDERS.items()}
    assert spelled == {
        "nvidia": (
            ("nvidia-variant-provider==0.0.1",),
            "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        ),
        "amd": (("amd-variant-provider>=0.0.1",), None),
        "x86_64": (("x86-64-variant-provider>=0.2",), None),
        "aarch64": (("aarch64-variant-provider>=0.2",), None),
    }
