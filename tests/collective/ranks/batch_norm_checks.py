"""Batch normalisation over the batches of all ranks, against PyTorch's own on the joined batch."""

import warnings

import pytest
import torch

import horovod.torch as hvd
from horovod.torch.sync_batch_norm import _SyncBatchNorm


def check_sync_batch_norm() -> None:
    """Forward, gradients and running statistics are those of torch's own on the joined batch."""
    for shape, momentum, affine in (
        ((3,), 0.1, True),
        ((3, 5), None, True),
        ((3, 2, 4), 0.5, False),
    ):
        generator = torch.Generator().manual_seed(11)
        rows = [4 + 2 * rank for rank in range(hvd.size())]
        joined = torch.randn(sum(rows), *shape, generator=generator) * 3 + 10
        weights = torch.randn(sum(rows), *shape, generator=generator)
        plain_kind = {1: torch.nn.BatchNorm1d, 2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm2d}
        plain = plain_kind[len(shape)](3, momentum=momentum, affine=affine)
        synced = hvd.SyncBatchNorm(3, momentum=momentum, affine=affine)
        if affine:
            for layer in (plain, synced):
                for seed, parameter in enumerate(layer.parameters()):
                    drawn = torch.Generator().manual_seed(seed)
                    parameter.data.copy_(torch.rand(parameter.shape, generator=drawn))
        start = sum(rows[: hvd.rank()])
        part = slice(start, start + rows[hvd.rank()])
        for _ in range(2):
            whole = joined.clone().requires_grad_()
            mine = joined[part].clone().requires_grad_()
            plain.zero_grad()
            synced.zero_grad()
            expected, result = plain(whole), synced(mine)
            torch.testing.assert_close(result, expected[part], rtol=1e-4, atol=1e-5)
            torch.autograd.backward((expected * weights).sum())
            torch.autograd.backward((result * weights[part]).sum())
            assert whole.grad is not None
            torch.testing.assert_close(mine.grad, whole.grad[part], rtol=1e-4, atol=1e-5)
            for name, parameter in synced.named_parameters():
                assert parameter.grad is not None
                summed = hvd.allreduce(parameter.grad, op=hvd.Sum, name=name)
                torch.testing.assert_close(
                    summed, plain.get_parameter(name).grad, rtol=1e-4, atol=1e-4
                )
        for name, buffer in plain.named_buffers():
            torch.testing.assert_close(synced.get_buffer(name), buffer, rtol=1e-4, atol=1e-5)
        plain.eval()
        synced.eval()
        torch.testing.assert_close(synced(joined), plain(joined), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="expected at least 2D input"):
        hvd.SyncBatchNorm(3)(torch.ones(3))


def check_second_derivatives() -> None:
    """As of penalties for large gradients; through the statistics they lead to all ranks."""
    generator = torch.Generator().manual_seed(5)
    rows = [3 + rank for rank in range(hvd.size())]
    joined = torch.randn(sum(rows), 2, 3, generator=generator, dtype=torch.float64)
    start = sum(rows[: hvd.rank()])
    part = slice(start, start + rows[hvd.rank()])
    found = []
    for layer, values in (
        (torch.nn.BatchNorm1d(2), joined),
        (hvd.SyncBatchNorm(2), joined[part]),
    ):
        values = values.clone().requires_grad_()  # noqa: PLW2901 - a leaf
        result = layer.double()(values)
        (first,) = torch.autograd.grad((result**3).sum(), values, create_graph=True)
        torch.autograd.backward((first**2).sum())
        assert values.grad is not None
        assert layer.weight.grad is not None
        found.append((values.grad, layer.weight.grad))
    (expected, weight), (mine, own_weight) = found
    torch.testing.assert_close(mine, expected[part])
    torch.testing.assert_close(hvd.allreduce(own_weight, op=hvd.Sum), weight)


