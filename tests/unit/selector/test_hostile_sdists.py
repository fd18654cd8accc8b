"""Sdists that are none, are damaged, or would have the reader wait or fill the memory."""

import gzip
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.selector.tiny_release import TinyRelease, make_machine
from variantwheel_selector.errors import ReleaseError
from variantwheel_selector.manifest import MANIFEST_PATH
from variantwheel_selector.release_source import release_from_folder, release_from_sdist
from variantwheel_selector.requires_python import stated_requirement
from variantwheel_selector.sdist_source import sdist_from_file, sdist_from_folder

MACHINE = make_machine()
READERS: tuple[Callable[[Path], object], ...] = (
    lambda path: release_from_sdist(path, MACHINE),
    sdist_from_file,
)


def test_what_is_no_sdist(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"garbage")
    for path, why in (
        (tmp_path / "x.tar.gz", "not a gzip file"),
        (tmp_path, "No such file or directory"),
        (tmp_path / "absent.tar.gz", "No such file or directory"),
    ):
        for read in READERS:
            with pytest.raises(ReleaseError, match=f"is no selector sdist: .*{why}"):
                read(path)


def test_an_sdist_with_a_manifest_that_is_none_by_its_size(
    release: TinyRelease, tmp_path: Path
) -> None:
    release.finish()
    with (release.root / MANIFEST_PATH).open("ab") as file:
        file.write(b" " * 16 * 1024 * 1024)  # with which JSON may end
    packed = tmp_path / "tiny_native-1.0.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(release.root, "tiny_native-1.0")
    for read in READERS:
        with pytest.raises(ReleaseError, match=f"selector sdist: it holds no {MANIFEST_PATH}"):
            read(packed)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_sdist_whose_headers_would_fill_the_memory(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("tiny_native-1.0/x")
    member.type, member.size = kind, 1 << 31
    path = tmp_path / "tiny_native-1.0.tar.gz"
    path.write_bytes(gzip.compress(member.tobuf() + bytes(1 << 22)))
    for read in READERS:
        with pytest.raises(ReleaseError, match=r"a header in it has 2147483648 bytes, 1048576 are"):
            read(path)
    with path.open("rb") as file:
        assert stated_requirement(file, path.name) == ""


def test_an_sdist_with_long_names_is_read(release: TinyRelease, tmp_path: Path) -> None:
    (release.root / ("a" * 200)).mkdir()
    (release.root / ("a" * 200) / ("ü" * 100)).touch()
    for read in READERS:
        read(release.archive(tmp_path / "dist"))


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_an_sdist_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "tiny_native-1.0.tar.gz"
    os.mkfifo(path)
    for read in READERS:
        with pytest.raises(ReleaseError, match="it is no regular file"):
            read(path)
    with pytest.raises(ReleaseError, match="it is no regular file"):
        release_from_folder(tmp_path, "tiny-native", None, MACHINE)
    with pytest.raises(ReleaseError, match="it is no regular file"):
        sdist_from_folder(tmp_path, "tiny-native", None, ["3.11.7"])


@pytest.mark.parametrize("compressed", [b"garbage", gzip.compress(b"x" * 4096, mtime=0)[:-12], b""])
def test_an_index_whose_sdist_is_damaged(tmp_path: Path, compressed: bytes) -> None:
    (tmp_path / "tiny_native-1.0.tar.gz").write_bytes(compressed)
    with pytest.raises(ReleaseError, match="is no selector sdist") as caught:
        release_from_folder(tmp_path, "tiny-native", None, MACHINE)
    assert "it holds no" not in str(caught.value)


def test_a_folder_in_the_place_of_an_sdist(tmp_path: Path) -> None:
    (tmp_path / "tiny_native-1.0.tar.gz").mkdir()
    with pytest.raises(ReleaseError, match="cannot read"):
        release_from_folder(tmp_path, "tiny-native", None, MACHINE)
