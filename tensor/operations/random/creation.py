"""New tensors of random numbers: ``rand``, ``randn``, ``randint``, ``randperm`` and the ``*_like`` forms.

How the numbers follow from the generator, :mod:`.fills` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category
from tensor.core import layout as layouts
from tensor.core.arguments import as_int64
from tensor.core.base import empty as make
from tensor.core.creation_arguments import as_out, sequence_of_sizes, shaped, sizes_of
from tensor.core.devices.state import cpu, device_state_of
from tensor.core.memory_format import preserve_format
from tensor.core.plans import not_implemented
from tensor.core.plans.steps import host_step
from tensor.operations.creation.copies import copy_
from tensor.operations.creation.factories import finish, new_layout
from tensor.operations.creation.like import layout_like
from tensor.operations.definition import operation

from . import distributions, parameters
from .captured import refuse_numbers_of_the_host
from .fills import apply, source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format as MemoryFormat
    from tensor.methods.tensor import Tensor

    from .generator import Generator
    from .parameters import Draw


def layout_of(
    shape: tuple[int, ...], out: Tensor | None, dtype: dtype | None, device: Any, default: dtype | None = None
) -> Layout:
    """Layout of what a function is to make: that of ``out``'s dtype and device if that is given.

    Raises
    ------
    RuntimeError
        If another dtype or device than that of ``out`` is asked for.
    """
    if out is None:
        return new_layout(shape, default if dtype is None else dtype, device_state_of(device))
    as_out(out, dtype, device, "out")
    result = out._layout
    return result if result.shape == shape else new_layout(shape, result.dtype, result.device_state)


def target(result: Layout, out: Tensor | None, pin_memory: bool = False) -> Tensor:
    """``out`` with the shape of :func:`layout_of`, or a new tensor."""
    if out is None:
        if pin_memory and result.device_state.is_cuda:
            raise RuntimeError(
                f"Only dense CPU tensors can be pinned: pin_memory=True with device {result.device}"
            )
        return make(result, pin_memory=pin_memory)
    return out if out._layout is result else shaped(out, result.shape)


def drawn(
    function: str,
    draw: Draw,
    result: Layout,
    generator: Generator | None,
    requires_grad: bool,
    out: Tensor | None,
    pin_memory: bool,
) -> Tensor:
    """What ``function`` returns: ``out``, or a new tensor of :func:`layout_of`, with the numbers of a call."""
    chosen = source(generator, result.device_state, function)
    return finish(apply(target(result, out, pin_memory), draw, chosen, function), requires_grad)


@operation(method=False)
def rand(
    *sizes: Any,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of random numbers, uniformly distributed in ``[0, 1)``.

    Parameters
    ----------
    sizes, size
        Sizes, one by one or as a sequence.
    generator : Generator, optional
        By default that of the device.
    dtype : dtype, optional
        Floating or complex; by default :func:`get_default_dtype`.
    device : optional
        By default :func:`get_default_device`.
    pin_memory : bool
        Whether a CPU tensor lies in page-locked memory.

    Raises
    ------
    NotImplementedError
        For another dtype.
    RuntimeError
        For a negative size, a generator of another type of device, or an ``out`` of another dtype or device.

    Examples
    --------
    >>> x = tensor.rand(2, 3)
    >>> x.shape, bool((x < 1).all())
    (tensor.Size([2, 3]), True)
    """
    result = layout_of(sizes_of(sizes, size, "rand"), out, dtype, device)
    draw = parameters.uniform(result.dtype, 0.0, 1.0)
    return drawn("rand", draw, result, generator, requires_grad, out, pin_memory)


