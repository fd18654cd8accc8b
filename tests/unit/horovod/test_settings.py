"""Environment variables: defaults, refusals, and what they say together."""

import dataclasses

import pytest

from horovod import _chosen_settings, _settings
from horovod._placement import read_placement, without_mpi
from horovod._setting_values import Setting, SettingError
from horovod._unused_settings import UNUSED, describe_unused, require_accepted

NO_TEXT = "no-text-\udce9"  # as Python reads what is not UTF-8
SECRET = "00112233445566778899aabbccddeeff"  # noqa: S105 - for these tests only
JOB = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "2",
    "HOROVOD_LOCAL_RANK": "1",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_HOSTNAME": "node-1",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "4711",
    "_HOROVOD_SECRET_KEY": SECRET,
}


def test_names_are_declared_once() -> None:
    names = [setting.name for setting in _settings.SETTINGS]
    assert len(set(names)) == len(names)


def test_how_tcp_shares_the_network_has_a_name_of_text() -> None:
    with pytest.raises(SettingError, match="must be a name of the system's in UTF-8"):
        _settings.CONGESTION_CONTROL.read({_settings.CONGESTION_CONTROL.name: NO_TEXT})


@pytest.mark.parametrize("setting", _settings.SETTINGS, ids=lambda setting: setting.name)
def test_unset_and_empty_mean_the_default(setting: Setting[object]) -> None:
    assert setting.read({}) == setting.default
    assert setting.read({setting.name: " "}) == setting.default


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("HOROVOD_CYCLE_TIME", "3600001", "a number, 0 to 3600000"),
        ("HOROVOD_CYCLE_TIME", "1e300", "a number, 0 to 3600000"),
        ("HOROVOD_CACHE_CAPACITY", str(1 << 63), "a whole number of 63 bits, below 0 for no"),
        ("HOROVOD_CONTROL_FANOUT", "1", "a whole number, 0 or 2 to"),
        ("HOROVOD_RANK", "-1", "a whole number, 0 or more"),
        ("HOROVOD_SIZE", "0", "a whole number, 1 to 1048576"),
        ("HOROVOD_SIZE", "two", "a whole number, 1 to 1048576"),
        ("HOROVOD_SIZE", "99999999999999999999", "a whole number, 1 to 1048576"),
        ("HOROVOD_LOCAL_SIZE", "1048577", "a whole number, 1 to 1048576"),
        ("HOROVOD_CROSS_SIZE", "1048577", "a whole number, 1 to 1048576"),
        ("HOROVOD_TRANSPORT", "rdma", "auto, shm, tcp or mpi"),
        ("HOROVOD_CONTROLLER", "ddl", "auto, mpi, or gloo, which stands for"),
        ("HOROVOD_CPU_OPERATIONS", "ddl", "auto, mpi, or gloo, which stands for"),
        ("HOROVOD_START_TIMEOUT", "nan", "a number of seconds, 0 for the default"),
        ("HOROVOD_FUSION_THRESHOLD", "abc", "a whole number, 0 or more"),
        ("HOROVOD_FUSION_THRESHOLD", "1.5", "a whole number, 0 or more"),
        ("HOROVOD_FUSION_THRESHOLD", "inf", "a whole number, 0 or more"),
        ("HOROVOD_FUSION_THRESHOLD", "-1e6", "a whole number, 0 or more"),
        ("HOROVOD_STALL_CHECK_TIME_SECONDS", "-1", "a number of seconds, 0 for never"),
        ("HOROVOD_GLOO_RENDEZVOUS_PORT", "65536", "a port number, 1 to 65535"),
        ("HOROVOD_HOSTNAME", NO_TEXT, "a host name in UTF-8"),
        ("HOROVOD_GLOO_IFACE", NO_TEXT, "at least one network interface's name in UTF-8, several"),
        ("HOROVOD_GLOO_RENDEZVOUS_ADDR", NO_TEXT, "an address in UTF-8"),
    ],
)
def test_bad_values_are_refused_with_what_is_accepted(name: str, value: str, accepted: str) -> None:
    with pytest.raises(SettingError) as refusal:
        read_placement({name: value})
    assert f"{name}={value!r} is not accepted: it must be {accepted}" in str(refusal.value)


def test_times_beyond_the_clocks_are_cut_off() -> None:
    for setting in (_settings.START_TIMEOUT, _settings.ELASTIC_TIMEOUT, _settings.GLOO_TIMEOUT):
        assert setting.read({setting.name: "1e300"}) == 1e9
        assert setting.read({setting.name: "2e8"}) == 2e8


