"""Every command of the README does what it says: run here, or one of the sessions that CI runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.environments import ROOT, Environment, Release

SERVED = "http://127.0.0.1:8000/simple/"
NEEDS_USUAL_INDEX = "pip install numpy"


def _commands(page: Path) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = "".join(blocks).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def test_sessions_that_the_readme_names_are_run_by_the_gate() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    sessions = [command for command in _commands(ROOT / "README.md") if command.startswith("./dev")]
    assert sessions == ["./dev demo", "./dev tests"]
    for command in sessions:
        assert f"step {command}\n" in gate


def test_the_users_commands(release: Release, environment: Environment) -> None:
    commands = _commands(ROOT / "README.md")
    begin = commands.index(f"pip install --index-url {SERVED} horovod-variants")
    end = next(i for i, command in enumerate(commands) if command.startswith("horovodrun -np"))
    assert end - begin == 5
    for command in commands[begin : end + 1]:
        words = command.replace(SERVED, release.index_url).split()
        if command == NEEDS_USUAL_INDEX:
            usual = {**environment.variables}
            usual.pop("PIP_CONFIG_FILE")
            Environment(environment.folder, usual).run(*words)
        else:
            environment.run(*words, cwd=ROOT)


def test_the_static_server_command_serves_the_release(release: Release) -> None:
    (command,) = [c for c in _commands(ROOT / "README.md") if "http.server" in c]
    folder = command.split("--directory ")[1].split()[0]
    assert folder == ".dev/demo/site", "where the demo leaves it"
    assert (release.site / "simple" / "index.html").is_file()


def test_the_maintainers_commands(release: Release, tmp_path: Path) -> None:
    """On the wheels that the release fixture built: building them again would prove nothing new."""
    commands = [c for c in _commands(ROOT / "README.md") if c.startswith("variantwheel")]
    verbs = [command.split()[1] for command in commands]
    assert verbs[-5:] == ["matrix", "build", "check", "sdist", "index"]
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "VERSION", "LICENSE", "README.md", "CMakeLists.txt"):
        shutil.copy(ROOT / name, project)
    for name in ("src", "cmake", "variants"):
        shutil.copytree(ROOT / name, project / name)
    # What `build` leaves behind: neither the sdist nor what the release requires, which come later.
    later = shutil.ignore_patterns("*.tar.gz", "variantwheel_selector-*", "cloudpickle-*")
    shutil.copytree(release.folder, project / "release", ignore=later)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands[-5:]:
        if command.split()[1] == "build":
            continue
        subprocess.run(["sh", "-c", command], cwd=project, env=environment, check=True, timeout=900)
    assert (project / "site" / "simple" / "horovod-variants" / "index.html").is_file()


@pytest.mark.parametrize(
    "page", ["README.md", "docs/status.md", "docs/architecture.md", "docs/installing.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target
