"""Arrays of any kind as the memory that collectives work on, and results of the same kind.

NumPy is touched only when an array of it comes in, DLPack where an array offers nothing nearer.
"""

import array
import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from horovod._loader import _bindings
from horovod._memory_ranges import bytes_of, elements_meet, overlapping
from horovod._operations import DTYPES, Operand
from horovod._outputs import check_output, check_rows

NOT_CONTIGUOUS = "Tensor is required to be contiguous."
READ_ONLY = "the array is read-only, so the operation cannot work in place"
REPEATED = (
    "several elements of the array are one in memory, so that no result can be put there: pass a"
    " copy of it, or the array that it was made of"
)

# Format characters of the buffer protocol; the integers' sizes are the platform's.
_KINDS = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "B": "uint", "c": "uint"}
_FIXED = {"?": "bool", "e": "float16", "f": "float32", "d": "float64"}


class Exported(NamedTuple):
    """An array's memory, and how to make results of its kind.

    Attributes:
        operand: the memory; a copy where the array is not contiguous, or not aligned for its type.
        write_back: brings the operand's content into the array, after an operation in place.
        refusal: why an operation in place cannot be done; "" when it can.
        new: allocates a result: its memory, and the array over it.
        wrap: makes an array of memory that the core has allocated.
    """

    operand: Operand
    write_back: Callable[[], None]
    refusal: str
    new: Callable[[], tuple[Operand, Any]]
    wrap: Callable[["_bindings.Buffer"], Any]

    def require_in_place(self) -> "Exported":
        """Itself.

        Raises:
            ValueError: an operation in place cannot be done.
        """
        if self.refusal:
            raise ValueError(self.refusal)
        return self


def export(value: Any) -> Exported:
    """Looks at an array.

    Args:
        value: a NumPy array or scalar, an `array.array`, a `memoryview`, a `bytearray`, or an
            object with `__dlpack__`.

    Raises:
        TypeError: it is none of them.
        ValueError: its element type is not supported, or it is not contiguous and cannot be copied.
    """
    numpy = sys.modules.get("numpy")  # an array of it cannot exist where it has not been imported
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _export_numpy(numpy, value)
    if isinstance(value, (array.array, bytearray, memoryview, bytes)):
        return _export_memory(value)
    if hasattr(value, "__dlpack__"):
        return _export_dlpack(value)
    raise TypeError(
        f"{type(value).__name__} is no array: pass a NumPy array, an array.array, a memoryview, a"
        " bytearray, or an object with __dlpack__"
    )


Receiving = tuple[Operand | None, Callable[[Any], Any]]


def receiving(output: Any, source: Exported) -> Receiving:
    """Where the result of an operation goes.

    Args:
        output: an array that the caller gives for it, or None.
        source: what the operation works on.

    Returns:
        The output's memory, and what makes the caller's result of what the core hands over.

    Raises:
        TypeError: the output is no array.
        ValueError: no result of this operation can lie there.
    """
    if output is None:
        return None, source.wrap
    target = export(output).require_in_place()
    check_output(target.operand, source.operand)

    def finish(buffer: "_bindings.Buffer | None") -> Any:
        if buffer is not None:  # of another size, or of none
            check_rows(target.operand.shape, buffer.shape)
        target.write_back()
        return output

    return target.operand, finish


def apart(exported: Sequence[Exported]) -> list[Exported]:
    """Arrays that can be worked on in place together.

    Args:
        exported: ones that can be worked on in place.

    Returns:
        The same, but for those that share memory with others of them: they have copies to work on,
        which `write_back` brings into the arrays.
    """
    made = list(exported)
    for i in overlapping([(each.operand.address, bytes_of(each.operand)) for each in exported]):
        made[i] = _copied(exported[i])
    return made


def _copied(exported: Exported) -> Exported:
    source = exported.operand
    work = _buffer_operand(_bindings.allocate(source.shape, source.dtype))
    length = bytes_of(source)
    ctypes.memmove(work.address, source.address, length)

    def write_back() -> None:
        ctypes.memmove(source.address, work.address, length)
        exported.write_back()

    return exported._replace(operand=work, write_back=write_back)


def _require_supported(dtype: str) -> str:
    if dtype not in DTYPES:
        raise ValueError(f"Tensor type {dtype} is not supported.")
    return dtype


def _nothing() -> None:
    """There is nothing to bring back where the operand is the array itself."""


def _buffer_operand(buffer: "_bindings.Buffer") -> Operand:
    return Operand(buffer.address, tuple(buffer.shape), buffer.dtype, buffer)


def _same_buffer(buffer: "_bindings.Buffer") -> Any:
    return buffer


