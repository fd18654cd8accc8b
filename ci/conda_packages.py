"""Renders and builds the conda packages of this project, against a local channel.

    python ci/conda_packages.py render --subdir linux-aarch64
    python ci/conda_packages.py build OUT BOOTSTRAP --only nompi_cpu,nompi_x86_64_v3 --test
    python ci/conda_packages.py build OUT BOOTSTRAP --metadata

`--metadata` builds packages with the names, hashes and dependencies of the real ones and nothing
inside, which is all that solvers see, of those that the channel does not have yet: for platforms
and MPIs that cannot be compiled for here, and for variants that nobody is to wait for. Tests of
another platform's packages run on an emulated CPU (see `conda_cross.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rattler
import rattler_build
from conda_emulated_tests import EmulatedTestError, run_tests
from rattler_build.progress import ProgressCallback
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipe" / "recipe.yaml"
SELECTOR_RECIPE = ROOT / "recipe" / "selector" / "recipe.yaml"
GUARD_RECIPE = ROOT / "recipe" / "aarch64-level" / "recipe.yaml"
PINNING = ROOT / "ci" / "conda_pinning.yaml"
VARIANTS = ROOT / "recipe" / "variants.yaml"
OVERLAY = ROOT / "recipe" / "channel-overlay.yaml"
SUBDIRS = ("linux-64", "linux-aarch64")
HERE = "linux-aarch64" if os.uname().machine == "aarch64" else "linux-64"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}.* *_cpython"
_TAIL_LINES = 400
_COMPILER_KEYS = ("c_compiler_version", "cxx_compiler_version", "c_stdlib_version")


@dataclass(frozen=True)
class Output:
    """One package as it would be built.

    Attributes:
        name: Of the package.
        version: Of the package.
        build: Its build string.
        subdir: The platform, or `noarch`.
        variant: The keys and values that went into the hash.
        overlay: Whether it is for a channel of our own alone.
        rendered: What builds it.
    """

    name: str
    version: str
    build: str
    subdir: str
    variant: dict[str, str]
    overlay: bool
    rendered: rattler_build.RenderedVariant

    @property
    def file_name(self) -> str:
        """What its file is called."""
        return f"{self.name}-{self.version}-{self.build}.conda"

    def to_json(self) -> dict[str, object]:
        """What `render` prints."""
        return {
            "name": self.name, "version": self.version, "build": self.build, "subdir": self.subdir,
            "variant": self.variant, "overlay": self.overlay,
        }  # fmt: skip


def combinations(subdir: str, *, overlay: bool) -> Iterator[dict[str, str]]:
    """Gives every combination of keys that conda-forge, or a channel of our own, has.

    Args:
        subdir: The platform.
        overlay: Whether for a channel of our own.
    """
    platforms = rattler_build.PlatformConfig(target_platform=subdir, build_platform=HERE)
    files: list[str | Path] = [PINNING, VARIANTS, *([OVERLAY] if overlay else [])]
    read = rattler_build.VariantConfig.from_files_with_context(
        files, rattler_build.JinjaConfig(platform=platforms)
    )
    values: dict[str, list[str]] = {**read.to_dict(), "python": [PYTHON]}
    if overlay:  # the overlay's own groups take the place of the one that these stand in
        values |= {key: values[key][:1] for key in _COMPILER_KEYS}
    yield from rattler_build.VariantConfig(values, zip_keys=read.zip_keys).combinations()


def render(subdir: str, *, overlay: bool, recipe: Path = RECIPE) -> list[Output]:
    """Renders the recipe; one combination at a time, or pins between outputs are mixed up.

    Args:
        subdir: The platform.
        overlay: Whether for a channel of our own.
        recipe: In place of `recipe.yaml`.
    """
    platforms = rattler_build.PlatformConfig(target_platform=subdir, build_platform=HERE)
    config = rattler_build.RenderConfig(platform=platforms)
    stage0 = rattler_build.Stage0Recipe.from_file(recipe)
    found: dict[tuple[str, str], Output] = {}
    for combination in combinations(subdir, overlay=overlay):
        one = rattler_build.VariantConfig({key: [value] for key, value in combination.items()})
        for variant in stage0.render(one, config):
            name, build = variant.recipe.package.name, str(variant.recipe.build.string)
            version = str(variant.recipe.package.version)
            found[name, build] = Output(
                name, version, build, subdir, dict(variant.variant), overlay, variant
            )
    return list(found.values())


def write_hollow_recipe(folder: Path) -> Path:
    """Writes the recipe without content and tests; names, hashes and dependencies are the same."""
    recipe: dict[str, Any] = YAML(typ="safe").load(RECIPE.read_text(encoding="utf-8"))
    del recipe["source"], recipe["about"]["license_file"]
    for output in recipe["outputs"]:
        for key in ("script", "python"):
            output["build"].pop(key, None)
        output["build"]["script"] = []
        output.pop("tests")
    file = folder / "recipe.yaml"
    file.write_text(json.dumps(recipe), encoding="utf-8")  # JSON is YAML
    return file


class _Log(ProgressCallback):
    """Collects what a build writes, to be shown when it fails."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def on_download_start(self, event: Any) -> None:
        """Everything lies on this machine; nothing is told of it."""

    on_download_progress = on_download_complete = on_download_start

    def on_log(self, event: Any) -> None:
        self._lines.append(str(event.message))

    def on_build_step(self, event: Any) -> None:
        self._lines.append(str(event.message))

    def tail(self) -> str:
        return "\n".join(self._lines[-_TAIL_LINES:])


