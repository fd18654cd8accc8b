"""Show what this machine supports."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from variantwheel_selector.assumptions import Assumptions
from variantwheel_selector.cli.output import (
    add_json_option,
    add_machine_option,
    chosen_machine,
    print_json,
    print_lines,
)
from variantwheel_selector.explain import machine_json, machine_lines, properties
from variantwheel_selector.machine import Machine
from variantwheel_selector.profile import Profile, intersect
from variantwheel_selector.providers import NAMESPACES, LevelCap, Support, supported
from variantwheel_selector.providers.level_cap import NO_CAP
from variantwheel_selector.selection import described_for, judged_machine, level_cap
from variantwheel_selector.setting_keys import ASSUME_PREFIX, MAX_CPU_LEVEL, PROFILE
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
    machines = settings.profiles or (Profile("", machine),)
    support = _of_all(machines, NO_CAP, assumptions)
    automatic = set(properties(_of_all(machines, level_cap(settings), assumptions)))
    only_by_name = [item for item in properties(support) if item not in automatic]
    described = _about_machines(settings, machine)
    if args.json:
        print_json(machine_json(machine, support, only_by_name, described))
        return 0
    print_lines(machine_lines(machine, support.values()))
    if described:
        print_lines(["", *(f"{name}: {text}" for name, text in described.items())])
    if only_by_name:
        print_lines(["", f"only for a variant asked for by name: {', '.join(only_by_name)}"])
    return 0


def _of_all(
    machines: Sequence[Profile], cap: LevelCap, assumptions: Assumptions
) -> dict[str, Support]:
    """Return what all machines support."""
    answers = {
        item.name: supported(item.machine, cap=cap, assumptions=assumptions) for item in machines
    }
    return {
        namespace: intersect({name: answer[namespace] for name, answer in answers.items()})
        for namespace in NAMESPACES
    }


def _about_machines(settings: Settings, machine: Machine) -> dict[str, str]:
    """Return the settings that are about machines rather than about releases."""
    return {
        name: text
        for name, text in described_for(settings, machine).items()
        if name.startswith(ASSUME_PREFIX)
        or name in (MAX_CPU_LEVEL.name, PROFILE.name, *settings.notes)
    }
