"""What pip's and uv's configuration says about indexes, as a build hook sees it."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from variantwheel_selector.fetching.payload_search import as_url, local_folder
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.fetching.urls import origin, redacted, split_login
from variantwheel_selector.redaction import without_credentials

UV = {"UV_INTERNAL__BUILD_DIR": "/x", "XDG_CONFIG_DIRS": "/nowhere"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_pip_files_in_order_then_variables(home: Path, tmp_path: Path) -> None:
    environment = {"HOME": str(home), "XDG_CONFIG_DIRS": str(tmp_path / "site")}
    write(tmp_path / "site/pip/pip.conf", "[global]\nindex-url = http://site/\ntimeout = 3\n")
    write(home / ".pip/pip.conf", "[global]\nindex-url = http://old/\nretries=9\n")
    write(
        home / ".config/pip/pip.conf",
        "[global]\nextra_index_url =\n  http://a/\n  http://b/\nfind-links = /l '/with space'\n"
        "[install]\nindex-url = http://user/\n[download]\nindex-url = http://never/\n",
    )
    found = configured_sources(environment)
    assert found.indexes == ("http://user/", "http://a/", "http://b/")
    assert found.find_links == ("/l", "/with space")
    assert (found.web.timeout, found.web.retries, found.keyring) == (3.0, 9, True)
    assert len(found.read) >= 3
    write(home / ".config/pip/pip.conf", "[global]\nindex-url = http://user/\n")
    write(tmp_path / "site/pip/pip.conf", "[install]\nindex-url = http://site/\ntimeout = 3\n")
    assert configured_sources(environment).indexes == ("http://site/",), "of the command's section"
    write(tmp_path / "site/pip/pip.conf", "[global]\ntimeout = 3\n")
    stated = write(tmp_path / "stated", "[global]\ntimeout = 4\n")
    found = configured_sources({**environment, "PIP_CONFIG_FILE": str(stated)})
    assert (found.indexes, found.web.timeout) == ((), 4.0), "it stands for the user's own files"
    stated = write(tmp_path / "stated", "[global]\nno-index = yes\nproxy = http://p:1/\n")
    found = configured_sources({**environment, "PIP_CONFIG_FILE": str(stated)})
    assert (found.indexes, found.no_index, found.web.proxy) == ((), True, "http://p:1/")
    environment |= {
        "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": "http://x/ http://y/",
        "PIP_INDEX_URL": "", "PIP_TRUSTED_HOST": "a b:1", "PIP_KEYRING_PROVIDER": "import",
        "PIP_CERT": "/c.pem", "PIP_CLIENT_CERT": "/k.pem", "PIP_DEFAULT_TIMEOUT": "60",
        "PIP_NO_CACHE_DIR": "1",
    }  # fmt: skip
    found = configured_sources(environment)
    assert found.indexes == ("http://x/", "http://y/")
    assert (found.web.trusted_hosts, found.web.certificate) == (("a", "b:1"), "/c.pem")
    assert (found.web.client_certificate, found.web.timeout) == ("/k.pem", 60.0)
    assert (found.keyring, found.cache, found.read) == (False, False, ())
    found = configured_sources({**environment, "REQUESTS_CA_BUNDLE": "/b.pem"})
    assert found.web.certificate == "/b.pem", "requests lets the variable win"


def test_pip_paths_are_seen_from_the_folder_that_it_runs_in(home: Path, tmp_path: Path) -> None:
    started = {"HOME": str(home), "PWD": "/elsewhere", "PIP_CONFIG_FILE": os.devnull}
    links = {"PIP_FIND_LINKS": "~/a ./b c/d /e https://host/f file:///g"}
    found = configured_sources({**started, **links}, str(tmp_path))
    assert found.find_links == (
        f"{home}/a", f"{tmp_path}/b", f"{tmp_path}/c/d", "/e", "https://host/f", "file:///g",
    )  # fmt: skip
    assert configured_sources({"PIP_FIND_LINKS": "b"}).find_links == ("b",), "nobody tells"
    paths = {"PIP_INDEX_URL": "./s", "PIP_CERT": "c.pem", "PIP_CLIENT_CERT": "k.pem"}
    found = configured_sources({**started, **paths}, str(tmp_path))
    assert found.indexes == (f"{tmp_path}/s",)
    assert found.web.certificate == f"{tmp_path}/c.pem"
    assert found.web.client_certificate == f"{tmp_path}/k.pem"


def test_pip_files_are_seen_from_the_folder_that_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the hook's own folder, a stranger's sdist, is never read."""
    sdist = tmp_path / "sdist"
    for name in ("my.conf", "h/.pip/pip.conf", "x/pip/pip.conf"):
        write(sdist / name, "[global]\nindex-url = http://stranger/\n")
    monkeypatch.chdir(sdist)
    named = {"PIP_CONFIG_FILE": "my.conf", "XDG_CONFIG_DIRS": "/nowhere"}
    at_home = {"HOME": "h", "XDG_CONFIG_HOME": "x", "XDG_CONFIG_DIRS": "x"}
    for environment in (named, at_home):
        found = configured_sources(environment)
        assert found.indexes == ()
        assert "where the installer runs is not known" in " ".join(found.unread.values())
        assert configured_sources(environment, str(tmp_path)).indexes == ()
    found = configured_sources(named, str(tmp_path))
    assert found.unread == {str(tmp_path / "my.conf"): "No such file or directory"}
    write(tmp_path / "my.conf", "[global]\nindex-url = http://named/\n")
    assert configured_sources(named, str(tmp_path)).indexes == ("http://named/",)
    write(tmp_path / "h/.pip/pip.conf", "[global]\nindex-url = http://home/\n")
    assert configured_sources(at_home, str(tmp_path)).indexes == ("http://home/",)


