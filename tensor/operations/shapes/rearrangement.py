"""Elements in another order along dimensions: ``flip``, ``roll``, ``rot90``."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import rearrangement as kernels
from nvrtc_kernels.dtypes import STORAGE_ONLY
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import dimension, dimensions, integers
from tensor.core.base import empty
from tensor.core.creation_arguments import sizes_of
from tensor.core.memory_format import contiguous_format, suggested
from tensor.core.plans import planned
from tensor.core.plans.copies import formatted
from tensor.operations.creation.copies import clone
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out

from . import slices, views

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

Ints = tuple[int, ...]


def _flip_plan(layout: Layout, dims: Ints) -> Callable[[Tensor], Tensor]:
    """What flips tensors of ``layout``.

    ``device_state.plans[FLIP, layout, dims](input)``: a tensor whose ``dims`` run backward.
    """
    return _planned("flip", layout, layout.as_dense(), lambda a: np.flip(a, dims), flipped=dims)


def _roll_plan(layout: Layout, shifts: Ints) -> Callable[[Tensor], Tensor]:
    """What rolls tensors of ``layout``.

    ``device_state.plans[ROLL, layout, shifts](input)``: a tensor rolled by so many positions along each dimension.
    """
    axes = tuple(range(len(shifts)))
    out = layout.as_contiguous() if layout.numel else layout.as_dense()
    return _planned("roll", layout, out, lambda a: np.roll(a, shifts, axes), shifts=shifts)


def _planned(
    name: str,
    layout: Layout,
    out: Layout,
    numpy: Callable[[NDArray[Any]], NDArray[Any]],
    **moves: Sequence[int],
) -> Callable[[Tensor], Tensor]:
    if not layout.device_state.is_cuda:

        def on_host(input: Tensor) -> Tensor:
            result = empty(out)
            result._writable[...] = numpy(input._host)
            return result

        return on_host
    device_state = layout.device_state
    launch = kernels.plan_move(
        device_state.native, name, layout.shape, layout.dtype, out.strides, layout.strides, **moves
    )
    local = device_state.local

    def run(input: Tensor) -> Tensor:
        result = empty(out)
        launch(local.stream.handle, result._address, input._address)
        return result

    return run


FLIP = planned(_flip_plan, takes=STORAGE_ONLY)
ROLL = planned(_roll_plan, takes=STORAGE_ONLY)


@operation()
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """A copy in which some dimensions run backward.

    Parameters
    ----------
    axes : int
        Dimensions, one by one or as a sequence, negative ones counted from the end.
    dims : sequence of int, optional
        The dimensions by name.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If a dimension is named twice.

    Examples
    --------
    >>> tensor.flip(tensor.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[4, 3],
            [2, 1]])
    """
    layout = input._layout
    argument = integers(axes, "flip", "dims") if dims is None else sizes_of(axes, dims, "flip", "dims")
    result = dimensions(argument, len(layout.shape), "flip")
    return _flipped(input, tuple(sorted(result)) if layout.shape else ())


def _flipped(input: Tensor, axes: Ints) -> Tensor:
    layout = input._layout
    result: Tensor = layout.device_state.plans[FLIP, layout, axes](input)
    _FLIP_BACKWARD.record((result,), (input,), context=(axes,))
    return result


_FLIP_BACKWARD = BackwardFormula("FlipBackward0", "input", [Derivative(_flipped, needs="")])


@operation()
def fliplr(input: Tensor) -> Tensor:
    """A copy whose second dimension runs backward.

    Raises
    ------
    RuntimeError
        For fewer than two dimensions.

    Examples
    --------
    >>> tensor.fliplr(tensor.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if len(input._layout.shape) < 2:
        raise RuntimeError(f"fliplr(): Input must be >= 2-d, got shape {list(input._layout.shape)}")
    return _flipped(input, (1,))


@operation()
def flipud(input: Tensor) -> Tensor:
    """A copy whose first dimension runs backward.

    Raises
    ------
    RuntimeError
        For a 0-dim tensor.

    Examples
    --------
    >>> tensor.flipud(tensor.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if not input._layout.shape:
        raise RuntimeError("flipud(): Input must be >= 1-d, got a 0-dim tensor")
    return _flipped(input, (0,))


@operation()
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """A copy whose elements are moved along dimensions; those that leave the end come back at the start.

    Parameters
    ----------
    shifts
        By how many positions, for each of ``dims``; negative ones move to the start.
    dims
        Dimensions; without any, elements are moved in row-major order.

    Raises
    ------
    IndexError
        If there is no such dimension.
    RuntimeError
        If there are not as many shifts as dimensions, or none.

    Examples
    --------
    >>> tensor.roll(tensor.tensor([[1, 2, 3], [4, 5, 6]]), 1, dims=1)
    tensor([[3, 1, 2],
            [6, 4, 5]])
    >>> tensor.roll(tensor.tensor([1, 2, 3]), -1)
    tensor([2, 3, 1])
    """
    moves = integers((shifts,), "roll", "shifts")
    axes = () if dims is None else integers((dims,), "roll", "dims")
    if not moves:
        raise RuntimeError("roll(): `shifts` required, got none")
    if not axes and len(moves) == 1:
        return views.view(roll(input.reshape(-1), moves, 0), input._layout.shape)
    if len(axes) != len(moves):
        raise RuntimeError(
            f"roll(): shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    shape = input._layout.shape
    if not input._layout.numel:
        # As in PyTorch, nothing is asked of dimensions that nothing moves along.
        return _rolled(input, (0,) * len(shape))
    if not shape:
        raise IndexError("roll(): Dimension specified as 0 but tensor has no dimensions")
    total = [0] * len(shape)
    for axis, move in zip(axes, moves, strict=True):
        total[dimension(axis, len(shape))] += move
    return _rolled(input, tuple(n % size if size else 0 for n, size in zip(total, shape, strict=True)))


def _rolled(input: Tensor, shifts: Ints) -> Tensor:
    layout = input._layout
    result: Tensor = layout.device_state.plans[ROLL, layout, shifts](input)
    if not layout.contiguous and not layout.device_state.is_cuda:
        # PyTorch joins slices on the CPU, and has a kernel for row-major order on devices.
        result = formatted(result, suggested(layout))
    back = tuple(-n % size if size else 0 for n, size in zip(shifts, layout.shape, strict=True))
    _ROLL_BACKWARD.record((result,), (input,), context=(back,))
    return result


_ROLL_BACKWARD = BackwardFormula("RollBackward0", "input", [Derivative(_rolled, needs="")])


@operation()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy that is turned ``k`` times by 90 degrees, from the first of two dimensions towards the second.

    Raises
    ------
    RuntimeError
        If ``dims`` are not two different ones, or there are fewer in the tensor.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.rot90(tensor.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    axes = integers((dims,), "rot90", "dims")
    rank = len(input._layout.shape)
    if len(axes) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(axes)}")
    if rank < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {rank}")
    first, second = (dimension(axis, rank) for axis in axes)
    if first == second:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {axes[0]} and dim1 = {axes[1]}"
        )
    turns = index(k) % 4
    if turns == 0:
        return clone(input, memory_format=contiguous_format)
    if turns == 2:
        return _flipped(input, tuple(sorted((first, second))))
    return views.transpose(_flipped(input, (second if turns == 1 else first,)), first, second)


@operation()
def narrow_copy(input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of ``length`` elements of a dimension from ``start`` on; :func:`narrow` shows them without one.

    Parameters
    ----------
    start : int
        First index; a negative one counts from the end.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    IndexError
        If there is no such dimension, or ``start`` is outside.
    RuntimeError
        If ``start + length`` is beyond the size, ``length`` is negative, or the tensor is 0-dim.

    Examples
    --------
    >>> tensor.narrow_copy(tensor.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    return into_out(clone(slices.narrow(input, dim, start, length)), out, "narrow_copy")
