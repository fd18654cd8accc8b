"""`variant.json` and `NAME-VERSION-variants.json`: what the variants of a release need.

The formats are PEP 825's (schema 0.1) and PEP 850's (schema 0.2, which adds `providers`). Both are
drafts; the major version 0 is the only one that is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from variantwheel_selector.errors import VariantsJsonError
from variantwheel_selector.json_text import render_json
from variantwheel_selector.model import (
    FEATURE_PATTERN,
    LABEL_PATTERN,
    NAMESPACE_PATTERN,
    NULL_LABEL,
    VALUE_PATTERN,
    Variant,
    VariantProperty,
    is_label,
)
from variantwheel_selector.record import field, record
from variantwheel_selector.strict_json import JsonNode, parse_json

PEP_850_SCHEMA = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json"
"""The schema that is written by default: released uv acts on it."""
PEP_825_SCHEMA = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"

# The form without a PEP number is what variantlib 0.2.2 writes; its layout is PEP 850's.
_SCHEMA_PATTERN = (
    r"https://variants-schema\.wheelnext\.dev/(?:peps/(825|850)/)?v(\d+)\.(\d+)\.(\d+)\.json"
)
_KNOWN_MINOR = {"825": 1, "850": 2, None: 2}


@record
class ProviderInfo:
    """Where the supported properties of one namespace come from (PEP 850); one kind each.

    Attributes:
        requires: Requirements of a provider plug-in.
        plugin_api: Object inside the plug-in, `module:object`; none is the package's default.
        static_properties: Features to values, best first, that every machine supports.
        feature_order: Order of the static features; empty when there is one at most.
        builtin: Name of a provider that is part of the installer.
        optional: Whether the namespace counts as unsupported until the user enables it.
    """

    requires: tuple[str, ...] = ()
    plugin_api: str | None = None
    static_properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    feature_order: tuple[str, ...] = ()
    builtin: str | None = None
    optional: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the JSON object, without the keys that hold their default."""
        document: dict[str, object] = {}
        if self.optional:
            document["optional"] = True
        if self.requires:
            document["requires"] = list(self.requires)
        if self.plugin_api is not None:
            document["plugin-api"] = self.plugin_api
        if self.static_properties:
            document["static-properties"] = {
                feature: list(values) for feature, values in sorted(self.static_properties.items())
            }
        if self.feature_order:
            document["feature-order"] = list(self.feature_order)
        if self.builtin is not None:
            document["builtin"] = self.builtin
        return document


@record
class VariantsInfo:
    """The content of one `variant.json` (one label) or `-variants.json` (all labels).

    Attributes:
        namespaces: Namespaces, most important first.
        providers: By namespace; none stands for PEP 825's schema, which does not have them.
        variants: By label.
    """

    namespaces: tuple[str, ...]
    variants: Mapping[str, Variant]
    providers: Mapping[str, ProviderInfo] | None = None

    def __post_init__(self) -> None:
        for label, variant in self.variants.items():
            if variant.label != label:
                raise VariantsJsonError(f"variant {variant.label!r} stands under {label!r}")
            for item in variant.properties:
                if item.namespace not in self.namespaces:
                    raise VariantsJsonError(
                        f"variant {label!r} uses namespace {item.namespace!r}, which "
                        f"default-priorities.namespace lacks: {', '.join(self.namespaces)}"
                    )
        if self.providers is not None and set(self.providers) != set(self.namespaces):
            raise VariantsJsonError(
                "providers and default-priorities.namespace name different namespaces: "
                f"{', '.join(sorted(self.providers))} and {', '.join(sorted(self.namespaces))}"
            )

    def only(self, label: str) -> VariantsInfo:
        """Return what a wheel of one label carries: the priorities and that label."""
        return VariantsInfo(self.namespaces, {label: self.variants[label]}, self.providers)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object; the same content always gives the same order of keys."""
        document: dict[str, object] = {
            "$schema": PEP_825_SCHEMA if self.providers is None else PEP_850_SCHEMA,
            "default-priorities": {"namespace": list(self.namespaces)},
        }
        if self.providers is not None:
            document["providers"] = {
                namespace: self.providers[namespace].to_json() for namespace in self.namespaces
            }
        document["variants"] = {
            label: _variant_to_json(self.variants[label]) for label in sorted(self.variants)
        }
        return document


def render_variants_json(info: VariantsInfo) -> str:
    """Write the file's text; deterministic."""
    return render_json(info.to_json())


def parse_variants_json(text: str | bytes, place: str = "variants.json") -> VariantsInfo:
    """Read a `variant.json` or `-variants.json`.

    Args:
        text: The file's content.
        place: The file's name for messages.

    Raises:
        VariantsJsonError: The text is not such a file, or one of an unknown major version.
    """
    return variants_info_from_node(parse_json(text, place, VariantsJsonError))


