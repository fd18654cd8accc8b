"""Finding a release: an index over HTTP (JSON and HTML), a folder, an sdist."""

import functools
import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from unit.selector.served_payload import Place
from unit.selector.tiny_release import (
    METADATA,
    NO_FILES,
    NULL,
    V3,
    V4,
    TinyRelease,
    make_machine,
    release_info,
    wheel_bytes,
)
from variantwheel_selector.errors import NothingFitsError, ReleaseError
from variantwheel_selector.fetching.payload_search import make_client
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.manifest import (
    MANIFEST_PATH,
    Manifest,
    PayloadWheel,
    render_manifest,
)
from variantwheel_selector.missing_project import projects_of
from variantwheel_selector.record import replace
from variantwheel_selector.release_source import (
    release_from_folder,
    release_from_index,
    release_from_sdist,
)
from variantwheel_selector.sdist_source import (
    sdist_from_folder,
    sdist_from_index,
)
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.simple_index import (
    IndexFile,
    fetch_project,
    fetch_project_names,
    parse_html_page,
    parse_json_page,
)
from variantwheel_selector.variants_json import render_variants_json

MACHINE = make_machine()
INFO = release_info([NULL, V3, V4])
TAG = "py3-none-any"
NO_SETTINGS = read_settings(None, NO_FILES)


def wheel(version: str, label: str) -> str:
    return f"tiny_native-{version}-{TAG}-{label}.whl"


FILES = [
    *[wheel(version, label) for version in ("1.0", "1.10", "2.0rc1") for label in INFO.variants],
    wheel("1.9", "null"),
    "tiny_native-1.10.tar.gz",
    "tiny_native_other-9.0-py3-none-any-null.whl",
    "not a wheel.whl",
]