def check_what_else_pytorchs_modules_take() -> None:
    layer = hvd.SyncBatchNorm(4, device="cpu", dtype=torch.float64)
    assert {value.dtype for value in layer.state_dict().values()} == {torch.float64, torch.int64}
    assert layer(torch.randn(3, 4, dtype=torch.float64)).dtype == torch.float64


def check_other_channels_are_refused() -> None:
    for layer in (hvd.SyncBatchNorm(4), hvd.SyncBatchNorm(4, track_running_stats=False)):
        with pytest.raises(RuntimeError, match="should contain 1 elements not 4"):
            layer(torch.ones(3, 1, 2))
    with pytest.raises(RuntimeError, match="floating-point"):
        hvd.SyncBatchNorm(4)(torch.ones(3, 4, dtype=torch.int64))
    # Nothing depends on the number.
    free = hvd.SyncBatchNorm(4, affine=False, track_running_stats=False)
    assert free(torch.randn(3, 1, 2)).shape == (3, 1, 2)


def check_what_has_been_trained_may_be_scripted() -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), hvd.SyncBatchNorm(3))
    model(torch.randn(4, 2, 5, 5))
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript itself is deprecated
        scripted = torch.jit.script(model)
    batch = torch.randn(2, 2, 5, 5)
    torch.testing.assert_close(scripted(batch), model(batch))


def check_running_statistics_are_kept_when_torch_keeps_them() -> None:
    """Also where a layer's attributes change later, as in virtual adversarial training."""
    joined = torch.randn(hvd.size(), 4, 3, generator=torch.Generator().manual_seed(6)) + 2
    for momentum in (0.5, None):
        for tracks in (True, False):
            for counts in (True, False):
                plain = torch.nn.BatchNorm1d(3, momentum=momentum)
                synced = hvd.SyncBatchNorm(3, momentum=momentum)
                for layer in (plain, synced):
                    layer.track_running_stats = tracks
                    if not counts:
                        layer.num_batches_tracked = None
                for _ in range(2):
                    expected = plain(joined.flatten(0, 1)).unflatten(0, (-1, 4))[hvd.rank()]
                    torch.testing.assert_close(
                        synced(joined[hvd.rank()]), expected, rtol=1e-4, atol=1e-5
                    )
                for name, buffer in plain.named_buffers():
                    torch.testing.assert_close(
                        synced.get_buffer(name), buffer, rtol=1e-4, atol=1e-5
                    )
                plain.eval()
                synced.eval()
                torch.testing.assert_close(synced(joined[0]), plain(joined[0]))


def check_batches_are_joined_in_evaluation_too_where_there_are_no_running_statistics() -> None:
    joined = torch.randn(hvd.size(), 4, 3, generator=torch.Generator().manual_seed(8)) + 2
    plain = torch.nn.BatchNorm1d(3, track_running_stats=False).eval()
    synced = hvd.SyncBatchNorm(3, track_running_stats=False).eval()
    expected = plain(joined.flatten(0, 1)).unflatten(0, (-1, 4))[hvd.rank()]
    torch.testing.assert_close(synced(joined[hvd.rank()]), expected, rtol=1e-4, atol=1e-5)


