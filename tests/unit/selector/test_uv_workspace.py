"""Whose settings count in a workspace of uv; what uv itself does was tried with 0.13.8."""

import sys
from pathlib import Path

import pytest

from variantwheel_selector.fetching.sources import configured_sources

UV = {"UV_INTERNAL__BUILD_DIR": "/x", "XDG_CONFIG_DIRS": "/nowhere"}
ROOT = '[project]\nname = "root"\n[tool.uv]\nindex-url = "http://root/"\n[tool.uv.workspace]\n'
MEMBER = '[project]\nname = "member"\n[tool.uv]\nindex-url = "http://member/"\n'

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="no TOML in Python 3.10")


def index(folder: Path) -> str:
    return " ".join(configured_sources(UV, str(folder)).indexes)


@pytest.fixture
def member(tmp_path: Path) -> Path:
    folder = tmp_path / "packages/member"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(MEMBER)
    return folder


@pytest.mark.parametrize(
    ("workspace", "counts"),
    [
        ('members = ["packages/*"]', "http://root/"),
        ('members = ["./packages/member/"]', "http://root/"),
        ('members = ["*"]', "http://member/"),
        ('members = ["*/*"]', "http://root/"),
        ('members = ["packages/**"]', "http://root/"),
        ('members = ["packages/member/**"]', "http://member/"),
        ('members = ["packages/**/member"]', "http://root/"),
        ('members = ["other", "p?ckages/[a-m]*"]', "http://root/"),
        ('members = ["packages"]', "http://member/"),
        ('members = ["packages/*"]\nexclude = ["packages/m*"]', "http://member/"),
        ("", "http://member/"),
        ("members = [1]", "http://member/"),
    ],
)
def test_the_root_counts_for_its_members_alone(
    tmp_path: Path, member: Path, workspace: str, counts: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(ROOT + workspace)
    assert index(member) == counts
    (member / "src").mkdir()
    assert index(member / "src") == counts
    assert index(tmp_path / "packages") == "http://root/"


def test_a_root_without_settings_hides_those_of_its_member(tmp_path: Path, member: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]')
    assert index(member) == ""
    (tmp_path / "uv.toml").write_text('index-url = "http://beside/"')
    assert index(member) == "http://beside/"


def test_a_project_in_between_is_in_no_workspace_above(tmp_path: Path, member: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(ROOT + 'members = ["packages/*"]')
    (tmp_path / "packages/pyproject.toml").write_text('[project]\nname = "between"\n')
    assert index(member) == "http://member/"


@pytest.mark.parametrize("broken", [False, True])
def test_what_is_no_project_of_uv_is_no_member(
    tmp_path: Path, member: Path, *, broken: bool
) -> None:
    (tmp_path / "pyproject.toml").write_text(ROOT + 'members = ["*/*"]')
    text = MEMBER.replace("[tool.uv]\n", "[tool.uv]\nmanaged = false\n")
    (member / "pyproject.toml").write_text("[" if broken else text)
    assert index(member) == ("http://root/" if broken else "http://member/")
