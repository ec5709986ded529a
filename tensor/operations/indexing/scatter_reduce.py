"""``scatter_reduce``: sums, products, means and extremes of the elements that go to the same position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import dimension
from tensor.core.base import check_tensor
from tensor.core.dtypes.limits import iinfo
from tensor.core.memory_format import contiguous_format
from tensor.core.modes.determinism import determinism
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.plans.copies import check_no_overlap
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation

from .advanced_indexing import REDUCE, WRITE, Indexing
from .recorded_indexing import change_, fitted
from .scatter import scattered

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def _of_sum(grad: Tensor, dim: int, include_self: bool, index: Tensor) -> tuple[Any, Any]:
    return grad, grad.gather(dim, index)


def _of_mean(grad: Tensor, dim: int, include_self: bool, index: Tensor, count: Tensor) -> tuple[Any, Any]:
    share = grad / count
    # What nothing was scattered to has itself as its mean.
    return share, share.gather(dim, index)


def _of_extreme(
    grad: Tensor, dim: int, include_self: bool, index: Tensor, input: Tensor, src: Tensor, result: Tensor
) -> tuple[Any, Any]:
    # Equal extremes share the gradient.
    own = (input == result).to(grad.dtype)
    if not include_self:
        own = own.scatter(dim, index, 0)
    others = (src == result.gather(dim, index)).to(grad.dtype)
    share = grad / own.scatter_add(dim, index, others).clamp(min=1)
    for_input = share * own if include_self else grad
    return for_input, share.gather(dim, index) * others


def _of_prod(
    grad: Tensor, dim: int, include_self: bool, index: Tensor, input: Tensor, src: Tensor, result: Tensor
) -> tuple[Any, Any]:
    # The product of the others: the whole divided by the element, or computed without it where it is 0.
    no_zero = input.masked_fill(input == 0, 1)
    others = no_zero.scatter_reduce(dim, index, src, "prod", include_self=include_self)
    for_input = grad * others / no_zero
    zero = src == 0
    zeros = input.new_zeros(input.shape).scatter_add(dim, index, zero.to(input.dtype)).gather(dim, index)
    only = zero & (zeros == 1)
    without = input.scatter_reduce(dim, index, src.masked_fill(only, 1), "prod", include_self=include_self)
    for_src = (grad * result).gather(dim, index) / src.masked_fill(zero, 1)
    return for_input, (grad * without).gather(dim, index).where(only, for_src)


def _gradients(function: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """Gradients of the tensor and of what was scattered."""

    def gradients(mask: tuple[bool, bool], grad: Tensor, index: Tensor, *rest: Any) -> tuple[Any, Any]:
        *values, dim, include_self = rest
        for_input, for_src = function(grad, dim, include_self, index, *values)
        if not include_self and mask[0]:
            for_input = for_input.scatter(dim, index, 0)
        return for_input if mask[0] else None, for_src if mask[1] else None

    return gradients


#: By reduction. ``former`` is the tensor's value before the reduction.
_SCATTERED = {
    reduce: BackwardFormula(
        "ScatterReduceBackward0",
        "input src index count former",
        joint=Derivative(_gradients(function), needs=needs),
    )
    for reduce, function, needs in (
        ("sum", _of_sum, "index"),
        ("mean", _of_mean, "index count"),
        ("amax", _of_extreme, "index former src out"),
        ("amin", _of_extreme, "index former src out"),
        ("prod", _of_prod, "index former src out"),
    )
}
#: A scatter_reduce whose index is the same for all other dimensions.
_BY_INDEX = {reduce: formula.named("IndexReduceBackward0") for reduce, formula in _SCATTERED.items()}


def _check(reduce: str, input: Tensor, src: Any) -> None:
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    check_tensor(src, "scatter_reduce", "src")
    if input._layout.dtype.is_complex and reduce in ("amax", "amin"):
        raise RuntimeError(f"scatter_reduce(): {reduce} is not defined for {input._layout.dtype!r}")


def _identity(reduce: str, input: Tensor) -> Any:
    dtype = input._layout.dtype
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    largest = reduce == "amin"
    if dtype.name == "bool":
        return largest
    if dtype.is_floating_point:
        return float("inf") if largest else float("-inf")
    return iinfo(dtype).max if largest else iinfo(dtype).min


def _reduce(
    target: Tensor, indexing: Indexing, values: Tensor, reduce: str, include_self: bool
) -> Tensor | None:
    """Reduce into ``target``; for a mean the number of elements of each is returned."""
    if not include_self:
        identity = fitted(target, indexing, target.new_full((), _identity(reduce, target)))
        change_(WRITE, target, indexing, identity)
    deterministic = determinism.required
    change_(REDUCE["sum" if reduce == "mean" else reduce, deterministic], target, indexing, values)
    if reduce != "mean":
        return None
    result: Any = target.new_ones if include_self else target.new_zeros
    count: Tensor = result(target._layout.shape)
    one = target.new_ones(())
    change_(REDUCE["sum", deterministic], count, indexing, fitted(count, indexing, one))
    if not include_self:
        count.clamp_(min=1)
    if target._layout.dtype.is_floating_point or target._layout.dtype.is_complex:
        target.div_(count)
    else:
        target.div_(count, rounding_mode="floor")
    return count


def _reduced(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    formulas: dict[str, BackwardFormula] = _SCATTERED,
    *,
    in_place: bool = False,
) -> Tensor:
    """``input`` or a copy of it, with which elements of ``src`` have been reduced."""
    target: Tensor = input
    if in_place:
        check_in_place(input)
        check_no_overlap(input._layout)
    else:
        target = input.detach().clone(memory_format=contiguous_format)
    indexing, values = scattered("scatter_reduce", input, dim, index, src)
    values = fitted(input, indexing, values)
    recorded = modes.recording and (input.requires_grad or values.requires_grad)
    former = input.detach().clone() if in_place and recorded and reduce not in ("sum", "mean") else input
    with unrecorded():
        count = _reduce(target, indexing, values.detach(), reduce, include_self)
    if not in_place:
        # What filled a new tensor was its making, not a change.
        target._storage.version = 0
    if not recorded:
        return target
    inputs, others, context = (input, values), (index, count, former), (indexing.dim, include_self)
    if in_place:
        record_in_place(formulas[reduce], target, inputs, others, context)
    else:
        formulas[reduce].record((target,), inputs, others, context)
    return target


@operation()
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of ``input`` whose elements are reduced with those of ``src`` that ``index`` sends to them.

    For a matrix, ``dim=0`` and ``reduce="sum"``: ``result[index[i][j]][j] += src[i][j]``.

    Parameters
    ----------
    index : Tensor
        int64 or int32, with as many dimensions as ``input``, and no larger than ``input`` apart from ``dim`` and no
        larger than ``src``. Negative indices are out of range.
    src : Tensor
        Of the dtype of ``input``; elements beyond the shape of ``index`` are ignored.
    reduce : {"sum", "prod", "mean", "amax", "amin"}
        The reduction. Means of integers are rounded down.
    include_self : bool
        Whether the elements of ``input`` take part. Elements to which nothing is sent keep their value in any case.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    RuntimeError
        If there is no such reduction, ``"amax"`` or ``"amin"`` is asked of complex numbers, dtypes, devices or sizes do
        not match, or an index is out of range (on CUDA a device assert, which a later synchronising call raises).
    IndexError
        If ``dim`` is out of range.

    Examples
    --------
    >>> index = tensor.tensor([0, 0, 1])
    >>> src = tensor.tensor([1.0, 4.0, 2.0])
    >>> tensor.full((3,), 3.0).scatter_reduce(0, index, src, "amax")
    tensor([4., 3., 3.])
    >>> tensor.full((3,), 3.0).scatter_reduce(0, index, src, "mean", include_self=False)
    tensor([2.5000, 2.0000, 3.0000])
    """
    _check(reduce, input, src)
    return delivered(out, _reduced(input, dim, index, src, reduce, include_self), "scatter_reduce")


