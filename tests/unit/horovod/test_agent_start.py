"""How another host's agent is started: by its own package, in a folder that exists there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from horovod.runner.remote import Order, agent_command
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions
from unit.horovod.test_ending_workers import PATIENCE, Reports, order_of, stand_in


def run_in(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """As sshd does: in the user's home, without the variables of the launcher."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_files_of_the_home_are_no_modules(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong one')")
    ended = run_in(tmp_path, agent_command(sys.executable))
    assert (ended.returncode, ended.stderr) == (0, "")  # without an order it has nothing to do


def test_the_package_is_found_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a b" / "horovod" / "runner"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "remote.py").write_text("def main(*where): print('found', *where)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "a b")
    ended = run_in(Path(os.sep), agent_command(sys.executable, "10.0.0.1:7"))
    assert (ended.returncode, ended.stdout) == (0, "found 10.0.0.1:7\n")


def test_a_folder_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f'cd {tmp_path} && exec sh -c "exec $1"')
    reports = Reports()
    program = [sys.executable, "-c", f"import os; assert os.getcwd() == {str(tmp_path)!r}"]
    order = Order(program, "/not/there", order_of({}).environment, {4: {}})
    workers = RemoteWorkers(
        "elsewhere", SshOptions(None, None), order, reports.on_output, reports.on_exit,
        reports.messages.append, PATIENCE,
    )  # fmt: skip
    workers.start()
    assert reports.ends.get(timeout=PATIENCE) == (4, 0)
    told = f"there is no folder /not/there on this host: its ranks run in {tmp_path}\n"
    assert reports.messages == [told]
    workers.stop()
