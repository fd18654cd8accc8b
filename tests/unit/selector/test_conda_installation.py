"""A variant that conda installed: what its records say, and the command that mends a misfit."""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from horovod import _installation
from unit.selector.test_verify import decided, install, machine_of_level
from variantwheel_selector.cli import run_commandline
from variantwheel_selector.cli.verify import run as run_verify
from variantwheel_selector.conda_installation import find_conda_installation
from variantwheel_selector.decision import render_decision
from variantwheel_selector.verify import verify_distribution

BUILD = "nompi_x86_64_v3_py311h2eadb46_250"
CHANNEL = "https://example.org/channels/hvd"


@pytest.fixture
def prefix(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in which conda installed tiny-native; its path has a blank."""
    made = tmp_path / "my env"
    monkeypatch.setattr(sys, "prefix", str(made))
    write_record(made, "tiny-native", "1.0", BUILD)
    write_record(made, "tiny-native-gpu", "1.0", "0")
    install(site, "x86_64_v3", installer="conda")
    return made


def write_record(
    prefix: Path,
    name: str,
    version: str,
    build: str,
    channel: str = CHANNEL,
    more: Mapping[str, object] = MappingProxyType({}),
) -> Path:
    folder = prefix / "conda-meta"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{version}-{build}.json"
    record = {
        "name": name, "version": version, "build": build, "subdir": "linux-64",
        "channel": f"{channel}/", **more,
    }  # fmt: skip
    file.write_text(json.dumps(record), encoding="utf-8")
    return file


def test_a_misfit_is_mended_by_conda(prefix: Path) -> None:
    found = verify_distribution("tiny-native", machine_of_level("v2"))
    assert found.fits is False
    assert found.repair_command == (
        f"conda install --prefix '{prefix}' --channel {CHANNEL} --force-reinstall tiny-native=1.0"
    )
    assert found.to_json()["conda"] == {
        "prefix": str(prefix), "build": BUILD, "channel": CHANNEL, "by_pixi": False,
    }  # fmt: skip
    assert verify_distribution("tiny-native", machine_of_level("v3")).fits is True


def test_the_command_names_the_client_and_all_channels(prefix: Path) -> None:
    """As conda writes them: with the platform, and a token that is nobody's business."""
    forge = "https://conda.example.org/conda-forge"
    for number in range(3):
        write_record(
            prefix, f"other{number}", "1", "0", f"{forge}/{'noarch' if number else 'linux-64'}"
        )
    secret = CHANNEL.replace("//", "//me:pass@").replace("/channels", "/t/abc-123/channels")
    write_record(prefix, "tiny-native", "1.0", BUILD, f"{secret}/linux-64")
    history = prefix / "conda-meta" / "history"
    for program, client in [
        ("/opt/conda/bin/conda-env", "conda"), ("micromamba", "micromamba"), ("/x/mamba", "mamba"),
    ]:  # fmt: skip
        history.write_text(f"# cmd: conda create\n==> now <==\n# cmd: {program} install -y x\n")
        found = find_conda_installation("tiny-native", prefix)
        assert found is not None
        assert found.repair_command == (
            f"{client} install --prefix '{prefix}' --channel {CHANNEL} --channel {forge} "
            "--force-reinstall tiny-native=1.0"
        )


@pytest.mark.parametrize(
    "stated",
    [
        f"{CHANNEL}/linux-64?token=hunter2",
        f"{CHANNEL}?token=hunter2/linux-64",
        f"{CHANNEL}/linux-64#hunter2",
        CHANNEL.replace("//", "//me:hun/ter2@"),
        CHANNEL.replace("//", "//hunter2@"),
        CHANNEL.replace("/channels", "/t/hunter2/channels"),
        f"{CHANNEL}/t/hunter2",
    ],
)
def test_what_may_be_secret_in_a_channel_is_not_told(prefix: Path, stated: str) -> None:
    write_record(prefix, "tiny-native", "1.0", BUILD, stated)
    found = find_conda_installation("tiny-native", prefix)
    assert found is not None
    assert found.channel == CHANNEL
    assert "ter2" not in repr(found) + found.repair_command


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"name":' * 100_000, "1" * 10_000],
    ids=["deep list", "deep table", "long number"],
)
def test_records_that_no_one_can_read_are_passed_over(prefix: Path, text: str) -> None:
    (prefix / "conda-meta" / "other-1-0.json").write_text(text, encoding="utf-8")
    (prefix / "conda-meta" / "tiny-native-0-0.json").write_text(text, encoding="utf-8")
    found = find_conda_installation("tiny-native", prefix)
    assert found is not None
    assert found.build == BUILD


