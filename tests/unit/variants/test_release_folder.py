"""A release folder that several commands write into at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from variantwheel.folder_lock import locked_folder
from variantwheel.release_folder import update_variants_json
from variantwheel_selector.model import Variant
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo, parse_variants_json

_AT_ONCE = 8


def _at_once(call: Callable[[int], object]) -> None:
    """Calls with each number below `_AT_ONCE`, all at the same time."""
    start = threading.Barrier(_AT_ONCE)

    def run(number: int) -> None:
        start.wait()
        call(number)

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for future in [pool.submit(run, number) for number in range(_AT_ONCE)]:
            future.result()


def test_labels_that_are_written_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    def write(number: int) -> None:
        label = f"l{number}"
        variant = Variant.from_strings(label, [f"acme :: width :: {number}"])
        info = VariantsInfo(("acme",), {label: variant}, {"acme": ProviderInfo(("p",))})
        update_variants_json(folder, [folder / f"a-1-py3-none-any-{label}.whl"], info)

    for turn in range(8):
        folder = tmp_path / str(turn)
        _at_once(write)
        (file,) = folder.iterdir()
        written = parse_variants_json(file.read_bytes())
        assert sorted(written.variants) == [f"l{number}" for number in range(_AT_ONCE)]


def test_a_lock_whose_file_goes_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")

    def add(_: int) -> None:
        for _turn in range(20):
            with locked_folder(tmp_path, ".lock", lambda: None, stays=False):
                count.write_text(str(int(count.read_text()) + 1))

    _at_once(add)
    assert int(count.read_text()) == 20 * _AT_ONCE
    assert list(tmp_path.iterdir()) == [count]
