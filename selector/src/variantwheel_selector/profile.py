"""Machine profiles: captured machines that a variant is chosen for instead of this one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from variantwheel_selector.errors import MachineFolderError, SettingsError
from variantwheel_selector.machine import Machine
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.providers.support import Support, SupportedFeature
from variantwheel_selector.record import record


@record
class Profile:
    """A captured machine under the name by which reasons speak of it.

    Attributes:
        name: The name of its file or folder, without `.json`; with the folder above it, or the
            whole path, where another profile has the same one.
        machine: The captured facts.
    """

    name: str
    machine: Machine


def read_profiles(paths: Sequence[str], origin: str) -> tuple[Profile, ...]:
    """Read the profiles that a setting names.

    Args:
        paths: Of files or folders that `variantwheel capture` wrote.
        origin: Where the setting stands, for messages.

    Raises:
        SettingsError: A path is relative, or there is no profile at it.
    """
    machines: dict[Path, Machine] = {}
    for text in paths:
        path = Path(os.path.expanduser(text))  # noqa: PTH111 - leaves an unknown user as it is
        if not path.is_absolute():
            raise SettingsError(
                f"{origin} names {text!r}: a profile needs an absolute path, since builds run in "
                "the folder of the sdist"
            )
        try:
            machines[path] = read_machine(path)
        except MachineFolderError as error:
            raise SettingsError(f"{origin}: {error}") from error
    names = _names(list(machines))
    return tuple(Profile(names[path], machine) for path, machine in machines.items())


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each path that no other one has, as short as that allows."""
    forms: list[Callable[[Path], str]] = [
        lambda path: path.name.removesuffix(".json"),
        lambda path: f"{path.parent.name}/{path.name.removesuffix('.json')}",
    ]
    names = {path: str(path) for path in paths}
    for form in reversed(forms):
        found = {path: form(path) for path in paths}
        given = list(found.values())
        names |= {path: name for path, name in found.items() if given.count(name) == 1}
    return names


def intersect(named: Mapping[str, Support]) -> Support:
    """Return what all of several machines support of one namespace.

    Args:
        named: What each supports, by the machine's name; all of the same namespace.
    """
    if len(named) == 1:
        return next(iter(named.values()))
    namespace = next(iter(named.values())).namespace
    without = [answer for answer in named.values() if not answer.features]
    unknown = _joined({name: answer.unknown for name, answer in named.items()})
    absent = _joined({name: answer.absent for name, answer in named.items()})
    if absent:
        return Support(namespace, absent=absent)
    if without:
        return Support(namespace, unknown=unknown)
    order = [feature.name for feature in next(iter(named.values())).features]
    by_feature = {
        feature: {
            name: next((item for item in answer.features if item.name == feature), None)
            for name, answer in named.items()
        }
        for feature in order
    }
    return Support(
        namespace,
        tuple(
            _intersect_feature(feature, {name: item for name, item in found.items() if item})
            for feature, found in by_feature.items()
            if None not in found.values()
        ),
        unknown=unknown,
    )


def _intersect_feature(name: str, found: Mapping[str, SupportedFeature]) -> SupportedFeature:
    first, *others = found.values()
    values = tuple(value for value in first.values if all(value in o.values for o in others))
    each: dict[str, tuple[str, ...]] = {}
    if any(other.values != first.values or other.each_device for other in (*others, first)):
        for machine, feature in found.items():
            kinds = feature.each_device or {"": feature.values}
            for kind, supported in kinds.items():
                each[f"{machine} ({kind})" if kind else machine] = tuple(supported)
    bases = {machine: feature.basis for machine, feature in found.items()}
    return SupportedFeature(
        name,
        values,
        _joined(bases),
        why_not={
            value: _joined({m: f.why_not[value] for m, f in found.items() if value in f.why_not})
            for feature in found.values()
            for value in feature.why_not
        },
        summary=_joined({machine: feature.summary for machine, feature in found.items()}),
        unknown=_joined({machine: feature.unknown for machine, feature in found.items()}),
        each_device=each,
    )


def _joined(words: Mapping[str, str]) -> str:
    """Return what is said about several machines in one line, the same words once."""
    said = {name: text for name, text in words.items() if text}
    if len(set(said.values())) == 1 and len(said) == len(words):
        return next(iter(said.values()))
    return "; ".join(f"{name}: {text}" for name, text in said.items())
