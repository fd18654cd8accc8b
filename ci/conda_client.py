"""Solves for stated machines, and creates environments, with the engine of pixi (py-rattler).

    python ci/conda_client.py solve CHANNEL... < questions.json
    python ci/conda_client.py create environment.yml PREFIX --channel-alias URL
    python ci/conda_client.py create environment.lock PREFIX
    python ci/conda_client.py install --prefix PREFIX --channel URL... [--force-reinstall] SPEC...

A question is `{"specs": [...], "machine": {"subdir", "archspec", "cuda", "cuda_arch",
"amdgpu"}}`, with the machine's virtual packages; `"installed_on": {...}` asks what becomes of an
environment that was made on another machine. The answer, in the same order, is
`{"packages": {name: "version build"}}` or `{"refused": why}`. An environment is created for this
machine, with conda's `CONDA_OVERRIDE_*` in force, from a file as CEP 24 describes it or from a
lock: `@EXPLICIT`, then `URL#sha256` lines.
`install` takes the words that conda takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import rattler
from rattler.exceptions import SolverError
from ruamel.yaml import YAML

# CEP 24, and two keys that conda itself reads.
ENVIRONMENT_KEYS = frozenset(
    {"name", "channels", "dependencies", "prefix", "variables", "platforms", "category"}
)
GLIBC = "2.36"


class FileError(Exception):
    """A file that describes an environment and cannot be acted upon."""


def virtual_packages(machine: Mapping[str, str]) -> list[rattler.GenericVirtualPackage]:
    """The virtual packages of a stated machine.

    Args:
        machine: `subdir`, and what it has: `archspec`, `cuda`, `cuda_arch`, `amdgpu`.
    """
    stated = {"__unix": ("0", "0"), "__linux": ("6.1", "0"), "__glibc": (GLIBC, "0")}
    stated["__archspec"] = ("1", machine["archspec"])
    for key in ("cuda", "cuda_arch", "amdgpu"):
        if key in machine:
            stated[f"__{key}"] = (machine[key], "0")
    return [
        rattler.GenericVirtualPackage(
            rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build)
        )
        for name, (version, build) in stated.items()
    ]


async def answer(channels: Sequence[str], question: Mapping[str, Any]) -> dict[str, object]:
    """Solves one question."""
    machine: Mapping[str, str] = question["machine"]
    try:
        installed = []
        if "installed_on" in question:
            installed = await _solve(channels, question["specs"], question["installed_on"], [])
        records = await _solve(channels, question["specs"], machine, installed)
    except SolverError as error:
        return {"refused": str(error)}
    return {"packages": {item.name.normalized: f"{item.version} {item.build}" for item in records}}


async def _solve(
    channels: Sequence[str],
    specs: Sequence[str],
    machine: Mapping[str, str],
    installed: list[rattler.RepoDataRecord],
) -> list[rattler.RepoDataRecord]:
    return await rattler.solve(
        sources=channels,
        specs=specs,
        platforms=[
            "linux-aarch64" if machine.get("subdir") == "linux-aarch64" else "linux-64",
            "noarch",
        ],
        virtual_packages=virtual_packages(machine),
        locked_packages=installed,
    )


def _exact(url: str) -> str:
    name, version, build = url.rpartition("/")[2].removesuffix(".conda").rsplit("-", 2)
    return f"{name} =={version} {build}"


def read_environment(file: Path) -> tuple[list[str], list[str], list[str]]:
    """Reads an `environment.yml` strictly.

    Returns:
        Channels, requirements for conda, requirements for pip.

    Raises:
        FileError: It has keys that CEP 24 does not know, or asks for the channel `nodefaults`.
    """
    document = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    unknown = sorted(set(document) - ENVIRONMENT_KEYS)
    if unknown:
        raise FileError(f"{file}: keys that CEP 24 does not know: {', '.join(unknown)}")
    if "nodefaults" in document["channels"]:
        raise FileError(f"{file}: conda 26.7 asks for a channel called nodefaults; leave it out")
    conda = [item for item in document["dependencies"] if isinstance(item, str)]
    pip = [
        requirement
        for item in document["dependencies"] if isinstance(item, dict)
        for requirement in item.get("pip", [])
    ]  # fmt: skip
    return document["channels"], conda, pip


async def create(file: Path, prefix: Path, alias: str | None) -> list[rattler.RepoDataRecord]:
    """Creates an environment for this machine from an `environment.yml`."""
    names, conda, _ = read_environment(file)
    config = rattler.ChannelConfig(channel_alias=alias) if alias else rattler.ChannelConfig()
    records = await rattler.solve(
        sources=[rattler.Channel(name, config) for name in names],
        specs=conda,
        virtual_packages=_detected(),
    )
    await _install(records, prefix, conda)
    return records


async def create_locked(lines: Sequence[str], prefix: Path) -> list[rattler.RepoDataRecord]:
    """Creates an environment of exactly the files of a lock, after comparing their checksums."""
    # conda writes `#sha256:`, other clients the digits alone.
    plain = [line.replace("#sha256:", "#") for line in lines]
    wanted = [line.partition("#") for line in plain if line and line[0] not in "@#"]
    channels = sorted({url.rsplit("/", 2)[0] for url, _, _ in wanted})
    specs = [_exact(url) for url, _, _ in wanted]
    records = await rattler.solve(sources=channels, specs=specs, virtual_packages=_detected())
    sums = {url: checksum for url, _, checksum in wanted}
    for record in records:
        url, found = str(record.url), record.sha256.hex() if record.sha256 else "none"
        if sums.get(url) != found:
            raise FileError(
                f"{url}: sha256 {found}, the lock says {sums.get(url, 'nothing of it')}"
            )
    await _install(records, prefix, specs)
    return records


async def change(
    prefix: Path,
    there: Sequence[rattler.PrefixRecord],
    channels: Sequence[str],
    specs: Sequence[str],
    *,
    reinstall: bool,
) -> list[rattler.RepoDataRecord]:
    """Installs into an environment; everything else in it stays where it can.

    Args:
        prefix: The environment.
        there: What is installed in it.
        channels: URLs, the most important one first.
        specs: What is asked for.
        reinstall: Whether a package that is there already is written anew.
    """
    names = {str(rattler.MatchSpec(spec).name.normalized) for spec in specs}
    others = [item for item in there if item.name.normalized not in names]
    kept = [str(spec) for item in others for spec in item.requested_specs]
    records = await rattler.solve(
        sources=channels, specs=[*kept, *specs], locked_packages=others,
        virtual_packages=_detected(),
    )  # fmt: skip
    await _install(records, prefix, [*kept, *specs], names if reinstall else set())
    return records


def _detected() -> list[rattler.GenericVirtualPackage]:
    overrides = rattler.VirtualPackageOverrides.from_env()
    return [item.into_generic() for item in rattler.VirtualPackage.detect(overrides)]


async def _install(
    records: list[rattler.RepoDataRecord],
    prefix: Path,
    specs: Sequence[str],
    reinstalled: Collection[str] = (),
) -> None:
    # A cache of its own: packages of local channels change without changing their names.
    with tempfile.TemporaryDirectory(prefix="conda-cache-") as cache:
        await rattler.install(
            records, target_prefix=prefix, cache_dir=Path(cache), show_progress=False,
            reinstall_packages=set(reinstalled),
            # py-rattler 0.28 takes nothing else.
            requested_specs=[rattler.MatchSpec(spec)._match_spec for spec in specs],  # noqa: SLF001
        )  # fmt: skip


def main(words: Sequence[str]) -> int:
    """Solves, creates or installs.

    Args:
        words: The command line, without the program's name.

    Returns:
        0, or 1 when there is no solution.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    verbs = parser.add_subparsers(dest="verb", required=True)
    solving = verbs.add_parser("solve", help="answer questions from the standard input")
    solving.add_argument("channels", nargs="+")
    creating = verbs.add_parser("create", help="create an environment")
    creating.add_argument("file", type=Path)
    creating.add_argument("prefix", type=Path)
    creating.add_argument("--channel-alias", help="where channel names are looked up")
    creating.add_argument(
        "--write-lock", type=Path, help="write down what was chosen, for `create`"
    )
    installing = verbs.add_parser("install", help="change an environment, as `conda install` does")
    installing.add_argument("--prefix", type=Path, required=True)
    installing.add_argument("--channel", action="append", required=True)
    installing.add_argument("--force-reinstall", action="store_true")
    installing.add_argument("specs", nargs="+")
    arguments = parser.parse_args(words)
    try:
        if arguments.verb == "solve":
            return _answer_all([Path(item).resolve().as_uri() for item in arguments.channels])
        change_or_create = _install_into if arguments.verb == "install" else _create
        records = change_or_create(arguments)
    except (FileError, SolverError) as error:
        print(f"conda: error: {error}", file=sys.stderr)
        return 1
    for item in sorted(records, key=lambda record: record.name.normalized):
        print(f"{item.name.normalized:<28} {item.version!s:<14} {item.build}")
    return 0


