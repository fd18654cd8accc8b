"""Writes everything in the repository that is generated: `./dev generate`, or `--check` to compare.

Sources are the variants' definitions and the toolkit's own tables; a test runs the comparison.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from variable_tables import variable_tables

from variantwheel.atomic_file import replace_file
from variantwheel.cli.matrix import markdown_table
from variantwheel.cli.workflow import workflow_files
from variantwheel.conda_variants import cuda_arch_expression, render_variants_yaml
from variantwheel.definition_keys import key_reference
from variantwheel.matrix import matrix_jobs
from variantwheel.project import Project, read_project

ROOT = Path(__file__).resolve().parent.parent


def generated_files(root: Path) -> dict[Path, str]:
    """Makes the text of every generated file, those with a generated part included."""
    project = read_project(root)
    files: dict[Path, str] = {}
    for name, blocks in _blocks(project).items():
        text = (root / name).read_text(encoding="utf-8")
        for word, block in blocks.items():
            text = _with_block(text, word, block)
        files[root / name] = text
    for system in ("github", "gitlab", "cibuildwheel"):
        for name, text in workflow_files(project, system).items():
            files[root / name] = text
    files[root / "recipe/variants.yaml"] = render_variants_yaml(project.definitions)
    version = (root / "VERSION").read_text(encoding="utf-8").strip()
    for name in ("recipe/recipe.yaml", "recipe/selector/recipe.yaml"):
        text = (root / name).read_text(encoding="utf-8")
        stated = f'\\g<1>"{version}"'
        files[root / name] = re.sub(r'(?m)^(  version: )"[^"]*"$', stated, text, count=1)
    recipe, arch = root / "recipe/recipe.yaml", cuda_arch_expression(project.definitions)
    files[recipe] = re.sub(r"(?m)^(  cuda_arch: ).*$", rf"\g<1>{arch}", files[recipe], count=1)
    return files


def _blocks(project: Project) -> Mapping[str, Mapping[str, str]]:
    return {
        "README.md": {"variants": markdown_table(matrix_jobs(project.definitions))},
        "variants/README.md": {"keys": key_reference()},
        "docs/variables.md": variable_tables(),
    }


def _with_block(text: str, word: str, block: str) -> str:
    """Replaces what stands between the comments `<!-- WORD: … -->` and `<!-- end of WORD -->`."""
    before, start, rest = text.partition(f"<!-- {word}: ")
    first, newline, rest = rest.partition("\n")
    _, end, after = rest.partition(f"<!-- end of {word} -->")
    if not (start and newline and end):
        sys.exit(f"ci/generate.py: error: no comments '{word}:' and 'end of {word}' in the text")
    return f"{before}{start}{first}\n{block}{end}{after}"


def main(words: list[str]) -> int:
    """Writes the files, or compares them.

    Returns:
        0; with `--check` 1 if a file is stale.
    """
    parser = argparse.ArgumentParser(prog="ci/generate.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args(words)
    stale = [
        (file, text)
        for file, text in generated_files(ROOT).items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]
    for file, text in stale:
        print(f"{file.relative_to(ROOT)}: {'stale' if arguments.check else 'written'}")
        if not arguments.check:
            replace_file(file, text.encode())
    if arguments.check and stale:
        print("run ./dev generate and commit the result")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
