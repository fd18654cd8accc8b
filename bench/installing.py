"""Installing through the selector against installing the same wheel directly, as ratios.

    python bench/installing.py                                  # wheels of 0.1, 4 and 64 MiB
    python bench/installing.py --release .dev/demo/release --project horovod-variants
    python bench/installing.py --sizes-mib 0.1 --instructions   # of all processes, by valgrind
    python bench/installing.py --dependencies dist              # with what the project depends on
    VARIANTWHEEL_FORBID=nvidia python bench/installing.py       # where the machine is judged

One server on loopback has three releases: the plain wheel, the selector sdist, and an sdist whose
hook copies the wheel and does nothing else, which is what pip and uv themselves take for an sdist.
The installations take turns, each into a fresh environment and without caches, so that whatever
else the machine does meets all. CPU seconds vary less than those on the clock on a busy machine,
and instructions that were executed hardly at all.
"""

from __future__ import annotations

import argparse
import base64
import functools
import hashlib
import http.server
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from variantwheel.prepared_answers import render_prepared
from variantwheel.shared_pieces import share_pieces
from variantwheel_selector.checked_wheel import PREPARED_PATH
from variantwheel_selector.manifest import SHARED_FILE, Manifest, PayloadWheel, render_manifest
from variantwheel_selector.model import Variant
from variantwheel_selector.package_copy import copy_package
from variantwheel_selector.sdist import pack_sdist
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo, render_variants_json
from variantwheel_selector.wheel_name import WheelName, normalize_project

PROJECT = "install-bench"
DIST_INFO = "install_bench-1.0.dist-info"
PYPROJECT = """\
[build-system]
requires = []
build-backend = "variantwheel_selector.backend"
backend-path = ["_selector"]
"""
INSTALLERS = ("pip", "uv")
CONTENDERS = ("direct", "copying", "selector")


@dataclass(frozen=True)
class Row:
    """One installer and one release.

    Attributes:
        installer: `pip` or `uv`.
        wheel_bytes: Size of the chosen wheel.
        direct: Seconds and CPU seconds of each round for the plain wheel.
        copying: The same for the sdist whose hook copies the wheel.
        selector: The same for the selector sdist.
    """

    installer: str
    wheel_bytes: int
    direct: list[tuple[float, float]]
    copying: list[tuple[float, float]]
    selector: list[tuple[float, float]]

    def ratios(self, kind: int, contender: str = "selector") -> list[float]:
        """Seconds (0) or CPU seconds (1) of a contender for each of the plain wheel's."""
        pairs = zip(getattr(self, contender), self.direct, strict=True)
        return [other[kind] / plain[kind] for other, plain in pairs]


def core_metadata(dependencies: Sequence[Path]) -> str:
    needs = [WheelName.from_str(path.name).distribution for path in dependencies]
    lines = ["Metadata-Version: 2.2", f"Name: {PROJECT}", "Version: 1.0"]
    return "".join(f"{line}\n" for line in [*lines, *(f"Requires-Dist: {name}" for name in needs)])


def make_release(folder: Path, size: int, dependencies: Sequence[Path] = ()) -> None:
    """Write the selector sdist of a release of two variants, half of whose bytes compress well."""
    metadata = core_metadata(dependencies)
    provider = ProviderInfo(requires=("x86-64-variant-provider>=0.2",))
    variants = [Variant("null"), Variant.from_strings("x86_64_v3", ["x86_64 :: level :: v3"])]
    info = VariantsInfo(("x86_64",), {v.label: v for v in variants}, {"x86_64": provider})
    content = os.urandom(size // 2) + bytes(range(256)) * (size // 512)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        (root / "payload").mkdir()
        paths = {
            label: folder / f"install_bench-1.0-py3-none-any-{label}.whl" for label in info.variants
        }
        for label, path in paths.items():
            # The variant that is not chosen costs space alone.
            data = content if label == "x86_64_v3" else b""
            write_wheel(path, label, data, render_variants_json(info.only(label)), metadata)
        shared = share_pieces(list(paths.values()))
        with (root / "payload" / SHARED_FILE).open("wb") as file:
            shared.write(file)
        wheels = [
            PayloadWheel(
                path.name, label, path.stat().st_size,
                hashlib.sha256(path.read_bytes()).hexdigest(), ranges,
            )
            for (label, path), ranges in zip(paths.items(), shared.ranges, strict=True)
        ]  # fmt: skip
        manifest = Manifest(PROJECT, "1.0", "0.1.0", info, tuple(wheels))
        (root / "PKG-INFO").write_text(metadata)
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "payload/manifest.json").write_text(render_manifest(manifest))
        (root / PREPARED_PATH).write_text(render_prepared(manifest, root))
        copy_package(root / "_selector")
        pack_sdist(root, manifest, folder)


