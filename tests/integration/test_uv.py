"""uv: stock through the selector, and with its preview of wheel variants without it."""

import sys
from pathlib import Path

from integration.environments import Environment, Release

PROJECT = "horovod-variants"
UV = Path(sys.executable).with_name("uv")


def test_stock_uv_goes_through_the_selector(
    release: Release, environment: Environment, native_label: str, allreduce_script: Path
) -> None:
    environment.run(UV, "pip", "install", "--index-url", release.index_url, PROJECT)
    assert environment.decision()["label"] == environment.installed_label() == native_label
    environment.run("variantwheel", "verify", PROJECT)
    environment.run("horovodrun", "-np", "2", "python", allreduce_script)


def test_uv_with_wheel_variants_picks_the_same_without_the_selector(
    release: Release, environment: Environment, native_label: str, allreduce_script: Path
) -> None:
    environment.run(
        UV, "pip", "install", "--preview-features", "wheel-variants",
        "--index-url", release.index_url, PROJECT,
    )  # fmt: skip
    assert environment.installed_label() == native_label
    assert not (environment.dist_info() / "variant-decision.json").exists()
    environment.run("variantwheel", "verify", PROJECT)
    environment.run("horovodrun", "-np", "2", "python", allreduce_script)
