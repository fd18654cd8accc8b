"""pip and uv hand one machine's wheel to another that shares the home: found out, and mended.

Both cache what the selector's hook returned, keyed by the sdist alone. The machines are captured
ones; what an installation finds on them is stated by the variables that state facts.
"""

import json
from pathlib import Path

import pytest

from integration.environments import ROOT
from integration.many_variants import PROJECT, Home, ManyVariants

MACHINES = ROOT / "tests"
GPU = {
    "VARIANTWHEEL_ASSUME_CUDA": "13.0",
    "VARIANTWHEEL_ASSUME_SM": "9.0",
    "VARIANTWHEEL_ASSUME_CPU": "x86-64-v3",
}
LOGIN = {"VARIANTWHEEL_ASSUME_CUDA": ""}
GPU_MACHINE, LOGIN_MACHINE = MACHINES / "gpu_machines/nvidia_h100", MACHINES / "machines/haswell"


def repair(printed: str, program: str) -> list[str]:
    """The command that a message names, without the program's name."""
    lines = [line.strip() for line in printed.splitlines()]
    (command,) = [line for line in lines if line.startswith(f"{program} install ")]
    assert command.endswith(f" {PROJECT}==1.0")
    return command.removeprefix(program).split()


@pytest.mark.parametrize("program", ["pip", "uv pip"])
@pytest.mark.parametrize(
    ("first", "second", "machine", "words", "code"),
    [
        (GPU, LOGIN, LOGIN_MACHINE, "cu13 does not fit this machine", 1),
        (LOGIN, GPU, GPU_MACHINE, "cu13 would fit better", 0),
    ],
    ids=["gpu-node-first", "login-node-first"],
)
def test_the_other_machines_wheel_is_found_out_and_mended(
    many: ManyVariants, home: Home, native_label: str, program: str, first: dict[str, str],
    second: dict[str, str], machine: Path, words: str, code: int,
) -> None:  # fmt: skip
    wrong, right = ("cu13", native_label) if first is GPU else (native_label, "cu13")
    run = home.pip if program == "pip" else home.uv
    index = {"PIP_INDEX_URL": many.index, "UV_DEFAULT_INDEX": many.index}
    run("one", "install", PROJECT, env=index | first)
    assert home.label("one") == wrong
    run("two", "install", PROJECT, env=index | second)
    assert home.label("two") == wrong, "the hazard: the cache knows nothing of machines"
    printed = home.selector("two", "verify", PROJECT, "--machine", machine, expect=code)
    assert words in printed
    (found,) = json.loads(
        home.selector("two", "verify", PROJECT, "--machine", machine, "--json", expect=code)
    )["distributions"]
    assert (found["label"], found["fits"]) == (wrong, code == 0)
    # What the message says is done; the index that was configured then is part of it.
    command = repair(printed, program)
    assert command[command.index("--index-url") + 1] == many.index
    run("two", *command, env=second)
    assert home.label("two") == right
    printed = home.selector("two", "verify", PROJECT, "--machine", machine)
    assert "fits this machine" in printed
    assert "choose anew" not in printed
    assert "would fit better" not in printed
    # The first machine's environment is untouched.
    assert home.label("one") == wrong


def test_pip_without_its_cache_and_uv_with_refresh_choose_for_themselves(
    many: ManyVariants, home: Home, native_label: str
) -> None:
    """What the documentation tells users of shared homes to do beforehand."""
    index = {"PIP_INDEX_URL": many.index, "UV_DEFAULT_INDEX": many.index}
    home.pip("a", "install", PROJECT, env=index | GPU)
    home.pip("b", "install", PROJECT, env=index | LOGIN | {"PIP_NO_CACHE_DIR": "1"})
    assert (home.label("a"), home.label("b")) == ("cu13", native_label)
    home.uv("c", "install", PROJECT, env=index | GPU)
    home.uv("d", "install", "--refresh", PROJECT, env=index | LOGIN)
    assert (home.label("c"), home.label("d")) == ("cu13", native_label)