def make_copying_sdist(wheel: Path, plain: str, project: str, folder: Path) -> Path:
    """Write an sdist whose hook copies a wheel."""
    name = normalize_project(project).replace("-", "_")
    version = WheelName.from_str(plain).version
    root = folder / f"{name}-{version}"
    root.mkdir(parents=True)
    shutil.copy(wheel, root / plain)
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (item for item in archive.namelist() if item.endswith(".dist-info/METADATA"))
        (root / "PKG-INFO").write_bytes(archive.read(metadata))
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "copying"\nbackend-path = ["."]\n'
    )
    (root / "copying.py").write_text(
        "import os, shutil\n"
        "def prepare_metadata_for_build_wheel(folder, config_settings=None):\n"
        f"    name = '{name}-{version}.dist-info'\n"
        "    os.mkdir(os.path.join(folder, name))\n"
        "    shutil.copy('PKG-INFO', os.path.join(folder, name, 'METADATA'))\n"
        "    return name\n"
        "def build_wheel(folder, config_settings=None, metadata_directory=None):\n"
        f"    shutil.copy({plain!r}, folder)\n"
        f"    return {plain!r}\n"
    )
    archive_path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(archive_path, "w:gz", compresslevel=6) as packed:
        packed.add(root, root.name)
    return archive_path


