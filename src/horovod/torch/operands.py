"""Torch tensors as the memory that collectives work on, and results as torch tensors."""

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from horovod._collectives import COLLECTIVES
from horovod._loader import _bindings
from horovod._memory_ranges import elements_meet, overlapping
from horovod._native import _buildinfo
from horovod._operations import CPU, DTYPES, Operand
from horovod._outputs import check_output, check_rows
from horovod.torch.autograd import OUTSIDE, refuse_tangent

_LARGEST_GUESS = 1 << 30  # bytes
# Of a result, while other threads give its tensor other memory: whoever goes on doing that cannot
# tell what it then holds.
_MOST_COPIES = 10

NAMES: dict[torch.dtype, str] = {getattr(torch, name): name for name in DTYPES}


def operand(tensor: torch.Tensor, wire_dtype: str | None = None) -> Operand:
    """The memory of a tensor that `contiguous` has returned.

    Args:
        tensor: whose memory it is.
        wire_dtype: see `Operand`.
    """
    shape, dtype = tuple(tensor.shape), NAMES[tensor.dtype]
    if tensor.is_cpu:
        return Operand(tensor.data_ptr(), shape, dtype, tensor, wire_dtype=wire_dtype)
    device = tensor.device
    stream = torch.cuda.current_stream(device).cuda_stream
    return Operand(tensor.data_ptr(), shape, dtype, tensor, device.index, stream, wire_dtype)


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie in its own memory, as those of some subclasses do not."""
    if _is_tracers(tensor):  # of which PyTorch warns when it is asked
        return False
    try:
        return tensor.data_ptr() != 0 or tensor.numel() == 0
    except RuntimeError:  # a transform of torch.func has wrapped it
        return False


def is_aligned(tensor: torch.Tensor) -> bool:
    """Whether a tensor that has memory begins where its type may.

    Over bytes behind a header, as of `torch.frombuffer`, it need not.
    """
    return tensor.data_ptr() % tensor.element_size() == 0


def _is_tracers(tensor: torch.Tensor) -> bool:
    """Whether it is PyTorch's FakeTensor, or its FunctionalTensor, which PyTorch 2.0 lacks."""
    kind = type(tensor)
    return kind is not torch.Tensor and kind.__module__.startswith("torch._subclasses.")


def _say_why_without_memory(tensor: torch.Tensor) -> str:
    if type(tensor) is torch.Tensor or _is_tracers(tensor):
        return (
            f"A tensor of type {type(tensor).__name__} has no memory here, where it only stands for"
            f" others: {OUTSIDE}"
        )
    return (
        f"A tensor of type {type(tensor).__name__} has no memory of its own: its elements lie"
        " in other tensors, which it refers to. Pass those; of a DTensor, `tensor.to_local()`."
    )


