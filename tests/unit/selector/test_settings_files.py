"""Configuration files: their form, their places, precedence, locks and misspelt keys."""

import contextlib
import os
import re
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel_selector.errors import SettingsError
from variantwheel_selector.parse.toml_subset import TomlSubsetError, parse_toml_subset
from variantwheel_selector.setting_keys import (
    ASSUME_CUDA,
    KEYS,
    MAX_CPU_LEVEL,
    ON_UNKNOWN,
    VARIANT,
)
from variantwheel_selector.settings import Settings, read_settings
from variantwheel_selector.settings_file import parse_config_file

if sys.version_info >= (3, 11):
    import tomllib


class Home:
    """A user's folder and a site's folder."""

    def __init__(self, root: Path) -> None:
        self.user = root / "home/.config/variantwheel/config.toml"
        self.site = root / "etc/variantwheel/config.toml"
        self.environment = {"HOME": str(root / "home"), "XDG_CONFIG_DIRS": str(root / "etc")}

    def write(self, *, user: str = "", site: str = "") -> None:
        for path, text in ((self.user, user), (self.site, site)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def read(self, config: dict[str, object] | None = None, **environment: str) -> Settings:
        return read_settings(config, self.environment | environment, "Tiny_Native")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(
    ("user", "site", "stated"),
    [
        ("", 'locked = ["index-url"]\nindex-url = "https://me:s3cret@host/"', "https://other/"),
        ("index-url = https://me:s3cret@host/", "", None),
        ("", "", "ftp://me:s3cret@host/"),
        ("", "", "me:s3cret@host/simple"),
        ("", "", "https://me:s3/cret@host/simple"),
        ("", "", "https://me:s3#cret@host/simple"),
        ("", "", "https://host:port/simple"),
    ],
)
def test_an_index_that_is_refused_shows_no_password(
    home: Home, user: str, site: str, stated: str | None
) -> None:
    home.write(user=user, site=site)
    with pytest.raises(SettingsError) as caught:
        home.read(None if stated is None else {"index-url": stated})
    assert not {"me", "s3", "cret", "s3cret"} & set(re.split(r"\W", str(caught.value)))


def test_precedence_is_per_key(home: Home) -> None:
    home.write(
        site='forbid = ["amd"]\nmax-cpu-level = "v2"\non-unknown = "error"\n'
        '[assume]\ncuda = "11.8"',
        user='forbid = ["nvidia", "cpu::v4"]\n[assume]\ncuda = "12.0"\n'
        '[project.tiny-native]\nvariant = "cu12"\n[project.other]\nvariant = "cu13"\n',
    )
    settings = home.read({"assume-cuda": "12.4"}, VARIANTWHEEL_MAX_CPU_LEVEL="v3")
    assert settings.get(ASSUME_CUDA) == (12, 4)
    assert settings.get(MAX_CPU_LEVEL) == ("v3",)
    assert settings.stated["forbid"].text.split(",") == ["nvidia", "cpu::v4"]
    assert settings.get(VARIANT) == "cu12"
    assert settings.choice(ON_UNKNOWN) == "error"
    assert settings.described() == {
        "variant": f"cu12 (project.tiny-native.variant in {home.user})",
        "max-cpu-level": "v3 (environment variable VARIANTWHEEL_MAX_CPU_LEVEL)",
        "forbid": f"nvidia,cpu::v4 (forbid in {home.user})",
        "on-unknown": f"error (on-unknown in {home.site})",
        "assume-cuda": "12.4 (config setting 'assume-cuda')",
    }
    assert home.read(VARIANTWHEEL_ASSUME_CUDA="13.0").get(ASSUME_CUDA) == (13, 0)
    assert home.read().get(ASSUME_CUDA) == (12, 0)
    home.user.unlink()
    assert home.read().get(ASSUME_CUDA) == (11, 8)
    assert home.read(CONDA_OVERRIDE_CUDA="12.8").get(ASSUME_CUDA) == (11, 8)
    home.site.unlink()
    assert home.read(CONDA_OVERRIDE_CUDA="12.8").get(ASSUME_CUDA) == (12, 8)
    assert home.read().described() == {}


def test_a_project_table_comes_before_the_rest_of_its_file(home: Home) -> None:
    home.write(user='forbid = "amd"\n[project."Tiny.Native"]\nforbid = ["cu13"]\n')
    assert home.read().stated["forbid"].text.split(",") == ["cu13"]
    home.write(user='[assume]\nsm = "8.0"\n[project.tiny-native.assume]\nsm = ["9.0", "8.0"]\n')
    assert home.read().assumptions.sm is not None
    assert home.read().assumptions.sm.value == ((8, 0), (9, 0))  # type: ignore[union-attr]


def test_a_site_locks_settings(home: Home) -> None:
    home.write(site='locked = ["max-cpu-level", "assume-cuda"]\nmax-cpu-level = "v2"\n')
    assert home.read().get(MAX_CPU_LEVEL) == ("v2",)
    assert home.read(VARIANTWHEEL_MAX_CPU_LEVEL="x86-64-v2").get(MAX_CPU_LEVEL) == ("v2",)
    with pytest.raises(
        SettingsError, match=r"MAX_CPU_LEVEL is 'v3', but .*config.toml locks .*'v2'"
    ):
        home.read(VARIANTWHEEL_MAX_CPU_LEVEL="v3")
    with pytest.raises(SettingsError, match="locks 'assume-cuda' at its default"):
        home.read({"assume-cuda": "12.8"})
    settings = home.read(CONDA_OVERRIDE_CUDA="12.8")
    assert settings.get(ASSUME_CUDA) is None
    assert "locked by" in settings.described()["CONDA_OVERRIDE_CUDA"]
    home.write(user='locked = ["forbid"]')
    with pytest.raises(SettingsError, match="only a site's file can lock"):
        home.read()


def test_one_file_can_be_named_instead(home: Home, tmp_path: Path) -> None:
    home.write(user='forbid = "amd"')
    assert home.read(VARIANTWHEEL_CONFIG="/dev/null").described() == {}
    with pytest.raises(SettingsError, match="no file"):
        home.read(VARIANTWHEEL_CONFIG=str(tmp_path / "nowhere"))


def test_the_file_that_is_named_is_the_same_from_every_folder(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text('forbid = ["amd"]')
    found = home.read(VARIANTWHEEL_CONFIG="~/my.toml").stated["forbid"]
    assert (found.text, found.origin) == ("amd", f"forbid in {tmp_path}/my.toml")
    for relative in ("my.toml", "./my.toml", "~nobody-of-this-name/my.toml"):
        with pytest.raises(SettingsError) as caught:
            home.read(VARIANTWHEEL_CONFIG=relative)
        assert str(caught.value) == (
            f"environment variable VARIANTWHEEL_CONFIG names {relative!r}: a configuration file "
            "needs an absolute path, since builds run in the folder of the sdist"
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('forbidd = ["amd"]', "line 1: unknown key 'forbidd'.*did you mean 'forbid'"),
        ('assume-cuda = "12.8"', r"spelt 'cuda' in the table \[assume\]"),
        ('[assume]\ncuba = "12.8"', "line 2: unknown key 'cuba'.*did you mean 'cuda'"),
        ('[assumed]\ncuda = "12.8"', r"unknown table \[assumed\].*did you mean 'assume'"),
        ('[project]\nvariant = "x"', "expected a project's name"),
        ('variant = "cu12"', r"write it in \[project.NAME\]"),
        ('only = ["cu12"]', "'cu12' is none of gpu, cpu"),
        ('only = ["gpuu"]', "did you mean 'gpu'"),
        ("[assume]\ncuda = 12.8", 'line 2: expected a string in quotes: write "12.8"'),
        ('[assume]\ncuda = "12.x"', " is '12.x'; accepted is a CUDA version"),
        ('on-unknown = ["error"]', "takes one value, not an array"),
        ('on-unknown = "eror"', "did you mean 'error'"),
        ('forbid = ["amd::x,nvidia"]', "is no item of 'forbid'"),
        ('locked = ["forbidd"]', "did you mean 'forbid'"),
        ('locked = "forbid"', "an array of names"),
        ('[project.tiny-native]\nvarient = "x"', "did you mean 'variant'"),
        ('[project.other]\nvarient = "x"', "did you mean 'variant'"),
        ("forbid", "expected 'key = "),
        ('forbid = "amd" "nvidia"', "expected nothing after the value"),
        ('forbid = ["amd"', "no ']' at its end"),
        ('forbid = "amd"\nforbid = "nvidia"', "line 2: 'forbid' stands here twice"),
        ("[assume]\n[assume]", "stands here again"),
        ('forbid = "a\\nb"', "expected a string"),
        ('forbid = """amd"""', "expected a string"),
    ],
)
def test_mistakes_in_a_file_name_the_place(home: Home, text: str, words: str) -> None:
    home.write(site=text)
    with pytest.raises(SettingsError, match=f"{home.site}.*{words}"):
        home.read()


def test_files_that_cannot_be_read_are_errors(home: Home) -> None:
    home.write()
    home.user.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="it is not UTF-8"):
        home.read()
    home.user.write_bytes(b"#" * 70_000)
    with pytest.raises(SettingsError, match="larger than 65536 bytes"):
        home.read()
    home.user.unlink()
    os.mkfifo(home.user)
    with pytest.raises(SettingsError, match="no regular file"):
        home.read()
    home.user.unlink()
    home.user.mkdir()
    with pytest.raises(SettingsError, match="cannot read"):
        home.read()