def test_variables_that_this_process_has_no_use_for_are_checked_too() -> None:
    require_accepted({"HOROVOD_ELASTIC_TIMEOUT": "5", "HOROVOD_CYCLE_TIME": ""})
    with pytest.raises(SettingError, match="HOROVOD_ELASTIC_TIMEOUT='soon' is not accepted"):
        require_accepted({"HOROVOD_ELASTIC_TIMEOUT": "soon"})


def test_samples_are_counted_as_the_core_counts_them() -> None:
    for setting in (
        _settings.AUTOTUNE_WARMUP_SAMPLES,
        _settings.AUTOTUNE_STEPS_PER_SAMPLE,
        _settings.AUTOTUNE_MOST_SAMPLES,
    ):
        assert setting.read({setting.name: str((1 << 31) - 1)}) == (1 << 31) - 1
        with pytest.raises(SettingError, match="a whole number, 0 to 2147483647"):
            setting.read({setting.name: str(1 << 31)})


@pytest.mark.parametrize("setting", [_settings.AUTOTUNE, _settings.HIERARCHICAL_ALLREDUCE])
def test_switches_are_numbers_or_words(setting: Setting[bool]) -> None:
    for text in ("1", "2", "-1", "010", "true", "True", "yes", "ON"):
        assert setting.read({setting.name: text}) is True, text
    for text in ("0", "00", "false", "No", "off"):
        assert setting.read({setting.name: text}) is False, text
    with pytest.raises(SettingError, match="='maybe' is not accepted: it must be 0 or another"):
        setting.read({setting.name: "maybe"})


def test_a_bad_secret_is_not_repeated() -> None:
    with pytest.raises(SettingError, match="at least 16 bytes") as refusal:
        read_placement({**JOB, "_HOROVOD_SECRET_KEY": "c0ffee"})
    assert "c0ffee" not in str(refusal.value)


def test_without_a_launcher_the_process_is_alone() -> None:
    placement = read_placement({})
    assert (placement.rank, placement.size, placement.rendezvous) == (0, 1, "")


def test_the_launchers_environment_is_understood() -> None:
    placement = read_placement(JOB)
    assert (placement.rank, placement.size, placement.local_rank) == (1, 2, 1)
    assert placement.rendezvous == "10.0.0.1:4711"
    assert placement.secret == bytes.fromhex(SECRET)
    assert "not shown" in repr(placement)
    assert repr(bytes.fromhex(SECRET))[2:-1] not in repr(placement)
    assert placement.transport == "auto"


def test_a_secret_is_shown_in_no_text() -> None:
    secret: object = read_placement(JOB).secret
    shown = {repr(secret), str(secret), f"{secret}", f"{secret!s:>12}", format(secret)}
    assert shown == {"<not shown>", " <not shown>"}
    assert secret == bytes.fromhex(SECRET)


@pytest.mark.parametrize(
    "missing", ["HOROVOD_RANK", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "_HOROVOD_SECRET_KEY"]
)
def test_half_a_job_is_refused_rather_than_run_alone(missing: str) -> None:
    environment = {name: value for name, value in JOB.items() if name != missing}
    with pytest.raises(SettingError, match=f"{missing} is not"):
        read_placement(environment)


def test_a_job_may_have_as_many_ranks_as_the_core_takes() -> None:
    largest = read_placement({**JOB, "HOROVOD_SIZE": "1048576", "HOROVOD_RANK": "1048575"})
    assert (largest.rank, largest.size) == (1048575, 1048576)


def test_a_rank_beyond_the_size_is_refused() -> None:
    with pytest.raises(SettingError, match="HOROVOD_RANK=2 must be below HOROVOD_SIZE=2"):
        read_placement({**JOB, "HOROVOD_RANK": "2"})


