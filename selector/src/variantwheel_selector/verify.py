"""Compares an installed variant with the machine: does it fit, and how is a misfit mended?

A wheel can end up on another machine than the one it was chosen for: pip and uv keep in their
caches what a selector sdist was built into, home directories are shared, and disks are moved.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from variantwheel_selector.conda_installation import CondaInstallation
from variantwheel_selector.decision import DECISION_FILE, Decision
from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.installed import CONDA, InstalledDistribution, read_installed
from variantwheel_selector.machine import Machine
from variantwheel_selector.matching import judge_properties
from variantwheel_selector.model import Variant
from variantwheel_selector.probe import probe
from variantwheel_selector.providers import Support, release_support
from variantwheel_selector.providers.level_cap import NO_CAP, LevelCap
from variantwheel_selector.record import field, record, replace
from variantwheel_selector.setting_keys import (
    FORBID,
    MAX_CPU_LEVEL,
    ONLY,
    PREFER,
    PROFILE,
    REQUIRE,
    VARIANT,
)
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.variants_json import VariantsInfo

_HOW_CHOSEN = {
    key.name for key in (VARIANT, PROFILE, FORBID, ONLY, PREFER, REQUIRE, MAX_CPU_LEVEL)
} | {"assume-cpu"}
"""Settings under which another variant is no better, because they asked for this one."""
_MAY_LIFT_CAP = {key.name for key in (VARIANT, ONLY, PREFER, REQUIRE)}

_KNOWN_BY_TAGS = ("linux", "win32")
"""Systems of which a capture holds all that the tags say; it lacks the version of macOS."""
_NEWEST_LIBCS = ("glibc 2.999", "musl 1.999")
_MOST_TAGS = 3


@record
class Verification:
    """An installed distribution compared with a machine.

    Attributes:
        project: Its name.
        version: Its version.
        label: The installed variant; none if the distribution is no variant.
        fits: Whether it fits; none if that is unknown or if it is no variant.
        reason: The facts compared, in words.
        installed_properties: What the installed variant needs, as text.
        decision: How it was chosen; none if no selector chose it.
        repair_commands: Install anew, past the caches, by `pip` and `uv`, or by `conda`; the one of
            the program that installed it comes first.
        changes: Facts that differ from those at the installation, in words, by name.
        better_label: A variant of the release that would be chosen on this machine instead; none
            if there is none, if a variant was asked for by name, or if no decision is recorded.
        perhaps_better: Variants of the release that fit this machine better and had no wheel for
            the Python or platform of the installation, which has changed since; the best first.
        conda: What conda recorded; none if another program installed it.
        unused_gpu: A GPU that a conda package without code for it leaves idle, in words.
        gpu_command: Installs a conda package that uses it.
    """

    project: str
    version: str
    label: str | None
    fits: bool | None
    reason: str
    installed_properties: tuple[str, ...]
    decision: Decision | None
    repair_commands: Mapping[str, str]
    changes: Mapping[str, str] = field(default_factory=dict)
    better_label: str | None = None
    perhaps_better: tuple[str, ...] = ()
    conda: CondaInstallation | None = None
    unused_gpu: str = ""
    gpu_command: str = ""

    @property
    def repair_command(self) -> str:
        """Installs anew with the program that installed it."""
        return next(iter(self.repair_commands.values()))

    def to_json(self) -> dict[str, object]:
        """Return what `verify --json` prints of it; the selector's README documents it."""
        return {
            "project": self.project,
            "version": self.version,
            "label": self.label,
            "fits": self.fits,
            "reason": self.reason,
            "properties": list(self.installed_properties),
            "better_label": self.better_label,
            "perhaps_better": list(self.perhaps_better),
            "repair_command": self.repair_command,
            "repair_commands": dict(self.repair_commands),
            "unused_gpu": self.unused_gpu,
            "gpu_command": self.gpu_command,
            "changes": dict(self.changes),
            "conda": None if self.conda is None else self.conda.to_json(),
            "decision": None if self.decision is None else self.decision.to_json(),
        }


def verify_distribution(name: str, machine: Machine | None = None) -> Verification:
    """Compare an installed distribution with a machine, by default with this one.

    Raises:
        NotInstalledError: There is no such distribution in this environment.
        VariantsJsonError: Its `variant.json` is damaged or missing.
        DecisionError: Its `variant-decision.json` is damaged.
    """
    installed = read_installed(name)
    namespaces = tuple(installed.variant.namespaces) if installed.variant is not None else ()
    if installed.conda is not None and installed.conda.gpu_package:
        namespaces += ("nvidia",)
    return verify_installed(installed, probe(namespaces) if machine is None else machine)


