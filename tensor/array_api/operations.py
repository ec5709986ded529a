"""The operations that the namespace is made of, and promotion as the standard has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tensor.methods.tensor import Tensor
from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvrtc_kernels.dtypes import dtype

#: The operations of ``tensor`` by name.
ops: Any = SimpleNamespace(**published("tensor"))


def promoted(*operands: Any) -> tuple[Any, ...]:
    """Tensors, each in the dtype that theirs promote to; numbers stay as they are.

    A tensor without dimensions counts as any other: its dtype promotes.
    """
    tensors = [each for each in operands if isinstance(each, Tensor)]
    if not tensors:
        raise TypeError("at least one operand must be an array")
    common = tensors[0].dtype
    for each in tensors[1:]:
        common = ops.promote_types(common, each.dtype)
    return tuple(each.to(common) if isinstance(each, Tensor) else each for each in operands)


def binary(name: str) -> Any:
    """The operation ``name`` of two operands, promoted so."""
    function = getattr(ops, name)

    def of_two(x1: Any, x2: Any, /) -> Tensor:
        if isinstance(x1, Tensor) and isinstance(x2, Tensor):
            x1, x2 = promoted(x1, x2)
        elif isinstance(x1, Tensor):
            x2 = ops.asarray(x2, dtype=_of_number(x1.dtype, x2), device=x1.device)
        else:
            x1 = ops.asarray(x1, dtype=_of_number(x2.dtype, x1), device=x2.device)
        result: Tensor = function(x1, x2)
        return result

    of_two.__name__ = of_two.__qualname__ = name
    of_two.__doc__ = f"See :func:`tensor.{name}`; dtypes promote as the array API standard says."
    return of_two


def _of_number(of_array: dtype, number: Any) -> dtype:
    """The dtype of a number beside an array: the array's, unless the number is of a higher kind."""
    if isinstance(number, complex) and not of_array.is_complex:
        return ops.promote_types(of_array, ops.asarray(number).dtype)  # type: ignore[no-any-return]
    if isinstance(number, float) and not (of_array.is_floating_point or of_array.is_complex):
        return ops.asarray(number).dtype  # type: ignore[no-any-return]
    if isinstance(number, int) and not isinstance(number, bool) and of_array.name == "bool":
        return ops.asarray(number).dtype  # type: ignore[no-any-return]
    return of_array


def axes_of(x: Tensor, axis: int | Iterable[int] | None) -> tuple[int, ...]:
    """The dimensions that ``axis`` names, from 0 on; all of them for None."""
    if axis is None:
        return tuple(range(x.ndim))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for each in axes:
        if not -x.ndim <= each < max(x.ndim, 1):
            raise IndexError(f"axis {each} is out of range for an array of {x.ndim} dimensions")
    return tuple(each % x.ndim for each in axes) if x.ndim else ()


def shape_of(shape: int | Iterable[int]) -> tuple[int, ...]:
    """A shape, which may be the size of a single dimension."""
    return (shape,) if isinstance(shape, int) else tuple(shape)
