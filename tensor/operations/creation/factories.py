"""New tensors of a shape: ``empty``, ``zeros``, ``ones``, ``full``; the default dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from nvrtc_kernels import layouts as strides_of
from tensor.autograd.recording.recorder import BackwardFormula
from tensor.core import layout as layouts
from tensor.core.arguments import checked_sizes
from tensor.core.base import TensorBase, check_tensor
from tensor.core.base import empty as make
from tensor.core.creation_arguments import (
    as_out,
    check_memory,
    dtype_of_argument,
    sequence_of_sizes,
    shaped,
    sizes_of,
)
from tensor.core.devices.device import choose_default
from tensor.core.devices.device import device as Device
from tensor.core.devices.state import device_state_of
from tensor.core.dtypes.default import default_dtype_of, get_default_dtype
from tensor.core.dtypes.scalars import element, is_number
from tensor.core.memory_format import format_of, preserve_format, strided
from tensor.core.memory_format import layout as LayoutName
from tensor.core.memory_format import memory_format as MemoryFormat
from tensor.core.modes.determinism import determinism, filling
from tensor.core.modes.grad_mode import first_version, unrecorded
from tensor.core.plans.fills import FILLED, filled
from tensor.operations.definition import operation
from tensor.operations.sparse_rules import without_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import DeviceState
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


@operation(method=False)
def get_default_device() -> Device:
    """The device, in this thread, of new tensors for which no device is given; see :func:`set_default_device`.

    Examples
    --------
    >>> tensor.get_default_device()
    device(type='cpu')
    """
    return device_state_of(None).device


@operation(method=False)
def set_default_device(device: Any) -> None:
    """Set the device of new tensors of this thread for which no device is given; ``None`` stands for the CPU.

    ``with tensor.device(...)`` does so for a block. Tensors made by :func:`from_numpy` stay on the CPU, and those made
    like others, as by :func:`zeros_like`, on the device of these.

    Examples
    --------
    >>> tensor.set_default_device("cpu")
    >>> tensor.zeros(2).device
    device(type='cpu')
    """
    choose_default(None if device is None else Device(device))


def new_layout(
    shape: tuple[int, ...],
    dtype: dtype | None,
    device_state: DeviceState,
    memory_format: MemoryFormat | None = None,
    function: str = "empty",
) -> Layout:
    """Checked layout for new memory, row-major but for ``memory_format``."""
    if dtype is None:
        dtype = get_default_dtype()
    elif type(dtype) is not dtypes.dtype:
        dtype = dtype_of_argument(dtype, function)
    result = layouts.contiguous[shape, dtype, device_state]
    return result if memory_format is None else format_of(memory_format, function).layout(result)


def finish(result: Tensor, requires_grad: bool, out: Tensor | None = None) -> Tensor:
    """What a creating function returns: ``made``, or ``out`` filled with it."""
    if out is not None:
        result = shaped(out, result._layout.shape).copy_(result)
    if requires_grad:
        result.requires_grad_(True)
    return result


def delivered(out: Tensor | None, result: Tensor, function: str) -> Tensor:
    """``result`` itself where there is no ``out``, and else ``out`` with its elements."""
    return result if out is None else deliver(out, result, function)


def deliver(out: Tensor, result: Tensor, function: str) -> Tensor:
    """Write ``result`` to ``out``, which must have its dtype and device, and takes its shape."""
    check_tensor(out, function, "out")
    if (
        out._layout.dtype is not result._layout.dtype
        or out._layout.device_state is not result._layout.device_state
    ):
        raise RuntimeError(
            f"{function}: expected a tensor of {result._layout.dtype!r} on {result._layout.device}, got "
            f"{out._layout.dtype!r} on {out._layout.device}"
        )
    return shaped(out, result._layout.shape).copy_(result)


@operation(method=False)
def empty(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Tensor of shape ``size`` with undefined contents.

    Parameters
    ----------
    sizes, size
        Sizes, one by one or as a sequence.
    out : Tensor, optional
        Tensor that gets the shape; its dtype and device are the result's.
    dtype : dtype, optional
        By default :func:`get_default_dtype`.
    device : optional
        By default :func:`get_default_device`, which is the CPU at first.
    pin_memory : bool
        Whether a CPU tensor lies in page-locked memory, from and to which copies are asynchronous.
    memory_format : memory_format, optional
        By default row-major.

    Raises
    ------
    RuntimeError
        For a negative size, pinned memory on a CUDA device, or ``memory_format=preserve_format``.
    OutOfMemoryError
        If the device does not have enough memory.

    Examples
    --------
    >>> tensor.empty(2, 3).shape
    tensor.Size([2, 3])
    """
    shape = sizes_of(sizes, size, "empty")
    if memory_format is preserve_format:
        raise RuntimeError("empty(): unsupported memory format preserve_format: there is nothing to preserve")
    if out is not None:
        dtype, device = as_out(out, dtype, device, "empty")
    device_state = device_state_of(device)
    result = new_layout(shape, dtype, device_state, memory_format)
    if layout is not None or pin_memory:
        if type(layout) is LayoutName and layout is not strided:
            return without_elements("empty", shape, layout, result.dtype, device_state.device, requires_grad)
        check_memory(layout, pin_memory, device_state, "empty")
    output = undefined(result, pin_memory=pin_memory) if out is None else shaped(out, result.shape)
    return output.requires_grad_(True) if requires_grad else output


