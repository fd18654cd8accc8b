"""Which MPI has started this process, and which library and plug-in serve it."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from horovod import _settings
from horovod._loader import NATIVE, _bindings
from horovod._parents import parent_of
from horovod._setting_values import SettingError

PLUGIN_FOLDER = NATIVE / "mpi"

# The families of binary interfaces, and the names under which their libraries are installed.
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("libmpi.so.40",),
    "mpich": ("libmpi.so.12", "libmpich.so.12"),
    "standard": ("libmpi_abi.so.1", "libmpi_abi.so.0"),
}
_PLAIN_NAME = "libmpi.so"  # what mpi4py opens first
FAMILY_NAMES = {
    "openmpi": "Open MPI",
    "mpich": "MPICH or Intel MPI",
    "standard": "an MPI with the standard's binary interface",
}

# Programs whose children are ranks.
_LAUNCHERS = {
    "openmpi": ("prterun", "prted", "orterun", "orted", "mpirun", "mpiexec"),
    "mpich": ("hydra_pmi_proxy", "hydra_bstrap_proxy"),
}
_PREFIX_VARIABLES = ("OPAL_PREFIX", "I_MPI_ROOT", "MPI_HOME", "MPI_ROOT")
_GENERATIONS = 8  # ancestors that may stand between a launcher and a rank: shells, wrappers


class MpiNotFoundError(RuntimeError):
    """No installed MPI can serve this process."""


@dataclass(frozen=True)
class MpiChoice:
    """An installed MPI.

    Attributes:
        family: of its binary interface; a key of `LIBRARIES`.
        library: path, or a name that the dynamic loader searches for.
        plugin: the file that goes with it.
        reason: why this one.
    """

    family: str
    library: str
    plugin: Path
    reason: str

    @property
    def files(self) -> tuple[bytes, bytes]:
        """The plug-in and the library, as the system names files."""
        return os.fsencode(self.plugin), os.fsencode(self.library)


@dataclass(frozen=True)
class Launch:
    """What the environment says of an MPI launcher.

    Attributes:
        family: "openmpi" or "mpich"; "" when several could have started this process.
        size: number of ranks; None when the environment does not say.
    """

    family: str
    size: int | None


def built_families(folder: Path = PLUGIN_FOLDER) -> tuple[str, ...]:
    """The families that this build has a plug-in for."""
    return tuple(family for family in LIBRARIES if _plugin(folder, family).is_file())


def _plugin(folder: Path, family: str) -> Path:
    return folder / f"libhorovod_mpi_{family}.so"


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None


def read_launch(environment: Mapping[str, str]) -> Launch | None:
    """Looks for the traces of mpirun, mpiexec and srun; None when there are none."""
    if (size := _number(environment, "OMPI_COMM_WORLD_SIZE")) is not None:
        return Launch("openmpi", size)
    if "PMI_RANK" in environment:
        # Slurm speaks PMI to every family; Hydra, the launcher of MPICH and Intel MPI, adds this.
        hydra = "MPI_LOCALNRANKS" in environment
        return Launch("mpich" if hydra else "", _number(environment, "PMI_SIZE"))
    if "PMIX_RANK" in environment:
        return Launch("", _number(environment, "SLURM_STEP_NUM_TASKS"))
    return None


def speaks_pmi(environment: Mapping[str, str]) -> bool:
    """Whether a launcher tells its tasks of each other by PMI, which Open MPI 5 does not know."""
    return "PMI_RANK" in environment and "PMIX_RANK" not in environment


def launched_rank(environment: Mapping[str, str]) -> int:
    """Which of its ranks an MPI launcher calls this process; 0 when none has started it."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
        if (rank := _number(environment, name)) is not None:
            return rank
    return 0


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the ranks of this job find each other through MPI.

    They do if `HOROVOD_CONTROLLER` says so. If it says nothing they do in a job that an MPI
    launcher has started with several ranks, unless these have been started by `horovodrun`.

    Raises:
        SettingError: a variable is not accepted.
    """
    controller = _settings.CONTROLLER.read(environment)
    if controller != "auto":
        return controller == "mpi"
    if _settings.RANK.name in environment or _settings.SIZE.name in environment:
        return False
    launch = read_launch(environment)
    return launch is not None and launch.size != 1


def others_wait(environment: Mapping[str, str]) -> bool:
    """Whether other ranks of an MPI launcher wait for this one to start MPI.

    Nothing is refused here: a value of `HOROVOD_CONTROLLER` that is not accepted says nothing.
    """
    launch = read_launch(environment)
    if launch is None or launch.size == 1:
        return False
    try:
        return is_wanted(environment)
    except SettingError:
        return is_wanted({**environment, _settings.CONTROLLER.name: ""})


def describe_lone_tasks(environment: Mapping[str, str]) -> str:
    """What to tell whoever has started several tasks that do not know of each other.

    Returns:
        A line for one of the tasks; "" where there is nothing to say.
    """
    if any(setting.name in environment for setting in (_settings.RANK, _settings.SIZE)):
        return ""
    launch = read_launch(environment)
    if launch is not None:
        kept_apart = (launch.size or 1) > 1 and _settings.CONTROLLER.read(environment) == "gloo"
        if not kept_apart or launched_rank(environment):
            return ""
        return (
            f"the launcher has started {launch.size} tasks, and {_settings.CONTROLLER.name}=gloo"
            " keeps them from meeting through MPI: each is a job of one rank. Start them by"
            " horovodrun, or leave the variable out"
        )
    tasks = _number(environment, "SLURM_STEP_NUM_TASKS") or 1
    if tasks == 1:
        return ""
    if _number(environment, "SLURM_PROCID"):
        return ""
    return (
        f"srun has started {tasks} tasks and told them nothing of each other: each is a job of one"
        " rank. Start them by horovodrun, or by srun --mpi=pmix (or --mpi=pmi2)"
    )


def loaded_libraries(maps: str) -> list[str]:
    """Paths of the MPI libraries among a process's mapped files.

    Args:
        maps: text of `/proc/self/maps`.
    """
    paths = dict.fromkeys(
        line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")
    )
    return [path for path in paths if family_of(path)]


def family_of(library: str) -> str:
    """The family of a library by its file name, or by its neighbours'; "" when these tell none."""
    path = Path(library)
    for family, names in LIBRARIES.items():
        if any(f"{path.name}.".startswith(f"{known}.") for known in names):
            return family
    if path.name != _PLAIN_NAME:
        return ""
    # Intel MPI's is a whole library of its own, not a link to the one with a number.
    beside = [
        family
        for family, names in LIBRARIES.items()
        for name in names
        if name.startswith(f"{_PLAIN_NAME}.") and (path.parent / name).is_file()
    ]
    return beside[0] if len(beside) == 1 else ""


