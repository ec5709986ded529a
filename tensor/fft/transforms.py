"""Transforms between complex, real and Hermitian data, and their derivatives.

Three operations do everything: ``c2c``, ``r2c`` and ``c2r`` over any dimensions, of which the last two halve, or
double, the last one given. Each multiplies by a ``scale``, which normalises. On CUDA a plan of cuFFT has up to three
dimensions; more go by steps.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels.dtypes import complex64, complex128, float32, float64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.base import maker, view_of, wrap
from tensor.core.constants import device_constant
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import planned
from tensor.core.plans.copies import COPY
from tensor.operations.pointwise.arithmetic import MUL
from tensor.operations.shapes import slices, views

from . import on_host
from .plan_cache import Key, Side, plan_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import DeviceState
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: Dimensions of a cuFFT plan, at most.
_RANK = 3
COMPLEX = {float32: complex64, float64: complex128}
REAL = {complex64: float32, complex128: float64}
#: Types of results that are not the inputs'.
_TRANSFORM_TYPES: dict[str, dict[dtype, dtype]] = {"c2c": {}, "r2c": COMPLEX, "c2r": REAL}


class _Shape(NamedTuple):
    """What a transform makes of a layout.

    Attributes
    ----------
    order : tuple of int
        The dimensions as they lie in the result, from the outermost on: those that are not transformed in the order
        that they have in the input, then those that are. That is PyTorch's order, and needs no rearrangement.
    output : Layout
        The result's.
    """

    order: tuple[int, ...]
    output: Layout

    @classmethod
    def of(cls, transform_type: str, layout: Layout, dims: tuple[int, ...], size: int | None) -> _Shape:
        """Of a transform of type ``c2c``, ``r2c`` or ``c2r``, the last to ``size`` elements."""
        strides, shape = layout.strides, list(layout.shape)
        outer = sorted(
            [axis for axis in range(len(shape)) if axis not in dims], key=lambda axis: -strides[axis]
        )
        last = dims[-1:] if transform_type != "c2c" else ()
        inner = sorted(dims[: len(dims) - len(last)], key=lambda axis: -strides[axis])
        order = (*outer, *inner, *last)
        if transform_type == "r2c":
            shape[dims[-1]] = shape[dims[-1]] // 2 + 1
        elif transform_type == "c2r":
            assert size is not None
            shape[dims[-1]] = size
        return cls(
            order,
            in_order(
                tuple(shape),
                order,
                _TRANSFORM_TYPES[transform_type].get(layout.dtype, layout.dtype),
                layout.device_state,
            ),
        )


def in_order(
    shape: tuple[int, ...], order: tuple[int, ...], dtype: dtype, device_state: DeviceState
) -> Layout:
    """A layout without gaps whose dimensions lie in a given order."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return layouts.strided[shape, tuple(strides), dtype, device_state]


def _transform_plan(
    transform_type: str, layout: Layout, dims: tuple[int, ...], size: int | None, inverse: bool, scale: float
) -> Callable[[Tensor], Tensor]:
    """How to transform tensors of a layout, times ``scale``.

    ``device_state.plans[TRANSFORM, transform_type, layout, dims, size, inverse, scale]``: ``run(x)``, not recorded.

    Parameters
    ----------
    size
        Elements of the last dimension of a real result.
    """
    if not layout.numel:
        result = _Shape.of(transform_type, layout, dims, size).output
        make = maker(result.as_contiguous())
        return lambda _: make()
    plan = _on_device if layout.device_state.is_cuda else _on_host
    return plan(transform_type, layout, dims, size, inverse, scale)


TRANSFORM = planned(_transform_plan)


def _on_host(
    transform_type: str, layout: Layout, dims: tuple[int, ...], size: int | None, inverse: bool, scale: float
) -> Callable[[Tensor], Tensor]:
    order, output = _Shape.of(transform_type, layout, dims, size)
    argument, shape = (tuple([each.shape[axis] for axis in order]) for each in (layout, output))
    transform = on_host.plan(
        transform_type, argument, layout.dtype.numpy, len(dims), inverse=inverse, scale=scale, size=size
    )
    flat, dtype = layouts.contiguous[shape, output.dtype, layout.device_state], output.dtype.numpy
    if order == tuple(range(len(order))):

        def run(x: Tensor) -> Tensor:
            result = np.empty(shape, dtype)
            transform(x._host, result)
            return wrap(result, flat)

        return run

    def run_turned(x: Tensor) -> Tensor:
        result = np.empty(shape, dtype)
        transform(x._host.transpose(order), result)
        return view_of(wrap(result, flat)._storage, output, 0)

    return run_turned


