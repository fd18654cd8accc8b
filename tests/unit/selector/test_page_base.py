"""Links of an HTML page with a `<base>`: installers and browsers see them from there."""

from pathlib import Path

import pytest

from unit.selector.fault_server import Faults, faulty
from variantwheel_selector.errors import ReleaseError
from variantwheel_selector.fetching.payload_search import make_client
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.simple_index import fetch_project_names, parse_html_page


@pytest.mark.parametrize(
    ("base", "link", "url"),
    [
        ("http://f.invalid/files/", "a.whl", "http://f.invalid/files/a.whl"),
        ("/files/", "a.whl", "http://i.invalid/files/a.whl"),
        ("../b/", "c/a.whl", "http://i.invalid/b/c/a.whl"),
        ("", "a.whl", "http://i.invalid/s/a.whl"),
        ("/files/", "http://o.invalid/a.whl", "http://o.invalid/a.whl"),
    ],
)
def test_links_are_seen_from_the_first_base_of_a_page(base: str, link: str, url: str) -> None:
    text = f'<base target="_top"><base href="{base}"><base href="/no/"><a href="{link}#x=1">a</a>'
    assert [file.url for file in parse_html_page(text, "http://i.invalid/s/")] == [url]


def test_a_base_leads_to_no_file_of_this_machine(tmp_path: Path) -> None:
    text = f'<base href="{tmp_path.as_uri()}/"><a href="a.whl">a</a>'
    (file,) = parse_html_page(text, "http://i.invalid/s/")
    assert file.refusal == "the page leads to a file of this machine"
    (file,) = parse_html_page(text, f"{tmp_path.as_uri()}/s/index.html")
    assert file.refusal == ""


def test_a_base_that_is_no_url() -> None:
    with pytest.raises(ReleaseError, match=r"'http://\[', which is no URL"):
        parse_html_page('<base href="http://["><a href="a">a</a>', "http://i.invalid/s/")


def test_projects_are_seen_from_the_base_too(tmp_path: Path) -> None:
    (tmp_path / "simple").mkdir()
    page = '<base href="../"><a href="simple/one/">one</a><a href="two/">two</a>'
    (tmp_path / "simple/index.html").write_text(page)
    client = make_client(configured_sources({}), {})
    with faulty(Faults(tmp_path)) as address:
        assert fetch_project_names(f"{address}/simple", client) == ["one"]
