"""Identity matrices, positions in triangles, and grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.arguments import as_int64
from tensor.core.base import TensorBase, check_tensor, wrap
from tensor.core.creation_arguments import check_memory, dtype_of_argument
from tensor.core.devices.state import device_state_of
from tensor.core.modes.grad_mode import no_grad
from tensor.core.plans import not_implemented
from tensor.operations.definition import operation
from tensor.operations.shapes import slices, views

from .factories import zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


@operation(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Identity matrix of shape ``(n, m)``, by default ``(n, n)``: ones on the main diagonal, zeros elsewhere.

    Raises
    ------
    RuntimeError
        For a negative size.
    TypeError
        If a size is not an integer.

    Examples
    --------
    >>> tensor.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    rows = _whole(n, "eye", "n")
    columns = rows if m is None else _whole(m, "eye", "m")
    if rows < 0 or columns < 0:
        which, wrong = ("n", rows) if rows < 0 else ("m", columns)
        raise RuntimeError(f"eye(): {which} must be greater or equal to 0, got {wrong}")
    if out is not None:
        check_tensor(out, "eye", "out")
    element_dtype = dtype if out is None else out._layout.dtype
    if element_dtype in dtypes.UNSIGNED:
        raise not_implemented("eye", element_dtype)
    result = zeros((rows, columns), out=out, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
    with no_grad():
        slices.diagonal(result).fill_(1)
    return result.requires_grad_(True) if requires_grad else result


def _whole(argument: Any, function: str, what: str) -> int:
    if isinstance(argument, bool) or not hasattr(argument, "__index__"):
        raise TypeError(f"{function}(): argument '{what}' must be int, not {type(argument).__name__}")
    return int(argument.__index__())


@operation(method=False)
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtype = dtypes.int64,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Row and column indices of the elements on and below a diagonal of a ``(row, col)`` matrix.

    Computed on the host, and copied to a CUDA device.

    Parameters
    ----------
    offset : int
        Which diagonal: above the main one if positive, below if negative.
    dtype : dtype
        int32 or int64.

    Returns
    -------
    Tensor
        Of shape ``(2, N)``, in row-major order.

    Raises
    ------
    RuntimeError
        For a negative size, or another dtype.

    Examples
    --------
    >>> tensor.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle(np.tril_indices, row, col, offset, dtype, device, layout, pin_memory, "tril_indices")


@operation(method=False)
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtype = dtypes.int64,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Row and column indices of the elements on and above a diagonal of a ``(row, col)`` matrix: shape ``(2, N)``.

    Arguments and errors are those of :func:`tril_indices`.

    Examples
    --------
    >>> tensor.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle(np.triu_indices, row, col, offset, dtype, device, layout, pin_memory, "triu_indices")


def _triangle(
    indices: Callable[[int, int, int], tuple[Any, ...]],
    row: int,
    col: int,
    offset: int,
    dtype: dtype,
    device: Any,
    layout: Any,
    pin_memory: bool,
    function: str,
) -> Tensor:
    rows, columns = _whole(row, function, "row"), _whole(col, function, "col")
    diagonal = as_int64(offset, function, "offset")
    if rows < 0 or columns < 0:
        which, wrong = ("row", rows) if rows < 0 else ("col", columns)
        raise RuntimeError(f"{function}(): {which} must be non-negative, got {wrong}")
    element_dtype = dtype_of_argument(dtype, function)
    if element_dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError(f"{function}(): expected dtype int32 or int64, got {element_dtype!r}")
    device_state = device_state_of(device)
    if layout is not None or pin_memory:
        check_memory(layout, pin_memory, device_state, function)
    result = wrap(
        np.ascontiguousarray(np.stack(indices(rows, diagonal, columns)).astype(element_dtype.numpy))
    )
    if pin_memory:
        return result.pin_memory()
    return result.to(device_state.device) if device_state.is_cuda else result


@operation(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Views of vectors, each along a dimension of its own, stretched over all the others.

    Parameters
    ----------
    tensors
        Vectors (0-dim tensors count as such) of one dtype and device, one by one or as a sequence.
    indexing
        ``"ij"``: the first vector runs along the first dimension; ``"xy"``: along the second.

    Raises
    ------
    RuntimeError
        For other tensors, none at all, or another ``indexing``.

    Examples
    --------
    >>> rows, columns = tensor.meshgrid(tensor.arange(2), tensor.arange(3), indexing="ij")
    >>> rows
    tensor([[0, 0, 0],
            [1, 1, 1]])
    >>> columns
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    argument = (
        list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    )
    if not argument:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for position, each in enumerate(argument):
        if not isinstance(each, TensorBase):
            raise TypeError(
                f"meshgrid(): expected Tensor as element {position} in argument 0, but got {type(each).__name__}"
            )
        if len(each._layout.shape) > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(each._layout.shape)}"
            )
        if (
            each._layout.dtype is not argument[0]._layout.dtype
            or each._layout.device_state is not argument[0]._layout.device_state
        ):
            raise RuntimeError("meshgrid expects all tensors to have the same dtype and device")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(argument) >= 2
    if swap:
        argument[0], argument[1] = argument[1], argument[0]
    shape = tuple(each._layout.numel for each in argument)
    grids = []
    for axis, each in enumerate(argument):
        column = views.view(each, *(-1 if dim == axis else 1 for dim, _ in enumerate(shape)))
        grids.append(views.expand(column, shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
