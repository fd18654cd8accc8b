"""A tiny project, released by hand: labelled wheels and the selector sdist around them."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import textwrap
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel_selector.machine import Machine, PythonFacts
from variantwheel_selector.manifest import Manifest, PayloadWheel, SourceProject, render_manifest
from variantwheel_selector.model import Variant
from variantwheel_selector.package_copy import copy_package
from variantwheel_selector.record import replace
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo, render_variants_json

PROVIDERS = {
    "x86_64": ProviderInfo(requires=("x86-64-variant-provider>=0.2",)),
    "aarch64": ProviderInfo(requires=("aarch64-variant-provider>=0.2",)),
}
NO_FILES = {"VARIANTWHEEL_CONFIG": "/dev/null"}
"""An environment in which no configuration file is read."""
METADATA = "Metadata-Version: 2.2\nName: tiny-native\nVersion: 1.0\nSummary: a tiny project\n"


def release_info(variants: Iterable[Variant]) -> VariantsInfo:
    """What the variants.json of a release with these variants says."""
    return VariantsInfo(tuple(PROVIDERS), {v.label: v for v in variants}, PROVIDERS)


def record_line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def wheel_bytes(files: Mapping[str, bytes], dist_info: str, *, record_last: bool = True) -> bytes:
    """Pack a wheel whose RECORD is right."""
    record = "".join(record_line(path, content) for path, content in files.items())
    record += f"{dist_info}/RECORD,,\n"
    members = {**files, f"{dist_info}/RECORD": record.encode()}
    if not record_last:
        members = dict(reversed(members.items()))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 2, 2, 0, 0, 0)), content)
    return packed.getvalue()


@dataclass
class TinyRelease:
    """An unpacked selector sdist of the project `tiny-native` 1.0."""

    root: Path
    info: VariantsInfo
    tag: str = "py3-none-any"
    wheels: list[PayloadWheel] = field(default_factory=list)
    source: SourceProject | None = None
    embedded: bool = True
    index_url: str | None = None

    dist_info = "tiny_native-1.0.dist-info"

    def wheel_files(self, label: str, *, tag: str | None = None) -> dict[str, bytes]:
        """The content of one variant wheel without its RECORD."""
        wheel = (
            f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: {tag or self.tag}\n"
        )
        return {
            "tiny_native/__init__.py": f"LABEL = {label!r}\n".encode(),
            f"{self.dist_info}/METADATA": METADATA.encode(),
            f"{self.dist_info}/WHEEL": wheel.encode(),
            f"{self.dist_info}/variant.json": render_variants_json(self.info.only(label)).encode(),
        }

    def add(self, label: str, files: Mapping[str, bytes] | None = None, **packing: bool) -> Path:
        """Put a variant wheel into the payload."""
        data = wheel_bytes(files or self.wheel_files(label), self.dist_info, **packing)
        filename = f"tiny_native-1.0-{self.tag}-{label}.whl"
        path = self.root / "payload" / filename
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        self.wheels.append(PayloadWheel(filename, label, len(data), sha256))
        return path

    @property
    def manifest(self) -> Manifest:
        return Manifest(
            "tiny-native", "1.0", "0.1.0", self.info, tuple(self.wheels), self.source,
            self.embedded, self.index_url,
        )  # fmt: skip

    def publish(self, folder: Path) -> Path:
        """Move the wheels out of the sdist to a folder, with a page for an index of links."""
        project = folder / "simple" / "tiny-native"
        project.mkdir(parents=True)
        links = []
        for wheel in self.wheels:
            (self.root / "payload" / wheel.filename).rename(project / wheel.filename)
            links.append(f'<a href="{wheel.filename}#sha256={wheel.sha256}">{wheel.filename}</a>')
        (project / "index.html").write_text("\n".join(links))
        self.embedded = False
        return project

    def share(self) -> Path:
        """Put the wheels into one file, each in two pieces, the ends of all wheels first."""
        folder = self.root / "payload"
        contents = [(folder / wheel.filename).read_bytes() for wheel in self.wheels]
        middles = [len(content) // 2 for content in contents]
        shared = b"".join(data[at:] for data, at in zip(contents, middles, strict=True))
        for number, (data, at) in enumerate(zip(contents, middles, strict=True)):
            second = shared.index(data[at:])
            first = (len(shared), at)
            self.wheels[number] = replace(
                self.wheels[number], ranges=(first, (second, len(data) - at))
            )
            shared += data[:at]
            (folder / self.wheels[number].filename).unlink()
        path = folder / "wheels.bin"
        path.write_bytes(shared)
        return path

    def content(self, wheel: PayloadWheel) -> bytes:
        """Return the bytes of a wheel, in pieces or whole."""
        data = (self.root / wheel.path).read_bytes()
        ranges = wheel.ranges or ((0, len(data)),)
        return b"".join(data[offset : offset + length] for offset, length in ranges)

    def flip(self, wheel: PayloadWheel, position: int) -> None:
        """Change one bit of a wheel, in pieces or whole."""
        path = self.root / wheel.path
        data = bytearray(path.read_bytes())
        ranges = wheel.ranges or ((0, len(data)),)
        places = [offset + at for offset, length in ranges for at in range(length)]
        data[places[position]] ^= 1
        path.write_bytes(data)

    def finish(self) -> Path:
        """Write the files around the payload and return the folder."""
        (self.root / "payload").mkdir(parents=True, exist_ok=True)
        (self.root / "payload/manifest.json").write_text(render_manifest(self.manifest))
        (self.root / "PKG-INFO").write_text(METADATA)
        (self.root / "pyproject.toml").write_text(
            textwrap.dedent(
                """\
                [build-system]
                requires = []
                build-backend = "variantwheel_selector.backend"
                backend-path = ["_selector"]
                """
            )
        )
        return self.root

    def add_selector(self) -> None:
        """Add the copy of the selector, which only front ends need; it takes half a second."""
        if not (self.root / "_selector").exists():
            copy_package(self.root / "_selector")

    def archive(self, folder: Path) -> Path:
        """Pack the sdist with `tarfile` alone, not with the code under test."""
        self.finish()
        self.add_selector()
        path = folder / "tiny_native-1.0.tar.gz"
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as archive:
            archive.add(self.root, "tiny_native-1.0")
        return path


V3 = Variant.from_strings("x86_64_v3", ["x86_64 :: level :: v3"])
V4 = Variant.from_strings("x86_64_v4", ["x86_64 :: level :: v4"])
NULL = Variant("null")


def make_machine(
    *flags: str,
    machine: str = "x86_64",
    texts: Mapping[str, str] | None = None,
    unknown: Mapping[str, str] | None = None,
) -> Machine:
    """A machine with these CPU flags and CPython 3.11 on glibc 2.36."""
    cpuinfo = {"cpuinfo.txt": f"processor\t: 0\nflags\t\t: {' '.join(flags)}\n"}
    return Machine(
        system="linux",
        machine=machine,
        pointer_bits=64,
        libc="glibc 2.36",
        python=PythonFacts("cp311", "3.11.7", ("cp311",)),
        texts=cpuinfo if texts is None else texts,
        unknown=unknown or {},
    )
