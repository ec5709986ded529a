"""What must hold of the parts of a sparse tensor, and whether that is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import int32, int64
from tensor.core.sparse import Compressed, Coordinates

from .structures import keys_of, rows_and_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.sparse import Structure
    from tensor.methods.tensor import Tensor


class _Checks:
    """Whether functions that make sparse tensors check indices where they are not told."""

    __slots__ = ("enabled",)

    def __init__(self) -> None:
        self.enabled = False


checks = _Checks()


def check_coordinates(indices: Tensor, values: Tensor, shape: Sequence[int]) -> None:
    """Check that coordinates, values and a shape go together.

    Raises
    ------
    RuntimeError
        If they do not.
    """
    dimensions, count = indices._layout.shape
    sizes = values._layout.shape
    if not sizes or sizes[0] != count:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: "
            f"{sizes[0] if sizes else 'none, as they have no dimension'}"
        )
    if len(shape) != dimensions + len(sizes) - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{dimensions}, dense_dim = {len(sizes) - 1}"
        )
    if tuple(shape[dimensions:]) != tuple(sizes[1:]):
        raise RuntimeError(
            f"values has incorrect size, expected {[count, *shape[dimensions:]]}, got {list(sizes)}"
        )


def check_bounds(indices: Tensor, shape: Sequence[int]) -> None:
    """Check that coordinates are within a shape; the host waits for it.

    Raises
    ------
    RuntimeError
        If one is not.
    """
    if not indices._layout.numel:
        return
    lowest, highest = indices.amin(1).tolist(), indices.amax(1).tolist()
    for dim, (low, high) in enumerate(zip(lowest, highest, strict=True)):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= shape[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found index {high}"
            )


def check_distinct(indices: Tensor, shape: Sequence[int]) -> None:
    """Check that coordinates are distinct and in row-major order.

    Raises
    ------
    RuntimeError
        If they are not.
    """
    keys = keys_of(indices, shape)
    if not bool((keys[1:] > keys[:-1]).all()):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor: they must be distinct and in "
            "row-major order; leave is_coalesced out and call coalesce()"
        )


def names_of(by_columns: bool) -> tuple[str, str]:
    """What the index tensors of a compressed matrix are called."""
    return ("ccol_indices", "row_indices") if by_columns else ("crow_indices", "col_indices")


def check_compressed(structure: Compressed, values: Tensor, shape: Sequence[int]) -> None:
    """Check that the parts of a compressed matrix go together, by their shapes and dtypes.

    Raises
    ------
    RuntimeError
        If they do not.
    """
    starts, plain = names_of(structure.by_columns)
    dtypes = structure.starts._layout.dtype, structure.plain._layout.dtype
    if dtypes[0] is not dtypes[1]:
        raise RuntimeError(
            f"{starts} and {plain} must have the same dtype, but got {dtypes[0]!r} and {dtypes[1]!r}, respectively"
        )
    if dtypes[0] not in (int32, int64):
        raise RuntimeError(f"{starts} and {plain} must be an int32 or int64 type, but got: {dtypes[0]!r}")
    ranks = len(structure.starts._layout.shape), len(structure.plain._layout.shape)
    if ranks != (1, 1):
        raise NotImplementedError(
            f"{starts} and {plain} must be vectors, got {ranks[0]} and {ranks[1]} dimensions: batches of compressed matrices "
            "are not implemented; make one for each matrix"
        )
    sizes = values._layout.shape
    count = structure.plain._layout.shape[0]
    if not sizes or sizes[0] != count:
        raise RuntimeError(
            f"{plain}.shape[-1] must be equal to nnz (={sizes[0] if sizes else 0}) as defined by values.shape[0], but got "
            f"{count}"
        )
    if len(shape) != 1 + len(sizes):
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (=0 + 2 + {len(sizes) - 1}) but "
            f"got {len(shape)}"
        )
    if tuple(shape[2:]) != tuple(sizes[1:]):
        raise RuntimeError(f"values has incorrect size, expected {[count, *shape[2:]]}, got {list(sizes)}")
    lines, have = shape[int(structure.by_columns)], structure.starts._layout.shape[0]
    if have != lines + 1:
        raise RuntimeError(
            f"{starts}.shape[-1] must be equal to the number of {'columns' if structure.by_columns else 'rows'} + 1 "
            f"(={lines + 1}), but got {have}"
        )


def check_lines(structure: Compressed, shape: Sequence[int]) -> None:
    """Check the indices of a compressed matrix; the host waits for it.

    Raises
    ------
    RuntimeError
        If they are out of bounds, or those of a row (or column) are not distinct and ascending.
    """
    starts, plain = names_of(structure.by_columns)
    bounds = structure.starts
    if int(bounds[0]) != 0:
        raise RuntimeError(f"`{starts}[..., 0] == 0` is not satisfied.")
    if int(bounds[-1]) != structure.count:
        raise RuntimeError(f"`{starts}[..., -1] == nnz` is not satisfied.")
    size = shape[1 - int(structure.by_columns)]
    if not bool((bounds[1:] >= bounds[:-1]).all()):
        raise RuntimeError(f"`0 <= {starts}[..., 1:] - {starts}[..., :-1] <= {size}` is not satisfied.")
    if not structure.count:
        return
    if int(structure.plain.min()) < 0 or int(structure.plain.max()) >= size:
        raise RuntimeError(
            f"`0 <= {plain} < n{'rows' if structure.by_columns else 'cols'}` is not satisfied."
        )
    line, position = rows_and_columns(structure)
    if structure.by_columns:
        line, position = position, line
    keys = line * size + position
    if not bool((keys[1:] > keys[:-1]).all()):
        raise RuntimeError(
            f"`{plain}[..., {starts}[..., i - 1]:{starts}[..., i]]` for all i: they are not sorted and distinct along the last "
            "dimension values."
        )


def check_structure(structure: Structure, shape: Sequence[int], check_invariants: Any) -> None:
    """Check the indices if that is asked for, by the argument or for all; those of a CPU tensor are always checked.

    On the CPU that takes less time than what is done with them; on a device the host would have to wait.
    """
    is_checked = checks.enabled if check_invariants is None else bool(check_invariants)
    on_host = not structure.tensors()[0]._layout.device_state.is_cuda
    if isinstance(structure, Coordinates):
        if is_checked or (on_host and check_invariants is None):
            check_bounds(structure.indices, shape)
        if structure.coalesced and is_checked:
            check_distinct(structure.indices, shape)
    elif is_checked or (on_host and check_invariants is None):
        check_lines(structure, shape)
