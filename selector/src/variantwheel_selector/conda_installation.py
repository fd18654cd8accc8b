"""What conda wrote down about a package that it installed: the records in `conda-meta`.

Format: CEP 34's repodata record, one `NAME-VERSION-BUILD.json` per package in the environment;
conda, mamba and pixi all write it.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from variantwheel_selector.record import record
from variantwheel_selector.redaction import without_credentials

_RECORDS = "conda-meta"
_HISTORY = "history"
"""Among the records: which command changed the environment, a line `# cmd: ...` for each."""
_CLIENTS = ("conda", "mamba", "micromamba")
"""Programs that take the same words after `install`."""
_TOKEN = re.compile(r"/t/[^/]+(?=/|$)")
"""A token in a channel's URL; clients add those that they are configured with, and logins."""
_CUDA = re.compile(r"cuda-version +>=(\d+)")
_PIXI_HINT = "# once [system-requirements] states this machine, which is what pixi solves for"
_PIXI_NOTE = "pixi"
"""A file of this name among the records is pixi's: the environment belongs to a workspace."""


@record
class CondaInstallation:
    """A package in a conda environment.

    Attributes:
        prefix: The environment's folder.
        name: Of the package.
        version: Of the package.
        build: Its build string, which names the variant.
        channel: Where it came from; empty if that is not recorded.
        by_pixi: Whether pixi keeps the environment.
        client: The program that changed the environment last.
        other_channels: Those of the other packages, the one with most packages first.
        cuda: CUDA's major version, which the build depends on; empty if it does on none.
        gpu_package: The metapackage that installs a build for CUDA, as far as the record knows one.
        gpu_package_installed: Whether it is in the environment.
        build_asked_for: Whether the build was asked for, by its build string.
    """

    prefix: str
    name: str
    version: str
    build: str
    channel: str
    by_pixi: bool = False
    client: str = "conda"
    other_channels: tuple[str, ...] = ()
    cuda: str = ""
    gpu_package: str = ""
    gpu_package_installed: bool = False
    build_asked_for: bool = False

    @property
    def requirement(self) -> str:
        """The package in this version, whichever build."""
        return f"{self.name}={self.version}"

    @property
    def repair_command(self) -> str:
        """Let the solver choose the build anew, for the machine that it runs on."""
        return self.command(self.requirement)

    @property
    def gpu_command(self) -> str:
        """Install a build for CUDA; empty if no metapackage is known that stands for one."""
        return self.command(f"{self.gpu_package}={self.version}") if self.gpu_package else ""

    def command(self, *requirements: str, without: str = "") -> str:
        """Let the solver choose anew.

        Another build can have other dependencies, so that all channels are named.

        Args:
            requirements: What the environment is to have, that of the package first.
            without: A package that is removed before.
        """
        if self.by_pixi:
            return self._pixi_command(requirements, without)
        prefix = f"--prefix {shlex.quote(self.prefix)}"
        removal = f"{self.client} remove {prefix} {shlex.quote(without)} && " if without else ""
        named = filter(None, (self.channel, *self.other_channels))
        channels = "".join(f" --channel {shlex.quote(item)}" for item in named)
        wanted = shlex.join(requirements)
        return f"{removal}{self.client} install {prefix}{channels} --force-reinstall {wanted}"

    def _pixi_command(self, requirements: Sequence[str], without: str) -> str:
        added = [item for item in requirements if item != self.requirement]
        words = ["pixi", "add", *added] if added else ["pixi", "update", self.name]
        removal = f"pixi remove {shlex.quote(without)} && " if without else ""
        return f"{removal}{shlex.join(words)}  {_PIXI_HINT}"

    def to_json(self) -> dict[str, object]:
        """Return what `verify --json` prints of it."""
        return {
            "prefix": self.prefix,
            "build": self.build,
            "channel": self.channel,
            "by_pixi": self.by_pixi,
        }