@functools.cache
def _numpy_name(dtype: Any) -> str:
    """NumPy takes a microsecond for a name."""
    return _require_supported(dtype.name if dtype.isnative else f"{dtype} (foreign byte order)")


def _export_numpy(numpy: Any, value: Any) -> Exported:
    scalar = isinstance(value, numpy.generic)  # of which NumPy makes a new array
    value = numpy.asarray(value)
    dtype = value.dtype
    name = _numpy_name(dtype)
    flags = value.flags
    direct = flags.c_contiguous and flags.aligned
    work = value if direct else numpy.array(value, order="C")
    refusal = "" if flags.writeable and not scalar else READ_ONLY
    if not refusal and not direct and _repeats_elements(value):
        refusal = REPEATED

    def operand_of(owner: Any) -> Operand:
        return Operand(owner.__array_interface__["data"][0], owner.shape, name, owner)

    def write_back() -> None:
        value[...] = work

    def new() -> tuple[Operand, Any]:
        result = numpy.empty(value.shape, dtype)
        return operand_of(result), result

    def wrap(buffer: "_bindings.Buffer") -> Any:
        return array_over(numpy, buffer, dtype)

    return Exported(
        operand_of(work),
        _nothing if direct else write_back,
        refusal,
        new,
        wrap,
    )


def _repeats_elements(value: Any) -> bool:
    """Whether several elements of a NumPy array are one in memory, or have bytes in common."""
    item, shape, strides = value.itemsize, value.shape, value.strides
    if any(stride % item for stride in strides):
        return elements_meet((*shape, item), (*strides, 1))
    return elements_meet(shape, [stride // item for stride in strides])


def array_over(numpy: Any, buffer: "_bindings.Buffer", dtype: Any) -> Any:
    """A NumPy array over memory of the core's, which it keeps alive."""
    if not buffer.nbytes:
        return numpy.empty(buffer.shape, dtype)
    flat = numpy.frombuffer(memoryview(buffer).cast("B"), numpy.uint8)
    return flat.view(dtype).reshape(buffer.shape)


def type_name(numpy: Any, dtype: Any) -> str:
    """The core's name of an element type.

    Args:
        numpy: the module, or None where `dtype` is a name.
        dtype: a type of NumPy's, or a name.

    Raises:
        ValueError: the type is not supported.
    """
    return _require_supported(dtype) if numpy is None else _numpy_name(numpy.dtype(dtype))


def _memory_dtype(view: memoryview) -> str:
    code = view.format.lstrip("@")
    dtype = _FIXED.get(code) or (f"{_KINDS[code]}{8 * view.itemsize}" if code in _KINDS else code)
    return _require_supported(dtype)


def _export_memory(value: Any) -> Exported:
    view = memoryview(value)
    dtype = _memory_dtype(view)
    shape = tuple(view.shape or ())
    writable = view.c_contiguous and not view.readonly
    write_back = _nothing
    if writable and not _address(view) % view.itemsize:
        operand = Operand(_address(view), shape, dtype, view)
    else:
        copy = _bindings.allocate(shape, dtype)
        memoryview(copy).cast("B")[:] = view.tobytes()
        operand = _buffer_operand(copy)

        def write_back() -> None:
            view.cast("B")[:] = memoryview(copy).cast("B")

    def new() -> tuple[Operand, Any]:
        if isinstance(value, array.array):
            result = array.array(value.typecode, bytes(view.nbytes))
            return Operand(_address(memoryview(result)), shape, dtype, memoryview(result)), result
        buffer = _bindings.allocate(shape, dtype)
        return _buffer_operand(buffer), buffer

    def wrap(buffer: "_bindings.Buffer") -> Any:
        if isinstance(value, array.array):
            return array.array(value.typecode, memoryview(buffer).tobytes())
        return buffer

    refusal = READ_ONLY if view.readonly else "" if writable else NOT_CONTIGUOUS
    return Exported(operand, write_back, refusal, new, wrap)


def _address(view: memoryview) -> int:
    """Where a writable view lies."""
    if not view.nbytes:
        return 0
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _export_dlpack(value: Any) -> Exported:
    tensor = _bindings.TensorView(value)
    if not tensor.contiguous:
        raise ValueError(NOT_CONTIGUOUS)
    shape = tuple(tensor.shape)
    dtype = _require_supported(tensor.dtype)
    wrap: Callable[[_bindings.Buffer], Any] = _same_buffer
    if hasattr(value, "__array_namespace__"):
        wrap = value.__array_namespace__().from_dlpack

    def new() -> tuple[Operand, Any]:
        buffer = _bindings.allocate(shape, dtype)
        return _buffer_operand(buffer), wrap(buffer)

    operand = Operand(tensor.address, shape, dtype, tensor)
    return Exported(operand, _nothing, READ_ONLY if tensor.readonly else "", new, wrap)