def test_a_virtual_environment_on_top_is_mended_where_the_package_is(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(prefix))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    found = verify_distribution("tiny-native", machine_of_level("v2"))
    assert f"--prefix '{prefix}' --channel {CHANNEL} " in found.repair_command


def test_an_environment_of_pixi_is_mended_by_pixi(prefix: Path) -> None:
    (prefix / "conda-meta" / "pixi").write_text("{}", encoding="utf-8")
    found = verify_distribution("tiny-native", machine_of_level("v2"))
    assert found.repair_command == (
        "pixi update tiny-native  # once [system-requirements] states this machine, which is what "
        "pixi solves for"
    )


def test_without_records_the_command_still_names_conda(prefix: Path) -> None:
    for file in (prefix / "conda-meta").glob("tiny-native-1.0-*"):
        file.write_text("not JSON", encoding="utf-8")
    found = verify_distribution("tiny-native", machine_of_level("v2"))
    assert found.conda is None
    assert found.repair_command == "conda install --force-reinstall tiny-native=1.0"


def test_pip_inside_a_conda_environment_is_pips(prefix: Path, site: Path) -> None:
    (site / "tiny_native-1.0.dist-info" / "INSTALLER").write_text("pip\n", encoding="utf-8")
    found = verify_distribution("tiny-native", machine_of_level("v2"))
    assert found.conda is None
    assert found.repair_command.startswith("pip install ")


@pytest.mark.parametrize("damaged", [False, True])
def test_a_decision_that_pip_left_behind_is_not_condas(
    site: Path, prefix: Path, capsys: pytest.CaptureFixture[str], *, damaged: bool
) -> None:
    text = "not JSON" if damaged else render_decision(decided("x86_64_v3"))
    (site / "tiny_native-1.0.dist-info" / "variant-decision.json").write_text(text)
    found = verify_distribution("tiny-native", machine_of_level("v4"))
    assert (found.label, found.fits) == ("x86_64_v3", True)
    assert (found.decision, found.better_label, dict(found.changes)) == (None, None, {})
    assert run_commandline(["explain", "tiny-native"]) == 2
    assert "no selector chose the wheel of tiny-native 1.0" in capsys.readouterr().err


def test_another_package_with_the_same_beginning_is_not_it(prefix: Path) -> None:
    (prefix / "conda-meta" / f"tiny-native-1.0-{BUILD}.json").unlink()
    assert find_conda_installation("tiny-native") is None
    gpu = find_conda_installation("tiny-native-gpu")
    assert gpu is not None
    assert gpu.build == "0"


def test_verify_shows_build_and_channel(
    prefix: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "variantwheel_selector.cli.verify.chosen_machine", lambda _: machine_of_level("v3")
    )

    assert run_verify(Namespace(project="tiny-native", json=False)) == 0
    assert f"conda package, build {BUILD} of {CHANNEL}" in capsys.readouterr().out


@pytest.mark.parametrize("by_pixi", [False, True])
def test_horovod_names_the_same_command_as_the_selector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_pixi: bool
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    info = tmp_path / "site/horovod_variants-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: horovod-variants\nVersion: 0.1.0\n"
    )
    (info / "INSTALLER").write_text("conda\n")
    monkeypatch.syspath_prepend(str(info.parent))
    write_record(tmp_path, _installation.DISTRIBUTION, _installation.version(), BUILD)
    if by_pixi:
        (tmp_path / "conda-meta" / "pixi").touch()
    found = find_conda_installation(_installation.DISTRIBUTION)
    assert found is not None
    assert _installation.repair_command() == found.repair_command