def test_uv_paths_are_seen_from_the_folder_that_it_runs_in(tmp_path: Path) -> None:
    environment = {**UV, "PWD": "/elsewhere", "UV_NO_CONFIG": "1"}
    environment |= {
        "UV_FIND_LINKS": "b,/e,https://host/f", "UV_DEFAULT_INDEX": "./d", "UV_INDEX": "n=./i /j",
        "UV_EXTRA_INDEX_URL": "./x", "UV_INDEX_N_USERNAME": "me", "SSL_CERT_FILE": "c.pem",
    }  # fmt: skip
    found = configured_sources(environment, str(tmp_path))
    assert found.find_links == (f"{tmp_path}/b", "/e", "https://host/f")
    assert found.indexes == (f"{tmp_path}/i", "/j", f"{tmp_path}/x", f"{tmp_path}/d")
    assert list(found.logins) == [f"{tmp_path}/i"]
    assert found.web.certificate == f"{tmp_path}/c.pem"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no TOML in Python 3.10")
def test_uv_files_are_seen_from_the_folder_that_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "sdist/conf/uv.toml", 'index-url = "http://stranger/"\n')
    write(tmp_path / "sdist/h/.config/uv/uv.toml", 'index-url = "http://stranger/"\n')
    monkeypatch.chdir(tmp_path / "sdist")
    named = {**UV, "PWD": str(tmp_path / "sdist/conf"), "UV_CONFIG_FILE": "conf/uv.toml"}
    found = configured_sources(named)
    assert (found.indexes, list(found.unread)) == ((), ["conf/uv.toml"])
    path = str(tmp_path / "conf/uv.toml")
    found = configured_sources(named, str(tmp_path))
    assert (found.indexes, found.unread) == ((), {path: "No such file or directory"})
    write(Path(path), 'index-url = "s/simple"\nfind-links = ["b", "../c"]\n')
    found = configured_sources(named, str(tmp_path))
    assert found.indexes == (f"{tmp_path}/conf/s/simple",)
    assert found.find_links == (f"{tmp_path}/conf/b", f"{tmp_path}/conf/../c")
    at_home = {**UV, "HOME": "h", "XDG_CONFIG_HOME": "relative"}
    assert configured_sources(at_home).indexes == ()
    write(tmp_path / "h/.config/uv/uv.toml", 'index-url = "http://home/"\n')
    assert configured_sources(at_home, str(tmp_path)).indexes == ("http://home/",)
    of_project = {**UV, "UV_PROJECT": "./project"}
    write(tmp_path / "project/uv.toml", 'index-url = "http://project/"\n')
    assert configured_sources(of_project).indexes == ()
    assert configured_sources(of_project, str(tmp_path)).indexes == ("http://project/",)
    for folder in ("project", "project/deep"):
        assert configured_sources(UV, str(tmp_path / folder)).indexes == ("http://project/",)


