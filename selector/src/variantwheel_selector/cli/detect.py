"""Show what this machine supports."""

from __future__ import annotations

import argparse
import os

from variantwheel_selector.cli.output import (
    add_json_option,
    add_machine_option,
    chosen_machine,
    print_json,
    print_lines,
)
from variantwheel_selector.explain import machine_json, machine_lines, properties
from variantwheel_selector.providers import supported
from variantwheel_selector.providers.level_cap import NO_CAP
from variantwheel_selector.selection import judged_machine, level_cap
from variantwheel_selector.setting_keys import ASSUME_PREFIX, MAX_CPU_LEVEL
from variantwheel_selector.settings import Settings, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json_option(parser)
    add_machine_option(parser)


def run(args: argparse.Namespace) -> int:
    """Print facts and supported properties, uncapped."""
    settings = read_settings(None, os.environ)
    assumptions = settings.assumptions
    machine = judged_machine(settings, chosen_machine(args))
    support = supported(machine, cap=NO_CAP, assumptions=assumptions)
    capped = supported(machine, cap=level_cap(settings), assumptions=assumptions)
    automatic = set(properties(capped))
    only_by_name = [item for item in properties(support) if item not in automatic]
    described = _about_machines(settings)
    if args.json:
        print_json(machine_json(machine, support, only_by_name, described))
        return 0
    print_lines(machine_lines(machine, support.values()))
    if described:
        print_lines(["", *(f"{name}: {text}" for name, text in described.items())])
    if only_by_name:
        print_lines(["", f"only for a variant asked for by name: {', '.join(only_by_name)}"])
    return 0


def _about_machines(settings: Settings) -> dict[str, str]:
    """Return the settings that are about machines rather than about releases."""
    return {
        name: text
        for name, text in settings.described().items()
        if name.startswith(ASSUME_PREFIX) or name == MAX_CPU_LEVEL.name or name in settings.notes
    }
