"""The pybind11 module: opens a core library and drives one runtime per process set of ranks.

Dtypes are the integer codes of `DTYPES`; addresses are plain integers, as `data_ptr()` gives them.
"""
# ruff: noqa: PYI021 - the stub is where this API is written down

from collections.abc import Callable, Sequence
from typing import Any

ABI_VERSION: int
# "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"
DTYPES: dict[str, int]
# "allreduce", "allgather", "broadcast", "barrier", "alltoall", "reducescatter", "join",
# "add_process_sets", "remove_process_set", "share_memory"
KINDS: dict[str, int]
LARGE_RESULT: int  # bytes from which on memory for a result is the core's
AVERAGE: int  # 0
SUM: int  # 1
ADASUM: int  # 2
MIN: int  # 3
MAX: int  # 4
PRODUCT: int  # 5

class CollectiveError(RuntimeError):
    """A collective failed on all ranks, or a rank was lost; the message names which."""

class WaitError(CollectiveError):
    """Nobody can wait for an operation, for a fault of this rank's own; it may go on."""

def cpu_level() -> str:
    """What CPU and operating system support: "x86_64_v1" … "x86_64_v4", "neoverse", "baseline".

    Asked of CPUID and XGETBV or AT_HWCAP, never of /proc, so that it is right under emulation too.
    """

def gainful_level() -> str:
    """The highest level whose kernels this CPU gains from: that of `cpu_level`, or lower.

    "x86_64_v3" where vectors of 512 bits slow the whole core down.
    """

class Buffer:
    """Memory allocated by the core, with the buffer protocol and DLPack.

    As a buffer it is writable and has the right format; bfloat16, which has none, is raw bytes "B".
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def threads_inside() -> int:
    """How many threads of this process are in the core without the interpreter's lock."""

def give_up_start(generation: int) -> None:
    """Has the start of a runtime of that generation fail, now or when it is made.

    One that has succeeded is left alone. From any thread.
    """

def allocate(shape: Sequence[int], dtype: str) -> Buffer:
    """A new zero-filled `Buffer`."""

class TensorView:
    """A tensor of any framework, seen through DLPack; keeps the producer's memory alive."""

    def __init__(self, exporter: Any) -> None:
        """Looks at an object with `__dlpack__`.

        Raises:
            TypeError: it has none.
            ValueError: an unsupported dtype, or not on the CPU.
        """
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def contiguous(self) -> bool: ...
    @property
    def readonly(self) -> bool: ...

def use_kernels(core: bytes, kernels: bytes) -> None:
    """Takes the kernels of a CPU level from their library, for all runtimes of this process.

    Raises:
        OSError: the library cannot be opened, is of another release, or for a better CPU.
    """

def nccl_version(library: bytes, nccl_libraries: bytes) -> int | str:
    """NCCL's version code, 22707 for 2.27.7, or why none of the libraries opens."""

def mpi_version(core: bytes, plugin: bytes, library: bytes) -> str:
    """Opens an MPI and the plug-in for it, and returns what it says of itself; starts nothing.

    Raises:
        OSError: one of them cannot be opened, or does not fit the other.
    """

def mpi_finalize(core: bytes, plugin: bytes, library: bytes) -> None:
    """Ends MPI if a membership has started it, even one that was refused then; waits for all ranks.

    Raises:
        OSError: MPI says no.
    """

def mpi_finalize_if_all_is_well(core: bytes, plugin: bytes, library: bytes) -> None:
    """As `mpi_finalize`, when the process ends with status 0; with another one MPI is not ended.

    Without glibc, which tells the status, MPI ends at once.
    """

class MpiMembership:
    """This process among the ranks of an MPI launcher, for any number of runtimes."""

    def __init__(
        self,
        core: bytes,
        plugin: bytes,
        library: bytes,
        *,
        communicator: int,
        ranks: Sequence[int] = (),
        threads: int,
        host: str = "",
        timeout: float,
    ) -> None:
        """Starts MPI if need be, and waits for the other ranks.

        Args:
            core: path of the core library.
            plugin: path of the plug-in.
            library: path or name of the MPI library.
            communicator: address of the handle of one, 0 for all ranks.
            ranks: some of the launcher's by number, in the order of the job's.
            threads: level of thread support to ask for, 0 (single) to 3 (multiple).
            host: what this host counts as; "" for its name.
            timeout: in seconds.

        Raises:
            OSError: MPI cannot be opened or started.
            ValueError: this process is not among the ranks, or one of them does not exist.
            CollectiveError: not all ranks came in time.
        """
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def local_size(self) -> int: ...
    @property
    def cross_rank(self) -> int: ...
    @property
    def cross_size(self) -> int: ...
    @property
    def threads(self) -> int:
        """The level of thread support that MPI has given, as for `__init__`."""
    @property
    def host(self) -> str: ...

