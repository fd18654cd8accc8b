"""`payload/manifest.json` in a selector sdist: the release, its wheels and their hashes."""

from __future__ import annotations

from variantwheel_selector.errors import InvalidNameError, ManifestError
from variantwheel_selector.json_text import render_json
from variantwheel_selector.record import record
from variantwheel_selector.strict_json import JsonNode, parse_json
from variantwheel_selector.variants_json import VariantsInfo, variants_info_from_node
from variantwheel_selector.wheel_name import WheelName

MANIFEST_PATH = "payload/manifest.json"
"""Where the manifest stands in the sdist."""
SHARED_FILE = "wheels.bin"
"""Beside the manifest: what several wheels hold alike stands in it once."""
MOST_RANGES = 1000
"""Of one wheel; who packs one of more pieces keeps it in one."""

_SCHEMA, _SCHEMA_WITH_RANGES = 1, 2
_LARGEST = 1 << 40
_NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""A project's, as the packaging specifications have it. Files are named by it and the version."""
_VERSION_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._!+-]*"
_SHA256_PATTERN = r"[0-9a-f]{64}"
_PAYLOAD_PATTERN = r"embedded|manifest"
INDEX_URL_PATTERN = r"https?://[^@\s?#]+"
"""A publisher's index: without a login, since the sdist is public."""
_BACKEND_PATTERN = r"[A-Za-z_][\w.]*(?::[A-Za-z_][\w.]*)?"


@record
class PayloadWheel:
    """One variant wheel of the release.

    Attributes:
        filename: With its label.
        label: The variant's label.
        size: In bytes.
        sha256: Of the whole file, in hexadecimal.
        ranges: Its pieces in the shared file, each as offset and length in bytes; they make the
            wheel one after the other. None if an embedded wheel is a file of its own.
    """

    filename: str
    label: str
    size: int
    sha256: str
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def path(self) -> str:
        """Where it stands in a sdist that embeds it: the wheel itself, or its pieces."""
        return f"payload/{SHARED_FILE if self.ranges else self.filename}"

    @property
    def name(self) -> WheelName:
        """The parsed file name."""
        return WheelName.from_str(self.filename)


@record
class SourceProject:
    """How the project's own sources in `source.zip.gz` are built (PEP 517).

    Attributes:
        backend: `build-backend` of the project's pyproject.toml.
        backend_path: Its `backend-path`, relative to their folder.
        requires: Its `requires`.
    """

    backend: str
    backend_path: tuple[str, ...] | None = None
    requires: tuple[str, ...] = ()


@record
class Manifest:
    """What a selector sdist knows about its release.

    Attributes:
        name: The project.
        version: The release.
        selector_version: Of the selector in the sdist.
        variants: What each label needs.
        wheels: The variant wheels.
        source: How the project is built from source, if the sdist holds the sources.
        embedded: Whether the sdist holds the wheels; otherwise the chosen one is fetched.
        index_url: An index of the release's publisher, asked after those of the user.
    """

    name: str
    version: str
    selector_version: str
    variants: VariantsInfo
    wheels: tuple[PayloadWheel, ...]
    source: SourceProject | None = None
    embedded: bool = True
    index_url: str | None = None

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for wheel in self.wheels:
            _check_wheel(self, wheel)
            if wheel.filename in seen:
                raise ManifestError(f"manifest lists {wheel.filename!r} twice")
            seen.add(wheel.filename)
        _check_ranges(self)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object."""
        source: dict[str, object] | None = None
        if self.source is not None:
            path = self.source.backend_path
            source = {
                "backend": self.source.backend,
                "backend_path": None if path is None else list(path),
                "requires": list(self.source.requires),
            }
        in_ranges = any(wheel.ranges for wheel in self.wheels)
        return {
            "schema": _SCHEMA_WITH_RANGES if in_ranges else _SCHEMA,
            "name": self.name,
            "version": self.version,
            "selector_version": self.selector_version,
            "payload": "embedded" if self.embedded else "manifest",
            "index_url": self.index_url,
            "variants": self.variants.to_json(),
            "wheels": [
                {
                    "filename": wheel.filename,
                    "label": wheel.label,
                    "size": wheel.size,
                    "sha256": wheel.sha256,
                    **({"ranges": [list(item) for item in wheel.ranges]} if wheel.ranges else {}),
                }
                for wheel in sorted(self.wheels, key=lambda wheel: wheel.filename)
            ],
            "source": source,
        }


def render_manifest(manifest: Manifest) -> str:
    """Write the file's text; deterministic."""
    return render_json(manifest.to_json())