def write_wheel(path: Path, label: str, data: bytes, variant_json: str, metadata: str) -> None:
    wheel = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        "install_bench/__init__.py": f"LABEL = {label!r}\n".encode(),
        "install_bench/data.bin": data,
        f"{DIST_INFO}/METADATA": metadata.encode(),
        f"{DIST_INFO}/WHEEL": wheel.encode(),
        f"{DIST_INFO}/variant.json": variant_json.encode(),
    }
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record += f"{name},sha256={digest.decode()},{len(content)}\n"
        archive.writestr(f"{DIST_INFO}/RECORD", f"{record}{DIST_INFO}/RECORD,,\n")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def make_site(site: Path, project: str, files: dict[str, Path]) -> None:
    """Write the page of an index; the key is the name under which a file is served."""
    folder = site / normalize_project(project)
    folder.mkdir(parents=True)
    links = []
    for name, path in files.items():
        shutil.copy(path, folder / name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        links.append(f'<a href="{name}#sha256={digest}">{name}</a>')
    (folder / "index.html").write_text("\n".join(links))


def command(installer: str, python: Path, index: str, project: str, *, alone: bool) -> list[str]:
    """Return the words that install a project, alone or with what it depends on."""
    more = ["--no-deps"] if alone else []
    if installer == "uv":
        uv = shutil.which(
            "uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        if uv is None:
            sys.exit("installing: error: uv is not installed")
        options = ["--no-config", "--no-cache", *more, "--index-url", index]
        return [uv, "pip", "install", *options, "--python", str(python), project]
    return [sys.executable, "-m", "pip", "--python", str(python), "--isolated", "install",
            "--no-cache-dir", *more, "--index-url", index, project]  # fmt: skip


def install(
    installer: str,
    index: str,
    project: str,
    folder: Path,
    under: Sequence[str] = (),
    *,
    alone: bool = True,
) -> tuple[float, float]:
    """Install into a fresh environment and return the seconds and CPU seconds that it took.

    Args:
        installer: `pip` or `uv`.
        index: URL of the index.
        project: What is installed.
        folder: Of the environment.
        under: A program that runs the installer, with its options.
        alone: Whether what the project depends on is left out.
    """
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    words = [*under, *command(installer, folder / "bin/python", index, project, alone=alone)]
    # Without this environment's settings, PYTHONDONTWRITEBYTECODE for example.
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    environment = {
        name: text
        for name, text in os.environ.items()
        if name in kept or name.startswith("VARIANTWHEEL_")
    }
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    seconds, after = time.perf_counter() - begin, os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    if done.returncode != 0:
        sys.exit(f"installing: error: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return seconds, cpu


def millions_of_instructions(
    installer: str, index: str, project: str, work: Path, *, alone: bool
) -> list[float]:
    """Install under valgrind and return what each process of the installation executed."""
    valgrind = (
        *("valgrind", "--tool=cachegrind", "--cache-sim=no", "--trace-children=yes"),
        *(f"--cachegrind-out-file={os.devnull}", f"--log-file={work}/valgrind.%p"),
    )
    install(installer, index, project, work / "environment", valgrind, alone=alone)
    found: list[float] = []
    for log in sorted(work.glob("valgrind.*")):
        counted = re.search(r"I +refs: +([0-9,]+)", log.read_text(encoding="utf-8"))
        found += [int(counted[1].replace(",", "")) / 1e6] if counted else []
        log.unlink()
    return found


def installed_payload(folder: Path, project: str) -> str:
    """Return the file name of the wheel that the selector chose."""
    name = normalize_project(project).replace("-", "_")
    (decision,) = folder.glob(f"lib/python*/site-packages/{name}-*.dist-info/variant-decision.json")
    return str(json.loads(decision.read_text(encoding="utf-8"))["payload"]["filename"])


@contextmanager
def contenders(
    release: Path, project: str, dependencies: Sequence[Path], work: Path
) -> Iterator[tuple[str, int]]:
    """Serve the three indexes; give their common address and the size of the chosen wheel."""
    name = normalize_project(project).replace("-", "_")
    (sdist,) = release.glob(f"{name}-*.tar.gz")
    site = work / "site"
    for contender in CONTENDERS:
        for path in dependencies:
            needed = WheelName.from_str(path.name).distribution
            make_site(site / contender, needed, {path.name: path})
    make_site(site / "selector", project, {sdist.name: sdist})
    with served(site) as address:
        environment = work / "environment"
        install("pip", f"{address}/selector", project, environment)
        chosen = release / installed_payload(environment, project)
        plain = str(WheelName.from_str(chosen.name).with_label(None))
        make_site(site / "direct", project, {plain: chosen})
        copying = make_copying_sdist(chosen, plain, project, work / "copying")
        make_site(site / "copying", project, {copying.name: copying})
        yield address, chosen.stat().st_size


def measure(
    release: Path, project: str, dependencies: Sequence[Path], work: Path, rounds: int
) -> Iterator[Row]:
    with contenders(release, project, dependencies, work) as (address, size):
        for installer in INSTALLERS:
            row = Row(installer, size, [], [], [])
            for _ in range(rounds):
                for contender in CONTENDERS:
                    index = f"{address}/{contender}"
                    taken = install(
                        installer, index, project, work / "environment", alone=not dependencies
                    )
                    getattr(row, contender).append(taken)
            yield row


def count(release: Path, project: str, dependencies: Sequence[Path], work: Path) -> Iterator[str]:
    """Return a line for each installation with the instructions of all its processes."""
    with contenders(release, project, dependencies, work) as (address, size):
        for installer in INSTALLERS:
            direct = 0.0
            for contender in CONTENDERS:
                index = f"{address}/{contender}"
                found = millions_of_instructions(
                    installer, index, project, work, alone=not dependencies
                )
                direct = direct or sum(found)
                most = " + ".join(f"{number:.0f}" for number in sorted(found, reverse=True)[:6])
                yield (
                    f"{installer:3} {size / 2**20:6.2f} MiB {contender:8} {sum(found):6.0f} M"
                    f" ratio {sum(found) / direct:5.2f} ({most})"
                )


def table(rows: Sequence[Row]) -> Iterator[str]:
    load = os.getloadavg()[0]
    yield f"installing, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"
    yield f"{'':15} {'direct':>8} {'selector':>9} {'ratio':>6} {'quartiles':>13}   CPU  hook copies"
    for row in rows:
        low, middle, high = statistics.quantiles(row.ratios(0), n=4, method="inclusive")
        direct, ours = (
            statistics.median(item[0] for item in kind) for kind in (row.direct, row.selector)
        )
        yield (
            f"{row.installer:3} {row.wheel_bytes / 2**20:6.2f} MiB {direct:7.2f} s {ours:7.2f} s"
            f" {middle:6.2f} {low:5.2f} .. {high:5.2f} {statistics.median(row.ratios(1)):5.2f}"
            f" {statistics.median(row.ratios(0, 'copying')):6.2f}"
            f" (CPU {statistics.median(row.ratios(1, 'copying')):.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes-mib", default="0.1,4,64", metavar="N,…")
    parser.add_argument("--release", type=Path, metavar="DIR", help="a release folder instead")
    parser.add_argument("--project", metavar="NAME", help="the release's project")
    parser.add_argument(
        "--dependencies", type=Path, metavar="DIR", help="wheels that the project depends on"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print every round's figures")
    parser.add_argument("--instructions", action="store_true", help="count them instead of time")
    args = parser.parse_args()
    if (args.release is None) != (args.project is None) or args.rounds < 2 - args.json:
        parser.error("--release and --project go together, and two rounds are the least")
    dependencies = [] if args.dependencies is None else sorted(args.dependencies.glob("*.whl"))
    rows: list[Row] = []
    for size in ["0"] if args.release is not None else args.sizes_mib.split(","):
        with tempfile.TemporaryDirectory() as name:
            release, project = args.release, args.project
            if release is None:
                release, project = Path(name, "release"), PROJECT
                release.mkdir()
                make_release(release, int(float(size) * 2**20), dependencies)
            if args.instructions:
                for line in count(release, project, dependencies, Path(name)):
                    print(line, flush=True)
            else:
                rows += measure(release, project, dependencies, Path(name), args.rounds)
    if args.instructions:
        return
    if args.json:
        print(json.dumps([vars(row) for row in rows], indent=2))
        return
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