class BlockingCalls:
    """Collectives of all ranks that run on the caller's thread when all come for them now.

    The tensor is contiguous, in the CPU's memory, of one of the types and without a gradient.
    Arguments are positional. `op` may be None for Average; factors are floats.

    Returns:
        The result; a str when not all ranks have come: the name under which to start the operation
        the ordinary way; None for what these calls leave alone, a bad argument for example.

    Raises:
        ValueError: as of `Runtime.enqueue`.
    """

    # Those with an underscore work in place; the gradient of their tensor does not matter.
    def allreduce(
        self,
        tensor: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        /,
    ) -> Any: ...
    def allreduce_(
        self,
        tensor: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        /,
    ) -> Any: ...
    # Of a list or tuple, which become a tuple. Long groups are left alone.
    def grouped_allreduce(
        self,
        tensors: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        /,
    ) -> Any: ...
    def grouped_allreduce_(
        self,
        tensors: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        /,
    ) -> Any: ...
    def broadcast(self, tensor: Any, name: str | None, root: int, /) -> Any: ...
    def broadcast_(self, tensor: Any, name: str | None, root: int, /) -> Any: ...
    # Into `output`, unless it is None or has another number of rows than the result: then that is
    # a new tensor.
    def allgather(self, tensor: Any, name: str | None, output: Any, /) -> Any: ...
    def alltoall(
        self, tensor: Any, splits: list[int] | None, name: str | None, output: Any, /
    ) -> Any:
        """Sends rows to each rank, the same number without splits.

        With splits and no `output`, a pair of the result and of the rows that came from each rank.
        """
    def reducescatter(
        self,
        tensor: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        output: Any,
        /,
    ) -> Any: ...
    def barrier(self) -> Any:
        """True when all have come."""

class StartedCalls:
    """Operations on their way, each started, and waited for, by one call.

    The tensor is as of `BlockingCalls`; its gradient does not matter. Arguments are positional.
    """

    # Return a handle; None for what these calls leave alone.
    def allreduce(
        self,
        tensor: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        process_set: int,
        wire_dtype: int | None,  # as of `Runtime.enqueue`; None for the tensor's own
        /,
    ) -> int | None: ...
    def allreduce_(
        self,
        tensor: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        process_set: int,
        wire_dtype: int | None,  # as of `Runtime.enqueue`; None for the tensor's own
        /,
    ) -> int | None: ...
    def broadcast(
        self, tensor: Any, name: str | None, root: int, process_set: int, /
    ) -> int | None: ...
    def broadcast_(
        self, tensor: Any, name: str | None, root: int, process_set: int, /
    ) -> int | None: ...
    def allgather(self, tensor: Any, name: str | None, process_set: int, /) -> int | None: ...
    def reducescatter(
        self,
        tensor: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        process_set: int,
        /,
    ) -> int | None: ...
    # Waiting gives a pair: what came, and the rows that came from each rank, int32 or int64.
    def alltoall(
        self, tensor: Any, splits: list[int] | None, name: str | None, process_set: int, /
    ) -> int | None: ...
    # Of a list or tuple; waiting gives a tuple.
    def grouped_allreduce(
        self,
        tensors: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        process_set: int,
        /,
    ) -> int | None: ...
    def grouped_allreduce_(
        self,
        tensors: Any,
        name: str | None,
        op: int | None,
        prescale: float,
        postscale: float,
        process_set: int,
        /,
    ) -> int | None: ...
    def poll(self, handle: int, /) -> bool | None:
        """None for a handle that is not one of these operations'."""
    def synchronize(self, handle: int, /) -> Any:
        """Waits, and returns the result; None as of `poll`."""
    def under_way(self) -> int:
        """How many operations are being started, or nobody has waited for."""