@operation(namespace="")
def scatter_reduce_(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """:func:`scatter_reduce` in place. Returns ``input``.

    Arguments and errors are those of :func:`scatter_reduce`.

    Raises
    ------
    RuntimeError
        Also if elements of ``input`` overlap in memory, or it is a leaf that requires grad.

    Examples
    --------
    >>> tensor.ones(2).scatter_reduce_(0, tensor.tensor([0, 0]), tensor.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    _check(reduce, input, src)
    return _reduced(input, dim, index, src, reduce, include_self, in_place=True)


def _spread_index(input: Tensor, dim: int, index: Tensor, source: Any, reduce: str) -> tuple[int, Tensor]:
    """The dimension, and an index for each element of ``source``."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    _check(reduce, input, source)
    at = dimension(dim, len(input._layout.shape))
    if len(index._layout.shape) > 1:
        raise IndexError(
            f"index_reduce(): index is supposed to be a vector, but got {len(index._layout.shape)} dimensions"
        )
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            f"index_reduce(): self and source expected to have the same dtype, but got {input._layout.dtype!r} and "
            f"{source._layout.dtype!r}"
        )
    shape, argument = list(input._layout.shape), list(source._layout.shape)
    if argument:
        shape[at] = index._layout.numel
    if shape != argument:
        raise RuntimeError(
            f"index_reduce(): source of shape {argument} does not fit: expected {shape}, with a slice for each index"
        )
    if not argument:
        return at, index.reshape(())
    steps = [-1 if axis == at else 1 for axis in range(len(argument))]
    return at, index.reshape(steps).expand(argument)


@operation()
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of ``input`` whose slices along ``dim`` are reduced with those of ``source`` that ``index`` sends to them.

    Parameters
    ----------
    index : Tensor
        A vector (or 0-dim) of int64 or int32, with one index for each slice of ``source``. Negative indices are out of
        range.
    source : Tensor
        Of the dtype of ``input``, and of its shape apart from ``dim``.
    reduce : {"prod", "mean", "amax", "amin"}
        The reduction; see :func:`scatter_reduce`. For sums there is :func:`index_add`.
    include_self : bool
        Whether the elements of ``input`` take part. Slices to which nothing is sent keep their values in any case.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    RuntimeError
        If there is no such reduction, ``"amax"`` or ``"amin"`` is asked of complex numbers, dtypes, devices or sizes do
        not match, or an index is out of range (on CUDA a device assert, which a later synchronising call raises).
    IndexError
        If ``dim`` is out of range, or ``index`` has more than one dimension.

    Examples
    --------
    >>> source = tensor.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> tensor.zeros(2, 2).index_reduce(0, tensor.tensor([1, 1]), source, "amax")
    tensor([[0., 0.],
            [4., 5.]])
    """
    at, positions = _spread_index(input, dim, index, source, reduce)
    result = _reduced(input, at, positions, source, reduce, include_self, _BY_INDEX)
    return delivered(out, result, "index_reduce")


@operation(namespace="")
def index_reduce_(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """:func:`index_reduce` in place. Returns ``input``.

    Arguments and errors are those of :func:`index_reduce`.

    Examples
    --------
    >>> tensor.ones(3).index_reduce_(0, tensor.tensor([0, 0]), tensor.tensor([2.0, 3.0]), "prod")
    tensor([6., 1., 1.])
    """
    at, positions = _spread_index(input, dim, index, source, reduce)
    return _reduced(input, at, positions, source, reduce, include_self, _BY_INDEX, in_place=True)