def _ancestors() -> Iterator[Path]:
    """The programs of this process's parents, as far as they may be seen; the nearest first."""
    process = os.getppid()
    for _ in range(_GENERATIONS):
        folder = Path("/proc", str(process))
        try:
            program = (folder / "exe").readlink()
            process = parent_of(process)
        except OSError:
            return
        yield program
        if process <= 1:
            return


def _launcher_prefix(family: str, ancestors: Iterable[Path]) -> Path | None:
    """The folder that the launcher is installed under."""
    names = _LAUNCHERS.get(family) or sum(_LAUNCHERS.values(), ())
    for program in ancestors:
        if program.name in names:
            return program.parent.parent
    return None


def _prefixes(family: str, environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    prefix = _launcher_prefix(family, _ancestors())
    if prefix is not None:
        yield prefix, "beside the launcher"
    for name in _PREFIX_VARIABLES:
        if environment.get(name):
            yield Path(environment[name]), f"${name}"
    yield Path(sys.prefix), "in this Python's environment"
    program = shutil.which("mpirun", path=environment.get("PATH"))
    if program is not None:
        yield Path(program).resolve().parent.parent, "beside mpirun"


def candidates(
    environment: Mapping[str, str], maps: str, families: Iterable[str]
) -> Iterator[tuple[str, str, str]]:
    """What could be opened, the best first: family, library and why.

    An MPI that the process has loaded, as mpi4py does, leaves no choice: there is one in a process.

    Args:
        environment: of the process.
        maps: text of `/proc/self/maps`.
        families: that may be taken.
    """
    families = tuple(families)
    named = _settings.MPI_LIBRARY.read(environment)
    if named:
        found = [family_of(named)] if family_of(named) else families
        yield from ((family, named, _settings.MPI_LIBRARY.name) for family in found)
        return
    loaded = loaded_libraries(maps)
    if loaded:
        yield from ((family_of(path), path, "loaded already") for path in loaded)
        return
    for family in families:
        for prefix, reason in _prefixes(family, environment):
            for name in LIBRARIES[family]:
                path = prefix / "lib" / name
                if path.is_file():
                    yield family, str(path), reason
    for family in families:
        for name in LIBRARIES[family]:
            yield family, name, "where the dynamic loader looks"


def read_maps() -> str:
    """The text of `/proc/self/maps`, whose paths need not be UTF-8; "" where it may not be read."""
    with contextlib.suppress(OSError):
        return os.fsdecode(Path("/proc/self/maps").read_bytes())
    return ""


def find_mpi(
    core: bytes,
    environment: Mapping[str, str] = os.environ,
    folder: Path = PLUGIN_FOLDER,
    maps: str | None = None,
) -> tuple[MpiChoice, str]:
    """The MPI that serves this process, and what it says of itself. Opens it, and starts nothing.

    Args:
        core: path of the core library.
        environment: variables of the process.
        folder: where the plug-ins lie.
        maps: what `read_maps` has read before, in place of what it reads now.

    Raises:
        MpiNotFoundError: this build or this machine has none, or not the launcher's.
    """
    built = built_families(folder)
    if not built:
        raise MpiNotFoundError("this build has no plug-in for any MPI (HVD_MPI was OFF)")
    launch = read_launch(environment)
    family = launch.family if launch else ""
    wanted = [name for name in built if not family or name in (family, "standard")]
    if launch and not family and speaks_pmi(environment):
        wanted.sort(key=lambda name: name == "openmpi")
    failures = []
    text = read_maps() if maps is None else maps
    for kind, library, reason in candidates(environment, text, wanted):
        if kind not in built:
            failures.append(f"{library} ({reason}): this build has plug-ins for {built} only")
            continue
        choice = MpiChoice(kind, library, _plugin(folder, kind), reason)
        try:
            version = _bindings.mpi_version(core, *choice.files)
        except OSError as error:
            failures.append(f"{library} ({reason}): {error}")
            continue
        if family and (family == "openmpi") != version.startswith("Open MPI"):
            failures.append(
                f"{library} ({reason}) is {version}, but {FAMILY_NAMES[family]} has started this"
                " process"
            )
            continue
        return choice, version
    raise MpiNotFoundError(
        f"no MPI library can be used; tried {'; '.join(failures) or 'nothing'}. Install the MPI"
        " whose mpirun is used, or name its library:"
        f" {_settings.MPI_LIBRARY.name}=/path/to/libmpi.so"
    )
