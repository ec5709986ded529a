"""Transforms between complex, real and Hermitian data, and their derivatives.

Three operations do everything: ``c2c``, ``r2c`` and ``c2r`` over any dimensions, of which the last two halve, or
double, the last one given. Each multiplies by a ``scale``, which normalises. On CUDA a plan of cuFFT has up to three
dimensions; more go by steps.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import complex64, complex128, float32, float64

from .. import layout as layouts
from .. import parts, views
from ..base import maker, wrap
from ..copy_plans import copied
from ..kept import kept
from ..recording.modes import modes
from ..recording.node import Node, attach
from .plan_cache import Key, Side, plan_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..layout import Layout
    from ..tensors import Tensor

#: Dimensions of a cuFFT plan, at most.
_RANK = 3
COMPLEX = {float32: complex64, float64: complex128}
REAL = {complex64: float32, complex128: float64}


def _side(shape: Sequence[int], strides: Sequence[int], dims: Sequence[int]) -> Side | None:
    """How cuFFT can walk through memory of given strides; ``None`` if it cannot."""
    step = strides[dims[-1]]
    if step <= 0:
        return None
    embed = [shape[dims[-1]]]
    inner = step
    for outer, dim in zip(reversed(dims[:-1]), reversed(dims[1:]), strict=True):
        if strides[outer] % inner or strides[outer] < inner * shape[dim]:
            return None
        embed[0] = strides[outer] // inner
        embed.insert(0, shape[outer])
        inner = strides[outer]
    # The other dimensions must be one.
    others = [
        (shape[axis], strides[axis]) for axis in range(len(shape)) if axis not in dims and shape[axis] > 1
    ]
    batch = 0
    for (_, stride), after in zip(reversed(others), [None, *reversed(others)], strict=False):
        if after is None:
            batch = stride
        elif stride != after[0] * after[1]:
            return None
        if stride <= 0:
            return None
    return Side(tuple(embed), step, batch or 1)


class _Step:
    """A transform over up to three dimensions; ``place.plans[STEP, kind, layout, dims, size, overwrites]`` is it."""

    def plan(
        self, kind: str, layout: Layout, dims: tuple[int, ...], size: int | None, overwrites: bool
    ) -> Callable[[Tensor, bool], Tensor]:
        """``run(x, inverse)``, not scaled.

        Parameters
        ----------
        size
            Elements of the last dimension of a real result.
        overwrites
            Whether nobody needs the input afterwards.
        """
        place: Any = layout.place
        shape = list(layout.shape)
        last = dims[-1]
        sizes = [shape[dim] for dim in dims]
        if kind == "r2c":
            shape[last] = shape[last] // 2 + 1
        elif kind == "c2r":
            assert size is not None
            shape[last] = sizes[-1] = size
        kinds = {"r2c": COMPLEX, "c2r": REAL}
        dtype = kinds[kind][layout.dtype] if kind in kinds else layout.dtype
        out = layouts.contiguous[tuple(shape), dtype, place]
        made = _side(shape, out.strides, dims)
        if made is None:
            return _moved(kind, layout, dims, size)
        # cuFFT may write to the input of a transform to real numbers.
        copies = kind == "c2r" and not overwrites
        given = None if copies else _side(layout.shape, layout.strides, dims)
        if given is None:
            copies, layout = True, layout.as_contiguous()
            given = _side(layout.shape, layout.strides, dims)
            assert given is not None
        count = prod(n for axis, n in enumerate(shape) if axis not in dims)
        complex_bytes = dtype.itemsize if dtype.is_complex else 2 * dtype.itemsize
        key = Key(kind, complex_bytes, tuple(sizes), given, made, count)
        make, transform = maker(out), plan_cache(place).transform

        def run(x: Tensor, inverse: bool) -> Tensor:
            if copies:
                x = copied(x, layout)
            result = make()
            transform(key, x._address, result._address, inverse=inverse)
            return result

        return run


STEP = _Step()


def _moved(
    kind: str, layout: Layout, dims: tuple[int, ...], size: int | None
) -> Callable[[Tensor, bool], Tensor]:
    """Through a copy with the transformed dimensions last; the result's lie there too."""
    rank = len(layout.shape)
    order = [axis for axis in range(rank) if axis not in dims] + list(dims)
    back = [order.index(axis) for axis in range(rank)]
    plans = layout.place.plans

    def run(x: Tensor, inverse: bool) -> Tensor:
        permuted = views.permute(x, order)
        turned = permuted.contiguous()
        last = tuple(range(rank - len(dims), rank))
        step = plans[STEP, kind, turned._layout, last, size, turned is not permuted]
        result = views.permute(step(turned, inverse), back)
        result._base = None
        return result

    return run


def _on_host(kind: str, x: Tensor, dims: Sequence[int], size: int | None, inverse: bool) -> Tensor:
    array = x._host
    found: Any
    with np.errstate(all="ignore"):
        if kind == "r2c":
            found = np.fft.rfftn(array, axes=dims)
        elif kind == "c2r":
            sizes = [*(array.shape[dim] for dim in dims[:-1]), size]
            found = np.fft.irfftn(array, sizes, axes=dims, norm="forward")
        elif inverse:
            found = np.fft.ifftn(array, axes=dims, norm="forward")
        else:
            found = np.fft.fftn(array, axes=dims)
    kinds = {"r2c": COMPLEX, "c2r": REAL}
    dtype = kinds[kind][x._layout.dtype] if kind in kinds else x._layout.dtype
    return wrap(np.ascontiguousarray(found, dtype.numpy))