def write_variants(folder: Path, *versions: str) -> None:
    for version in versions:
        path = folder / f"tiny_native-{version}-variants.json"
        path.write_text(render_variants_json(INFO))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).touch()
    write_variants(tmp_path, "1.0", "1.10", "2.0rc1")
    return tmp_path


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Serves folders over HTTP on the loopback interface and returns their URL."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(folder: Path) -> str:
        handler = functools.partial(_Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def labels(release: Release) -> set[str]:
    return {name.removesuffix(".whl").rpartition("-")[2] for name in release.hashes}


def test_the_newest_final_version_of_a_folder(folder: Path) -> None:
    release = release_from_folder(folder, "Tiny.Native", None, MACHINE)
    assert (release.project, release.version) == ("tiny-native", "1.10")
    assert labels(release) == {"null", "x86_64_v3", "x86_64_v4"}
    assert release.variants == INFO


@pytest.mark.parametrize(("wanted", "found"), [("1.0", "1.0"), ("1", "1.0"), ("2.0.rc1", "2.0rc1")])
def test_a_version_asked_for(folder: Path, wanted: str, found: str) -> None:
    assert release_from_folder(folder, "tiny-native", wanted, MACHINE).version == found


@pytest.mark.parametrize(
    ("project", "wanted", "words"),
    [
        ("tiny-native", "3.0", "has no tiny-native 3.0, but 1.0, 1.9, 1.10, 2.0rc1"),
        ("tiny-native", "1.9", "has neither tiny_native-1.9-variants.json nor the release's sdist"),
        ("tiny-native", "one", "'one' is no version"),
        ("nothing", None, "has nothing of nothing; it has tiny-native, tiny-native-other$"),
        ("nothing", "1.0", "has nothing of nothing; it has tiny-native, tiny-native-other$"),
        ("tinny_native", None, "has nothing of tinny_native - did you mean 'tiny-native'"),
    ],
)
def test_what_a_folder_lacks(folder: Path, project: str, wanted: str | None, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        release_from_folder(folder, project, wanted, MACHINE)


def test_html_index(folder: Path, serve: Callable[[Path], str]) -> None:
    sha256 = "0123456789abcdef" * 4
    anchors = [f'<a href="../../{name}#sha256={sha256}">{name}</a>' for name in FILES]
    anchors.append(
        '<a href="../../tiny_native-1.10-variants.json">variants</a>'
        f'<a href="../../{wheel("1.11", "null")}" data-yanked="">yanked</a>'
        f'<a href="../../{wheel("1.10", "null").replace("py3", "py2.py3")}"'
        ' data-requires-python="&gt;=4">new</a>'
    )
    page = folder / "simple/tiny-native/index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<!DOCTYPE html><html><body>" + "\n".join(anchors) + "</body></html>")
    release = release_from_index(f"{serve(folder)}/simple/", "tiny_native", None, MACHINE, {})
    assert release.version == "1.10"
    assert labels(release) == {"null", "x86_64_v3", "x86_64_v4"}
    assert release.hashes[wheel("1.10", "null")] == sha256
    (refused,) = release.refused.items()
    assert refused[0].startswith("tiny_native-1.10-py2.py3")
    assert refused[1] == "needs Python >=4, this is 3.11.7"


def test_an_index_with_the_sdist_alone(
    release: TinyRelease, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    """What public indexes take today: neither variant wheels nor a variants.json."""
    archive = release.archive(tmp_path / "site/tiny-native")
    page = archive.parent / "index.html"
    url = serve(tmp_path / "site")
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    page.write_text(f'<a href="{archive.name}#sha256={sha256}">{archive.name}</a>')
    found = release_from_index(url, "tiny-native", None, MACHINE, {})
    assert found == release_from_folder(archive.parent, "tiny-native", None, MACHINE)
    assert labels(found) == {"null", "x86_64_v3", "x86_64_v4"}
    page.write_text(f'<a href="{archive.name}#sha256={"0" * 64}">{archive.name}</a>')
    with pytest.raises(ReleaseError, match="its sha256 differs"):
        release_from_index(url, "tiny-native", None, MACHINE, {})


def write_sdist(folder: Path, version: str, requires_python: str) -> Path:
    """Write a selector sdist of a wheel that is there by its hash alone."""
    wheels = (PayloadWheel(wheel(version, "null"), "null", 9, "0" * 64),)
    manifest = Manifest(
        "tiny-native", version, "0.1.0", release_info([NULL]), wheels, None, embedded=False
    )
    metadata = METADATA.replace("1.0", version) + f"Requires-Python: {requires_python}\n"
    path = folder / f"tiny_native-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("PKG-INFO", metadata), (MANIFEST_PATH, render_manifest(manifest))):
            member = tarfile.TarInfo(f"tiny_native-{version}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def write_wheel(folder: Path, version: str, requires_python: str) -> Path:
    path = folder / wheel(version, "null")
    metadata = f"{METADATA}Requires-Python: {requires_python}\n".encode()
    path.write_bytes(wheel_bytes({f"{path.name}.dist-info/METADATA": metadata}, "x.dist-info"))
    return path


def write_page(folder: Path, *, stated: Mapping[str, str]) -> None:
    """Write the page of a folder as an index, with what it states of files' Pythons."""
    anchors = [
        f'<a href="{path.name}" data-requires-python="{stated.get(path.name, "")}">{path.name}</a>'
        for path in sorted(folder.glob("tiny_native-*"))
    ]
    (folder / "index.html").write_text("\n".join(anchors))


Writer = Callable[[Path, str, str], Path]


@pytest.fixture(params=[write_sdist, write_wheel], ids=["sdists", "wheels"])
def for_later_pythons(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with version 1.0 for this Python, and with 2.0 and 3.0a1 for later ones."""
    folder = tmp_path / "site/tiny-native"
    folder.mkdir(parents=True)
    write: Writer = request.param
    for version, requires in (("1.0", ">=3.9"), ("2.0", ">=3.12"), ("3.0a1", ">=3.13")):
        write(folder, version, requires)
    if write is write_wheel:
        write_variants(folder, "1.0", "2.0", "3.0a1")
    return folder


def test_versions_for_other_pythons_are_left_out_as_pip_does(
    for_later_pythons: Path, serve: Callable[[Path], str]
) -> None:
    folder, index = for_later_pythons, serve(for_later_pythons.parent)
    stated = {path.name: "&gt;=3.12" for path in folder.glob("tiny_native-[23]*")}
    write_page(folder, stated=stated)
    later = replace(MACHINE, python=replace(MACHINE.python, version="3.12.1"))
    last = replace(MACHINE, python=replace(MACHINE.python, version="3.14.0"))
    for machine, version in ((MACHINE, "1.0"), (later, "2.0"), (last, "2.0")):
        assert release_from_folder(folder, "tiny-native", None, machine).version == version
        found = release_from_index(index, "tiny-native", None, machine, {})
        assert (found.version, found.refused) == (version, {})
    # One that is asked for is judged, and no wheel of it fits.
    for found in (
        release_from_folder(folder, "tiny-native", "2", MACHINE),
        release_from_index(index, "tiny-native", "2", MACHINE, {}),
    ):
        refusal = "needs Python >=3.12, this is 3.11.7"
        assert found.refused == {wheel("2.0", "null"): refusal}
        assert select(found, NO_SETTINGS, MACHINE).resolution.winner is None
    old = replace(MACHINE, python=replace(MACHINE.python, version="3.8.0"))
    words = r"no tiny-native for Python 3\.8\.0: 2\.0 needs >=3\.12, 1\.0 needs >=3\.9, 3\.0a1 "
    with pytest.raises(NothingFitsError, match=words):
        release_from_folder(folder, "tiny-native", None, old)


def test_an_sdist_says_which_pythons_it_is_for_where_the_index_does_not(
    tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    folder = tmp_path / "site/tiny-native"
    folder.mkdir(parents=True)
    for version, requires in (("1.0", ">=3.9"), ("2.0", ">=3.12"), ("3.0", ">=3.13")):
        write_sdist(folder, version, requires)
    write_page(folder, stated={})
    index = serve(folder.parent)
    assert release_from_index(index, "tiny-native", None, MACHINE, {}).version == "1.0"
    for pythons, version in ((["3.12.1"], "2.0"), (["3.13.0", "3.11.2"], "1.0")):
        found = sdist_from_index(index, "tiny-native", None, tmp_path, {}, pythons)
        assert found.manifest.version == version
        found = sdist_from_folder(folder, "tiny-native", None, pythons)
        assert found.manifest.version == version
    with pytest.raises(NothingFitsError, match=r"for Python 3\.13\.0 and 3\.8\.1: 3\.0 needs"):
        sdist_from_index(index, "tiny-native", None, tmp_path, {}, ["3.13.0", "3.8.1"])
    # A damaged one is not passed over.
    (folder / "tiny_native-4.0.tar.gz").write_bytes(b"garbage")
    write_page(folder, stated={})
    words = r"^tiny_native-4\.0\.tar\.gz of http://127.* is no selector sdist: not a gzip file"
    with pytest.raises(ReleaseError, match=words):
        sdist_from_index(index, "tiny-native", None, tmp_path, {}, ["3.11.7"])


def test_an_sdist_for_another_python_has_no_wheels_for_this_one(tmp_path: Path) -> None:
    packed = write_sdist(tmp_path, "2.0", ">=3.12")
    refusal = {wheel("2.0", "null"): "needs Python >=3.12, this is 3.11.7"}
    assert release_from_sdist(packed, MACHINE).refused == refusal
    with tarfile.open(packed) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            path = tmp_path / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    assert release_from_sdist(tmp_path / "tiny_native-2.0", MACHINE).refused == refusal


@pytest.mark.parametrize("spelt", ["tiny-nativ", "Native", "tinynative"])
def test_an_index_without_the_project_names_near_ones(
    folder: Path, serve: Callable[[Path], str], spelt: str
) -> None:
    site = folder / "site"
    for name in ("tiny-native", "torch", "numpy"):
        (site / name).mkdir(parents=True)
    index = serve(site)
    with pytest.raises(ReleaseError, match=r"404(.|\n)*did you mean 'tiny-native'\?$"):
        release_from_index(index, spelt, None, MACHINE, {})
    with pytest.raises(ReleaseError, match=r"it has numpy, tiny-native, torch$"):
        sdist_from_index(index, "unheard-of", None, folder, {}, ["3.11.7"])
    (site / "index.html").write_text("<!DOCTYPE html>" + "<a href='tiny_native/'>x</a>" * 200_000)
    with pytest.raises(ReleaseError, match="check the project's name"):
        release_from_index(index, spelt, None, MACHINE, {})


def test_a_number_in_an_address_is_no_answer_of_the_index(place: Place) -> None:
    place.faults.statuses["/404/tiny-native/"] = [403]
    with pytest.raises(ReleaseError, match="says 403") as caught:
        release_from_index(f"{place.address}/404", "tiny-native", None, MACHINE, {})
    assert "has no page" not in str(caught.value)


class _JsonNames(_Quiet):
    """An index that answers with JSON; it has no page of any project."""

    def do_GET(self) -> None:
        if self.path != "/simple/":
            self.send_error(404)
            return
        names = [{"name": "Tiny_Native", "_last-serial": 1}]
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        self.end_headers()
        self.wfile.write(json.dumps({"meta": {"api-version": "1.1"}, "projects": names}).encode())


def test_an_index_that_lists_its_projects_as_json() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _JsonNames) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        index = f"http://127.0.0.1:{server.server_port}/simple"
        with pytest.raises(ReleaseError, match="did you mean 'tiny-native'"):
            release_from_index(index, "tiny-natve", None, MACHINE, {})
        server.shutdown()


@pytest.mark.parametrize(
    ("filenames", "projects"),
    [
        (["a_b-1.0-py3-none-any-cu12.whl", "A.B-1.0.tar.gz"], {"a-b"}),
        (["c-1.0-variants.json", "README", "x.whl", ".tar.gz", "-variants.json"], {"c"}),
        ([], set()),
    ],
)
def test_projects_of_files(filenames: list[str], projects: set[str]) -> None:
    assert projects_of(filenames) == projects


def test_json_page() -> None:
    document = {
        "meta": {"api-version": "1.1"},
        "name": "a",
        "files": [
            {"filename": "a-1.whl", "url": "../f/a-1.whl",
             "hashes": {"SHA256": "AB" * 32, "new": "1"}, "requires-python": ">=3.10", "size": 1},
            {"filename": "b.whl", "url": "https://host.invalid/b.whl", "hashes": {},
             "requires-python": None, "yanked": "broken"},
        ],
    }  # fmt: skip
    found = parse_json_page(json.dumps(document).encode(), "http://i.invalid/simple/a/")
    assert found == [
        IndexFile(
            "a-1.whl", "http://i.invalid/simple/f/a-1.whl", (("sha256", "ab" * 32),), ">=3.10"
        ),
        IndexFile("b.whl", "https://host.invalid/b.whl", (), "", "broken"),
    ]


def test_html_page_with_odd_links() -> None:
    text = '<a href="/x/a%2Bb-1.whl#egg=0">a</a><a>no link</a><a href="b.whl"'
    assert [file.filename for file in parse_html_page(text, "http://i.invalid/s/")] == ["a+b-1.whl"]


def test_a_declaration_that_no_parser_knows() -> None:
    with pytest.raises(ReleaseError, match="no HTML page that can be read: unknown status keyword"):
        parse_html_page("<![r[x]]>", "http://i.invalid/simple/a/")


def test_an_index_that_does_not_answer() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ReleaseError, match=r"cannot read .*/tiny-native/"):
            release_from_index(url, "tiny-native", None, MACHINE, {})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host.invalid/simple", "neither http nor https"),
        ("https://me:secret@127.0.0.1:1/simple", r"https://\*\*\*@127|https://127"),
        ("http://[", "is no URL"),
        ("http://127.0.0.1:1/a b", "cannot read"),
        ("http://127.0.0.1:one/", "its port is no number"),
    ],
)
def test_urls_that_are_not_read(url: str, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        release_from_index(url, "tiny-native", None, MACHINE, {})


def test_an_sdist_packed_and_unpacked(release: TinyRelease, tmp_path: Path) -> None:
    packed = release.archive(tmp_path / "dist")
    found = release_from_sdist(packed, MACHINE)
    assert found == release_from_sdist(release.root, MACHINE)
    assert labels(found) == {"null", "x86_64_v3", "x86_64_v4"}


def test_a_server_that_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 mail server ready\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        words = f"{url}/tiny-native/: the server does not speak HTTP: it answers '220 mail .*'$"
        with pytest.raises(ReleaseError, match=words) as caught:
            release_from_index(url, "tiny-native", None, MACHINE, {})
        assert len(caught.value.lines()) == 1
        thread.join(10)


def test_links_that_are_no_urls() -> None:
    with pytest.raises(ReleaseError, match=r"'http://\[', which is no URL"):
        parse_html_page('<a href="http://[">a</a>', "http://i.invalid/s/")


def test_pages_of_a_later_major_version_are_refused() -> None:
    with pytest.raises(ReleaseError, match=r"repository version '2\.0'"):
        parse_json_page(b'{"meta": {"api-version": "2.0"}, "files": []}', "http://i.invalid/s/")
    with pytest.raises(ReleaseError, match=r"repository version '2\.0'"):
        parse_html_page('<meta name="pypi:repository-version" content="2.0">', "http://i.invalid/")
    assert parse_json_page(b'{"meta": {"api-version": "1.9"}, "files": []}', "http://i/") == []


def test_of_two_spellings_of_a_version_it_is_always_the_same_one(tmp_path: Path) -> None:
    for version in ("1.0", "1.0.0", "1.0.0.0"):
        (tmp_path / wheel(version, "null")).touch()
        write_variants(tmp_path, version)
    assert release_from_folder(tmp_path, "tiny-native", None, MACHINE).version == "1.0.0.0"


@pytest.mark.parametrize("link", ["file://{}", "FILE:{}", " fi\nle://localhost{}"])
def test_pages_of_a_server_do_not_lead_to_files_of_this_machine(
    release: TinyRelease,
    serve: Callable[[Path], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    link: str,
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    sdist = release.archive(tmp_path / "local")
    page = tmp_path / "site/simple/tiny-native/index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{link.format(sdist)}">{sdist.name}</a>')
    index = f"{serve(tmp_path / 'site')}/simple"
    words = "is refused: the page leads to a file of this machine"
    with pytest.raises(ReleaseError, match=words):
        release_from_index(index, "tiny-native", None, MACHINE, {})
    with pytest.raises(ReleaseError, match=words):
        sdist_from_index(index, "tiny-native", None, tmp_path, {}, ["3.11.7"])
    local = (tmp_path / "site/simple").as_uri()
    assert labels(release_from_index(local, "tiny-native", None, MACHINE, {})) == {
        wheel.label for wheel in release.wheels
    }


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("json", b"{"),
        ("json", b'{"meta": {"api-version": "2.0"}, "files": []}'),
        ("json", b'{"files": [{"filename": 1, "url": "x"}]}'),
        ("json", b'{"files": [{"filename": "x", "url": "http://[me:s3cret@x?token=s3cret"}]}'),
        ("html", b"<![r[x]]>"),
        ("html", b'<a href="http://[?token=s3cret">x</a>'),
    ],
)
def test_errors_do_not_show_the_secrets_of_where_a_server_redirects_to(
    kind: str, body: bytes
) -> None:
    class Redirecting(_Quiet):
        def do_GET(self) -> None:
            if "?" not in self.path:
                self.send_response(302)
                self.send_header("Location", f"{self.path}?signature=s3cret")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header(
                "Content-Type", f"{'application' if kind == 'json' else 'text'}/{kind}"
            )
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            client = make_client(configured_sources({}), {})
            index = f"http://127.0.0.1:{server.server_port}/simple"
            with pytest.raises(ReleaseError, match=r"/\?…") as of_page:
                fetch_project(index, "a", client)
            with pytest.raises(ReleaseError, match=r"/\?…") as of_names:
                fetch_project_names(index, client)
        finally:
            server.shutdown()
            thread.join()
    assert "s3cret" not in str(of_page.value) + str(of_names.value)
