"""A release that is served over HTTP and whose sdist holds hashes alone, and a user's home."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from unit.selector.fault_server import Faults
from unit.selector.tiny_release import NO_FILES, TinyRelease
from variantwheel_selector.fetching.payload_search import found_payload
from variantwheel_selector.fetching.sources import stated_sources
from variantwheel_selector.manifest import PayloadWheel
from variantwheel_selector.record import replace
from variantwheel_selector.settings import read_settings

QUIET = {"PIP_CONFIG_FILE": os.devnull}


class Place:
    """A served release whose wheels are not in its sdist, and a user's home."""

    def __init__(self, release: TinyRelease, faults: Faults, address: str, home: Path) -> None:
        self.release, self.faults, self.address, self.home = release, faults, address, home
        self.index = f"{address}/simple"
        self.wheel: PayloadWheel = release.wheels[0]
        self.published = faults.folder / "simple/tiny-native" / self.wheel.filename

    def fetch(self, variables: Mapping[str, str] | None = None, **more: str) -> bytes:
        environment = {
            **QUIET, "HOME": str(self.home), "PATH": os.environ["PATH"],
            "PIP_INDEX_URL": self.index, **(variables or {}), **more,
        }  # fmt: skip
        sources = stated_sources(
            read_settings(None, NO_FILES | environment), environment, str(self.home)
        )
        with found_payload(self.release.manifest, self.wheel, sources, environment) as path:
            return path.read_bytes()

    def data(self) -> bytes:
        return self.published.read_bytes()

    def leftovers(self) -> list[Path]:
        return list(self.home.rglob("*.part"))

    def authority(self, login: str) -> str:
        """The index's URL with a login in it."""
        return self.index.replace("//", f"//{login}@")

    def enlarge(self, size: int) -> None:
        """Replace the wheel by bytes that are none, of a size."""
        data = bytes(size)
        self.wheel = replace(self.wheel, size=size, sha256=hashlib.sha256(data).hexdigest())
        self.release.wheels[0] = self.wheel
        self.published.write_bytes(data)
        page = self.published.with_name("index.html")
        page.write_text(f'<a href="{self.wheel.filename}">{self.wheel.filename}</a>')
