"""The PEP 517 hooks, called the way a front end does, in the folder of an unpacked sdist."""

import gzip
import io
import json
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from unit.selector.tiny_release import METADATA, TinyRelease, wheel_bytes
from variantwheel_selector import backend
from variantwheel_selector.decision import Decision
from variantwheel_selector.decision_reading import parse_decision
from variantwheel_selector.manifest import SourceProject, render_manifest
from variantwheel_selector.source_archive import SOURCE_ARCHIVE, SourceFile, pack_sources

PLAIN = "tiny_native-1.0-py3-none-any.whl"

# The hooks of the project's own build. They take part in the search for modules only while the
# source build runs, and tell what they were given.
OWN_HOOKS = """
import json, os, pathlib, sys
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    told = json.dumps([os.getcwd(), config_settings, sys.path[0]])
    pathlib.Path(wheel_directory, "told.json").write_text(told)
    name = "tiny_native-1.0-py3-none-any.whl"
    pathlib.Path(wheel_directory, name).write_bytes(pathlib.Path("built.whl").read_bytes())
    return name
"""


@pytest.fixture
def sdist(release: TinyRelease, monkeypatch: pytest.MonkeyPatch) -> TinyRelease:
    monkeypatch.chdir(release.finish())
    return release


def add_source(release: TinyRelease, hooks: str = OWN_HOOKS) -> None:
    """Add the project's own sources, with hooks in the folder `hooks`."""
    release.source = SourceProject("own_hooks", ("hooks",), ("some-builder==1.0",))
    files = {
        "tiny_native/__init__.py": b"LABEL = 'source'\n",
        f"{release.dist_info}/METADATA": METADATA.encode(),
        f"{release.dist_info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    sources = [
        SourceFile("hooks/own_hooks.py", hooks.encode()),
        SourceFile("built.whl", wheel_bytes(files, release.dist_info)),
    ]
    (release.root / SOURCE_ARCHIVE).write_bytes(pack_sources(sources))
    release.finish()


def for_windows_only(release: TinyRelease) -> None:
    """Let no wheel of the release fit."""
    release.tag, release.wheels = "cp39-cp39-win_amd64", []
    release.add("null")
    release.finish()


def decision_in(path: Path) -> Decision:
    with zipfile.ZipFile(path) as archive:
        return parse_decision(archive.read("tiny_native-1.0.dist-info/variant-decision.json"))


