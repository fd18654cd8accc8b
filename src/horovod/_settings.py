"""The registry of environment variables: name, type, default and meaning, declared once."""

from horovod._setting_values import (
    AMOUNT,
    CAPACITY,
    COUNT,
    FANOUT,
    RANKS,
    SECONDS,
    SECONDS_OR_DEFAULT,
    SECONDS_OR_NEVER,
    SMALL_COUNT,
    SWITCH,
    WAIT,
    Setting,
    amount,
    capacity,
    choice,
    count,
    fanout,
    names,
    port,
    ranks,
    seconds,
    secret,
    small_count,
    switch,
    utf8,
    wait,
)

LOG_LEVELS = ("trace", "debug", "info", "warning", "error", "fatal")

RANK = Setting("HOROVOD_RANK", count, COUNT, 0, "this process among all")
SIZE = Setting("HOROVOD_SIZE", ranks, RANKS, 1, "number of processes")
LOCAL_RANK = Setting("HOROVOD_LOCAL_RANK", count, COUNT, 0, "this process among those of its host")
LOCAL_SIZE = Setting("HOROVOD_LOCAL_SIZE", ranks, RANKS, 1, "number of processes of the host")
CROSS_RANK = Setting(
    "HOROVOD_CROSS_RANK", count, COUNT, 0, "this host among those with the same local rank"
)
CROSS_SIZE = Setting(
    "HOROVOD_CROSS_SIZE", ranks, RANKS, 1, "number of hosts with the same local rank"
)
HOSTNAME = Setting(
    "HOROVOD_HOSTNAME",
    utf8,
    "a host name in UTF-8",
    "localhost",
    "the host's name in the launcher's list",
)
RENDEZVOUS_ADDRESS = Setting(
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    utf8,
    "an address in UTF-8",
    "",
    "where the launcher's store listens",
)
RENDEZVOUS_PORT = Setting(
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    port,
    "a port number, 1 to 65535",
    0,
    "the port of the launcher's store",
)
INTERFACE = Setting(
    "HOROVOD_GLOO_IFACE",
    names,
    "at least one network interface's name in UTF-8, several with commas between them",
    "",
    "interface to listen on, or several with commas, of which the first that the host has counts;"
    " by default all of a host's addresses are offered, that towards the store first",
)
START_TIMEOUT = Setting(
    "HOROVOD_START_TIMEOUT",
    amount,
    SECONDS_OR_DEFAULT,
    30.0,
    "how long ranks wait for each other in init(), and for MPI to start, after which the rank ends;"
    " 0 as if it were not set",
)
GLOO_TIMEOUT = Setting(
    "HOROVOD_GLOO_TIMEOUT_SECONDS",
    amount,
    AMOUNT,
    0.0,
    "Horovod's name for the same; HOROVOD_START_TIMEOUT comes first; 0 for its default",
)
TRANSPORT = Setting(
    "HOROVOD_TRANSPORT",
    choice("auto", "shm", "tcp", "mpi"),
    "auto, shm, tcp or mpi",
    "auto",
    "what moves the bytes; auto takes shm inside a host, and between hosts mpi in a job of an MPI"
    " launcher, else tcp; rank 0's value counts",
)
CONGESTION_CONTROL = Setting(
    "HOROVOD_TCP_CONGESTION_CONTROL",
    utf8,
    "a name of the system's in UTF-8",
    "",
    "how TCP shares the network on the connections that move data, of what"
    " net.ipv4.tcp_allowed_congestion_control lists; by default the system's choice, and reno"
    " between ranks of one host",
)
HEARTBEAT_TIMEOUT = Setting(
    "HOROVOD_HEARTBEAT_TIMEOUT_SECONDS",
    amount,
    AMOUNT,
    30.0,
    "after which a rank that gives no sign of life counts as lost; 0 for never; signs come from a"
    " thread of the library, whatever Python does; rank 0's value counts",
)
HIERARCHICAL_ALLREDUCE = Setting(
    "HOROVOD_HIERARCHICAL_ALLREDUCE",
    switch,
    SWITCH,
    default=True,
    meaning="with several ranks on each of several hosts, reduces inside the hosts first, then"
    " between them; rank 0's value counts",
)
HIERARCHICAL_ALLGATHER = Setting(
    "HOROVOD_HIERARCHICAL_ALLGATHER",
    switch,
    SWITCH,
    default=True,
    meaning="the same for allgather",
)
SINGLE_COPY_BYTES = Setting(
    "HOROVOD_SINGLE_COPY_BYTES",
    count,
    COUNT,
    -1,
    "bytes from which ranks read each other's vectors of up to 8 MiB where they are, in one copy,"
    " if all are on one host; from twice as many on, two ranks may write there, too; 0 for never;"
    " by default 65536 on Intel's CPUs, on others never, but for long broadcasts and allgathers of"
    " two ranks that share no cache on AMD's of the third generation and before; rank 0's value"
    " counts",
)
CONTROL_FANOUT = Setting(
    "HOROVOD_CONTROL_FANOUT",
    fanout,
    FANOUT,
    -1,
    "how many ranks of its host, and how many hosts, one rank hears in agreeing on what to run;"
    " further ones are heard through some of these; 0 if rank 0 hears all; by default 0 up to 32"
    " ranks, else 16; rank 0's value counts",
)
CYCLE_TIME = Setting(
    "HOROVOD_CYCLE_TIME",
    wait,
    WAIT,
    0.1,
    "milliseconds that an operation which nobody waits for yet may stay, so that others travel with"
    " it; by default 50 where ranks share memory and have no core to spare, and up to 1000 there"
    " while a rank computes; rank 0's value counts",
)
FUSION_THRESHOLD = Setting(
    "HOROVOD_FUSION_THRESHOLD",
    count,
    COUNT,
    128 * 2**20,
    "bytes up to which small tensors are put together, 524288 at most; 0 for none; rank 0's"
    " value counts",
)
DISABLE_GROUP_FUSION = Setting(
    "HOROVOD_DISABLE_GROUP_FUSION",
    switch,
    SWITCH,
    default=False,
    meaning="keeps the tensors of a group apart from all others; rank 0's value counts",
)
CACHE_CAPACITY = Setting(
    "HOROVOD_CACHE_CAPACITY",
    capacity,
    CAPACITY,
    16384,
    "named operations that ranks ask for by number once all have done so; 0 for none; rank 0's"
    " value counts",
)
DYNAMIC_PROCESS_SETS = Setting(
    "HOROVOD_DYNAMIC_PROCESS_SETS",
    switch,
    SWITCH,
    default=False,
    meaning="lets process sets be added and removed after init()",
)
CONTROLLER = Setting(
    "HOROVOD_CONTROLLER",
    choice("auto", "gloo", "mpi"),
    "auto, mpi, or gloo, which stands for the built-in way without MPI",
    "auto",
    "through whom the ranks meet; auto takes mpi where its launcher has started several ranks",
)
CPU_OPERATIONS = Setting(
    "HOROVOD_CPU_OPERATIONS",
    choice("auto", "gloo", "mpi", "ccl"),
    "auto, mpi, or gloo, which stands for the built-in transports; ccl counts as auto",
    "auto",
    "what moves CPU tensors: mpi is HOROVOD_TRANSPORT=mpi in a job that MPI has started, and has no"
    " effect in others; gloo excludes MPI",
)
MPI_LIBRARY = Setting(
    "HOROVOD_MPI_LIBRARY",
    str,
    "the path or name of an MPI library",
    "",
    "the MPI to open in place of the one that is found",
)
MPI_THREADS_DISABLE = Setting(
    "HOROVOD_MPI_THREADS_DISABLE",
    switch,
    SWITCH,
    default=False,
    meaning="starts MPI for one thread at a time (MPI_THREAD_SERIALIZED)",
)
AUTOTUNE = Setting(
    "HOROVOD_AUTOTUNE",
    switch,
    SWITCH,
    default=False,
    meaning="looks for the fastest fusion threshold and gathering time while the job runs; rank 0's"
    " value counts",
)
AUTOTUNE_LOG = Setting(
    "HOROVOD_AUTOTUNE_LOG", str, "a path", "", "file to which rank 0 writes what it has measured"
)
AUTOTUNE_WARMUP_SAMPLES = Setting(
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
    small_count,
    SMALL_COUNT,
    3,
    "samples before the search begins",
)
AUTOTUNE_STEPS_PER_SAMPLE = Setting(
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
    small_count,
    SMALL_COUNT,
    10,
    "how often the same operation runs in a sample",
)
AUTOTUNE_MOST_SAMPLES = Setting(
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
    small_count,
    SMALL_COUNT,
    20,
    "samples that the search takes at most",
)
STALL_CHECK_DISABLE = Setting(
    "HOROVOD_STALL_CHECK_DISABLE",
    switch,
    SWITCH,
    default=False,
    meaning="rank 0 never says which ranks others wait for",
)
STALL_CHECK_TIME = Setting(
    "HOROVOD_STALL_CHECK_TIME_SECONDS",
    amount,
    SECONDS_OR_NEVER,
    60.0,
    "after which rank 0 says which ranks others wait for; rank 0's value counts",
)
STALL_SHUTDOWN_TIME = Setting(
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    amount,
    SECONDS_OR_NEVER,
    0.0,
    "after which the job ends because ranks wait for others; rank 0's value counts",
)
LOG_LEVEL = Setting(
    "HOROVOD_LOG_LEVEL",
    choice(*LOG_LEVELS, warn="warning", critical="fatal", off="fatal", none="fatal"),
    ", ".join(LOG_LEVELS),
    "warning",
    "what is less serious is not written to stderr; the core has warnings and errors alone; warn"
    " is warning; critical, off and none are fatal",
)
LOG_HIDE_TIME = Setting(
    "HOROVOD_LOG_HIDE_TIME",
    switch,
    SWITCH,
    default=False,
    meaning="leaves the time out of what the core writes to stderr",
)
TIMELINE = Setting(
    "HOROVOD_TIMELINE",
    str,
    "a path, or DYNAMIC",
    "",
    "file to which rank 0 records operations, for Chrome's and Perfetto's viewers; DYNAMIC waits"
    " for start_timeline(), which needs no such preparation here",
)
TIMELINE_MARK_CYCLES = Setting(
    "HOROVOD_TIMELINE_MARK_CYCLES",
    switch,
    SWITCH,
    default=False,
    meaning="marks each answer of the coordinator in the timeline",
)
TIMELINE_ALL_RANKS = Setting(
    "HOROVOD_TIMELINE_ALL_RANKS",
    switch,
    SWITCH,
    default=False,
    meaning="every rank records a timeline, rank 1 that of trace.json to trace.rank1.json",
)
ELASTIC = Setting(
    "HOROVOD_ELASTIC", switch, SWITCH, default=False, meaning="whether ranks may come and go"
)
ELASTIC_TIMEOUT = Setting(
    "HOROVOD_ELASTIC_TIMEOUT",
    seconds,
    SECONDS,
    600.0,
    "how long forming an elastic job anew may take",
)
ELASTIC_WORKER = Setting(
    "HOROVOD_ELASTIC_WORKER",
    count,
    COUNT,
    -1,
    "number by which the launcher of an elastic job knows this process",
)
ELASTIC_ROUND = Setting(
    "HOROVOD_ELASTIC_ROUND",
    count,
    COUNT,
    0,
    "how often the elastic job has been formed; set by init()",
)
PARENT_RANK = Setting(
    "HOROVOD_PARENT_RANK",
    str,
    "what a rank has put there",
    "",
    "the place of a rank, for processes that multiprocessing starts in it; set by init()",
)
SECRET = Setting(
    "_HOROVOD_SECRET_KEY",
    secret,
    "at least 16 bytes in hexadecimal",
    b"",
    "proves to the other ranks and to the store that this process belongs to the job",
)

