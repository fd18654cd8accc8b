"""Which line of a program is said to wait."""

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import horovod
from horovod._call_site import call_site

OURS = str(Path(horovod.__file__).parent / "torch" / "blocking.py")
PYTORCHS = "/opt/site-packages/torch/autograd/function.py"
USERS = "/opt/site-packages/torchmetrics/metric.py"


def through(file: str, function: Callable[[], str]) -> Callable[[], str]:
    """The function, called by another one of that file, in its third line."""
    names: dict[str, Callable[[], str]] = {"function": function}
    exec(compile("\n\ndef call(): return function()\n", file, "exec"), names)  # noqa: S102 - ours
    return names["call"]


@pytest.mark.parametrize(
    "files",
    [  # innermost first
        (OURS, USERS, PYTORCHS),
        (OURS, PYTORCHS, OURS, USERS),
        (OURS, PYTORCHS, OURS, PYTORCHS, USERS, OURS),
    ],
)
def test_the_users_line_is_told_from_ours_and_pytorchs(
    files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytorch = types.ModuleType("torch")
    pytorch.__file__ = "/opt/site-packages/torch/__init__.py"
    monkeypatch.setitem(sys.modules, "torch", pytorch)
    function = call_site
    for file in files:
        function = through(file, function)
    assert function() == f"{USERS}:3"


def test_a_program_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert through(USERS, through(OURS, call_site))() == f"{USERS}:3"


def test_a_path_that_is_not_utf_8_can_be_told() -> None:
    site = through("/opt/t\udce9.py", call_site)()
    assert site == "/opt/t\\udce9.py:3"
    assert site.encode()
