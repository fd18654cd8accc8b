"""Checks of a conda package's files: what `info/paths.json` lists, links, permissions, scripts."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator

from variantwheel.checks.installing import script_names
from variantwheel.checks.report import Finding, judge
from variantwheel.checks.subject import CheckSubject
from variantwheel.conda_package import CondaPackage
from variantwheel.errors import WheelFormatError

_MOST_FAULTS = 5
_SET_ID = 0o6000
_EXECUTE = 0o111


def check_paths(package: CondaPackage) -> Finding:
    """Compare every file with `info/paths.json`, and see whether all stay in the environment."""
    present = set(package.files) | set(package.links)
    faults = [f"{path}: not listed" for path in sorted(present - set(package.paths))]
    for path, entry in sorted(package.paths.items()):
        if path not in present:
            faults.append(f"{path}: listed, and not there")
        elif path in package.files and "sha256" in entry:
            data = package.files[path]
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                faults.append(f"{path}: its bytes are not those that info/paths.json lists")
        if _leads_out(path):
            faults.append(f"{path}: leads out of the environment")
    faults += _link_faults(package)
    faults += [
        f"{path}: would run as its owner or group, by its mode {mode:o}"
        for path, mode in sorted(package.modes.items())
        if mode & _SET_ID
    ]
    return judge("paths", faults[:_MOST_FAULTS], f"{len(present)} files")


def check_scripts(package: CondaPackage, subject: CheckSubject) -> Finding:
    """See whether each script of `entry_points.txt` is there, in `bin`, and can be executed."""
    check, path = "scripts", f"{subject.archive.dist_info}/entry_points.txt"
    try:
        names = script_names(subject.archive.files.get(path, b""))
    except WheelFormatError as error:
        return judge(check, [str(error)], "")
    faults: list[str] = []
    for name in names:
        script = f"bin/{name}"
        if script not in package.files and script not in package.links:
            faults.append(f"{script} is missing, which entry_points.txt declares")
        elif script in package.files and package.modes[script] & _EXECUTE != _EXECUTE:
            faults.append(f"{script}: not executable, by its mode {package.modes[script]:o}")
    return judge(check, faults, ", ".join(names) or "none are declared")


def _link_faults(package: CondaPackage) -> Iterator[str]:
    for path, target in sorted(package.links.items()):
        if _leads_out(posixpath.normpath(posixpath.join(posixpath.dirname(path), target))):
            yield f"{path}: a link to {target}, which lies outside of the environment"


def _leads_out(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")
