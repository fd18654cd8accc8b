"""`variantwheel lock`: one wheel for each machine, installed by pip and uv as it was released."""

import hashlib
import json
import shlex
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest
from packaging.pylock import Pylock

from unit.selector.fault_server import Faults, faulty
from unit.selector.tiny_release import METADATA, TinyRelease, make_machine
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.machine_folder import write_machine
from variantwheel_selector.providers.x86_64 import LEVEL_FLAGS

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

UV = str(Path(sys.executable).with_name("uv"))
PLAIN = "tiny_native-1.0-py3-none-any.whl"


@pytest.fixture
def profiles(tmp_path: Path) -> list[str]:
    """Options for a machine with all features, a machine with none, and one by another name."""
    full = [flag for flags in LEVEL_FLAGS.values() for flag in flags]
    for name, flags in (("gpu.node", full), ("login", [])):
        write_machine(make_machine(*flags), tmp_path / name)
    return ["--profile", str(tmp_path / "gpu.node"), "--profile", str(tmp_path / "login")]


@pytest.fixture
def archive(release: TinyRelease, tmp_path: Path) -> Path:
    release.share()
    return release.archive(tmp_path / "dist")


def released(release: TinyRelease, label: str) -> str:
    return next(wheel.sha256 for wheel in release.wheels if wheel.label == label)


def lock(*words: str | Path) -> int:
    return run_commandline(["lock", "tiny-native", *map(str, words)])