def test_build_wheel_hands_over_the_variant_asked_for(sdist: TinyRelease, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert backend.build_wheel(str(out), {"variant": "null"}) == PLAIN
    decision = decision_in(out / PLAIN)
    assert (decision.label, decision.forced) == ("null", False)
    assert decision.settings == {"variant": "null (config setting 'variant')"}
    assert {item.label for item in decision.candidates} == {"null", "x86_64_v3", "x86_64_v4"}
    wheel = next(wheel for wheel in sdist.wheels if wheel.label == "null")
    assert (decision.filename, decision.sha256) == (wheel.filename, wheel.sha256)
    with zipfile.ZipFile(out / PLAIN) as archive:
        assert archive.read("tiny_native/__init__.py") == b"LABEL = 'null'\n"


def test_the_build_logs_what_was_stated(
    sdist: TinyRelease,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CONDA_OVERRIDE_ARCHSPEC", "x86_64")
    monkeypatch.setenv("VARIANTWHEEL_ASSUME_CPU", "x86-64-v2")
    monkeypatch.setenv("UV_TORCH_BACKEND", "cpu")
    assert backend.build_wheel(str(tmp_path), {"log": "full"}) == PLAIN
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tiny-native: variant null -> {PLAIN}"
    hint = "environment variable UV_TORCH_BACKEND, taken for VARIANTWHEEL_PREFER"
    stated = "environment variable VARIANTWHEEL_ASSUME_CPU"
    assert f"tiny-native: prefer = cpu ({hint})" in lines
    assert f"tiny-native: assume-cpu = x86-64-v2 ({stated})" in lines
    passed_over = "x86_64 (passed over: assume-cpu is stated)"
    assert f"tiny-native: CONDA_OVERRIDE_ARCHSPEC = {passed_over}" in lines
    assert any(line.startswith("* null") for line in lines)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_settings_need_not_be_text(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """Folders may have names of any bytes, and logs may know few letters."""
    monkeypatch.setenv("VARIANTWHEEL_WHEEL_DIR", "/folder\udce9/ü")
    log = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", log)
    backend.build_wheel(str(tmp_path / "out"), {"log": "full"})
    recorded = decision_in(tmp_path / "out" / PLAIN).settings["wheel-dir"]
    assert recorded.startswith("/folder?/ü ")
    log.seek(0)
    assert "wheel-dir = /folder\\udce9/" in log.read()


def test_an_unsupported_variant_needs_the_escape(
    sdist: TinyRelease,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("variantwheel_selector.providers.x86_64.LEVEL_FLAGS", {"v1": ()})
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path), {"variant": "x86_64_v4"})
    assert "x86_64_v4! installs it nevertheless" in capsys.readouterr().err
    assert backend.build_wheel(str(tmp_path), {"variant": "x86_64_v4!"}) == PLAIN
    assert decision_in(tmp_path / PLAIN).forced


def test_expected_errors_are_lines_without_traceback(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for_windows_only(sdist)
    with pytest.raises(SystemExit) as caught:
        backend.build_wheel(str(tmp_path))
    assert caught.value.code == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("variantwheel-selector: error: ") for line in lines)
    assert "no variant of tiny-native 1.0 fits this machine" in lines[0]
    assert "only cp39-cp39-win_amd64" in "\n".join(lines)


def test_what_a_server_says_does_not_steer_the_terminal(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sdist.publish(tmp_path / "site")
    sdist.finish()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        answer = b"HTTP/1.1 403 \x1b[2J\rfine\x9b1A\r\nContent-Length: 0\r\n\r\n"
        thread = threading.Thread(target=_answer_once, args=(server, answer))
        thread.start()
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        with pytest.raises(SystemExit):
            backend.build_wheel(str(tmp_path / "out"), {"index-url": index})
        thread.join()
    told = capsys.readouterr().err
    assert r"the server says 403 \x1b[2J" in told
    assert all(line.isprintable() for line in told.split("\n"))


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)


def test_other_errors_keep_their_traceback(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise NotADirectoryError

    monkeypatch.setattr("variantwheel_selector.hooks.header_values", fail)
    with pytest.raises(NotADirectoryError):
        backend.prepare_metadata_for_build_wheel(str(tmp_path))


@pytest.mark.parametrize("hook", ["prepare_metadata_for_build_wheel", "build_wheel"])
@pytest.mark.parametrize(
    ("folder", "limit", "reason"),
    [("file", 10**9, "Not a directory"), ("folder", 10, "File too large")],
)
def test_a_folder_that_takes_nothing_is_one_line(
    sdist: TinyRelease, tmp_path: Path, hook: str, folder: str, limit: int, reason: str
) -> None:
    """No file may be longer than ten bytes, which stands in for a disk that is full."""
    (tmp_path / "file").touch()
    program = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        f"from variantwheel_selector import backend; backend.{hook}(sys.argv[1])"
    )
    target = tmp_path / folder / "new"
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, str(target)],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("variantwheel-selector: error: cannot write ")
    assert f" into '{target}" in line
    assert reason in line


def test_metadata_is_static_and_needs_no_detection(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        pytest.fail("the hook looked at the machine")

    monkeypatch.setattr("variantwheel_selector.wheel_hook.probe", refuse)
    assert backend.get_requires_for_build_wheel() == []
    name = backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert (tmp_path / name / "METADATA").read_text() == METADATA


def test_importing_the_hooks_imports_nothing_heavy(sdist: TinyRelease) -> None:
    sdist.add_selector()
    code = (
        "import sys; before = set(sys.modules); import variantwheel_selector.backend;"
        "print(*sorted({'zipfile', 'ctypes', 'json', 'packaging', 'dataclasses', 'subprocess',"
        " 'urllib.request'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = ['_selector']; {code}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == []


def test_a_source_build_on_demand(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_source(sdist)
    settings = {"source-build": "force", "cmake.define.X": "1"}
    assert backend.get_requires_for_build_wheel(settings) == ["some-builder==1.0"]
    before = list(sys.path), Path.cwd()
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.delitem(sys.modules, "own_hooks", raising=False)
    assert backend.build_wheel(str(out), settings) == PLAIN
    assert (list(sys.path), Path.cwd()) == before
    told = json.loads((out / "told.json").read_text())
    source = Path(told[0])
    assert told == [str(source), {"cmake.define.X": "1"}, str(source / "hooks")]
    assert not source.exists()
    decision = decision_in(out / PLAIN)
    assert (decision.label, decision.filename) == (None, None)
    assert decision.settings["source-build"] == "force (config setting 'source-build')"


def test_a_source_build_only_when_nothing_fits(
    sdist: TinyRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_source(sdist)
    allow = {"source-build": "allow"}
    assert backend.get_requires_for_build_wheel(allow) == []
    backend.build_wheel(str(tmp_path), allow)
    assert decision_in(tmp_path / PLAIN).label is not None
    for_windows_only(sdist)
    assert backend.get_requires_for_build_wheel(allow) == ["some-builder==1.0"]
    monkeypatch.delitem(sys.modules, "own_hooks", raising=False)
    backend.build_wheel(str(tmp_path), allow)
    assert decision_in(tmp_path / PLAIN).label is None


def test_source_builds_that_cannot_be(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    force = {"source-build": "force"}
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path), force)
    assert "holds no sources" in capsys.readouterr().err
    add_source(sdist)
    sdist.source = SourceProject("missing_builder.hooks", None, ("missing-builder==1",))
    sdist.finish()
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path), force)
    assert "install first: missing-builder==1" in capsys.readouterr().err
    archive = sdist.root / SOURCE_ARCHIVE
    packed = archive.read_bytes()
    for damaged in (packed[:-30], packed[10:], gzip.compress(b"no archive"), b""):
        archive.write_bytes(damaged)
        with pytest.raises(SystemExit):
            backend.build_wheel(str(tmp_path), force)
        assert "source.zip.gz is damaged" in capsys.readouterr().err
    archive.unlink()
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path), force)
    assert "holds no source.zip.gz" in capsys.readouterr().err


