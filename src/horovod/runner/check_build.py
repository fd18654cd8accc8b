"""`horovodrun --check-build`: what is built in, what really loads here, and which variant it is."""

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from horovod import _installation
from horovod.runner.build_probe import RUNTIME, TORCH
from horovod.runner.build_report import BuildReport, Trial, VariantReport, render_report
from horovod.runner.import_paths import paths_to_this_package
from horovod.runner.streams import bytes_of, say, write_all

if TYPE_CHECKING:
    from collections.abc import Sequence

UNWRITTEN = 3  # exit code of a report that nobody got
_TRIAL_SECONDS = 120.0  # a cold import of PyTorch from a network disk takes long


def run_trial(what: str) -> Trial:
    """Tries something out in a process of its own.

    Args:
        what: `RUNTIME` or `TORCH`.
    """
    command: Sequence[str] = [sys.executable, "-m", "horovod.runner.build_probe", what]
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=os.sep,  # `-m` puts the current folder first on the path
            env={**os.environ, **paths_to_this_package(os.environ)},
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial(None, f"no answer in {_TRIAL_SECONDS:.0f} seconds")
    if child.returncode == 0:
        return Trial(json.loads(child.stdout.splitlines()[-1]), "")
    if child.returncode < 0:
        return Trial(None, f"the process was ended by signal {-child.returncode}")
    complaint = child.stderr.decode(errors="replace").strip().splitlines()
    return Trial(None, complaint[-1] if complaint else f"exit code {child.returncode}")


def try_torch() -> Trial:
    """Tries the PyTorch front end, if there is a PyTorch."""
    if importlib.util.find_spec("torch") is None:
        return Trial(None, "not installed")
    return run_trial(TORCH)


def ask_selector() -> VariantReport:
    """Asks the selector package which variant is installed, why, and whether it fits."""
    if importlib.util.find_spec("variantwheel_selector") is None:
        return VariantReport(
            "variantwheel-selector is not installed; pip install variantwheel-selector",
            {},
            _installation.label(),
        )
    from variantwheel_selector.errors import SelectorError  # noqa: PLC0415 - only needed here
    from variantwheel_selector.verify import verify_distribution  # noqa: PLC0415 - as above

    try:
        return VariantReport("", verify_distribution(_installation.DISTRIBUTION).to_json())
    except SelectorError as error:
        return VariantReport(str(error), {})


def check_build(verbose: bool | None = None, *, as_json: bool = False) -> int:  # noqa: FBT001 - Horovod's signature
    """Prints the report.

    Args:
        verbose: with more about what is there and what is missing.
        as_json: for machines.

    Returns:
        0; 1 when nothing loads or the installed variant does not fit this machine; 3 when the
        report cannot be written.
    """
    report = BuildReport(_installation.version(), run_trial(RUNTIME), try_torch(), ask_selector())
    if as_json:
        text = json.dumps(report.to_json(), indent=2) + "\n"
    else:
        text = render_report(report, _installation.repair_command(), verbose=bool(verbose))
    try:
        write_all(bytes_of(sys.stdout, sys.__stdout__), text.encode(errors="backslashreplace"))
    except OSError as error:
        say(f"horovodrun: error: the report cannot be written: {error.strerror}")
        return UNWRITTEN
    return report.exit_code
