"""Losses whose target is a class: cross entropy and negative log-likelihood.

Their kernels see a contiguous input as ``(outer, classes, inner)``, with a target for each line of
classes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import losses as kernels
from nvrtc_kernels import reduction as reduction_kernels
from nvrtc_kernels.dtypes import bfloat16, float16, float32, int64, uint8
from nvrtc_kernels.losses import Classes, statistics_type
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core import layout as layouts
from tensor.core.base import empty, maker, wrap
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.plans import planned
from tensor.core.plans.fills import filled
from tensor.operations.autocast import FLOAT32, Autocast, cast_all
from tensor.operations.creation.like import zeros_like
from tensor.operations.definition import operation
from tensor.operations.normalization.row_normalization import in_compute_dtype, tensor_of
from tensor.operations.normalization.softmax import log_softmax
from tensor.operations.scratch import launch_reduction

from .loss import check_same_device, reduced, reduction_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]

# The kernels and their host forms


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x._address


def _vector(sizes: Classes, like: Layout, count: int = 1) -> Layout:
    return layouts.contiguous[(count * sizes.lines,), statistics_type(like.dtype), like.device_state]


class _Targets:
    """Targets on the host: which are not ignored, and the weights of their classes.

    Attributes
    ----------
    valid : array or None
        Which are not ignored; ``None`` where all count, and by 1.
    weights : array
        Weights of the targets, 0 of what is ignored; one element where all count by 1.

    Raises
    ------
    IndexError
        If a target is no class.
    """

    def __init__(self, target: Tensor, sizes: Classes, weight: Tensor | None, scalar: Any) -> None:
        self._lines = sizes.lines
        classes = target._host.reshape(sizes.outer, 1, sizes.inner)
        self.valid: Array | None = None
        self.weights: Array = np.ones((1, 1, 1), scalar)
        # Negative numbers are large ones without a sign.
        unsigned = classes.view(np.uint64) if classes.dtype == np.int64 else classes
        in_range = (unsigned < sizes.classes).all() and (unsigned is not classes or classes.min() >= 0)
        if weight is not None or not in_range or 0 <= sizes.ignored < sizes.classes:
            self.valid = valid = classes != sizes.ignored
            wrong = valid & ((classes < 0) | (classes >= sizes.classes))
            if wrong.any():
                raise IndexError(
                    f"Target {classes[wrong][0]} is out of bounds: there are {sizes.classes} classes, from 0 on; a target that "
                    f"counts nothing is ignore_index={sizes.ignored}"
                )
            classes = np.where(valid, classes, 0)
            weights = 1 if weight is None else in_compute_dtype(weight).astype(scalar, copy=False)[classes]
            self.weights = np.where(valid, weights, scalar(0))
        #: Positions of the targets in arrays of all classes.
        self._positions = np.arange(0, sizes.lines * sizes.classes, sizes.classes).reshape(sizes.outer, 1, -1)
        if sizes.inner > 1:
            lines = np.arange(sizes.inner) - sizes.classes * np.arange(sizes.inner)
            self._positions += lines + classes.astype(np.int64) * sizes.inner
        else:
            self._positions += classes

    def gather(self, array: Array) -> Array:
        """Elements of ``array`` at the targets."""
        return array.reshape(-1)[self._positions]

    def add(self, array: Array, values: Any) -> None:
        """Add ``values`` to the elements of a contiguous ``array`` at the targets."""
        array.reshape(-1)[self._positions] += values

    def weighted(self, array: Array) -> Array:
        """``array`` times the weights."""
        return array if self.valid is None else self.weights * array

    def counted(self, array: Array) -> Array:
        """``array``, and 0 for what is ignored."""
        return array if self.valid is None else np.where(self.valid, array, array.dtype.type(0))

    def weight_of_lines(self) -> Array:
        """The weight of each target."""
        return np.ones(self._lines, self.weights.dtype) if self.valid is None else self.weights


def _as_classes(input: Tensor, sizes: Classes) -> Array:
    return in_compute_dtype(input).reshape(sizes.outer, sizes.classes, sizes.inner)


def _class_weights(weight: Tensor | None, dtype: Any) -> Array | float:
    return 1.0 if weight is None else in_compute_dtype(weight).astype(dtype, copy=False).reshape(1, -1, 1)


def _cross_entropy_plan(
    layout: Layout,
    weight: dtype | None,
    sizes: Classes,
    smooth: bool,
    summed: bool,
    reads: dtype | None = None,
) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """``state.plans[operation, input, weight's dtype, sizes, smooth, summed](input, target, weight, smoothing)``.

    ``summed`` says that of losses and weights nothing but the sums matter: a device adds some up. A further dtype in the key
    is that of the input in memory, on a device, in place of that of its layout.

    The result is the loss and the weight of each line, and statistics that the gradient needs: the largest logit of
    each line, and the logarithm of the sum of exponentials from there on.
    """
    out, two = _vector(sizes, layout), _vector(sizes, layout, 2)
    if not layout.device_state.is_cuda:

        def on_host(
            input: Tensor, target: Tensor, weight: Tensor | None, smoothing: float
        ) -> tuple[Tensor, Tensor, Tensor]:
            x = _as_classes(input, sizes)
            targets = _Targets(target, sizes, weight, x.dtype.type)
            with np.errstate(all="ignore"):
                largest = x.max(1, keepdims=True)
                rest = np.log(np.exp(x - largest).sum(1, keepdims=True, dtype=x.dtype))
                loss = targets.weighted((largest - targets.gather(x)) + rest)
                if smooth:
                    every = (_class_weights(weight, x.dtype) * ((largest - x) + rest)).sum(1, keepdims=True)
                    loss = loss * (1 - smoothing) + every * (smoothing / sizes.classes)
                loss = targets.counted(loss).astype(x.dtype, copy=False)
            statistics = np.concatenate([largest.reshape(-1), rest.reshape(-1)])
            return _flat(loss, out), _flat(targets.weight_of_lines(), out), tensor_of(statistics, two)

        return on_host
    state: Any = layout.device_state
    run = kernels.plan_cross_entropy(
        state.native, sizes, layout.dtype, weight, smooth=smooth, summed=summed, reads=reads
    )
    count = kernels.loss_count(sizes, layout.dtype, summed=summed)
    out = layouts.contiguous[(count,), statistics_type(layout.dtype), state]
    local, make, make_two = state.local, maker(out), maker(two)

    def on_device(
        input: Tensor, target: Tensor, weight: Tensor | None, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        loss, weights, statistics = make(), make(), make_two()
        run(
            local.stream.handle, smoothing, input._address, target._address, _address(weight), loss._address,
            weights._address, statistics._address,
        )  # fmt: skip
        return loss, weights, statistics

    return on_device


def _flat(array: Array, out: Layout) -> Tensor:
    """A vector of an array that nobody else has."""
    return tensor_of(np.ascontiguousarray(array.reshape(-1)), out, fresh=True)


def _cross_entropy_gradient_plan(
    grad: Layout,
    layout: Layout,
    weight: dtype | None,
    sizes: Classes,
    smooth: bool,
    reads: dtype | None = None,
    gives: dtype | None = None,
) -> Callable[..., Tensor]:
    """``state.plans[operation, grad, input, weight's dtype, sizes, smooth]``.

    ``run(grad, total, input, target, weight, all, statistics, smoothing)``. Further dtypes in the key are those of the input
    and the result in memory, on a device, in place of that of the layout.
    """
    if not layout.device_state.is_cuda:

        def on_host(
            grad: Tensor, total: Tensor | None, input: Tensor, target: Tensor, weight: Tensor | None,
            _: Any, statistics: Tensor, smoothing: float,
        ) -> Tensor:  # fmt: skip
            x = _as_classes(input, sizes)
            targets = _Targets(target, sizes, weight, x.dtype.type)
            with np.errstate(all="ignore"):
                largest, rest = statistics._host.reshape(2, sizes.outer, 1, sizes.inner)
                result = np.exp((x - largest) - rest)
                by = _line_gradients(grad, total, sizes, targets)
                if smooth:
                    weights = _class_weights(weight, x.dtype)
                    share = smoothing / sizes.classes
                    every = sizes.classes if weight is None else np.sum(weights)
                    result *= targets.weights * (1 - smoothing) + every * share
                    result -= weights * share
                    targets.add(result, -targets.weights * (1 - smoothing))
                else:
                    result = targets.weighted(result)
                    targets.add(result, -targets.weights)
                result *= by
                result = targets.counted(result)
            return tensor_of(result.astype(x.dtype, copy=False), layout)

        return on_host
    state: Any = layout.device_state
    run = kernels.plan_cross_entropy_backward(
        state.native,
        sizes,
        grad.dtype,
        layout.dtype,
        weight,
        smooth=smooth,
        each=bool(grad.shape),
        reads=reads,
        gives=gives,
    )
    local, out = state.local, layout if gives is None else layout.with_dtype(gives)
    make = maker(out)

    def on_device(*operands: Any) -> Tensor:
        *tensors, smoothing = operands
        result = make()
        addresses = [_address(x) for x in tensors]
        run(local.stream.handle, smoothing, *addresses, result._address)
        return result

    return on_device


def _line_gradients(grad: Tensor, total: Tensor | None, sizes: Classes, targets: _Targets) -> Array:
    result = in_compute_dtype(grad)
    if total is not None:
        result = result / in_compute_dtype(total)
    if result.shape:
        result = result.reshape(sizes.outer, 1, sizes.inner)
    return targets.counted(result).astype(targets.weights.dtype, copy=False)


def _nll_plan(layout: Layout, weight: dtype | None, sizes: Classes) -> Callable[..., tuple[Tensor, Tensor]]:
    """``state.plans[operation, input, weight's dtype, sizes](input, target, weight)``: losses, and their weights."""
    out = _vector(sizes, layout)
    if not layout.device_state.is_cuda:

        def on_host(input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
            x = _as_classes(input, sizes)
            targets = _Targets(target, sizes, weight, x.dtype.type)
            with np.errstate(all="ignore"):
                loss = targets.counted(-targets.weights * targets.gather(x))
            return _flat(loss, out), _flat(targets.weight_of_lines(), out)

        return on_host
    state: Any = layout.device_state
    run = kernels.plan_nll(state.native, sizes, layout.dtype, weight)
    local = state.local

    def on_device(input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        loss, weights = empty(out), empty(out)
        run(
            local.stream.handle, input._address, target._address, _address(weight), loss._address,
            weights._address,
        )  # fmt: skip
        return loss, weights

    return on_device


def _nll_gradient_plan(
    grad: Layout, layout: Layout, weight: dtype | None, sizes: Classes
) -> Callable[..., Tensor]:
    """``state.plans[operation, grad, input, weight's dtype, sizes](grad, total, target, weight)``."""
    if not layout.device_state.is_cuda:

        def on_host(grad: Tensor, total: Tensor | None, target: Tensor, weight: Tensor | None) -> Tensor:
            scalar = statistics_type(layout.dtype).numpy.type
            targets = _Targets(target, sizes, weight, scalar)
            result = np.zeros((sizes.outer, sizes.classes, sizes.inner), scalar)
            with np.errstate(all="ignore"):
                by = _line_gradients(grad, total, sizes, targets)
                targets.add(result, targets.counted(-targets.weights * by))
            return tensor_of(result, layout)

        return on_host
    state: Any = layout.device_state
    run = kernels.plan_nll_backward(
        state.native, sizes, grad.dtype, layout.dtype, weight, each=bool(grad.shape)
    )
    local = state.local

    def on_device(*tensors: Any) -> Tensor:
        result = filled(layout, 0)
        run(local.stream.handle, *[_address(x) for x in tensors], result._address)
        return result

    return on_device


def _mean_plan(layout: Layout, mean: bool, out: dtype) -> Callable[..., tuple[Tensor, Tensor]]:
    """``state.plans[operation, losses, mean, dtype](losses, weights)``: their mean or sum, and what they weigh."""
    outs = (
        layouts.contiguous[(), out, layout.device_state],
        layouts.contiguous[(), layout.dtype, layout.device_state],
    )
    if not layout.device_state.is_cuda:

        def on_host(losses: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
            sums = [np.add.reduce(each._host, axis=None) for each in (losses, weights)]
            with np.errstate(all="ignore"):
                return tensor_of(np.array(sums[0] / sums[1] if mean else sums[0]), outs[0]), wrap(
                    np.array(sums[1]), outs[1]
                )

        return on_host
    state: Any = layout.device_state
    launch = reduction_kernels.plan(
        state.native, kernels.WEIGHTED_MEAN if mean else kernels.WEIGHTED_SUM, layout.shape, (0,),
        [((0,), out), ((0,), layout.dtype)], [((1,), layout.dtype)] * 2,
    )  # fmt: skip

    def on_device(losses: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        result, total = (empty(each) for each in outs)
        launch_reduction(state, launch, result._address, total._address, losses._address, weights._address)
        return result, total

    return on_device


CROSS_ENTROPY, CROSS_ENTROPY_GRADIENT, NLL, NLL_GRADIENT, MEAN = (
    planned(_cross_entropy_plan), planned(_cross_entropy_gradient_plan), planned(_nll_plan), planned(_nll_gradient_plan), planned(_mean_plan),
)  # fmt: skip


# Recording


def _loss_of_classes(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    sizes: Classes,
    reduction: str,
    smoothing: float | None,
    in_single: bool = False,
) -> Tensor:
    """The loss, recorded. Where ``smoothing`` is ``None`` the input is log-probabilities, else logits.

    Logits of half precision on a device are read as float32 with ``in_single``: the loss is that of a cast, which is not made.
    """
    x, classes = input.contiguous(), target.contiguous()
    layout = x._layout
    reads: tuple[dtype, ...] = ()
    if in_single:
        layout, reads = layout.with_dtype(float32), (layout.dtype,)
    w = None if weight is None else weight.detach().contiguous()
    weight_dtype = None if w is None else w._layout.dtype
    plans = x._layout.device_state.plans
    statistics = None
    if smoothing is None:
        losses, weights = plans[NLL, x._layout, weight_dtype, sizes](x, classes, w)
    else:
        run = plans[CROSS_ENTROPY, layout, weight_dtype, sizes, smoothing > 0, reduction != "none", *reads]
        losses, weights, statistics = run(x, classes, w, smoothing)
    total: Tensor | None = None
    if reduction == "none":
        result = losses.view(target._layout.shape).to(layout.dtype)
    else:
        run = plans[MEAN, losses._layout, reduction == "mean", layout.dtype]
        result, total = run(losses, weights)
        if reduction == "sum":
            total = None
    result._base = None
    formulas = _NLL if smoothing is None else _LOGITS_IN_SINGLE if in_single else _LOGITS
    formula = formulas[len(layout.shape) > 2]
    formula.record((result,), (input,), (classes, w, total, statistics), (sizes, reduction, smoothing))
    return result  # type: ignore[no-any-return]


def _gradient(
    _: tuple[bool, ...],
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor | None,
    statistics: Tensor | None,
    sizes: Classes,
    reduction: str,
    smoothing: float,
) -> tuple[Tensor]:
    """The gradient of the logits, of their dtype, also where the loss is of float32 and they are not."""
    grad = grad.contiguous()
    layout = input._layout.as_contiguous()
    dtypes: tuple[dtype, ...] = ()
    if grad._layout.dtype is not layout.dtype:
        layout, dtypes = layout.with_dtype(float32), (layout.dtype, layout.dtype)
    weight_dtype = None if weight is None else weight._layout.dtype
    smooth = smoothing > 0
    all_weights = None
    if smooth and weight is not None:
        all_weights = weight.sum(dtype=statistics_type(layout.dtype))
    run = layout.device_state.plans[
        CROSS_ENTROPY_GRADIENT, grad._layout, layout, weight_dtype, sizes, smooth, *dtypes
    ]
    return (run(grad, total, input.contiguous(), target, weight, all_weights, statistics, smoothing),)


def _composed(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor | None,
    sizes: Classes,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """The loss of logits, made of differentiable operations."""
    shape = input._layout.shape
    log_probs = input.log_softmax(min(1, len(shape) - 1), dtype=statistics_type(input._layout.dtype))
    losses = _loss_of_classes(log_probs, target, weight, sizes, "none", None) * (1 - smoothing)
    if smoothing:
        lines = log_probs.reshape(sizes.outer, sizes.classes, sizes.inner)
        if weight is not None:
            lines = lines * weight.reshape(1, -1, 1)
        uniform = lines.sum(1).reshape(losses._layout.shape).masked_fill(target == sizes.ignored, 0)
        losses = losses - uniform * (smoothing / sizes.classes)
    if reduction == "mean":
        losses = losses.sum() / total
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(input._layout.dtype)


def _composed_in_single(input: Tensor, *arguments: Any) -> Tensor:
    return _composed(input.to(float32), *arguments)


def _nll_gradient(
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor | None,
    sizes: Classes,
    reduction: str,
    _: None,
) -> Tensor:
    """The gradient of the log-probabilities, recorded; it is linear in ``grad`` and does not depend on the input."""
    layout = input._layout.as_contiguous()
    weight_dtype = None if weight is None else weight._layout.dtype
    with unrecorded():
        by = grad.contiguous()
        run = layout.device_state.plans[NLL_GRADIENT, by._layout, layout, weight_dtype, sizes]
        result: Tensor = run(by, total, target, weight)
    formula = _NLL_OF_GRADIENTS[len(input._layout.shape) > 2]
    formula.record((result,), (grad, input), (target, weight), (sizes, reduction))
    return result


def _nll_second_gradient(
    mask: tuple[bool, ...],
    grad: Tensor,
    target: Tensor,
    weight: Tensor | None,
    sizes: Classes,
    reduction: str,
) -> tuple[Tensor | None, Tensor | None]:
    return (
        _loss_of_classes(grad, target, weight, sizes, reduction, None) if mask[0] else None,
        zeros_like(grad) if mask[1] else None,
    )


#: Of log-probabilities, and of the gradients of their losses; of logits. The second of each two is for those with
#: dimensions behind that of the classes.
_NLL = [
    BackwardFormula(
        name,
        "input target weight total statistics",
        [Derivative(_nll_gradient, needs="input target weight total")],
    )
    for name in ("NllLossBackward0", "NllLoss2DBackward0")
]
_NLL_OF_GRADIENTS = [
    BackwardFormula(
        name, "grad input target weight", joint=Derivative(_nll_second_gradient, needs="target weight")
    )
    for name in ("NllLossBackwardBackward0", "NllLoss2DBackwardBackward0")
]
_LOGITS, _LOGITS_IN_SINGLE = (
    [
        BackwardFormula(
            name,
            "input target weight total statistics",
            joint=Derivative(_gradient, needs="input target weight total statistics"),
            composition=Composition(composed, needs="input target weight total"),
        )
        for name in ("NllLossBackward0", "NllLoss2DBackward0")
    ]
    for composed in (_composed, _composed_in_single)
)


# The functions


def _sizes(name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Classes:
    shape, target_shape = tuple(input._layout.shape), tuple(target._layout.shape)
    if not shape:
        raise ValueError(
            f"{name}(): Expected input with at least 1 dimension, (C,), (N, C) or (N, C, d1, ...), got a number"
        )
    if not input._layout.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {input._layout.dtype!r}')
    classes = shape[0] if len(shape) == 1 else shape[1]
    expected = shape[:1][:0] if len(shape) == 1 else (shape[0], *shape[2:])
    if target_shape != expected:
        if len(shape) > 1 and target_shape and target_shape[0] != shape[0]:
            raise ValueError(
                f"{name}(): Expected input batch_size ({shape[0]}) to match target batch_size ({target_shape[0]}): input has "
                f"shape {list(shape)}, target {list(target_shape)}"
            )
        raise RuntimeError(
            f"{name}(): Expected target size {list(expected)}, got {list(target_shape)}, for an input of shape {list(shape)}"
        )
    if target._layout.dtype not in (int64, uint8):
        raise RuntimeError(
            f"{name}(): expected scalar type Long but found {target._layout.dtype!r}: targets are classes as int64, or "
            f"probabilities in the shape of the input, {list(shape)}, for cross_entropy"
        )
    if weight is not None and tuple(weight._layout.shape) != (classes,):
        raise RuntimeError(
            f"{name}(): weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight._layout.shape)}"
        )
    outer = 1 if len(shape) == 1 else shape[0]
    return Classes(outer, classes, prod(shape[2:]), ignore_index)


def _of_classes(
    name: str,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float | None,
    in_single: bool = False,
) -> Tensor:
    check_same_device(name, input, target=target, weight=weight)
    sizes = _sizes(name, input, target, weight, ignore_index)
    if not sizes.lines or not sizes.classes:
        if in_single:
            input = input.to(float32)
        return reduced(input.sum() * 0 + input.new_zeros(target._layout.shape), reduction)
    return _loss_of_classes(input, target.to(int64), weight, sizes, reduction, smoothing, in_single)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood ``-weight[target] * input[target]`` of each line of classes.

    Parameters
    ----------
    input : Tensor
        Log-probabilities of a floating dtype, of shape (C,), (N, C) or (N, C, d1, ...).
    target : Tensor
        Classes, int64 or uint8 of shape (), (N,) or (N, d1, ...).
    weight : Tensor, optional
        Weights of the classes, of shape (C,).
    ignore_index : int
        Target that is left out of the loss.
    reduction : str
        ``"none"`` (a loss for each target), ``"sum"``, or ``"mean"``: the sum divided by the weights of the targets.
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    IndexError
        If a target is not a class; on CUDA that is a failed assertion, which a later call raises.
    ValueError
        If the batch sizes differ, the input is 0-dim, or there is no such reduction.
    RuntimeError
        If input and target differ in d1, ..., the target is neither int64 nor uint8, ``weight`` has not one element
        for each class, or devices differ.
    NotImplementedError
        If the input's dtype is not a floating one.

    Examples
    --------
    >>> log_p = tensor.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> nn.functional.nll_loss(log_p, tensor.tensor([1, 0]), reduction="none")
    tensor([0.2877, 0.6931])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_classes("nll_loss", input, target, weight, ignore_index, reduction, None)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits and a target: ``-sum(target * log_softmax(input))`` over the classes.

    A target of classes takes one kernel forward and one backward, and nothing of the input's size is saved but the
    input.

    Parameters
    ----------
    input : Tensor
        Logits of a floating dtype, of shape (C,), (N, C) or (N, C, d1, ...).
    target : Tensor
        Classes, int64 or uint8 of shape (), (N,) or (N, d1, ...); or probabilities, of the input's shape and a
        floating dtype.
    weight : Tensor, optional
        Weights of the classes, of shape (C,).
    ignore_index : int
        Target that is left out of the loss; of classes only.
    reduction : str
        ``"none"`` (a loss for each target), ``"sum"``, or ``"mean"``: the sum divided by the weights of the targets,
        or by the number of targets where these are probabilities.
    size_average, reduce : bool, optional
        Deprecated names of reductions.
    label_smoothing : float
        Part of the target, between 0 and 1, that is replaced by the uniform distribution (C. Szegedy et al.,
        "Rethinking the Inception Architecture for Computer Vision", 2016).

    Raises
    ------
    IndexError
        If a target is not a class; on CUDA that is a failed assertion, which a later call raises.
    ValueError
        If the batch sizes differ, the input is 0-dim, or there is no such reduction.
    RuntimeError
        If input and target differ in d1, ..., the target has another dtype than those above, ``weight`` has not one
        element for each class, ``label_smoothing`` is not between 0 and 1, ``ignore_index`` comes with probabilities,
        or devices differ.
    NotImplementedError
        If the input's dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.cross_entropy(tensor.tensor([[2.0, 0.0], [0.0, 0.0]]), tensor.tensor([0, 1]))
    tensor(0.4100)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    arguments = ignore_index, reduction, float(label_smoothing)
    casts = modes.autocast
    if casts is None or casts.cuda is None or not input._layout.device_state.is_cuda:
        return _cross_entropy(input, target, weight, *arguments)
    # Of logits of half precision in a block of autocast the kernel reads and writes what casts would.
    modes.autocast = None
    try:
        target, weight = (cast_all(x, float32, True, casts.keeps) for x in (target, weight))
        of_classes = not target._layout.dtype.is_floating_point
        in_single = of_classes and input._layout.dtype in (bfloat16, float16)
        if not in_single:
            input = cast_all(input, float32, True, casts.keeps)
        return _cross_entropy(input, target, weight, *arguments, in_single=in_single)
    finally:
        modes.autocast = casts


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    in_single: bool = False,
) -> Tensor:
    if target._layout.shape == input._layout.shape and target._layout.dtype.is_floating_point:
        check_same_device("cross_entropy", input, target=target, weight=weight)
        return _of_probabilities(input, target, weight, reduction, smoothing, ignore_index)
    return _of_classes("cross_entropy", input, target, weight, ignore_index, reduction, smoothing, in_single)


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, ignored: int
) -> Tensor:
    if ignored >= 0:
        raise RuntimeError(
            f"ignore_index is not supported for floating point target: there are no classes to ignore, got {ignored}"
        )
    shape = input._layout.shape
    if not shape:
        raise ValueError("cross_entropy(): Expected input with at least 1 dimension, got a number")
    dim = 0 if len(shape) == 1 else 1
    classes = shape[dim]
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    losses: Any = log_softmax(input, dim) * target
    if weight is not None:
        if tuple(weight._layout.shape) != (classes,):
            raise RuntimeError(
                "cross_entropy: weight tensor should be defined either for all "
                f"{classes} classes or no classes but got weight tensor of shape: {list(weight._layout.shape)}"
            )
        losses = losses * weight.view([classes if d == dim else 1 for d in range(len(shape))])
    if reduction == "none":
        return -losses.sum(dim)  # type: ignore[no-any-return]
    total = -losses.sum()
    return total if reduction == "sum" else total / (input._layout.numel // max(classes, 1))  # type: ignore[no-any-return]


# Margins between classes
