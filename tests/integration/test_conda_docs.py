"""docs/conda.md: its commands run, and its conda commands ask for what they say that one gets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from integration.conda_channels import CondaChannels, create, read_yaml
from integration.environments import ROOT
from integration.test_conda_solve import OWN, build_of

PAGE = (ROOT / "docs" / "conda.md").read_text(encoding="utf-8")
ASSIGNMENT = re.compile(r"(CONDA_[A-Z_]+)=(.*)")
FACTS = {"CONDA_OVERRIDE_CUDA": "cuda", "CONDA_OVERRIDE_ARCHSPEC": "archspec"}
WITH_VALUE = {"-c", "-n", "-f"}


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
    answers = conda_channels.solve(OWN, [question(line) for line in lines])
    wrong = [
        f"{line}: {build_of(answer)}"
        for line, answer in zip(lines, answers, strict=True)
        if not build_of(answer).startswith(line.rpartition(" # ")[2].strip())
    ]
    assert not wrong, "\n".join(wrong)


def test_the_other_commands_run(conda_channels: CondaChannels, tmp_path: Path) -> None:
    commands = [line.removeprefix("$ ") for line in blocks("console")]
    assert len(commands) == 3
    environment = create(conda_channels, tmp_path / "env", {"CONDA_OVERRIDE_ARCHSPEC": "x86_64"})
    for command in commands:
        environment.run(*shlex.split(command), cwd=ROOT)


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)", PAGE))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