def check_sync_batch_norm_of_empty_and_half_precision_batches() -> None:
    layer = hvd.SyncBatchNorm(2, track_running_stats=False)
    rows = 0 if hvd.rank() == 0 else 8
    mine = torch.randn(rows, 2, requires_grad=True)
    result = layer(mine)
    assert result.shape == (rows, 2)
    torch.autograd.backward(result.square().sum())
    for momentum in (0.1, None):
        for kind in (torch.nn.BatchNorm1d, hvd.SyncBatchNorm):
            with_statistics = kind(2, momentum=momentum)
            nothing = torch.ones(0, 2, requires_grad=True)
            mean, variance = with_statistics.running_mean, with_statistics.running_var
            assert mean is not None
            assert variance is not None
            mean.fill_(3)
            variance.fill_(5)
            result = with_statistics(nothing)  # on all ranks
            torch.autograd.backward(result.sum())
            assert nothing.grad is not None
            assert result.shape == nothing.grad.shape == (0, 2)
            assert (mean.tolist(), variance.tolist()) == ([3.0] * 2, [5.0] * 2)
            assert with_statistics.num_batches_tracked == 1
    half = layer(torch.randn(4, 2, 3, dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16
    doubled = hvd.SyncBatchNorm(2).double()(torch.randn(4, 2, dtype=torch.float64) + 1e6)
    mean = hvd.allreduce(doubled.mean(0), op=hvd.Average)
    torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-7, rtol=0)


def check_a_variance_beyond_float16_counts_by_its_part() -> None:
    generator = torch.Generator().manual_seed(5)
    joined = torch.randn(8 * hvd.size(), 3, 4, generator=generator).mul(300).half()
    variance = joined.float().var(dim=(0, 2))
    assert variance.half().isinf().all()
    synced, expected = hvd.SyncBatchNorm(3).half(), torch.ones(3)
    for _ in range(3):
        synced(joined[hvd.rank() * 8 :][:8])
        expected = torch.lerp(expected, variance, 0.1).half().float()  # PyTorch rounds once, too
    assert synced.running_var is not None
    torch.testing.assert_close(synced.running_var.float(), expected, rtol=2e-3, atol=0)


def check_the_calculation_under_horovods_name() -> None:
    joined = torch.randn(hvd.size(), 4, 3, generator=torch.Generator().manual_seed(5)) + 2
    mean, variance = torch.zeros(3), torch.ones(3)
    result = _SyncBatchNorm.apply(
        joined[hvd.rank()], torch.full((3,), 2.0), None, mean, variance, 1e-5, 0.5
    )
    plain = torch.nn.BatchNorm1d(3, momentum=0.5)
    expected = 2 * plain(joined.flatten(0, 1)).unflatten(0, (-1, 4))[hvd.rank()]
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mean, plain.running_mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(variance, plain.running_var, rtol=1e-4, atol=1e-5)


def check_sync_batch_norm_rounds_once() -> None:
    """Float32 weights of half-precision batches: nothing is rounded to the batches' type before."""

    def relative(one: torch.Tensor, other: torch.Tensor) -> float:
        return float((one.double() - other).abs().max() / other.abs().max())

    for dtype, rounding in ((torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)):
        generator = torch.Generator().manual_seed(7)
        joined, weights = torch.randn(2, hvd.size(), 16, 4, 5, 5, generator=generator).to(dtype)
        synced, exact = hvd.SyncBatchNorm(4), torch.nn.BatchNorm2d(4).double()
        for layer in (synced, exact):
            with torch.no_grad():
                layer.weight.copy_(torch.tensor([1.2345, 0.777, 3.3331, 0.1]))
                layer.bias.copy_(torch.tensor([0.1, -0.2, 0.3, 4.0]))
        whole = joined.double().flatten(0, 1).requires_grad_()
        mine = joined[hvd.rank()].clone().requires_grad_()
        expected, result = exact(whole).unflatten(0, (-1, 16))[hvd.rank()], synced(mine)
        assert result.dtype == dtype
        assert ((result.double() - expected).abs() <= 1.01 * rounding * expected.abs() + 1e-6).all()
        torch.autograd.backward((exact(whole) * weights.double().flatten(0, 1)).sum())
        torch.autograd.backward((result * weights[hvd.rank()]).sum())
        assert whole.grad is not None
        assert mine.grad is not None
        assert mine.grad.dtype == dtype
        assert relative(mine.grad, whole.grad.unflatten(0, (-1, 16))[hvd.rank()]) < 1.01 * rounding
        for name, parameter in synced.named_parameters():
            assert parameter.grad is not None
            assert parameter.grad.dtype == torch.float32
            summed = hvd.allreduce(parameter.grad, op=hvd.Sum, name=name)
            reference = exact.get_parameter(name).grad
            assert reference is not None
            assert relative(summed, reference) < 1e-5, (name, dtype)
