"""Writing and adding at indices, as functions and in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import promote_types
from tensor.core.arguments import dimension
from tensor.core.base import TensorBase, check_tensor
from tensor.core.dtypes.scalars import dtype_of, element
from tensor.core.modes.determinism import determinism
from tensor.operations.autocast import WIDEST, Autocast
from tensor.operations.creation.factories import delivered
from tensor.operations.definition import operation
from tensor.operations.shapes import slices

from .advanced_indexing import REDUCE, Indexing
from .gather import with_rank
from .recorded_indexing import add, add_, change_, check_indices, fitted, write, write_

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def number_of(input: Tensor, value: Any, name: str) -> Tensor:
    """``value``, a number or a 0-dim tensor, as a 0-dim tensor of the dtype and device of ``input``.

    A CUDA tensor is waited for if its dtype has numbers that the dtype of ``input`` has not.

    Raises
    ------
    RuntimeError
        If it is a tensor of more dimensions, or a number that the dtype cannot hold: too large, or complex with an
        imaginary part where ``input`` is real.
    """
    layout = input._layout
    if not isinstance(value, TensorBase):
        return input.new_full((), value)
    if value._layout.shape:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value._layout.shape)} dimension(s)."
        )
    origin = value._layout.dtype
    fits = origin is layout.dtype or (
        value._layout.device_state.is_cuda and promote_types(origin, layout.dtype) is layout.dtype
    )
    if not fits:
        element(value.item(), layout.dtype)
    return value.to(device=layout.device, dtype=layout.dtype)


def _same_type(name: str, input: Tensor, source: Any) -> Tensor:
    check_tensor(source, name, "source")
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {input._layout.dtype!r} and "
            f"{source._layout.dtype!r}: convert one of them"
        )
    return source  # type: ignore[no-any-return]


# One element for every index


def scattered(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[Indexing, Tensor]:
    """The selected elements, and a value for each: a number, or the part of ``src`` that has an index."""
    at = dimension(dim, len(input._layout.shape))
    check_indices(name, input, index, types=("int32", "int64"))
    index = with_rank(name, input, index)
    indexing = Indexing(name, "elementwise", (index,), at)
    if not isinstance(src, TensorBase):
        return indexing, number_of(input, src, name)
    _same_type(name, input, src)
    if not index._layout.numel:
        # Nothing is taken from it, whatever its shape.
        return indexing, slices.narrow(src.reshape(-1), 0, 0, 0).reshape(index._layout.shape)
    with_rank(name, src, index)
    sizes, argument = index._layout.shape, src._layout.shape
    if any(a > b for a, b in zip(sizes, argument, strict=False)):
        raise RuntimeError(
            f"{name}(): Expected index {list(sizes)} to be no larger than self {list(input._layout.shape)} apart from "
            f"dimension {at} and to be no larger size than src {list(argument)}"
        )
    values: Any = src
    if tuple(sizes) != tuple(argument):
        if len(sizes) != len(argument):
            values = values.reshape(sizes)
        for axis, size in enumerate(sizes):
            if values._layout.shape[axis] > size:
                values = slices.narrow(values, axis, 0, size)
    return indexing, values


_REDUCERS = {"add": "sum", "multiply": "prod"}


def _check_reduce(reduce: str) -> str:
    if reduce not in _REDUCERS:
        raise RuntimeError(f"scatter(): reduce argument must be either add or multiply, got {reduce!r}")
    return _REDUCERS[reduce]


@operation()
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of ``input`` with elements of ``src`` written at indices along ``dim``.

    For a matrix and ``dim=0``: ``result[index[i][j]][j] = src[i][j]``; for ``dim=1``:
    ``result[i][index[i][j]] = src[i][j]``. Where an element is written more than once, which value stays is undefined
    on CUDA.

    Parameters
    ----------
    index : Tensor
        int64 or int32, with as many dimensions as ``input``, and no larger than ``input`` apart from ``dim`` and no
        larger than ``src``. Negative indices are out of range.
    src : Tensor or number
        A tensor of the dtype of ``input``, whose elements beyond the shape of ``index`` are ignored, or one number for
        every index.
    value : number or Tensor, optional
        Another name for ``src``.
    reduce : {"add", "multiply"}, optional
        Combine with the element instead of overwriting it. ``"multiply"`` has no derivative: see
        :func:`scatter_reduce`.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    RuntimeError
        If dtypes or devices differ, ``index`` is neither int32 nor int64 or has another number of dimensions, it is
        larger than ``src``, or than ``input`` in another dimension than ``dim``; an index is out of range (on CUDA a
        device assert, which a later synchronising call raises), or there is no such reduction.
    IndexError
        If ``dim`` is out of range.

    See Also
    --------
    gather : The inverse: reads at indices.

    Examples
    --------
    >>> index = tensor.tensor([[0, 2, 1]])
    >>> tensor.zeros(3, 3).scatter(0, index, tensor.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 0., 0.],
            [0., 0., 3.],
            [0., 2., 0.]])
    >>> tensor.zeros(2, 3).scatter(1, tensor.tensor([[2], [0]]), 1.0)  # one-hot rows
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if reduce is not None:
        result = scatter_(input.clone(), dim, index, src, value=value, reduce=reduce)
    else:
        indexing, values = scattered("scatter", input, dim, index, src if value is None else value)
        result = write(input, indexing, values)
    return delivered(out, result, "scatter")


@operation(namespace="")
def scatter_(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """:func:`scatter` in place: ``input[index[i][j]][j] = src[i][j]`` for ``dim=0``. Returns ``input``.

    Arguments and errors are those of :func:`scatter`.

    Raises
    ------
    RuntimeError
        Also if elements of ``input`` overlap in memory, if ``input`` is a leaf that requires grad, or if
        ``reduce="multiply"`` and a derivative would be needed.

    Examples
    --------
    >>> tensor.ones(4).scatter_(0, tensor.tensor([1, 3]), 5.0)
    tensor([1., 5., 1., 5.])
    >>> tensor.full((4,), 2.0).scatter_(0, tensor.tensor([1, 3]), 5.0, reduce="multiply")
    tensor([ 2., 10.,  2., 10.])
    """
    indexing, values = scattered("scatter", input, dim, index, src if value is None else value)
    if reduce is None:
        return write_(input, indexing, values)
    if _check_reduce(reduce) == "sum":
        return add_(input, indexing, values)
    if input.requires_grad or values.requires_grad:
        raise RuntimeError(
            "scatter(): reduce='multiply' has no derivative: use scatter_reduce(..., reduce='prod')"
        )
    change_(REDUCE["prod", determinism.required], input, indexing, fitted(input, indexing, values))
    return input


@operation(autocast=Autocast(cuda=WIDEST))
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of ``input`` with elements of ``src`` added at indices along ``dim``.

    For a matrix and ``dim=0``: ``result[index[i][j]][j] += src[i][j]``; for ``dim=1``:
    ``result[i][index[i][j]] += src[i][j]``. Elements sent to the same position are all added; on CUDA in any order, unless
    deterministic algorithms are required.

    Parameters
    ----------
    index : Tensor
        int64 or int32, with as many dimensions as ``input``, and no larger than ``input`` apart from ``dim`` and no
        larger than ``src``. Negative indices are out of range.
    src : Tensor
        Of the dtype of ``input``; elements beyond the shape of ``index`` are ignored.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    RuntimeError
        If dtypes or devices differ, ``index`` is neither int32 nor int64 or has another number of dimensions, it is
        larger than ``src``, or than ``input`` in another dimension than ``dim``, or an index is out of range (on CUDA
        a device assert, which a later synchronising call raises).
    IndexError
        If ``dim`` is out of range.
    TypeError
        If ``src`` is not a tensor.

    Examples
    --------
    >>> index = tensor.tensor([[0, 1, 1], [0, 0, 1]])
    >>> src = tensor.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> tensor.zeros(2, 3).scatter_add(0, index, src)
    tensor([[5., 5., 0.],
            [0., 2., 9.]])
    >>> tensor.zeros(2, 3).scatter_add(1, index, src)
    tensor([[1., 5., 0.],
            [9., 6., 0.]])
    """
    indexing, values = scattered("scatter_add", input, dim, index, _tensor("scatter_add", src))
    return delivered(out, add(input, indexing, values), "scatter_add")


