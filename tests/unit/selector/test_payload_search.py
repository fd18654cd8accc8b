"""A payload that is not in the sdist: where it is looked for, and how it is fetched."""

import base64
import threading
from pathlib import Path

import pytest

from unit.selector.fault_server import Faults, faulty
from unit.selector.served_payload import Place
from variantwheel_selector.errors import DownloadError


def test_only_the_wanted_wheel_is_fetched_and_kept(place: Place) -> None:
    assert place.fetch() == place.data()
    wheel = f"/simple/tiny-native/{place.wheel.filename}"
    assert place.faults.paths() == ["/simple/tiny-native/", wheel]
    assert place.fetch() == place.data()
    assert len(place.faults.requests) == 2, "the second time it comes from the cache"
    place.fetch(PIP_NO_CACHE_DIR="1")
    assert place.leftovers() == []


def test_a_damaged_file_in_the_cache_is_replaced(place: Place) -> None:
    place.fetch()
    (kept,) = place.home.rglob("*.whl")
    kept.write_bytes(b"damaged")
    assert place.fetch() == place.data()
    assert kept.read_bytes() == place.data()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on_or_starts_again(place: Place, ranges: bool) -> None:  # noqa: FBT001
    place.faults.break_after = [100, 50]
    place.faults.ranges = ranges
    assert place.fetch() == place.data()
    assert place.faults.ranges_served == (["bytes=100-", "bytes=150-"] if ranges else [])


def test_a_file_that_changed_in_between_is_not_mixed_up(place: Place) -> None:
    place.faults.break_after = [100]
    place.faults.replace[f"/simple/tiny-native/{place.wheel.filename}"] = b"x" * place.wheel.size
    with pytest.raises(DownloadError, match="is not the released file: its sha256 is"):
        place.fetch()
    assert place.leftovers() == []
    assert list(place.home.rglob("*.whl")) == []


def test_a_download_starts_again_where_no_tag_promises_the_same_bytes(place: Place) -> None:
    place.faults.break_after = [100]
    place.faults.weak = True
    assert place.fetch() == place.data()
    assert not [headers for _, headers in place.faults.requests if "Range" in headers]


@pytest.mark.parametrize("body", [b"short", b"x" * 100_000])
def test_a_file_of_another_size_is_refused(place: Place, body: bytes) -> None:
    place.faults.replace[f"/simple/tiny-native/{place.wheel.filename}"] = body
    with pytest.raises(DownloadError, match=f"the server offers {len(body)} bytes"):
        place.fetch()


def test_a_connection_that_always_breaks_is_given_up(place: Place) -> None:
    place.faults.break_after = [10, 10]
    place.faults.ranges = False
    with pytest.raises(DownloadError, match=r"broke 2 times, at last after 10 of \d+ bytes"):
        place.fetch(PIP_RETRIES="1")
    assert place.leftovers() == []


def test_a_server_that_is_busy_is_asked_again(place: Place) -> None:
    place.faults.statuses[f"/simple/tiny-native/{place.wheel.filename}"] = [503, 502]
    assert place.fetch() == place.data()


@pytest.mark.parametrize("timeout", ["1e400", "99999999999999", "0", "-1", "nan"])
def test_no_time_out_keeps_a_server_from_being_heard(place: Place, timeout: str) -> None:
    assert place.fetch(PIP_TIMEOUT=timeout) == place.data()


def test_an_index_that_is_busy_is_asked_again(place: Place) -> None:
    page = "/simple/tiny-native/"
    place.faults.statuses[page] = [503, 500]
    place.faults.break_pages = [10]
    assert place.fetch() == place.data()
    place.faults.break_pages = [10, 10]
    with pytest.raises(DownloadError, match=r"the answer broke off after 10 of \d+ bytes"):
        place.fetch(PIP_RETRIES="1", PIP_NO_CACHE_DIR="1")
    place.faults.statuses[page] = [503, 503, 503]
    with pytest.raises(DownloadError, match="the server says 503"):
        place.fetch(PIP_RETRIES="1", PIP_NO_CACHE_DIR="1")
    place.faults.requests.clear()
    place.faults.statuses[page] = [403, 403]
    with pytest.raises(DownloadError, match="the server says 403"):
        place.fetch(PIP_NO_CACHE_DIR="1")
    assert place.faults.paths() == [page], "who is turned away stays out"