def find_conda_installation(project: str, prefix: Path | None = None) -> CondaInstallation | None:
    """Find the conda package of a project; one that cannot be read counts as none.

    Args:
        project: The name of the package, which is that of the distribution.
        prefix: The environment; by default the one that runs this, and, where that is a virtual
            environment which sees another one's packages, that one.

    Returns:
        What is recorded, or none outside conda environments.
    """
    if prefix is None:
        own = find_conda_installation(project, Path(sys.prefix))
        return own or find_conda_installation(project, Path(sys.base_prefix))
    for file in sorted((prefix / _RECORDS).glob(f"{project}-*.json")):
        entry = _read_record(file)
        # Another package's name may begin with this one.
        if entry.get("name") == project:
            channel = _channel(entry)
            everyone = [_read_record(item) for item in (prefix / _RECORDS).glob("*.json")]
            counted = Counter(filter(None, map(_channel, everyone)))
            gpu = f"{project}-gpu"
            installed = any(item.get("name") == gpu for item in everyone)
            # Builds without CUDA keep it away.
            known = installed or gpu in map(_name, _texts(entry, "constrains"))
            pixi = (prefix / _RECORDS / _PIXI_NOTE).exists()
            return CondaInstallation(
                prefix=str(prefix),
                name=project,
                version=_text(entry, "version"),
                build=_text(entry, "build"),
                channel=channel,
                by_pixi=pixi,
                client="pixi" if pixi else _last_client(prefix / _RECORDS / _HISTORY),
                other_channels=tuple(name for name, _ in counted.most_common() if name != channel),
                cuda=next(filter(None, map(_cuda, _texts(entry, "depends"))), ""),
                gpu_package=gpu if known else "",
                gpu_package_installed=installed,
                build_asked_for=any(
                    map(
                        _names_build,
                        (_text(entry, "requested_spec"), *_texts(entry, "requested_specs")),
                    )
                ),
            )
    return None


def _read_record(file: Path) -> Mapping[str, object]:
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _texts(entry: Mapping[str, object], key: str) -> list[str]:
    values = entry.get(key)
    return [item for item in values if isinstance(item, str)] if isinstance(values, list) else []


def _name(spec: str) -> str:
    return re.split(r"[\s=<>!~\[]", spec, maxsplit=1)[0]


def _names_build(spec: str) -> bool:
    """Tell whether a requirement asks for a build, and not for a version alone.

    >>> [_names_build(spec) for spec in ("a >=1,<2", "a==1", "a=1=cpu_0", "a * *cpu*")]
    [False, False, True, True]
    >>> _names_build("a[version='1.*']"), _names_build("a[build=*cpu*]")
    (False, True)
    """
    plain, _, keys = spec.partition("[")
    version = re.sub(r"[=<>!~]=|[<>]", "", plain[len(_name(plain)) :]).strip("= ")
    return len(re.split(r"[\s=]+", version)) > 1 or re.search(r"\bbuild\s*=", keys) is not None


def _cuda(spec: str) -> str:
    """Return CUDA's major version of a dependency.

    >>> _cuda("cuda-version >=13,<14"), _cuda("nccl >=2")
    ('13', '')
    """
    match = _CUDA.match(spec)
    return match[1] if match else ""


def _channel(entry: Mapping[str, object]) -> str:
    """Return a package's channel without login, and without the platform, which conda appends.

    >>> _channel({"channel": "https://me:secret@example.org/ours/linux-64", "subdir": "linux-64"})
    'https://example.org/ours'
    """
    channel = _TOKEN.sub("", without_credentials(_text(entry, "channel"))).rstrip("/")
    before, _, platform = channel.rpartition("/")
    return before if platform in ("noarch", _text(entry, "subdir")) and before else channel


def _last_client(history: Path) -> str:
    """Return the program of the last line `# cmd: /opt/bin/mamba install ...`, or conda."""
    try:
        lines = history.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return _CLIENTS[0]
    for line in reversed(lines):
        if line.startswith("# cmd: "):
            program = Path(line.removeprefix("# cmd: ").partition(" ")[0]).name
            return program if program in _CLIENTS else _CLIENTS[0]
    return _CLIENTS[0]
