"""The command `variantwheel`: its verbs are modules, the selector's own and those of plug-ins.

A verb module has a docstring of one line, `configure(parser)` and `run(args)`, which returns the
exit code: 0 fine, 1 the answer is no, 2 usage or configuration; 3 is that of a system that refuses
to read or write, and 128 more than a signal's number that of the signal. Other distributions add
verbs by entry points of the group `variantwheel.verbs` that name such modules.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from variantwheel_selector.cli.ending import EndedBySignal, ending_in_order
from variantwheel_selector.cli.output import give_up_output
from variantwheel_selector.errors import OutputError, SelectorError
from variantwheel_selector.installed import selector_version
from variantwheel_selector.system_refusal import is_refusal, refusal_words

ENTRY_POINT_GROUP = "variantwheel.verbs"

_OWN_VERBS = ("detect", "explain", "verify", "capture", "lock", "unpack")
_TOOLKIT_VERBS = ("init", "matrix", "build", "label", "check", "index", "sdist", "workflow")
_NO_TOOLKIT = "comes with the toolkit: pip install variantwheel"

_EPILOG = """\
examples:
  variantwheel detect                               what does this machine support?
  variantwheel explain PROJECT --index URL          which variant would be installed here?
  variantwheel verify PROJECT                       does the installed variant fit here?

exit codes: 0 fine, 1 the answer is no, 2 usage or configuration, 3 the system refuses (disk full)
"""


class Verb(Protocol):
    """A verb module."""

    __doc__: str | None

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and return the exit code."""


def run_commandline(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code; expected errors become lines on standard error."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on standard error: names of files need not be text, nor the terminal know all letters.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with ending_in_order():
            return _run(words)
    except SelectorError as error:
        _say(*(f"error: {line}" for line in error.lines()))
        return error.exit_code
    except EndedBySignal as ended:
        _say(f"ended by {signal.Signals(ended.number).name}")
        return 128 + ended.number  # what a shell makes of a signal
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except BrokenPipeError:
        # The reader, `head` perhaps, has seen enough. Nothing may be flushed to it at exit.
        give_up_output()
        return 1
    except OSError as error:
        if is_refusal(error):
            _say(f"error: {refusal_words(error, _temporary_folder())}")
            return OutputError.exit_code
        # With a file name it is about something that the user named.
        if error.filename is None:
            if not _folder_is_gone():
                raise
            _say("error: the current folder has been removed; change to one that is there")
            return 2
        _say(f"error: {error.filename}: {error.strerror}")
        return 2


def _say(*lines: str) -> None:
    """Write lines to standard error, unless that is closed or full."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):
        sys.stderr.writelines(f"variantwheel: {line}\n" for line in lines)


def _folder_is_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - asks, and takes nothing from it
    except FileNotFoundError:
        return True
    return False


def _temporary_folder() -> str:
    """Return the folder of temporary files; where none can be written to, it is not known."""
    import tempfile  # noqa: PLC0415 - rarely needed

    try:
        return tempfile.gettempdir()
    except OSError:
        return os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - a name for a message


def _run(words: list[str]) -> int:
    names = {
        **{name: f"variantwheel_selector.cli.{name}" for name in _OWN_VERBS},
        **_plugged_in_verbs(),
    }
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb in _TOOLKIT_VERBS and verb not in names:
        sys.stderr.write(f"variantwheel: error: '{verb}' {_NO_TOOLKIT}\n")
        return 2
    if verb in _TOOLKIT_VERBS:
        # What builds and checks would blame the files in place of a folder that is gone.
        os.getcwd()  # noqa: PTH109 - pathlib would hide the question
    parser = argparse.ArgumentParser(
        prog="variantwheel",
        description="Hardware variants of Python packages: what fits, what is installed, and why.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"variantwheel-selector {selector_version() or '(source checkout)'}"
    parser.add_argument("--version", action="version", version=version)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verb is None and "--version" not in words
    for name, module_name in names.items():
        # Only the verb that is used is imported, and all of them when the list is shown.
        if verb != name and not listing:
            verbs.add_parser(name)
            continue
        try:
            module = cast("Verb", importlib.import_module(module_name))
        except ImportError as error:
            if verb == name:
                raise
            verbs.add_parser(name, help=f"(cannot be used: {error})")
            continue
        first_line = (module.__doc__ or "").strip().partition("\n")[0]
        child = verbs.add_parser(
            name,
            help=first_line,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(child)
        child.set_defaults(run_verb=module.run)
    if listing:
        for name in _TOOLKIT_VERBS:
            if name not in names:
                verbs.add_parser(name, help=f"({_NO_TOOLKIT})")
    args = parser.parse_args(words)
    return int(args.run_verb(args))


def _plugged_in_verbs() -> dict[str, str]:
    found = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: point.value for point in found}
