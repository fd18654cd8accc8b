"""Hands over a wheel that has to be opened first, or to be fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from variantwheel_selector.manifest import Manifest, PayloadWheel
from variantwheel_selector.wheel import hand_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.decision import Decision
    from variantwheel_selector.selection import Selection


def hand_over_opened(
    manifest: Manifest, wheel: PayloadWheel, selection: Selection, decision: Decision, folder: str
) -> None:
    """Write the chosen wheel, all of which is checked first.

    Args:
        manifest: The release, whose sdist is the current folder.
        wheel: The one that was chosen.
        selection: What it was chosen for.
        decision: What is recorded in it.
        folder: Where it goes.

    Raises:
        PayloadError: It is not what was promised, or cannot be written.
        DownloadError: It has to be fetched, and is nowhere.
    """
    with _payload_path(manifest, wheel, selection) as path:
        hand_over(path, wheel, manifest, selection.tags, decision, Path(folder))


@contextmanager
def _payload_path(manifest: Manifest, wheel: PayloadWheel, selection: Selection) -> Iterator[Path]:
    if manifest.embedded:
        yield Path(wheel.path)
        return
    # Embedded payloads do not pay for the network's modules.
    from variantwheel_selector.fetching.payload_search import found_payload  # noqa: PLC0415
    from variantwheel_selector.fetching.sources import stated_sources  # noqa: PLC0415
    from variantwheel_selector.installer_folder import installer_folder  # noqa: PLC0415

    sources = stated_sources(selection.settings, os.environ, installer_folder(os.environ))
    with found_payload(manifest, wheel, sources, os.environ) as path:
        yield path
