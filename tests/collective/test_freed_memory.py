"""What glibc's malloc does with memory that gradients have left."""

import os
import platform

import pytest

from collective.conftest import Launch


@pytest.mark.torch
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's malloc")
@pytest.mark.parametrize(
    ("op", "stated", "after"),
    [
        ("Average", {}, "0 0"),
        ("Adasum", {}, "0 0"),
        ("Average", {"MALLOC_TRIM_THRESHOLD_": "131072"}, "1 0"),
    ],
)
def test_an_optimizer_has_it_kept(
    launch: Launch,
    monkeypatch: pytest.MonkeyPatch,
    op: str,
    stated: dict[str, str],
    after: str,
) -> None:
    for name in os.environ:
        if name.startswith(("MALLOC_", "GLIBC_")):
            monkeypatch.delenv(name)
    launched = launch(2, "freed_blocks.py", op, env=stated)
    assert launched.code == 0, launched.err
    for rank in (0, 1):
        assert launched.lines(rank) == [f"1 0 {after}"]
