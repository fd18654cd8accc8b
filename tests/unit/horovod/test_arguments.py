"""The command line of `horovodrun`."""

import itertools
import re

import pytest

from horovod._unused_settings import UNUSED
from horovod.runner.arguments import REFUSED_FLAGS, is_elastic, make_parser, parse_args
from horovod.runner.run_function import _HorovodArgs
from horovod.runner.ssh_options import SshOptions, forwarded, ssh_command
from horovod.runner.variable_flags import FLAGS, variables_of


def test_the_command_keeps_its_own_flags() -> None:
    args = parse_args(
        ["-np", "2", "-H", "a:1,b:1", "python", "-v", "train.py", "--mpi", "-np", "9"]
    )
    assert args.num_proc == 2
    assert args.hosts == "a:1,b:1"
    assert args.command == ["python", "-v", "train.py", "--mpi", "-np", "9"]


def test_two_dashes_may_stand_before_the_command() -> None:
    assert parse_args(["-np", "1", "--", "./run"]).command == ["./run"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["FOO=1", "python", "x.py"], ["env", "FOO=1", "python", "x.py"]),
        (["--", "A=", "_B2=c=d e", "./run"], ["env", "A=", "_B2=c=d e", "./run"]),
        (["./run", "FOO=1"], ["./run", "FOO=1"]),
        (["2=1", "x"], ["2=1", "x"]),
    ],
)
def test_variables_may_stand_before_the_command(words: list[str], command: list[str]) -> None:
    assert parse_args(["-np", "1", *words]).command == command


def test_flags_may_be_abbreviated() -> None:
    args = parse_args(
        [
            "-n", "2", "--min-np", "1", "--slots", "3", "--black", "5", "9", "--host-disc=s.sh",
            "-p22", "--cycle", "2", "--verb", "--no-hierarchical-allr",
            "python", "x.py", "--slots", "7", "--host", "--time", "-np", "--", "--verb",
        ]
    )  # fmt: skip
    assert (args.num_proc, args.min_num_proc, args.slots, args.ssh_port) == (2, 1, 3, 22)
    assert (args.cooldown_range, args.host_discovery_script) == ([5.0, 9.0], "s.sh")
    assert variables_of(args) == {"HOROVOD_CYCLE_TIME": "2", "HOROVOD_HIERARCHICAL_ALLREDUCE": "0"}
    assert args.verbose
    assert args.command == [
        "python", "x.py", "--slots", "7", "--host", "--time", "-np", "--", "--verb",
    ]  # fmt: skip


def test_flags_that_nothing_looks_at_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    args = parse_args(
        [
            "-np", "4", "--max-np", "3", "--slots-per-host", "2", "--elastic-timeout", "9",
            "--reset-limit", "0", "--blacklist-cooldown-range", "9", "3", "--mpi-args=-v",
            "--binding-args", "x", "python",
        ]
    )  # fmt: skip
    assert not is_elastic(args)
    mpi_args, binding_args, slots, *elastic = capsys.readouterr().err.splitlines()
    assert slots.endswith("--slots-per-host has no effect without --host-discovery-script")
    assert [line.split()[2] for line in elastic] == [
        "--max-np", "--elastic-timeout", "--reset-limit", "--blacklist-cooldown-range",
    ]  # fmt: skip
    assert all("no effect without --min-np or --host-discovery" in line for line in elastic)
    assert mpi_args == "horovodrun: warning: --mpi-args has no effect without --mpi"
    assert binding_args == "horovodrun: warning: --binding-args has no effect without --mpi"
    parse_args(["-np", "2", "--min-np", "1", "--slots-per-host", "2", "x"])
    assert "--slots-per-host has no effect" in capsys.readouterr().err
    assert is_elastic(parse_args(["-np", "2", "--min-np", "1", "--reset-limit", "0", "x"]))
    parse_args(["-np", "2", "--host-discovery-script", "y", "--slots-per-host", "2", "x"])
    parse_args(["-np", "2", "--mpi", "--mpi-args=-v", "x"])
    assert capsys.readouterr().err == ""


def test_horovods_spellings() -> None:
    args = parse_args(
        [
            "--num-proc",
            "3",
            "-hostfile",
            "h",
            "-p",
            "22",
            "-i",
            "key",
            "-prefix-timestamp",
            "--start-timeout",
            "9",
            "--network-interface",
            "a",
            "--network-interfaces",
            "b,c",
            "--gloo",
            "--disable-cache",
            "--output-filename",
            "out",
            "--verbose",
            "x",
        ]
    )
    assert (args.num_proc, args.hostfile, args.ssh_port, args.ssh_identity_file) == (
        3,
        "h",
        22,
        "key",
    )
    assert args.prefix_output_with_timestamp
    assert args.start_timeout == 9.0
    assert args.nics == ["a", "b", "c"]