def parse_manifest(text: str | bytes, place: str = MANIFEST_PATH) -> Manifest:
    """Read a manifest.

    Raises:
        ManifestError: The text is no manifest, or its parts contradict each other.
    """
    root = parse_json(text, place, ManifestError)
    root.object(("schema",), ignore_unknown=True)["schema"].schema_number(_SCHEMA_WITH_RANGES)
    members = root.object(
        ("schema", "name", "version", "selector_version", "variants", "wheels"),
        ("source", "payload", "index_url"),
    )
    source, payload, index_url = (members.get(key) for key in ("source", "payload", "index_url"))
    return Manifest(
        name=members["name"].string(_NAME_PATTERN),
        version=members["version"].string(_VERSION_PATTERN),
        selector_version=members["selector_version"].string(),
        variants=variants_info_from_node(members["variants"]),
        wheels=tuple(_wheel_from_node(node) for node in members["wheels"].elements()),
        source=None if source is None or source.value is None else _source_from_node(source),
        embedded=payload is None or payload.string(_PAYLOAD_PATTERN) == "embedded",
        index_url=(
            None
            if index_url is None or index_url.value is None
            else index_url.string(INDEX_URL_PATTERN)
        ),
    )


def _wheel_from_node(node: JsonNode) -> PayloadWheel:
    members = node.object(("filename", "label", "size", "sha256"), ("ranges",))
    ranges = members.get("ranges")
    return PayloadWheel(
        filename=members["filename"].string(),
        label=members["label"].string(),
        size=members["size"].integer(minimum=1),
        sha256=members["sha256"].string(_SHA256_PATTERN),
        ranges=() if ranges is None else _ranges_from_node(ranges),
    )


def _ranges_from_node(node: JsonNode) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    # Not as nodes of their own: there may be many.
    for item in node.value if isinstance(node.value, list) else [node.value]:
        if not isinstance(item, list) or [type(number) for number in item] != [int, int]:
            node.fail("expected ranges, each [offset, length]")
        found.append((item[0], item[1]))
    return tuple(found)


def _source_from_node(node: JsonNode) -> SourceProject:
    members = node.object(("backend", "requires"), ("backend_path",))
    path: tuple[str, ...] | None = None
    path_node = members.get("backend_path")
    if path_node is not None and path_node.value is not None:
        path = path_node.strings()
        from pathlib import PurePosixPath  # noqa: PLC0415 - rarely needed

        for entry in path:
            # PEP 517: the directories must lie inside the source tree.
            if PurePosixPath(entry).is_absolute() or ".." in PurePosixPath(entry).parts:
                path_node.fail(f"{entry!r} leads out of the source tree")
    return SourceProject(
        backend=members["backend"].string(_BACKEND_PATTERN),
        backend_path=path,
        requires=members["requires"].strings(),
    )


def _check_ranges(manifest: Manifest) -> None:
    """Refuse ranges that lead out of any file, or do not make the wheel."""
    # The shared file holds nothing that is of no wheel, and each piece once.
    most = min(sum(wheel.size for wheel in manifest.wheels if wheel.ranges), _LARGEST)
    for wheel in manifest.wheels:
        words = f"manifest: ranges of {wheel.filename!r}"
        if not wheel.ranges:
            continue
        if not manifest.embedded:
            raise ManifestError(f"{words}: the wheels are not in this sdist")
        if len(wheel.ranges) > MOST_RANGES:
            raise ManifestError(f"{words}: there are {len(wheel.ranges)}, {MOST_RANGES} at most")
        for offset, length in wheel.ranges:
            if offset < 0 or length < 1 or offset + length > most:
                raise ManifestError(
                    f"{words}: {length} bytes from {offset} on; the wheels have {most} altogether"
                )
        found = sum(length for _, length in wheel.ranges)
        if found != wheel.size:
            raise ManifestError(f"{words} are {found} bytes, the wheel has {wheel.size}")


def _check_wheel(manifest: Manifest, wheel: PayloadWheel) -> None:
    try:
        name = wheel.name
    except InvalidNameError as error:
        raise ManifestError(f"manifest: {error}") from error
    if not name.is_for(manifest.name, manifest.version):
        raise ManifestError(
            f"manifest of {manifest.name} {manifest.version} lists {wheel.filename!r}, "
            "a wheel of another release"
        )
    if name.label != wheel.label:
        raise ManifestError(f"manifest says label {wheel.label!r} for {wheel.filename!r}")
    if wheel.label not in manifest.variants.variants:
        known = ", ".join(sorted(manifest.variants.variants))
        raise ManifestError(f"label {wheel.label!r} is not among the variants: {known}")
