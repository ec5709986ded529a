"""Sparse tensors of index tensors and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import dtype, int64
from tensor.core.arguments import integers
from tensor.core.base import TensorBase, check_tensor
from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.devices.state import device_state_of
from tensor.core.dtypes.default import get_default_dtype
from tensor.core.sparse import Compressed, Coordinates, is_sparse, sparse_coo, sparse_csc, sparse_csr
from tensor.operations.creation.construction import tensor
from tensor.operations.creation.factories import zeros
from tensor.operations.definition import operation

from .invariants import check_bounds, check_compressed, check_coordinates, check_structure
from .parts import sparse_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.memory_format import layout as LayoutName
    from tensor.core.sparse import Structure
    from tensor.methods.tensor import Tensor


@operation(method=False)
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Sparse tensor of coordinates, and a value for each.

    Parameters
    ----------
    indices : Tensor or nested sequence
        Coordinates, of shape (sparse dimensions, elements). Coordinates may be repeated: their values are summed. Sizes
        alone, ``sparse_coo_tensor((2, 3))`` or ``size=(2, 3)``, make a tensor without specified elements.
    values : Tensor or nested sequence
        Of shape (elements, sizes of the dense dimensions...). Gradients flow to a tensor.
    size : sequence of int, optional
        The shape; by default the smallest that has all coordinates, for which the host waits.
    dtype, device : optional
        Of the values; by default those that they have.
    requires_grad : bool
        Whether gradients with respect to the result are computed.
    check_invariants : bool, optional
        Whether indices are checked. By default they are on the CPU, and on devices, where the host must wait for it, in blocks
        of :class:`tensor.sparse.check_sparse_tensor_invariants`.
    is_coalesced : bool, optional
        True promises that coordinates are distinct and in row-major order.

    Raises
    ------
    RuntimeError
        If the parts do not go together, or a checked index is out of range.

    Examples
    --------
    >>> tensor.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    name = "sparse_coo_tensor"
    if indices is None and (values is not None or size is None):
        raise TypeError(
            f"{name}(): expected indices and values, or a size, but got {'values' if values is not None else 'nothing'} alone"
        )
    if values is None:
        sizes = indices if size is None else size
        return empty_coordinates(integers((sizes,), name, "size"), dtype, device, requires_grad)
    numbers = _values(values, dtype, device, pin_memory, name)
    coordinates = _indices(indices, numbers).to(int64)
    if len(coordinates._layout.shape) != 2:
        coordinates = (
            coordinates.unsqueeze(0) if len(coordinates._layout.shape) == 1 and size is None else coordinates
        )
    if len(coordinates._layout.shape) != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got a tensor of shape {list(coordinates._layout.shape)}: 2 dimensions are needed"
        )
    shape = _inferred(coordinates, numbers) if size is None else integers((size,), name, "size")
    check_coordinates(coordinates, numbers, shape)
    structure = Coordinates(coordinates, coalesced=_is_coalesced(coordinates, is_coalesced))
    check_structure(structure, shape, check_invariants)
    return _required(sparse_of(structure, numbers, shape), requires_grad)


def _is_coalesced(indices: Tensor, promised: bool | None) -> bool:
    return bool(promised) or (promised is None and indices._layout.shape[1] == 0)


def empty_coordinates(
    shape: Sequence[int], dtype: dtype | None, device: Any, requires_grad: bool = False
) -> Tensor:
    """A tensor of sparse dimensions alone without specified elements."""
    dtype = get_default_dtype() if dtype is None else dtype
    values = zeros(0, dtype=dtype, device=device)
    indices = zeros((len(shape), 0), dtype=int64, device=device)
    result = sparse_of(Coordinates(indices, coalesced=True), values, shape)
    return _required(result, requires_grad)


def empty_sparse(
    shape: Sequence[int],
    layout_name: LayoutName,
    dtype: dtype | None,
    device: Any,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a sparse layout without specified elements.

    Raises
    ------
    RuntimeError
        If a compressed one has not two dimensions.
    """
    if layout_name is sparse_coo:
        return empty_coordinates(shape, dtype, device, requires_grad)
    if len(shape) != 2:
        raise RuntimeError(
            f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {list(shape)}: a "
            f"tensor of layout {layout_name!r} has 2 dimensions"
        )
    dtype = get_default_dtype() if dtype is None else dtype
    lines = shape[int(layout_name is sparse_csc)]
    starts = zeros(lines + 1, dtype=int64, device=device)
    plain = zeros(0, dtype=int64, device=device)
    structure = Compressed(starts, plain, by_columns=layout_name is sparse_csc)
    return _required(sparse_of(structure, zeros(0, dtype=dtype, device=device), shape), requires_grad)


def _values(values: Any, dtype: Any, device: Any, pin_memory: bool, name: str) -> Tensor:
    if dtype is not None:
        dtype = dtype_of_argument(dtype, name)
    if not isinstance(values, TensorBase):
        return tensor(values, dtype=dtype, device=device, pin_memory=pin_memory)
    if is_sparse(values):
        raise RuntimeError(f"{name}(): expected values to be a dense tensor, but got {values.layout!r}")
    result: Tensor = values
    if device is not None:
        result = result.to(device_state_of(device).device)
    if dtype is not None:
        result = result.to(dtype)
    return result.pin_memory() if pin_memory else result