def refusal_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        parse_args(arguments)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("flag", REFUSED_FLAGS)
def test_what_is_not_real_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal_of(["-np", "2", flag, "1", "python", "x.py"], capsys)
    assert f"{flag} {REFUSED_FLAGS[flag]}" in message


def test_help_lists_the_flags_that_have_an_effect() -> None:
    text = make_parser().format_help()
    listed = {flag.flag for flag in FLAGS if re.search(rf"^  {flag.flag}\b", text, re.MULTILINE)}
    without_effect = {item.setting.name for item in UNUSED}
    for variable in {flag.variable for flag in FLAGS}:
        flags = {flag.flag for flag in FLAGS if flag.variable == variable}
        assert bool(flags & listed) == (variable not in without_effect), variable
    assert "  --timeline-filename FILE\n" in text
    assert "  --log-level LEVEL " in text


def test_flags_for_variables() -> None:
    args = parse_args(
        [
            "-np", "2", "--fusion-threshold-mb", "32", "--cycle-time-ms", "3.5",
            "--cache-capacity", "0", "--no-hierarchical-allreduce", "--hierarchical-allgather",
            "--autotune", "--no-stall-check", "--num-nccl-streams", "2", "--log-level", "INFO",
            "--log-without-timestamp", "--log-with-timestamp", "--gloo-timeout-seconds", "5",
            "--tcp", "python", "train.py", "--autotune-log-file", "mine",
        ]
    )  # fmt: skip
    assert variables_of(args) == {
        "HOROVOD_FUSION_THRESHOLD": str(32 * 2**20),
        "HOROVOD_CYCLE_TIME": "3.5",
        "HOROVOD_CACHE_CAPACITY": "0",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "0",
        "HOROVOD_HIERARCHICAL_ALLGATHER": "1",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_NUM_NCCL_STREAMS": "2",
        "HOROVOD_LOG_LEVEL": "INFO",
        "HOROVOD_LOG_HIDE_TIME": "0",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "5",
        "NCCL_IB_DISABLE": "1",
    }
    assert variables_of(parse_args(["-np", "1", "x"])) == {}


def test_what_is_read_has_horovods_names() -> None:
    names = [
        "autotune", "autotune_bayes_opt_max_samples", "autotune_gaussian_process_noise",
        "autotune_log_file", "autotune_steps_per_sample", "autotune_warmup_samples", "binding_args",
        "cache_capacity", "check_build", "command", "config_file", "cooldown_range",
        "cycle_time_ms", "disable_cache", "elastic_timeout", "executable", "fusion_threshold_mb",
        "gloo_timeout_seconds", "hierarchical_allgather", "hierarchical_allreduce",
        "host_discovery_script", "hostfile", "hosts", "log_level", "log_with_timestamp",
        "max_num_proc", "min_num_proc", "mpi_args", "mpi_threads_disable", "nics", "no_stall_check",
        "num_nccl_streams", "num_proc", "output_filename", "prefix_output_with_timestamp",
        "reset_limit", "run_func", "slots", "ssh_identity_file", "ssh_port",
        "stall_check_shutdown_time_seconds", "stall_check_warning_time_seconds", "start_timeout",
        "tcp_flag", "thread_affinity", "timeline_filename", "timeline_mark_cycles",
        "torus_allreduce", "use_gloo", "use_jsrun", "use_mpi", "verbose",
    ]  # fmt: skip
    args = parse_args(["-np", "1", "x"])
    assert sorted(vars(args)) == sorted([*names, "json", "timeline_all_ranks"])
    assert sorted(vars(_HorovodArgs())) == sorted([*vars(args), "nic"])
    assert _HorovodArgs().num_proc == 1
    read = parse_args(
        [
            "-np", "2", "--cycle-time-ms", "2", "--no-stall-check", "--no-autotune", "--tcp",
            "--fusion-threshold-mb", "0.5", "--log-hide-timestamp", "--timeline-filename", "t", "x",
        ]
    )  # fmt: skip
    assert (read.cycle_time_ms, read.no_stall_check, read.autotune) == (2, True, False)
    assert (read.tcp_flag, read.fusion_threshold_mb, read.timeline_filename) == (True, 0.5, "t")
    assert read.log_with_timestamp is False
    assert read.hierarchical_allreduce is None