class Runtime:
    """The background threads of one rank. Starting it blocks until all ranks have met."""

    def __init__(
        self,
        library: bytes,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        host: str,
        rendezvous: str,  # "address:port" of the launcher's store, or several; "" when size == 1
        secret: bytes,  # authenticates store and peers
        generation: int,  # how often this process has started a runtime before
        meeting: str,  # tells apart jobs that share a store; "" for the launcher's
        transport: str,  # "auto", "shm", "tcp"
        interface: str,  # network interfaces, the first found counts; "" = all
        congestion_control: str,  # of TCP connections that move data; "" = by default
        start_timeout: float,  # seconds
        fusion_bytes: int,  # small allreduces are put together up to so many; 0 = never
        fuse_groups: bool,  # also across groups
        cache_capacity: int,  # operations that are asked for by number once known; 0 = none
        gather_time: float,  # seconds a request may stay for others; < 0: as cores suggest
        gpu_kind: bytes,  # "cuda", "hip", or "" for a build without code for GPUs
        gpu_code: bytes,  # the folder of that code
        gpu_drivers: bytes,  # libraries, one a line; the first that can be opened is used
        nccl_libraries: bytes,  # likewise, after one that the process has loaded
        timeline: str | bytes,  # file to record operations to from the start on; "" for none
        mark_cycles: bool,  # the coordinator's answers too
        heartbeat_timeout: float,  # seconds until a silent rank counts as lost; 0 = never
        hierarchical_allreduce: bool,  # inside the hosts first, then between them
        hierarchical_allgather: bool,
        single_copy_bytes: int,  # from which ranks read each other's; 0 = never; < 0: by CPU
        control_fanout: int,  # whom a rank hears; 0 = rank 0 hears all; < 0: by their number
        stall_warning: float,  # seconds until rank 0 names the ranks waited for; 0 = never
        stall_shutdown: float,  # seconds until the job ends for it; 0 = never
        log_level: int,  # place in LOG_LEVELS; what is less is not written to stderr
        log_hide_time: bool,
        autotune: bool,  # rank 0 looks for better parameters while the job runs
        autotune_fusion: bool,  # for fusion_bytes too; for gather_time where it is < 0
        autotune_log: str | bytes,  # file for what it measures; "" for none
        warmup_samples: int,  # which the search does not look at
        steps_per_sample: int,  # how often the same operation runs in one
        most_samples: int,  # of the search
        mpi: MpiMembership | None,  # in place of rendezvous and secret
        mpi_data: bool,  # whether MPI may move data too
    ) -> None:
        """Joins the job.

        Raises:
            CollectiveError: a peer did not come in time; it says which.
            ValueError: the arguments contradict each other.
            OSError: the library does not open, or the network fails.
        """
    @property
    def transport(self) -> str:
        """The transport really used: "shm", "tcp", "shm+tcp" or "self" (one rank)."""
    @property
    def isa(self) -> str:
        """The level of the kernels that this process uses, as "baseline" or "x86_64_v3"."""
    @property
    def is_homogeneous(self) -> bool: ...
    # Returns at once. ValueError: the name is in flight, bad dtype, op, root or splits, a
    # process set that is unknown or does not hold this rank.
    def enqueue(
        self,
        kind: int,  # one of KINDS
        name: str,
        # Addresses of source and destination (0 where the core allocates), shape, dtype, the one in
        # which it travels (its own, or of float32 and float64 a 16-bit one), rows at the
        # destination where the ranks agree on those of the result.
        tensors: Sequence[tuple[int, int, Sequence[int], int, int, int]],
        # Gets the handle, before a signal's handler can raise something.
        accepted: list[int],
        *,
        process_set: int = 0,
        op: int = ...,
        prescale: float = 1.0,
        postscale: float = 1.0,
        root: int = -1,  # a global rank
        grouped: bool = False,
        # alltoall: rows for each rank, none for even ones; add_process_sets: for each the number of
        # its ranks, then these; remove_process_set: its number
        numbers: Sequence[int] = (),
        device: int = -1,  # of the tensors: -1 for the CPU, or the number of a GPU
        stream: int = 0,  # address of the GPU's stream on which they become ready
    ) -> None: ...
    def run_now(
        self,
        kind: int,
        name: str,
        source: int,
        destination: int,
        shape: Sequence[int],
        dtype: int,
        wire_dtype: int,
        op: int,
        prescale: float,
        postscale: float,
        root: int,
        numbers: Sequence[int] = (),  # alltoall: rows for each rank, none for even ones
        rows: int = 0,  # at the destination, as of `enqueue`
    ) -> Any:
        """Runs one operation of one tensor on this thread when all ranks come for it now.

        Returns:
            False when it has to be enqueued instead; the exception of a signal's handler that has
            raised before the operation began; else what `wait` returns.
        """
    def copy(self, to: int, from_: int, nbytes: int) -> None:
        """Copies between parts of memory that do not overlap, without the GIL.

        Past the caches when there is too much for them to keep it.
        """
    def new_output(self, shape: Sequence[int], dtype: int) -> Buffer:
        """Memory of the CPU for a result; what callers have dropped of large ones is used again.

        Raises:
            CollectiveError: there is no more, or the process was forked from the rank's.
        """
    @property
    def fast_operations(self) -> int:
        """How many operations `run_now` has run."""
    @property
    def has_failed(self) -> bool:
        """Whether the job has failed, for all ranks: one was lost, or could not go on."""
    @property
    def mapped_operations(self) -> int:
        """How many allreduces have worked on memory of "share_memory" where it is."""
    def blocking_calls(
        self,
        exchange_api: Any,
        types: tuple[type, ...],
        new_result: Callable[[Any], Any],
        error: Callable[[str], Exception],
        put_back: Callable[[Any, Any], object],
    ) -> BlockingCalls:
        """Blocking collectives of all ranks for the tensors of a framework.

        Args:
            exchange_api: its type's `__dlpack_c_exchange_api__`.
            types: whose instances the calls work on, and no subclass's.
            new_result: makes a tensor like another one, for a result that is not large.
            error: makes, of a text, what is raised when an operation fails on all ranks.
            put_back: copies a result into a tensor that was to hold it, and which has been given
                other memory since; the second one is of the memory where it lies. Or of several,
                two tuples.

        Raises:
            ValueError: the capsule is of a DLPack that the bindings do not know.
        """
    def started_calls(
        self,
        exchange_api: object,
        types: tuple[type, ...],
        new_result: Callable[[Any], Any],
        error: Callable[[str], Exception],
        put_back: Callable[[Any, Any], object],
        *,
        new_rows: Callable[[Any, int], Any],
        rank: int,
        size: int,  # of the job; 1: starting an operation runs it
        site: Callable[[], str],  # a line of the program, for what is waited for long
        site_after: float,  # seconds; 0: never
    ) -> StartedCalls:
        """Asynchronous calls on the tensors of a framework; arguments as of `blocking_calls`.

        `new_rows` makes a tensor like another one, but with so many rows, on a GPU; it returns None
        where there is no room for one.
        """
    def next_unnamed(self, kind: int, process_set: int) -> int:
        """Numbers an operation without a name, apart for each kind and process set."""
    def take_back_unnamed(self, kind: int, process_set: int, number: int) -> None:
        """Frees the number of an operation that was refused, if no other has come after it."""
    def renumber_unnamed(self) -> None:
        """All ranks have joined: their numbers go on alike, whatever each has started before."""
    def poll(self, handle: int) -> bool:
        """True when done (also when failed). ValueError: unknown handle."""
    def wait(
        self,
        handle: int,
        site: Callable[[], str] | None = None,
        site_after: float = 0.0,  # seconds; 0 = never
    ) -> tuple[list[Buffer], list[int]] | None:
        """Sleeps without the GIL until done, then forgets the handle; Ctrl-C is answered.

        After `site_after` seconds, `site` is asked once where the caller waits, for rank 0's
        warning about ranks that do not come.

        Returns:
            None, or what the core allocated for each tensor (nothing for a result that lies at its
            destination), and by kind: the rows received from
            each rank (alltoall), the last rank (join), the numbers of the new process sets.

        Raises:
            CollectiveError: the operation failed on all ranks, or a rank was lost.
            WaitError: it cannot be waited for; what it works on has to stay.
            ValueError: unknown handle.
        """
    def start_timeline(self, path: str | bytes, mark_cycles: bool) -> None:
        """ValueError: one is being recorded; OSError: the file cannot be written."""
    def stop_timeline(self) -> None:
        """OSError: the file is not complete. Does nothing when nothing is recorded."""
    def shutdown(self) -> None:
        """Ends the threads; what is pending fails on all ranks with Horovod's shut-down text.

        A second call does nothing.
        """