def _on_device(kind: str, x: Tensor, dims: tuple[int, ...], size: int | None, inverse: bool) -> Tensor:
    """The unscaled transform, by as many plans of cuFFT as it takes."""
    plans = x._layout.place.plans
    if len(dims) <= _RANK:
        result: Tensor = plans[STEP, kind, x._layout, dims, size, False](x, inverse)
        return result
    rest, last = dims[:-_RANK], dims[-_RANK:]
    result = x
    if kind != "c2r":
        result = plans[STEP, kind, x._layout, last, size, False](x, inverse)
    while rest:
        rest, some = rest[:-_RANK], rest[-_RANK:]
        result = plans[STEP, "c2c", result._layout, some, None, False](result, inverse)
    if kind == "c2r":
        # What the steps before made is nobody else's.
        result = plans[STEP, kind, result._layout, last, size, True](result, inverse)
    return result


def _transform(
    kind: str, x: Tensor, dims: tuple[int, ...], size: int | None, inverse: bool, scale: float
) -> Tensor:
    """The scaled transform, not recorded."""
    recording, modes.recording = modes.recording, False
    try:
        x = x.detach()
        if not x._layout.numel:
            shape = list(x._layout.shape)
            if kind != "c2c":
                shape[dims[-1]] = size if size is not None else shape[dims[-1]] // 2 + 1
            kinds = {"r2c": COMPLEX, "c2r": REAL}
            dtype = kinds[kind][x._layout.dtype] if kind in kinds else x._layout.dtype
            result: Tensor = x.new_zeros(shape, dtype=dtype)
            return result
        on = _on_device if x._layout.place.is_cuda else _on_host
        result = on(kind, x, dims, size, inverse)
        if scale != 1:
            result.mul_(scale)
        result._storage.version = 0
        return result
    finally:
        modes.recording = recording


class FftNode(Node):
    """A recorded transform; ``given`` is the size of the transformed dimension of its input."""

    __slots__ = ("dims", "given", "inverse", "kind", "scale", "size")

    dims: tuple[int, ...]
    given: int
    inverse: bool
    kind: str
    scale: float
    size: int | None

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return f"Fft{self.kind.upper()}Backward0"

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """The adjoint transform."""
        grad, dims, dim = grads[0], self.dims, self.dims[-1]
        if self.kind == "c2c":
            return c2c(grad, dims, inverse=not self.inverse, scale=self.scale)
        if self.kind == "r2c":
            # A real element has half the gradient of each coefficient that has a mirror image.
            return c2r(_weighted(grad, dim, self.given, 0.5), dims, self.given, scale=self.scale)
        assert self.size is not None
        back = r2c(grad, dims, scale=self.scale)
        back = _weighted(back, dim, self.size, 2.0)
        if back._layout.shape[dim] != self.given:
            raise AssertionError("an irfft's input has as many coefficients as its output needs")
        return back


def _weighted(x: Tensor, dim: int, size: int, weight: float) -> Tensor:
    """Half a spectrum of ``size`` real elements, times ``weight`` where coefficients have a mirror image."""
    count = (size + 1) // 2 - 1
    if count <= 0:
        return x
    kind = x._layout.dtype

    def weights() -> Any:
        made = np.ones(x._layout.shape[dim], REAL[kind].numpy)
        made[1 : 1 + count] = weight
        return made

    found = kept(x._layout.place, ("fft weights", size, weight, kind), weights)
    for _ in range(len(x._layout.shape) - 1 - dim):
        found = views.unsqueeze(found, -1)
    made: Tensor = x * found
    return made


def _recorded(
    kind: str, x: Tensor, dims: tuple[int, ...], size: int | None, inverse: bool, scale: float
) -> Tensor:
    result = _transform(kind, x, dims, size, inverse, scale)
    if modes.recording and x.requires_grad:
        node = FftNode.__new__(FftNode)
        node.kind, node.dims, node.size, node.inverse, node.scale = kind, dims, size, inverse, scale
        node.given, node.saved = x._layout.shape[dims[-1]], ()
        attach(node, (x,), (result,))
    return result


def c2c(x: Tensor, dims: Sequence[int], *, inverse: bool, scale: float = 1.0) -> Tensor:
    """Transform of complex data over ``dims``, the sign of whose exponent is positive for the inverse one."""
    return _recorded("c2c", x, tuple(sorted(dims)), None, inverse, scale)


def r2c(x: Tensor, dims: Sequence[int], *, scale: float = 1.0) -> Tensor:
    """The transform of real data over ``dims``: of the last one the half that is not the other's mirror image."""
    return _recorded("r2c", x, (*sorted(dims[:-1]), dims[-1]), None, False, scale)


def c2r(x: Tensor, dims: Sequence[int], size: int, *, scale: float = 1.0) -> Tensor:
    """Inverse transform of half a Hermitian spectrum, of which the last one of ``dims`` becomes ``size`` elements."""
    wanted = size // 2 + 1
    if x._layout.shape[dims[-1]] != wanted:
        x = parts.narrow(x, dims[-1], 0, wanted)
    return _recorded("c2r", x, (*sorted(dims[:-1]), dims[-1]), size, True, scale)