def _indices(indices: Any, values: Tensor) -> Tensor:
    if not isinstance(indices, TensorBase):
        return tensor(indices, device=values.device)
    if is_sparse(indices):
        raise RuntimeError(f"expected indices to be a dense tensor, but got {indices.layout!r}")
    return indices.detach().to(values.device)


def _inferred(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    dimensions, count = indices._layout.shape
    if not count:
        return (*[0] * dimensions, *values._layout.shape[1:])
    lowest = indices.amin(1).tolist() if dimensions else []
    for dim, low in enumerate(lowest):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
    highest = indices.amax(1).tolist() if dimensions else []
    return (*[each + 1 for each in highest], *values._layout.shape[1:])


def _required(result: Tensor, requires_grad: bool) -> Tensor:
    if not requires_grad:
        return result
    return result.detach().requires_grad_()


def _compressed(
    starts: Any,
    plain: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
    check_invariants: Any,
    by_columns: bool,
    name: str,
) -> Tensor:
    numbers = _values(values, dtype, device, pin_memory, name)
    structure = Compressed(_indices(starts, numbers), _indices(plain, numbers), by_columns=by_columns)
    if size is None:
        rows = structure.starts._layout.numel - 1
        count = structure.plain._layout.numel
        columns = int(structure.plain.max()) + 1 if count else 0
        shape: tuple[int, ...]
        shape = (*((columns, rows) if by_columns else (rows, columns)), *numbers._layout.shape[1:])
    else:
        shape = integers((size,), name, "size")
    check_compressed(structure, numbers, shape)
    check_structure(structure, shape, check_invariants)
    return _required(sparse_of(structure, numbers, shape, "SparseCompressedTensorBackward0"), requires_grad)


@operation(method=False)
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Sparse matrix whose elements lie row by row.

    Parameters
    ----------
    crow_indices : Tensor or sequence
        int64 or int32, one longer than there are rows: where each row starts among the elements, and how many there are.
    col_indices : Tensor or sequence
        The column of each element, of the same dtype; ascending within a row.
    values : Tensor or sequence
        Of shape (elements, sizes of the dense dimensions...). Gradients flow to a tensor.
    size : sequence of int, optional
        The shape; by default the smallest that has all elements.
    dtype, device, pin_memory, requires_grad, check_invariants : optional
        As for :func:`sparse_coo_tensor`.

    Raises
    ------
    RuntimeError
        If the parts do not go together, or checked indices are wrong.
    NotImplementedError
        For batches of matrices.

    Examples
    --------
    >>> tensor.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    return _compressed(
        crow_indices, col_indices, values, size, dtype, device, pin_memory, requires_grad, check_invariants, False,
        "sparse_csr_tensor",
    )  # fmt: skip


@operation(method=False)
def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Sparse matrix whose elements lie column by column; see :func:`sparse_csr_tensor`.

    Parameters
    ----------
    ccol_indices : Tensor or sequence
        Where each column starts among the elements, and how many there are.
    row_indices : Tensor or sequence
        The row of each element.
    values, size, dtype, device, pin_memory, requires_grad, check_invariants
        As for :func:`sparse_csr_tensor`.

    Raises
    ------
    RuntimeError
        If the parts do not go together, or checked indices are wrong.
    NotImplementedError
        For batches of matrices.

    Examples
    --------
    >>> tensor.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 3.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    return _compressed(
        ccol_indices, row_indices, values, size, dtype, device, pin_memory, requires_grad, check_invariants, True,
        "sparse_csc_tensor",
    )  # fmt: skip


@operation(method=False)
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    layout: LayoutName | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Sparse matrix of the compressed ``layout``: :func:`sparse_csr_tensor` or :func:`sparse_csc_tensor`.

    Parameters
    ----------
    layout : layout
        ``tensor.sparse_csr`` or ``tensor.sparse_csc``.
    compressed_indices, plain_indices, values, size, dtype, device, pin_memory, requires_grad, check_invariants
        As for these.

    Raises
    ------
    RuntimeError
        If the layout is missing or another one, the parts do not go together, or checked indices are wrong.
    NotImplementedError
        For batches of matrices.

    Examples
    --------
    >>> parts = [0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0]
    >>> tensor.sparse_compressed_tensor(*parts, (2, 3), layout=tensor.sparse_csr)._nnz()
    3
    """
    if layout not in (sparse_csr, sparse_csc):
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout (tensor.sparse_csr or tensor.sparse_csc) but "
            f"got {layout!r}"
        )
    return _compressed(
        compressed_indices, plain_indices, values, size, dtype, device, pin_memory, requires_grad, check_invariants,
        layout is sparse_csc, "sparse_compressed_tensor",
    )  # fmt: skip


def validate(structure: Structure, values: Tensor, shape: Sequence[int]) -> None:
    """Check all that must hold of the parts of a sparse tensor, as of one that was read from a file.

    Raises
    ------
    RuntimeError
        If something does not.
    """
    check_tensor(values, "sparse tensor", "values")
    if isinstance(structure, Coordinates):
        check_coordinates(structure.indices, values, shape)
        check_bounds(structure.indices, shape)
    else:
        check_compressed(structure, values, shape)
    check_structure(structure, shape, True)
