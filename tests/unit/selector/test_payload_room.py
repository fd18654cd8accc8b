"""Where a payload that is fetched is written: a full disk, a full home, odd things in its place."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from unit.selector.served_payload import Place
from variantwheel_selector.errors import DownloadError
from variantwheel_selector.manifest import render_manifest

FETCH = """
import resource, signal, sys
from unit.selector.fault_server import Faults
from variantwheel_selector.errors import UnwritableError
from variantwheel_selector.fetching.payload_search import found_payload
from variantwheel_selector.fetching.sources import configured_sources
from variantwheel_selector.manifest import parse_manifest
home, index, manifest, most = sys.argv[1:]
manifest = parse_manifest(open(manifest, "rb").read())
if int(most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
environment = {"HOME": home, "PIP_INDEX_URL": index, "PIP_CONFIG_FILE": "/dev/null"}
try:
    with found_payload(
        manifest, manifest.wheels[0], configured_sources(environment), environment
    ) as path:
        print("opened", path.stat().st_size, path)
except UnwritableError as error:
    print(error)
"""


def fetch_apart(place: Place, folder: Path, *, most: int = 0, room: str = "") -> str:
    """Fetch the payload in a process of its own and return what it says.

    Args:
        place: The release.
        folder: For the manifest, and for temporary files.
        most: Bytes that a file may have.
        room: Size of a file system of its own that the home is, in a mount namespace.
    """
    (folder / "manifest").write_text(render_manifest(place.release.manifest))
    (folder / "temporary").mkdir()
    words = [str(place.home), place.index, str(folder / "manifest"), str(most)]
    command = [sys.executable, "-c", FETCH, *words]
    if room:
        script = f'set -e; mount -t tmpfs -o size={room} none "$0"; exec "$@"'
        user = ["--user", "--map-root-user"] if os.getuid() != 0 else []
        apart = ["unshare", "--mount", "--propagation", "private", *user]
        command = [*apart, "sh", "-c", script, str(place.home), *command]
    tests = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={
            "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)]),
            "PYTHONDONTWRITEBYTECODE": "1",  # CPython leaves half a file where there is no room
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder / "temporary"),
        },
        timeout=60,
    )
    assert list((folder / "temporary").iterdir()) == []
    return done.stdout


def test_a_full_disk_leaves_nothing_behind(place: Place, tmp_path: Path) -> None:
    """The limit of file sizes is a full disk for one process; EFBIG instead of ENOSPC."""
    said = fetch_apart(place, tmp_path, most=100)
    assert said.startswith(f"cannot write {place.wheel.filename} into '{tmp_path}/temporary/")
    assert "File too large" in said
    assert [path for path in place.home.rglob("*") if stat.S_ISREG(path.stat().st_mode)] == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("room", ["8k", "64k"])
def test_a_full_home_costs_the_cache_alone(place: Place, tmp_path: Path, room: str) -> None:
    place.enlarge(100_000)
    said = fetch_apart(place, tmp_path, room=room)
    assert said.startswith(f"opened {place.wheel.size} {tmp_path}/temporary/")


def test_a_folder_in_the_place_of_the_kept_wheel(place: Place) -> None:
    place.fetch()
    (kept,) = place.home.rglob("*.whl")
    kept.unlink()
    (kept / "x").mkdir(parents=True)
    place.faults.requests.clear()
    assert place.fetch() == place.data()
    assert len(place.faults.requests) == 2, "it is fetched once"
    assert (kept / "x").is_dir()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_not_waited_for(place: Place, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "wheels" / place.wheel.filename
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for name in ("VARIANTWHEEL_WHEEL_DIR", "PIP_FIND_LINKS"):
        asked = {"PIP_NO_CACHE_DIR": "1", name: str(path.parent)}
        assert place.fetch(asked) == place.data()
        with pytest.raises(DownloadError, match=f"'{path.parent}': it is no regular file"):
            place.fetch(asked, PIP_NO_INDEX="1")
    links = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (tmp_path / "page.html").as_uri()}
    (tmp_path / "page.html").write_text(f'<a href="wheels/{path.name}">x</a>')
    with pytest.raises(DownloadError, match="it is no regular file"):
        place.fetch(links)
