"""Check that the installed variant fits this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from variantwheel_selector.cli.output import (
    add_json_option,
    add_machine_option,
    chosen_machine,
    print_json,
    print_lines,
)
from variantwheel_selector.errors import SelectorError
from variantwheel_selector.installed import installed_variants
from variantwheel_selector.machine import Machine
from variantwheel_selector.verify import Verification, verify_distribution


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "project", nargs="?", metavar="PROJECT", help="by default all installed variants"
    )
    add_machine_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 1 if a variant does not fit.

    Raises:
        SelectorError: The project cannot be judged, or one of all that are variants; what can be
            judged was printed.
    """
    machine = chosen_machine(args)
    found: list[Verification] = []
    errors: list[tuple[str | None, SelectorError]] = []
    if args.project is not None:
        found.append(verify_distribution(args.project, machine))
    else:
        found, errors = _all_verified(machine)
    if args.json:
        told = [{"project": name, "error": str(error)} for name, error in errors]
        distributions = [item.to_json() for item in found]
        print_json({"schema": 1, "distributions": distributions, "errors": told})
    elif found or errors:
        print_lines(line for item in found for line in _lines(item))
    else:
        print_lines(["no variant is installed in this environment"])
    if errors:
        raise SelectorError("\n".join(str(error) for _, error in errors))
    return 1 if any(item.fits is False for item in found) else 0


def _all_verified(
    machine: Machine,
) -> tuple[list[Verification], list[tuple[str | None, SelectorError]]]:
    """Compare all installed variants; what cannot be judged comes by its name, if it has one."""
    names, damaged = installed_variants()
    answers = {name: _verified(name, machine) for name in names}
    errors: list[tuple[str | None, SelectorError]] = [(None, error) for error in damaged]
    errors += [(name, it) for name, it in answers.items() if isinstance(it, SelectorError)]
    return [it for it in answers.values() if isinstance(it, Verification)], errors


def _verified(name: str, machine: Machine) -> Verification | SelectorError:
    try:
        return verify_distribution(name, machine)
    except SelectorError as error:
        return error


def _lines(item: Verification) -> Iterator[str]:
    release = f"{item.project} {item.version}"
    if item.label is None:
        yield f"{release}: {item.reason}"
        return
    answer = {True: "fits", False: "does not fit", None: "may not fit"}[item.fits]
    yield f"{release}: variant {item.label} {answer} this machine"
    yield f"  {item.reason}"
    if item.conda is not None:
        yield f"  conda package, build {item.conda.build} of {item.conda.channel or 'no channel'}"
    if item.unused_gpu:
        yield f"  it has no code for GPUs, and there is {item.unused_gpu}"
        yield f"  a build for it, if a channel has one: {item.gpu_command}"
    if item.decision is not None and item.decision.forced:
        yield "  it was installed by force"
    for name, change in item.changes.items():
        yield f"  changed since the installation: {name}: {change}"
    if item.perhaps_better:
        yield (
            f"  {', '.join(item.perhaps_better)} would fit better, but had no wheel for the "
            "Python or platform of the installation"
        )
        yield (
            "  whether there is one for this is not recorded: variantwheel explain "
            f"{item.project}=={item.version} --index URL"
        )
    if item.fits is False:
        advice = "choose anew"
    elif item.better_label is not None:
        advice = f"{item.better_label} would fit better"
    else:
        return
    commands = list(item.repair_commands.values())
    if len(commands) == 1:
        yield f"  {advice}: {commands[0]}"
    else:
        yield f"  {advice}, by one of:"
        yield from (f"    {command}" for command in commands)
    if item.decision is not None and item.decision.settings:
        stated = "; ".join(f"{name} = {text}" for name, text in item.decision.settings.items())
        yield f"  it was installed with {stated}"
