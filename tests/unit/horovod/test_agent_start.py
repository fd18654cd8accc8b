"""How another host's agent is started: by its own package, in a folder that exists there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from horovod.runner.remote import GREETING, STARTED, Order, agent_command, skip_preamble
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions
from unit.horovod.test_ending_workers import PATIENCE, Reports, order_of, remote, stand_in


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
    assert ended.returncode == 127
    assert ended.stderr.startswith("no order has come: ")


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
    told = f"elsewhere: there is no folder /not/there on this host: its ranks run in {tmp_path}\n"
    assert reports.messages == [told]
    workers.stop()


@pytest.mark.parametrize("swallow", ["exec 0</dev/null", "head -c 1000 >/dev/null"])
def test_a_login_that_has_read_the_order_is_told(
    swallow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f'{swallow}; exec sh -c "exec $1"')
    reports = Reports()
    workers = remote(reports)
    workers.start()
    assert {reports.ends.get(timeout=PATIENCE) for _ in range(2)} == {(4, 127), (5, 127)}
    workers.stop()
    first, last = reports.messages
    assert first.startswith("elsewhere: no order has come: something that a login runs here")
    assert last == "the connection to elsewhere ended with code 127 before its ranks 4, 5 did\n"


def test_an_agent_that_waits_for_its_order_says_that_it_is_there() -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", agent_command(sys.executable)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as agent:  # fmt: skip
        assert agent.stdout is not None
        assert skip_preamble(agent.stdout, STARTED, GREETING) == STARTED
        agent.communicate(timeout=PATIENCE)


def test_an_agent_without_an_order_is_not_taken_for_a_host_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"printf '{STARTED.decode()}'; exec sleep 600")
    reports = Reports()
    workers = remote(reports, patience=3.0)
    workers.start()
    assert {reports.ends.get(timeout=PATIENCE) for _ in range(2)} == {(4, 255), (5, 255)}
    (message,) = reports.messages
    assert message.startswith("the agent on elsewhere has got no order within 3 seconds")
    assert "does something that a login runs there, as ~/.bashrc, read standard input?" in message


@pytest.mark.parametrize(
    ("end", "code", "absent"),
    [
        ("exec /not/there", 127, True),
        ("exit 1", 1, True),
        ("exit 2", 2, False),
        (f"exec {sys.executable} -S -c 'import horovod.not_there'", 1, True),
    ],
)
def test_a_host_without_the_agents_program_is_told_what_it_needs(
    end: str, code: int, *, absent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"echo words >&2; {end}")
    reports = Reports()
    workers = remote(reports)
    workers.start()
    assert {reports.ends.get(timeout=PATIENCE) for _ in range(2)} == {(4, code), (5, code)}
    workers.stop()
    first, *_, last = reports.messages
    assert first == "elsewhere: words\n"
    assert last.startswith(f"the connection to elsewhere ended with code {code} before its ranks")
    needs = f"horovodrun runs {sys.executable} there; it, and horovod-variants for it, have to be"
    assert (needs in last) is absent


def test_an_agent_runs_without_a_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, 'exec 2>&-; exec sh -c "exec $1"')
    reports = Reports()
    program = [sys.executable, "-c", "print('from afar')"]
    order = Order(program, "/not/there", order_of({}).environment, {4: {}})
    heard: list[bytes] = []
    workers = RemoteWorkers(
        "elsewhere", SshOptions(None, None), order, lambda _rank, _stream, data: heard.append(data),
        reports.on_exit, reports.messages.append, PATIENCE,
    )  # fmt: skip
    workers.start()
    assert reports.ends.get(timeout=PATIENCE) == (4, 0)
    assert (b"".join(heard), reports.messages) == (b"from afar\n", [])
    workers.stop()
