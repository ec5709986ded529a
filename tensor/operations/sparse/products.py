"""Products of sparse matrices with dense and sparse ones.

A product with a dense matrix is a bag of its rows for each row of the sparse one, weighted by the values
(``cuda/embedding_bag.cuh``): a thread has a column of a row of the result and adds in order, so that every run gives the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import int64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import two_devices
from tensor.core.base import check_tensor
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.sparse import Compressed, Coordinates, is_sparse
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.indexing.embedding import BAGS
from tensor.operations.sparse_rules import refusal, rule

from .elementwise import without_out
from .layouts import to_layout
from .parts import as_coordinates, coalesced, gathered, plain, sparse_of, structure_of, sums, values_of
from .structures import compressed, expanded, indices_of, row_starts, rows_and_columns, transposed

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def weighted_rows(values: Tensor, dense: Tensor, rows: Tensor, columns: Tensor, starts: Tensor) -> Tensor:
    """``result[i]`` is the sum of ``values[k] * dense[columns[k]]`` over the elements k of row i.

    Elements lie row by row: ``rows`` has the row of each, ``starts`` where each row starts, and at last how many there are.
    """
    result = _weighted_rows(plain(values), plain(dense), rows, columns, starts)
    _PRODUCT.record((result,), (values, dense), (rows, columns), (dense._layout.shape[0],))
    return result


def _weighted_rows(values: Tensor, dense: Tensor, rows: Tensor, columns: Tensor, starts: Tensor) -> Tensor:
    count = starts._layout.numel - 1
    width = dense._layout.shape[1]
    if not values._layout.numel or not width or not count:
        return dense.new_zeros((count, width))
    layout = dense._layout
    if not layout.dtype.is_floating_point:
        return sums(gathered(dense, columns) * values.unsqueeze(1), rows, count)
    table, weights = dense.contiguous(), values.contiguous()
    run = layout.device_state.plans[BAGS, table._layout, columns._layout, starts[:-1]._layout, "sum", -1]
    result: Tensor = run(table, columns, starts[:-1], weights)[0]
    return result


def _product_gradients(
    mask: tuple[bool, bool], grad: Tensor, rows: Tensor, columns: Tensor, dense: Any, values: Any, size: int
) -> tuple[Any, Any]:
    of_values = of_dense = None
    if mask[0]:
        of_values = (gathered(grad, rows) * gathered(dense.conj(), columns)).sum(1)
    if mask[1]:
        ordered, order = columns.sort(stable=True)
        of_dense = weighted_rows(
            gathered(values.conj(), order),
            grad,
            ordered,
            rows.index_select(0, order),
            row_starts(ordered, size),
        )
    return of_values, of_dense


_PRODUCT = BackwardFormula(
    "SparseAddmmBackward0",
    "values dense rows columns",
    joint=Derivative(_product_gradients, needs=("rows columns dense", "rows columns values")),
)


def check_matrices(name: str, a: Tensor, b: Tensor) -> None:
    """Raise RuntimeError unless both are matrices that can be multiplied, of one dtype and device."""
    for each in (a, b):
        if len(each._layout.shape) != 2 or (is_sparse(each) and structure_of(each).dimensions != 2):
            raise RuntimeError(
                f"{name}: Argument must be a matrix: expected 2 dimensions, all of them sparse where it is, got shape "
                f"{list(each._layout.shape)}"
            )
    if a._layout.shape[1] != b._layout.shape[0]:
        raise RuntimeError(
            f"{name}: Argument #3 (dense): Expected dim 0 size {a._layout.shape[1]}, got {b._layout.shape[0]}: "
            f"{list(a._layout.shape)} and {list(b._layout.shape)} cannot be multiplied"
        )
    if a._layout.dtype is not b._layout.dtype:
        raise RuntimeError(
            f"{name}: expected both matrices to have the same dtype, but got {a._layout.dtype!r} and {b._layout.dtype!r}"
        )
    if a._layout.device_state is not b._layout.device_state:
        raise two_devices(name, a._layout.device, b._layout.device)


def by_rows(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values of a sparse matrix row by row, with the row and the column of each, and where rows start."""
    structure = structure_of(x)
    if isinstance(structure, Compressed) and not structure.by_columns:
        rows, columns = rows_and_columns(structure)
        return values_of(x), rows, columns.contiguous(), structure.starts.to(int64).contiguous()
    x = coalesced(as_coordinates(x))
    own = structure_of(x)
    assert isinstance(own, Coordinates)
    indices, _ = compressed(own, x._layout.shape, by_columns=False)
    return values_of(x), own.indices[0].contiguous(), indices.plain, indices.starts