def verify_installed(installed: InstalledDistribution, machine: Machine) -> Verification:
    """Compare what an installed distribution says about itself with a machine.

    Raises:
        VariantsJsonError: Its `variant.json` does not belong to it, or is missing.
    """
    label: str | None = None
    fits: bool | None = None
    better: str | None = None
    perhaps: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    commands = repair_commands(installed)
    idle = ""
    if installed.variant is not None:
        variant = _only_variant(installed, installed.variant)
        # An installed variant was chosen already; the cap is about choosing.
        support = release_support(installed.variant, machine, cap=NO_CAP)
        verdict = judge_properties(variant, installed.variant.namespaces, support)
        loadable, why_not = _loadable(installed.tags, machine)
        label, reason = variant.label, "; ".join(filter(None, (why_not, *verdict.reasons)))
        fits = False if False in (loadable, verdict.fits) else loadable and verdict.fits
        properties = tuple(map(str, variant.properties))
        if fits and installed.decision is not None:
            better, perhaps = _better_labels(
                installed.decision, variant, installed.variant, machine
            )
            if not _elsewhere(installed, machine):
                perhaps = ()
        if installed.conda is not None:
            # Of use to conda packages alone, and providers of GPUs with it.
            from variantwheel_selector import conda_repair  # noqa: PLC0415

            reason = conda_repair.in_condas_words(reason)
            idle = conda_repair.unused_gpu(installed.conda, variant, machine) if fits else ""
            if verdict.fits is False:
                command = conda_repair.mending_command(installed.conda, variant, support)
                commands = {installed.conda.client: command}
    elif installed.decision is not None and installed.decision.label is not None:
        raise VariantsJsonError(
            f"{installed.project} {installed.version} is incomplete: its dist-info holds no "
            f"variant.json, but {DECISION_FILE} says that {installed.decision.label} was "
            f"installed; install it anew: {next(iter(repair_commands(installed).values()))}"
        )
    elif installed.decision is not None and installed.decision.filename is not None:
        reason = f"a plain wheel, which is no variant: {installed.decision.filename}"
    elif installed.decision is not None:
        reason = "built from source on the machine where it was installed, so it is no variant"
    else:
        reason = "not a variant: its dist-info holds no variant.json"
    return Verification(
        project=installed.project,
        version=installed.version,
        label=label,
        fits=fits,
        reason=reason,
        installed_properties=properties,
        decision=installed.decision,
        repair_commands=commands,
        changes=_changes(installed, machine),
        better_label=better,
        perhaps_better=perhaps,
        conda=installed.conda,
        unused_gpu=idle,
        gpu_command=installed.conda.gpu_command if installed.conda is not None and idle else "",
    )


def repair_commands(installed: InstalledDistribution) -> dict[str, str]:
    """Return the commands that choose the variant anew, that of the installing program first.

    They take the release from where it was taken from, as far as the decision recorded it.
    """
    if installed.conda is not None:
        return {installed.conda.client: installed.conda.repair_command}
    if installed.installer == CONDA:
        requirement = f"{installed.project}={installed.version}"
        return {"conda": f"conda install --force-reinstall {requirement}"}
    requirement = f"{installed.project}=={installed.version}"
    if installed.origin:
        requirement = f"{installed.project} @ {installed.origin}"
    options = installed.decision.index_options if installed.decision is not None else ()
    place, rest = installed.place, ("--no-deps", *options, requirement)
    commands = {
        "pip": shlex.join([*place.pip, "--no-cache-dir", "--force-reinstall", *rest]),
        "uv": shlex.join([*place.uv, "--no-cache", "--reinstall", *rest]),
    }
    return dict(sorted(commands.items(), key=lambda item: item[0] != installed.installer))