@pytest.mark.parametrize(
    "flag",
    [
        "--fusion-threshold-mb", "--cycle-time-ms", "--cache-capacity", "--autotune-warmup-samples",
        "--autotune-steps-per-sample", "--autotune-bayes-opt-max-samples",
        "--autotune-gaussian-process-noise", "--stall-check-warning-time-seconds",
        "--stall-check-shutdown-time-seconds", "--num-nccl-streams", "--thread-affinity",
        "--gloo-timeout-seconds",
    ],
)  # fmt: skip
def test_zero_is_a_value_wherever_horovod_takes_it(flag: str) -> None:
    (value,) = variables_of(parse_args(["-np", "2", flag, "0", "x"])).values()
    assert float(value) == 0


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--fusion-threshold-mb", "-1", "it must be a whole number, 0 or more"),
        ("--fusion-threshold-mb", "many", "'many' is not a number"),
        ("--cycle-time-ms", "nan", "it must be a number, 0 to 3600000"),
        ("--log-level", "loud", "it must be trace, debug, info, warning, error, fatal"),
        ("--gloo-timeout-seconds", "-1", "it must be a number, 0 or more"),
        ("--num-nccl-streams", "-1", "it must be a whole number, 0 or more"),
        ("--thread-affinity", "-1", "-1 is not accepted: it must be >= 0"),
    ],
)
def test_values_of_flags_are_checked(
    flag: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal_of(["-np", "2", flag, value, "x"], capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-np", "2", "--min-np", "3"], "--min-np 3 <= -np 2"),
        (["-np", "4", "--min-np", "1", "--max-np", "3"], "-np 4 <= --max-np 3 does not hold"),
        (["--min-np", "2", "--blacklist-cooldown-range", "9", "3"], "MIN is above MAX"),
    ],
)
def test_elastic_flags_that_contradict_each_other(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal_of([*arguments, "x"], capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-np", "2", "--min-np", "1", "--mpi", "x"], "needs the built-in launcher"),
        (["-np", "2", "--gloo", "--mpi", "x"], "not allowed with argument"),
        (["python", "x.py"], "required: -np/--num-proc"),
        (["-np", "2"], "there is no command to run"),
        (["-np", "2", "FOO=1", "BAR=2"], "there is no command to run"),
        (["-np", "2", "--host", "a:2", "x"], "ambiguous option: --host could match"),
        (["-np", "2", "--fly", "x"], "unrecognized arguments: --fly"),
        (["-np", "0", "x"], "is not a whole number, 1 or more"),
        (["-np", "2", "--start-timeout", "inf", "x"], "is not a number of seconds above 0"),
        (["-np", "2", "--json", "x"], "--json goes with --check-build"),
        (["-np", "2", "-H", "a:2", "-hostfile", "h", "x"], "not allowed with argument"),
    ],
)
def test_bad_command_lines(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usage, error = refusal_of(arguments, capsys).splitlines()
    assert usage.endswith(" -np N [flags] command ...; --help tells the flags")
    assert message in error


def test_check_build_needs_no_number_of_ranks() -> None:
    assert parse_args(["-cb", "--json"]).check_build


def test_ssh_carries_neither_secret_nor_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "KEPT_HERE")
    command = ssh_command("node-1", SshOptions(2222, "key"), "/opt/my python/bin/python")
    assert command[0] == "ssh"
    assert command[-2] == "node-1"
    assert "horovod.runner.remote" in command[-1]
    assert "KEPT_HERE" not in command[-1]
    for pair in (("-p", "2222"), ("-i", "key"), ("-o", "BatchMode=yes")):
        assert pair in itertools.pairwise(command)


def test_connections_to_hosts_that_have_vanished_end() -> None:
    command = ssh_command("node-1", SshOptions(None, None), "python")
    options = dict(word.split("=", 1) for word in command if "=" in word)
    assert int(options["ServerAliveInterval"]) > 0
    assert int(options["ServerAliveCountMax"]) > 0


def test_what_belongs_to_this_host_stays_here() -> None:
    environment = {
        "PATH": "/bin",
        "MY_FLAG": "1",
        "CUDA_VISIBLE_DEVICES": "3",
        "BASH_FUNC_f%%": "() { :; }",
        "OLDPWD": "/",
        "_HOROVOD_SECRET_KEY": "00",
        "SSH_AUTH_SOCK": "/run/agent",
    }
    assert forwarded(environment) == {"PATH": "/bin", "MY_FLAG": "1"}


@pytest.mark.parametrize("text", ["x", "0", "-1", "1.5", "9" * 5000, ""])
def test_a_number_of_ranks_that_is_none_is_quoted(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_args([f"--num-proc={text}", "true"])
    assert end.value.code == 2
    assert f"{text!r} is not a whole number, 1 or more" in capsys.readouterr().err


def test_a_time_that_is_none_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_args(["--start-timeout=soon", "true"])
    assert "'soon' is not a number of seconds above 0" in capsys.readouterr().err