def times_dense(x: Tensor, dense: Tensor) -> Tensor:
    """A sparse matrix times a dense one."""
    values, rows, columns, starts = by_rows(x)
    return weighted_rows(values, dense, rows, columns, starts)


def transpose_of(x: Tensor) -> Tensor:
    """The transpose of a sparse matrix; of a compressed one it is compressed the other way."""
    structure = structure_of(x)
    rows, columns = x._layout.shape
    if isinstance(structure, Compressed):
        return sparse_of(transposed(structure), values_of(x), (columns, rows), "TransposeBackward0")
    flipped = Coordinates(structure.indices.flip(0), coalesced=False)
    return sparse_of(flipped, values_of(x), (columns, rows), "TransposeBackward0")


def times_sparse(a: Tensor, b: Tensor) -> Tensor:
    """The product of two sparse matrices, in the layout of the first."""
    layout_name = structure_of(a).layout_name
    left, rows, middle, _ = by_rows(a)
    right, _, columns, starts = by_rows(b)
    height, width = a._layout.shape[0], b._layout.shape[1]
    # Each element of the first matrix meets a row of the second.
    first = starts.index_select(0, middle)
    mine, offset = expanded(starts.index_select(0, middle + 1) - first)
    theirs = first.index_select(0, mine) + offset
    total = mine._layout.numel
    values = gathered(left, mine) * gathered(right, theirs)
    indices = rows.new_empty((2, total))
    indices[0], indices[1] = rows.index_select(0, mine), columns.index_select(0, theirs)
    result = coalesced(sparse_of(Coordinates(indices, coalesced=False), values, (height, width)))
    return to_layout(result, layout_name, "mm")


def product(name: str, a: Tensor, b: Tensor, *, masked: bool = False) -> Tensor:
    """The product of two matrices of which one at least is sparse.

    The gradient with respect to a sparse operand is that of all elements, dense; with ``masked`` that of the specified ones, as
    PyTorch has it for ``tensor.sparse.mm``.
    """
    check_tensor(a, name, "input")
    check_tensor(b, name, "mat2")
    check_matrices(name, a, b)
    if masked or not modes.recording or not (a.requires_grad or b.requires_grad):
        return _product(a, b)
    with unrecorded():
        result = _product(a.detach(), b.detach())
    _MM.record((result,), (a, b))
    return result


def _product(a: Tensor, b: Tensor) -> Tensor:
    if is_sparse(a) and is_sparse(b):
        return times_sparse(a, b)
    if is_sparse(a):
        return times_dense(a, b)
    return times_dense(transpose_of(b), a.t()).t()


_MM = BackwardFormula(
    "MmBackward0",
    "a b",
    [
        Derivative(lambda grad, b: grad.mm(b.t().conj()), needs="b"),
        Derivative(lambda grad, a: a.t().conj().mm(grad), needs="a"),
    ],
)


def reduced_product(x: Tensor, dense: Tensor, reduce: str) -> Tensor:
    """``result[i, j]`` is the reduction of ``x[i, k] * dense[k, j]`` over the specified elements of row i; 0 where there are none."""
    check_matrices("sparse.mm", x, dense)
    height, width = x._layout.shape[0], dense._layout.shape[1]
    values, rows, columns, starts = by_rows(x)
    if reduce in ("amax", "amin"):
        terms = gathered(dense, columns) * values.unsqueeze(1)
        index = rows.unsqueeze(1).expand(terms._layout.shape)
        start = terms.new_zeros((height, width))
        result: Tensor = start.scatter_reduce(0, index, terms, reduce, include_self=False)
        return result
    result = weighted_rows(values, dense, rows, columns, starts)
    if reduce == "mean":
        result = result / (starts[1:] - starts[:-1]).clamp(min=1).unsqueeze(1)
    return result


