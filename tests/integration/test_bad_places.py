"""No home, no room, no rights, two at once: a clear result, and nothing half-written."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from static_site import served

from integration.many_variants import PROJECT, UV, Home
from unit.selector.tiny_release import NULL, TinyRelease, release_info

SIZE = 2 << 20
ROOM = 1 << 20
PIP = (sys.executable, "-m", "pip", "--python")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> TinyRelease:
    """An unpacked sdist with one wheel of two megabytes; `publish` takes it out."""
    tiny = TinyRelease(tmp_path_factory.mktemp("sdist") / "tiny_native-1.0", release_info([NULL]))
    files = tiny.wheel_files("null") | {"tiny_native/large": os.urandom(SIZE)}
    tiny.add("null", files)
    tiny.finish()
    tiny.add_selector()
    return tiny


@pytest.fixture(scope="module")
def index(release: TinyRelease, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serves a release of the same wheel whose sdist holds its hash alone."""
    root = tmp_path_factory.mktemp("thin") / "tiny_native-1.0"
    shutil.copytree(release.root, root)
    thin = TinyRelease(root, release.info, wheels=release.wheels)
    site = tmp_path_factory.mktemp("site")
    project = thin.publish(site)
    archive = thin.archive(project)
    page = project / "index.html"
    page.write_text(page.read_text() + f'\n<a href="{archive.name}">{archive.name}</a>')
    with served(site) as address:
        yield f"{address}/simple/"


def crowd(home: Home, name: str, index: str) -> "subprocess.Popen[str]":
    """Starts an installation without waiting for it."""
    return subprocess.Popen(
        [*PIP, str(home.environment(name)), "install", PROJECT],
        env=home.variables({"PIP_INDEX_URL": index}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_at_once_on_a_shared_home(release: TinyRelease, index: str, home: Home) -> None:
    running = {name: crowd(home, name, index) for name in ("a", "b")}
    for name, process in running.items():
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0, printed
        assert home.label(name) == "null"
    cache = home.folder / "home/.cache/variantwheel"
    (kept,) = (path for path in cache.rglob("*") if path.is_file())
    assert (kept.suffix, kept.stat().st_size) == (".whl", release.wheels[0].size)


@pytest.mark.parametrize("place", ["/proc/self", None], ids=["read-only", "none"])
def test_a_read_only_home_and_none(index: str, home: Home, place: str | None) -> None:
    for name, command, variable in (
        # Options, because the variables of the same meaning would reach the hook.
        ("a", (*PIP, "ENV", "install", "--no-cache-dir"), "PIP_INDEX_URL"),
        ("b", (UV, "pip", "install", "--no-cache", "--python", "ENV"), "UV_DEFAULT_INDEX"),
    ):
        environment = home.variables({variable: index})
        environment.pop("HOME")
        environment |= {"HOME": place} if place is not None else {}
        environment["PIP_ROOT_USER_ACTION"] = "ignore"
        words = [str(home.environment(name)) if word == "ENV" else str(word) for word in command]
        done = subprocess.run(
            [*words, PROJECT], check=False, env=environment, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert home.label(name) == "null"


@pytest.mark.parametrize("payload", ["embedded", "manifest"])
def test_a_full_disk(
    release: TinyRelease, index: str, home: Home, tmp_path: Path, payload: str
) -> None:
    """A limit of file sizes, which is a full disk for these processes alone."""

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    wanted = str(release.root) if payload == "embedded" else PROJECT
    work = tmp_path / "work"
    work.mkdir()
    # CPython leaves half a module where there is no room for its compiled form.
    variables = {"PIP_INDEX_URL": index, "TMPDIR": str(work), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*PIP, str(home.environment("a")), "install", wanted],
        check=False,
        env=home.variables(variables),
        preexec_fn=little_room,
        capture_output=True,
        text=True,
        timeout=120,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 1, printed
    assert "variantwheel-selector: error: " in printed
    assert "cannot write tiny_native-1.0-py3-none-any" in printed
    assert "File too large" in printed
    assert "Traceback" not in printed
    left = [path for path in [*work.rglob("*"), *home.folder.rglob("*.part")] if path.is_file()]
    assert left == []
    assert list(home.folder.rglob("tiny_native*")) == []
