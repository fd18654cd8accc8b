"""conda packages written by hand, right in everything, for tests that spoil them."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel.wheel_archive import read_wheel

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SITE = "lib/python3.11/site-packages"
OFFSETS = {"cpu": 150, "x86_64_v3": 250, "cuda12": 450}
GUARDS = {
    "cpu": [],
    "x86_64_v3": ["_x86_64-microarch-level >=3"],
    "cuda12": ["__cuda >=12", "cuda-version >=12,<13"],
}


@dataclass
class CondaDraft:
    """A package before it is written; tests change it."""

    name: str
    hash_input: dict[str, str]
    prefix: str
    number: int
    depends: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    info: dict[str, bytes] = field(default_factory=dict)
    index: dict[str, object] = field(default_factory=dict)
    about: dict[str, object] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    links: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    hash: str = ""
    tar_prefix: str = ""
    file_name: str = ""

    def write(self, folder: Path) -> Path:
        """Writes a `.conda` file with the formats of CEP 34 and 35."""
        hashed = json.dumps(self.hash_input, sort_keys=True).encode()
        shown = self.hash or hashlib.sha1(hashed, usedforsecurity=False).hexdigest()[:7]
        build = f"{self.prefix}h{shown}_{self.number}"
        index = {
            "name": self.name, "version": "1.0", "build": build, "build_number": self.number,
            "subdir": "linux-64", "depends": self.depends, "license": "MIT", **self.index,
        }  # fmt: skip
        sums = {path: hashlib.sha256(data).hexdigest() for path, data in self.files.items()}
        paths: list[dict[str, str]] = [
            {"_path": path, "path_type": "hardlink", "sha256": checksum}
            for path, checksum in sorted({**sums, **self.listed}.items())
        ]
        paths += [{"_path": path, "path_type": "softlink"} for path in self.links]
        info = {
            "info/index.json": json.dumps(index).encode(),
            "info/about.json": json.dumps({"summary": "sums", **self.about}).encode(),
            "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
            "info/hash_input.json": hashed,
            "info/licenses/LICENSE": b"MIT",
            **self.info,
        }
        folder.mkdir(exist_ok=True)
        file = folder / (self.file_name or f"{self.name}-1.0-{index['build']}.conda")
        with zipfile.ZipFile(file, "w") as outer:
            outer.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
            # An empty file of `info` is left out.
            present = {path: data for path, data in info.items() if data}
            parts = {"pkg": self._archive(self.files, self.links), "info": self._archive(present)}
            for part, data in parts.items():
                outer.writestr(f"{part}-{file.stem}.tar.zst", zstd.compress(data))
        return file

    def _archive(
        self, files: Mapping[str, bytes], links: Mapping[str, tuple[bytes, str]] | None = None
    ) -> bytes:
        """A tar file; of links, by path, the type of the entry and what they point to."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, data in files.items():
                member = tarfile.TarInfo(self.tar_prefix + path)
                member.size, member.mode = len(data), self.modes.get(path, 0o644)
                archive.addfile(member, io.BytesIO(data))
            for path, (kind, target) in (links or {}).items():
                member = tarfile.TarInfo(self.tar_prefix + path)
                member.type, member.linkname = kind, target
                archive.addfile(member)
        return buffer.getvalue()


def draft(wheel: Path, hardware: str) -> CondaDraft:
    """The conda package of a wheel of tests/packages/tiny_variants, as its recipe would make it."""
    files = {f"{SITE}/{path}": data for path, data in read_wheel(wheel).files.items()}
    guards = GUARDS[hardware]
    hashed = {"target_platform": "linux-64", "python": "3.11.* *_cpython"}
    hashed |= {spec.split(" ")[0]: spec for spec in guards if spec.startswith("__")}
    return CondaDraft(
        name="tiny-variants",
        hash_input=hashed,
        prefix=f"nompi_{hardware}_py311",
        number=OFFSETS[hardware],
        depends=["python", "python_abi 3.11.* *_cp311", *guards],
        files=files,
    )


def metapackage(pin: str, number: int = 450) -> CondaDraft:
    """The `-gpu` metapackage that pins a build."""
    hashed = {"target_platform": "linux-64", "tiny_variants": pin}
    return CondaDraft(
        "tiny-variants-gpu", hashed, "nompi_cuda12_", number, [f"tiny-variants {pin}"]
    )
