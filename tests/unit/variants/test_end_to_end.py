"""A foreign project from its sources to an installation by real pip and real uv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from static_site import served

from unit.variants.tiny_project import STEP_TIMEOUT, TinyRelease, variantwheel

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def index_url(tiny_release: TinyRelease, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The release as a maintainer publishes it: wheels, variants.json and selector sdist."""
    folder, site = tmp_path_factory.mktemp("sdist"), tmp_path_factory.mktemp("site")
    variantwheel(
        "sdist", tiny_release.folder, "-o", folder,
        "--project", tiny_release.project, "--no-isolation",
    )  # fmt: skip
    variantwheel("index", tiny_release.folder, "-o", site)
    variantwheel("index", folder, "-o", site)
    with served(site) as address:
        yield f"{address}/simple/"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    folder = tmp_path / "env"
    venv.create(folder, with_pip=False)
    return folder


@pytest.fixture(scope="module")
def best_label() -> str:
    """What this machine runs, found without the code under test."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    wanted = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
    return "x86_64_v3" if wanted <= set(flags) else "null"


def _run(*command: str | Path, environment: Path) -> str:
    """Runs an installer that knows no settings and no cache of this machine."""
    foreign = ("PIP_", "UV_", "VARIANTWHEEL_", "PYTHON", "VIRTUAL_ENV", "NV_", "AMD_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    variables |= {
        "VIRTUAL_ENV": str(environment),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(environment.parent / "uv-cache"),
    }
    done = subprocess.run(
        [str(word) for word in command],
        env=variables,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=STEP_TIMEOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _dist_info(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages/tiny_variants-1.0.dist-info")
    return found


def _installed_label(environment: Path) -> str:
    text = (_dist_info(environment) / "variant.json").read_text(encoding="utf-8")
    (label,) = json.loads(text)["variants"]
    return str(label)


def _opened_level(environment: Path) -> str:
    code = "import tiny_variants as t; assert t.total([1.0, 2.0]) == 3.0; print(t.level())"
    return _run(environment / "bin" / "python", "-c", code, environment=environment).strip()


def test_stock_pip_installs_the_variant_that_fits(
    index_url: str, environment: Path, best_label: str
) -> None:
    _run(
        sys.executable, "-m", "pip", "--python", environment / "bin" / "python",
        "install", "--index-url", index_url, "tiny-variants",
        environment=environment,
    )  # fmt: skip
    decision = json.loads((_dist_info(environment) / "variant-decision.json").read_text())
    assert decision["label"] == best_label == _installed_label(environment)
    assert _opened_level(environment) == {"null": "baseline"}.get(best_label, best_label)


def test_stock_uv_installs_the_variant_that_fits(
    index_url: str, environment: Path, best_label: str
) -> None:
    _run(UV, "pip", "install", "--index-url", index_url, "tiny-variants", environment=environment)
    assert (_dist_info(environment) / "variant-decision.json").is_file()
    assert _installed_label(environment) == best_label


def test_uv_with_wheel_variants_needs_no_selector(
    index_url: str, environment: Path, best_label: str
) -> None:
    _run(
        UV, "pip", "install", "--preview-features", "wheel-variants", "--no-build",
        "--index-url", index_url, "tiny-variants",
        environment=environment,
    )  # fmt: skip
    assert not (_dist_info(environment) / "variant-decision.json").exists()
    assert _installed_label(environment) == best_label


def test_the_sources_in_the_sdist_build(index_url: str, environment: Path) -> None:
    # Without isolation, so that the build backend of this environment serves and no index.
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    command += ["--index-url", index_url, "-w", str(environment.parent / "wheels")]
    _run(
        *command,
        "--config-settings",
        "source-build=force",
        "tiny-variants",
        environment=environment,
    )
    (wheel,) = (environment.parent / "wheels").glob("*.whl")
    assert wheel.name.startswith("tiny_variants-1.0-py3-none-linux_")
