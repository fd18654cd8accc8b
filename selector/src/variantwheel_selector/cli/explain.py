"""Show which variant of a project is or would be installed, and why not the others."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from variantwheel_selector.cli.output import (
    add_json_option,
    add_machine_option,
    asked_release,
    chosen_machine,
    print_json,
    print_lines,
)
from variantwheel_selector.decision import Decision
from variantwheel_selector.errors import NotInstalledError, UsageError
from variantwheel_selector.explain import (
    better_lines,
    decision_lines,
    machine_lines,
    outcome_line,
    properties,
    setting_lines,
)
from variantwheel_selector.front_end import index_options
from variantwheel_selector.installed import read_installed, selector_version
from variantwheel_selector.installer_folder import own_folder
from variantwheel_selector.machine import Machine
from variantwheel_selector.release_files import yank_lines
from variantwheel_selector.release_source import (
    folder_of_links,
    release_from_folder,
    release_from_index,
    release_from_sdist,
)
from variantwheel_selector.resolution import better_candidates
from variantwheel_selector.selection import Release, Selection, select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.wheel_name import normalize_project


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "project",
        metavar="PROJECT[==VERSION]",
        help="by default the newest for this Python; without a source, what was decided when it "
        "was installed",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--index", metavar="URL", help="an index, as for pip's --index-url")
    source.add_argument(
        "--find-links", metavar="DIR", help="a folder with wheels and variants.json"
    )
    source.add_argument(
        "sdist",
        nargs="?",
        type=Path,
        metavar="SDIST",
        help="a selector sdist, packed or not; right after the project, without options between",
    )
    add_machine_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print all candidates in order; 1 if none is chosen."""
    if args.index is None and args.find_links is None and args.sdist is None:
        return _explain_installed(args)
    machine = chosen_machine(args)
    release = _release(args, machine)
    settings = read_settings(None, os.environ, release.project)
    selection = select(release, settings, machine, strict=False)
    decision = selection.decision(selector_version(), index_options(os.environ, own_folder()))
    better = [
        (item.label, list(item.obstacles))
        for item in better_candidates(selection.resolution)
        if item.label is not None
    ]
    if args.json:
        print_json(
            decision.to_json()
            | {
                "yanked": release.yanked,
                "refusal": selection.refusal or None,
                "supported": properties(selection.support),
                "better": [{"label": label, "changes": changes} for label, changes in better],
            }
        )
    else:
        print_lines(_lines(selection, decision, better))
    done = decision.filename is not None or (selection.from_source and not selection.refusal)
    return 0 if done else 1


def _explain_installed(args: argparse.Namespace) -> int:
    """Print what was decided when the project was installed here."""
    project, wanted = asked_release(args.project)
    elsewhere = "name a release to choose from: --index URL, --find-links DIR or an sdist"
    if args.machine is not None:
        raise UsageError(f"an installation is of this machine; {elsewhere}")
    try:
        installed = read_installed(project)
    except NotInstalledError as error:
        raise UsageError(f"{error}; {elsewhere}") from error
    release = f"{installed.project} {installed.version}"
    if wanted not in (None, installed.version):
        raise UsageError(f"{release} is installed, not {args.project}; {elsewhere}")
    decision = installed.decision
    if decision is None:
        raise UsageError(
            f"no selector chose the wheel of {release} that is installed; 'variantwheel verify"
            f" {project}' says whether it fits. Or {elsewhere}"
        )
    if args.json:
        # What stands in no record is not known: null.
        unknown = dict.fromkeys(("yanked", "refusal", "supported", "better"))
        print_json(decision.to_json() | unknown)
    else:
        settings = ("", "settings", *setting_lines(decision)) if decision.settings else ()
        heading = f"decided when {release} was installed"
        lines = (heading, *settings, "", *decision_lines(decision), "")
        print_lines((*lines, outcome_line(decision, from_source=decision.filename is None)))
    return 0


def _lines(
    selection: Selection, decision: Decision, better: list[tuple[str, list[str]]]
) -> Iterator[str]:
    yield from machine_lines(selection.machine, selection.support.values())
    if decision.settings:
        yield from ("", "settings", *setting_lines(decision))
    yield from ("", *decision_lines(decision))
    if better:
        yield from ("", "for a better one", *better_lines(better))
    yield ""
    yield from yank_lines(f"{decision.project} {decision.version}", selection.release.yanked)
    yield from selection.refusal.splitlines()
    yield outcome_line(decision, from_source=selection.from_source and not selection.refusal)


def _release(args: argparse.Namespace, machine: Machine) -> Release:
    project, wanted = asked_release(args.project)
    if args.index is not None:
        return release_from_index(args.index, project, wanted, machine, os.environ)
    if args.find_links is not None:
        return release_from_folder(folder_of_links(args.find_links), project, wanted, machine)
    release = release_from_sdist(args.sdist, machine)
    same = normalize_project(release.project) == normalize_project(project)
    if not same or wanted not in (None, release.version):
        raise UsageError(
            f"{str(args.sdist)!r} is {release.project} {release.version}, not {args.project}"
        )
    return release
