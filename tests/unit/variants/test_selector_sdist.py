"""The selector sdist: its layout, its bytes, and the releases that are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from unit.variants.tiny_project import (
    DIST_INFO,
    EPOCH,
    STEP_TIMEOUT,
    TinyRelease,
    copy_project,
    respoil,
    variantwheel,
)
from variantwheel.completeness import check_complete, missing_variants
from variantwheel.errors import IncompleteReleaseError, ReleaseFolderError, SdistFormatError
from variantwheel.project import read_project
from variantwheel.sdist_archive import SdistArchive, SdistFile, read_sdist
from variantwheel.selector_sdist import collect_payload
from variantwheel.variant_build import without_release_files
from variantwheel.wheel_archive import read_wheel
from variantwheel_selector.archive_tail import LARGE
from variantwheel_selector.manifest import parse_manifest
from variantwheel_selector.module_bundle import parse_bundle
from variantwheel_selector.record import replace

ROOT = "tiny_variants-1.0"


@pytest.fixture(scope="module")
def sdist(tiny_release: TinyRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    variantwheel(
        "sdist", tiny_release.folder, "-o", folder,
        "--project", tiny_release.project, "--no-isolation",
    )  # fmt: skip
    return folder / f"{ROOT}.tar.gz"


def _sources(sdist: SdistArchive) -> list[str]:
    packed = gzip.decompress(sdist.files["source.zip.gz"].data)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return archive.namelist()


def _collect(tiny: TinyRelease, folder: Path) -> None:
    collect_payload(folder, read_project(tiny.project))


def test_it_holds_what_an_installation_needs(tiny_release: TinyRelease, sdist: Path) -> None:
    found = read_sdist(sdist)
    assert found.root == ROOT
    assert not zipfile.is_zipfile(sdist)  # which pip 23 would unpack it as
    needed = {
        "PKG-INFO",
        "pyproject.toml",
        "payload/manifest.json",
        "payload/prepared.json",
        "payload/wheels.bin",
        "_selector/variantwheel_selector/backend.py",
        "_selector/variantwheel_selector/modules.txt",
        "source.zip.gz",
    }
    assert needed <= set(found.files)
    # Installers unpack all of it each time.
    assert len(found.files) < 15
    assert {"native/tiny.c", "CMakeLists.txt", "pyproject.toml"} <= set(_sources(found))
    packed = set(parse_bundle(found.files["_selector/variantwheel_selector/modules.txt"].data))
    assert {"wheel_hook.py", "nvidia_query.py", "fetching/payload_search.py"} <= packed
    assert not [path for path in packed if path.startswith(("_vendor", "cli"))]
    assert not [path for path in packed if "__pycache__" in path or path.endswith(".pyc")]
    assert not [path for path in found.files if "__pycache__" in path or path.endswith(".pyc")]
    metadata = read_wheel(tiny_release.wheel("null")).dist_info_file("METADATA")
    assert found.files["PKG-INFO"].data == metadata
    assert b"Provides-Extra: fancy" in metadata
    assert b"Requires-Dist: rich>=13; extra == 'fancy'" in metadata.replace(b'"', b"'")


def test_the_manifest_lists_every_wheel_with_its_digest_and_pieces(
    tiny_release: TinyRelease, sdist: Path
) -> None:
    files = read_sdist(sdist).files
    manifest = parse_manifest(files["payload/manifest.json"].data)
    assert (manifest.name, manifest.version) == ("tiny-variants", "1.0")
    assert [wheel.label for wheel in manifest.wheels] == ["null", "x86_64_v3"]
    shared = files["payload/wheels.bin"].data
    assert len(shared) < sum(wheel.size for wheel in manifest.wheels) * 0.8
    for wheel in manifest.wheels:
        data = b"".join(shared[offset : offset + length] for offset, length in wheel.ranges)
        assert data == (tiny_release.folder / wheel.filename).read_bytes()
        assert (wheel.size, wheel.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert manifest.source is not None
    assert manifest.source.backend == "scikit_build_core.build"
    # The last two are on this machine, and a machine without them needs to be told.
    assert [item.partition(">")[0] for item in manifest.source.requires] == [
        "scikit-build-core",
        "cmake",
        "ninja",
    ]


def test_the_same_release_gives_the_same_bytes(
    tiny_release: TinyRelease, sdist: Path, tmp_path: Path
) -> None:
    variantwheel(
        "sdist", tiny_release.folder, "-o", tmp_path,
        "--project", tiny_release.project, "--no-isolation",
    )  # fmt: skip
    assert (tmp_path / sdist.name).read_bytes() == sdist.read_bytes()
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members} == {(0, 0, "", EPOCH)}
    assert sdist.read_bytes()[3:4] == b"\0"  # no file name in the gzip header


def test_installers_can_pack_it_again_to_the_same_bytes(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    code = (
        "import sys; sys.path.insert(0, '_selector'); "
        "from variantwheel_selector import backend; print(backend.build_sdist(sys.argv[1]))"
    )
    subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path / "again")],
        cwd=tmp_path / ROOT,
        check=True,
        timeout=60,
    )
    assert (tmp_path / "again" / sdist.name).read_bytes() == sdist.read_bytes()


def test_without_sources_the_manifest_says_so(tiny_release: TinyRelease, tmp_path: Path) -> None:
    variantwheel(
        "sdist", tiny_release.folder, "-o", tmp_path,
        "--project", tiny_release.project, "--no-source",
    )  # fmt: skip
    files = read_sdist(tmp_path / f"{ROOT}.tar.gz").files
    assert json.loads(files["payload/manifest.json"].data)["source"] is None
    assert "source.zip.gz" not in files


_KILLED_WHERE_IT_PACKS = """\
import os, signal, sys
from variantwheel_selector.cli import run_commandline
def hook(event, words):
    if event == "tempfile.mkstemp" and str(words[0]).endswith(".part"):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