def test_horovods_two_time_outs() -> None:
    assert _chosen_settings.start_timeout({}) == 30.0
    assert _chosen_settings.start_timeout({"HOROVOD_START_TIMEOUT": "0"}, 100.0) == 100.0
    assert _chosen_settings.start_timeout({"HOROVOD_START_TIMEOUT": "9"}, 100.0) == 9.0
    assert _chosen_settings.start_timeout({"HOROVOD_GLOO_TIMEOUT_SECONDS": "7"}) == 7.0
    assert _chosen_settings.start_timeout({"HOROVOD_GLOO_TIMEOUT_SECONDS": "0"}) == 30.0
    both = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "7", "HOROVOD_START_TIMEOUT": "9"}
    assert _chosen_settings.start_timeout(both) == 9.0
    assert _chosen_settings.start_timeout({"HOROVOD_START_TIMEOUT": "50.0"}) == 50.0
    assert _chosen_settings.start_timeout({"HOROVOD_START_TIMEOUT": "0"}) == 30.0
    for unset in ("0", "", " "):
        assert _chosen_settings.start_timeout({**both, "HOROVOD_START_TIMEOUT": unset}) == 7.0


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("WARN", "warning"),
        ("warn", "warning"),
        ("Critical", "fatal"),
        ("OFF", "fatal"),
        ("NONE", "fatal"),
        ("DEBUG", "debug"),
    ],
)
def test_usual_words_for_log_levels(value: str, level: str) -> None:
    assert _settings.LOG_LEVEL.read({"HOROVOD_LOG_LEVEL": value}) == level


def test_a_log_level_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingError, match="='abc' is not accepted: it must be trace, debug"):
        _settings.LOG_LEVEL.read({"HOROVOD_LOG_LEVEL": "abc"})


def test_whole_numbers_in_other_forms() -> None:
    for text, value in (("1e6", 1000000), ("64.0", 64), ("0.0", 0), ("67108864", 2**26)):
        assert _settings.FUSION_THRESHOLD.read({"HOROVOD_FUSION_THRESHOLD": text}) == value


def test_who_hears_whom_follows_from_the_number_of_ranks_unless_it_is_given() -> None:
    assert _chosen_settings.control_fanout({}) is None
    assert _chosen_settings.control_fanout({"HOROVOD_CONTROL_FANOUT": "0"}) == 0
    assert _chosen_settings.control_fanout({"HOROVOD_CONTROL_FANOUT": "8"}) == 8


def test_a_cache_capacity_below_0_is_no_limit() -> None:
    assert _settings.CACHE_CAPACITY.read({"HOROVOD_CACHE_CAPACITY": "-1"}) == 2**63 - 1
    assert _settings.CACHE_CAPACITY.read({"HOROVOD_CACHE_CAPACITY": "0"}) == 0


def test_oneccl_leaves_the_choice_of_a_transport_as_it_is() -> None:
    environment = {"HOROVOD_CPU_OPERATIONS": "CCL"}
    by_mpi = {**environment, "HOROVOD_TRANSPORT": "mpi"}
    assert read_placement(environment) == read_placement({})
    assert read_placement(by_mpi).transport == "mpi"
    for given in (environment, by_mpi):
        (line,) = describe_unused(given, mpi=True)
        assert line == (
            "HOROVOD_CPU_OPERATIONS=CCL has no effect: oneCCL is not in this build, and what moves"
            " tensors is chosen as without it."
        )


def test_mpi_operations_are_no_choice_where_ranks_have_met_without_mpi() -> None:
    stated = {"HOROVOD_CPU_OPERATIONS": "MPI"}
    placement = read_placement(stated)
    assert placement.transport == "mpi"
    assert without_mpi(placement, stated) == dataclasses.replace(placement, transport="auto")
    (line,) = describe_unused(stated, mpi=False)
    assert line.startswith("HOROVOD_CPU_OPERATIONS=MPI has no effect: the ranks of this job have")
    assert describe_unused(stated, mpi=True) == []
    # Horovod has no such variable: who sets it means this job.
    meant = {**stated, "HOROVOD_TRANSPORT": "mpi"}
    assert without_mpi(read_placement(meant), meant).transport == "mpi"
    assert describe_unused(meant, mpi=False) == []
    by_tcp = {"HOROVOD_TRANSPORT": "tcp"}
    assert without_mpi(read_placement(by_tcp), by_tcp).transport == "tcp"


