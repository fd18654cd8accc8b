"""What a provider says about a machine: supported values, best first, and why not others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SupportedFeature:
    """The values of one feature that the machine supports.

    Attributes:
        name: The feature, within the provider's namespace.
        values: Best first.
        basis: The facts that the values follow from, in words.
        why_not: Values that are not supported, each with its reason.
    """

    name: str
    values: tuple[str, ...]
    basis: str
    why_not: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Support:
    """What the machine supports of one namespace.

    Attributes:
        namespace: The namespace.
        features: Most important first; empty if the machine has nothing of the kind.
        absent: Why there are no features, in words.
        unknown: Why the facts could not be found out; the features are then a lower bound.
    """

    namespace: str
    features: tuple[SupportedFeature, ...] = ()
    absent: str = ""
    unknown: str = ""

    def facts(self) -> dict[str, str]:
        """Return the supported values by `namespace :: feature`, in words."""
        return {
            f"{self.namespace} :: {feature.name}": f"{', '.join(feature.values)} ({feature.basis})"
            for feature in self.features
        }
