"""The benchmark's commands as docs/performance.md gives them, with few and small turns."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import horovod
from collective.launching import LAUNCH_SECONDS
from horovod._native import _buildinfo

BENCH = Path(__file__).parents[2] / "bench"
FEW = ("--sizes", "4B,1KiB", "--rounds", "2")


def _run(*options: str, program: str = "allreduce.py") -> str:
    command = [sys.executable, str(BENCH / program), *FEW, *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LAUNCH_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.torch
def test_the_table_has_a_row_for_each_size() -> None:
    printed = _run("--dtype", "bfloat16", "--transport", "tcp")
    assert "transport tcp" in printed
    rows = printed.split("quartiles\n")[1].splitlines()
    assert [row.split()[:2] for row in rows] == [["4", "B"], ["1", "KiB"]]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("program", "options"), [("gpu.py", ("--rounds=3",)), ("gpu_kernels.py", ())]
)
def test_benchmarks_of_gpus_run_or_say_that_there_is_none(
    program: str, options: tuple[str, ...]
) -> None:
    command = [sys.executable, str(BENCH / program), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LAUNCH_SECONDS
    )
    if Path("/dev/nvidiactl").exists() and _buildinfo.GPU:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ResNet-50" in done.stdout
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("there is no GPU")


@pytest.mark.torch
def test_programs_get_the_turns_of_both_libraries() -> None:
    document = json.loads(_run("--json"))
    assert document["facts"]["transport"] == "shm"
    assert [size["nbytes"] for size in document["sizes"]] == [4, 1024]
    assert all(len(size["ours"]) == len(size["gloo"]) == 2 for size in document["sizes"])


@pytest.mark.torch
def test_the_wheels_of_two_variants_take_turns(tmp_path: Path) -> None:
    package = Path(horovod.__file__).parent
    for label in ("null", "x86_64_v3"):  # of the installed files, so that they do not differ
        name = f"horovod_variants-1-py3-none-linux_{os.uname().machine}-{label}.whl"
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            for path in package.rglob("*"):
                wheel.write(path, path.relative_to(package.parent))
    rows = json.loads(_run(str(tmp_path), "--json", program="variants.py"))["rows"]
    assert len(rows) == 2 * 3
    assert {tuple(row["seconds"]) for row in rows} == {("x86_64_v3", "null")}
    lonely = [sys.executable, str(BENCH / "variants.py"), str(tmp_path), "--labels", "other,null"]
    done = subprocess.run(
        lonely, capture_output=True, text=True, check=False, timeout=LAUNCH_SECONDS
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "0 wheels of 'other'; ./dev matrix builds one" in done.stderr


def test_the_benchmark_of_growth_gives_the_model_its_constants(tmp_path: Path) -> None:
    few = ("--ranks", "2", "--many", "8", "--most-tensors", "10", "--rounds", "1")
    parts = ("--parts", "ranks,tensors,many")
    command = [sys.executable, str(BENCH / "scaling.py"), *parts, *few, "--no-gloo", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LAUNCH_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    measured = json.loads(done.stdout)
    assert [(job["ranks"], job["transport"]) for job in measured["ranks"]] == [
        (2, "shm"),
        (2, "tcp"),
    ]
    assert [row["tensors"] for row in measured["tensors"]["rows"]] == [1, 10]
    assert all(measured["many"][0][way]["step"] > 0 for way in ("direct", "collected"))
    # More ranks, and hosts that need network namespaces: two ranks over loopback stand in for them.
    over_tcp = measured["ranks"][1]
    measured["ranks"].append({**over_tcp, "ranks": 8})
    measured["hosts"] = [{**over_tcp, "hosts": 2}]
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(measured))
    model = [sys.executable, str(BENCH / "scaling_model.py"), str(file)]
    printed = subprocess.run(model, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "| ranks, 8 on each host | 8 | 64 | 256 | 1,024 |" in printed
