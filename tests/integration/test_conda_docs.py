"""docs/conda.md: its commands run, and its conda commands ask for what they say that one gets."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from integration.conda_channels import (
    AS_ROOT,
    BASELINE,
    WHOLE,
    CondaChannels,
    as_environment,
    read_yaml,
    run_tool,
)
from integration.environments import ROOT, Environment, run
from integration.test_conda_solve import OWN, build_of

PAGE = (ROOT / "docs" / "conda.md").read_text(encoding="utf-8")
ASSIGNMENT = re.compile(r"(CONDA_[A-Z_]+)=(.*)")
FACTS = {"CONDA_OVERRIDE_CUDA": "cuda", "CONDA_OVERRIDE_ARCHSPEC": "archspec"}
WITH_VALUE = {"-c", "-n", "-f"}
PUBLIC, SERVED = "https://conda.anaconda.org/", "file:///srv/channels/"
ABOUT_LOCKS = [
    "conda list --explicit --sha256 > environment.lock",
    "conda create -n horovod --file environment.lock",
    "grep -o 'https://[^#]*' environment.lock | wget -x -nH -P /srv/channels -i -",
    f"sed 's#{PUBLIC}#{SERVED}#' environment.lock > offline.lock",
    "conda create --offline -n horovod --file offline.lock",
]
"""The commands whose outcome is no choice of the solver."""


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return [line for block in found for line in block.splitlines()]


def question(line: str) -> dict[str, object]:
    """What a line asks of the solver: the specs, on the machine that it states."""
    machine = {"archspec": "zen3"}
    words = shlex.split(line.partition("#")[0])
    while match := ASSIGNMENT.fullmatch(words[0]):
        if match[1] in FACTS:
            machine |= {FACTS[match[1]]: match[2]}
        words.pop(0)
    machine = {key: value for key, value in machine.items() if value}
    if "env" in words:
        return {"machine": machine, "specs": read_yaml("environment.yml")["dependencies"]}
    specs = []
    rest = iter(words[2:])
    for word in rest:
        if word in WITH_VALUE:
            next(rest)
        else:
            specs.append(word)
    return {"machine": machine, "specs": specs}


def test_each_conda_command_gets_the_build_that_the_page_says(
    conda_channels: CondaChannels,
) -> None:
    lines = [line for line in blocks("shell") if " # " in line]
    assert len(lines) >= 14
    assert [line for line in blocks("shell") if line not in lines] == ABOUT_LOCKS
    answers = conda_channels.solve(OWN, [question(line) for line in lines])
    wrong = [
        f"{line}: {build_of(answer)}"
        for line, answer in zip(lines, answers, strict=True)
        if not build_of(answer).startswith(line.rpartition(" # ")[2].strip())
    ]
    assert not wrong, "\n".join(wrong)


def test_pixi_gets_what_the_page_says_for_what_is_stated(conda_channels: CondaChannels) -> None:
    """Solved for the statement alone, as pixi does."""
    _, *lines = blocks("toml")
    stated = {
        words[0]: (words[2].strip('"'), line.rpartition(" ")[2])
        for line in lines
        if (words := line.split())
    }
    (cuda, with_cuda), (archspec, without) = stated["cuda"], stated["archspec"]
    machines: list[tuple[dict[str, str], str]] = [
        ({"archspec": archspec, "cuda": cuda}, with_cuda),
        ({"archspec": archspec}, without),
        ({"archspec": "x86_64"}, "nompi_cpu"),
    ]
    specs = read_yaml("environment.yml")["dependencies"]
    answers = conda_channels.solve(
        OWN, [{"machine": machine, "specs": specs} for machine, _ in machines]
    )
    for (_, wanted), answer in zip(machines, answers, strict=True):
        assert build_of(answer).startswith(f"{wanted}_")
    assert "hence `nompi_cpu` everywhere" in PAGE


def test_the_other_commands_run(conda_baseline: tuple[Environment, Path]) -> None:
    commands = [line.removeprefix("$ ") for line in blocks("console")]
    assert len(commands) == 5
    for command in commands:
        if WHOLE or "mpi" not in command:  # the quick session's MPI has no content
            conda_baseline[0].run(*shlex.split(command), cwd=ROOT, env=AS_ROOT)


def test_an_environment_is_made_behind_an_air_gap(
    conda_channels: CondaChannels, conda_baseline: tuple[Environment, Path], tmp_path: Path
) -> None:
    """The page's way, with folders for hosts, and conda's two commands by the client at hand."""
    environment, lock = conda_baseline
    (tmp_path / "environment.lock").write_bytes(lock.read_bytes())
    mirror = tmp_path / "srv" / "channels"
    for line in lock.read_text(encoding="utf-8").splitlines()[1:]:
        inside = line.removeprefix(conda_channels.alias).partition("#")[0]
        (mirror / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(conda_channels.folder / inside, mirror / inside)
    for channel in mirror.iterdir():
        run_tool("conda_packages.py", "index", channel)
    copies = f"{mirror.as_uri()}/"
    rewriting = next(line for line in ABOUT_LOCKS if line.startswith("sed "))
    rewriting = rewriting.replace(PUBLIC, conda_channels.alias).replace(SERVED, copies)
    run("sh", "-c", rewriting, cwd=tmp_path)
    locked, solved = tmp_path / "locked", tmp_path / "solved"
    run_tool("conda_client.py", "create", tmp_path / "offline.lock", locked, env=BASELINE)
    words = ("--channel-alias", copies)
    run_tool("conda_client.py", "create", ROOT / "environment.yml", solved, *words, env=BASELINE)
    records = sorted(path.name for path in environment.folder.glob("conda-meta/*.json"))
    for made in (locked, solved):
        assert sorted(path.name for path in made.glob("conda-meta/*.json")) == records
    two_ranks = ROOT / "recipe" / "two_ranks.py"
    as_environment(locked).run("horovodrun", "-np", "2", "python", two_ranks)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", PAGE))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
