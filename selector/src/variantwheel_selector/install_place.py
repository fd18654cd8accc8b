"""Where a distribution is installed, and how `pip` and `uv` are told to install there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from variantwheel_selector.record import record


@record
class InstallPlace:
    """A place that commands install into; by default what the shell's own commands install into.

    Attributes:
        pip: The words of a command up to the requirement's options, with which pip installs there.
        uv: The same for uv.
    """

    pip: tuple[str, ...] = ("pip", "install")
    uv: tuple[str, ...] = ("uv", "pip", "install")


def find_install_place(location: Path, environ: Mapping[str, str] = os.environ) -> InstallPlace:
    """Find out how commands reach a folder of this interpreter's path.

    The shell's `pip` and `uv` often belong to another environment: that of a tool (`uv tool`,
    pipx) is never activated, and any environment's programs can be called by their path.

    Args:
        location: The folder with the distribution's `.dist-info`.
        environ: The environment variables of the shell.
    """
    pip, uv = ["pip", "install"], ["uv", "pip", "install"]
    if sys.executable and not _is_first_on_path("pip", environ):
        with_pip = importlib.util.find_spec("pip") is not None
        pip = (
            [sys.executable, "-m", *pip]
            if with_pip
            else ["pip", "--python", sys.executable, *pip[1:]]
        )
    active = environ.get("VIRTUAL_ENV")
    if sys.executable and not (active and _same(Path(active), sys.prefix)):
        uv += ["--python", sys.executable]
    if location.is_dir() and not _in_environment(location):
        # Without --upgrade pip keeps what is in such a folder.
        pip += ["--user"] if _is_user_site(location) else ["--upgrade", "--target", str(location)]
        uv += ["--target", str(location)]
    return InstallPlace(tuple(pip), tuple(uv))


def _is_first_on_path(program: str, environ: Mapping[str, str]) -> bool:
    found = shutil.which(program, path=environ.get("PATH", os.defpath))
    return found is not None and _same(Path(found).parent, sysconfig.get_path("scripts"))


def _in_environment(location: Path) -> bool:
    """Tell whether commands for this interpreter install there, or over what is there."""
    own = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if any(_same(location, each) for each in own):
        return True
    # An environment with the system's packages: what is installed into it comes before those.
    base = Path(sys.base_prefix).resolve()
    return sys.prefix != sys.base_prefix and base in location.resolve().parents


def _is_user_site(location: Path) -> bool:
    return bool(site.ENABLE_USER_SITE) and _same(location, site.getusersitepackages())


def _same(one: Path, other: str) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