@pytest.mark.parametrize("text", ["index-url", "[global\nx=1", "\0", "[global]\na=1\na=2\n"])
def test_a_damaged_pip_conf_is_told_later(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "pip.conf", text)
    found = configured_sources({"PIP_CONFIG_FILE": str(path)})
    assert found.indexes == ()
    assert str(path) in found.unread


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no TOML in Python 3.10")
def test_uv_files_and_variables(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "work/project"
    write(
        project / "pyproject.toml",
        '[tool.uv]\nfind-links = ["./links"]\nindex-strategy = "first-index"\n'
        '[[tool.uv.index]]\nname = "my-own"\nurl = "http://own/simple"\nexplicit = true\n'
        '[[tool.uv.index]]\nurl = "./flat"\nformat = "flat"\n',
    )
    write(tmp_path / "work/uv.toml", 'index-url = "http://hidden/"\n')
    write(
        home / ".config/uv/uv.toml",
        'no-cache = true\n[pip]\nindex-url = "http://user/"\nextra-index-url = ["http://more/"]\n',
    )
    environment = {**UV, "HOME": str(home)}
    started = str(project / "deep/er")
    found = configured_sources(environment, started)
    assert found.indexes == ("http://own/simple", "http://more/", "http://user/")
    assert found.find_links == (str(project / "links"), str(project / "flat"))
    assert (found.cache, found.keyring, found.offline) == (False, False, False)
    found = configured_sources(
        {
            **environment, "UV_INDEX": "http://one/ two=http://two/", "UV_DEFAULT_INDEX": "http://d/",
            "UV_INDEX_TWO_USERNAME": "me", "UV_INDEX_TWO_PASSWORD": "x", "UV_OFFLINE": "1",
            "UV_INDEX_MY_OWN_USERNAME": "you", "UV_KEYRING_PROVIDER": "subprocess",
            "UV_FIND_LINKS": "http://l/,/m", "UV_INSECURE_HOST": "h", "UV_HTTP_TIMEOUT": "7",
            "SSL_CERT_FILE": "/c.pem",
        },
        started,
    )  # fmt: skip
    assert found.indexes == (
        "http://one/", "http://two/", "http://own/simple", "http://more/", "http://d/"
    )  # fmt: skip
    assert {url: login.user for url, login in found.logins.items()} == {
        "http://two/": "me",
        "http://own/simple": "you",
    }
    assert (found.offline, found.keyring, found.web.timeout) == (True, True, 7.0)
    assert found.find_links[:2] == ("http://l/", "/m")
    found = configured_sources({**environment, "UV_NO_CONFIG": "1", "UV_NO_INDEX": "true"}, started)
    assert (found.indexes, found.find_links, found.no_index) == ((), (), True)
    path = write(tmp_path / "stated.toml", "no-index = true\n")
    assert configured_sources({**environment, "UV_CONFIG_FILE": str(path)}).no_index
    path.write_text("no-index = ")
    assert str(path) in configured_sources({**environment, "UV_CONFIG_FILE": str(path)}).unread


def test_nothing_secret_is_ever_shown(home: Path) -> None:
    url = "https://me:s3cret@host/simple?token=s3cret#s3cret"
    assert redacted(url) == "https://***@host/simple?…"
    assert redacted("https://me:p@ss@w0rd@host/a@b") == "https://***@host/a@b"
    for sign in "/?#":
        url = f"https://me:s3{sign}cret@host:80/a"
        assert redacted(url) == "https://***@host:80/a"
        assert without_credentials(url) == "https://host:80/a"
    for text in ("us er:s3cret", "us er:s3 c/ret", "me:s3\ncret", "me:s3/c\nret", "us er"):
        assert redacted(f"http://{text}@host:80/a b") == "http://***@host:80/a b"
        assert without_credentials(f"http://{text}@host:80/a b") == "http://host:80/a b"
    assert redacted("me:s3cret@proxy:80") == "***@proxy:80"
    assert redacted("wheels of me@home") == "wheels of me@home"
    assert redacted("https://host:80/a:b@c") == "https://host:80/a:b@c"
    assert redacted("http://[::1]:80/a@b") == "http://[::1]:80/a@b"
    bare, login = split_login("https://m%40e:p%3Aw@host:8443/x")
    assert bare == "https://host:8443/x"
    assert login is not None
    assert (login.user, login.password) == ("m@e", "p:w")
    url = "https://me:s3cret@host/simple?token=s3cret#s3cret"
    sources = configured_sources(
        {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": url, "PIP_PROXY": url}
    )
    uv = {"UV_INDEX": f"a={url}", "UV_INDEX_A_PASSWORD": "s3cret", **UV, "UV_NO_CONFIG": "1"}
    for text in (repr(sources), repr(configured_sources(uv)), repr(login)):
        assert "s3cret" not in text
        assert "p:w" not in text
    assert "s3cret" not in json.dumps(list(sources.read))


def test_origins_and_places() -> None:
    assert origin("https://Host/x") == origin("https://host:443/y")
    assert origin("http://host/") != origin("https://host/")
    assert origin("https://host/") != origin("https://host:8443/")
    assert local_folder("/a/b") == Path("/a/b")
    assert local_folder("file:///a/b%20c") == Path("/a/b c")
    assert local_folder("/a/links.html") is None
    assert local_folder("https://host/links/") is None
    assert as_url("/a b") == "file:///a%20b"
    assert as_url("https://host/") == "https://host/"


@pytest.mark.parametrize(
    ("stated", "timeout"),
    [
        ("2.5", 2.5), ("1e-9", 1e-9), ("1e400", 86400), ("inf", 86400), ("99999999999999", 86400),
        ("0", None), ("-1", None), ("nan", None), ("soon", None), ("²", None), ("9" * 5000, 86400),
    ],
)  # fmt: skip
def test_any_time_that_is_stated_is_one_that_can_be_waited(
    stated: str, timeout: float | None
) -> None:
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_DEFAULT_TIMEOUT": "7"}
    found = configured_sources({**pip, "PIP_TIMEOUT": stated})
    assert found.web.timeout == (timeout or 7)
    found = configured_sources({**UV, "HTTP_TIMEOUT": "7", "UV_HTTP_TIMEOUT": stated})
    assert found.web.timeout == (timeout or 7)
    with socket.socket() as waiting:
        waiting.settimeout(found.web.timeout)


@pytest.mark.parametrize(
    ("stated", "retries"),
    [
        ("0", 0), ("-3", 0), ("2", 2), ("1e400", 1_000_000), ("9" * 5000, 1_000_000),
        ("nan", None), ("often", None), ("²", None),
    ],
)  # fmt: skip
def test_any_number_of_retries_that_is_stated_can_be_counted(
    stated: str, retries: int | None
) -> None:
    found = configured_sources({"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": stated})
    assert found.web.retries == (5 if retries is None else retries)
    found = configured_sources({**UV, "UV_HTTP_RETRIES": stated})
    assert found.web.retries == (3 if retries is None else retries)
