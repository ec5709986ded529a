"""Losses whose target is a class: cross entropy and negative log-likelihood, the operations.

What users call is in :mod:`.losses`. The input is contiguous, seen as ``(outer, classes, inner)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import losses as kernels
from nvrtc_kernels import reduction
from nvrtc_kernels.losses import statistics_type
from tensor.core import layout as layouts
from tensor.core.base import empty, wrap
from tensor.core.fill_plans import filled
from tensor.core.modes.grad_mode import modes
from tensor.operations.normalization.row_normalization import launch_reduction, tensor_of, wide_array
from tensor.operations.recorder import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from nvrtc_kernels.losses import Classes
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x._address


def _vector(sizes: Classes, like: Layout, count: int = 1) -> Layout:
    return layouts.contiguous[(count * sizes.lines,), statistics_type(like.dtype), like.place]


class _Goals:
    """Targets on the host: which lines count, where their class is, and what they weigh.

    Raises
    ------
    IndexError
        If a target is no class.
    """

    def __init__(self, target: Tensor, sizes: Classes, weight: Tensor | None, kind: Any) -> None:
        goals = target._host.reshape(sizes.outer, 1, sizes.inner)
        self.counts = goals != sizes.ignored
        wrong = self.counts & ((goals < 0) | (goals >= sizes.classes))
        if wrong.any():
            raise IndexError(
                f"Target {goals[wrong][0]} is out of bounds: there are {sizes.classes} classes, from 0 on; a target that "
                f"counts nothing is ignore_index={sizes.ignored}"
            )
        self.classes = np.where(self.counts, goals, 0)
        own = np.ones(1, kind) if weight is None else wide_array(weight).astype(kind, copy=False)
        self.weighs = np.where(self.counts, own[self.classes if weight is not None else 0], kind(0))

    def taken(self, array: Array) -> Array:
        """What stands at the targets."""
        return np.take_along_axis(array, self.classes, 1)

    def written(self, array: Array, values: Array) -> None:
        """Add ``values`` at the targets."""
        np.put_along_axis(array, self.classes, self.taken(array) + values, 1)


def _as_classes(input: Tensor, sizes: Classes) -> Array:
    return wide_array(input).reshape(sizes.outer, sizes.classes, sizes.inner)


def _class_weights(weight: Tensor | None, kind: Any) -> Array | float:
    return 1.0 if weight is None else wide_array(weight).astype(kind, copy=False).reshape(1, -1, 1)


class _CrossEntropy:
    """``place.plans[operation, input, weight's dtype, sizes, smooth](input, target, weight, smoothing)``.

    Losses, what they weigh, and what is kept for the gradient: largest logit and logarithm of the sum of
    exponents of each line.
    """

    def plan(
        self, layout: Layout, weight: dtype | None, sizes: Classes, smooth: bool
    ) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
        """What makes losses of contiguous tensors of ``layout``."""
        out, two = _vector(sizes, layout), _vector(sizes, layout, 2)
        if not layout.place.is_cuda:

            def on_host(
                input: Tensor, target: Tensor, weight: Tensor | None, smoothing: float
            ) -> tuple[Tensor, Tensor, Tensor]:
                x = _as_classes(input, sizes)
                goals = _Goals(target, sizes, weight, x.dtype.type)
                with np.errstate(all="ignore"):
                    largest = x.max(1, keepdims=True)
                    rest = np.log(np.exp(x - largest).sum(1, keepdims=True, dtype=x.dtype))
                    loss = goals.weighs * ((largest - goals.taken(x)) + rest)
                    if smooth:
                        every = (_class_weights(weight, x.dtype) * ((largest - x) + rest)).sum(
                            1, keepdims=True
                        )
                        loss = loss * (1 - smoothing) + every * (smoothing / sizes.classes)
                    loss = np.where(goals.counts, loss, 0).astype(x.dtype, copy=False)
                kept = np.concatenate([largest.reshape(-1), rest.reshape(-1)])
                return _flat(loss, out), _flat(goals.weighs, out), tensor_of(kept, two)

            return on_host
        place: Any = layout.place
        run = kernels.plan_cross_entropy(place.native, sizes, layout.dtype, weight, smooth=smooth)
        local = place.local

        def on_device(
            input: Tensor, target: Tensor, weight: Tensor | None, smoothing: float
        ) -> tuple[Tensor, Tensor, Tensor]:
            loss, weighs, kept = empty(out), empty(out), empty(two)
            run(
                local.stream.handle, smoothing, input._address, target._address, _address(weight), loss._address,
                weighs._address, kept._address,
            )  # fmt: skip
            return loss, weighs, kept

        return on_device


def _flat(array: Array, out: Layout) -> Tensor:
    return tensor_of(np.ascontiguousarray(array.reshape(-1)), out)


class _CrossEntropyGradient:
    """``place.plans[operation, grad, input, weight's dtype, sizes, smooth]``.

    ``run(grad, total, input, target, weight, all, kept, smoothing)``.
    """

    def plan(
        self, grad: Layout, layout: Layout, weight: dtype | None, sizes: Classes, smooth: bool
    ) -> Callable[..., Tensor]:
        """What makes the gradient of contiguous tensors of ``layout``; ``grad`` is a number or has all lines."""
        if not layout.place.is_cuda:

            def on_host(
                grad: Tensor, total: Tensor | None, input: Tensor, target: Tensor, weight: Tensor | None,
                _: Any, kept: Tensor, smoothing: float,
            ) -> Tensor:  # fmt: skip
                x = _as_classes(input, sizes)
                goals = _Goals(target, sizes, weight, x.dtype.type)
                with np.errstate(all="ignore"):
                    largest, rest = kept._host.reshape(2, sizes.outer, 1, sizes.inner)
                    found = np.exp((x - largest) - rest)
                    by = _line_gradients(grad, total, sizes, goals)
                    if smooth:
                        weights = _class_weights(weight, x.dtype)
                        spread = smoothing / sizes.classes
                        every = sizes.classes if weight is None else np.sum(weights)
                        found *= goals.weighs * (1 - smoothing) + every * spread
                        found -= weights * spread
                        goals.written(found, -goals.weighs * (1 - smoothing))
                    else:
                        found *= goals.weighs
                        goals.written(found, -goals.weighs)
                    found *= by
                    found = np.where(goals.counts, found, 0)
                return tensor_of(found.astype(x.dtype, copy=False), layout)

            return on_host
        place: Any = layout.place
        run = kernels.plan_cross_entropy_backward(
            place.native, sizes, grad.dtype, layout.dtype, weight, smooth=smooth, each=bool(grad.shape)
        )
        local = place.local

        def on_device(*operands: Any) -> Tensor:
            *tensors, smoothing = operands
            made = empty(layout)
            addresses = [_address(x) for x in tensors]
            run(local.stream.handle, smoothing, *addresses, made._address)
            return made

        return on_device


def _line_gradients(grad: Tensor, total: Tensor | None, sizes: Classes, goals: _Goals) -> Array:
    found = wide_array(grad)
    if total is not None:
        found = found / wide_array(total)
    if found.shape:
        found = found.reshape(sizes.outer, 1, sizes.inner)
    return np.where(goals.counts, found, 0).astype(goals.weighs.dtype, copy=False)


class _Nll:
    """``place.plans[operation, input, weight's dtype, sizes](input, target, weight)``: losses, and their weights."""

    def plan(
        self, layout: Layout, weight: dtype | None, sizes: Classes
    ) -> Callable[..., tuple[Tensor, Tensor]]:
        """What makes losses of contiguous tensors of ``layout``."""
        out = _vector(sizes, layout)
        if not layout.place.is_cuda:

            def on_host(input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
                x = _as_classes(input, sizes)
                goals = _Goals(target, sizes, weight, x.dtype.type)
                with np.errstate(all="ignore"):
                    loss = np.where(goals.counts, -goals.weighs * goals.taken(x), x.dtype.type(0))
                return _flat(loss, out), _flat(goals.weighs, out)

            return on_host
        place: Any = layout.place
        run = kernels.plan_nll(place.native, sizes, layout.dtype, weight)
        local = place.local

        def on_device(input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
            loss, weighs = empty(out), empty(out)
            run(
                local.stream.handle, input._address, target._address, _address(weight), loss._address,
                weighs._address,
            )  # fmt: skip
            return loss, weighs

        return on_device


class _NllGradient:
    """``place.plans[operation, grad, input, weight's dtype, sizes](grad, total, target, weight)``."""

    def plan(
        self, grad: Layout, layout: Layout, weight: dtype | None, sizes: Classes
    ) -> Callable[..., Tensor]:
        """What makes the gradient of contiguous tensors of ``layout``; ``grad`` is a number or has all lines."""
        if not layout.place.is_cuda:

            def on_host(grad: Tensor, total: Tensor | None, target: Tensor, weight: Tensor | None) -> Tensor:
                kind = statistics_type(layout.dtype).numpy.type
                goals = _Goals(target, sizes, weight, kind)
                found = np.zeros((sizes.outer, sizes.classes, sizes.inner), kind)
                with np.errstate(all="ignore"):
                    by = _line_gradients(grad, total, sizes, goals)
                    goals.written(found, np.where(goals.counts, -goals.weighs * by, kind(0)))
                return tensor_of(found, layout)

            return on_host
        place: Any = layout.place
        run = kernels.plan_nll_backward(
            place.native, sizes, grad.dtype, layout.dtype, weight, each=bool(grad.shape)
        )
        local = place.local

        def on_device(*tensors: Any) -> Tensor:
            made = filled(layout, 0)
            run(local.stream.handle, *[_address(x) for x in tensors], made._address)
            return made

        return on_device


class _Mean:
    """``place.plans[operation, losses, mean, dtype](losses, weighs)``: their mean or sum, and what they weigh."""

    def plan(self, layout: Layout, mean: bool, kind: dtype) -> Callable[..., tuple[Tensor, Tensor]]:
        """What sums vectors of ``layout``; the result is of type ``kind``."""
        outs = layouts.contiguous[(), kind, layout.place], layouts.contiguous[(), layout.dtype, layout.place]
        if not layout.place.is_cuda:

            def on_host(losses: Tensor, weighs: Tensor) -> tuple[Tensor, Tensor]:
                sums = [each._host.sum(dtype=each._host.dtype) for each in (losses, weighs)]
                with np.errstate(all="ignore"):
                    return tensor_of(np.array(sums[0] / sums[1] if mean else sums[0]), outs[0]), wrap(
                        np.array(sums[1]), outs[1]
                    )

            return on_host
        place: Any = layout.place
        launch = reduction.plan(
            place.native, kernels.WEIGHTED_MEAN if mean else kernels.WEIGHTED_SUM, layout.shape, (0,),
            [((0,), kind), ((0,), layout.dtype)], [((1,), layout.dtype)] * 2,
        )  # fmt: skip

        def on_device(losses: Tensor, weighs: Tensor) -> tuple[Tensor, Tensor]:
            found, total = (empty(each) for each in outs)
            launch_reduction(place, launch, found._address, total._address, losses._address, weighs._address)
            return found, total

        return on_device


CROSS_ENTROPY, CROSS_ENTROPY_GRADIENT, NLL, NLL_GRADIENT, MEAN = (
    _CrossEntropy(), _CrossEntropyGradient(), _Nll(), _NllGradient(), _Mean(),
)  # fmt: skip


def loss_of_classes(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    sizes: Classes,
    reduction: str,
    smoothing: float | None,
) -> Tensor:
    """The loss, recorded. Without a number for ``smoothing`` the input has logarithms of chances already."""
    x, goals = input.contiguous(), target.contiguous()
    w = None if weight is None else weight.detach().contiguous()
    kind = None if w is None else w._layout.dtype
    plans = x._layout.place.plans
    kept = None
    if smoothing is None:
        losses, weighs = plans[NLL, x._layout, kind, sizes](x, goals, w)
    else:
        run = plans[CROSS_ENTROPY, x._layout, kind, sizes, smoothing > 0]
        losses, weighs, kept = run(x, goals, w, smoothing)
    total: Tensor | None = None
    if reduction == "none":
        made = losses.to(input._layout.dtype).view(target._layout.shape)
    else:
        run = plans[MEAN, losses._layout, reduction == "mean", input._layout.dtype]
        made, total = run(losses, weighs)
        if reduction == "sum":
            total = None
    title = "NllLoss2DBackward0" if len(input._layout.shape) > 2 else "NllLossBackward0"
    made._base = None
    record((made,), (input,), title, _gradient, (input, goals, w, total, kept), (sizes, smoothing))
    return made  # type: ignore[no-any-return]


def _gradient(
    wanted: tuple[bool, ...],
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor | None,
    kept: Tensor | None,
    sizes: Classes,
    smoothing: float | None,
) -> tuple[Tensor]:
    if modes.recording:
        return (_composite(grad, input, target, weight, total, sizes, smoothing),)
    grad = grad.contiguous()
    layout = input._layout.as_contiguous()
    kind = None if weight is None else weight._layout.dtype
    plans = layout.place.plans
    if smoothing is None:
        run = plans[NLL_GRADIENT, grad._layout, layout, kind, sizes]
        return (run(grad, total, target, weight),)
    smooth = smoothing > 0
    x = input.contiguous()
    all_weights = None
    if smooth and weight is not None:
        all_weights = weight.sum(dtype=statistics_type(layout.dtype))
    run = plans[CROSS_ENTROPY_GRADIENT, grad._layout, layout, kind, sizes, smooth]
    return (run(grad, total, x, target, weight, all_weights, kept, smoothing),)


def _composite(
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor | None,
    sizes: Classes,
    smoothing: float | None,
) -> Tensor:
    """The same gradient as operations that have derivatives themselves."""
    wide = statistics_type(input._layout.dtype)
    shape, lines = (sizes.outer, sizes.classes, sizes.inner), (sizes.outer, 1, sizes.inner)
    goals = target.reshape(lines)
    counts = goals != sizes.ignored
    goals = goals.masked_fill(~counts, 0)
    by = grad.to(wide)
    if total is not None:
        by = by / total
    by = (by.reshape(lines) if grad._layout.shape else by.expand(lines)).masked_fill(~counts, 0)
    w = input.new_ones(sizes.classes, dtype=wide) if weight is None else weight.to(wide)
    own = w[goals]
    sharp = 1.0 if smoothing is None else 1 - smoothing
    at_goals = input.new_zeros(shape, dtype=wide).scatter_add(1, goals, by * own * -sharp)
    if smoothing is None:
        return at_goals.reshape(input._layout.shape).to(input._layout.dtype)
    chances = input.to(wide).reshape(shape).softmax(1)
    spread = smoothing / sizes.classes
    found = by * (chances * (own * sharp + w.sum() * spread) - w.reshape(1, -1, 1) * spread) + at_goals
    return found.reshape(input._layout.shape).to(input._layout.dtype)  # type: ignore[no-any-return]
