"""The examples, run as their first lines say."""

import sys
from pathlib import Path

import pytest

from collective.launching import horovodrun

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name", ["numpy_mlp.py", pytest.param("torch_mlp.py", marks=pytest.mark.torch)]
)
def test_example(name: str) -> None:
    launched = horovodrun("-np", "2", sys.executable, EXAMPLES / name)
    assert launched.code == 0, launched.out + launched.err
    assert "parameters on 2 ranks: identical" in launched.lines(0)
