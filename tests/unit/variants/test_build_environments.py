"""Isolated environments: each build runs with the tools that it pins, whatever others pin."""

from __future__ import annotations

import os
import resource
import select
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from unit.variants.tiny_project import STEP_TIMEOUT
from variantwheel.build_environment import BuildEnvironments
from variantwheel.build_frontend import BuildFrontend, BuildRequest, open_frontend
from variantwheel.build_programs import BuildPrograms
from variantwheel.build_tools import shared_tools
from variantwheel.errors import BuildFailedError, SystemRefusedBuildError

_BACKEND = """\
import importlib.metadata, os, pathlib

def get_requires_for_build_wheel(settings=None):
    return [settings["asks"]] if "asks" in settings else []

def build_wheel(directory, settings=None, metadata=None):
    if "GATE" in os.environ:
        with open(os.environ["GATE"] + ".here", "w"):
            pass
        with open(os.environ["GATE"] + ".go", "rb") as go:
            go.read(1)
    pathlib.Path(directory, "own-1-py3-none-any.whl").write_text(importlib.metadata.version("tool"))
    return "own-1-py3-none-any.whl"
"""

Build = Callable[..., str]


def _write_tool(folder: Path, version: str, name: str = "tool", needs: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    needed = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        )
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds with some requirements; returns the version of the tool that the backend found."""
    for name in ("index", "source"):
        (tmp_path / name).mkdir()
    for version in ("1", "2"):
        _write_tool(tmp_path / "index", version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "source" / "own.py").write_text(_BACKEND)
    (tmp_path / "source" / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )

    def run(
        frontend: BuildFrontend,
        name: str,
        *requires: str,
        asks: str = "",
        gate: str = "",
        tools: str = "",
    ) -> str:
        request = BuildRequest(
            "wheel",
            tmp_path / "source",
            tmp_path / name,
            tmp_path / f"{name}.log",
            config_settings={"asks": asks} if asks else {},
            environment={"GATE": gate} if gate else {},
            requires=requires,
            tools=tools,
        )
        return frontend.build(request).read_text()

    return run


def _environments(tmp_path: Path) -> int:
    return len(list(tmp_path.glob("environments/*/bin")))


def test_a_pin_that_goes_up_and_back_and_those_of_two_variants_hold(
    build: Build, tmp_path: Path
) -> None:
    for version in ("1", "2", "1"):
        with open_frontend(tmp_path / "environments", isolated=True) as frontend:
            assert build(frontend, "one", f"tool=={version}") == version
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        assert [build(frontend, "one", f"tool=={item}") for item in "2121"] == list("2121")
    assert _environments(tmp_path) == 2, "those that ask for the same share one"


def test_what_a_backend_asks_for_holds_too(build: Build, tmp_path: Path) -> None:
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        found = [build(frontend, "one", asks=f"tool=={item}") for item in "121"]
        assert found == list("121")
        assert _environments(tmp_path) == 2, "the first was added to the one without"
        assert build(frontend, "one", "tool==2", asks="tool>=1") == "2"
        assert _environments(tmp_path) == 2, "what is pinned will do"
        with pytest.raises(BuildFailedError, match=r"pip install ended with exit code"):
            build(frontend, "one", "tool==1", asks="tool==2")
        assert build(frontend, "one", "tool==1") == "1"
        with pytest.raises(BuildFailedError, match=r"pip install ended[^$]*nothing==1"):
            build(frontend, "one", asks="nothing==1")
        assert build(frontend, "one", asks="tool==1") == "1"


def test_no_tool_is_replaced_while_a_build_runs(build: Build, tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    for end in ("here", "go"):
        os.mkfifo(f"{gate}.{end}")
    here = os.open(f"{gate}.here", os.O_RDONLY | os.O_NONBLOCK)
    go = os.open(f"{gate}.go", os.O_RDWR)
    with (
        open_frontend(tmp_path / "environments", isolated=True) as frontend,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        first = pool.submit(build, frontend, "one", "tool==1", gate=gate)
        try:
            assert select.select([here], [], [], STEP_TIMEOUT)[0], "the first is not being built"
            assert build(frontend, "two", "tool==2") == "2"
        finally:
            os.write(go, b".")
        assert first.result() == "1"
    os.close(here)
    os.close(go)


def test_an_environment_that_could_not_be_made_is_made_by_the_next_build(
    build: Build, tmp_path: Path
) -> None:
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        with pytest.raises(BuildFailedError, match=r"pip install ended with exit code[^$]*tool==3"):
            build(frontend, "one", "tool==3")
        _write_tool(tmp_path / "index", "3")
        assert build(frontend, "one", "tool==3") == "3"


ELSEWHERE = {
    "PIP_DRY_RUN": "1",
    "PIP_TARGET": "there",
    "PIP_PREFIX": "there",
    "PIP_ROOT": "there",
    "PIP_USER": "1",
    "PIP_REQUIRE_HASHES": "1",
    "PIP_REQUIREMENT": "there/more.txt",
    "PIP_editable": "there",
}


@pytest.mark.parametrize("setting", ELSEWHERE)
def test_pips_settings_of_another_place_hold_for_no_build_environment(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    there = tmp_path / "there"
    monkeypatch.setenv(setting, ELSEWHERE[setting].replace("there", str(there)))
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        assert build(frontend, "one", "tool==1") == "1"
        assert build(frontend, "two", asks="tool==2") == "2"
    assert not there.exists()


@pytest.mark.parametrize("section", ["user = true", "require-hashes = true", "dry-run = true"])
def test_what_a_file_of_pips_says_of_it_holds_neither(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    (tmp_path / "pip.conf").write_text(f"[install]\n{section}\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        assert build(frontend, "one", "tool==1") == "1"


def test_an_environment_that_pip_filled_elsewhere_is_told_and_made_anew(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[install]\ntarget = {tmp_path / 'there'}\n", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", str(settings))
        with open_frontend(tmp_path / "environments", isolated=True) as frontend:
            with pytest.raises(BuildFailedError, match=r"tool==1 is not there; pip's settings"):
                build(frontend, "one", "tool==1")
            with pytest.raises(BuildFailedError, match=r"tool==1 is not there; pip's settings"):
                build(frontend, "one", asks="tool==1")
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        assert build(frontend, "one", "tool==1") == "1"
        assert build(frontend, "one", asks="tool==1") == "1"


@contextmanager
def _no_file_longer_than(size: int) -> Iterator[None]:
    """Stands in for a disk that is full, here and for what is started here."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_the_systems_refusal(tmp_path: Path) -> None:
    with _no_file_longer_than(10), pytest.raises(OSError, match="File too large"):
        BuildEnvironments(tmp_path, BuildPrograms()).with_requirements([])


