"""The three directions of a convolution, each of which is run backward by the other two.

They are the convolution, the gradient of its input (which is the transposed convolution) and the gradient of its weight.
:mod:`.convolution_on_device` and :mod:`.convolution_on_host` work them out for a geometry, :mod:`.implicit` and
:mod:`.through_cudnn` for layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import float32
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import empty, maker
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.memory_format import contiguous_format
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import COPIED, formatted, host_conversion, in_format, on_contiguous, on_format
from tensor.operations.pointwise.arithmetic import ADD
from tensor.operations.reductions.sums import SUM, SUM_BACKWARD

from . import convolution_on_device as on_device
from . import convolution_on_host as on_host
from . import implicit, through_cudnn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.convolution import Geometry
    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format
    from tensor.methods.tensor import Tensor


class Direction:
    """One of the three directions of a convolution.

    ``device_state.plans[direction, first, second, bias, form]`` is ``run(first, second, bias)`` for operands of these layouts
    and a result in the format ``form``, not recorded; only ``"forward"`` and ``"input"`` take a bias.

    Attributes
    ----------
    name : str
        ``"forward"``, of the image and the weight; ``"input"``, of the result's gradient and the weight;
        ``"weight"``, of the image and the result's gradient.
    shape : tuple of int
        Of what it makes.
    channels_at : int
        The dimension that a bias goes along.
    derivatives : tuple
        For each operand the direction that makes its gradient, and of what: 0 and 1 are the operands, 2 is the gradient.
    gradients : _Gradients
        All gradients at once, where they need no derivatives themselves.
    """

    __slots__ = ("channels_at", "derivatives", "geometry", "gradients", "name", "shape")

    derivatives: tuple[tuple[Direction, int, int], tuple[Direction, int, int]]

    def __init__(self, name: str, geometry: Geometry, shape: tuple[int, ...], channels_at: int) -> None:
        self.name = name
        self.geometry = geometry
        self.shape = shape
        self.channels_at = channels_at
        self.gradients = _Gradients(self)

    def plan(
        self, first: Layout, second: Layout, bias: Layout | None, form: memory_format = contiguous_format
    ) -> Callable[..., Tensor]:
        """What carries it out for operands of given layouts."""

        def own() -> Callable[..., Tensor]:
            return self._by_own_kernels(first, second, bias, form)

        if not self._is_for_cudnn(first, second, form):
            return own()
        out = self._out(first, form)

        def ways(exact: bool, deterministic: bool) -> list[Callable[..., Tensor]]:
            # Most programs run where there is no cuDNN.
            from .cudnn_algorithms import works

            return [
                on_format(self._on_device(out, work), form, first, second, None)
                for work in works(
                    self.name, self.geometry, out, bias, form, exact=exact, deterministic=deterministic
                )
            ]

        device_state: Any = out.device_state
        return through_cudnn.chosen(device_state, own, ways)

    def _by_own_kernels(
        self, first: Layout, second: Layout, bias: Layout | None, form: memory_format
    ) -> Callable[..., Tensor]:
        def contiguously() -> Callable[..., Tensor]:
            return in_format(self._contiguously(first, second, bias), form)

        if not self._is_implicit(first, second, form):
            return contiguously()
        out = self._out(first, form)
        run = self._on_device(out, implicit.plan(self.name, self.geometry, first, second, out, bias))
        return run if out.dtype is not float32 else implicit.where_rounded(run, contiguously)

    def reads_in_place(self, first: Layout, second: Layout, form: memory_format) -> bool:
        """Whether it may be computed from operands of these layouts where they lie, row-major or not."""
        return self._is_implicit(first, second, form) or self._is_for_cudnn(first, second, form)

    def _is_for_cudnn(self, first: Layout, second: Layout, form: memory_format) -> bool:
        return through_cudnn.takes(self.geometry, first, second, self._out(first, form))

    def _is_implicit(self, first: Layout, second: Layout, form: memory_format) -> bool:
        return implicit.takes(self.name, self.geometry, first, second, self._out(first, form))

    def _out(self, first: Layout, form: memory_format) -> Layout:
        return form.layout(contiguous[self.shape, first.dtype, first.device_state])

    def _contiguously(self, first: Layout, second: Layout, bias: Layout | None) -> Callable[..., Tensor]:
        device_state: Any = first.device_state
        out = contiguous[self.shape, first.dtype, device_state]
        run: Callable[..., Tensor]
        if not out.numel:
            make = maker(out)
            return lambda *_: make()
        if not first.numel or not second.numel:
            run = self._zeros(out)
        elif device_state.is_cuda:
            run = self._on_device(out, self.work(device_state, out.dtype, bias))
        else:
            run = self._on_host(first, second, out)
        return on_contiguous(run, first, second, None)

    def work(self, device_state: Any, dtype: dtype, bias: Layout | None) -> on_device.Work:
        """What computes it on a device, for addresses of contiguous operands."""
        if self.name == "weight":
            return on_device.weight_gradient(device_state, self.geometry, dtype)
        plan = on_device.forward if self.name == "forward" else on_device.input_gradient
        return plan(device_state, self.geometry, dtype, None if bias is None else bias.strides[0])

    def _on_device(self, out: Layout, work: on_device.Work) -> Callable[..., Tensor]:
        device_state: Any = out.device_state
        make, local, allocate, free = maker(out), device_state.local, device_state.allocate, device_state.free
        queue, size = work

        def run(first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:
            stream = local.stream
            result = make(stream)
            # Freed when this returns: only work behind these kernels on the stream can get the memory.
            block = allocate(size, stream.cuda_stream) if size else None
            try:
                queue(
                    stream.handle,
                    0 if block is None else block.address,
                    result._storage.address,
                    first._storage.address + first._offset,
                    second._storage.address + second._offset,
                    0 if bias is None else bias._storage.address + bias._offset,
                )
            finally:
                if block is not None:
                    free(block)
            return result

        return run

    def _on_host(self, first: Layout, second: Layout, out: Layout) -> Callable[..., Tensor]:
        dtype = out.dtype
        compute_dtype = rules.computes_in(dtype)
        geometry = self.geometry
        plan, left, right, full = {
            "forward": (on_host.forward, geometry.image, geometry.weight, geometry.result),
            "input": (on_host.input_gradient, geometry.result, geometry.weight, geometry.image),
            "weight": (on_host.weight_gradient, geometry.image, geometry.result, geometry.weight),
        }[self.name]
        compute = plan(geometry, compute_dtype.numpy)
        to_compute, to_storage = host_conversion(dtype, compute_dtype), host_conversion(compute_dtype, dtype)
        along = (-1, *[1] * (len(self.shape) - self.channels_at - 1))

        def run(first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:
            output = empty(out)
            result: Any = output._array
            x, y = first._host.reshape(left), second._host.reshape(right)
            with np.errstate(all="ignore"):
                if compute_dtype is dtype:
                    compute(x, y, result.reshape(full))
                else:
                    arrays = np.empty(left, compute_dtype.numpy), np.empty(right, compute_dtype.numpy)
                    for into, array in zip(arrays, (x, y), strict=True):
                        to_compute(into, array)
                    value = np.empty(full, compute_dtype.numpy)
                    compute(*arrays, value)
                    to_storage(result, value.reshape(result.shape))
                if bias is not None:
                    np.add(result, bias._host.reshape(along), out=result)
            return output

        return run

    def _zeros(self, out: Layout) -> Callable[..., Tensor]:
        """Sums of nothing."""
        along = (-1, *[1] * (len(self.shape) - self.channels_at - 1))

        def run(first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:
            result = empty(out).zero_()
            return result if bias is None else ADD.in_place(result, bias.detach().view(along))

        return run


class _Gradients:
    """``device_state.plans[operation, first, second, grad, form, *expected](first, second, grad)``: what a node gives.

    ``expected`` says of which operands there are to be gradients, the bias among them. An operand that none of them
    needs is ``None``. Gradients may be in the format ``form`` already, or contiguous.
    """

    __slots__ = ("direction",)

    def __init__(self, direction: Direction) -> None:
        self.direction = direction

    def plan(
        self,
        first: Layout | None,
        second: Layout | None,
        grad: Layout,
        form: memory_format,
        *expected: bool,
    ) -> Callable[..., tuple[Tensor | None, ...]]:
        """What makes the gradients for tensors of these layouts."""
        device_state: Any = grad.device_state
        layouts = first, second, grad
        steps, any_in_place = [], False
        direct = device_state.is_cuda
        for position, (direction, left, right) in enumerate(self.direction.derivatives):
            a, b = layouts[left], layouts[right]
            if expected[position] and a is not None and b is not None:
                steps.append((position, direction, left, right, a, b))
                any_in_place = any_in_place or direction.reads_in_place(a, b, form)
                direct = direct and a.contiguous and b.contiguous and a.numel and b.numel
        if not grad.contiguous and not any_in_place:
            # Once for all that read it.
            layout = grad.as_contiguous()
            pack = device_state.plans[COPIED, layout, grad]
            packed = device_state.plans[self, first, second, layout, form, *expected]
            return lambda first, second, grad: packed(first, second, pack(grad))
        axes = tuple(axis for axis in range(len(grad.shape)) if axis != self.direction.channels_at)
        total = device_state.plans[SUM, grad, axes, False] if expected[2] else None
        if direct and not any_in_place:
            return _on_one_scratch(steps, total)
        runs = [
            (position, device_state.plans[direction, a, b, None, form], left, right)
            for position, direction, left, right, a, b in steps
        ]

        def run(*operands: Tensor) -> tuple[Tensor | None, ...]:
            result: list[Tensor | None] = [None, None, None]
            for position, each, left, right in runs:
                result[position] = each(operands[left], operands[right], None)
            if total is not None:
                result[2] = total(operands[2])[0]
            return tuple(result)

        return run


def _on_one_scratch(
    steps: Sequence[Any], total: Callable[..., Any] | None
) -> Callable[..., tuple[Tensor | None, ...]]:
    """Gradients of contiguous operands on a device, which use the same scratch memory one after the other."""
    planned, size = [], 0
    device_state: Any = None
    for position, direction, left, right, a, _ in steps:
        device_state, dtype = a.device_state, a.dtype
        work = direction.work(device_state, dtype, None)
        planned.append(
            (position, maker(contiguous[direction.shape, dtype, device_state]), work.run, left, right)
        )
        size = max(size, work.scratch_bytes)

    def run(*operands: Tensor) -> tuple[Tensor | None, ...]:
        result: list[Tensor | None] = [None, None, None]
        if total is not None:
            result[2] = total(operands[2])[0]
        if planned:
            stream = device_state.local.stream
            block = device_state.allocate(size, stream.cuda_stream) if size else None
            scratch = 0 if block is None else block.address
            try:
                for position, make, queue, left, right in planned:
                    result[position] = output = make(stream)
                    a, b = operands[left], operands[right]
                    queue(
                        stream.handle,
                        scratch,
                        output._storage.address,
                        a._storage.address + a._offset,
                        b._storage.address + b._offset,
                        0,
                    )
            finally:
                if block is not None:
                    device_state.free(block)
        return tuple(result)

    return run


def directions_of(geometry: Geometry, rank: int, *, batched: bool) -> tuple[Direction, Direction, Direction]:
    """The directions ``"forward"``, ``"input"`` and ``"weight"`` of a convolution.

    Their operands have ``rank`` spatial dimensions, and those of images no dimension of items unless ``batched``.
    """

    def shape(full: tuple[int, ...], first: int) -> tuple[int, ...]:
        return (*full[first:2], *full[5 - rank :])

    first = 0 if batched else 1
    forward = Direction("forward", geometry, shape(geometry.result, first), 1 - first)
    input = Direction("input", geometry, shape(geometry.image, first), 1 - first)
    weight = Direction("weight", geometry, shape(geometry.weight, 0), 0)
    forward.derivatives = (input, 2, 1), (weight, 0, 2)
    input.derivatives = (forward, 2, 1), (weight, 2, 0)
    weight.derivatives = (input, 1, 2), (forward, 0, 2)
    return forward, input, weight


def _gradients(
    mask: tuple[bool, ...],
    grad: Tensor,
    second: Tensor | None,
    first: Tensor | None,
    direction: Direction,
    form: memory_format,
) -> tuple[Tensor | None, ...]:
    """Gradients of both operands, by the other two operations, in the format of the result; and of a bias."""
    layout = grad._layout
    if layout.dtype.is_complex:
        first, second = _conjugate(first), _conjugate(second)
    run = layout.device_state.plans[
        direction.gradients,
        None if first is None else first._layout,
        None if second is None else second._layout,
        layout,
        form,
        *mask,
    ]
    results: tuple[Any, ...] = run(first, second, grad)
    if form is not contiguous_format:
        operand_gradients = [None if x is None else formatted(x, form) for x in results[:2]]
        results = (*operand_gradients, results[2])
    if modes.recording:
        operands = first, second, grad
        for position, (other, left, right) in enumerate(direction.derivatives):
            if mask[position]:
                _OF_GRADIENTS.record(
                    (results[position],), (operands[left], operands[right], None), (), (other, form)
                )
        if mask[2]:
            axes = tuple([axis for axis in range(grad.dim()) if axis != direction.channels_at])
            SUM_BACKWARD.record((results[2],), (grad,), (), (layout.shape, axes, False))
    return results


def _conjugate(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.conj()


def _formula(name: str) -> BackwardFormula:
    return BackwardFormula(
        name, "first second bias", joint=Derivative(_gradients, needs=("second", "first", ""))
    )


#: By whether there is a dimension of items, which PyTorch takes away again in a node of its own.
FORMULAS = {True: _formula("ConvolutionBackward0"), False: _formula("SqueezeBackward1")}


_OF_GRADIENTS = _formula("ConvolutionBackwardBackward0")
