"""Versions that were taken back: only who asks for one gets it, and is told (PEP 592)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.selector.fault_server import Faults, faulty
from unit.selector.test_release_source import write_sdist
from unit.selector.tiny_release import TinyRelease, make_machine
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.errors import ReleaseError
from variantwheel_selector.machine_folder import write_machine
from variantwheel_selector.release_source import release_from_index
from variantwheel_selector.sdist_source import sdist_from_index
from variantwheel_selector.simple_index import parse_html_page, parse_json_page
from variantwheel_selector.variants_json import render_variants_json

MACHINE = make_machine()
TOLD = "tiny-native 1.0 was taken back by its publisher (yanked): broken"


@pytest.fixture
def index(release: TinyRelease, tmp_path: Path) -> Iterator[str]:
    """An index with version 1.0, which was yanked, and 0.9, of which there is an sdist."""
    project = release.publish(tmp_path / "site")
    names = [release.archive(project).name, *(wheel.filename for wheel in release.wheels)]
    lines = [f'<a data-yanked="broken" href="{name}">x</a>' for name in names]
    lines.append(f'<a href="{write_sdist(project, "0.9", ">=3.9").name}">x</a>')
    (project / "index.html").write_text("\n".join(lines))
    with faulty(Faults(tmp_path / "site")) as address:
        yield f"{address}/simple"


def test_only_who_asks_for_a_yanked_version_gets_it(index: str, tmp_path: Path) -> None:
    for wanted, version, yanked in ((None, "0.9", None), ("1.0", "1.0", "broken")):
        release = release_from_index(index, "tiny-native", wanted, MACHINE, {})
        assert (release.version, release.yanked) == (version, yanked)
        sdist = sdist_from_index(index, "tiny-native", wanted, tmp_path, {}, ["3.11.7"])
        assert (sdist.manifest.version, sdist.yanked) == (version, yanked)
    with pytest.raises(ReleaseError, match=r"has no tiny-native 2, but 0\.9, 1\.0"):
        release_from_index(index, "tiny-native", "2", MACHINE, {})


def test_a_version_is_not_yanked_if_some_of_its_files_are_not(index: str, tmp_path: Path) -> None:
    page = tmp_path / "site/simple/tiny-native/index.html"
    page.write_text(page.read_text().replace('data-yanked="broken" ', "", 1))
    release = release_from_index(index, "tiny-native", "1", MACHINE, {})
    assert (release.version, release.yanked) == ("1.0", None)


def test_a_project_of_which_all_was_yanked(index: str, tmp_path: Path) -> None:
    page = tmp_path / "site/simple/tiny-native/index.html"
    page.write_text("\n".join(page.read_text().splitlines()[:-1]))
    words = "has nothing of tiny-native but what was yanked, 1.0; tiny-native==VERSION asks for it"
    with pytest.raises(ReleaseError, match=words):
        release_from_index(index, "tiny-native", None, MACHINE, {})
    with pytest.raises(ReleaseError, match=words):
        sdist_from_index(index, "tiny-native", None, tmp_path, {}, ["3.11.7"])


def test_explain_and_lock_tell_of_it(
    index: str,
    release: TinyRelease,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    write_machine(MACHINE, tmp_path / "login")
    machine = str(tmp_path / "login")
    asked = ["tiny-native==1.0", "--index", index]
    explain = ["explain", *asked, "--machine", machine]
    lock = ["lock", *asked, "--profile", machine, "-o", str(tmp_path / "lock")]
    for command in (explain, lock):
        assert run_commandline(command) == 0
        assert TOLD in capsys.readouterr().out.splitlines()
        assert run_commandline([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["yanked"] == "broken"
    # The same where the release's own variants.json lies beside.
    page = tmp_path / "site/simple/tiny-native/index.html"
    name = "tiny_native-1.0-variants.json"
    page.with_name(name).write_text(render_variants_json(release.info))
    text = page.read_text().replace('="broken"', '=""')
    page.write_text(f'{text}\n<a href="{name}">x</a>')
    assert run_commandline(explain) == 0
    told = "tiny-native 1.0 was taken back by its publisher (yanked), without a reason"
    assert told in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("stated", "found"),
    [(True, ""), (False, None), (None, None), ("why", "why"), ("", None), (1, ""), ([], None)],
)
def test_what_pages_say(stated: object, found: str | None) -> None:
    page = {"files": [{"filename": "a-1.tar.gz", "url": "a", "hashes": {}, "yanked": stated}]}
    (file,) = parse_json_page(json.dumps(page).encode(), "http://i.invalid/")
    assert file.yanked == found
    (file,) = parse_html_page("<a href='a-1.tar.gz' data-yanked>a</a>", "http://i.invalid/")
    assert file.yanked == ""