def sampled_product(x: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``alpha * (a @ b) + beta * x`` at the elements that the sparse matrix ``x`` specifies."""
    structure, shape = structure_of(x), x._layout.shape
    rows, columns = rows_and_columns(structure)
    values = (gathered(a, rows) * gathered(b.t(), columns)).sum(1) * alpha
    if beta:
        values = values + values_of(x) * beta
    return sparse_of(structure, values, shape, "SparseSampledAddmmBackward0")


@rule("mm")
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.mm`."""
    without_out(out, "mm")
    return product("mm", input, mat2)


@rule("mv")
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.mv`: a sparse matrix times a dense vector."""
    without_out(out, "mv")
    if not is_sparse(input) or is_sparse(vec):
        raise refusal("mv", (input, vec))
    if len(input._layout.shape) != 2 or len(vec._layout.shape) != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got {len(input._layout.shape)} and {len(vec._layout.shape)}"
        )
    if input._layout.shape[1] != vec._layout.shape[0]:
        raise RuntimeError(
            f"mv: expected self.size(-1) == vec.size(-1), got {input._layout.shape[1]} and {vec._layout.shape[0]}"
        )
    return product("mv", input, vec.unsqueeze(1)).squeeze(1)


@rule("matmul")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.matmul`: of matrices, and with dense vectors."""
    without_out(out, "matmul")
    check_tensor(other, "matmul", "other")
    ranks = len(input._layout.shape), len(other._layout.shape)
    if ranks == (2, 2):
        return product("addmm", input, other)
    if ranks == (2, 1) and not is_sparse(other):
        return mv(input, other)
    if ranks == (1, 2) and not is_sparse(input):
        return mv(other.t(), input)
    raise RuntimeError(
        f"matmul: with a sparse operand, both must be matrices, or one a dense vector: expand is unsupported for Sparse tensors, "
        f"got shapes {list(input._layout.shape)} and {list(other._layout.shape)}"
    )


@rule("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Rule of :func:`nn.functional.linear`: a sparse input or a sparse weight."""
    result = matmul(input, weight.t())
    return result if bias is None else bias + result


@rule("addmm")
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out: Any = None,
    masked: bool = False,
) -> Tensor:
    """Rule of :func:`tensor.addmm`: ``beta * input + alpha * (mat1 @ mat2)``."""
    without_out(out, "addmm")
    for each, what in ((input, "input"), (mat1, "mat1"), (mat2, "mat2")):
        check_tensor(each, "addmm", what)
    if not (is_sparse(mat1) or is_sparse(mat2)):
        raise refusal("addmm", (input,))
    result = product("addmm", mat1, mat2, masked=masked)
    if not (isinstance(alpha, int) and alpha == 1):
        result = result * alpha
    if isinstance(beta, (int, float)) and beta == 0:
        return result
    if is_sparse(input) != is_sparse(result):
        raise RuntimeError(
            f"addmm: expected 'input' to have the layout of the product, {result.layout!r}, but got {input.layout!r}"
        )
    added = input if isinstance(beta, int) and beta == 1 else input * beta
    if not is_sparse(added):
        added = added.expand(result._layout.shape)
    return added + result


@operation()
def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """Sparse matrix times a dense one, as a sparse tensor that specifies all elements of the rows that ``input`` has elements in.

    Raises
    ------
    RuntimeError
        If ``input`` is not sparse, or the matrices do not go together.

    Examples
    --------
    >>> eye = tensor.eye(2).to_sparse()
    >>> tensor.smm(eye, tensor.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    if not is_sparse(input):
        raise RuntimeError(f"smm: expected 'input' to be sparse, got one of layout {input.layout!r}")
    dense = product("smm", input, mat2)
    rows, (height, width) = _occupied_rows(input), dense._layout.shape
    count = rows._layout.numel
    indices = rows.new_empty((2, count * width))
    indices[0] = rows.repeat_interleave(width)
    indices[1] = arange(width, device=dense.device).repeat(count)
    values = gathered(dense, rows).reshape(-1)
    return sparse_of(Coordinates(indices, coalesced=True), values, (height, width), "SmmBackward0")


def _occupied_rows(x: Tensor) -> Tensor:
    """The rows of a sparse matrix that have elements, in ascending order."""
    result: Tensor = indices_of(structure_of(coalesced(as_coordinates(x.detach()))))[0].unique()
    return result


@operation(method=False, also="hsmm")
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """Sparse matrix times a dense one, as a tensor whose rows alone are sparse: those that have elements in ``mat1``.

    Raises
    ------
    RuntimeError
        If ``mat1`` is not sparse, or the matrices do not go together.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[1], [0]], [2.0], (3, 2))
    >>> tensor.hspmm(x, tensor.ones(2, 2))
    tensor(indices=tensor([[1]]),
           values=tensor([[2., 2.]]),
           size=(3, 2), nnz=1, layout=tensor.sparse_coo)
    """
    if not is_sparse(mat1):
        raise RuntimeError(f"hspmm: expected 'mat1' to be sparse, got one of layout {mat1.layout!r}")
    dense = product("hspmm", mat1, mat2)
    rows = _occupied_rows(mat1)
    indices = Coordinates(rows.unsqueeze(0), coalesced=True)
    return sparse_of(indices, gathered(dense, rows), dense._layout.shape, "HspmmBackward0")


@operation(method=False, also="dsmm")
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of a sparse matrix with another one: :func:`tensor.mm`.

    Raises
    ------
    RuntimeError
        If the matrices do not go together.

    Examples
    --------
    >>> x = tensor.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> tensor.spmm(x, tensor.ones(2, 2))
    tensor([[2., 2.],
            [3., 3.]])
    """
    return input.mm(mat2)
