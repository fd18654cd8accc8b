"""Config settings and environment variables of an installation."""

from pathlib import Path

import pytest

from unit.selector.tiny_release import NO_FILES
from variantwheel_selector.config_paths import OTHER_TOOLS
from variantwheel_selector.errors import SettingsError
from variantwheel_selector.setting_keys import KEYS
from variantwheel_selector.settings import read_settings


def test_defaults() -> None:
    settings = read_settings(None, {"PATH": "/bin"})
    assert (settings.variant, settings.forced, settings.source_build) == (None, False, "never")
    assert settings.described() == {}


def test_the_environment_wins_and_the_origin_is_kept() -> None:
    settings = read_settings(
        {"variant": "null", "source-build": "allow"}, {"VARIANTWHEEL_VARIANT": "cu12!"}
    )
    assert (settings.variant, settings.forced, settings.source_build) == ("cu12", True, "allow")
    assert settings.described() == {
        "variant": "cu12! (environment variable VARIANTWHEEL_VARIANT)",
        "source-build": "allow (config setting 'source-build')",
    }


def test_an_empty_variable_is_not_set() -> None:
    assert read_settings({"variant": "null"}, {"VARIANTWHEEL_VARIANT": ""}).variant == "null"


@pytest.mark.parametrize(
    ("config", "environment", "words"),
    [
        ({"varient": "null"}, {}, "unknown config setting 'varient'.*did you mean 'variant'"),
        ({"source_build": "allow"}, {}, "did you mean 'source-build'"),
        ({"source_build": "x", "source-build": "allow"}, {}, "did you mean 'source-build'"),
        ({"cmake.define.X": "1"}, {}, "unknown config setting 'cmake.define.X'"),
        ({"variant": ["a", "b"]}, {}, "more than once"),
        ({"variant": "CU12"}, {}, "accepted is a variant label"),
        ({"variant": "!"}, {}, "accepted is a variant label"),
        ({"source-build": "alow"}, {}, "accepted is never, allow, force - did you mean 'allow'"),
        ({"variant": "null", "source-build": "force"}, {}, "contradict each other"),
        ({}, {"VARIANTWHEEL_VARIENT": "null"}, "did you mean 'VARIANTWHEEL_VARIANT'"),
        ({}, {"VARIANTWHEEL_SOURCE_BUILD": "yes"}, "VARIANTWHEEL_SOURCE_BUILD is 'yes'"),
    ],
)
def test_nothing_is_ignored(
    config: dict[str, object], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        read_settings(config, environment)


def test_the_variable_of_the_selectors_own_build_states_nothing() -> None:
    exported = {**NO_FILES, "VARIANTWHEEL_VENDOR_PACKAGING": "never"}
    assert read_settings(None, exported).described() == {}
    build_hook = Path(__file__).parents[3] / "selector/hatch_build.py"
    assert '"VARIANTWHEEL_VENDOR_PACKAGING"' in build_hook.read_text(encoding="utf-8")


def test_other_settings_are_for_the_source_build() -> None:
    settings = read_settings({"source-build": "allow", "cmake.define.X": "1"}, {})
    assert settings.for_source == {"cmake.define.X": "1"}


def test_what_other_tools_state_is_looked_for_before_the_keys_are_imported() -> None:
    variables = {alias.variable for key in KEYS for alias in key.aliases}
    assert variables == OTHER_TOOLS
