"""Memory that a caller gives for a result whose rows the ranks agree on (`output=`)."""

from collections.abc import Sequence

from horovod._memory_ranges import bytes_of
from horovod._operations import Operand


def check_output(output: Operand, source: Operand) -> Operand:
    """Compares the memory for a result with the tensor that an operation works on.

    Args:
        output: where the result is to lie.
        source: this rank's tensor.

    Returns:
        The output.

    Raises:
        ValueError: no result of this operation can lie there.
    """
    if output.dtype != source.dtype:
        raise ValueError(f"output is of type {output.dtype}, the tensor of type {source.dtype}")
    if output.device != source.device:
        raise ValueError("output and tensor must be on the same device")
    if len(output.shape) != len(source.shape) or output.shape[1:] != source.shape[1:]:
        raise ValueError(
            f"output has shape {tuple(output.shape)}, which differs from the tensor's,"
            f" {tuple(source.shape)}, in more than the first dimension"
        )
    output_end = output.address + bytes_of(output)
    source_end = source.address + bytes_of(source)
    if output.address < source_end and source.address < output_end:
        raise ValueError("output shares memory with the tensor")
    return output


def check_rows(output: Sequence[int], result: Sequence[int]) -> None:
    """Compares shapes once the ranks have agreed on the result's.

    Raises:
        ValueError: they differ.
    """
    if tuple(output) != tuple(result):
        raise ValueError(
            f"output has shape {tuple(output)}, but the ranks' tensors make a result of shape"
            f" {tuple(result)}; the operation is done, and its result is lost on this rank"
        )
