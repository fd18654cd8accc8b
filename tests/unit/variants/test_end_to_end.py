"""A foreign project from its sources to an installation by real uv, and by pip from the sources."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from static_site import served

from unit.variants.installers import UV, dist_info, installed_label, run_installer
from unit.variants.tiny_project import TinySite


@pytest.fixture(scope="module")
def index_url(tiny_site: TinySite) -> Iterator[str]:
    with served(tiny_site.site) as address:
        yield f"{address}/simple/"


def _opened_level(environment: Path) -> str:
    code = "import tiny_variants as t; assert t.total([1.0, 2.0]) == 3.0; print(t.level())"
    return run_installer(
        environment / "bin" / "python", "-c", code, environment=environment
    ).strip()


def test_stock_uv_installs_the_variant_that_fits(
    index_url: str, environment: Path, best_label: str
) -> None:
    run_installer(
        UV, "pip", "install", "--index-url", index_url, "tiny-variants", environment=environment
    )
    decision = json.loads((dist_info(environment) / "variant-decision.json").read_text())
    assert decision["label"] == best_label == installed_label(environment)
    assert _opened_level(environment) == {"null": "baseline"}.get(best_label, best_label)


def test_the_sources_in_the_sdist_build(index_url: str, environment: Path) -> None:
    # Without isolation, so that the build backend of this environment serves and no index.
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    command += ["--index-url", index_url, "-w", str(environment.parent / "wheels")]
    run_installer(
        *command,
        "--config-settings",
        "source-build=force",
        "tiny-variants",
        environment=environment,
    )
    (wheel,) = (environment.parent / "wheels").glob("*.whl")
    assert wheel.name.startswith("tiny_variants-1.0-py3-none-linux_")