@operation(method=False)
def randn(
    *sizes: Any,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Tensor of random numbers from the normal distribution with mean 0 and variance 1.

    Arguments and errors are those of :func:`rand`.

    Examples
    --------
    >>> tensor.randn(2, 3).shape
    tensor.Size([2, 3])
    """
    result = layout_of(sizes_of(sizes, size, "randn"), out, dtype, device)
    draw = parameters.normal(result.dtype, 0.0, 1.0)
    return drawn("randn", draw, result, generator, requires_grad, out, pin_memory)


@operation(method=False)
def randint(
    *arguments: Any,
    low: int | None = None,
    high: int | None = None,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Integers of equal probability: ``randint(high, size)`` and ``randint(low, high, size)``.

    Parameters
    ----------
    low : int
        Smallest number, by default 0.
    high : int
        One more than the largest.
    size : sequence of int
        Shape.
    dtype
        By default int64.

    Raises
    ------
    RuntimeError
        If ``low >= high``, or the dtype does not hold the range. See :func:`rand` too.
    TypeError
        For bounds that are no integers, or too few arguments.

    Examples
    --------
    >>> x = tensor.randint(3, 5, (100,))
    >>> x.unique()
    tensor([3, 4])
    """
    named = {
        name: value for name, value in (("low", low), ("high", high), ("size", size)) if value is not None
    }
    names = ("low", "high", "size") if len(arguments) + len(named) == 3 else ("high", "size")
    left = [name for name in names if name not in named]
    if len(left) != len(arguments) or named.keys() - set(names):
        raise TypeError(
            f"randint() wants (high, size) or (low, high, size); got {len(arguments)} arguments and "
            f"{sorted(named)} by name"
        )
    named.update(zip(left, arguments, strict=True))
    result = layout_of(sequence_of_sizes(named["size"], "randint"), out, dtype, device, dtypes.int64)
    draw = parameters.integers(
        result.dtype,
        as_int64(named.get("low", 0), "randint", "low"),
        as_int64(named["high"], "randint", "high"),
    )
    return drawn("randint", draw, result, generator, requires_grad, out, pin_memory)


@operation(method=False)
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """Tensor with the shape, dtype and device of ``input``, uniformly distributed in ``[0, 1)``; see :func:`rand`.

    Another dtype or device, and a generator, can be given by name.

    Raises
    ------
    NotImplementedError
        If the dtype is neither floating nor complex.
    RuntimeError
        For a generator of another type of device.

    Examples
    --------
    >>> tensor.rand_like(tensor.zeros(2, 3)).shape
    tensor.Size([2, 3])
    """
    result = layout_like(input, dtype, device, memory_format)
    draw = parameters.uniform(result.dtype, 0.0, 1.0)
    return drawn("rand_like", draw, result, generator, requires_grad, None, pin_memory)


@operation(method=False)
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """Tensor with the shape, dtype and device of ``input``, of standard normal numbers; see :func:`randn`.

    Another dtype or device, and a generator, can be given by name.

    Raises
    ------
    NotImplementedError
        If the dtype is neither floating nor complex.
    RuntimeError
        For a generator of another type of device.

    Examples
    --------
    >>> tensor.randn_like(tensor.zeros(2, 3)).shape
    tensor.Size([2, 3])
    """
    result = layout_like(input, dtype, device, memory_format)
    draw = parameters.normal(result.dtype, 0.0, 1.0)
    return drawn("randn_like", draw, result, generator, requires_grad, None, pin_memory)


@operation(method=False)
def randint_like(
    input: Tensor,
    *arguments: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """:func:`randint` of ``input``'s shape, dtype, device and order of dimensions.

    ``randint_like(input, high)`` and ``randint_like(input, low, high)``.

    Examples
    --------
    >>> tensor.randint_like(tensor.zeros(2, 3), 10).shape
    tensor.Size([2, 3])
    """
    if len(arguments) == 2 and low is None and high is None:
        low, high = arguments
    elif len(arguments) == 1 and high is None:
        (high,) = arguments
    elif len(arguments) == 1 and low is None:
        (low,) = arguments
    elif arguments or high is None:
        raise TypeError(
            f"randint_like() wants (input, high) or (input, low, high), got {len(arguments)} bounds"
        )
    result = layout_like(input, dtype, device, memory_format)
    draw = parameters.integers(
        result.dtype,
        0 if low is None else as_int64(low, "randint_like", "low"),
        as_int64(high, "randint_like", "high"),
    )
    return drawn("randint_like", draw, result, generator, requires_grad, None, pin_memory)


@operation(method=False)
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers from 0 to ``n - 1`` in random order.

    The host makes the order. To a CUDA device it is copied from pinned memory on the current stream, and the
    host does not wait for the device.

    Parameters
    ----------
    dtype
        Integer or floating point, by default int64.

    Raises
    ------
    RuntimeError
        If the dtype does not hold all the numbers, or ``n`` is negative. See :func:`rand` too.
    NotImplementedError
        For bool and complex dtypes.

    Examples
    --------
    >>> tensor.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    count = as_int64(n, "randperm", "n")
    result = layout_of((count,), out, dtype, device, dtypes.int64)
    _check_holds(result.dtype, count)
    refuse_numbers_of_the_host(result.device_state, "randperm")
    numbers = source(generator, result.device_state, "randperm")
    if out is None and not pin_memory:
        return finish(_permuted(result, *numbers.next_call(result.device_state)), requires_grad)
    seed, call = numbers.next_call()
    output = target(result, out, pin_memory)
    from_host(distributions.permutation(count, seed, call), output)
    return finish(output, requires_grad)


@host_step
def _permuted(layout: Layout, seed: int, call: int) -> Tensor:
    refuse_numbers_of_the_host(layout.device_state, "randperm")
    result = make(layout)
    from_host(distributions.permutation(layout.numel, seed, call), result)
    return result


def _check_holds(dtype: dtype, count: int) -> None:
    if dtype.is_complex or dtype.category is Category.BOOL:
        raise NotImplementedError(
            f"\"randperm\" not implemented for '{dtype.name}': it wants an integer or floating point dtype"
        )
    if dtype.is_storage_only:
        raise not_implemented("randperm", dtype)
    limit = parameters.largest_integer(dtype)
    if count - 1 > limit:
        raise RuntimeError(
            f"randperm: n cannot be greater than {limit + 1} for {dtype!r}, which does not hold more integers; "
            f"got n={count}"
        )


def from_host(numbers: NDArray[Any], result: Tensor) -> None:
    """Write ``numbers`` to a tensor of their shape, which the host does not wait for on a device."""
    layout = result._layout
    if not layout.device_state.is_cuda:
        result._writable[...] = numbers
        result._storage.version += 1
        return
    staged = make(layouts.contiguous[layout.shape, layout.dtype, cpu], pin_memory=True)
    staged._writable[...] = numbers
    copy_(result, staged, non_blocking=True)
