"""New tensors whose elements follow from their place: ranges, the identity, triangles' indices, grids."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes, pointwise

from . import parts, views
from .base import empty, wrap
from .creation import finish, get_default_dtype, new_layout, zeros
from .places import place_of
from .scalars import element

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype

    from .layout import Layout
    from .places import Place
    from .tensors import Tensor

#: Sums and products of float32 are made in double, so that the last element of a long range is right too.
_FLOATS = pointwise.Expression("arange", "start + i * step", (("start", "d"), ("step", "d")))
_INTEGERS = pointwise.Expression("arange", "start + i * step", (("start", "q"), ("step", "q")))
_LINEAR = pointwise.Expression(
    "linspace",
    "i < half ? start + i * step : end - (last - i) * step",
    (("start", "d"), ("end", "d"), ("step", "d"), ("half", "q"), ("last", "q")),
    options=("--fmad=false",),
)
_POWERS = pointwise.Expression(
    "logspace",
    "pow(base, i < half ? start + i * step : end - (last - i) * step)",
    (("base", "d"), *_LINEAR.scalars),
    options=("--fmad=false",),
)


class _Generate:
    """The operation; ``place.plans[GENERATE, layout, expression]`` launches it."""

    def plan(self, layout: Layout, expression: pointwise.Expression) -> Callable[..., None]:
        place = layout.place
        launch = pointwise.plan_generator(place.native, expression, layout.numel, layout.dtype)
        local = place.local
        return lambda made, *scalars: launch(local.stream.handle, made._address, *scalars)


GENERATE = _Generate()


def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``ceil((end - start) / step)`` numbers from ``start`` on, ``step`` apart, without ``end``.

    ``arange(end)`` starts at 0. By default int64 where all three are integers, else the default type.

    Raises
    ------
    RuntimeError
        If ``step`` is 0 or leads away from ``end``, or a bound is not finite.
    """
    if end is None:
        start, end = 0, start
    first, last, stride = (_number(each) for each in (start, end, step))
    whole = all(isinstance(each, int) for each in (first, last, stride))
    kind = dtype or (dtypes.int64 if whole else get_default_dtype())
    if stride == 0:
        raise RuntimeError("step must be nonzero")
    if not all(math.isfinite(each) for each in (first, last, stride)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (last - first) * (1 if stride > 0 else -1) < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: from {start} to {end} by {step}"
        )
    integral = not (kind.is_floating_point or kind.is_complex)
    if integral:
        first, last, stride = int(first), int(last), int(stride)
        if stride == 0:
            raise RuntimeError(f"step must be nonzero as {kind!r}, got {step}")
    count = -((first - last) // stride) if integral else math.ceil((last - first) / stride)
    found = new_layout((count,), kind, place_of(device))
    if count:
        element(first, kind), element(first + (count - 1) * stride, kind)
    if found.place.is_cuda:
        made = empty(found, pin_memory=pin_memory)
        expression, number = (_INTEGERS, int) if integral else (_FLOATS, float)
        found.place.plans[GENERATE, found, expression](made, number(first), number(stride))
    else:
        numbers = np.arange(count, dtype=np.int64 if integral else np.float64) * stride + first
        made = _of_numbers(numbers, found, pin_memory)
    return finish(made, requires_grad, out)


def range(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Tensor:
    """:func:`arange` with ``end`` included; floating point by default."""
    if end is None:
        start, end = 0, start
    options.setdefault("dtype", get_default_dtype())
    count = math.floor((end - start) / step) + 1
    return arange(start, start + step * (count - 0.5), step, **options)


def _of_numbers(numbers: np.ndarray[Any, Any], layout: Layout, pin_memory: bool) -> Tensor:
    if pin_memory:
        made = empty(layout, pin_memory=True)
        made._writable[...] = numbers
        return made
    return wrap(np.ascontiguousarray(numbers.astype(layout.dtype.numpy)), layout)


def _number(value: Any) -> int | float:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, (int, float)):
        raise TypeError(f"expected a real number, got {type(value).__name__}")
    return value


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``steps`` numbers from ``start`` to ``end``, both included, evenly spaced.

    Raises
    ------
    RuntimeError
        If ``steps`` is negative.
    """
    kind = dtype or get_default_dtype()
    first, last = _ends(start, end, kind)
    made = _spaced(first, last, steps, kind, place_of(device), None, pin_memory, "linspace")
    return finish(made, requires_grad, out)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``base`` to the powers that :func:`linspace` gives."""
    kind = dtype or get_default_dtype()
    first, last = float(_number(start)), float(_number(end))
    made = _spaced(first, last, steps, kind, place_of(device), float(base), pin_memory, "logspace")
    return finish(made, requires_grad, out)


def _ends(start: Any, end: Any, kind: dtype) -> tuple[float, float]:
    """Both ends as the dtype holds them: integers lose their fractions first, as in PyTorch."""
    first, last = _number(start), _number(end)
    if not (kind.is_floating_point or kind.is_complex):
        return float(element(first, kind)), float(element(last, kind))
    return float(first), float(last)


def _spaced(
    start: float,
    end: float,
    steps: int,
    kind: dtype,
    place: Place,
    base: float | None,
    pin_memory: bool,
    name: str,
) -> Tensor:
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    count = steps.__index__()
    if count < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {count}")
    found = new_layout((count,), kind, place)
    step = (end - start) / (count - 1) if count > 1 else 0.0
    half = count // 2 if count > 1 else count
    if place.is_cuda:
        made = empty(found, pin_memory=pin_memory)
        numbers = (start, end, step, half, count - 1)
        if base is None:
            place.plans[GENERATE, found, _LINEAR](made, *numbers)
        else:
            place.plans[GENERATE, found, _POWERS](made, base, *numbers)
        return made
    at = np.arange(count, dtype=np.float64)
    values = np.where(at < half, start + at * step, end - (count - 1 - at) * step)
    with np.errstate(all="ignore"):
        return _of_numbers(values if base is None else np.power(base, values), found, pin_memory)


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
    """Matrix of shape ``(n, m)`` with ones on the main diagonal; square by default.

    Raises
    ------
    RuntimeError
        For a negative size.
    """
    columns = n if m is None else m
    if n < 0 or columns < 0:
        which, wrong = ("n", n) if n < 0 else ("m", columns)
        raise RuntimeError(f"{which} must be greater or equal to 0, got {wrong}")
    made = zeros(n, columns, dtype=dtype, device=device, pin_memory=pin_memory)
    parts.diagonal(made).fill_(1)
    return finish(made, requires_grad, out)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtype = dtypes.int64,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Rows and columns of the elements on and below a diagonal of a matrix: shape ``(2, N)``, row by row.

    Worked out on the host, and copied to a CUDA device.
    """
    _check_triangle(row, col, dtype)
    return _indices(np.tril_indices(row, offset, col), dtype, device)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: dtype = dtypes.int64,
    device: Any = None,
    layout: Any = None,
) -> Tensor:
    """Rows and columns of the elements on and above a diagonal; see :func:`tril_indices`."""
    _check_triangle(row, col, dtype)
    return _indices(np.triu_indices(row, offset, col), dtype, device)


def _check_triangle(row: int, col: int, kind: dtype) -> None:
    if row < 0 or col < 0:
        raise RuntimeError(f"row and col must be non-negative, got {row} and {col}")
    if kind.name not in ("int32", "int64"):
        raise RuntimeError(f"expected dtype int32 or int64, got {kind!r}")


def _indices(pair: tuple[Any, Any], kind: dtype, device: Any) -> Tensor:
    made = wrap(np.ascontiguousarray(np.stack(pair).astype(kind.numpy)))
    return made if device is None else made.to(device)


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
    """
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for each in given:
        if len(each._layout.shape) > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(each._layout.shape)}"
            )
        if (
            each._layout.dtype is not given[0]._layout.dtype
            or each._layout.place is not given[0]._layout.place
        ):
            raise RuntimeError("meshgrid expects all tensors to have the same dtype and device")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    swap = indexing == "xy" and len(given) >= 2
    if swap:
        given[0], given[1] = given[1], given[0]
    shape = tuple(each._layout.numel for each in given)
    grids = []
    for axis, each in enumerate(given):
        column = views.view(each, *(-1 if dim == axis else 1 for dim, _ in enumerate(shape)))
        grids.append(views.expand(column, shape))
    if swap:
        grids = [views.transpose(grid, 0, 1) for grid in grids]
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)
