"""Configurations for cibuildwheel, which builds a variant's wheels for several CPythons.

One file per variant and machine: `cibuildwheel --config-file FILE --output-dir DIR`; then
`variantwheel label LABEL DIR/*.whl -o release` makes variants of the plain wheels.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from variantwheel.interpreters import abi_of
from variantwheel.matrix import MatrixJob
from variantwheel.project import Project, Pythons

_BUILDS = {"x86_64": "manylinux_x86_64", "aarch64": "manylinux_aarch64", "arm64": "macosx_arm64"}
# auditwheel refuses libraries whose ISA note is above the baseline, which a variant's are.
_REPAIR = "auditwheel repair --disable-isa-ext-check -w {dest_dir} {wheel}"

IMAGE_PYTHONS = (
    *("3.9", "3.10", "3.11", "3.12", "3.13"),
    *("3.14", "3.14t", "3.15", "3.15t"),
)
"""The CPythons in the manylinux images of cibuildwheel 4."""


def cibuildwheel_name(job: MatrixJob) -> str:
    """Return the name of a job's file."""
    return f"{job.definition.label}-{job.platform.machine}.toml"


def cibuildwheel_config(project: Project, job: MatrixJob) -> str:
    """Write the configuration of one job."""
    platform = job.platform
    toolchain = project.toolchain_of(platform)
    settings, environment = {**toolchain.config_settings}, toolchain.environment
    if project.pythons.versions and platform.machine != "arm64":
        settings |= _modules_for_all(project.pythons)
    builds = [f"{name}-{_BUILDS[platform.machine]}" for name in project.ci.interpreters]
    lines = [
        "# Written by `variantwheel workflow cibuildwheel`; change the definitions instead.",
        "[tool.cibuildwheel]",
        f"build = {_toml(builds)}",
        f"archs = {_toml([platform.machine])}",
        'skip = ["*-musllinux_*"]',
    ]
    if toolchain.requires:
        # What a compiler needs has to be where the backend runs; isolation would hide it.
        wanted = dict.fromkeys((*project.build_requires, *toolchain.requires))
        lines += [
            f"before-build = {_toml('python -m pip install ' + _words(tuple(wanted)))}",
            'build-frontend = { name = "build", args = ["--no-isolation"] }',
        ]
    if project.check.command and platform.machine != "arm64":
        if project.ci.extra_wheels:
            # The wheel may require them, and no index has them before the release.
            folders = _words(tuple(f"{{project}}/{item}" for item in project.ci.extra_wheels))
            lines.append(f"before-test = {_toml(f'python -m pip install {folders}')}")
        lines.append(f"test-command = {_toml(_words(project.check.command))}")
    if settings:
        lines += ["", "[tool.cibuildwheel.config-settings]", *_table(settings)]
    if environment:
        literal = {key: _as_is(value) for key, value in environment.items()}
        lines += ["", "[tool.cibuildwheel.environment]", *_table(literal)]
    if platform.machine != "arm64":
        lines += ["", "[tool.cibuildwheel.linux]", f"repair-wheel-command = {_toml(_REPAIR)}"]
    return "\n".join(lines) + "\n"


def _modules_for_all(pythons: Pythons) -> Mapping[str, str]:
    """Return the settings by which one wheel gets modules for all CPythons of the image."""
    optional = (version for version in pythons.optional if version in IMAGE_PYTHONS)
    headers = (
        f"{abi_of(item)}=/opt/python/{abi_of(item.rstrip('t'))}-{abi_of(item)}/include/python{item}"
        for item in (*pythons.versions, *optional)
    )
    return {**pythons.config_settings, pythons.setting: ";".join(headers)}


def _as_is(value: str) -> str:
    r"""Return what cibuildwheel, which puts double quotes around it, evaluates to a value.

    >>> print(_as_is('-Wl,-rpath,$ORIGIN -DX="a"'))
    -Wl,-rpath,\$ORIGIN -DX=\"a\"
    """
    return re.sub(r'[\\"$`]', r"\\\g<0>", value)


def _table(entries: Mapping[str, str]) -> list[str]:
    return [f"{_toml(key)} = {_toml(value)}" for key, value in entries.items()]


def _words(words: tuple[str, ...]) -> str:
    return shlex.join(words)


def _toml(value: str | list[str]) -> str:
    # JSON's strings and arrays of strings are TOML's as well.
    return json.dumps(value, ensure_ascii=False)
