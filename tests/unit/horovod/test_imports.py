"""What importing the package costs and pulls in, in fresh interpreters."""

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_the_package_itself_loads_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import horovod;"
        " print(*sorted(set(sys.modules) - before))"
    )
    loaded = run(code).split()
    assert "horovod" in loaded
    assert not [name for name in loaded if name.startswith("horovod.")]
    assert "ctypes" not in loaded


def test_importing_starts_no_thread() -> None:
    code = "import os, horovod.array; print(len(os.listdir('/proc/self/task')))"
    assert run(code) == "1"


def test_the_front_end_for_arrays_works_where_numpy_and_torch_cannot_be_imported() -> None:
    code = """
import sys
sys.modules["numpy"] = sys.modules["torch"] = None
import array
import horovod.array as hvd
hvd.init()
print(hvd.allreduce(array.array("f", [1, 2])).tolist(), bytes(hvd.allgather(b"ab")))
print(hvd.broadcast_object({"a": 1}), hvd.rank(), hvd.size())
"""
    assert run(code).splitlines() == ["[1.0, 2.0] b'ab'", "{'a': 1} 0 1"]


def test_horovods_import_paths_are_there() -> None:
    code = """
from horovod.common.basics import HorovodBasics
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.exceptions import HorovodVersionMismatchError
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import env, extension_available, gloo_built, num_rank_is_power_2
from horovod.common.util import split_list
from horovod.runner.launch import parse_args, run_commandline
basics = HorovodBasics(__file__ if "__file__" in globals() else "", "mpi_lib_v2")
print(basics.gloo_built(), basics.mpi_built(), basics.nccl_built(), basics.is_initialized())
print(issubclass(HorovodInternalError, RuntimeError), HostsUpdatedInterrupt(True).skip_sync)
print(HorovodVersionMismatchError("torch", "1", "2"))
print(split_list([1, 2, 3], 2), num_rank_is_power_2(6), extension_available("nonsense"))
print(split_list([1, 2, 3], 5))
import os
os.environ["TO_STAY"] = "1"
with env(TO_STAY=None, FOR_NOW="2"):
    print(os.environ["TO_STAY"], os.environ["FOR_NOW"])
print(os.environ["TO_STAY"], "FOR_NOW" in os.environ)
"""
    lines = run(code).splitlines()
    assert lines[0] == "True False 0 False"
    assert lines[1] == "True True"
    assert "Framework torch installed with version 2 but found version 1." in lines[2]
    assert lines[-4:] == [
        "[[1, 2], [3]] False False",
        "[[1], [2], [3], [], []]",
        "1 2",
        "1 False",
    ]


def test_asking_before_init_is_refused_in_horovods_words() -> None:
    code = """
import horovod.array as hvd
try:
    hvd.size()
except ValueError as error:
    print(error)
"""
    assert run(code) == "Horovod has not been initialized; use hvd.init()."


def test_without_pytorch_the_error_says_how_to_get_it() -> None:
    code = """
import sys
class Hidden:
    def find_spec(self, name, *_):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Hidden())
try:
    import horovod.torch
except ImportError as error:
    print(error)
"""
    said = run(code)
    assert said.startswith("horovod.torch needs PyTorch")
    assert "pip install torch" in said


@pytest.mark.parametrize(
    "module", ["tensorflow", "tensorflow.keras", "keras", "mxnet", "spark", "ray"]
)
def test_front_ends_that_are_absent_say_which_there_are(module: str) -> None:
    code = f"""
try:
    import horovod.{module}
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    name = f"horovod.{module.partition('.')[0]}"
    said = run(code)
    assert said.startswith(f"{name} {name} is not part of horovod-variants, which serves PyTorch")
    assert "horovod.array" in said


def test_questions_about_the_extension() -> None:
    code = """
import os
from horovod.common import util
util.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__ if 0 else "", "mpi_lib_v2")
print(os.path.exists(util.get_extension_full_path("", "mpi_lib_v2")), util.get_ext_suffix()[-3:])
try:
    util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", "")
except ImportError as error:
    print(error)
for version in ("1.9.0", "1.10.0", "2.13.0+cpu", "1.10"):
    print(util.is_version_greater_equal_than(version, "1.10.0"), end=" ")
try:
    util.is_version_greater_equal_than("1.0.0", "1.0")
except ValueError:
    print("refused")
print(util.check_installed_version("torch", "2.0"), util.is_iterable([]), util.is_iterable(1))
with util.env(HOROVOD_X="1"):
    print(os.environ["HOROVOD_X"])
print(os.environ.get("HOROVOD_X"))
"""
    assert run(code).splitlines() == [
        "True .so",
        (
            "Extension horovod.mxnet has not been built: horovod-variants serves horovod.array and"
            " horovod.torch"
        ),
        "False True True True refused",
        "None True False",
        "1",
        "None",
    ]