KEY = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=8)
STRING = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
VALUE = STRING | st.lists(STRING, max_size=3).map(lambda items: f"[{', '.join(items)}]")
LINE = st.one_of(
    st.tuples(KEY, VALUE).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.lists(KEY | STRING, min_size=1, max_size=3).map(lambda parts: f"[{'.'.join(parts)}]"),
    st.text(st.sampled_from(" \t#='\"[]\\,.ab1\n\r"), max_size=12),
    st.just("# comment"),
)


if sys.version_info >= (3, 11):

    @given(st.lists(LINE, max_size=6).map("\n".join))
    def test_whatever_is_accepted_means_the_same_to_toml(text: str) -> None:
        with contextlib.suppress(TomlSubsetError):
            entries = parse_toml_subset(text)
            whole: dict[str, object] = tomllib.loads(text)
            for entry in entries:
                node: object = whole
                for part in (*entry.table, entry.key):
                    assert isinstance(node, dict)
                    node = node[part]
                expected = list(entry.value) if isinstance(entry.value, tuple) else entry.value
                assert node == expected


@given(st.text(max_size=200))
def test_no_file_is_too_odd(text: str) -> None:
    with contextlib.suppress(SettingsError):
        parse_config_file(text, "config.toml", "tiny-native", site=True)


