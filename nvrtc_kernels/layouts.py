"""Arithmetic of shapes and strides. Strides count elements, as PyTorch's do."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Ints = tuple[int, ...]


def contiguous_strides(shape: Sequence[int]) -> Ints:
    """Strides of a row-major array of ``shape``; sizes of 0 count as 1, as in PyTorch."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie in row-major order without gaps (strides of size-1 dimensions do not matter)."""
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements fill a range of memory in some order of the dimensions, none overlapping."""
    if 0 in shape:
        return True
    expected = 1
    for stride, size in sorted((t, s) for s, t in zip(shape, strides, strict=True) if s != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def dense_strides_like(shape: Sequence[int], strides: Sequence[int]) -> Ints:
    """Strides that ``empty_like`` gives: no gaps, and the dimensions in the order that ``strides`` has.

    A dense tensor keeps its strides. Stretched dimensions (stride 0) have no place of their own in the
    order and stay where they stand, as in PyTorch.
    """
    if is_dense(shape, strides):
        return tuple(strides)
    return packed_strides(shape, stride_order(shape, strides))


def stride_order(shape: Sequence[int], *operands: Sequence[int]) -> list[int]:
    """Dimensions from the innermost to the outermost, as the strides of ``operands`` order them.

    The first operand that tells two dimensions apart decides; equal strides are ordered by size. It is an
    insertion sort, for "does not matter" (a stride of 0) is no order that a library's sort could use.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        at = start
        for below in range(start - 1, -1, -1):
            verdict = _compare(order[below], order[at], shape, operands)
            if verdict > 0:
                order[below], order[at] = order[at], order[below]
                at = below
            elif verdict < 0:
                break
    return order


def _compare(first: int, second: int, shape: Sequence[int], operands: Sequence[Sequence[int]]) -> int:
    """Whether ``first`` belongs outside ``second`` (1), inside (-1), or neither (0)."""
    for strides in operands:
        if strides[first] == 0 or strides[second] == 0:
            continue
        if strides[first] != strides[second]:
            return 1 if strides[first] > strides[second] else -1
        if shape[first] > shape[second]:
            return 1
    return 0


def packed_strides(shape: Sequence[int], order: Sequence[int]) -> Ints:
    """Strides without gaps for dimensions in ``order``, innermost first."""
    result, step = [0] * len(shape), 1
    for axis in order:
        result[axis] = step
        step *= max(shape[axis], 1)
    return tuple(result)


def extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Lowest and one past the highest element offset that is touched; ``(0, 0)`` when empty."""
    if 0 in shape:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + 1


def broadcast_shapes(*shapes: Sequence[int]) -> Ints:
    """Common shape of ``shapes``: sizes are aligned at the right and 1 stretches.

    Raises
    ------
    RuntimeError
        When two sizes differ and neither is 1; the message has the dimension and both sizes.
    """
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        lead = rank - len(shape)
        for axis, size in enumerate(shape, lead):
            if size == 1 or size == result[axis]:
                continue
            if result[axis] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({result[axis]}) must match the size of tensor b ({size}) "
                    f"at non-singleton dimension {axis}"
                )
            result[axis] = size
    return tuple(result)


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> Ints:
    """Strides with which a tensor of ``shape`` is read as ``to``: 0 where a size of 1 is stretched."""
    lead = len(to) - len(shape)
    stretched = (
        0 if size == 1 and padded != 1 else t
        for size, t, padded in zip(shape, strides, to[lead:], strict=True)
    )
    return (0,) * lead + tuple(stretched)


def collapse(shape: Sequence[int], *operands: Sequence[int]) -> tuple[Ints, tuple[Ints, ...]]:
    """Merge neighbouring dimensions that every operand walks as one.

    Parameters
    ----------
    shape
        Common shape.
    operands
        The strides of each operand over ``shape``.

    Returns
    -------
    tuple
        The shortest shape, without sizes of 1, and each operand's strides over it. Contiguous operands of
        any rank become one dimension; a single element becomes ``(1,)``.
    """
    sizes: list[int] = []
    columns: list[Ints] = []
    for size, *column in zip(shape, *operands, strict=True):
        if size == 1:
            continue
        if sizes and all(outer == inner * size for outer, inner in zip(columns[-1], column, strict=True)):
            sizes[-1] *= size
            columns[-1] = tuple(column)
        else:
            sizes.append(size)
            columns.append(tuple(column))
    if not sizes:
        return (1,), tuple((1,) for _ in operands)
    return tuple(sizes), tuple(zip(*columns, strict=True)) if operands else ()


def infer_size(shape: Sequence[int], count: int) -> Ints:
    """Replace a ``-1`` in ``shape`` by the size that makes ``count`` elements.

    Raises
    ------
    RuntimeError
        For several -1, other negative sizes, or a shape that cannot hold ``count`` elements.
    """
    unknown = [axis for axis, size in enumerate(shape) if size == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(size < -1 for size in shape):
        bad = next(size for size in shape if size < -1)
        raise RuntimeError(
            f"invalid shape dimension {bad} at index {list(shape).index(bad)} of shape {list(shape)}"
        )
    known = prod(size for size in shape if size != -1)
    if unknown:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension "
                "size -1 can be any value and is ambiguous"
                if count == 0
                else f"shape '{list(shape)}' is invalid for input of size {count}"
            )
        if count % known == 0:
            return tuple(count // known if size == -1 else size for size in shape)
    elif known == count:
        return tuple(shape)
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")


def view_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> Ints | None:
    """Strides that show the same elements in row-major order as shape ``new``, or ``None`` if a copy is needed.

    Each run of old dimensions that is contiguous in itself is split into the new dimensions that it
    covers; a new dimension that would span two runs cannot be a view. New dimensions of size 1 get the
    strides that they have in PyTorch.
    """
    if 0 in shape:
        return tuple(strides) if tuple(shape) == tuple(new) else contiguous_strides(new)
    result = [1] * len(new)
    axis = len(new) - 1
    for size, stride in _runs(shape, strides):
        filled = 1
        while axis >= 0 and (filled < size or new[axis] == 1):
            result[axis] = stride * filled
            filled *= new[axis]
            axis -= 1
        if filled != size:
            return None
    return tuple(result) if axis < 0 else None


def _runs(shape: Sequence[int], strides: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Size and innermost stride of the runs of dimensions that are contiguous in themselves, from the inside."""
    size, step = 1, strides[-1] if shape else 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] != 1 and strides[axis] != size * step:
            yield size, step
            size, step = 1, strides[axis]
        size *= shape[axis]
    yield size, step