def _answer_all(channels: Sequence[str]) -> int:
    questions = json.load(sys.stdin)

    async def all_answers() -> list[dict[str, object]]:
        return [await answer(channels, question) for question in questions]

    print(json.dumps(asyncio.run(all_answers()), indent=1))
    return 0


def _install_into(arguments: argparse.Namespace) -> list[rattler.RepoDataRecord]:
    prefix: Path = arguments.prefix.resolve()
    there = [rattler.PrefixRecord.from_path(file) for file in prefix.glob("conda-meta/*.json")]
    return asyncio.run(
        change(
            prefix, there, arguments.channel, arguments.specs, reinstall=arguments.force_reinstall
        )
    )


def _create(arguments: argparse.Namespace) -> list[rattler.RepoDataRecord]:
    prefix = arguments.prefix.resolve()
    if arguments.file.suffix == ".lock":
        lines = arguments.file.read_text(encoding="utf-8").splitlines()
        records = asyncio.run(create_locked(lines, prefix))
    else:
        records = asyncio.run(create(arguments.file, prefix, arguments.channel_alias))
        pip = read_environment(arguments.file)[2]
        if pip:
            subprocess.run([prefix / "bin" / "python", "-m", "pip", "install", *pip], check=True)
    if arguments.write_lock:
        lines = [f"{item.url}#{item.sha256.hex() if item.sha256 else ''}\n" for item in records]
        text = "".join(["@EXPLICIT\n", *sorted(lines)])
        arguments.write_lock.write_text(text, encoding="utf-8")
    return records


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # py-rattler 0.28 crashes now and then while the interpreter shuts down
