"""What is generated from the variants' definitions is what stands in the repository."""

from generate import ROOT, generated_files, main


def test_all_generated_files_are_up_to_date() -> None:
    assert main(["--check"]) == 0


def test_a_stale_file_would_be_seen() -> None:
    files = generated_files(ROOT)
    assert {str(file.relative_to(ROOT)) for file in files} >= {"README.md", "variants/README.md"}
    assert "| `x86_64_v3` |" in files[ROOT / "README.md"]
    assert "| `machine` | string |" in files[ROOT / "variants/README.md"]
