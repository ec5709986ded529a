"""Tensors in another dtype, on another device, as NumPy arrays and Python numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes, printed_names
from nvrtc_kernels.dtypes import Category, dtype
from tensor.core.base import TensorBase, check_tensor
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.devices.device import device as Device
from tensor.core.devices.state import cpu, cuda_state, device_state_of
from tensor.core.dtypes.scalars import is_number
from tensor.core.memory_format import format_of, preserve_format, suggested
from tensor.operations.definition import operation

from .copies import copy_into_new

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.core.devices.state import DeviceState
    from tensor.core.memory_format import memory_format as MemoryFormat
    from tensor.methods.tensor import Tensor

_EXPECTED = (
    "to() received an invalid combination of arguments - got ({}), but expected a dtype, a device, a device and "
    "a dtype, or a tensor; then non_blocking and copy"
)


@operation(namespace="")
def to(
    input: Tensor,
    *args: Any,
    device: Any = None,
    dtype: dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat = preserve_format,
    tensor: Tensor | None = None,
) -> Tensor:
    """The tensor with another dtype or device, or both: itself if nothing changes, else a copy.

    ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` and ``to(tensor)``, each followed by ``non_blocking`` and
    ``copy``.

    Parameters
    ----------
    non_blocking : bool
        Whether the host goes on at once where pinned memory allows it. From a device, the result lies in pinned memory,
        and the caller must synchronise before reading it.
    copy : bool
        Whether to copy also if nothing changes.
    memory_format : memory_format
        By default the order of the dimensions in memory is kept.

    Raises
    ------
    TypeError
        For other arguments.

    Examples
    --------
    >>> tensor.tensor([1.5, 2.5]).to(tensor.int64)
    tensor([1, 2])
    """
    if tensor is not None:
        args = (tensor, *args)
    if args:
        first = args[0] if len(args) == 1 and dtype is None and device is None else None
        # The commonest calls are spared the rest.
        if isinstance(first, dtypes.dtype):
            dtype = first
        elif isinstance(first, (str, Device)):
            device = first
        else:
            device, dtype, non_blocking, copy = _positional(args, device, dtype, non_blocking, copy)
    layout = input._layout
    if dtype is not None and dtype is not layout.dtype:
        layout = layout.with_dtype(dtype_of_argument(dtype, "to"))
    if device is not None:
        device_state = device_state_of(device)
        if device_state is not layout.device_state:
            layout = layout.on(device_state)
    return _converted(input, layout, non_blocking, copy, memory_format)


def _positional(
    args: tuple[Any, ...], device: Any, dtype: Any, non_blocking: Any, copy: Any
) -> tuple[Any, Any, bool, bool]:
    """What the arguments of :func:`to` without a name mean, beside those with one."""
    first, rest = args[0], args[1:]
    if isinstance(first, (dtypes.dtype, type)):
        if dtype is not None or device is not None:
            raise _wrong(args)
        dtype = first
    elif isinstance(first, TensorBase):
        if dtype is not None or device is not None:
            raise _wrong(args)
        device, dtype = first._layout.device, first._layout.dtype
    else:
        if device is not None or isinstance(first, bool) or not isinstance(first, (str, int, Device, _NONE)):
            raise _wrong(args)
        device = first
        if rest and isinstance(rest[0], (dtypes.dtype, type, _NONE)):
            if dtype is not None:
                raise _wrong(args)
            dtype, rest = rest[0], rest[1:]
    if rest:
        if len(rest) > 2 or not all(isinstance(each, bool) for each in rest):
            raise _wrong(args)
        non_blocking = rest[0]
        if len(rest) > 1:
            copy = rest[1]
    return device, dtype, bool(non_blocking), bool(copy)


_NONE = type(None)


def _wrong(args: tuple[Any, ...]) -> TypeError:
    return TypeError(_EXPECTED.format(", ".join(type(each).__name__ for each in args)))


def _converted(
    input: Tensor, layout: Any, non_blocking: bool, copy: bool, memory_format: MemoryFormat
) -> Tensor:
    if memory_format is preserve_format or format_of(memory_format, "to") is preserve_format:
        if layout is input._layout and not copy:
            return input
        layout = layout.as_dense()
    else:
        if layout is input._layout and not copy and suggested(layout) is memory_format:
            return input
        layout = memory_format.layout(layout)
    pinned = non_blocking and input._layout.device_state.is_cuda and not layout.device_state.is_cuda
    return copy_into_new(input, layout, non_blocking=non_blocking, pin_memory=pinned)


@operation(namespace="")
def cuda(
    input: Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """The tensor on a CUDA device: itself if it is there already, else a copy.

    Parameters
    ----------
    device : optional
        By default the current CUDA device.
    non_blocking : bool
        Whether the host goes on at once where pinned memory allows it.

    Raises
    ------
    RuntimeError
        If ``device`` is not a CUDA device, or there is none.
    """
    device_state: DeviceState = cuda_state() if device is None else device_state_of(device)
    if not device_state.is_cuda:
        raise RuntimeError(f"Invalid device, must be cuda device, got {device_state.device}")
    return _converted(input, input._layout.on(device_state), non_blocking, False, memory_format)


@operation(namespace="", method=False, also="Tensor.cpu")
def cpu_(input: Tensor, memory_format: MemoryFormat = preserve_format) -> Tensor:
    """The tensor on the CPU: itself if it is there already, else a copy, for which the host waits.

    Examples
    --------
    >>> tensor.tensor([1, 2]).cpu()
    tensor([1, 2])
    """
    return _converted(input, input._layout.on(cpu), False, False, memory_format)


@operation(namespace="", method=False, also="Tensor.type")
def type_(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The tensor as ``dtype``; without one, the name of its type.

    Parameters
    ----------
    dtype : dtype, type or str, optional
        A dtype, a typed tensor class such as ``tensor.IntTensor``, or its name; ``"tensor.cuda.IntTensor"`` is on the
        current CUDA device.
    non_blocking : bool
        As for :meth:`Tensor.to`.

    Raises
    ------
    ValueError
        If there is no such type.
    TypeError
        If ``dtype`` is none of these.

    Examples
    --------
    >>> x = tensor.tensor([1.5])
    >>> x.type()
    'tensor.FloatTensor'
    >>> x.type(tensor.int32)
    tensor([1], dtype=tensor.int32)
    """
    if dtype is None:
        where = ".cuda" if input._layout.device_state.is_cuda else ""
        return f"{printed_names.library}{where}.{TYPE_NAMES[input._layout.dtype.name]}Tensor"
    if isinstance(dtype, type) and hasattr(dtype, "is_cuda"):
        dtype = f"{dtype.__module__}.{dtype.__name__}"
    if isinstance(dtype, str):
        names = {f"{name}Tensor": type_name for type_name, name in TYPE_NAMES.items()}
        *prefix, name = dtype.split(".")
        if name not in names:
            raise ValueError(f"invalid type: '{dtype}'")
        device_state = cuda_state().device if "cuda" in prefix else cpu.device
        return to(input, device_state, dtypes.dtype_named(names[name]), non_blocking)
    if not isinstance(dtype, dtypes.dtype):
        if isinstance(dtype, type):
            raise ValueError(f"invalid type: '{dtype.__name__}'")
        raise TypeError(f"type(): dtype must be a type, str, or dtype object, got {type(dtype).__name__}")
    return to(input, dtype, non_blocking)


#: Names of dtypes in the names of typed tensor classes.
TYPE_NAMES = {each.name: each.scalar_type for each in dtypes.EVERY}


@operation(namespace="")
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor with the dtype and device of ``other``: itself if it has both, else a copy.

    Raises
    ------
    TypeError
        If ``other`` is not a tensor.

    Examples
    --------
    >>> tensor.tensor([1, 2]).type_as(tensor.zeros(1))
    tensor([1., 2.])
    """
    check_tensor(other, "type_as", "other")
    return to(input, other)


def converter(dtype: dtype, name: str) -> Callable[..., Tensor]:
    """The method ``name`` that converts to ``dtype``."""

    def convert(self: Tensor, memory_format: MemoryFormat = preserve_format) -> Tensor:
        return _converted(self, self._layout.with_dtype(dtype), False, False, memory_format)

    convert.__name__ = name
    convert.__qualname__ = f"Tensor.{name}"
    convert.__doc__ = (
        f"The tensor as {dtype.name}; itself where it is that already, and in ``memory_format``.\n\n"
        "    The memory format is that of the tensor by default (``tensor.preserve_format``). Raises TypeError if it is not\n"
        "    one, and RuntimeError if it is for another number of dimensions. See :meth:`to`.\n    "
    )
    return convert


@operation(namespace="")
def numpy(input: Tensor, *, force: bool = False) -> NDArray[Any]:
    """A NumPy array over the memory of a CPU tensor: writing to one changes the other.

    Parameters
    ----------
    force : bool
        Whether to detach the tensor, and to copy it to the host, where that is needed.

    Raises
    ------
    TypeError
        For a CUDA tensor.
    RuntimeError
        For a tensor that requires grad.

    Examples
    --------
    >>> tensor.tensor([1.0, 2.0]).numpy().sum().item()
    3.0
    """
    if force:
        input = cpu_(input.detach())
    elif input.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    return input._host.view()


@operation(namespace="")
def item(input: Tensor) -> Any:
    """The only element as a Python number; waits for a CUDA tensor.

    Raises
    ------
    RuntimeError
        If there is not exactly one element.

    Examples
    --------
    >>> tensor.tensor([2.5]).item()
    2.5
    """
    layout = input._layout
    if layout.numel != 1:
        raise RuntimeError(f"a Tensor with {layout.numel} elements cannot be converted to Scalar")
    if layout.device_state.is_cuda:
        input = copy_into_new(input, layout.on(cpu).as_contiguous())
    result = input._host.item()
    # Of numbers that NumPy does not know it gives their own objects.
    return float(result) if layout.dtype.is_floating_point else result


@operation(namespace="")
def tolist(input: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number for a 0-dim tensor. Waits for a CUDA tensor.

    Examples
    --------
    >>> tensor.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    array = cpu_(input)._host
    if input._layout.dtype.is_floating_point and input._layout.dtype.itemsize < 4:
        array = array.astype(np.float32)
    return array.tolist()


def host_copy_for_display(input: Tensor) -> NDArray[Any]:
    """Elements as NumPy prints them: on the host, half precision and float8 widened."""
    array = cpu_(input)._host
    dtype = input._layout.dtype
    return array.astype(np.float32) if dtype.is_floating_point and dtype.itemsize < 4 else array


def as_bool(input: Tensor) -> bool:
    """Whether the one element is not 0."""
    count = input._layout.numel
    if count != 1:
        what = "more than one value" if count else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(item(input))


@operation()
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0; waits for a CUDA tensor.

    Raises
    ------
    RuntimeError
        If there is not exactly one element.
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.is_nonzero(tensor.tensor([2.0]))
    True
    """
    check_tensor(input, "is_nonzero", "input")
    return as_bool(input)


def as_index(input: Tensor) -> int:
    """The one element of an integer tensor."""
    layout = input._layout
    if layout.numel != 1 or layout.dtype.category > Category.INTEGER:
        raise TypeError(
            "only integer tensors of a single element can be converted to an index, got "
            f"{layout.dtype!r} of shape {list(layout.shape)}"
        )
    return int(item(input))


def as_int(input: Tensor) -> int:
    """The one element without its fraction."""
    return int(_real(input))


def as_float(input: Tensor) -> float:
    """The one element as a Python float."""
    return float(_real(input))


def as_complex(input: Tensor) -> complex:
    """The one element as a Python complex number."""
    return complex(_only(input))


def _only(input: Tensor) -> Any:
    if input._layout.numel != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars, got one of shape "
            f"{list(input._layout.shape)}"
        )
    return item(input)


def _real(input: Tensor) -> Any:
    number = _only(input)
    if isinstance(number, complex):
        if number.imag:
            raise RuntimeError(f"value cannot be converted to a real number without overflow: {number}")
        return number.real
    return number


def contains(input: Tensor, element: Any) -> bool:
    """Whether an element equals ``element``, a number or a tensor."""
    if not isinstance(element, TensorBase) and not is_number(element):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )
    return as_bool((input == element).any())


def formatted(input: Tensor, spec: str) -> str:
    """The number of a tensor without dimensions, formatted; else the text, which takes no format."""
    if input._layout.shape:
        return object.__format__(input, spec)
    return format(item(input), spec)


@operation(namespace="")
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """A copy in pinned memory, from which copies to a device need not wait; itself where it is pinned.

    Any CUDA device can copy from it: ``device`` makes no difference, and PyTorch deprecates it.

    Raises
    ------
    RuntimeError
        For a CUDA tensor.
    """
    if input._layout.device_state.is_cuda:
        raise RuntimeError(
            f"cannot pin '{type_(input)}': only dense CPU tensors can be pinned, this one is on "
            f"{input._layout.device}"
        )
    if is_pinned(input):
        return input
    return copy_into_new(input, input._layout.as_dense(), pin_memory=True)


@operation(namespace="")
def is_pinned(input: Tensor, device: Any = None) -> bool:
    """Whether the elements lie in page-locked host memory, for whichever ``device``; see :meth:`Tensor.pin_memory`.

    Examples
    --------
    >>> tensor.zeros(2).is_pinned()
    False
    """
    return input._storage.is_pinned()
