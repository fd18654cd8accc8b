"""`explain` and `verify`: what they say, their JSON documents, and what they do after a change."""

import copy
import http.server
import json
import threading
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # has no annotations
import pytest

from unit.selector.gpu_release import GPU_INFO, GPU_RELEASE
from unit.selector.test_overrides import MACHINES, machine
from unit.selector.test_verify import decided, install
from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.decision import DecidedCandidate, Decision, render_decision
from variantwheel_selector.explain import better_lines, decision_lines
from variantwheel_selector.front_end import index_options
from variantwheel_selector.machine_folder import read_machine
from variantwheel_selector.probe import probe
from variantwheel_selector.selection import select
from variantwheel_selector.settings import Settings
from variantwheel_selector.variants_json import render_variants_json
from variantwheel_selector.verify import verify_distribution

SCHEMAS = Path(__file__).parents[3] / "docs/schemas"


@pytest.fixture
def gpu_folder(tmp_path: Path) -> Path:
    """The release with GPU variants as a folder for `--find-links`."""
    folder = tmp_path / "links"
    folder.mkdir()
    for name in GPU_RELEASE.hashes:
        (folder / name).touch()
    text = render_variants_json(GPU_INFO)
    (folder / "tiny_native-1.0-variants.json").write_text(text)
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run_commandline(list(words))
    return code, capsys.readouterr().out


def strict(schema: Any) -> Any:
    """The schema, in which every key that is not documented is a fault."""
    if isinstance(schema, dict):
        found = {key: strict(value) for key, value in schema.items()}
        if "properties" in found and "additionalProperties" not in found:
            found["additionalProperties"] = False
        return found
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def check(name: str, document: Any) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(strict(copy.deepcopy(schema))).validate(document)


