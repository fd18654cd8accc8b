"""What is generated from the variants' definitions is what stands in the repository."""

from pathlib import Path

from variantwheel.cli.matrix import markdown_table
from variantwheel.matrix import matrix_jobs
from variantwheel.project import read_project

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- variants: written by `variantwheel matrix --format markdown`, checked by a test -->\n"
END = "<!-- end of variants -->\n"


def test_the_readme_shows_the_variants_as_they_are_defined() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.split(BEGIN)[1].split(END)[0]
    assert table == markdown_table(matrix_jobs(read_project(ROOT).definitions))