def test_so_it_is_where_pip_has_no_room(build: Build, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "index" / "tool-2-py3-none-any.whl", "a") as archive:
        archive.writestr("large.txt", "x" * 2_000_000)
    with (
        open_frontend(tmp_path / "environments", isolated=True) as frontend,
        _no_file_longer_than(1_000_000),
        pytest.raises(SystemRefusedBuildError, match="File too large") as told,
    ):
        build(frontend, "one", "tool==2")
    assert told.value.exit_code == 3


def test_requirements_that_agree_share_an_environment(build: Build, tmp_path: Path) -> None:
    index = tmp_path / "index"
    for name in ("red", "green"):
        _write_tool(index, "1", name)
    _write_tool(index, "1", "blue", needs="tool==2")
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        assert build(frontend, "one", "tool==1", "red==1", tools="all") == "1"
        assert build(frontend, "two", "tool==1", "green==1", tools="all") == "1"
    assert _environments(tmp_path) == 1
    with open_frontend(tmp_path / "environments", isolated=True) as frontend:
        assert build(frontend, "one", "tool==1", "red==1", tools="all") == "1"
        assert _environments(tmp_path) == 1
        assert build(frontend, "three", "blue==1", tools="all") == "2"
        assert build(frontend, "two", "tool==1", "green==1", tools="all") == "1"
    assert _environments(tmp_path) == 2, "which excludes the first by what it requires in turn"


def test_builds_that_state_one_requirement_differently_share_no_tools() -> None:
    plain, red, green = ["zig==1"], ["zig==1", "red==1"], ["zig==1", "Green==1"]
    every = [plain, red, green]
    names = {shared_tools(own, every) for own in every}
    assert len(names) == 1
    assert names == {shared_tools(own, reversed(every)) for own in every}
    (before,) = names
    assert shared_tools(plain, [plain, red, ["zig==1", "green==2"]]) != before
    other = ["zig==2", "red==1"]
    mixed = [plain, other, green]
    assert len({shared_tools(own, mixed) for own in mixed}) == 2
    assert shared_tools(plain, mixed) == shared_tools(green, mixed)
    assert len({shared_tools(own, [red, ["red==2"], []]) for own in (red, ["red==2"], [])}) == 3
    assert shared_tools(["not / one"], [["not / two"]]) != shared_tools(["not / two"], [])
