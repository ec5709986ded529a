"""Maxima of windows put back where they stood."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import two_devices
from tensor.core.base import check_tensor, view_of
from tensor.core.layout import contiguous
from tensor.core.memory_format import suggested
from tensor.core.modes.determinism import determinism
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import planned
from tensor.core.plans.copies import COPIED, in_format
from tensor.core.plans.fills import filled
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.indexing.advanced_indexing import READ, WRITE, WRITE_LAST
from tensor.operations.planned_options import plan_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _numbers(name: str, what: str, argument: Any, rank: int) -> list[int]:
    values = [argument] * rank if isinstance(argument, int) else list(argument)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise ValueError(f"{name}(): {what} must be one integer or {rank}, got {argument!r}")
    return values


def _size(
    name: str, shape: Sequence[int], kernel_size: Any, stride: Any, padding: Any, output_size: Any, rank: int
) -> list[int]:
    """Size of the result without items and channels."""
    kernel = _numbers(name, "kernel_size", kernel_size, rank)
    strides = kernel if stride is None else _numbers(name, "stride", stride, rank)
    pads = _numbers(name, "padding", padding, rank)
    default = [
        (size - 1) * step + window - 2 * pad
        for size, step, window, pad in zip(shape[-rank:], strides, kernel, pads, strict=True)
    ]
    if output_size is None:
        result = default
    else:
        result = list(output_size)
        if len(result) == rank + 2:
            result = result[2:]
        if len(result) != rank:
            raise ValueError(
                f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
                f"'{len(result)}'"
            )
        for axis, (size, step, expected) in enumerate(zip(default, strides, result, strict=True)):
            if not size - step < expected < size + step:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim {axis} must be between {size - step} and {size + step})'
                )
    for axis, size in enumerate(result):
        if size < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{axis}]={size}"
            )
    return result


def _check(name: str, input: Any, indices: Any) -> None:
    for what, argument in (("input", input), ("indices", indices)):
        check_tensor(argument, name, what)


def _check_layouts(name: str, x: Layout, indices: Layout, rank: int) -> None:
    shape = x.shape
    if indices.dtype.name != "int64":
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype!r}")
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Input to max_unpooling should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with shape "
            f"{list(shape)}"
        )
    if indices.shape != shape:
        raise RuntimeError(
            f"{name}(): Expected shape of indices to be same as that of the input tensor ({list(shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    if 0 in shape[1:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(shape)}"
        )
    if indices.device_state is not x.device_state:
        raise two_devices("scatter", x.device, indices.device)


def _flat(layout: Layout, rank: int) -> tuple[Callable[[Tensor], Tensor], Layout]:
    """What shows planes of tensors of a layout as vectors, and as which layout."""
    shape = (*layout.shape[:-rank], prod(layout.shape[-rank:]))
    flat = contiguous[shape, layout.dtype, layout.device_state]
    if layout.contiguous:
        return lambda x: view_of(x._storage, flat, x._offset), flat
    pack = layout.device_state.plans[COPIED, layout.as_contiguous(), layout]
    return lambda x: view_of(pack(x)._storage, flat, 0), flat


class _Unpool:
    """``device_state.plans[operation, input, indices, *options](input, indices)``: the result. Not recorded."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.name = f"max_unpool{rank}d"

    def plan(
        self, x: Layout, indices: Layout, kernel_size: Any, stride: Any, padding: Any, output_size: Any
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """What puts maxima back, for tensors of these layouts; raises if they or the options do not fit."""
        name, rank = self.name, self.rank
        _check_layouts(name, x, indices, rank)
        size = _size(name, x.shape, kernel_size, stride, padding, output_size, rank)
        outer = tuple(x.shape[:-rank])
        out = contiguous[(*outer, *size), x.dtype, x.device_state]
        planes = contiguous[(*outer, prod(size)), x.dtype, x.device_state]
        (values_of, values), (places_of, positions) = _flat(x, rank), _flat(indices, rank)
        # Errors of indices that are outside name the operation that it is made of.
        key = (planes, "scatter", "elementwise", len(outer), positions, values)
        plans = x.device_state.plans
        # What does not fit is found now.
        plans[WRITE, *key]

        def run(x: Tensor, indices: Tensor) -> Tensor:
            result = filled(planes, 0)
            write = plans[WRITE_LAST if determinism.required else WRITE, *key]
            if values.numel:
                write(result, (places_of(indices),), values_of(x))
            return view_of(result._storage, out, 0)

        return in_format(run, suggested(x)) if rank == 2 else run


def _gather_plan(grad: Layout, indices: Layout, rank: int) -> Callable[[Tensor, Tensor], Tensor]:
    """``device_state.plans[operation, grad, indices, rank](grad, indices)``: the gradient of the maxima."""
    (grads_of, grads), (places_of, positions) = _flat(grad, rank), _flat(indices, rank)
    out = contiguous[tuple(indices.shape), grad.dtype, grad.device_state]
    read = grad.device_state.plans[READ, grads, "gather", "elementwise", len(grads.shape) - 1, positions]

    def run(grad: Tensor, indices: Tensor) -> Tensor:
        result = read(grads_of(grad), (places_of(indices),))
        return view_of(result._storage, out, result._offset)

    return run


_UNPOOL, _GATHER = {rank: _Unpool(rank) for rank in (1, 2, 3)}, planned(_gather_plan)


def _gathered(grad: Tensor, indices: Tensor, rank: int) -> Tensor:
    """The gradient of the maxima: an operation of its own."""
    layout = grad._layout
    result: Tensor = layout.device_state.plans[_GATHER, layout, indices._layout, rank](grad, indices)
    if modes.recording:
        _GATHERED.record((result,), (grad,), (indices,), (rank, layout.shape))
    return result


def _put_back(gradient: Tensor, indices: Tensor, rank: int, shape: tuple[int, ...]) -> Tensor:
    """The gradient of ``grad``: what was read is put where it was read, and added up."""
    zeros = gradient.new_zeros((*shape[:-rank], prod(shape[-rank:])))
    return zeros.scatter_add(-1, indices.flatten(-rank), gradient.flatten(-rank)).view(shape)


#: By the number of spatial dimensions.
_FORMULAS = {
    rank: BackwardFormula(
        f"MaxUnpool{max(rank, 2)}DBackward0", "input indices", [Derivative(_gathered, needs="indices")]
    )
    for rank in (1, 2, 3)
}
_GATHERED = BackwardFormula("GatherBackward0", "grad indices", [Derivative(_put_back, needs="indices")])


def _unpool(
    rank: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    operation = _UNPOOL[rank]
    try:
        layouts = input._layout, indices._layout
    except AttributeError:
        _check(operation.name, input, indices)
        raise
    result: Tensor = plan_for(operation, layouts, (kernel_size, stride, padding, output_size))(input, indices)
    if input._autograd is not None:
        _FORMULAS[rank].record((result,), (input,), (indices,), (rank,))
    return result


@operation(namespace="nn.functional", method=False)
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of windows of signals put back where they stood, zeros elsewhere: the partial inverse of :func:`max_pool1d`.

    Parameters
    ----------
    input
        Maxima ``(N, C, length)``, or of one signal ``(C, length)``.
    indices
        Their positions, int64, of the shape of ``input``, as ``max_pool1d(..., return_indices=True)`` gives them. Where two are
        the same, one of the values is taken.
    kernel_size, stride, padding
        As the pooling had them: an integer.
    output_size
        Size of the result, with or without ``(N, C)``, where inputs of several sizes are pooled to the same;
        ``(size - 1) * stride - 2 * padding + kernel_size`` by default.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, of the dtype of ``input``.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    ValueError
        For an ``output_size`` that is not pooled to the size of ``input``, or if an option is not one integer.
    RuntimeError
        If ``indices`` are not int64, or not of the shape and on the device of ``input``; if this has neither 2 nor 3
        dimensions, or an empty one other than the first; if an index is outside of the result (on CUDA at the next
        synchronisation).

    Examples
    --------
    >>> values, positions = nn.functional.max_pool1d(tensor.tensor([[1.0, 4.0, 2.0, 3.0]]), 2, return_indices=True)
    >>> nn.functional.max_unpool1d(values, positions, 2)
    tensor([[0., 4., 0., 3.]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of windows of images put back where they stood, zeros elsewhere: the partial inverse of :func:`max_pool2d`.

    Parameters
    ----------
    input
        Maxima ``(N, C, height, width)``, or of one image ``(C, height, width)``.
    indices
        Their positions, int64, of the shape of ``input``, as ``max_pool2d(..., return_indices=True)`` gives them. Where two are
        the same, one of the values is taken.
    kernel_size, stride, padding
        As the pooling had them: an integer, or 2 of them.
    output_size
        Size of the result, with or without ``(N, C)``, where inputs of several sizes are pooled to the same;
        ``(size - 1) * stride - 2 * padding + kernel_size`` by default.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, of the dtype of ``input``.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    ValueError
        For an ``output_size`` that is not pooled to the size of ``input``, or if an option has neither one number nor 2.
    RuntimeError
        If ``indices`` are not int64, or not of the shape and on the device of ``input``; if this has neither 3 nor 4
        dimensions, or an empty one other than the first; if an index is outside of the result (on CUDA at the next
        synchronisation).

    Examples
    --------
    >>> values, positions = nn.functional.max_pool2d(tensor.randn(1, 3, 7, 7), 2, return_indices=True)
    >>> nn.functional.max_unpool2d(values, positions, 2, output_size=(7, 7)).shape
    tensor.Size([1, 3, 7, 7])
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of windows of volumes put back where they stood, zeros elsewhere: the partial inverse of :func:`max_pool3d`.

    Parameters
    ----------
    input
        Maxima ``(N, C, depth, height, width)``, or of one volume ``(C, depth, height, width)``.
    indices
        Their positions, int64, of the shape of ``input``, as ``max_pool3d(..., return_indices=True)`` gives them. Where two are
        the same, one of the values is taken.
    kernel_size, stride, padding
        As the pooling had them: an integer, or 3 of them.
    output_size
        Size of the result, with or without ``(N, C)``, where inputs of several sizes are pooled to the same;
        ``(size - 1) * stride - 2 * padding + kernel_size`` by default.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, of the dtype of ``input``.

    Raises
    ------
    TypeError
        If an operand is no tensor.
    ValueError
        For an ``output_size`` that is not pooled to the size of ``input``, or if an option has neither one number nor 3.
    RuntimeError
        If ``indices`` are not int64, or not of the shape and on the device of ``input``; if this has neither 4 nor 5
        dimensions, or an empty one other than the first; if an index is outside of the result (on CUDA at the next
        synchronisation).

    Examples
    --------
    >>> values, positions = nn.functional.max_pool3d(tensor.randn(1, 3, 4, 4, 4), 2, return_indices=True)
    >>> nn.functional.max_unpool3d(values, positions, 2).shape
    tensor.Size([1, 3, 4, 4, 4])
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