def test_every_setting_has_a_name_of_its_own() -> None:
    assert len({key.name for key in KEYS}) == len({key.variable for key in KEYS}) == len(KEYS)


def test_config_settings_that_are_given_twice() -> None:
    none = {"VARIANTWHEEL_CONFIG": "/dev/null"}
    found = read_settings({"forbid": ["amd", "nvidia"]}, none)
    assert found.stated["forbid"].text.split(",") == ["amd", "nvidia"]
    with pytest.raises(SettingsError, match="more than once"):
        read_settings({"on-unknown": ["error", "error"]}, none)


@pytest.mark.parametrize(
    ("backend", "pattern"),
    [("cpu", "cpu"), ("cu128", "nvidia::cuda_version_lower_bound::12.*"), ("rocm6.3", "amd"),
     ("cu92", "nvidia::cuda_version_lower_bound::9.*"), ("auto", None), ("xpu", None)],
)  # fmt: skip
def test_uvs_backend_of_torch_is_a_hint(backend: str, pattern: str | None) -> None:
    found = read_settings(None, {"VARIANTWHEEL_CONFIG": "/dev/null", "UV_TORCH_BACKEND": backend})
    described = found.described()
    if pattern is None:
        assert "passed over" in described["UV_TORCH_BACKEND"]
    else:
        assert described["prefer"].startswith(f"{backend} (environment variable UV_TORCH_BACKEND, ")