def contiguous(tensor: torch.Tensor, *, in_place: bool = False) -> torch.Tensor:
    """The tensor without its history, or a copy that is contiguous and aligned for its type.

    Args:
        tensor: any.
        in_place: whether a result is to be put into the tensor.

    Raises:
        TypeError: it is no torch tensor.
        ValueError: its type, layout or device is not supported; its elements lie in other tensors;
            or no result can be put there.
        NotImplementedError: it has a tangent.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"horovod.torch works on torch tensors, not on {type(tensor).__name__}")
    refuse_tangent(tensor)
    if not tensor.is_cpu:
        _require_gpu_build(tensor.device)
    if tensor.is_nested:
        raise ValueError(
            "Nested tensors are not supported; pass their parts (tensor.unbind()), or the values"
            " and offsets of one of layout torch.jagged."
        )
    if tensor.layout != torch.strided:
        raise ValueError(f"Tensor layout {tensor.layout} is not supported; pass a dense tensor.")
    if tensor.dtype not in NAMES:
        raise ValueError(
            f"Tensor type {tensor.type()} is not supported{_in_place_of(tensor.dtype)}."
        )
    plain = tensor.detach()
    if not has_memory(plain):
        raise ValueError(_say_why_without_memory(tensor))
    if plain.is_contiguous() and not plain.is_neg():
        return plain if is_aligned(plain) else plain.clone()
    if in_place and repeats_elements(plain):
        raise ValueError(
            f"The tensor of shape {list(tensor.shape)} and strides {tensor.stride()} is expanded,"
            " or has windows that overlap: several of its elements are one in memory, so that no"
            " result can be put there. Pass `tensor.contiguous()`, or the tensor it was made of."
        )
    return plain.resolve_neg().contiguous()


def _in_place_of(dtype: torch.dtype) -> str:
    """What to pass instead of a tensor of a type that is not supported."""
    if dtype.is_complex:
        return "; pass torch.view_as_real(tensor), which has the two parts of each number"
    return (
        "; pass it as another type, e.g. tensor.to(torch.float32), or, where nothing is computed"
        " with it, its bytes: tensor.view(torch.uint8)"
    )


def repeats_elements(tensor: torch.Tensor) -> bool:
    """Whether several elements are one in memory, so that no result can be put there.

    See `elements_meet`.
    """
    if tensor.is_contiguous():
        return False
    return elements_meet(tensor.shape, tensor.stride())


def _require_gpu_build(device: torch.device) -> None:
    # PyTorch for ROCm calls its devices "cuda" too.
    needed = "hip" if torch.version.hip else "cuda"
    if device.type == "meta":
        raise ValueError(
            "A tensor on the device meta has no data: pass one that has, as of a model after"
            " model.to_empty(device='cpu') and its initialisation."
        )
    if device.type != "cuda":
        raise ValueError(
            f"Tensors on {device} are not supported; move the tensor to the CPU (tensor.cpu())."
        )
    if needed != _buildinfo.GPU:
        built = {"": "CPUs alone", "cuda": "NVIDIA GPUs", "hip": "AMD GPUs"}[_buildinfo.GPU]
        raise ValueError(
            f"The tensor is on {device}, but this build of horovod-variants is for {built}; see "
            "`horovodrun --check-build` for the build that fits this machine, or move the tensor "
            "to the CPU (tensor.cpu())."
        )


def new_result(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous memory of a tensor's shape and type for a result."""
    # Tensors of PyTorch 2.0 have no `nbytes`.
    if tensor.is_cpu and tensor.numel() * tensor.element_size() >= _bindings.LARGE_RESULT:
        return from_buffer(COLLECTIVES.new_output(tuple(tensor.shape), NAMES[tensor.dtype]))
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def copying_back(work: torch.Tensor, target: torch.Tensor) -> Callable[[Any], torch.Tensor]:
    """What finishes an operation in place: the target, filled from the copy that was worked on."""

    def finish(_: Any) -> torch.Tensor:
        if work.data_ptr() != target.data_ptr():
            put_back(target, work)
        return target

    return finish


def apart(works: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors that can be worked on in place together.

    Args:
        works: contiguous ones.

    Returns:
        The same, but copies of those that share memory with others of them.
    """
    made = list(works)
    for i in overlapping([(w.data_ptr(), w.numel() * w.element_size()) for w in works]):
        made[i] = works[i].clone()
    return made


def put_back(target: Any, work: Any) -> None:
    """Copies a result to where the caller wants it from the memory that was worked on.

    Args:
        target: the caller's tensor, or a sequence of those of a group.
        work: a tensor of that memory, or as many.

    Raises:
        RuntimeError: a tensor has been given another shape since the operation was started. The
            others of its group have their results nevertheless.
    """
    one = isinstance(target, torch.Tensor)
    pairs = [(target, work)] if one else zip(target, work, strict=True)
    lost = [(list(to.shape), list(by.shape)) for to, by in pairs if not _copied(by, to)]
    if lost:
        now, before = lost[0]
        raise RuntimeError(
            f"the tensor was given memory of shape {now} while an operation was under way that"
            f" works on the tensor; the result of shape {before} has no place there, and is lost."
            " Wait for the operation before you give the tensor another shape."
        )


def _copied(work: torch.Tensor, target: torch.Tensor) -> bool:
    """Has a tensor hold the result; False where it is of another shape."""
    begin, end = _extent(work)
    for _ in range(_MOST_COPIES):
        # PyTorch lets other threads run while it copies, which may give the target other memory:
        # what it has now lives on in this tensor.
        now = target.data
        now_begin, now_end = _extent(now)
        if begin <= now_begin and now_end <= end:
            return True  # a view of the memory where the result lies
        if now.shape != work.shape:
            return False
        now.copy_(work.clone() if begin < now_end and now_begin < end else work)
        if target.data_ptr() == now.data_ptr():
            break
        keep_for_this_stream(now)
    _count_change(target)
    keep_for_this_stream(work)
    return True


def _count_without_increment(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.transpose_(0, 0)  # which changes nothing but that


# Of what is put into `tensor.data`, autograd does not learn that the tensor has changed. PyTorch
# 2.0 has no function for that.
_count_change: Callable[[torch.Tensor], None] = getattr(
    torch.autograd.graph, "increment_version", _count_without_increment
)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor's elements begin and end in memory, gaps included."""
    begin = tensor.data_ptr()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in sizes) if tensor.numel() else -1
    return begin, begin + (last + 1) * tensor.element_size()


