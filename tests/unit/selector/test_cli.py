"""The command `variantwheel`: its verbs, their output and exit codes."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.selector.test_hooks import for_windows_only
from unit.selector.test_machines import MACHINES
from unit.selector.test_verify import install
from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.decision_reading import parse_decision
from variantwheel_selector.machine_folder import read_machine, write_machine, write_profile
from variantwheel_selector.record import replace
from variantwheel_selector.variants_json import render_variants_json

BY_NAME = {path.name: path for path in MACHINES}


def test_detect(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_commandline(["detect", "--machine", str(BY_NAME["haswell"])]) == 0
    printed = capsys.readouterr().out
    assert "x86_64 :: level  v3, v2, v1 (/proc/cpuinfo)" in printed
    assert "aarch64          nothing: this machine is x86_64" in printed
    assert run_commandline(["detect", "--machine", str(BY_NAME["emulated_old_glibc"])]) == 0
    assert "x86_64 is unknown" in capsys.readouterr().out


def test_detect_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_commandline(["detect", "--json", "--machine", str(BY_NAME["nehalem"])]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["properties"] == ["x86_64 :: level :: v2", "x86_64 :: level :: v1"]
    (level,) = document["namespaces"]["x86_64"]["features"]
    assert "lacks" in level["why_not"]["v3"]
    assert document["namespaces"]["aarch64"]["absent"]


def test_detect_shows_gpus_and_why_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    folder = BY_NAME["haswell"].parents[1] / "gpu_machines"
    assert run_commandline(["detect", "--machine", str(folder / "nvidia_h100")]) == 0
    printed = capsys.readouterr().out
    assert "CUDA 13.0 and older (NVML; driver 580.65.06)" in printed
    assert "a device of compute capability 9.0 (NVML; driver 580.65.06)" in printed
    assert run_commandline(["detect", "--machine", str(folder / "nvidia_driver_on_host")]) == 0
    assert "nothing: driver 580.65.06 runs on the host" in capsys.readouterr().out
    words = ["detect", "--json", "--machine", str(folder / "nvidia_mixed_generations")]
    assert run_commandline(words) == 0
    document = json.loads(capsys.readouterr().out)
    sm_arch = document["namespaces"]["nvidia"]["features"][2]
    assert sm_arch["each_device"]["7.0"][0] == "70_real"
    assert "nvidia :: sm_arch :: 70_real" not in document["properties"]


def test_detect_shows_what_is_assumed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "12.8")
    assert run_commandline(["detect", "--machine", str(BY_NAME["haswell"])]) == 0
    printed = capsys.readouterr().out
    assert "CUDA 12.8 and older (assumed by CONDA_OVERRIDE_CUDA)" in printed
    assert "assume-cuda: 12.8 (environment variable CONDA_OVERRIDE_CUDA, taken for" in printed
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "new")
    assert run_commandline(["detect"]) == 2
    assert "accepted is a CUDA version such as '12.8'" in capsys.readouterr().err


def test_an_assumption_is_no_source_build(
    release: TinyRelease, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for_windows_only(release)
    monkeypatch.setenv("VARIANTWHEEL_ASSUME_CUDA", "12.8")
    words = ["explain", "tiny-native", str(release.finish())]
    assert run_commandline([*words, "--machine", str(BY_NAME["zen4"])]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "tiny-native 1.0: nothing fits"
    stated = "  assume-cuda  12.8 (environment variable VARIANTWHEEL_ASSUME_CUDA)"
    assert lines[lines.index("settings") + 1] == stated


def test_detect_names_what_is_only_taken_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_commandline(["detect", "--machine", str(BY_NAME["zen4"])]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "only for a variant asked for by name: x86_64 :: level :: v4"
    assert run_commandline(["detect", "--json", "--machine", str(BY_NAME["zen4"])]) == 0
    assert json.loads(capsys.readouterr().out)["only_by_name"] == ["x86_64 :: level :: v4"]


def test_capture_and_detect_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_commandline(["capture", str(tmp_path / "m")]) == 0
    assert "machine.json" in capsys.readouterr().out
    assert run_commandline(["detect"]) == 0
    here = capsys.readouterr().out
    assert run_commandline(["detect", "--machine", str(tmp_path / "m")]) == 0
    assert capsys.readouterr().out == here
    assert run_commandline(["capture", str(tmp_path / "m")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_explain_an_sdist(release: TinyRelease, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "tiny-native==1.0", str(release.finish())]
    assert run_commandline([*words, "--machine", str(BY_NAME["zen4"])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("* x86_64_v3  chosen") for line in lines)
    assert any(line.startswith("  null       fits") for line in lines)
    assert any("x86_64_v4  rejected  needs x86_64 :: level :: v4" in line for line in lines)
    assert lines[-1] == "tiny-native 1.0: x86_64_v3 (tiny_native-1.0-py3-none-any-x86_64_v3.whl)"


def test_explain_as_json_is_a_decision(
    release: TinyRelease, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VARIANTWHEEL_VARIANT", "x86_64_v4")
    words = ["explain", "tiny-native", str(release.finish()), "--json"]
    assert run_commandline([*words, "--machine", str(BY_NAME["zen4"])]) == 0
    decision = parse_decision(capsys.readouterr().out)
    assert decision.label == "x86_64_v4"
    assert decision.settings == {"variant": "x86_64_v4 (environment variable VARIANTWHEEL_VARIANT)"}


def test_explain_when_nothing_fits(
    release: TinyRelease, capsys: pytest.CaptureFixture[str]
) -> None:
    for_windows_only(release)
    assert run_commandline(["explain", "tiny-native", str(release.root)]) == 1
    assert "nothing fits" in capsys.readouterr().out


def test_what_fits_and_is_not_chosen_is_not_said_to_fit_not(
    release: TinyRelease, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VARIANTWHEEL_VARIANT", "cu99")
    words = ["explain", "tiny-native", str(release.finish())]
    assert run_commandline([*words, "--machine", str(BY_NAME["zen4"])]) == 1
    *_, refusal, outcome = capsys.readouterr().out.splitlines()
    assert refusal.startswith("there is no variant 'cu99'; the release has ")
    assert outcome == "tiny-native 1.0: none of those that fit is chosen"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "tiny-native==2.0", "{sdist}"], "is tiny-native 1.0, not tiny-native==2.0"),
        (["explain", "other", "{sdist}"], "is tiny-native 1.0, not other"),
        (["explain", "tiny-native==", "{sdist}"], "neither PROJECT nor PROJECT==VERSION"),
        (["explain", "tiny-native>=1", "{sdist}"], "neither PROJECT nor PROJECT==VERSION"),
        (["explain", "tiny native", "--index", "{sdist}"], "neither PROJECT nor PROJECT==VERSION"),
        (["explain", "tiny-native", "{sdist}/payload"], "is no selector sdist"),
        (["explain", "tiny-native", "--find-links", "{sdist}/nowhere"], "is no folder"),
        (["detect", "--machine", "{sdist}"], "is no captured machine"),
        (["verify", "tiny-native-not-installed"], "is not installed"),
    ],
)
def test_mistakes_are_lines_and_exit_code_2(
    release: TinyRelease,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    sdist = str(release.finish())
    assert run_commandline([word.replace("{sdist}", sdist) for word in words]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert all(line.startswith("variantwheel: error: ") for line in printed.splitlines())


def test_verify(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_commandline(["verify"]) == 0
    assert "no variant is installed" in capsys.readouterr().out
    install(site, "null")
    assert run_commandline(["verify"]) == 0
    assert "tiny-native 1.0: variant null fits this machine" in capsys.readouterr().out


def test_verify_a_misfit(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "x86_64_v3")
    nehalem = ["--machine", str(BY_NAME["nehalem"])]
    assert run_commandline(["verify", "tiny-native", *nehalem]) == 1
    printed = capsys.readouterr().out
    assert "variant x86_64_v3 does not fit this machine" in printed
    repair = "pip install --no-cache-dir --force-reinstall --no-deps tiny-native==1.0"
    assert (
        f"choose anew, by one of:\n    {repair}\n    uv pip install --no-cache --reinstall"
        in printed
    )
    assert run_commandline(["verify", "--json", *nehalem]) == 1
    (found,) = json.loads(capsys.readouterr().out)["distributions"]
    assert (found["label"], found["fits"]) == ("x86_64_v3", False)
    assert found["repair_command"] == repair


def test_other_distributions_add_verbs(
    site: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = site / "plug_in-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.2\nName: plug-in\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[variantwheel.verbs]\nbuild = plug_in_verb\n")
    (site / "plug_in_verb.py").write_text(
        '"""Build it."""\n'
        "def configure(parser): parser.add_argument('label')\n"
        "def run(args): print('built', args.label); return 1\n"
    )
    assert run_commandline(["build", "cu12"]) == 1
    assert capsys.readouterr().out == "built cu12\n"
    with pytest.raises(SystemExit):
        run_commandline(["--help"])
    assert "Build it." in capsys.readouterr().out
    del sys.modules["plug_in_verb"]


def test_a_broken_plug_in_breaks_only_its_own_verb(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = site / "plug_in-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.2\nName: plug-in\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[variantwheel.verbs]\nbuild = no_such_module\n")
    with pytest.raises(SystemExit):
        run_commandline(["--help"])
    assert "No module named 'no_such_module'" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(ModuleNotFoundError):
        run_commandline(["build"])


def test_without_the_toolkit_its_verbs_say_how_to_get_it(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_commandline(["build", "--all"]) == 2
    printed = capsys.readouterr().err
    assert (
        printed == "variantwheel: error: 'build' comes with the toolkit: pip install variantwheel\n"
    )


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_commandline(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for verb in ("detect", "explain", "verify", "capture", "matrix", "sdist"):
        assert f"    {verb}" in printed
    with pytest.raises(SystemExit) as caught:
        run_commandline([])
    assert caught.value.code == 2


def test_the_package_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "variantwheel_selector", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("variantwheel-selector ")


@pytest.mark.parametrize("encoding", ["ascii:strict", "utf-8:strict"])
def test_names_that_cannot_be_printed_are_escaped(tmp_path: Path, encoding: str) -> None:
    folder = os.fsencode(tmp_path) + b"/folder\xe9"
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"variantwheel_selector", b"capture", folder],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"folder\\udce9/machine.json" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "utf-16"])
def test_json_can_be_read_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "ü😀"
    folder.mkdir()
    write_profile(read_machine(BY_NAME["haswell"]), folder / "node.json")
    path = os.fsencode(folder) + b"/\xe9.json"
    (folder / "node.json").rename(os.fsdecode(path))
    done = subprocess.run(
        [sys.executable, "-m", "variantwheel_selector", "detect", "--json"],
        env={**os.environb, b"PYTHONIOENCODING": encoding.encode(), b"VARIANTWHEEL_PROFILE": path},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    stated = json.loads(done.stdout.decode(encoding))["assumed"]["profile"]
    assert stated.startswith(f"{folder}/?.json (")
    assert done.stdout.decode(encoding).isascii()


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    """`variantwheel detect | head -c1`, without waiting for the rest."""
    command = f"{sys.executable} -m variantwheel_selector detect --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command], check=True, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("{", "")


@pytest.mark.parametrize("verb", ["detect", "detect --json"])
@pytest.mark.parametrize(
    ("output", "why"),
    [(">/dev/full", "No space left on device"), (">&-", "it is closed")],
)
def test_an_output_that_takes_nothing_is_one_line(verb: str, output: str, why: str) -> None:
    command = f"{sys.executable} -m variantwheel_selector {verb} {output}"
    done = subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60
    )
    said = f"variantwheel: error: cannot write to standard output: {why}\n"
    assert (done.returncode, done.stderr) == (3, said)
    silent = subprocess.run(
        ["bash", "-c", f"{command} 2>&-"], check=False, capture_output=True, timeout=60
    )
    assert (silent.returncode, silent.stdout) == (3, b"")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left"), 3, "cannot go on: No space left; make room where"),
        (OSError(errno.EMFILE, "Too many open files"), 3, "cannot go on: Too many open files$"),
        (OSError(errno.EDQUOT, "Quota exceeded", "a"), 3, "error: a: Quota exceeded; make room th"),
        # As `shutil` says it, whose first name is that of the source.
        (OSError(errno.ENOSPC, "No space left", "a", None, "b"), 3, "error: b: No space left; ma"),
        (OSError(errno.ENOENT, "No usable temporary directory found"), 3, "No usable temporary"),
        (OSError(errno.EACCES, "Permission denied", "a"), 2, "error: a: Permission denied$"),
        (OSError(errno.EBADF, "Bad file descriptor"), None, ""),
        (OSError("anything"), None, ""),
    ],
)
def test_what_the_system_refuses_is_one_line(
    error: OSError,
    code: int | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr("variantwheel_selector.cli.detect.run", fail)
    if code is None:
        with pytest.raises(OSError):
            run_commandline(["detect"])
        return
    assert run_commandline(["detect"]) == code
    assert re.search(words, capsys.readouterr().err.removesuffix("\n"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("machine.json", "{}", "key 'schema' is missing"),
        ("machine.json", "x" * 70_000, "larger than"),
        ("cpuinfo.txt", "x" * 20_000, "larger than 16384 bytes"),
    ],
)
def test_strange_machine_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, words: str
) -> None:
    write_machine(read_machine(BY_NAME["haswell"]), tmp_path / "m")
    (tmp_path / "m" / name).write_text(content)
    assert run_commandline(["detect", "--machine", str(tmp_path / "m")]) == 2
    assert words in capsys.readouterr().err


def test_links_in_a_machine_folder_are_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_machine(read_machine(BY_NAME["haswell"]), tmp_path / "m")
    secret = tmp_path / "secret"
    secret.write_text("flags : secret\n")
    (tmp_path / "m/cpuinfo.txt").unlink()
    (tmp_path / "m/cpuinfo.txt").symlink_to(secret)
    assert run_commandline(["detect", "--machine", str(tmp_path / "m")]) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("version", "three", "python.version: 'three' does not match"),
        ("version", "3", "python.version: '3' does not match"),
        ("interpreter", "\ud800", "not valid JSON"),
    ],
)
def test_strange_facts_in_a_machine_folder(
    release: TinyRelease,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    key: str,
    value: str,
    words: str,
) -> None:
    folder = tmp_path / "m"
    write_machine(read_machine(BY_NAME["haswell"]), folder)
    document = json.loads((folder / "machine.json").read_text())
    document["python"][key] = value
    (folder / "machine.json").write_text(json.dumps(document))
    sdist = str(release.finish())
    assert run_commandline(["explain", "tiny-native", sdist, "--machine", str(folder)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_only_regular_files_of_a_machine_folder_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None]
) -> None:
    write_machine(read_machine(BY_NAME["haswell"]), tmp_path / "m")
    (tmp_path / "m/auxv.txt").unlink()
    make(tmp_path / "m/auxv.txt")
    assert run_commandline(["detect", "--machine", str(tmp_path / "m")]) == 2
    assert "no regular file" in capsys.readouterr().err


def test_facts_of_strangers_do_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = replace(read_machine(BY_NAME["haswell"]), libc="glibc \x1b[2J2.36")
    write_machine(machine, tmp_path / "m")
    assert run_commandline(["detect", "--machine", str(tmp_path / "m")]) == 0
    assert "glibc \\x1b[2J2.36" in capsys.readouterr().out


def test_capture_into_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_commandline(["capture", "."]) == 0
    assert read_machine(tmp_path).python.version == ".".join(map(str, sys.version_info[:3]))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_capture_where_nothing_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run_commandline(["capture", str(tmp_path / "file/m")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_nothing_fits_although_a_source_build_is_ruled_out_by_name(
    release: TinyRelease, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for_windows_only(release)
    monkeypatch.setenv("VARIANTWHEEL_SOURCE_BUILD", "never")
    assert run_commandline(["explain", "tiny-native", str(release.root)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("tiny-native 1.0: nothing fits")


def test_explain_looks_in_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_commandline(["explain", "tiny-native", "--find-links", ".", "--index", "x"])
    assert caught.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_verify_without_a_name_looks_at_every_variant(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "null")
    install(site, "null", project="other_native")
    left_behind = site / "removed-1.0.dist-info"
    left_behind.mkdir()
    (left_behind / "variant.json").write_text("{}")
    assert run_commandline(["verify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["distributions"]
    assert [item["project"] for item in found] == ["other-native", "tiny-native"]


def test_verify_of_all_judges_the_others_where_some_are_damaged(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "x86_64_v3")
    for project in ("broken", "odd"):
        install(site, "null", project=project)
    (site / "broken-1.0.dist-info/variant.json").write_text("{")
    (site / "odd-1.0.dist-info/METADATA").write_bytes(b"Name: \xe9\n")
    nehalem = ["--machine", str(BY_NAME["nehalem"])]
    assert run_commandline(["verify", *nehalem]) == 2
    printed = capsys.readouterr()
    assert "tiny-native 1.0: variant x86_64_v3 does not fit this machine" in printed.out
    odd, broken = printed.err.splitlines()
    assert "error: broken 1.0: variant.json: not valid JSON" in broken
    assert "odd-1.0.dist-info' is damaged: its METADATA is not UTF-8" in odd
    assert run_commandline(["verify", "--json", *nehalem]) == 2
    document = json.loads(capsys.readouterr().out)
    assert [item["project"] for item in document["distributions"]] == ["tiny-native"]
    assert [item["project"] for item in document["errors"]] == [None, "broken"]
    assert document["errors"][1]["error"].startswith("broken 1.0: variant.json: ")
    assert run_commandline(["verify", "tiny-native", *nehalem]) == 1


def test_explain_as_json_is_a_decision_where_no_hash_is_known(
    release: TinyRelease, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = release.finish() / "payload"
    (folder / "tiny_native-1.0-variants.json").write_text(render_variants_json(release.info))
    assert run_commandline(["explain", "tiny-native", "--find-links", str(folder), "--json"]) == 0
    decision = parse_decision(capsys.readouterr().out)
    assert decision.filename is not None
    assert decision.sha256 is None
