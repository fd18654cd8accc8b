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


@pytest.mark.torch
def test_digits_are_learnt() -> None:
    launched = horovodrun(
        "-np", "2", sys.executable, EXAMPLES / "torch_mnist.py", "--use-adasum", "--fp16-allreduce"
    )  # fmt: skip
    assert launched.code == 0, launched.out + launched.err
    assert "test set: loss" in launched.out


@pytest.mark.torch
def test_a_residual_network_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    command: list[str | Path] = [
        "-np", "2", sys.executable, EXAMPLES / "torch_resnet.py", "--sync-batch-norm",
        "--checkpoint-format", str(tmp_path / "checkpoint-{epoch}.pt"), "--epochs",
    ]  # fmt: skip
    first = horovodrun(*command, "1")
    assert first.code == 0, first.out + first.err
    second = horovodrun(*command, "2")
    assert second.code == 0, second.out + second.err
    assert "resumed after epoch 1" in second.lines(0)
    assert [line[:8] for line in second.lines(0) if line.startswith("epoch")] == ["epoch 2:"]


@pytest.mark.torch
def test_the_elastic_example() -> None:
    launched = horovodrun(
        "-np", "2", "--min-np", "1", sys.executable, EXAMPLES / "torch_elastic.py"
    )
    assert launched.code == 0, launched.out + launched.err
    assert any(line.startswith("epoch 3 on 2 ranks") for line in launched.lines(0))