@pytest.mark.parametrize("name", ["nvidia_volta", "haswell", "nvidia_hangs", "neoverse_v2", "musl"])
def test_documents_follow_their_schemas(
    name: str, gpu_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captured = ["--json", "--machine", str(MACHINES[name])]
    check("detect", json.loads(run(capsys, "detect", *captured)[1]))
    words = ["explain", "tiny-native", "--find-links", str(gpu_folder), *captured]
    document = json.loads(run(capsys, *words)[1])
    check("explain", document)
    for key in ("yanked", "refusal", "supported", "better"):
        del document[key]
    check("variant-decision", document)


def test_verify_follows_its_schema(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    install(site, "null", project="other_native")
    check("verify", json.loads(run(capsys, "verify", "--json")[1]))
    (site / "other_native-1.0.dist-info/variant.json").write_text("{")
    check("verify", json.loads(run(capsys, "verify", "--json")[1]))


def test_explain_fits_on_one_screen(gpu_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in MACHINES:
        words = ["explain", "tiny-native", "--find-links", str(gpu_folder)]
        _, printed = run(capsys, *words, "--machine", str(MACHINES[name]))
        assert len(printed.splitlines()) <= 50, name


def test_find_links_may_be_a_file_url_and_is_no_page(
    tmp_path: Path, gpu_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = gpu_folder.rename(tmp_path / "ü b.html")
    profile = str(MACHINES["haswell"])
    for place in (links.as_uri(), str(links)):
        words = ["explain", "tiny-native", "--find-links", place, "--machine", profile]
        assert run(capsys, *words)[0] == 0
    page = "http://me:secret@127.0.0.1:1/links"
    for more in (["explain"], ["lock", "--profile", profile, "-o", str(tmp_path / "out")]):
        assert run_commandline([*more, "tiny-native", "--find-links", page]) == 2
        said = capsys.readouterr().err
        assert "takes a folder here, not the page 'http://***@127.0.0.1:1/links'" in said
    assert run_commandline(["explain", "tiny-native", "--find-links", "file://["]) == 2
    assert "'file://[' is no URL" in capsys.readouterr().err


def test_explain_says_what_a_better_choice_takes(
    gpu_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["explain", "tiny-native", "--find-links", str(gpu_folder), "--machine"]
    code, printed = run(capsys, *words, str(MACHINES["nvidia_minor_version"]))
    lines = printed.splitlines()
    assert code == 0
    assert lines[-1].startswith("tiny-native 1.0: cu12 (")
    better = lines[lines.index("for a better one") + 1]
    assert better == "  cu13: an NVIDIA driver for CUDA 13.0 or newer"
    _, printed = run(capsys, *words, str(MACHINES["nehalem"]))
    assert "  x86_64_v3: a CPU of level v3" in printed.splitlines()
    _, printed = run(capsys, *words, str(MACHINES["nvidia_h100"]))
    assert "for a better one" not in printed
    _, printed = run(capsys, *words, str(MACHINES["nvidia_hangs"]))
    assert "it must become known: the process that asks NVIDIA's libraries" in printed


def test_explain_shows_settings_and_refusals(
    gpu_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VARIANTWHEEL_REQUIRE", "gpu")
    words = ["explain", "tiny-native", "--find-links", str(gpu_folder), "--machine"]
    code, printed = run(capsys, *words, str(MACHINES["haswell"]))
    assert code == 1
    assert "  require  gpu (environment variable VARIANTWHEEL_REQUIRE)" in printed.splitlines()
    assert "'x86_64_v3' would be chosen, which is not 'gpu'" in printed
    assert printed.splitlines()[-1] == "tiny-native 1.0: none of those that fit is chosen"
    code, printed = run(capsys, *words, str(MACHINES["haswell"]), "--json")
    assert code == 1
    assert "not 'gpu'" in json.loads(printed)["refusal"]
    monkeypatch.setenv("VARIANTWHEEL_FORBID", "cu13")
    code, printed = run(capsys, *words, str(MACHINES["nvidia_h100"]))
    assert code == 0
    assert "  cu13: the setting must go: forbidden by cu13" in printed


def test_this_machine_and_its_capture_give_the_same_answers(
    release: TinyRelease,
    tmp_path: Path,
    site: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    for place in ("machine", "machine.json"):
        captured = str(tmp_path / place)
        assert run(capsys, "capture", captured)[0] == 0
        for words in (
            ["detect"], ["detect", "--json"], ["explain", "tiny-native", str(release.finish())],
            ["explain", "tiny-native", str(release.root), "--json"], ["verify", "--json"],
        ):  # fmt: skip
            assert run(capsys, *words) == run(capsys, *words, "--machine", captured)
    assert read_machine(tmp_path / "machine") == read_machine(tmp_path / "machine.json")
    assert run_commandline(["capture", str(tmp_path / "machine.json")]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "fits", "change"),
    [
        ("nvidia_h100", "nvidia_minor_version", False, "cuda_version_lower_bound: CUDA 13.0"),
        ("nvidia_h100", "nvidia_driver_on_host", False, "-> nothing"),
        ("nvidia_volta", "nvidia_h100", True, "sm_arch: a device of compute capability 7.0"),
        ("nvidia_h100", "nvidia_version_mismatch", None, "-> nothing"),
        ("haswell", "nehalem", False, "x86_64 :: level: v3, v2, v1 (/proc/cpuinfo) -> v2, v1"),
    ],
)
def test_verify_after_the_driver_or_the_cpu_changed(
    site: Path, before: str, after: str, fits: object, change: str
) -> None:
    decision = select(GPU_RELEASE, Settings(), machine(before)).decision("1.0")
    install(site, None, decision)
    folder = site / "tiny_native-1.0.dist-info"
    assert decision.label is not None
    (folder / "variant.json").write_text(render_variants_json(GPU_INFO.only(decision.label)))
    (folder / "variant-decision.json").write_text(render_decision(decision))
    found = verify_distribution("tiny-native", machine(after))
    assert found.fits is fits
    assert change in "\n".join(f"{name}: {text}" for name, text in found.changes.items())
    unchanged = verify_distribution("tiny-native", machine(before))
    assert (unchanged.fits, unchanged.changes, unchanged.better_label) == (True, {}, None)


def test_explain_says_what_was_decided_when_the_project_was_installed(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = select(GPU_RELEASE, Settings(), machine("nvidia_h100")).decision("1.0")
    install(site, None, decision)
    code, printed = run(capsys, "explain", "tiny_native")
    heading, _, *lines, _, outcome = printed.splitlines()
    assert (code, heading) == (0, "decided when tiny-native 1.0 was installed")
    assert lines == decision_lines(decision)
    assert outcome == f"tiny-native 1.0: {decision.label} ({decision.filename})"
    code, printed = run(capsys, "explain", "tiny-native==1.0", "--json")
    document = json.loads(printed)
    check("explain", document)
    # What no record holds is not known.
    told = {key: document.pop(key) for key in ("yanked", "refusal", "supported", "better")}
    assert set(told.values()) == {None}
    assert (code, document) == (0, decision.to_json())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("other",), "'other' is not installed in this environment"),
        (("tiny-native==2.0",), "tiny-native 1.0 is installed, not tiny-native==2.0"),
        (("tiny-native", "--machine", "h100.json"), "an installation is of this machine"),
        (("chosen-by-hand",), "no selector chose the wheel of chosen-by-hand 1.0"),
    ],
)
def test_explain_of_what_no_decision_is_known_of(
    site: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    install(site, "x86_64_v3", decided("x86_64_v3"))
    install(site, "x86_64_v3", project="chosen_by_hand")
    assert run_commandline(["explain", *words]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert "--index URL, --find-links DIR or an sdist" in said


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, ""),
        ({"PIP_INDEX_URL": "https://u:p@host/simple"}, "--index-url https://host/simple"),
        ({"PIP_EXTRA_INDEX_URL": "https://a/s https://b/s"},
         "--extra-index-url https://a/s --extra-index-url https://b/s"),
        ({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/mirror"}, "--find-links /mirror --no-index"),
        ({"UV_DEFAULT_INDEX": "https://a/s"}, ""),
        ({"UV_DEFAULT_INDEX": "https://a/s", "UV_INDEX": "own=https://b/s",
          "UV_FIND_LINKS": "/x,/y", "UV_INTERNAL__BUILD_DIR": "/b", "PIP_NO_INDEX": "1"},
         "--index-url https://a/s --extra-index-url https://b/s --find-links /x --find-links /y"),
    ],
)  # fmt: skip
def test_index_options_of_the_installation(environment: dict[str, str], options: str) -> None:
    assert " ".join(index_options(environment)) == options


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({"PIP_FIND_LINKS": "rel ./a ~/b /c file:///d", "HOME": "/home/me"},
         "/at/rel /at/a /home/me/b /c file:///d"),
        ({"PIP_INDEX_URL": "./s", "PIP_EXTRA_INDEX_URL": "https://b/s"}, "/at/s https://b/s"),
        ({"UV_FIND_LINKS": "rel,https://host/f", "UV_INTERNAL__BUILD_DIR": "/b"},
         "/at/rel https://host/f"),
        ({"UV_INDEX": "own=./s", "UV_DEFAULT_INDEX": "../d", "UV_INTERNAL__BUILD_DIR": "/b"},
         "/at/../d /at/s"),
    ],
)  # fmt: skip
def test_index_options_hold_in_every_folder(environment: dict[str, str], options: str) -> None:
    assert index_options(environment, "/at")[1::2] == tuple(options.split())


def test_repair_commands_take_the_release_from_where_it_was(site: Path) -> None:
    chosen = select(GPU_RELEASE, Settings(), machine("nvidia_h100"))
    decision = chosen.decision(
        "1.0", ["--index-url", "https://host/simple", "--find-links", "/a b"]
    )
    install(site, "x86_64_v3", decision, installer="uv")
    found = verify_distribution("tiny-native", machine("nehalem"))
    where = "--index-url https://host/simple --find-links '/a b' tiny-native==1.0"
    assert list(found.repair_commands.items()) == [
        ("uv", f"uv pip install --no-cache --reinstall --no-deps {where}"),
        ("pip", f"pip install --no-cache-dir --force-reinstall --no-deps {where}"),
    ]
    direct = {"url": "file:///srv/tiny_native-1.0.tar.gz", "archive_info": {}}
    (site / "tiny_native-1.0.dist-info/direct_url.json").write_text(json.dumps(direct))
    command = verify_distribution("tiny-native", machine("nehalem")).repair_command
    assert command.endswith("'tiny-native @ file:///srv/tiny_native-1.0.tar.gz'")


def test_a_machine_that_is_probed_for_people_has_libraries() -> None:
    assert "libraries.txt" in probe(libraries=True).texts
    assert "libraries.txt" not in probe().texts


def test_detect_shows_what_all_profiles_support(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(MACHINES[name]) for name in ("nvidia_h100", "nvidia_volta")]
    monkeypatch.setenv("VARIANTWHEEL_PROFILE", ":".join(paths))
    document = json.loads(run(capsys, "detect", "--json")[1])
    check("detect", document)
    sm_arch = document["namespaces"]["nvidia"]["features"][2]
    assert set(sm_arch["each_device"]) == {"nvidia_h100", "nvidia_volta"}
    assert document["assumed"]["profile"].startswith(paths[0])


class _Nothing(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


def test_explain_hints_at_what_is_wrong_with_an_index(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Nothing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        index = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        code = run_commandline(["explain", "Tiny.Native", "--index", index])
        printed = capsys.readouterr().err
        server.shutdown()
    assert code == 2
    assert "404" in printed
    assert f"the index has no page {index}/tiny-native/: check the project's name" in printed
    assert f"{index}/simple perhaps" in printed


def test_what_was_said_of_one_variant_is_not_said_again_of_the_next() -> None:
    why = "no NVIDIA device file and no driver, in many more words than would fit twice"
    needs = ("nvidia :: sm_arch :: 90_real", "nvidia :: cuda_version_lower_bound :: 13.0")
    candidates = [
        DecidedCandidate(label, accepted=False, reasons=tuple(f"needs {n}: {why}" for n in found))
        for label, found in (("cu13", needs), ("cu12", needs[::-1]))
    ]
    decision = Decision(
        "p", "1", None, forced=False, filename=None, sha256=None, candidates=tuple(candidates)
    )
    _, first, second = decision_lines(decision)
    assert first.endswith(f"needs {needs[0]}; needs {needs[1]}: {why}")
    assert second.endswith(f"needs {needs[1]}; needs {needs[0]}: as for cu13")
    assert better_lines([("cu13", [why, why]), ("cu12", [why]), ("rocm", ["x", "y"])]) == [
        f"  cu13, cu12: {why}",
        "  rocm: x; and y",
    ]