def keep_for_this_stream(held: Any) -> None:
    """Has memory, which may be another stream's, last until the current one has read it.

    Args:
        held: a tensor, or tuples, lists and dicts of tensors and of what is none.
    """
    if isinstance(held, torch.Tensor):
        if held.is_cuda:
            # PyTorch's allocator by the driver's pools (cudaMallocAsync) knows nothing of memory
            # of the core's, which the driver gives to nobody before all streams have read it.
            with contextlib.suppress(RuntimeError):
                held.record_stream(torch.cuda.current_stream(held.device))
    elif isinstance(held, dict):
        keep_for_this_stream(list(held.values()))
    elif isinstance(held, tuple | list):
        for each in held:
            keep_for_this_stream(each)


@functools.cache
def _exchanges_booleans() -> bool:
    """Whether this PyTorch's DLPack has booleans, which that of 2.0 has not."""
    try:
        torch.zeros(1, dtype=torch.bool).__dlpack__()
    except RuntimeError:
        return False
    return True


def from_buffer(buffer: _bindings.Buffer) -> torch.Tensor:
    """A tensor over memory that the core has allocated."""
    if buffer.dtype == "bool" and not _exchanges_booleans():
        # No buffer may be empty there.
        flat = torch.frombuffer(buffer, dtype=torch.bool) if buffer.nbytes else torch.zeros(0) > 0
        return flat.reshape(buffer.shape)
    return from_dlpack(buffer)


def output_operand(output: Any, source: Operand) -> Operand | None:
    """The memory of a tensor that a caller gives for a result; None when there is none.

    Args:
        output: the caller's.
        source: the memory of the tensor that the operation works on.

    Raises:
        TypeError: it is no torch tensor.
        ValueError: no result of this operation can lie there.
    """
    if output is None:
        return None
    refuse_tangent(output)
    # Other threads may give the output other memory meanwhile.
    now = output.data if isinstance(output, torch.Tensor) else output
    work = contiguous(now)
    if work.data_ptr() != now.data_ptr() and is_aligned(now):
        raise ValueError("output is required to be contiguous")
    if output.requires_grad and torch.is_grad_enabled():
        raise ValueError("output must not need a gradient")
    return check_output(operand(work), source)


def memory_for(
    output: torch.Tensor | None, source: Operand, rows: Callable[[], int]
) -> tuple[Operand | None, Callable[[Any], torch.Tensor]]:
    """Where a result is to lie whose rows the ranks agree on.

    Args:
        output: the caller's memory for it; None when there is none.
        source: the memory of the tensor that the operation works on.
        rows: how many there are if the tensors of all ranks are alike. On a GPU, PyTorch's memory
            for so many is offered to the core, whose own takes the driver longer, and waits for all
            that the GPU has to do when it is given back.

    Returns:
        The memory, if any; and what makes the result of what the core hands over: a new tensor, or
        the caller's output.

    Raises:
        TypeError: the output is no torch tensor.
        ValueError: no result of this operation can lie there.
    """
    if output is not None:
        memory = output_operand(output, source)
        return memory, functools.partial(_given_or_filled, output, memory)
    like = source.owner
    expected = None
    if source.device != CPU and source.shape and isinstance(like, torch.Tensor):
        expected = room_for_rows(like, rows())
    if expected is None:
        return None, from_buffer
    return operand(expected), functools.partial(_expected_or_new, expected)


def _given_or_filled(output: torch.Tensor, memory: Operand | None, buffer: Any) -> torch.Tensor:
    if buffer is not None:
        return fill(output, from_buffer(buffer))
    if memory is not None and memory.address != output.data_ptr():
        put_back(output, memory.owner)
    return output


def _expected_or_new(expected: torch.Tensor, buffer: Any) -> torch.Tensor:
    return expected if buffer is None else from_buffer(buffer)


def room_for_rows(like: torch.Tensor, rows: int) -> torch.Tensor | None:
    """A tensor like another one on a GPU, but with so many rows; None where there is no room."""
    # Of a guess that is wrong nobody has anything, and PyTorch keeps it.
    if rows * math.prod(like.shape[1:]) * like.element_size() > _LARGEST_GUESS:
        return None
    try:
        return torch.empty((rows, *like.shape[1:]), dtype=like.dtype, device=like.device)
    except torch.cuda.OutOfMemoryError:
        return None


def fill(output: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Puts a result into the caller's output that the core has allocated: on a GPU, for example.

    Raises:
        ValueError: it has another number of rows.
    """
    if result is output:
        return output
    check_rows(output.shape, result.shape)
    put_back(output, result.detach())
    return output