def printed_commands(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the commands at the end of what was printed."""
    return [shlex.split(x.partition(": ")[2]) for x in capsys.readouterr().out.splitlines()[-3:]]


def test_a_lock_for_two_machines_is_valid_and_pins_the_released_bytes(
    release: TinyRelease,
    archive: Path,
    profiles: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lock(archive, *profiles, "-o", tmp_path / "lock", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    schemas = Path(__file__).parents[3] / "docs/schemas"
    schema = json.loads((schemas / "lock.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(told)
    labels = {item["profile"]: item["label"] for item in told["locked"]}
    assert labels == {"gpu_node": "x86_64_v3", "login": "null"}
    for item in told["locked"]:
        text = (tmp_path / "lock" / item["pylock"]).read_text(encoding="utf-8")
        pylock = Pylock.from_dict(tomllib.loads(text))
        pylock.validate()
        (package,) = pylock.packages
        assert package.wheels is not None
        (wheel,) = package.wheels
        content = (tmp_path / "lock" / str(wheel.path)).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        assert wheel.hashes["sha256"] == digest == released(release, item["label"])
        assert (wheel.name, wheel.size) == (PLAIN, len(content))
        assert list(map(str, pylock.environments or [])) == [
            'sys_platform == "linux" and platform_machine == "x86_64"'
        ]
        hashed = (tmp_path / "lock" / item["requirements"]).read_text(encoding="utf-8")
        assert f"tiny-native==1.0 --hash=sha256:{digest}\n" in hashed
    # The same again gives the same files.
    before = {path: path.read_bytes() for path in (tmp_path / "lock").rglob("*") if path.is_file()}
    assert len(before) == 6
    assert lock(archive, *profiles, "-o", tmp_path / "lock") == 0
    assert {path: path.read_bytes() for path in before} == before
    assert set(filter(Path.is_file, (tmp_path / "lock").rglob("*"))) == set(before)


def test_real_installers_install_the_lock_as_it_was_released(
    release: TinyRelease, archive: Path, profiles: list[str], tmp_path: Path
) -> None:
    assert lock(archive, *profiles, "-o", tmp_path / "lock") == 0
    pip = [sys.executable, "-m", "pip", "--isolated", "--python"]
    quiet = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "UV_NO_CONFIG": "1"}
    quiet["UV_CACHE_DIR"] = str(tmp_path / "uv")
    gpu, hashed, login = (
        tmp_path / "lock" / name
        for name in ("pylock.gpu_node.toml", "requirements.gpu_node.txt", "pylock.login.toml")
    )
    uv, uv_python = (UV, "pip"), ("--preview-features", "pylock", "--python", "ENV")
    commands = (
        ((*pip, "ENV", "install", "--no-cache-dir", "-r", str(gpu)), "x86_64_v3"),
        ((*pip, "ENV", "install", "--require-hashes", "-r", str(hashed)), "x86_64_v3"),
        ((*uv, "sync", *uv_python, str(login)), "null"),
        ((*uv, "install", "--require-hashes", *uv_python, "-r", str(hashed)), "x86_64_v3"),
    )
    for number, (command, label) in enumerate(commands):
        folder = tmp_path / f"env{number}"
        venv.create(folder, symlinks=True)
        words = [word.replace("ENV", str(folder)) for word in command]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, env=quiet, cwd="/", timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (site,) = folder.glob("lib/python*/site-packages")
        assert (site / "tiny_native/__init__.py").read_text() == f"LABEL = {label!r}\n"
        for path, content in release.wheel_files(label).items():
            assert (site / path).read_bytes() == content, path
    # A wheel that was exchanged is not installed.
    wheel = tmp_path / "lock/wheels/x86_64_v3" / PLAIN
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    done = subprocess.run(
        [*pip, str(tmp_path / "env0"), "install", "--force-reinstall", "-r", str(gpu)],
        check=False, capture_output=True, text=True, env=quiet, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "HASH" in done.stdout + done.stderr


@pytest.fixture
def served(release: TinyRelease, tmp_path: Path) -> Iterator[str]:
    """The index of a release whose sdist holds hashes alone."""
    project = release.publish(tmp_path / "site")
    archive = release.archive(project)
    page = project / "index.html"
    page.write_text(page.read_text() + f'<a href="{archive.name}">{archive.name}</a>')
    with faulty(Faults(tmp_path / "site")) as address:
        yield f"{address}/simple"


def test_a_lock_of_a_manifest_payload(
    release: TinyRelease,
    served: str,
    profiles: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert lock("--index", served, *profiles, "-o", tmp_path / "a") == 0
    links = tmp_path / "site/simple/tiny-native"
    words = "warning: the index states no hash of the sdist of tiny-native 1.0"
    assert words in capsys.readouterr().err
    page, name = links / "index.html", "tiny_native-1.0.tar.gz"
    text = page.read_text()
    digest = hashlib.sha512((links / name).read_bytes()).hexdigest()
    page.write_text(text.replace(f'"{name}"', f'"{name}#sha512={digest}"'))
    assert lock("--index", served, *profiles, "-o", tmp_path / "a") == 0
    assert capsys.readouterr().err == ""
    page.write_text(text.replace(f'"{name}"', f'"{name}#sha512={digest[::-1]}"'))
    assert lock("--index", served, *profiles, "-o", tmp_path / "c") == 2
    assert "not what the index promises: its sha512 differs" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert lock("--find-links", links, *profiles, "-o", tmp_path / "b") == 0
    for label in ("null", "x86_64_v3"):
        for folder in ("a", "b"):
            content = (tmp_path / folder / "wheels" / label / PLAIN).read_bytes()
            assert hashlib.sha256(content).hexdigest() == released(release, label)


def test_what_cannot_be_locked(
    release: TinyRelease,
    archive: Path,
    profiles: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = ("-o", tmp_path / "lock")
    assert lock(archive, *profiles, *profiles, *out) == 2
    assert "two profiles are called 'gpu_node'" in capsys.readouterr().err
    assert run_commandline(["lock", "other", str(archive), *profiles, "-o", "x"]) == 2
    assert "is tiny-native 1.0, not other" in capsys.readouterr().err
    assert lock("--find-links", tmp_path, *profiles, *out) == 2
    assert "has nothing of tiny-native" in capsys.readouterr().err
    write_machine(make_machine(machine="riscv64"), tmp_path / "riscv")
    release.wheels.clear()
    release.tag = "py3-none-manylinux_2_17_x86_64"
    release.add("null")
    other = release.archive(tmp_path / "other")
    assert lock(other, *profiles, "--profile", tmp_path / "riscv", *out) == 1
    assert "profile 'riscv': no variant of tiny-native 1.0 fits" in capsys.readouterr().err
    assert not (tmp_path / "lock").exists(), "nothing half-written"


def test_a_release_that_is_not_for_a_profiles_python_is_not_locked(
    release: TinyRelease,
    profiles: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("unit.selector.tiny_release.METADATA", f"{METADATA}Requires-Python: >=3.12")
    archive = release.archive(tmp_path / "dist")
    out = [*profiles, "-o", str(tmp_path / "lock")]
    assert lock(archive, *out) == 1
    words = "profile 'gpu_node': tiny-native 1.0 needs Python >=3.12, this is 3.11.7"
    assert words in capsys.readouterr().err
    assert lock("--find-links", archive.parent, *out) == 1
    assert "has no tiny-native for Python 3.11.7: 1.0 needs >=3.12" in capsys.readouterr().err
    assert not (tmp_path / "lock").exists()


def test_a_full_disk_is_not_taken_for_a_fault_of_the_sdist(
    archive: Path, profiles: list[str], tmp_path: Path
) -> None:
    """No file may be longer than a manifest, which stands in for a disk that is full."""
    command = ["lock", "tiny-native", str(archive), *profiles, "-o", str(tmp_path / "lock")]
    run = "from variantwheel_selector.cli import run_commandline; sys.exit(run_commandline())"
    for most in (10, 2000):
        # Python ignores the signal, so that writing fails.
        limited = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"
        program = f"import resource, sys; {limited}; {run}"
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, *command],
            check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert done.stderr.startswith("variantwheel: error: cannot go on: File too large; make ")
        assert done.stderr.count("\n") == 1


def test_the_commands_that_are_printed_can_be_pasted(
    archive: Path, profiles: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock(archive, *profiles, "-o", tmp_path / "l $s") == 0
    commands = printed_commands(capsys)
    assert [words[:2] for words in commands] == [["pip", "install"]] * 2 + [["uv", "pip"]]
    assert all(Path(words[-1]).is_file() and words[-2] == "-r" for words in commands)


def test_the_commands_that_are_printed_replace_another_variant(
    archive: Path, profiles: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: dict[str, list[list[str]]] = {}
    for label, options in (("x86_64_v3", profiles[:2]), ("null", profiles[2:])):
        assert lock(archive, *options, "-o", tmp_path / "lock") == 0
        commands[label] = printed_commands(capsys)
    folder = tmp_path / "env"
    venv.create(folder, symlinks=True)
    starts = {
        "pip": [sys.executable, "-m", "pip", "--isolated", "--python", str(folder)],
        "uv": [UV, "--no-config"],
    }
    quiet = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "VIRTUAL_ENV": str(folder)}
    for number in range(3):
        for label, found in commands.items():
            program, *words = found[number]
            done = subprocess.run(
                [*starts[program], *words],
                check=False, capture_output=True, text=True, env=quiet, cwd="/", timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            (module,) = folder.glob("lib/python*/site-packages/tiny_native/__init__.py")
            assert module.read_text() == f"LABEL = {label!r}\n", found[number]