@operation(namespace="")
def scatter_add_(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """:func:`scatter_add` in place: ``input[index[i][j]][j] += src[i][j]`` for ``dim=0``. Returns ``input``.

    Arguments and errors are those of :func:`scatter_add`.

    Examples
    --------
    >>> sums = tensor.zeros(3)
    >>> sums.scatter_add_(0, tensor.tensor([0, 2, 0]), tensor.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    indexing, values = scattered("scatter_add", input, dim, index, _tensor("scatter_add", src))
    return add_(input, indexing, values)


def _tensor(name: str, src: Any) -> Tensor:
    check_tensor(src, name, "src")
    return src  # type: ignore[no-any-return]


# Slices


def _sliced(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Indexing, Tensor]:
    at = dimension(dim, len(input._layout.shape))
    types = ("int32", "int64") if name == "index_add" else ("int64",)
    check_indices(name, input, index, types=types)
    _same_type(name, input, source)
    count, sizes = index._layout.numel, source._layout.shape
    if len(index._layout.shape) > 1:
        raise IndexError(f"{name}_(): Index should have dimension 1 or 0 (got {len(index._layout.shape)})")
    argument = sizes[at] if at < len(sizes) else 1
    if argument != count:
        message = f"{name}_(): Number of indices ({count}) should be equal to source.size(dim): ({argument}), for dim: {at}"
        raise (IndexError if name == "index_copy" else RuntimeError)(message)
    expected = [size for axis, size in enumerate(input._layout.shape) if axis != at]
    if [size for axis, size in enumerate(sizes) if axis != at] != expected:
        message = (
            f"{name}_(): source of shape {list(sizes)} does not fit a tensor of shape {list(input._layout.shape)} "
            f"apart from dimension {at}"
        )
        raise RuntimeError(message)
    return Indexing(name, "along", (index,), at), source


@operation()
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """A copy of ``input`` with slices of ``source`` added along ``dim``.

    For ``dim=0``: ``result[index[i]] += alpha * source[i]``. Slices sent to the same position are all added.

    Parameters
    ----------
    index : Tensor
        A vector (or 0-dim) of int64 or int32, with one index for each slice of ``source``. Negative indices are out of
        range.
    source : Tensor
        Of the dtype of ``input``, and of its shape apart from ``dim``.
    alpha : number
        Factor of ``source``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    IndexError
        If ``dim`` is out of range, or ``index`` has more than one dimension.
    RuntimeError
        If dtypes or devices differ, ``index`` has not as many elements as ``source`` has slices, the other sizes of
        ``source`` are not those of ``input``, or an index is out of range (on CUDA a device assert, which a later
        synchronising call raises).

    Examples
    --------
    >>> source = tensor.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> tensor.zeros(2, 2).index_add(0, tensor.tensor([0, 1, 0]), source)
    tensor([[6., 8.],
            [3., 4.]])
    """
    indexing, values = _sliced("index_add", input, dim, index, source)
    return delivered(out, add(input, indexing, _scaled(values, alpha)), "index_add")


@operation(namespace="")
def index_add_(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """:func:`index_add` in place: ``input[index[i]] += alpha * source[i]`` for ``dim=0``. Returns ``input``.

    Arguments and errors are those of :func:`index_add`.

    Examples
    --------
    >>> tensor.ones(3).index_add_(0, tensor.tensor([2, 2]), tensor.tensor([1.0, 2.0]), alpha=10)
    tensor([ 1.,  1., 31.])
    """
    indexing, values = _sliced("index_add", input, dim, index, source)
    return add_(input, indexing, _scaled(values, alpha))


def _scaled(source: Tensor, alpha: Any) -> Tensor:
    """``source`` times a factor that is first converted to its dtype, as PyTorch does."""
    if isinstance(alpha, TensorBase):
        alpha = alpha.item()
    factor = element(alpha, source._layout.dtype)
    return source if factor == 1 else source * factor


@operation(autocast=Autocast(cpu=WIDEST))
def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy of ``input`` with slices along ``dim`` replaced by those of ``source``.

    For ``dim=0``: ``result[index[i]] = source[i]``. If an index occurs more than once, which slice stays is undefined
    on CUDA.

    Parameters
    ----------
    index : Tensor
        A vector (or 0-dim) of int64, with one index for each slice of ``source``. Negative indices are out of range.
    source : Tensor
        Of the dtype of ``input``, and of its shape apart from ``dim``.
    out : Tensor, optional
        Tensor that the result is written to.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    IndexError
        If ``dim`` or an index is out of range (on CUDA a device assert, which a later synchronising call raises),
        ``index`` has more than one dimension, or its length is not the size of ``source`` along ``dim``.
    RuntimeError
        If dtypes, devices or the other sizes differ.

    Examples
    --------
    >>> source = tensor.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> tensor.zeros(3, 2).index_copy(0, tensor.tensor([2, 0]), source)
    tensor([[3., 4.],
            [0., 0.],
            [1., 2.]])
    """
    return delivered(out, write(input, *_sliced("index_copy", input, dim, index, source)), "index_copy")


@operation(namespace="")
def index_copy_(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """:func:`index_copy` in place: ``input[index[i]] = source[i]`` for ``dim=0``. Returns ``input``.

    Arguments and errors are those of :func:`index_copy`.

    Examples
    --------
    >>> tensor.zeros(3).index_copy_(0, tensor.tensor([2, 0]), tensor.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return write_(input, *_sliced("index_copy", input, dim, index, source))


def _filled(input: Tensor, dim: int, index: Tensor, value: Any) -> tuple[Indexing, Tensor]:
    at = dimension(dim, len(input._layout.shape))
    check_indices("index_fill", input, index)
    if len(index._layout.shape) > 1:
        raise IndexError(
            f"index_fill_(): Index has to be a vector/scalar, got {len(index._layout.shape)} dimensions"
        )
    origin = value._layout.dtype if isinstance(value, TensorBase) else dtype_of(value)
    if origin.is_complex and not input._layout.dtype.is_complex:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported: got a value of "
            f"{origin!r} for a tensor of {input._layout.dtype!r}; give its real part"
        )
    if getattr(value, "requires_grad", False) and index._layout.numel > 1:
        # An index that comes twice takes the value once.
        index = index.unique()
    return Indexing("index_fill", "along", (index,), at), number_of(input, value, "index_fill_")


@operation()
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of ``input`` with one number in the slices that ``index`` selects along ``dim``.

    Parameters
    ----------
    index : Tensor
        A vector (or 0-dim) of int64; negative indices count from the end.
    value : number or Tensor
        A number, or a 0-dim tensor, converted to the dtype of ``input``.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    IndexError
        If ``dim`` or an index is out of range (on CUDA a device assert, which a later synchronising call raises), or
        ``index`` has more than one dimension.
    RuntimeError
        If ``index`` is not int64 or on another device, ``value`` has dimensions, or is complex and ``input`` is not.

    Examples
    --------
    >>> tensor.zeros(2, 3).index_fill(1, tensor.tensor([0, -1]), 7.0)
    tensor([[7., 0., 7.],
            [7., 0., 7.]])
    """
    return write(input, *_filled(input, dim, index, value))


@operation(namespace="")
def index_fill_(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """:func:`index_fill` in place: ``input[index[i]] = value`` for ``dim=0``. Returns ``input``.

    Arguments and errors are those of :func:`index_fill`.

    Examples
    --------
    >>> tensor.zeros(4).index_fill_(0, tensor.tensor([1, 2]), 1.0)
    tensor([0., 1., 1., 0.])
    """
    return write_(input, *_filled(input, dim, index, value))


# Row-major positions


def _placed(input: Tensor, index: Tensor, source: Tensor) -> tuple[Indexing, Tensor]:
    check_indices("put", input, index)
    _same_type("put", input, source)
    if source._layout.numel != index._layout.numel:
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._layout.numel}, index.numel() = {index._layout.numel}"
        )
    return Indexing("put", "flat", (index,)), source.reshape(index._layout.shape)


@operation()
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of ``input`` with elements of ``source`` written at positions in row-major order.

    ``result.flatten()[index[i]] = source[i]``, or ``+=`` with ``accumulate``.

    Parameters
    ----------
    index : Tensor
        int64 of any shape; negative positions count from the end.
    source : Tensor
        Of the dtype of ``input``, with as many elements as ``index``.
    accumulate : bool
        Whether to add instead of overwriting; elements sent to the same position are then all added.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``input``.

    Raises
    ------
    IndexError
        If ``index`` and ``source`` have different numbers of elements, or a position is out of range (on CUDA a device
        assert, which a later synchronising call raises).
    RuntimeError
        If dtypes or devices differ, or ``index`` is not int64.

    Examples
    --------
    >>> tensor.zeros(2, 2).put(tensor.tensor([1, -1]), tensor.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [0., 6.]])
    """
    return (add if accumulate else write)(input, *_placed(input, index, source))


@operation(namespace="")
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """:func:`put` in place: ``input.flatten()[index[i]] = source[i]``. Returns ``input``.

    Arguments and errors are those of :func:`put`.

    Examples
    --------
    >>> tensor.zeros(3).put_(tensor.tensor([0, 0]), tensor.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    return (add_ if accumulate else write_)(input, *_placed(input, index, source))
