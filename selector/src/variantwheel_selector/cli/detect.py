"""Show what this machine supports."""

from __future__ import annotations

import argparse
import os

from variantwheel_selector.assumptions import read_assumptions
from variantwheel_selector.cli.output import (
    add_json_option,
    add_machine_option,
    chosen_machine,
    print_json,
    print_lines,
)
from variantwheel_selector.explain import machine_json, machine_lines, properties
from variantwheel_selector.providers import supported


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json_option(parser)
    add_machine_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print facts and supported properties, uncapped."""
    assumptions = read_assumptions(os.environ)
    machine = chosen_machine(args)
    support = supported(machine, capped=False, assumptions=assumptions)
    automatic = set(properties(supported(machine, assumptions=assumptions)))
    only_by_name = [item for item in properties(support) if item not in automatic]
    if args.json:
        print_json(machine_json(machine, support, only_by_name, assumptions.described))
        return 0
    print_lines(machine_lines(machine, support.values()))
    if assumptions.described:
        print_lines(["", *(f"{name}: {text}" for name, text in assumptions.described.items())])
    if only_by_name:
        print_lines(["", f"only for a variant asked for by name: {', '.join(only_by_name)}"])
    return 0