# What launchers tell the ranks, and init() the ranks of elastic jobs and children of ranks.
LAUNCHER_SETTINGS: tuple[Setting[int] | Setting[str] | Setting[bytes] | Setting[bool], ...] = (
    RANK,
    SIZE,
    LOCAL_RANK,
    LOCAL_SIZE,
    CROSS_RANK,
    CROSS_SIZE,
    HOSTNAME,
    RENDEZVOUS_ADDRESS,
    RENDEZVOUS_PORT,
    ELASTIC,
    ELASTIC_WORKER,
    ELASTIC_ROUND,
    PARENT_RANK,
    SECRET,
)
SETTINGS: tuple[
    Setting[int] | Setting[str] | Setting[float] | Setting[bytes] | Setting[bool], ...
] = (
    *LAUNCHER_SETTINGS,
    INTERFACE,
    START_TIMEOUT,
    GLOO_TIMEOUT,
    TRANSPORT,
    CONGESTION_CONTROL,
    HEARTBEAT_TIMEOUT,
    HIERARCHICAL_ALLREDUCE,
    HIERARCHICAL_ALLGATHER,
    SINGLE_COPY_BYTES,
    CONTROL_FANOUT,
    CYCLE_TIME,
    FUSION_THRESHOLD,
    DISABLE_GROUP_FUSION,
    CACHE_CAPACITY,
    DYNAMIC_PROCESS_SETS,
    CONTROLLER,
    CPU_OPERATIONS,
    AUTOTUNE,
    AUTOTUNE_LOG,
    AUTOTUNE_WARMUP_SAMPLES,
    AUTOTUNE_STEPS_PER_SAMPLE,
    AUTOTUNE_MOST_SAMPLES,
    STALL_CHECK_DISABLE,
    STALL_CHECK_TIME,
    STALL_SHUTDOWN_TIME,
    LOG_LEVEL,
    LOG_HIDE_TIME,
    TIMELINE,
    TIMELINE_MARK_CYCLES,
    TIMELINE_ALL_RANKS,
    MPI_LIBRARY,
    MPI_THREADS_DISABLE,
    ELASTIC_TIMEOUT,
)
