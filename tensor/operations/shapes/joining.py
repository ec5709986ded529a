"""Tensors put together: ``cat``, ``stack`` and their like, and repetition."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, overload

from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import integers
from tensor.core.base import TensorBase
from tensor.core.creation_arguments import sizes_of
from tensor.core.dtypes.promotion import promoted
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import copied
from tensor.operations.autocast import WIDEST, Autocast
from tensor.operations.creation.grids import meshgrid
from tensor.operations.creation.result_types import cast_for
from tensor.operations.definition import operation
from tensor.operations.reduction import into_out

from . import slices, views
from .join_plans import CAT, STACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

    from .join_plans import Joining


def _cat_gradients(
    mask: tuple[bool, ...], grad: Tensor, sizes: tuple[int | None, ...], dim: int
) -> tuple[Tensor | None, ...]:
    """The parts of the gradient, and nothing for the empty vectors that take no part, whose size is None."""
    there = [size for size in sizes if size is not None]
    joined = iter(slices.split(grad, there, dim) if there else ())
    whole = [grad.new_zeros(0) if size is None else next(joined) for size in sizes]
    return tuple([part if asked else None for asked, part in zip(mask, whole, strict=True)])


_JOINED = BackwardFormula("CatBackward0", "", joint=Derivative(_cat_gradients, needs=""))


def _stack_gradients(mask: tuple[bool, ...], grad: Tensor, dim: int) -> tuple[Tensor | None, ...]:
    """The slices of the gradient."""
    return tuple(
        [slices.select(grad, dim, position) if asked else None for position, asked in enumerate(mask)]
    )


_STACKED = BackwardFormula("StackBackward0", "", joint=Derivative(_stack_gradients, needs=""))


def _repeat_gradient(grad: Tensor, pairs: list[int], shape: Sequence[int]) -> Tensor:
    """Sums over all repetitions; ``pairs`` are times and size, for each dimension of the result."""
    times = list(range(0, len(pairs), 2))
    folded = grad.reshape(pairs)
    return (folded.sum(times) if times else folded).reshape(shape)


_REPEATED = BackwardFormula("RepeatBackward0", "input", [Derivative(_repeat_gradient, needs="")])


@operation(method=False, also="concat concatenate", autocast=Autocast(cpu=WIDEST))
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along a dimension that they have; all other sizes must be the same.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of any dtypes, of which the result has the promoted one. Vectors without elements are left out.
    dim : int
        Dimension to join along, negative ones counted from the end.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    ValueError
        If there are none.
    RuntimeError
        If other sizes, the numbers of dimensions, or the devices differ.
    IndexError
        If there is no such dimension.
    TypeError
        If an element is not a tensor, or the result's dtype is of a higher category than that of ``out``.

    Examples
    --------
    >>> tensor.cat([tensor.tensor([[1, 2]]), tensor.tensor([[3, 4], [5, 6]])])
    tensor([[1, 2],
            [3, 4],
            [5, 6]])
    >>> tensor.cat([tensor.tensor([[1], [2]]), tensor.tensor([[3.5], [4.5]])], dim=1)
    tensor([[1.0000, 3.5000],
            [2.0000, 4.5000]])
    """
    if not isinstance(tensors, (list, tuple)):
        raise _no_list("cat", tensors)
    argument = list(tensors)
    if not argument:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    try:
        layouts = [x._layout for x in argument]
    except AttributeError:
        raise _no_tensor(argument, "expected Tensor") from None
    joining: Joining = layouts[0].device_state.plans[CAT, index(dim), *layouts]
    joined = [x for x in argument if x._layout.shape != (0,)] if joining.left_out else argument
    result = joining.run(joined)
    if joining.differentiable and modes.recording:
        _JOINED.record((result,), argument, (), (joining.sizes, joining.dim))
    return result if out is None else into_out(cast_for(out, result, "cat", TypeError), out, "cat")


concat = concatenate = cat


