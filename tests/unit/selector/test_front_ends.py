"""Stock pip and uv with a selector sdist, nothing but the sdist at hand."""

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from unit.selector.test_hooks import OWN_HOOKS, add_source, for_windows_only
from unit.selector.tiny_release import NULL, V3, V4, TinyRelease, release_info, wheel_bytes
from variantwheel_selector.manifest import SourceProject
from variantwheel_selector.parse.cpuinfo import cpu_flags

FLAGS = cpu_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
NATIVE = "x86_64_v3" if {"avx2", "fma", "bmi2", "movbe", "f16c"} <= (FLAGS or set()) else "null"
UV = str(Path(sys.executable).with_name("uv"))


@dataclass
class Place:
    """A virtual environment without pip or `packaging`, and a folder with the sdist."""

    environment: Path
    links: Path
    variables: dict[str, str]

    def pip(self, verb: str, *arguments: str, expect: int = 0, **variables: str) -> str:
        command = [sys.executable, "-m", "pip", "--python", str(self.environment), verb]
        return self.run(
            [*command, "--isolated", "--no-index", "--find-links", str(self.links), *arguments],
            expect,
            variables,
        )

    def uv(self, *arguments: str, expect: int = 0, **variables: str) -> str:
        options = ["--no-config", "--offline", "--no-index", "--find-links", str(self.links)]
        python = ["--python", str(self.environment / "bin/python")]
        return self.run([UV, "pip", *arguments, *options, *python], expect, variables)

    def run(
        self,
        command: list[str],
        expect: int,
        variables: dict[str, str],
        folder: Path | None = None,
    ) -> str:
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.variables | variables,
            cwd=folder,
            timeout=120,
        )
        assert done.returncode == expect, done.stdout
        return done.stdout

    def unpack(self, folder: Path) -> Path:
        """Unpack the sdist into a folder and return the tree."""
        shutil.unpack_archive(self.links / "tiny_native-1.0.tar.gz", folder, filter="data")
        return folder / "tiny_native-1.0"

    def dist_info(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages/tiny_native-1.0.dist-info")
        return found

    def label(self) -> str | None:
        """The label in the recorded decision, after the module that was installed agreed."""
        text = (self.dist_info() / "variant-decision.json").read_text(encoding="utf-8")
        label: str | None = json.loads(text)["label"]
        done = subprocess.run(
            [self.environment / "bin/python", "-c", "import tiny_native as t; print(t.LABEL)"],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.strip() == (label or "source")
        return label


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of a release of null, x86_64_v3 and x86_64_v4."""
    folder = tmp_path_factory.mktemp("release")
    tiny = TinyRelease(folder / "tiny_native-1.0", release_info([NULL, V3, V4]))
    for label in tiny.info.variants:
        tiny.add(label)
    tiny.share()
    return tiny.archive(folder)


@pytest.fixture
def place(tmp_path: Path, archive: Path) -> Place:
    venv.create(tmp_path / "environment", symlinks=True)
    (tmp_path / "links").mkdir()
    shutil.copy(archive, tmp_path / "links")
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= {"UV_CACHE_DIR": str(tmp_path / "uv"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return Place(tmp_path / "environment", tmp_path / "links", variables)


def test_pip_installs_what_fits(place: Place) -> None:
    place.pip("install", "--no-cache-dir", "tiny-native")
    assert place.label() == NATIVE


def test_uv_installs_what_fits(place: Place) -> None:
    place.uv("install", "tiny-native")
    assert place.label() == NATIVE


def test_find_links_are_recorded_for_every_folder(place: Place, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(place.environment), "install"]
    links = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "links", "PIP_CONFIG_FILE": os.devnull}
    place.run([*command, "--no-cache-dir", "tiny-native"], 0, links | {"PWD": "/"}, tmp_path)
    recorded = json.loads((place.dist_info() / "variant-decision.json").read_text())
    assert recorded["index_options"] == ["--find-links", str(place.links), "--no-index"]


def test_settings_reach_the_hooks(place: Place) -> None:
    place.pip("install", "--no-cache-dir", "--config-settings", "variant=null", "tiny-native")
    assert place.label() == "null"
    place.uv("install", "--reinstall", "tiny-native", VARIANTWHEEL_VARIANT="null")
    assert place.label() == "null"


def test_a_misspelt_setting_is_an_error_with_a_suggestion(place: Place) -> None:
    printed = place.pip("install", "--config-settings", "varient=null", "tiny-native", expect=1)
    assert "variantwheel-selector: error: unknown config setting 'varient'" in printed
    assert "did you mean 'variant'?" in printed
    assert "Traceback" not in printed
    printed = place.uv("install", "tiny-native", expect=1, VARIANTWHEEL_SOURCE_BUILD="alow")
    assert "did you mean 'allow'?" in printed


def test_an_editable_installation_is_refused(place: Place, tmp_path: Path) -> None:
    tree = place.unpack(tmp_path)
    printed = place.pip("install", "-e", str(tree), expect=1)
    assert "an editable installation is not possible" in printed
    assert "Traceback" not in printed


def test_a_tampered_payload_is_not_installed(place: Place, tmp_path: Path) -> None:
    tree = place.unpack(tmp_path)
    shared = tree / "payload/wheels.bin"
    shared.write_bytes(bytes(byte ^ 1 for byte in shared.read_bytes()))
    printed = place.pip("install", "--no-cache-dir", str(tree), expect=1)
    assert "is not the released one" in printed
    assert "Traceback" not in printed


@pytest.fixture
def started(place: Place, release: TinyRelease, tmp_path: Path) -> Path:
    """A folder with the sdist of hashes, and its wheels, in `links`; not the one in `PWD`."""
    links = tmp_path / "started/links"
    shutil.copytree(release.publish(tmp_path / "site"), links)
    release.archive(links)
    place.variables |= {"PWD": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    return links.parent


def test_pip_and_its_hook_see_relative_paths_alike(place: Place, started: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(place.environment), "install"]
    command += ["--no-cache-dir", "--force-reinstall", "tiny-native"]
    links = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "links"}
    place.run(command, 0, links, started)
    assert place.label() == NATIVE
    recorded = json.loads((place.dist_info() / "variant-decision.json").read_text())
    assert recorded["index_options"] == ["--find-links", str(started / "links"), "--no-index"]
    (started / "my.conf").write_text("[global]\nno-index = true\nfind-links = ./links\n")
    place.run(command, 0, {"PIP_CONFIG_FILE": "my.conf"}, started)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no TOML in Python 3.10")
def test_uv_and_its_hook_find_the_same_project(place: Place, started: Path) -> None:
    uv = "[tool.uv]\nno-index = true\nfind-links = ['./links']\n"
    (started / "pyproject.toml").write_text(f"{uv}[tool.uv.workspace]\nmembers = ['member']\n")
    member = started / "member"
    member.mkdir()
    (member / "pyproject.toml").write_text(
        "[project]\nname = 'member'\nversion = '1'\nrequires-python = '>=3.11'\n"
        "dependencies = ['tiny-native']\n[tool.uv]\npackage = false\n"
    )
    environment = {"UV_PROJECT_ENVIRONMENT": str(place.environment), "UV_NO_CACHE": "1"}
    place.variables |= environment | {"UV_OFFLINE": "1", "UV_LINK_MODE": "copy"}
    install = ["pip", "install", "tiny-native", "--python", str(place.environment / "bin/python")]
    sync = ["sync", "--reinstall", "--python", sys.executable]
    place.run([UV, *install], 0, {}, started)
    assert place.label() == NATIVE
    place.run([UV, "--directory", "started", *install, "--reinstall"], 0, {}, started.parent)
    place.run([UV, *sync], 0, {"UV_PROJECT": "started/member"}, started.parent)
    place.run([UV, *sync], 0, {}, member)
    assert place.label() == NATIVE
    (started / "my.toml").write_text(uv.replace("[tool.uv]\n", ""))
    named = {"UV_CONFIG_FILE": "started/my.toml"}
    place.run([UV, *install, "--reinstall"], 0, named, started.parent)


def test_pip_wheel_and_pip_download(place: Place, tmp_path: Path) -> None:
    place.pip("wheel", "--no-cache-dir", "-w", str(tmp_path / "wheel"), "tiny-native")
    assert [path.name for path in (tmp_path / "wheel").iterdir()] == [
        "tiny_native-1.0-py3-none-any.whl"
    ]
    place.pip("download", "-d", str(tmp_path / "download"), "tiny-native")
    (downloaded,) = (tmp_path / "download").iterdir()
    assert downloaded.read_bytes() == (place.links / downloaded.name).read_bytes()


@pytest.mark.parametrize("front_end", ["pip", "uv"])
def test_a_source_build_gets_its_requirements(
    place: Place, release: TinyRelease, front_end: str
) -> None:
    """No variant fits, the user allows a source build: requirements come from the usual place."""
    builder = {
        "some_builder.py": b"",
        "some_builder-1.0.dist-info/METADATA": b"Metadata-Version: 2.2\nName: some-builder\n"
        b"Version: 1.0\n",
        "some_builder-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: hand\n"
        b"Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    (place.links / "some_builder-1.0-py3-none-any.whl").write_bytes(
        wheel_bytes(builder, "some_builder-1.0.dist-info")
    )
    add_source(release, f"import some_builder\n{OWN_HOOKS}")
    release.source = SourceProject("own_hooks", ("hooks",), ("some-builder==1.0",))
    for_windows_only(release)
    release.archive(place.links)
    install = place.pip if front_end == "pip" else place.uv
    printed = install("install", "tiny-native", expect=1)
    assert "no variant of tiny-native 1.0 fits this machine" in printed
    assert "set VARIANTWHEEL_SOURCE_BUILD=allow and install again" in printed
    install("install", "tiny-native", VARIANTWHEEL_SOURCE_BUILD="allow")
    assert place.label() is None
