"""Trains a small model in NumPy on all ranks: `horovodrun -np 2 python examples/numpy_mlp.py`.

Ends with code 1 if the loss has not fallen or the ranks' parameters differ.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import horovod.array as hvd

Array = npt.NDArray[np.float32]
STEPS = 200
BATCH = 64
HIDDEN = 32
RATE = 0.5


def make_data(rank: int) -> tuple[Array, Array]:
    """Points of a plane, labelled by whether they lie in a disc; other points on every rank."""
    generator = np.random.default_rng(1000 + rank)
    points = generator.uniform(-2, 2, (STEPS * BATCH, 2)).astype(np.float32)
    labels = (np.hypot(points[:, :1], points[:, 1:]) < 1.3).astype(np.float32)
    return points, labels


def make_parameters(seed: int) -> dict[str, Array]:
    """The weights and biases of two layers."""
    generator = np.random.default_rng(seed)
    shapes = {"weight1": (2, HIDDEN), "bias1": (HIDDEN,), "weight2": (HIDDEN, 1), "bias2": (1,)}
    return {
        name: generator.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()
    }


def loss_and_gradients(
    parameters: dict[str, Array], points: Array, labels: Array
) -> tuple[float, dict[str, Array]]:
    """The mean cross-entropy of one batch, and its derivative by each parameter."""
    hidden = np.tanh(points @ parameters["weight1"] + parameters["bias1"])
    logits = hidden @ parameters["weight2"] + parameters["bias2"]
    probabilities = 1 / (1 + np.exp(-logits))
    loss = np.mean(np.logaddexp(0, logits) - labels * logits)
    by_logits = (probabilities - labels) / len(points)
    by_hidden = (by_logits @ parameters["weight2"].T) * (1 - hidden**2)
    gradients = {
        "weight1": points.T @ by_hidden,
        "bias1": by_hidden.sum(0),
        "weight2": hidden.T @ by_logits,
        "bias2": by_logits.sum(0),
    }
    return float(loss), gradients


def average(gradients: dict[str, Array]) -> dict[str, Any]:
    """The mean of all ranks' gradients; all are on their way before the first is waited for."""
    handles = {
        name: hvd.allreduce_async_(gradient, name=name, op=hvd.Average)
        for name, gradient in gradients.items()
    }
    return {name: hvd.synchronize(handle) for name, handle in handles.items()}


def main() -> int:
    """Trains, compares the ranks and returns the exit code."""
    hvd.init()
    # Ranks start unlike, and are made alike by the broadcast.
    parameters = {
        name: hvd.broadcast(value, 0, name=name)
        for name, value in make_parameters(seed=hvd.rank()).items()
    }
    points, labels = make_data(hvd.rank())
    losses = []
    for step in range(STEPS):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        loss, gradients = loss_and_gradients(parameters, points[batch], labels[batch])
        for name, gradient in average(gradients).items():
            parameters[name] -= RATE * gradient
        losses.append(float(hvd.allreduce(np.array([loss]), name="loss")[0]))
        if hvd.rank() == 0 and step % 40 == 0:
            print(f"step {step:3d}  loss {losses[-1]:.4f}")

    flat = np.concatenate([value.ravel() for value in parameters.values()])
    everyones = hvd.allgather(flat[np.newaxis])
    identical = all(np.array_equal(everyones[0], other) for other in everyones)
    fell = losses[-1] < 0.8 * losses[0]
    if hvd.rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
        print(f"parameters on {hvd.size()} ranks: {'identical' if identical else 'DIFFERENT'}")
    return 0 if identical and fell else 1


if __name__ == "__main__":
    sys.exit(main())
