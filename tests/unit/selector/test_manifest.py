"""payload/manifest.json and variant-decision.json."""

import json
from typing import Any

import pytest

from unit.selector.tiny_release import TinyRelease
from variantwheel_selector.decision import DecidedCandidate, Decision, render_decision
from variantwheel_selector.decision_reading import parse_decision
from variantwheel_selector.errors import DecisionError, ManifestError
from variantwheel_selector.manifest import SourceProject, parse_manifest, render_manifest


@pytest.mark.parametrize(
    "source",
    [
        None,
        SourceProject("scikit_build_core.build", None, ("scikit-build-core==1.1.2",)),
        SourceProject("own:Backend.hooks", (".", "build/inner"), ()),
    ],
)
def test_manifest_comes_back(release: TinyRelease, source: SourceProject | None) -> None:
    release.source = source
    text = render_manifest(release.manifest)
    assert parse_manifest(text) == release.manifest
    release.wheels.reverse()
    assert render_manifest(release.manifest) == text


def _change(document: Any, path: str, value: object) -> None:
    *folders, last = path.split(".")
    for key in folders:
        document = document[int(key) if key.isdigit() else key]
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("schema", 3, "schema 3 is not known here, only 1 to 2"),
        ("extra", 1, "unknown key 'extra'"),
        ("name", "other", "a wheel of another release"),
        ("version", "1.1", "a wheel of another release"),
        ("name", "tiny/../native", "name: .* does not match"),
        ("name", "tiny\x1b[31m", "name: .* does not match"),
        ("name", "tiny-native-", "name: .* does not match"),
        ("version", "1.0/../../x", "version: .* does not match"),
        ("version", "1.0\n", "version: .* does not match"),
        ("version", "", "version: .* does not match"),
        ("wheels.0.sha256", "0" * 63, "does not match"),
        ("wheels.0.size", 0, "less than 1"),
        ("wheels.0.size", True, "expected an integer"),
        ("wheels.0.label", "x86_64_v3", "manifest says label"),
        ("wheels.0.filename", "../tiny_native-1.0-py3-none-any-null.whl", "invalid wheel"),
        ("wheels.0.filename", "tiny_native-1.0-py3-none-any-x86_64_v3.whl", "manifest says label"),
        ("variants.variants", {"null": {}}, "not among the variants"),
        ("variants.$schema", "x", "manifest.json.variants.*unknown schema"),
        ("source", {"backend": "a b", "requires": []}, "does not match"),
        ("source", {"backend": "a", "requires": [], "backend_path": ["../x"]}, "leads out"),
        ("source", {"backend": "a", "requires": [], "backend_path": ["/x"]}, "leads out"),
    ],
)
def test_broken_manifests_are_refused(
    release: TinyRelease, path: str, value: object, words: str
) -> None:
    document = json.loads(render_manifest(release.manifest))
    _change(document, path, value)
    with pytest.raises(ManifestError, match=words):
        parse_manifest(json.dumps(document))


DECISION = Decision(
    project="tiny-native",
    version="1.0",
    label="x86_64_v3",
    forced=False,
    filename="tiny_native-1.0-py3-none-any-x86_64_v3.whl",
    sha256="0" * 64,
    settings={"source-build": "allow (config setting 'source-build')"},
    machine={"machine": "x86_64"},
    candidates=(
        DecidedCandidate(
            "x86_64_v3",
            accepted=True,
            reasons=("fits",),
            properties=("x86_64 :: level :: v3",),
            filename="a.whl",
        ),
        DecidedCandidate("null", accepted=False, reasons=("no wheel",)),
        DecidedCandidate(None, accepted=False, reasons=("no wheel",)),
    ),
    selector_version="0.1.0",
)


def test_decision_comes_back() -> None:
    assert parse_decision(render_decision(DECISION)) == DECISION


def test_a_later_selector_may_record_more() -> None:
    document = json.loads(render_decision(DECISION)) | {"more": 1}
    del document["settings"]
    assert parse_decision(json.dumps(document)).label == "x86_64_v3"


@pytest.mark.parametrize(
    ("path", "value"), [("schema", 2), ("label", 1), ("candidates", {}), ("machine.machine", 1)]
)
def test_broken_decisions_are_refused(path: str, value: object) -> None:
    document = json.loads(render_decision(DECISION))
    _change(document, path, value)
    with pytest.raises(DecisionError):
        parse_decision(json.dumps(document))