def _loadable(tags: Sequence[str], machine: Machine) -> tuple[bool | None, str]:
    """Tell whether a machine's Python loads a wheel with these tags, and why not, in words.

    Returns:
        None if facts are missing; true also where nothing can be compared.
    """
    if not tags or machine.system not in _KNOWN_BY_TAGS:
        return True, ""
    if not set(tags).isdisjoint(supported_tags(machine)):
        return True, ""
    facts = machine.facts()
    words = (
        f"its wheel is for {', '.join(tags[:_MOST_TAGS])}{' and others' * (len(tags) > _MOST_TAGS)}"
        f", this machine has {facts['python']} of {machine.pointer_bits} bits on "
        f"{machine.system} {machine.machine}, libc {facts['libc']}"
    )
    if machine.system == "linux" and machine.libc is None:
        perhaps = {
            tag for libc in _NEWEST_LIBCS for tag in supported_tags(replace(machine, libc=libc))
        }
        if not perhaps.isdisjoint(tags):
            return None, words
    return False, words


def _changes(installed: InstalledDistribution, machine: Machine) -> dict[str, str]:
    """Compare the facts recorded at the installation with those of a machine."""
    if installed.decision is None or not _comparable(installed):
        return {}
    recorded = installed.decision.machine
    facts = _facts(installed, machine, LevelCap())
    # What may have lifted the cap when it was decided, as a label does that was asked for.
    if _MAY_LIFT_CAP & set(installed.decision.settings):
        lifted = _facts(installed, machine, NO_CAP)
        facts |= {name: text for name, text in lifted.items() if recorded.get(name) == text}
    return {
        name: f"{recorded.get(name, 'nothing')} -> {facts.get(name, 'nothing')}"
        for name in sorted({*recorded, *facts})
        if recorded.get(name) != facts.get(name)
    }


def _facts(installed: InstalledDistribution, machine: Machine, cap: LevelCap) -> dict[str, str]:
    """Return what decides about a release on a machine, by name, in words."""
    facts = machine.facts()
    if installed.variant is not None:
        for answer in release_support(installed.variant, machine, cap=cap).values():
            facts |= answer.facts()
    return facts


def _comparable(installed: InstalledDistribution) -> bool:
    """Tell whether facts were recorded as they were, not as the user stated them."""
    stated = installed.decision.settings if installed.decision is not None else {}
    return not any(key.startswith(("assume-", "profile", "max-cpu-level")) for key in stated)


def _only_variant(installed: InstalledDistribution, info: VariantsInfo) -> Variant:
    variants = list(info.variants.values())
    if len(variants) != 1:
        raise VariantsJsonError(
            f"{installed.project} {installed.version}: its variant.json names {len(variants)} "
            "variants, an installed one names itself alone"
        )
    return variants[0]


def _elsewhere(installed: InstalledDistribution, machine: Machine) -> bool:
    """Tell whether other wheels than at the installation may be for this Python and platform."""
    if installed.decision is None or not _comparable(installed):
        return False
    recorded, facts = installed.decision.machine, machine.facts()
    interpreter = recorded.get("python", "").partition(" ")[0]
    return interpreter not in ("", machine.python.interpreter) or any(
        recorded.get(name, facts[name]) != facts[name]
        for name in ("machine", "system", "pointer_bits", "libc")
    )


def _better_labels(
    decision: Decision, installed: Variant, info: VariantsInfo, machine: Machine
) -> tuple[str | None, tuple[str, ...]]:
    """Return the recorded candidates that fit a machine better than the installed one.

    Returns:
        The best of those with a wheel, or none; and those without one that come before it.
    """
    if _HOW_CHOSEN & set(decision.settings):
        return None, ()
    candidates = {
        item.label: Variant.from_strings(item.label, item.properties)
        for item in decision.candidates
        if item.label is not None
    }
    with_wheel = {item.label for item in decision.candidates if item.filename is not None}
    namespaces = _all_namespaces(info, list(candidates.values()))
    support: Mapping[str, Support] = release_support(info, machine)
    fitting = sorted(
        (verdict.sort_key, label)
        for label, variant in candidates.items()
        if (verdict := judge_properties(variant, namespaces, support)).fits
    )
    best = next((place for place in fitting if place[1] in with_wheel), None)
    better = None if best is None or best[1] == installed.label else best[1]
    own = next((place for place in fitting if place[1] == installed.label), None)
    least = best or own
    perhaps = [
        label
        for key, label in fitting
        if label not in (*with_wheel, installed.label) and (least is None or (key, label) < least)
    ]
    return better, tuple(perhaps)


def _all_namespaces(info: VariantsInfo, candidates: list[Variant]) -> list[str]:
    """Return the release's namespaces; what a damaged decision adds comes last."""
    added = {item.namespace for variant in candidates for item in variant.properties}
    return [*info.namespaces, *sorted(added - set(info.namespaces))]