def _on_device(
    transform_type: str, layout: Layout, dims: tuple[int, ...], size: int | None, inverse: bool, scale: float
) -> Callable[[Tensor], Tensor]:
    """By as many plans of cuFFT as it takes."""
    rest, last = dims[:-_RANK], dims[-_RANK:]
    slices = [(transform_type, last, size, False)]
    while rest:
        rest, some = rest[:-_RANK], rest[-_RANK:]
        slices.append(("c2c", some, None, False))
    if transform_type == "c2r" and len(slices) > 1:
        # What the steps before made is nobody else's.
        slices = [*slices[1:], (transform_type, last, size, True)]
    steps = []
    for each, some, length, overwrites in slices:
        run, layout, scale = _step(each, layout, some, length, inverse, scale, overwrites=overwrites)
        steps.append(run)
    if scale != 1:
        steps.append(_scaled(layout, scale))
    if len(steps) == 1:
        return steps[0]

    def run_all(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return run_all


def _scaled(layout: Layout, scale: float) -> Callable[[Tensor], Tensor]:
    multiply = layout.device_state.plans[MUL, layout, layout, float]

    def run(x: Tensor) -> Tensor:
        multiply(x, x, scale)
        return x

    return run


def _step(
    transform_type: str,
    layout: Layout,
    dims: tuple[int, ...],
    size: int | None,
    inverse: bool,
    scale: float,
    *,
    overwrites: bool,
) -> tuple[Callable[[Tensor], Tensor], Layout, float]:
    """A transform over up to three dimensions, the layout of its result, and what is left to multiply it by.

    Parameters
    ----------
    scale
        What to multiply by where that costs nothing, on the way of elements that have to be copied.
    overwrites
        Whether nobody needs the input afterwards.
    """
    order, output = _Shape.of(transform_type, layout, dims, size)
    device_state: Any = layout.device_state
    # cuFFT may write to the input of a transform to real numbers.
    copies = transform_type == "c2r" and not overwrites
    argument = None if copies else _side(layout, order, len(dims))
    before = layout
    if argument is None:
        copies, layout = True, in_order(tuple(layout.shape), order, layout.dtype, device_state)
        argument = _side(layout, order, len(dims))
    written = _side(output, order, len(dims))
    assert argument is not None
    assert written is not None
    inner = order[len(order) - len(dims) :]
    complex_bytes = max(layout.dtype.itemsize, output.dtype.itemsize)
    if transform_type != "c2c":
        complex_bytes = 2 * min(layout.dtype.itemsize, output.dtype.itemsize)
    real = output if transform_type == "c2r" else layout
    sizes = tuple([real.shape[axis] for axis in inner])
    key = Key(
        transform_type,
        complex_bytes,
        sizes,
        argument,
        written,
        output.numel // prod(output.shape[axis] for axis in inner),
    )
    make, transform = maker(output), plan_cache(device_state).transform
    if not copies:

        def run(x: Tensor) -> Tensor:
            result = make()
            transform(key, x._storage.address + x._offset, result._storage.address, inverse=inverse)
            return result

        return run, output, scale
    make_copy = maker(layout)
    if scale != 1:
        fill, number = device_state.plans[MUL, layout, before, float], scale
    else:
        fill, number = device_state.plans[COPY, layout, before], True

    def run_on_copy(x: Tensor) -> Tensor:
        copy = make_copy()
        fill(copy, x, number)
        result = make()
        transform(key, copy._storage.address, result._storage.address, inverse=inverse)
        return result

    return run_on_copy, output, 1.0


def _side(layout: Layout, order: tuple[int, ...], count: int) -> Side | None:
    """How cuFFT can walk through memory over the last ``count`` dimensions of ``order``; ``None`` if it cannot."""
    shape, strides = [layout.shape[axis] for axis in order], [layout.strides[axis] for axis in order]
    first = len(order) - count
    step = inner = strides[-1]
    if step <= 0:
        return None
    embed = [shape[-1]]
    for axis in range(len(order) - 2, first - 1, -1):
        if strides[axis] % inner or strides[axis] < inner * shape[axis + 1]:
            return None
        embed[0] = strides[axis] // inner
        embed.insert(0, shape[axis])
        inner = strides[axis]
    # The other dimensions must be one.
    batch = after = 0
    for axis in range(first - 1, -1, -1):
        if shape[axis] == 1:
            continue
        if strides[axis] <= 0 or (after and strides[axis] != after):
            return None
        batch, after = batch or strides[axis], shape[axis] * strides[axis]
    return Side(tuple(embed), step, batch or 1)


def _adjoint(
    grad: Tensor,
    transform_type: str,
    dims: tuple[int, ...],
    size: int | None,
    argument: int,
    inverse: bool,
    scale: float,
) -> Tensor:
    """The adjoint transform of the gradient; ``given`` is the size of the last transformed dimension of the input."""
    dim = dims[-1]
    if transform_type == "c2c":
        return c2c(grad, dims, inverse=not inverse, scale=scale)
    if transform_type == "r2c":
        # A real element has half the gradient of each coefficient that has a mirror image.
        return c2r(_weighted(grad, dim, argument, 0.5), dims, argument, scale=scale)
    assert size is not None
    back = r2c(grad, dims, scale=scale)
    back = _weighted(back, dim, size, 2.0)
    if back._layout.shape[dim] != argument:
        raise AssertionError("an irfft's input has as many coefficients as its output needs")
    return back


_FORMULAS = {
    transform_type: BackwardFormula(
        f"Fft{transform_type.upper()}Backward0", "x", [Derivative(_adjoint, needs="")]
    )
    for transform_type in ("c2c", "r2c", "c2r")
}


def _weighted(x: Tensor, dim: int, size: int, weight: float) -> Tensor:
    """Half a spectrum of ``size`` real elements, times ``weight`` where coefficients have a mirror image."""
    count = (size + 1) // 2 - 1
    if count <= 0:
        return x
    dtype = x._layout.dtype

    def weights() -> Any:
        created = np.ones(x._layout.shape[dim], REAL[dtype].numpy)
        created[1 : 1 + count] = weight
        return created

    result = device_constant(x._layout.device_state, ("fft weights", size, weight, dtype), weights)
    for _ in range(len(x._layout.shape) - 1 - dim):
        result = views.unsqueeze(result, -1)
    output: Tensor = x * result
    return output


def recorded(
    transform_type: str, dims: tuple[int, ...], size: int | None, *, inverse: bool, scale: float
) -> Callable[[Layout], Callable[[Tensor], Tensor]]:
    """Of a layout, what transforms tensors of it and records that."""

    def prepared(layout: Layout) -> Callable[[Tensor], Tensor]:
        transform = layout.device_state.plans[TRANSFORM, transform_type, layout, dims, size, inverse, scale]
        context = transform_type, dims, size, layout.shape[dims[-1]], inverse, scale
        formula = _FORMULAS[transform_type]

        def run(x: Tensor) -> Tensor:
            result: Tensor = transform(x)
            if x._autograd is not None and modes.recording:
                formula.record((result,), (x,), context=context)
            return result

        return run

    return prepared


def c2c(x: Tensor, dims: Sequence[int], *, inverse: bool, scale: float = 1.0) -> Tensor:
    """Transform of complex data over ``dims``, the sign of whose exponent is positive for the inverse one."""
    return recorded("c2c", tuple(dims), None, inverse=inverse, scale=scale)(x._layout)(x)


def r2c(x: Tensor, dims: Sequence[int], *, scale: float = 1.0) -> Tensor:
    """The transform of real data over ``dims``: of the last one the half that is not the other's mirror image."""
    return recorded("r2c", tuple(dims), None, inverse=False, scale=scale)(x._layout)(x)


def c2r(x: Tensor, dims: Sequence[int], size: int, *, scale: float = 1.0) -> Tensor:
    """Inverse transform of half a Hermitian spectrum, of which the last one of ``dims`` becomes ``size`` elements."""
    expected = size // 2 + 1
    if x._layout.shape[dims[-1]] != expected:
        x = slices.narrow(x, dims[-1], 0, expected)
    return recorded("c2r", tuple(dims), size, inverse=True, scale=scale)(x._layout)(x)
