"""Which metadata counts as static."""

import pytest

from variantwheel.core_metadata import parse_core_metadata, static_metadata_problems


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("Metadata-Version: 2.2\n", None),
        ("Metadata-Version: 2.4\nDynamic: license-file\n", None),
        ("Metadata-Version: 2.4\nDynamic: License-File\nDynamic: Requires-Dist\n", "requires-dist"),
        ("Metadata-Version: 2.1\n", "2.2 or newer"),
        ("", "Metadata-Version is missing"),
    ],
)
def test_only_fields_that_decide_an_installation_must_be_final(
    fields: str, problem: str | None
) -> None:
    found = static_metadata_problems(parse_core_metadata(f"{fields}Name: tiny\n".encode()))
    assert (problem is None) == (not found)
    assert problem is None or problem in " ".join(found).lower() or problem in " ".join(found)