def test_the_next_index_is_asked(place: Place, tmp_path: Path) -> None:
    empty = Faults(tmp_path / "site")
    empty.replace["/simple/tiny-native/"] = (
        f'<a href="{place.wheel.filename}#sha256={"0" * 64}">other</a>'.encode()
    )
    with faulty(empty) as other:
        assert (
            place.fetch(PIP_INDEX_URL=f"{other}/simple", PIP_EXTRA_INDEX_URL=place.index)
            == place.data()
        )
    assert empty.paths() == ["/simple/tiny-native/"], "a wheel with another hash is not fetched"


def test_the_publishers_index_comes_last(place: Place) -> None:
    place.release.index_url = place.index
    assert place.fetch(PIP_INDEX_URL="http://127.0.0.1:1/simple") == place.data()
    with pytest.raises(DownloadError, match="forbidden by the setting 'no-index'"):
        place.fetch(PIP_NO_INDEX="1", PIP_NO_CACHE_DIR="1")


def test_find_links_is_a_folder_a_page_or_a_file_url(place: Place) -> None:
    folder = place.published.parent
    for link in (str(folder), folder.as_uri(), f"{place.index}/tiny-native/"):
        assert place.fetch(PIP_NO_INDEX="1", PIP_FIND_LINKS=link) == place.data()
    assert place.fetch(PIP_INDEX_URL=folder.parent.as_uri()) == place.data()


def test_a_closed_network_says_what_to_bring_where(place: Place) -> None:
    with pytest.raises(DownloadError) as caught:
        place.fetch(PIP_INDEX_URL="http://me:secret@127.0.0.1:1/simple")
    words = str(caught.value)
    assert words.startswith(f"{place.wheel.filename} is needed and was found nowhere")
    for part in (f"{place.wheel.size} bytes", place.wheel.sha256, "VARIANTWHEEL_WHEEL_DIR=DIR"):
        assert part in words
    assert "index http://***@127.0.0.1:1/simple: cannot read" in words
    assert "secret" not in words
    assert f"configuration: looked for from {str(place.home)!r}; files read: none" in words
    assert "nor do indexes that Poetry, PDM or\na requirements file name" in words


def test_a_file_that_is_named_and_absent_is_told(place: Place) -> None:
    named = str(place.home / "absent.conf")
    with pytest.raises(DownloadError, match=f"{named}: not read: No such file or directory"):
        place.fetch(PIP_CONFIG_FILE="absent.conf", PIP_INDEX_URL="")
    project = {"UV_INTERNAL__BUILD_DIR": "/x", "UV_PROJECT": "project", "UV_NO_CONFIG": "1"}
    with pytest.raises(DownloadError, match=f"looked for from '{place.home}/project'; files read"):
        place.fetch(project)


def test_a_release_and_a_user_that_name_no_index_are_told(place: Place) -> None:
    with pytest.raises(DownloadError, match="none is configured here, and the release names none"):
        place.fetch(PIP_INDEX_URL="")


def test_an_index_of_this_machine_may_be_missing(place: Place, tmp_path: Path) -> None:
    missing = (tmp_path / "missing").as_uri()
    with pytest.raises(DownloadError, match=f"cannot read {missing}/tiny-native/: No such file"):
        place.fetch(PIP_INDEX_URL=missing)
    assert place.fetch(PIP_INDEX_URL=missing, PIP_EXTRA_INDEX_URL=place.index) == place.data()


def test_nobody_is_asked_where_uv_is_offline(place: Place) -> None:
    place.fetch()
    asked = place.faults.paths()
    offline = {"UV_INTERNAL__BUILD_DIR": "/x", "UV_DEFAULT_INDEX": place.index, "UV_OFFLINE": "1"}
    assert place.fetch(offline) == place.data()
    (kept,) = place.home.rglob("*.whl")
    kept.write_bytes(b"damaged")
    with pytest.raises(DownloadError) as caught:
        place.fetch(offline)
    assert "cache: has another file of this name, 7 bytes" in str(caught.value)
    assert "the network: forbidden by uv's setting 'offline'" in str(caught.value)
    assert place.faults.paths() == asked
    assert not kept.exists()


