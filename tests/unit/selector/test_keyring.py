"""Logins that the program `keyring` knows: by which names it is asked for them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.selector.served_payload import Place
from variantwheel_selector.errors import DownloadError

# Knows the passwords of one user by names, one in each line of the file beside it, and writes down
# what it is asked.
_PROGRAM = """#!/bin/sh
beside=$(dirname "$0")
echo "$@" >>"$beside/asked"
while read -r service password; do
    if [ "$1 $2 $3" = "get $service me" ]; then echo "$password"; exit 0; fi
done <"$beside/known"
exit 1
"""

MakeKeyring = Callable[[dict[str, str]], Path]


@pytest.fixture
def make_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeKeyring:
    """Puts a keyring with passwords by names in reach; returns its folder."""
    folder = tmp_path / "bin"

    def make(passwords: dict[str, str]) -> Path:
        folder.mkdir()
        program = folder / "keyring"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        known = "".join(f"{name} {password}\n" for name, password in passwords.items())
        (folder / "known").write_text(known)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder

    return make


def test_the_first_question_is_the_installers_own(place: Place, make_keyring: MakeKeyring) -> None:
    place.faults.login = "me:s3cret"
    folder = make_keyring({f"{place.index}/": "s3cret"})
    url = place.authority("me")
    assert place.fetch(PIP_INDEX_URL=url, PIP_NO_CACHE_DIR="1") == place.data()
    asked = (folder / "asked").read_text()
    assert asked == f"get {place.index}/ me\n", "once, and no secret in its arguments"
    with pytest.raises(DownloadError, match="401"):
        place.fetch(PIP_INDEX_URL=url, PIP_NO_CACHE_DIR="1", PIP_KEYRING_PROVIDER="disabled")


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(
    "name",
    [
        "{scheme}://{host}:{port}/simple/",
        "{host}:{port}",
        "{scheme}://{host}:{port}",
        "{scheme}://{host}:{port}/simple/tiny-native/",
        "{host}",
    ],
)
def test_any_of_its_names_gives_a_login(
    place: Place, make_keyring: MakeKeyring, name: str, slash: str
) -> None:
    place.faults.login = "me:s3cret"
    scheme, _, authority = place.address.partition("://")
    host, _, port = authority.partition(":")
    make_keyring({name.format(scheme=scheme, host=host, port=port): "s3cret"})
    assert place.fetch(PIP_INDEX_URL=place.authority("me") + slash) == place.data()


def test_uv_keeps_an_index_by_the_url_as_it_is_configured(
    place: Place, make_keyring: MakeKeyring
) -> None:
    place.faults.login = "me:s3cret"
    make_keyring({place.index: "s3cret"})
    uv = {"UV_INTERNAL__BUILD_DIR": "/x", "UV_KEYRING_PROVIDER": "subprocess"}
    assert place.fetch(uv, UV_DEFAULT_INDEX=place.authority("me")) == place.data()


def test_indexes_of_one_host_have_each_its_own_name(
    place: Place, make_keyring: MakeKeyring
) -> None:
    place.faults.logins = {"/one/": "me:1", "/two/": "me:2"}
    link = f'<a href="../../packages/{place.wheel.filename}">{place.wheel.filename}</a>'
    place.faults.replace["/one/simple/tiny-native/"] = b""
    place.faults.replace["/two/simple/tiny-native/"] = link.encode()
    place.faults.replace[f"/two/packages/{place.wheel.filename}"] = place.data()
    make_keyring({f"{place.address}/one/simple/": "1", f"{place.address}/two/simple/": "2"})
    one, two = (
        place.authority("me").replace("simple", f"{name}/simple") for name in ("one", "two")
    )
    assert place.fetch(PIP_INDEX_URL=one, PIP_EXTRA_INDEX_URL=two) == place.data()
