"""Starts the native runtime of a rank, with what its environment says."""

import os

from horovod import _chosen_settings, _settings, _standard_error
from horovod._gpu import gpu_support
from horovod._loader import CoreLibrary, _bindings
from horovod._placement import Placement
from horovod.common.exceptions import HorovodInternalError

_GIVEN_UP: dict[int, str] = {}  # by generation, why


def give_up_start(generation: int, why: str) -> None:
    """Has a start end that waits for ranks which will not come; from another thread.

    Args:
        generation: of the runtime; one that has started is left alone.
        why: what its error is to say.
    """
    _GIVEN_UP[generation] = why
    _bindings.give_up_start(generation)


def start_runtime(
    core: CoreLibrary,
    placement: Placement,
    generation: int,
    mpi: "_bindings.MpiMembership | None",
    timeline: str,
    autotune_log: str,
) -> "_bindings.Runtime":
    """Meets the other ranks, and starts the runtime.

    Args:
        core: the library that it is in.
        placement: of this rank.
        generation: tells apart the jobs that the same ranks have formed.
        mpi: through which the ranks have met, if they have.
        timeline: the file to record to from the start; "" for none.
        autotune_log: the file for what autotune measures; "" for none.

    Raises:
        HorovodInternalError: not all ranks came in time, or the start was given up; the message
            says who is missing.
        SettingError: the environment is not usable.
        ValueError: the ranks are not possible here.
    """
    level = _settings.LOG_LEVEL.read(os.environ) if _standard_error.is_there() else "fatal"
    try:
        if core.kernels is not None:
            _bindings.use_kernels(core.file, os.fsencode(core.kernels))
        runtime = _bindings.Runtime(
            core.file,
            rank=placement.rank,
            size=placement.size,
            local_rank=placement.local_rank,
            local_size=placement.local_size,
            cross_rank=placement.cross_rank,
            cross_size=placement.cross_size,
            host=placement.host,
            rendezvous=placement.rendezvous,
            secret=placement.secret,
            generation=generation,
            meeting=placement.meeting,
            transport=placement.transport,
            interface=placement.interface,
            congestion_control=_settings.CONGESTION_CONTROL.read(os.environ),
            start_timeout=placement.timeout,
            heartbeat_timeout=placement.heartbeat_timeout,
            hierarchical_allreduce=placement.hierarchical_allreduce,
            hierarchical_allgather=placement.hierarchical_allgather,
            single_copy_bytes=_settings.SINGLE_COPY_BYTES.read(os.environ),
            control_fanout=-1 if placement.control_fanout is None else placement.control_fanout,
            fusion_bytes=placement.fusion_bytes,
            fuse_groups=placement.fuse_groups,
            cache_capacity=placement.cache_capacity,
            gather_time=-1.0 if placement.gather_time is None else placement.gather_time,
            timeline=os.fsencode(timeline),  # paths are bytes, which need not be UTF-8
            mark_cycles=_settings.TIMELINE_MARK_CYCLES.read(os.environ),
            autotune=_settings.AUTOTUNE.read(os.environ),
            # What the user has chosen is not tuned.
            autotune_fusion=not _settings.FUSION_THRESHOLD.is_given(os.environ),
            autotune_log=os.fsencode(autotune_log),
            warmup_samples=_settings.AUTOTUNE_WARMUP_SAMPLES.read(os.environ),
            steps_per_sample=_settings.AUTOTUNE_STEPS_PER_SAMPLE.read(os.environ),
            most_samples=_settings.AUTOTUNE_MOST_SAMPLES.read(os.environ),
            stall_warning=placement.stall_warning,
            stall_shutdown=placement.stall_shutdown,
            log_level=_settings.LOG_LEVELS.index(level),
            log_hide_time=_settings.LOG_HIDE_TIME.read(os.environ),
            mpi=mpi,
            mpi_data=placement.mpi_data,
            **gpu_support().runtime_arguments(),
        )
    except _bindings.CollectiveError as error:
        raise HorovodInternalError(_GIVEN_UP.get(generation, str(error))) from error
    # Without MPI a wish for it has no effect anywhere, which rank 0 says.
    if placement.rank > 0 and placement.transport != "auto":
        other = _chosen_settings.describe_other_transport(os.environ, runtime.transport)
        if other:
            _standard_error.warn(f"horovod: rank {placement.rank}: {other}")
    return runtime