run_commandline(sys.argv[1:])
"""


def test_what_a_killed_process_left_is_removed_by_the_next(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    words = (
        "sdist", str(tiny_release.folder), "-o", str(tmp_path),
        "--project", str(tiny_release.project), "--no-source",
    )  # fmt: skip
    command = [sys.executable, "-c", _KILLED_WHERE_IT_PACKS, *words]
    done = subprocess.run(command, check=False, timeout=STEP_TIMEOUT)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.rglob("PKG-INFO"))
    variantwheel(*words)
    assert [file.name for file in tmp_path.iterdir()] == [f"{ROOT}.tar.gz"]


def test_what_a_build_does_not_need_is_left_out(tiny_release: TinyRelease, tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    file = project / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace(
            "[tool.variantwheel]\n",
            '[tool.variantwheel]\nsource-exclude = ["native/*.md", "src/*/notes"]\n',
        ),
        encoding="utf-8",
    )
    (project / "native" / "README.md").write_text("long")
    (project / "src" / "tiny_variants" / "notes").mkdir()
    (project / "src" / "tiny_variants" / "notes" / "x.txt").write_text("long")
    variantwheel(
        "sdist", tiny_release.folder, "-o", tmp_path, "--project", project, "--no-isolation"
    )
    sources = _sources(read_sdist(tmp_path / f"{ROOT}.tar.gz"))
    assert "native/tiny.c" in sources
    assert not [path for path in sources if "notes" in path or path.endswith("native/README.md")]


def test_a_missing_variant_is_named_unless_allowed(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    shutil.copy(tiny_release.wheel("null"), tmp_path)
    project = read_project(tiny_release.project)
    payload = collect_payload(tmp_path, project)
    assert missing_variants(payload, project) == ["x86_64_v3 for x86_64"]
    with pytest.raises(IncompleteReleaseError, match=r"x86_64_v3 for x86_64\nbuild them"):
        check_complete(payload, project)
    done = variantwheel(
        "sdist", tmp_path, "-o", tmp_path, "--project", tiny_release.project,
        "--no-source", "--allow-partial",
    )  # fmt: skip
    assert "warning: released without x86_64_v3 for x86_64" in done.stderr


def test_folders_that_are_no_release_are_refused(tiny_release: TinyRelease, tmp_path: Path) -> None:
    with pytest.raises(ReleaseFolderError, match="nowhere: no such folder"):
        _collect(tiny_release, tmp_path / "nowhere")
    with pytest.raises(ReleaseFolderError, match="holds no variant wheel"):
        _collect(tiny_release, tmp_path)
    null = tiny_release.wheel("null")
    shutil.copy(null, tmp_path)
    plain = tmp_path / null.name.replace("-null.whl", ".whl")
    shutil.copy(null, plain)
    with pytest.raises(ReleaseFolderError, match="a plain wheel of the project"):
        _collect(tiny_release, tmp_path)
    plain.unlink()
    (tmp_path / null.name.replace("-1.0-", "-1.1-")).touch()
    with pytest.raises(ReleaseFolderError, match=r"several releases: .* 1\.0, .* 1\.1"):
        _collect(tiny_release, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"Version: 1.0\n", b"Version: 1.0\nRequires-Dist: nccl\n", "METADATA differs from"),
        (b"Version: 1.0\n", b"Version: 1.0\nDynamic: requires-dist\n", "METADATA (differs|is not)"),
    ],
)
def test_wheels_with_unlike_metadata_are_refused(
    tiny_release: TinyRelease, tmp_path: Path, old: bytes, new: bytes, told: str
) -> None:
    shutil.copy(tiny_release.wheel("x86_64_v3"), tmp_path)
    metadata = read_wheel(tiny_release.wheel("null")).dist_info_file("METADATA").replace(old, new)
    respoil(tiny_release.wheel("null"), tmp_path, {f"{DIST_INFO}/METADATA": metadata})
    with pytest.raises(ReleaseFolderError, match=told):
        _collect(tiny_release, tmp_path)


def test_a_version_that_is_not_in_its_normal_form_is_told_so(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    null = tiny_release.wheel("null")
    metadata = read_wheel(null).dist_info_file("METADATA")
    metadata = metadata.replace(b"Version: 1.0\n", b"Version: v1.00\n")
    wheel = respoil(null, tmp_path, {f"{DIST_INFO}/METADATA": metadata})
    with pytest.raises(ReleaseFolderError, match=r"state '1\.0' in place of 'v1\.00'"):
        _collect(tiny_release, tmp_path)
    done = variantwheel("check", wheel, "--project", tiny_release.project, expect=1)
    assert "state '1.0' in place of 'v1.00'" in done.stdout


def test_a_wheel_of_an_older_definition_is_refused(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    project = copy_project(tmp_path)
    file = project / "variants" / "x86_64_v3.toml"
    file.write_text(file.read_text(encoding="utf-8").replace('["v3"]', '["v4"]'))
    with pytest.raises(ReleaseFolderError, match="does not say what the definition"):
        collect_payload(tiny_release.folder, read_project(project))


def _with_line(tmp_path: Path, old: str, new: str) -> Path:
    project = copy_project(tmp_path)
    file = project / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return project


@pytest.mark.parametrize("option", ["--no-isolation", "--no-source", "--dry-run"])
@pytest.mark.parametrize(
    ("line", "other"),
    [('version = "1.0"', 'version = "1.1"'), ('name = "tiny-variants"', 'name = "other"')],
)
def test_wheels_of_another_release_than_the_projects_are_refused(
    tiny_release: TinyRelease, tmp_path: Path, option: str, line: str, other: str
) -> None:
    project = _with_line(tmp_path, line, other)
    output = () if option == "--dry-run" else ("-o", tmp_path)
    words = ("sdist", tiny_release.folder, *output, "--project", project, option)
    told = variantwheel(*words, expect=2).stderr
    said = f"{project}/pyproject.toml says project.{other.replace(chr(34), chr(39))}"
    assert f"the wheels are tiny-variants 1.0, and {said}; build the wheels anew" in told
    done = variantwheel("check", tiny_release.wheel("null"), "--project", project, expect=1)
    assert (
        f"FAILED   metadata          the wheel is of tiny_variants 1.0, and {said}" in done.stdout
    )


def test_a_version_that_is_written_in_another_way_is_the_same(
    tiny_release: TinyRelease, tmp_path: Path
) -> None:
    project = _with_line(tmp_path, 'version = "1.0"', 'version = "v1.00"')
    variantwheel("check", tiny_release.wheel("null"), "--project", project)
    collect_payload(tiny_release.folder, read_project(project))


def test_sources_of_another_version_are_refused(tiny_release: TinyRelease, tmp_path: Path) -> None:
    # The version that the build backend finds, of which pyproject.toml says nothing.
    found = 'dynamic = ["version"]'
    project = _with_line(tmp_path, 'version = "1.0"', found)
    (project / "VERSION").write_text('version = "1.1"\n', encoding="utf-8")
    file = project / "pyproject.toml"
    file.write_text(
        file.read_text(encoding="utf-8")
        + '\n[tool.scikit-build.metadata.version]\nprovider = "scikit_build_core.metadata.regex"\n'
        + 'input = "VERSION"\n',
        encoding="utf-8",
    )
    done = variantwheel(
        "sdist", tiny_release.folder, "-o", tmp_path, "--project", project, "--no-isolation",
        expect=2,
    )  # fmt: skip
    assert "the wheels are tiny-variants 1.0, the sources tiny-variants 1.1" in done.stderr


def test_an_earlier_release_is_no_source() -> None:
    """A project without a list of ignored files gives its backend everything."""
    names = [
        "pyproject.toml", "src/tiny.c", "wheelhouse/other-1.0-py3-none-any.whl",
        "build/variantwheel/env/bin/python", "release/tiny_variants-1.0-variants.json",
        "release/tiny_variants-0.9-py3-none-linux_x86_64-null.whl", "tiny_variants-0.9.tar.gz",
        "site/simple/tiny-variants/tiny_variants-1.0-py3-none-any.whl.metadata",
    ]  # fmt: skip
    archive = SdistArchive("tiny_variants-1.0", {name: SdistFile(b"") for name in names})
    kept = without_release_files(archive, Path("build/variantwheel"))
    assert list(kept.files) == names[:3]
    assert list(without_release_files(archive, None).files) == names[:4]


def test_data_that_begins_with_the_projects_name_is_a_source() -> None:
    names = [
        "src/my_pkg/my_pkg-templates.tar.gz", "src/my_pkg/my_pkg-variants.json",
        "src/my_pkg/my_pkg-data.whl", "src/my_pkg/my_pkg-a-b-c-d.whl",
        "src/my_pkg-extra-1.0.tar.gz", "src/my_pkg-extra-1.0-variants.json",
    ]  # fmt: skip
    released = ["my_pkg-1.0.tar.gz", "release/My.Pkg-1!2.0+cu.1.tar.gz"]
    files = {name: SdistFile(b"") for name in [*names, *released]}
    archive = SdistArchive("My.Pkg-1.0", files)
    assert list(without_release_files(archive, None).files) == names


@pytest.mark.parametrize("name", ["../evil", "/evil", "x/../../evil"])
def test_archives_whose_paths_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "x-1.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(SdistFormatError, match="leads out of the archive"):
        read_sdist(file)


def test_what_is_no_archive_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x-1.tar.gz"
    file.write_bytes(b"no archive")
    with pytest.raises(SdistFormatError, match="not a readable source distribution"):
        read_sdist(file)
    with tarfile.open(file, "w:gz") as archive:
        for name in ("a/x", "b/x"):
            archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(SdistFormatError, match="has a, b"):
        read_sdist(file)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("x-1/a", 0, "a")], "'x-1/a' is a link that leads back to itself"),
        ([("x-1/a", 0, "b"), ("x-1/b", 0, "a")], "is a link that leads back to itself"),
        ([("x-1/a", LARGE + 1, "")], "would expand from [0-9]+ to more than 67108864 bytes"),
        ([("x-1/a", LARGE // 2 + 1, ""), ("x-1/b", 0, "a")], "to more than 67108864 bytes"),
    ],
)
def test_small_archives_that_ask_for_much_are_refused(
    tmp_path: Path, members: list[tuple[str, int, str]], words: str
) -> None:
    file = tmp_path / "x-1.tar.gz"
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        for name, size, link in members:
            member = tarfile.TarInfo(name)
            member.size, member.linkname = size, link
            member.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
            archive.addfile(member, io.BytesIO(bytes(size)))
    done = variantwheel("index", tmp_path, "-o", tmp_path / "site", expect=1)
    assert f"{file}: not a readable source distribution: " in done.stderr
    assert re.search(words, done.stderr)


def test_damaged_compression_is_told(tmp_path: Path) -> None:
    plain = tmp_path / "x-1.tar"
    with tarfile.open(plain, "w") as archive:
        member = tarfile.TarInfo("x-1/file")
        member.size = 100_000
        archive.addfile(member, io.BytesIO(hashlib.shake_128(b"x").hexdigest(50_000).encode()))
    packed = bytearray(gzip.compress(plain.read_bytes()))
    middle = len(packed) // 2
    packed[middle : middle + 40] = b"\xff" * 40
    file = tmp_path / "x-1.tar.gz"
    file.write_bytes(packed)
    with pytest.raises(SdistFormatError, match="not a readable source distribution"):
        read_sdist(file)


def test_a_manifest_payload_holds_hashes_alone(
    tiny_release: TinyRelease, sdist: Path, tmp_path: Path
) -> None:
    """And an index that has the wheels serves it."""
    release = tmp_path / "release"
    shutil.copytree(tiny_release.folder, release, ignore=shutil.ignore_patterns("*.tar.gz"))
    options = ("--project", tiny_release.project, "--no-source", "-o", release)
    url = "https://wheels.example.org/simple"
    variantwheel("sdist", release, *options, "--payload", "manifest", "--index-url", url)
    found = read_sdist(release / f"{ROOT}.tar.gz")
    assert not [path for path in found.files if path.endswith((".whl", ".bin"))]
    thin = parse_manifest(found.files["payload/manifest.json"].data)
    thick = parse_manifest(read_sdist(sdist).files["payload/manifest.json"].data)
    assert (thin.embedded, thin.index_url) == (False, url)
    assert (thick.embedded, thick.index_url) == (True, None)
    assert thin.wheels == tuple(replace(wheel, ranges=()) for wheel in thick.wheels)
    variantwheel("index", release, "-o", tmp_path / "site")
    served = {path.name for path in (tmp_path / "site/simple/tiny-variants").iterdir()}
    assert {wheel.filename for wheel in thin.wheels} | {f"{ROOT}.tar.gz"} <= served


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--index-url", "https://host/simple"), "goes with --payload manifest"),
        (("--payload", "manifest", "--index-url", "https://me:pw@host/"), "without login"),
        (("--payload", "manifest", "--index-url", "/srv/simple"), "http or https URL"),
        (("--machines", "captured"), "--machines goes with --dry-run"),
        (("--json",), "--json goes with --dry-run"),
        (("--dry-run",), "-o goes without --dry-run"),
    ],
)
def test_options_that_do_not_go_together(
    tiny_release: TinyRelease, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    printed = variantwheel(
        "sdist", tiny_release.folder, "-o", tmp_path,
        "--project", tiny_release.project, "--no-source", *options, expect=2,
    )  # fmt: skip
    assert words in printed.stderr