def build(outputs: Sequence[Output], channel: Path, bootstrap: Path, *, test: bool) -> list[Path]:
    """Builds packages into a channel; prints what took how long."""
    made: list[Path] = []
    for output in outputs:
        began = time.monotonic()
        log = _Log()
        try:
            result = _run(output, channel, bootstrap, log, test=test)
        except rattler_build.RattlerBuildError as error:
            raise SystemExit(
                f"{log.tail()}\nconda: error: {output.name} {output.build}: {error}"
            ) from error
        made += [Path(item) for item in result.packages]
        if test and output.subdir not in (HERE, "noarch"):
            _test_emulated(made[-1], channel, bootstrap)
        print(f"{time.monotonic() - began:6.1f} s  {output.name} {output.build}", flush=True)
    return made


def _test_emulated(package: Path, channel: Path, bootstrap: Path) -> None:
    index(channel)
    try:
        asyncio.run(run_tests(package, [channel.as_uri(), bootstrap.as_uri()]))
    except EmulatedTestError as error:
        raise SystemExit(f"conda: error: {package.name}: {error}") from error


def _run(
    output: Output, channel: Path, bootstrap: Path, log: _Log, *, test: bool
) -> rattler_build.BuildResult:
    # Of another platform's packages, rattler-build would look for an environment of this one.
    ours = output.subdir in (HERE, "noarch")
    return output.rendered.run_build(
        tool_config=rattler_build.ToolConfiguration(
            test_strategy="native" if test and ours else "skip", compression_threads=2
        ),
        output_dir=channel,
        channels=[channel.as_uri(), bootstrap.as_uri()],
        package_format="conda:1",
        progress_callback=log,
    )


def noarch_outputs(file: Path) -> list[Output]:
    """The packages of a recipe that are the same for every platform and Python."""
    recipe = rattler_build.Stage0Recipe.from_file(file)
    # The only Python of the bootstrap channel.
    values = {"python_min": [f"{sys.version_info.major}.{sys.version_info.minor}"]}
    beside = file.with_name("variants.yaml")
    if beside.is_file():
        values |= rattler_build.VariantConfig.from_files([beside]).to_dict()
    return [
        Output(
            item.recipe.package.name, str(item.recipe.package.version),
            str(item.recipe.build.string), "noarch", dict(item.variant), overlay=False,
            rendered=item,
        )
        for item in recipe.render(rattler_build.VariantConfig(values))
    ]  # fmt: skip


def index(channel: Path) -> None:
    """Writes the channel's repodata; every package is read, as one may have been replaced."""
    for subdir in ("noarch", *SUBDIRS):
        (channel / subdir).mkdir(parents=True, exist_ok=True)
    asyncio.run(rattler.index.index_fs(channel, write_zst=False, write_shards=False, force=True))


def _beginnings(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def main(words: Sequence[str]) -> int:
    """Renders or builds.

    Args:
        words: The command line, without the program's name.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    verbs = parser.add_subparsers(dest="verb", required=True)
    rendering = verbs.add_parser(
        "render", help="print the packages that the recipe stands for, as JSON"
    )
    building = verbs.add_parser("build", help="build packages into a channel and index it")
    building.add_argument("channel", type=Path)
    building.add_argument("bootstrap", type=Path)
    building.add_argument(
        "--only", default="", help="beginnings of build strings, separated by commas"
    )
    building.add_argument("--metadata", action="store_true", help="leave the content out")
    building.add_argument("--test", action="store_true", help="run the tests of each package")
    building.add_argument("--noarch", action="store_true", help="build the noarch packages too")
    indexing = verbs.add_parser("index", help="index a channel anew")
    indexing.add_argument("channel", type=Path)
    for verb in (rendering, building):
        verb.add_argument(
            "--conda-forge", action="store_true", help="leave out what only our own channel has"
        )
        verb.add_argument(
            "--subdir", choices=SUBDIRS, action="append", help="default: this machine's"
        )
    arguments = parser.parse_args(words)

    if arguments.verb == "index":
        index(arguments.channel.resolve())
        return 0
    if arguments.verb == "render":
        print(json.dumps([output.to_json() for output in _outputs(arguments, RECIPE)], indent=2))
        return 0
    with tempfile.TemporaryDirectory(prefix="conda-recipe-") as folder:
        recipe = write_hollow_recipe(Path(folder)) if arguments.metadata else RECIPE
        _build_wanted(arguments, _outputs(arguments, recipe))
    return 0


def _outputs(arguments: argparse.Namespace, recipe: Path) -> list[Output]:
    return [
        output
        for subdir in arguments.subdir or [HERE]
        for overlay in ((False,) if arguments.conda_forge else (False, True))
        for output in render(subdir, overlay=overlay, recipe=recipe)
    ]


def _build_wanted(arguments: argparse.Namespace, outputs: Sequence[Output]) -> None:
    channel: Path = arguments.channel.resolve()
    index(channel)
    only = _beginnings(arguments.only)
    wanted = [
        output
        for output in outputs
        if output.build.startswith(only or "")
        and not (arguments.metadata and (channel / output.subdir / output.file_name).is_file())
    ]
    if arguments.noarch:
        wanted = [*noarch_outputs(SELECTOR_RECIPE), *noarch_outputs(GUARD_RECIPE), *wanted]
    build(wanted, channel, arguments.bootstrap.resolve(), test=arguments.test)
    index(channel)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # py-rattler 0.28 crashes now and then while the interpreter shuts down