def variants_info_from_node(root: JsonNode) -> VariantsInfo:
    """Read the JSON object of a variants.json that stands inside another document."""
    schema = root.object(("$schema",), ignore_unknown=True)["$schema"]
    pep, ignore_unknown = _check_schema(schema)
    has_providers = pep != "825"
    members = root.object(
        ("$schema", "default-priorities", "variants", *(["providers"] if has_providers else [])),
        ignore_unknown=ignore_unknown,
    )
    priorities = members["default-priorities"].object(("namespace",), ignore_unknown=ignore_unknown)
    namespaces = priorities["namespace"].strings(NAMESPACE_PATTERN)
    providers = None
    if has_providers:
        providers = {
            namespace: _provider_from_node(node, ignore_unknown=ignore_unknown)
            for namespace, node in members["providers"].members().items()
        }
    variants = {
        label: _variant_from_node(label, node)
        for label, node in members["variants"].members().items()
    }
    try:
        return VariantsInfo(namespaces, variants, providers)
    except VariantsJsonError as error:
        raise root.fault(f"{root.place}: {error}") from error


def _check_schema(node: JsonNode) -> tuple[str | None, bool]:
    """Return the PEP of a schema, and whether it is newer, so that unknown keys are expected."""
    url = node.string()
    found = re.fullmatch(_SCHEMA_PATTERN, url)
    if not found:
        node.fail(f"unknown schema {url!r}; known are {PEP_825_SCHEMA} and {PEP_850_SCHEMA}")
    pep, major, minor = found[1], int(found[2]), int(found[3])
    if major != 0:
        node.fail(f"schema version {major}.{minor} is newer than this selector, which reads 0.x")
    return pep, minor > _KNOWN_MINOR[pep]


def _provider_from_node(node: JsonNode, *, ignore_unknown: bool) -> ProviderInfo:
    members = node.object(
        (),
        ("optional", "requires", "plugin-api", "static-properties", "feature-order", "builtin"),
        ignore_unknown=ignore_unknown,
    )
    kinds = [kind for kind in ("requires", "static-properties", "builtin") if kind in members]
    if len(kinds) != 1:
        node.fail(
            "needs exactly one of requires, static-properties and builtin, "
            f"has {' and '.join(kinds) or 'none'}"
        )
    for key, kind in (("plugin-api", "requires"), ("feature-order", "static-properties")):
        if key in members and kind not in members:
            node.fail(f"{key!r} stands without {kind!r}")
    optional = members["optional"].boolean() if "optional" in members else False
    if "requires" in members:
        requires = members["requires"].strings()
        if not requires:
            members["requires"].fail("names no requirement")
        api = members["plugin-api"].string() if "plugin-api" in members else None
        return ProviderInfo(requires=requires, plugin_api=api, optional=optional)
    if "builtin" in members:
        return ProviderInfo(builtin=members["builtin"].string(), optional=optional)
    static = {
        feature: values.strings(VALUE_PATTERN)
        for feature, values in members["static-properties"].members().items()
    }
    order: tuple[str, ...] = ()
    if "feature-order" in members:
        order = members["feature-order"].strings(FEATURE_PATTERN)
        if set(order) != set(static):
            members["feature-order"].fail("does not name the features of static-properties")
    elif len(static) > 1:
        node.fail("'feature-order' is missing, and static-properties has more than one feature")
    return ProviderInfo(static_properties=static, feature_order=order, optional=optional)


def _variant_from_node(label: str, node: JsonNode) -> Variant:
    if not is_label(label):
        node.fail(f"invalid variant label {label!r}: must match {LABEL_PATTERN}")
    properties: list[VariantProperty] = []
    for namespace, features in node.members().items():
        if not re.fullmatch(NAMESPACE_PATTERN, namespace):
            features.fail(f"invalid namespace {namespace!r}")
        for feature, values in features.members().items():
            if not re.fullmatch(FEATURE_PATTERN, feature):
                values.fail(f"invalid feature {feature!r}")
            found = values.strings(VALUE_PATTERN)
            if not found:
                values.fail("names no value")
            properties += [VariantProperty(namespace, feature, value) for value in found]
    if (label == NULL_LABEL) == bool(properties):
        node.fail(
            f"label {label!r} has {len(properties)} properties: {NULL_LABEL!r} is reserved for the "
            "variant that has none"
        )
    return Variant(label, tuple(properties))


def _variant_to_json(variant: Variant) -> dict[str, dict[str, list[str]]]:
    document: dict[str, dict[str, list[str]]] = {}
    for (namespace, feature), values in variant.features().items():
        document.setdefault(namespace, {})[feature] = list(values)
    return document