@pytest.mark.parametrize(
    "hook", ["get_requires_for_build_editable", "prepare_metadata_for_build_editable",
             "build_editable"],
)  # fmt: skip
def test_editable_installations_are_refused(
    sdist: TinyRelease, tmp_path: Path, hook: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [] if hook.startswith("get") else [str(tmp_path)]
    with pytest.raises(SystemExit):
        getattr(backend, hook)(*arguments)
    assert "editable" in capsys.readouterr().err


def test_build_sdist_packs_what_is_there(sdist: TinyRelease, tmp_path: Path) -> None:
    add_source(sdist)
    sdist.add_selector()
    (sdist.root / "_selector/__pycache__").mkdir()
    (sdist.root / "_selector/__pycache__/x.pyc").write_bytes(b"")
    name = backend.build_sdist(str(tmp_path / "a"))
    assert name == "tiny_native-1.0.tar.gz"
    with tarfile.open(tmp_path / "a" / name) as archive:
        packed = {member.name: member for member in archive}
        content = archive.extractfile("tiny_native-1.0/payload/manifest.json")
        assert content is not None
        assert content.read().decode() == render_manifest(sdist.manifest)
    files = {
        f"tiny_native-1.0/{path.relative_to(sdist.root)}"
        for path in sdist.root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert set(packed) == files
    backend.build_sdist(str(tmp_path / "b"))
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_incomplete_sdist_is_named(
    sdist: TinyRelease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sdist.root / "payload/manifest.json").unlink()
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path))
    assert "cannot read payload/manifest.json" in capsys.readouterr().err
    (sdist.root / "PKG-INFO").write_text("Metadata-Version: 2.2\nName: tiny-native\n")
    with pytest.raises(SystemExit):
        backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert "PKG-INFO has no field 'Version'" in capsys.readouterr().err
    (sdist.root / "PKG-INFO").unlink()
    with pytest.raises(SystemExit):
        backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert "cannot read PKG-INFO" in capsys.readouterr().err
