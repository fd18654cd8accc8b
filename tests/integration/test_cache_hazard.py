"""pip and uv hand one machine's wheel to another that shares the home: found out, and mended.

Both cache what the selector's hook returned, keyed by the sdist alone. The machines are captured
ones; what an installation finds on them is stated by the variables that state facts.
"""

import json
import shlex
import sys
from pathlib import Path

import pytest

from integration.environments import ROOT, run
from integration.many_variants import PROJECT, UV, Home, ManyVariants

MACHINES = ROOT / "tests"
GPU = {
    "VARIANTWHEEL_ASSUME_CUDA": "13.0",
    "VARIANTWHEEL_ASSUME_SM": "9.0",
    "VARIANTWHEEL_ASSUME_CPU": "x86-64-v3",
}
LOGIN = {"VARIANTWHEEL_ASSUME_CUDA": ""}
GPU_MACHINE, LOGIN_MACHINE = MACHINES / "gpu_machines/nvidia_h100", MACHINES / "machines/haswell"


PROGRAMS = {"pip": (sys.executable, "-m", "pip"), "uv": (str(UV),)}


def repair(printed: str, program: str) -> list[str]:
    """The command that a message names, with this test's pip or uv for the one on PATH."""
    lines = [shlex.split(line) for line in printed.splitlines() if " install " in line]
    # `Home.selector` lends the environment this test's packages, of which pip is one.
    lines = [
        ["pip", "--python", words[0], *words[3:]] if words[1:3] == ["-m", "pip"] else words
        for words in lines
    ]
    (command,) = [words for words in lines if words[0] == program]
    return [*PROGRAMS[program], *command[1:]]


@pytest.mark.parametrize("served", [True, False], ids=["index", "folder"])
@pytest.mark.parametrize("program", ["pip", "uv"])
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
    second: dict[str, str], machine: Path, words: str, code: int, *, served: bool,
) -> None:  # fmt: skip
    wrong, right = ("cu13", native_label) if first is GPU else (native_label, "cu13")
    install = home.pip if program == "pip" else home.uv
    source = (
        {"PIP_INDEX_URL": many.index, "UV_DEFAULT_INDEX": many.index}
        if served
        else {
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(many.folder),
            "UV_OFFLINE": "1", "UV_FIND_LINKS": str(many.folder),
        }
    )  # fmt: skip
    install("one", "install", PROJECT, env=source | first)
    assert home.label("one") == wrong
    install("two", "install", PROJECT, env=source | second)
    assert home.label("two") == wrong, "the hazard: the cache knows nothing of machines"
    printed = home.selector("two", "verify", PROJECT, "--machine", machine, expect=code)
    assert words in printed
    (found,) = json.loads(
        home.selector("two", "verify", PROJECT, "--machine", machine, "--json", expect=code)
    )["distributions"]
    assert (found["label"], found["fits"]) == (wrong, code == 0)
    # What the message says is done, elsewhere; what was configured then is part of it.
    command = repair(printed, program)
    if served:
        assert command[command.index("--index-url") + 1] == many.index
    offline = {} if served else {"UV_OFFLINE": "1"}
    run(*command, env=home.variables({"UV_NO_CONFIG": "1", **offline, **second}), timeout=120)
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