def test_a_read_only_or_absent_home_is_no_obstacle(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (str(tmp_path / "file"), "", "relative"):
        assert place.fetch(HOME=home) == place.data()
    assert not Path("relative").exists()


def test_a_login_goes_to_its_own_origin_alone(place: Place, tmp_path: Path) -> None:
    place.faults.login = "me:s3cret"
    with pytest.raises(DownloadError, match="the server says 401"):
        place.fetch()
    assert place.fetch(PIP_INDEX_URL=place.authority("me:s3cret")) == place.data()
    other = Faults(tmp_path / "site")
    place.faults.requests.clear()
    with faulty(other) as elsewhere:
        place.faults.redirect = f"{elsewhere}/"
        away = f"{place.address}/away/simple".replace("//", "//me:s3cret@")
        assert place.fetch(PIP_INDEX_URL=away, PIP_NO_CACHE_DIR="1") == place.data()
    assert place.faults.authorizations() != {None}
    assert other.paths()
    assert other.authorizations() == {None}


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_indexes_of_one_host_get_each_its_own_login(place: Place, installer: str) -> None:
    place.faults.logins = {"/one/": "a:1", "/two/": "b:2"}
    link = f'<a href="../../packages/{place.wheel.filename}">{place.wheel.filename}</a>'
    place.faults.replace["/one/simple/tiny-native/"] = b""
    place.faults.replace["/two/simple/tiny-native/"] = link.encode()
    place.faults.replace[f"/two/packages/{place.wheel.filename}"] = place.data()
    host = place.address.removeprefix("http://")
    one, two = f"http://a:1@{host}/one/simple", f"http://b:2@{host}/two/simple/"
    variables = {"PIP_INDEX_URL": one, "PIP_EXTRA_INDEX_URL": two}
    if installer == "uv":
        variables = {
            "UV_INTERNAL__BUILD_DIR": "/x", "UV_DEFAULT_INDEX": two, "UV_INDEX_ONE_USERNAME": "a",
            "UV_INDEX": f"one=http://{host}/one/simple", "UV_INDEX_ONE_PASSWORD": "1",
        }  # fmt: skip
    assert place.fetch(variables) == place.data()
    assert len(place.faults.paths()) == 3, "nobody is asked twice"


def test_the_only_login_of_a_host_serves_files_elsewhere_on_it(place: Place) -> None:
    place.faults.login = "a:1"
    link = f'<a href="/files/{place.wheel.filename}">{place.wheel.filename}</a>'
    place.faults.replace["/simple/tiny-native/"] = link.encode()
    place.faults.replace[f"/files/{place.wheel.filename}"] = place.data()
    assert place.fetch(PIP_INDEX_URL=place.authority("a:1")) == place.data()


def test_a_login_of_netrc_is_used(place: Place) -> None:
    place.faults.login = "me:s3cret"
    netrc = place.home / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password s3cret\n")
    netrc.chmod(0o600)
    assert place.fetch() == place.data()


def test_netrc_serves_the_user_whom_the_url_names(place: Place) -> None:
    place.faults.login = "me:s3cret"
    (place.home / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    with pytest.raises(DownloadError, match="401"):
        place.fetch(PIP_INDEX_URL=place.authority("you"))
    assert place.faults.authorizations() == {"Basic " + base64.b64encode(b"you:").decode()}
    assert place.fetch(PIP_INDEX_URL=place.authority("me")) == place.data()


@pytest.mark.parametrize("through", ["link", "redirection"])
def test_a_login_of_a_page_serves_one_request_and_replaces_none_of_the_users(
    place: Place, through: str
) -> None:
    place.faults.login = "me:s3cret"
    (place.home / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    name, host = place.wheel.filename, place.address.removeprefix("http://")
    place.faults.redirect = f"http://bad:guy@{host}/"
    bad = f"http://bad:guy@{host}" if through == "link" else f"{place.address}/away"
    links = (f"{bad}/elsewhere/{name}", name)
    page = "".join(f'<a href="{link}">{name}</a>' for link in links)
    place.faults.replace["/simple/tiny-native/"] = page.encode()
    assert place.fetch() == place.data()
    bad_login = "Basic " + base64.b64encode(b"bad:guy").decode()
    used = {
        path: headers.get("Authorization") == bad_login for path, headers in place.faults.requests
    }
    assert used[f"/elsewhere/{name}"], "the request that it was given for"
    assert sum(used.values()) == 1


def test_a_proxy_is_used_and_bypassed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    proxied = "http://index.invalid/simple"
    assert place.fetch(PIP_INDEX_URL=proxied, PIP_PROXY=place.address) == place.data()
    assert place.faults.paths()[0] == f"{proxied}/tiny-native/"
    monkeypatch.setenv("http_proxy", place.address)
    assert place.fetch(PIP_INDEX_URL=proxied, PIP_NO_CACHE_DIR="1") == place.data()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert place.fetch(PIP_NO_CACHE_DIR="1") == place.data()


def test_a_proxy_that_does_not_answer_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    dead = "http://me:secret@127.0.0.1:1"
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, dead)
        with pytest.raises(DownloadError, match=r"; it was asked through the proxy ") as caught:
            place.fetch(PIP_INDEX_URL=place.address)
        assert "proxy http://***@127.0.0.1:1" in str(caught.value)
        monkeypatch.delenv(name)
    with pytest.raises(DownloadError, match=r"the proxy http://\*\*\*@127.0.0.1:1") as caught:
        place.fetch(PIP_INDEX_URL="https://index.invalid/simple", PIP_PROXY=dead)
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("http_proxy", dead)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DownloadError) as caught:
        place.fetch(PIP_INDEX_URL="http://127.0.0.1:2/simple")
    assert "the proxy" not in str(caught.value)


def test_a_socks_proxy_matters_where_it_would_be_used(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("socks_proxy", "socks5://127.0.0.1:1")
    monkeypatch.setenv("ftp_proxy", "socks5://127.0.0.1:1")
    assert place.fetch(PIP_NO_CACHE_DIR="1") == place.data()
    monkeypatch.setenv("all_proxy", "socks5://me:secret@127.0.0.1:1")
    with pytest.raises(DownloadError, match=r"proxy socks5://\*\*\*@127.0.0.1:1 speaks SOCKS"):
        place.fetch(PIP_NO_CACHE_DIR="1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert place.fetch(PIP_NO_CACHE_DIR="1") == place.data()


def test_links_and_redirections_are_escaped(place: Place) -> None:
    folder = place.published.parent
    (folder / "ü x").mkdir()
    place.published.rename(folder / "ü x" / place.published.name)
    link = f'<a href="ü x/{place.published.name}">{place.published.name}</a>'
    place.faults.replace["/simple/tiny-native/"] = link.encode()
    escaped = f"/simple/tiny-native/%C3%BC%20x/{place.published.name}"
    data = (folder / "ü x" / place.published.name).read_bytes()
    place.faults.replace[escaped] = data
    assert place.fetch() == data
    place.faults.replace["/m%C3%BC%20l/simple/tiny-native/"] = link.encode()
    place.faults.replace[f"/m%C3%BC%20l{escaped}"] = data
    place.faults.redirect = "/mÃ¼ l/"
    assert place.fetch(PIP_INDEX_URL=f"{place.address}/away/simple", PIP_NO_CACHE_DIR="1") == data


def test_a_page_may_not_lead_to_files_of_this_machine(place: Place) -> None:
    link = f'<a href="{place.published.as_uri()}">{place.wheel.filename}</a>'
    place.faults.replace["/simple/tiny-native/"] = link.encode()
    with pytest.raises(DownloadError, match="leads to a file of this machine"):
        place.fetch()
    place.faults.redirect = "file:///"
    with pytest.raises(DownloadError, match="neither http nor https"):
        place.fetch(PIP_INDEX_URL=f"{place.address}/away/simple")


def test_two_at_once_on_one_home(place: Place) -> None:
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(place.fetch())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [place.data()] * 4
    assert len(list(place.home.rglob("*.whl"))) == 1
    assert place.leftovers() == []