@operation(method=False)
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of given shape and strides (in elements) with undefined contents.

    Raises
    ------
    RuntimeError
        If sizes and strides differ in number, or one is negative.

    Examples
    --------
    >>> tensor.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    shape = sequence_of_sizes(size, "empty_strided")
    steps = sequence_of_sizes(stride, "empty_strided", "stride")
    if len(shape) != len(steps):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(steps)} strides, {len(shape)} sizes"
        )
    if any(step < 0 for step in steps):
        raise RuntimeError(f"empty_strided: strides must not be negative, got {list(steps)}")
    device_state = device_state_of(device)
    check_memory(layout, pin_memory, device_state, "empty_strided")
    result = new_layout(shape, dtype, device_state, None, "empty_strided").with_strides(shape, steps)
    checked_sizes((result.span,))
    return finish(undefined(result, pin_memory=pin_memory), requires_grad)


@operation(method=False)
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` whose dimensions lie in memory in the order ``physical_layout``, outermost first.

    Raises
    ------
    RuntimeError
        If ``physical_layout`` is no order of the dimensions. See :func:`empty` too.

    Examples
    --------
    >>> tensor.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape = sequence_of_sizes(size, "empty_permuted")
    order = sequence_of_sizes(physical_layout, "empty_permuted", "physical_layout")
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            f"empty_permuted(): physical_layout must name each of the {len(shape)} dimensions once, got {list(order)}"
        )
    steps = strides_of.packed_strides(shape, tuple(reversed(order)))
    return empty_strided(
        shape,
        steps,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )


def undefined(layout: Layout, *, pin_memory: bool = False) -> Tensor:
    """New tensor of ``layout`` for a user, whose contents are undefined unless results must be the same in every run."""
    if determinism.fills:
        return filled(layout, filling(layout.dtype), pin_memory=pin_memory)
    return make(layout, pin_memory=pin_memory)


def _filled(
    shape: tuple[int, ...],
    value: Any,
    function: str,
    out: Tensor | None,
    dtype: dtype | None,
    layout: Any,
    device: Any,
    requires_grad: bool,
    pin_memory: bool,
) -> Tensor:
    """What ``zeros``, ``ones`` and ``full`` return."""
    if out is not None:
        dtype, device = as_out(out, dtype, device, function)
    device_state = device_state_of(device)
    result = new_layout(shape, dtype, device_state, None, function)
    if layout is not None or pin_memory:
        if type(layout) is LayoutName and layout is not strided:
            return without_elements(function, shape, layout, result.dtype, device_state.device, requires_grad)
        check_memory(layout, pin_memory, device_state, function)
    if out is None and device_state.is_cuda and not pin_memory:
        # As filled() would, without the call.
        output: Tensor = device_state.plans[FILLED, result](value)
    elif out is None:
        output = filled(result, value, pin_memory=pin_memory)
    else:
        value = element(value, result.dtype)
        output = shaped(out, result.shape).fill_(value)
    return output.requires_grad_(True) if requires_grad else output


@operation(method=False)
def zeros(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` filled with 0, of the default dtype unless ``dtype`` is given.

    Arguments and errors are those of :func:`empty`.

    Examples
    --------
    >>> tensor.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    >>> tensor.zeros((2,), dtype=tensor.int64)
    tensor([0, 0])
    """
    shape = sizes_of(sizes, size, "zeros")
    return _filled(shape, 0, "zeros", out, dtype, layout, device, requires_grad, pin_memory)


@operation(method=False)
def ones(
    *sizes: Any,
    size: Sequence[int] | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` filled with 1, of the default dtype unless ``dtype`` is given.

    Arguments and errors are those of :func:`empty`.

    Examples
    --------
    >>> tensor.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    shape = sizes_of(sizes, size, "ones")
    return _filled(shape, 1, "ones", out, dtype, layout, device, requires_grad, pin_memory)


@operation(method=False)
def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of shape ``size`` filled with ``fill_value``.

    Parameters
    ----------
    fill_value : number or Tensor
        A number, or a 0-dim tensor.
    dtype : dtype, optional
        By default bool, int64 or the default dtype, real or complex, as ``fill_value`` is; that of ``fill_value`` where
        it is a tensor.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the value; for sizes and memory as :func:`empty`.
    TypeError
        If ``fill_value`` is not a number.

    Examples
    --------
    >>> tensor.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    >>> tensor.full((2,), 0.5)
    tensor([0.5000, 0.5000])
    """
    shape = sequence_of_sizes(size, "full")
    value_dtype, fill_value = number_to_fill(fill_value, "full")
    if dtype is None and out is None:
        dtype = value_dtype
    return _filled(shape, fill_value, "full", out, dtype, layout, device, requires_grad, pin_memory)


