"""The static index: what its pages say, and that nothing on it is ever lost or changed."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from unit.variants.tiny_project import (
    DIST_INFO,
    EPOCH,
    STEP_TIMEOUT,
    TinyRelease,
    respoil,
    variantwheel,
)
from variantwheel import index_site
from variantwheel.errors import IndexConflictError, ReleaseFolderError
from variantwheel.index_site import plan_site, update_site
from variantwheel.wheel_archive import WheelArchive, read_wheel
from variantwheel.wheel_writing import write_wheel
from variantwheel_selector.variants_json import parse_variants_json, render_variants_json
from variantwheel_selector.wheel_name import WheelName


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            attributes = dict(attrs)
            self.found[str(attributes["href"]).partition("#")[0]] = attributes


def _links(page: Path) -> dict[str, dict[str, str | None]]:
    parser = _Links()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found


def _release(tiny: TinyRelease, folder: Path, *labels: str) -> Path:
    folder.mkdir()
    for label in labels:
        shutil.copy(tiny.wheel(label), folder)
    return folder


def _plain_wheel(folder: Path, name: str, content: bytes = b"") -> Path:
    stem = name.removesuffix("-py3-none-any.whl")
    distribution, version = stem.split("-")
    metadata = f"Metadata-Version: 2.4\nName: {distribution}\nVersion: {version}\n".encode()
    files = {
        f"{distribution}.py": content,
        f"{stem}.dist-info/METADATA": metadata,
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    return write_wheel(
        WheelArchive(WheelName.from_str(name), f"{stem}.dist-info", files), folder, EPOCH
    )


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _update(release: Path, site: Path) -> tuple[str, ...]:
    return update_site(release, site, print).warnings


def test_html_and_json_say_the_same_of_each_file(tiny_release: TinyRelease, tmp_path: Path) -> None:
    release = _release(tiny_release, tmp_path / "release", "null", "x86_64_v3")
    _update(release, tmp_path / "site")
    folder = tmp_path / "site" / "simple" / "tiny-variants"
    links = _links(folder / "index.html")
    document = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    assert document["meta"] == {"api-version": "1.1"}
    assert (document["name"], document["versions"]) == ("tiny-variants", ["1.0"])
    assert set(links) == {file["url"] for file in document["files"]}
    for file in document["files"]:
        data = (folder / file["filename"]).read_bytes()
        attributes = links[file["url"]]
        assert file["size"] == len(data)
        if file["filename"].endswith("-variants.json"):
            assert file["hashes"] == {}
            assert attributes == {"href": file["filename"]}
            continue
        digest = hashlib.sha256(data).hexdigest()
        metadata = (folder / f"{file['filename']}.metadata").read_bytes()
        of_metadata = hashlib.sha256(metadata).hexdigest()
        assert metadata == read_wheel(folder / file["filename"]).dist_info_file("METADATA")
        assert file["hashes"] == {"sha256": digest}
        assert file["core-metadata"] == file["dist-info-metadata"] == {"sha256": of_metadata}
        assert file["requires-python"] == ">=3.10"
        assert attributes == {
            "href": f"{file['filename']}#sha256={digest}",
            "data-requires-python": ">=3.10",
            "data-core-metadata": f"sha256={of_metadata}",
            "data-dist-info-metadata": f"sha256={of_metadata}",
        }


@pytest.mark.parametrize(
    ("renamed", "told"),
    [
        ({"x86_64_v3": None}, "its name has no label, but it holds a variant.json"),
        ({"x86_64_v3": "cu13"}, "its name says 'cu13', variant.json inside 'x86_64_v3'"),
        (
            {"null": "x86_64_v3", "x86_64_v3": "null"},
            "its name says 'null', variant.json inside 'x86_64_v3'",
        ),
    ],
)
def test_a_wheel_under_the_name_of_another_is_refused(
    tiny_release: TinyRelease, tmp_path: Path, renamed: dict[str, str | None], told: str
) -> None:
    site = tmp_path / "site"
    _update(_release(tiny_release, tmp_path / "before", "null"), site)
    published = _snapshot(site)
    release = _release(tiny_release, tmp_path / "release")
    for label, other in renamed.items():
        name = WheelName.from_str(tiny_release.wheel(label).name).with_label(other)
        shutil.copy(tiny_release.wheel(label), release / str(name))
    done = variantwheel("index", release, "-o", site, expect=2)
    assert told in done.stderr
    assert _snapshot(site) == published


def test_a_site_that_holds_a_renamed_wheel_can_still_be_added_to(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    site, v3 = tmp_path / "site", tiny_release.wheel("x86_64_v3")
    _update(_release(tiny_release, tmp_path / "release", "null"), site)
    plain = site / "simple/tiny-variants" / v3.name.replace("-x86_64_v3.whl", ".whl")
    shutil.copy(v3, plain)
    assert any(plain.name in warning for warning in _update(tmp_path / "release", site))


def test_variants_json_is_made_from_the_wheels_when_it_is_missing(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    _update(_release(tiny_release, tmp_path / "a", "null"), tmp_path / "site")
    _update(_release(tiny_release, tmp_path / "b", "x86_64_v3"), tmp_path / "site")
    name = "tiny_variants-1.0-variants.json"
    made = (tmp_path / "site" / "simple" / "tiny-variants" / name).read_bytes()
    assert made == (tiny_release.folder / name).read_bytes()


def test_releases_add_up_and_repeating_changes_nothing(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    _update(_release(tiny_release, tmp_path / "a", "null"), site)
    other = _plain_wheel(tmp_path / "b", "Other_Thing-2.0-py3-none-any.whl").parent
    _update(other, site)
    assert set(_links(site / "simple" / "index.html")) == {"other-thing/", "tiny-variants/"}
    before = _snapshot(site)
    _update(other, site)
    assert _snapshot(site) == before
    # The order in which releases came does not show.
    _update(other, tmp_path / "again")
    _update(tmp_path / "a", tmp_path / "again")
    assert _snapshot(tmp_path / "again") == before


def test_whoever_serves_the_site_may_read_it(tiny_release: TinyRelease, tmp_path: Path) -> None:
    site = tmp_path / "site"
    _update(_release(tiny_release, tmp_path / "a", "null"), site)
    files = [path for path in site.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}


def test_a_published_file_never_changes(tiny_release: TinyRelease, tmp_path: Path) -> None:
    site = tmp_path / "site"
    _update(_release(tiny_release, tmp_path / "a", "null"), site)
    before = _snapshot(site)
    spoiled = respoil(tiny_release.wheel("null"), tmp_path / "b", {"more.txt": b"x"}).parent
    _plain_wheel(spoiled, "new-1.0-py3-none-any.whl")
    done = variantwheel("index", spoiled, "-o", site, expect=1)
    assert "is on the index already, with other bytes" in done.stderr
    assert _snapshot(site) == before


def test_a_variant_comes_to_a_published_release_without_its_sdist(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    site, release = tmp_path / "site", _release(tiny_release, tmp_path / "a", "null")
    sdist = ("sdist", release, "-o", release, "--allow-partial", "--no-source")
    variantwheel(*sdist, "--project", tiny_release.project)
    _update(release, site)
    files = site / "simple/tiny-variants"
    published = (files / "tiny_variants-1.0.tar.gz").read_bytes()
    # What a maintainer tries first, and what the error advises.
    v3 = shutil.copy(tiny_release.wheel("x86_64_v3"), release)
    variantwheel(*sdist, "--project", tiny_release.project)
    before = _snapshot(site)
    done = variantwheel("index", release, "-o", site, expect=1)
    assert "tiny_variants-1.0.tar.gz is on the index already, with other bytes" in done.stderr
    assert "build them into a folder of their own, and add that" in done.stderr
    assert _snapshot(site) == before
    _update(_release(tiny_release, tmp_path / "b", "x86_64_v3"), site)
    assert (files / Path(v3).name).read_bytes() == Path(v3).read_bytes()
    assert (files / "tiny_variants-1.0.tar.gz").read_bytes() == published
    known = json.loads((files / "tiny_variants-1.0-variants.json").read_text(encoding="utf-8"))
    assert set(known["variants"]) == {"null", "x86_64_v3"}


def test_a_label_never_comes_to_mean_something_else(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    _update(_release(tiny_release, tmp_path / "a", "x86_64_v3"), site)
    wheel = tiny_release.wheel("x86_64_v3")
    changed = read_wheel(wheel).dist_info_file("variant.json").replace(b'"v3"', b'"v4"')
    newer = respoil(
        wheel,
        tmp_path / "b",
        {f"{DIST_INFO}/variant.json": changed},
        wheel.name.replace("-py3-", "-2-py3-"),
    )
    with pytest.raises(IndexConflictError, match="two sets of properties"):
        plan_site(newer.parent, site / "simple")


def test_labels_that_only_the_variants_json_of_the_site_knows_stay(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    # Wheels of other machines may be published elsewhere (PEP 825).
    site = tmp_path / "site"
    name = "tiny_variants-1.0-variants.json"
    both = _release(tiny_release, tmp_path / "a", "null")
    shutil.copy(tiny_release.folder / name, both)
    _update(both, site)
    _update(_release(tiny_release, tmp_path / "b", "null"), site)
    info = parse_variants_json((site / "simple" / "tiny-variants" / name).read_bytes())
    assert set(info.variants) == {"null", "x86_64_v3"}
    assert render_variants_json(info).encode() == (tiny_release.folder / name).read_bytes()


def test_a_plain_wheel_beside_variants_is_warned_about(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    release = _release(tiny_release, tmp_path / "a", "null")
    _plain_wheel(release, "tiny_variants-1.0-py3-none-any.whl")
    assert "installs no variant" in _update(release, tmp_path / "site")[0]


@pytest.mark.parametrize(
    "name", ["e\x1b[31mv-1.0.tar.gz", "e\x1b[31mv-1.0-variants.json", "e\rv-1.0.tar.gz"]
)
def test_names_that_would_steer_a_terminal_are_refused(tmp_path: Path, name: str) -> None:
    release = _plain_wheel(tmp_path / "release", "p1-1.0-py3-none-any.whl").parent
    (release / name).write_bytes(b"")
    done = variantwheel("index", release, "-o", tmp_path / "site", expect=2)
    assert "has a control character in its name; remove it" in done.stderr
    assert (done.stdout + done.stderr).replace("\n", "").isprintable()
    assert not (tmp_path / "site/simple").exists()


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReleaseFolderError, match="holds neither wheels nor"):
        plan_site(tmp_path, tmp_path / "site" / "simple")
    assert (
        "no such folder" in variantwheel("index", tmp_path / "x", "-o", tmp_path, expect=2).stderr
    )


def _assert_sound(site: Path) -> set[str]:
    """Every page links what is there, with its right digest; returns the linked files."""
    linked: set[str] = set()
    simple = site / "simple"
    for page in simple.glob("*/index.html"):
        for href, attributes in _links(page).items():
            data = (page.parent / href).read_bytes()
            _, _, digest = str(attributes["href"]).partition("#sha256=")
            assert not digest or digest == hashlib.sha256(data).hexdigest()
            linked.add(href)
        files = json.loads((page.parent / "index.json").read_bytes())["files"]
        assert all((page.parent / file["filename"]).is_file() for file in files)
    return linked


def test_a_run_that_is_interrupted_anywhere_leaves_a_sound_site(
    tiny_release: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _release(tiny_release, tmp_path / "a", "null")
    second = _release(tiny_release, tmp_path / "b", "x86_64_v3")
    _plain_wheel(second, "other-1.0-py3-none-any.whl")
    whole = tmp_path / "whole"
    _update(first, whole)
    _update(second, whole)
    for steps in range(100):
        site = tmp_path / f"site{steps}"
        _update(first, site)
        left = steps

        def interrupted(target: Path, *rest: bytes, do: Callable[..., None]) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            do(target, *rest)

        with monkeypatch.context() as patch:
            for name in ("replace_file", "replace_by_copy"):
                do = getattr(index_site, name)
                patch.setattr(index_site, name, functools.partial(interrupted, do=do))
            try:
                _update(second, site)
            except KeyboardInterrupt:
                pass
            else:
                break
        assert tiny_release.wheel("null").name in _assert_sound(site)
        _update(second, site)
        assert _snapshot(site) == _snapshot(whole)
    assert 8 < steps < 99


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    release = _plain_wheel(tmp_path / "release", "p1-1.0-py3-none-any.whl").parent
    victim, site = tmp_path / "victim", tmp_path / "site"
    victim.write_text("important\n")
    site.mkdir()
    (site / ".lock").symlink_to(victim)
    with pytest.raises(ReleaseFolderError, match=r"\.lock: is a link"):
        _update(release, site)
    assert victim.read_text() == "important\n"
    assert not (site / "simple").exists()
    (site / ".lock").unlink()
    (site / ".lock").write_text("of an older run")
    _update(release, site)
    assert (site / ".lock").read_text() == "of an older run"


def test_runs_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    site, names = tmp_path / "site", [f"p{number}-1.0-py3-none-any.whl" for number in range(4)]
    releases = [_plain_wheel(tmp_path / name[:2], name).parent for name in names]
    site.mkdir()
    program = str(Path(sys.executable).with_name("variantwheel"))
    with (site / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs = [
            subprocess.Popen(
                [program, "index", str(release), "-o", str(site)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for release in releases
        ]  # fmt: skip
        for run in runs:
            assert run.stderr is not None
            assert "another run adds to this site" in run.stderr.readline()
    for run in runs:
        assert run.wait(timeout=STEP_TIMEOUT) == 0
        assert run.stderr is not None
        run.stderr.close()
    assert _assert_sound(site) == set(names)
