"""What a provider says about a machine: supported values, best first, and why not others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from variantwheel_selector.record import field, record


@record
class SupportedFeature:
    """The values of one feature that the machine supports.

    Attributes:
        name: The feature, within the provider's namespace.
        values: Best first.
        basis: The facts that the values follow from, in words.
        why_not: Values that are not supported, each with its reason.
        summary: What to say in place of a long list of values.
        unknown: Why it is not known which values are supported; `values` is a lower bound then.
        each_device: Where devices differ, what each kind supports. A variant may then serve them
            with several values, although none of `values`, which serve all, is among these.
    """

    name: str
    values: tuple[str, ...]
    basis: str
    why_not: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    unknown: str = ""
    each_device: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def unserved(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the kinds of devices that a variant with the values `wanted` does not serve."""
        return tuple(
            device
            for device, values in self.each_device.items()
            if not any(value in wanted for value in values)
        )

    def words(self) -> str:
        """Return the supported values in words."""
        return self.summary or ", ".join(self.values) or "none"


@record
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
        single = [feature for feature in self.features if _is_switch(feature)]
        rows = {
            f"{self.namespace} :: {feature.name}": f"{feature.words()} ({feature.basis})"
            for feature in self.features
            if feature not in single
        }
        on = [feature.name for feature in single if feature.values]
        if on:
            rows[f"{self.namespace} features"] = ", ".join(on)
        return rows


def _is_switch(feature: SupportedFeature) -> bool:
    """Tell whether a feature is one of many that are on or not, and are shown in one line."""
    return feature.values == ("on",) or (not feature.values and "lacks" in feature.basis)