@operation(method=False, autocast=Autocast(cpu=WIDEST))
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension ``dim``.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of one shape and any dtypes, of which the result has the promoted one.
    dim : int
        Where the new dimension is in the result, negative ones counted from the end.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If there are none, or shapes or devices differ.
    IndexError
        If ``dim`` is not one of the result's dimensions.
    TypeError
        If an element is not a tensor, or the result's dtype is of a higher category than that of ``out``.

    Examples
    --------
    >>> tensor.stack([tensor.tensor([1, 2]), tensor.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    >>> tensor.stack([tensor.tensor([1, 2]), tensor.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not isinstance(tensors, (list, tuple)):
        raise _no_list("stack", tensors)
    argument = list(tensors)
    try:
        layouts = [x._layout for x in argument]
        joining: Joining = layouts[0].device_state.plans[STACK, index(dim), *layouts]
    except (AttributeError, IndexError):
        _listed("stack", argument)
        raise
    result = joining.run(argument)
    if joining.differentiable and modes.recording:
        _STACKED.record((result,), argument, (), (joining.dim,))
    return result if out is None else into_out(cast_for(out, result, "stack", TypeError), out, "stack")


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(*tensors: Any) -> Any: ...
@operation(method=False)
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Views with at least one dimension: 0-dim tensors get shape (1,), others stay.

    Parameters
    ----------
    tensors : Tensor
        One, for which the result is a tensor; or several, or a sequence, for which it is a tuple. They share
        the memory of what was passed.

    Examples
    --------
    >>> tensor.atleast_1d(tensor.tensor(3))
    tensor([3])
    """
    return _each(tensors, lambda x: x if x._layout.shape else views.view(x, 1))


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(*tensors: Any) -> Any: ...
@operation(method=False)
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Views with at least two dimensions: vectors of shape (n,) become rows (1, n), larger ones stay.

    Parameters
    ----------
    tensors : Tensor
        One, for which the result is a tensor; or several, or a sequence, for which it is a tuple. They share
        the memory of what was passed.

    Examples
    --------
    >>> tensor.atleast_2d(tensor.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _each(
        tensors,
        lambda x: x if len(x._layout.shape) >= 2 else views.unsqueeze(atleast_1d(x), 0),
    )


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(*tensors: Any) -> Any: ...
@operation(method=False)
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Views with at least three dimensions: (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1).

    Parameters
    ----------
    tensors : Tensor
        One, for which the result is a tensor; or several, or a sequence, for which it is a tuple. They share
        the memory of what was passed.

    Examples
    --------
    >>> tensor.atleast_3d(tensor.tensor([1, 2])).shape
    tensor.Size([1, 2, 1])
    """

    def lift(x: Tensor) -> Tensor:
        rank = len(x._layout.shape)
        if rank >= 3:
            return x
        return views.unsqueeze(x, 2) if rank == 2 else views.unsqueeze(views.unsqueeze(atleast_1d(x), 0), 2)

    return _each(tensors, lift)


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return function(tensors[0])
    argument = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    return tuple(function(x) for x in argument)


def _listed(name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise _no_list(name, tensors)
    argument = list(tensors)
    if not argument:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    if not all(isinstance(x, TensorBase) for x in argument):
        raise _no_tensor(argument, f"{name}(): expected Tensor")
    return argument


def _no_list(name: str, tensors: object) -> TypeError:
    return TypeError(
        f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}"
    )


def _no_tensor(argument: Sequence[Any], expected: str) -> TypeError:
    """The error of a list whose first element that is no tensor is told."""
    position, result = next((at, x) for at, x in enumerate(argument) if not isinstance(x, TensorBase))
    return TypeError(f"{expected} as element {position} in argument 0, but got {type(result).__name__}")


@operation(method=False)
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined side by side: vectors along their dimension, others along the second one.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of any dtypes, of which the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If there are none, or sizes elsewhere or devices differ.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.hstack([tensor.tensor([1, 2]), tensor.tensor([3, 4])])
    tensor([1, 2, 3, 4])
    """
    argument = list(atleast_1d(_listed("hstack", tensors)))
    return cat(argument, 0 if len(argument[0]._layout.shape) == 1 else 1, out=out)


@operation(method=False, also="row_stack")
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined below each other, along the first dimension; a vector counts as one row.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of any dtypes, of which the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If there are none, or sizes elsewhere or devices differ.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.vstack([tensor.tensor([1, 2]), tensor.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat(list(atleast_2d(_listed("vstack", tensors))), 0, out=out)


row_stack = vstack


@operation(method=False)
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the third dimension, which :func:`atleast_3d` gives to those without it.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of any dtypes, of which the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If there are none, or sizes elsewhere or devices differ.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.dstack([tensor.tensor([1, 2]), tensor.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return cat(list(atleast_3d(_listed("dstack", tensors))), 2, out=out)


@operation(method=False)
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the second dimension; a vector counts as one column.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of any dtypes, of which the result has the promoted one.
    out : Tensor, optional
        Tensor that the result is written to, resized to its shape; its dtype must be of the result's category
        or a higher one (bool, integer, floating, complex).

    Raises
    ------
    RuntimeError
        If there are none, or sizes elsewhere or devices differ.
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.column_stack([tensor.tensor([1, 2]), tensor.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    listed = _listed("column_stack", tensors)
    argument = [x if len(x._layout.shape) >= 2 else x.reshape(x.numel(), 1) for x in listed]
    return cat(argument, 1, out=out)


@operation(namespace="")
def repeat(input: Tensor, *counts: Any, repeats: Any = None) -> Tensor:
    """The tensor repeated so often along each dimension, in new memory.

    Parameters
    ----------
    counts : int
        Numbers, one by one or as a sequence, at least one for each dimension; if there are more, dimensions
        of size 1 are added in front.
    repeats : sequence of int, optional
        The numbers by name.

    Raises
    ------
    RuntimeError
        If there are fewer numbers than dimensions, or one is negative.

    Examples
    --------
    >>> tensor.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = (
        integers(counts, "repeat", "repeats")
        if repeats is None
        else sizes_of(counts, repeats, "repeat", "repeats")
    )
    shape = input._layout.shape
    if len(counts) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"{len(counts)} and {len(shape)}"
        )
    sizes = (1,) * (len(counts) - len(shape)) + tuple(shape)
    if any(count * size < 0 for count, size in zip(counts, sizes, strict=True)):
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeats {list(counts)}")
    counts = tuple(max(count, 0) for count in counts)
    # Each dimension becomes a pair: so many times, all of it.
    pairs = [number for pair in zip((1,) * len(sizes), sizes, strict=True) for number in pair]
    expanded = [number for pair in zip(counts, sizes, strict=True) for number in pair]
    total = [count * size for count, size in zip(counts, sizes, strict=True)]
    plain = input.detach()
    output = copied(
        views.expand(plain.reshape(pairs), expanded),
        contiguous[tuple(expanded), plain.dtype, plain._layout.device_state],
    )
    result = views.view(output, total)
    result._base = None
    _REPEATED.record((result,), (input,), context=(expanded, shape))
    return result


@operation()
def tile(input: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """The tensor repeated so often along each dimension.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; the result is new memory of that dtype.
    counts : int
        Numbers, one by one or as a sequence, for the last dimensions. Missing leading ones are 1; if there
        are more than dimensions, dimensions of size 1 are added in front.
    dims : sequence of int, optional
        The numbers by name.

    Raises
    ------
    RuntimeError
        If a number is negative.

    Examples
    --------
    >>> tensor.tile(tensor.tensor([[1, 2], [3, 4]]), 2)
    tensor([[1, 2, 1, 2],
            [3, 4, 3, 4]])
    """
    counts = integers(counts, "tile", "dims") if dims is None else sizes_of(counts, dims, "tile", "dims")
    lead = len(input._layout.shape) - len(counts)
    return repeat(input, (1,) * max(lead, 0) + tuple(counts))


@operation(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """Matrix with the tensors along its diagonal, one below the other, and zeros elsewhere.

    Parameters
    ----------
    tensors : Tensor
        With at most two dimensions: a vector counts as one row, a 0-dim tensor as a matrix of one element.
        The result has the promoted dtype.

    Raises
    ------
    RuntimeError
        If one has more than two dimensions.

    Examples
    --------
    >>> tensor.block_diag(tensor.tensor([[1, 2], [3, 4]]), tensor.tensor([5]))
    tensor([[1, 2, 0],
            [3, 4, 0],
            [0, 0, 5]])
    """
    for position, x in enumerate(tensors):
        if len(x._layout.shape) > 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {position} has "
                f"{len(x._layout.shape)} dimensions"
            )
    blocks = [atleast_2d(x) for x in tensors]
    dtype = promoted(tuple(x._layout for x in tensors))
    rows, columns = sum(x.shape[0] for x in blocks), sum(x.shape[1] for x in blocks)
    result: Tensor = blocks[0].new_zeros(rows, columns, dtype=dtype)
    top = left = 0
    for x in blocks:
        height, width = x.shape
        result[top : top + height, left : left + width] = x
        top, left = top + height, left + width
    return result


@operation(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector: shape ``(product of sizes, number of vectors)``.

    Parameters
    ----------
    tensors : Tensor
        Vectors; of a single one the result is that vector itself.

    Raises
    ------
    RuntimeError
        If one is not a vector.

    Examples
    --------
    >>> tensor.cartesian_prod(tensor.tensor([1, 2]), tensor.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for x in tensors:
        if len(x._layout.shape) != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._layout.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.reshape(-1) for grid in meshgrid(*tensors, indexing="ij")], 1)