@operation(method=False)
def scalar_tensor(
    s: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """0-dim tensor of the number ``s``, of the default dtype unless ``dtype`` is given.

    Raises
    ------
    RuntimeError
        If the dtype cannot hold the number.
    TypeError
        If ``s`` is not a number.

    Examples
    --------
    >>> tensor.scalar_tensor(3)
    tensor(3.)
    >>> tensor.scalar_tensor(3, dtype=tensor.int32)
    tensor(3, dtype=tensor.int32)
    """
    value = number_to_fill(s, "scalar_tensor")[1]
    return _filled((), value, "scalar_tensor", None, dtype, layout, device, requires_grad, pin_memory)


def number_to_fill(fill_value: Any, function: str) -> tuple[dtype, Any]:
    """Type that a value to fill with stands for, and the value as a number."""
    if type(fill_value) is float:
        return get_default_dtype(), fill_value
    if isinstance(fill_value, TensorBase):
        if fill_value._layout.shape:
            raise TypeError(
                f"{function}(): argument 'fill_value' must be Number, not Tensor of shape "
                f"{list(fill_value._layout.shape)}; a tensor without dimensions will do"
            )
        return fill_value._layout.dtype, fill_value.item()
    if not is_number(fill_value):
        raise TypeError(
            f"{function}(): argument 'fill_value' must be Number, not {type(fill_value).__name__}"
        )
    return default_dtype_of(fill_value), fill_value


_COMPLEX = BackwardFormula("ComplexBackward0", "real imag", [lambda grad: grad.real, lambda grad: grad.imag])


@operation(method=False)
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``real + 1j * imag``: a complex tensor from two real ones.

    Parameters
    ----------
    real, imag : Tensor
        Both float32 or both float64; they are broadcast.

    Returns
    -------
    Tensor
        complex64 or complex128, of the broadcast shape.

    Raises
    ------
    RuntimeError
        If the dtypes or devices differ, or the dtype is neither float32 nor float64.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.complex(tensor.tensor([1.0, 2.0]), tensor.tensor([3.0, 4.0]))
    tensor([1.+3.j, 2.+4.j])
    """
    check_tensor(real, "complex", "real")
    check_tensor(imag, "complex", "imag")
    dtype = real._layout.dtype
    if dtype.name not in ("float32", "float64") or imag._layout.dtype is not dtype:
        raise RuntimeError(
            "Expected both inputs to be Float or Double tensors of the same dtype but got "
            f"{dtype!r} and {imag._layout.dtype!r}"
        )
    if real._layout.device_state is not imag._layout.device_state:
        raise RuntimeError(
            f"complex(): expected both parts on one device, got {real._layout.device} and {imag._layout.device}"
        )
    shape = strides_of.broadcast_shapes(real._layout.shape, imag._layout.shape)
    result = make(layouts.contiguous[shape, dtype.to_complex(), real._layout.device_state])
    with unrecorded():
        result.real.copy_(real)
        result.imag.copy_(imag)
    # Filling it was its making, not a change.
    result._storage.version = first_version()
    _COMPLEX.record((result,), (real, imag))
    return result if out is None else deliver(out, result, "complex")