def test_the_gathering_time_is_chosen_where_the_user_has_not() -> None:
    assert _chosen_settings.gather_time({}) is None
    for nothing in ("", " \t"):
        assert _chosen_settings.gather_time({"HOROVOD_CYCLE_TIME": nothing}) is None
        assert not _settings.FUSION_THRESHOLD.is_given({"HOROVOD_FUSION_THRESHOLD": nothing})
    assert _settings.FUSION_THRESHOLD.is_given({"HOROVOD_FUSION_THRESHOLD": " 0 "})
    assert _chosen_settings.gather_time({"HOROVOD_CYCLE_TIME": "0"}) == 0.0
    assert _chosen_settings.gather_time({"HOROVOD_CYCLE_TIME": "3.5"}) == 0.0035
    with pytest.raises(SettingError, match="HOROVOD_CYCLE_TIME='-1' is not accepted"):
        _chosen_settings.gather_time({"HOROVOD_CYCLE_TIME": "-1"})


def test_interfaces_are_named() -> None:
    read = _settings.INTERFACE.read
    assert read({"HOROVOD_GLOO_IFACE": "eth0, lo,"}) == "eth0,lo"
    for nobody in (",", " , ,"):
        with pytest.raises(SettingError, match="must be at least one network interface's name"):
            read({"HOROVOD_GLOO_IFACE": nobody})


def test_variables_without_effect_are_checked_and_said() -> None:
    assert (
        describe_unused({"HOROVOD_NUM_NCCL_STREAMS": "1", "HOROVOD_AUTOTUNE": "0"}, mpi=False) == []
    )
    (line,) = describe_unused({"HOROVOD_NUM_NCCL_STREAMS": "5"}, mpi=False)
    assert line.startswith("HOROVOD_NUM_NCCL_STREAMS=5 has no effect: collectives on GPUs have")
    with pytest.raises(SettingError, match="HOROVOD_NUM_NCCL_STREAMS='-1' is not accepted"):
        describe_unused({"HOROVOD_NUM_NCCL_STREAMS": "-1"}, mpi=False)
    assert not {unused.setting.name for unused in UNUSED} & {
        setting.name for setting in _settings.SETTINGS
    }


@pytest.mark.parametrize(
    ("disable", "warning", "shutdown", "times"),
    [
        ("", "", "", (60.0, 0.0)),
        ("", "5", "7.5", (5.0, 7.5)),
        ("1", "5", "7", (0.0, 0.0)),
        ("", "0", "", (0.0, 0.0)),
        ("", "", "30", (30.0, 30.0)),
        ("", "0", "30", (30.0, 30.0)),
    ],
)
def test_times_of_the_stall_inspector(
    disable: str, warning: str, shutdown: str, times: tuple[float, float]
) -> None:
    environment = {
        "HOROVOD_STALL_CHECK_DISABLE": disable,
        "HOROVOD_STALL_CHECK_TIME_SECONDS": warning,
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": shutdown,
    }
    assert _chosen_settings.stall_times(environment) == times


# Horovod's run-time variables, but for those of its Spark glue and of its own tests.
HOROVODS = """
    RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME GLOO_RENDEZVOUS_ADDR
    GLOO_RENDEZVOUS_PORT GLOO_IFACE GLOO_TIMEOUT_SECONDS CONTROLLER CPU_OPERATIONS FUSION_THRESHOLD
    CYCLE_TIME CACHE_CAPACITY HIERARCHICAL_ALLREDUCE HIERARCHICAL_ALLGATHER TORUS_ALLREDUCE AUTOTUNE
    AUTOTUNE_LOG AUTOTUNE_WARMUP_SAMPLES AUTOTUNE_STEPS_PER_SAMPLE AUTOTUNE_BAYES_OPT_MAX_SAMPLES
    AUTOTUNE_GAUSSIAN_PROCESS_NOISE TIMELINE TIMELINE_MARK_CYCLES STALL_CHECK_DISABLE
    STALL_CHECK_TIME_SECONDS STALL_SHUTDOWN_TIME_SECONDS DYNAMIC_PROCESS_SETS DISABLE_GROUP_FUSION
    NUM_NCCL_STREAMS BATCH_D2D_MEMCOPIES ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS DISABLE_NVTX_RANGES
    MPI_THREADS_DISABLE ADASUM_MPI_CHUNK_SIZE CCL_CACHE CCL_BGT_AFFINITY THREAD_AFFINITY LOG_LEVEL
    LOG_HIDE_TIME ELASTIC ELASTIC_TIMEOUT START_TIMEOUT
"""


def test_every_variable_of_horovods_is_read_or_said_to_have_no_effect() -> None:
    known = {setting.name for setting in _settings.SETTINGS}
    known |= {unused.setting.name for unused in UNUSED}
    assert {f"HOROVOD_{name}" for name in HOROVODS.split()} <= known
