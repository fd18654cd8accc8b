"""Compression of gradients on their way: user classes may derive from `Compressor`.

The core converts float32 and float64 tensors of an allreduce to float16 and bfloat16 itself, while
it packs them for their way and unpacks the results (`outgoing`), to the bits that the classes here
give by PyTorch. They stand in for what it leaves alone.
"""

from typing import Any, NamedTuple

import torch

from horovod._reduce_op import Adasum


class Compressor:
    """Turns a tensor into a smaller one before a collective and back after it."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns what is sent, and what `decompress` needs to undo it."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Undoes `compress`."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:  # noqa: ARG004 - the interface
        """Returns the tensor itself."""
        return tensor


class _CastCompressor(Compressor):
    """Sends floating-point tensors in a narrower type.

    Attributes:
        narrow: that type.
        wire_dtype: the core's name of it.
    """

    narrow: torch.dtype
    wire_dtype: str

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Casts a floating-point tensor, and leaves others alone; the context is the type."""
        floating = tensor.dtype.is_floating_point
        return tensor.to(cls.narrow) if floating else tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Casts back; the core has done that already where there is no context."""
        return tensor.to(ctx) if ctx is not None and ctx.is_floating_point else tensor


class FP16Compressor(_CastCompressor):
    """Sends floating-point tensors as float16."""

    narrow = torch.float16
    wire_dtype = "float16"


class BF16Compressor(_CastCompressor):
    """Sends floating-point tensors as bfloat16, which keeps float32's range."""

    narrow = torch.bfloat16
    wire_dtype = "bfloat16"


class Compression:
    """The compressors to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


class Outgoing(NamedTuple):
    """A tensor as an allreduce takes it.

    Attributes:
        tensor: what the operation works on.
        context: what `decompress` needs with the result.
        wire_dtype: the type that the core converts it to on its way, and back; None for none.
        in_place: whether the result goes where the tensor is.
    """

    tensor: torch.Tensor
    context: Any
    wire_dtype: str | None = None
    in_place: bool = True

    @property
    def travels_as(self) -> str:
        """The type that the ranks send each other."""
        return self.wire_dtype or str(self.tensor.dtype).removeprefix("torch.")


def require_compression(compression: object) -> None:
    """Refuses what gradients cannot be compressed by, before any gradient is there.

    Raises:
        ValueError: it has no `compress` and `decompress`.
    """
    if not all(callable(getattr(compression, name, None)) for name in ("compress", "decompress")):
        raise ValueError(
            "compression must have the functions compress and decompress, as"
            f" hvd.Compression.none, fp16 and bf16 do, got {compression!r}"
        )


_CONVERTED_BY_THE_CORE = (torch.float32, torch.float64)


def _wire_dtype(tensor: torch.Tensor, compression: type[Compressor], op: int) -> str | None:
    """The type that the core converts a tensor to on its way; None for none."""
    if (
        (compression is FP16Compressor or compression is BF16Compressor)
        and tensor.dtype in _CONVERTED_BY_THE_CORE
        and tensor.layout == torch.strided
        and op != Adasum
    ):
        return compression.wire_dtype
    return None


def converts_later(tensor: torch.Tensor, compression: type[Compressor], op: int) -> bool:
    """Whether what travels is made of a tensor when the operation runs, and not before.

    Args:
        tensor: of any kind.
        compression: one of `Compression`, or a user's class.
        op: the reduction.
    """
    return compression is NoneCompressor or bool(_wire_dtype(tensor, compression, op))


def outgoing(tensor: torch.Tensor, compression: type[Compressor], op: int) -> Outgoing:
    """Compresses a tensor for an allreduce, unless the core is going to do that.

    Args:
        tensor: of any kind.
        compression: one of `Compression`, or a user's class.
        op: the reduction. With Adasum the core converts nothing on its way.
    """
    if wire_dtype := _wire_dtype(tensor, compression, op):
        return Outgoing(tensor, None, wire_dtype)
    compressed, context = compression.compress(tensor)
    return Outgoing(compressed, context)
