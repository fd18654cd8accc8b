"""Lock the wheel that fits each of several machines: pylock.toml and requirements with hashes."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from variantwheel_selector.cli.output import (
    add_json_option,
    asked_release,
    print_json,
    print_lines,
    warn,
)
from variantwheel_selector.errors import UsageError
from variantwheel_selector.lock import (
    LockedWheel,
    lock_machines,
    profile_name,
    render_pylock,
    render_requirements,
    unlocked_requirements,
)
from variantwheel_selector.machine import Machine
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.payload import check_wheel, open_payload
from variantwheel_selector.record import replace
from variantwheel_selector.release_files import yank_lines
from variantwheel_selector.release_source import folder_of_links
from variantwheel_selector.sdist_source import (
    SelectorSdist,
    payload_wheel,
    sdist_from_file,
    sdist_from_folder,
    sdist_from_index,
    unpacked,
)
from variantwheel_selector.setting_keys import PROFILE
from variantwheel_selector.settings import Settings, read_settings
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.wheel_name import normalize_project


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("project", metavar="PROJECT[==VERSION]", help="by default the newest")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--index", metavar="URL", help="an index, as for pip's --index-url")
    source.add_argument("--find-links", metavar="DIR", help="a folder with the selector sdist")
    source.add_argument(
        "sdist",
        nargs="?",
        type=Path,
        metavar="SDIST",
        help="a selector sdist, packed or not; right after the project, without options between",
    )
    parser.add_argument(
        "--profile",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="a machine that 'variantwheel capture' wrote down; once for each machine",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the folder of the lock"
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write the lock; 1 if a machine has no variant."""
    project, wanted = asked_release(args.project)
    machines = _machines(args.profile)
    with tempfile.TemporaryDirectory(prefix="variantwheel-") as folder:
        sdist = _sdist(args, project, wanted, Path(folder), machines)
        manifest = sdist.manifest
        if sdist.unhashed:
            warn(
                f"the index states no hash of the sdist of {manifest.name} {manifest.version}: "
                "what is locked was not compared with anything; lock a file that you trust, or from"
                " an index with hashes"
            )
        settings = _settings(project)
        locked = lock_machines(manifest, machines, settings, sdist.requires_python)
        needs: dict[str, None] = {}
        with unpacked(sdist, [item.wheel for item in locked]) as source:
            for item in locked:
                needs |= dict.fromkeys(_write(args.output, source, item, settings))
    if args.json:
        print_json(
            {
                "schema": 1,
                "project": manifest.name,
                "version": manifest.version,
                "yanked": sdist.yanked,
                "locked": [item.to_json() for item in locked],
                "not_locked": list(needs),
            }
        )
        return 0
    print_lines(_lines(args.output, sdist, locked, list(needs)))
    return 0


def _lines(
    folder: Path, sdist: SelectorSdist, locked: list[LockedWheel], needs: list[str]
) -> Iterator[str]:
    width = max(len(item.profile) for item in locked)
    release = f"{sdist.manifest.name} {sdist.manifest.version}"
    yield from yank_lines(release, sdist.yanked)
    yield f"{release} locked in {folder}"
    for item in locked:
        yield f"  {item.profile:{width}}  {item.wheel.label}  sha256 {item.wheel.sha256}"
    for need in needs:
        yield f"not locked here, since it is the same on every machine: {need}"
    name = locked[0].profile
    pylock, requirements = (
        shlex.quote(str(folder / file))
        for file in (f"pylock.{name}.toml", f"requirements.{name}.txt")
    )
    # Another variant of the same version would be left in place: installers compare versions alone.
    pip, uv = "pip install --force-reinstall --no-deps", "uv pip install --reinstall --no-deps"
    yield f"install: {pip} -r {requirements}"
    yield f"     or, with pip 26.1 and newer: {pip} -r {pylock}"
    yield f"     or: {uv} -r {requirements}"


def _machines(paths: list[Path]) -> dict[str, Machine]:
    machines: dict[str, Machine] = {}
    for path in paths:
        name = profile_name(path.name.removesuffix(".json"))
        if name in machines:
            raise UsageError(f"two profiles are called {name!r}; rename one")
        machines[name] = read_machine(path)
    return machines


def _settings(project: str) -> Settings:
    """Return the user's settings; the profiles to choose for stand on the command line."""
    settings = read_settings(None, os.environ, project)
    stated = {name: item for name, item in settings.stated.items() if name != PROFILE.name}
    return replace(settings, stated=stated, profiles=())


def _sdist(
    args: argparse.Namespace,
    project: str,
    wanted: str | None,
    folder: Path,
    machines: Mapping[str, Machine],
) -> SelectorSdist:
    pythons = [machine.python.version for machine in machines.values()]
    if args.index is not None:
        return sdist_from_index(args.index, project, wanted, folder, os.environ, pythons)
    if args.find_links is not None:
        return sdist_from_folder(folder_of_links(args.find_links), project, wanted, pythons)
    sdist = sdist_from_file(args.sdist)
    manifest = sdist.manifest
    same = normalize_project(manifest.name) == normalize_project(project)
    if not same or wanted not in (None, manifest.version):
        raise UsageError(
            f"{str(args.sdist)!r} is {manifest.name} {manifest.version}, not {args.project}"
        )
    return sdist


def _write(
    folder: Path, sdist: SelectorSdist, locked: LockedWheel, settings: Settings
) -> list[str]:
    """Write the wheel and its two files; return the requirements that are not locked."""
    manifest = sdist.manifest
    tags = supported_tags(locked.machine)
    target = folder / locked.path
    with (
        payload_wheel(sdist, locked.wheel, settings, os.environ) as path,
        open_payload(path, locked.wheel) as file,
    ):
        check_wheel(file, locked.wheel, manifest, tags)
        dist_info = locked.wheel.name.dist_info
        with zipfile.ZipFile(file) as archive:
            metadata = archive.read(f"{dist_info}/METADATA")
        file.seek(0)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _beside(target) as beside, beside.open("wb") as written:
            shutil.copyfileobj(file, written)
    for name, text in (
        (f"pylock.{locked.profile}.toml", render_pylock(manifest, locked, metadata)),
        (f"requirements.{locked.profile}.txt", render_requirements(manifest, locked, metadata)),
    ):
        with _beside(folder / name) as beside:
            beside.write_text(text, encoding="utf-8")
    return list(unlocked_requirements(metadata))


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Give a file to write, which takes the target's place when that went well."""
    with tempfile.TemporaryDirectory(prefix=".lock-", dir=target.parent) as folder:
        path = Path(folder, target.name)
        yield path
        path.replace(target)
