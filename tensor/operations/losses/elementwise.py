"""Losses that compare each element of an input with one of a target, each function below its formula."""

from __future__ import annotations

from math import log as log_of
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase
from tensor.core.host.scratch import scratch
from tensor.core.plans.steps import host_step, one_step
from tensor.core.warning import warn_caller
from tensor.operations.autocast import FLOAT32, REFUSED, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.powers import exp, log, log1p, square
from tensor.operations.pointwise.selection import where
from tensor.operations.special.evaluation import log1p_from_0
from tensor.operations.special.logistic import logistic_on_host, sigmoid

from .loss import Loss, check_same_device, compared, derivative, difference_loss, reduced, reduction_of

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

# Losses of a difference

MSE = difference_loss(
    "mse_loss",
    value=("{d} * {d}", lambda d: np.square(d, out=d)),
    slope=("{d} * {T}(2)", lambda d: np.add(d, d, out=d)),
    curvature=("{T}(2)", lambda d: np.full_like(d, 2), lambda d: 2.0),
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared error ``(input - target) ** 2``.

    Parameters
    ----------
    input, target : Tensor
        Of a floating dtype and the same shape; other shapes that broadcast give a warning.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.
    weight : Tensor, optional
        Factors of the losses, of their shape; ``"mean"`` then divides by the sum of the weights.

    Raises
    ------
    ValueError
        If there is no such reduction, or the weight has another shape.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    NotImplementedError
        If no dtype is a floating one.

    Examples
    --------
    >>> nn.functional.mse_loss(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0]))
    tensor(2.)
    """
    return compared(MSE, input, target, weight, reduction_of(reduction, size_average, reduce))


L1 = difference_loss(
    "l1_loss",
    value=("fabs({d})", lambda d: np.abs(d, out=d)),
    slope=("({d} > 0 ? {T}(1) : {d} < 0 ? {T}(-1) : {d} * {T}(0))", np.sign),
    curvature=None,
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute error ``abs(input - target)``; its gradient is 0 where both are equal.

    Parameters
    ----------
    input, target : Tensor
        Of the same shape and any numeric dtype; other shapes that broadcast give a warning.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.
    weight : Tensor, optional
        Factors of the losses, of their shape; ``"mean"`` then divides by the sum of the weights.

    Raises
    ------
    ValueError
        If there is no such reduction, or the weight has another shape.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    dtypes = input._layout.dtype, target._layout.dtype
    if any(dtype.is_complex for dtype in dtypes) or not any(dtype.is_floating_point for dtype in dtypes):
        # Complex numbers have another derivative, and integers none.
        return reduced((input - target).abs(), reduction)
    return compared(L1, input, target, weight, reduction)


def _huber(d: Any, p: Any) -> Any:
    """Both parts of the loss in one formula, with the same roundings: half of a number is exact."""
    limited = d.clip(-p, p, out=scratch(d))
    half = np.multiply(limited, d.dtype.type(0.5), out=scratch(d))
    d -= half
    d *= limited
    return d


def _smooth_l1(d: Any, p: Any) -> Any:
    """The same by ``p``, without products that overflow."""
    limited = np.divide(d, p, out=scratch(d)) if p != 1 else d
    limited = limited.clip(-1, 1, out=scratch(d))
    half = np.multiply(limited, p * d.dtype.type(0.5), out=scratch(d))
    d -= half
    d *= limited
    return d


SMOOTH_L1 = difference_loss(
    "smooth_l1_loss",
    value=(
        "(fabs({d}) < {p} ? {T}(0.5) * {d} * {d} / {p} : fabs({d}) - {T}(0.5) * {p})",
        _smooth_l1,
    ),
    slope=(
        "(fabs({d}) < {p} ? {d} / {p} : {d} > 0 ? {T}(1) : {d} < 0 ? {T}(-1) : {d} * {T}(0))",
        lambda d, p: np.clip(np.divide(d, p, out=d), -1, 1, out=d),
    ),
    curvature=(
        "(fabs({d}) < {p} ? {T}(1) / {p} : {T}(0))",
        lambda d, p: np.where(np.abs(d) < p, 1 / p, 0.0).astype(d.dtype),
        lambda d, p: (d.abs() < p).to(d.dtype) / p,
    ),
    scalars=1,
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Quadratic where ``d = abs(input - target)`` is below ``beta``, linear above: :func:`huber_loss` by ``beta``.

    The loss is ``d**2 / (2 * beta)`` or ``d - beta / 2``; with ``beta=0`` it is :func:`l1_loss`.

    Parameters
    ----------
    input, target : Tensor
        Of a floating dtype and the same shape; other shapes that broadcast give a warning.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    RuntimeError
        If ``beta`` is negative, the tensors are on different devices, or their shapes do not broadcast.
    ValueError
        If there is no such reduction.
    NotImplementedError
        If no dtype is a floating one.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return compared(L1, input, target, None, reduction)
    return compared(SMOOTH_L1, input, target, None, reduction, float(beta))


HUBER = difference_loss(
    "huber_loss",
    value=(
        "(fabs({d}) <= {p} ? {T}(0.5) * {d} * {d} : {p} * (fabs({d}) - {T}(0.5) * {p}))",
        _huber,
    ),
    slope=("({d} < -{p} ? -{p} : {d} > {p} ? {p} : {d})", lambda d, p: np.clip(d, -p, p, out=d)),
    curvature=(
        "({d} < -{p} || {d} > {p} ? {T}(0) : {T}(1))",
        lambda d, p: (np.abs(d) <= p).astype(d.dtype),
        lambda d, p: (d.abs() <= p).to(d.dtype),
    ),
    scalars=1,
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Quadratic where ``d = abs(input - target)`` is at most ``delta``, linear above.

    The loss is ``d**2 / 2`` or ``delta * (d - delta / 2)``: P. J. Huber, "Robust Estimation of a Location
    Parameter", 1964.

    Parameters
    ----------
    input, target : Tensor
        Of a floating dtype and the same shape; other shapes that broadcast give a warning.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    weight : Tensor, optional
        Factors of the losses, of their shape; ``"mean"`` then divides by the sum of the weights.

    Raises
    ------
    RuntimeError
        If ``delta`` is not positive, the tensors are on different devices, or their shapes do not broadcast.
    ValueError
        If there is no such reduction, or the weight has another shape.
    NotImplementedError
        If no dtype is a floating one.
    """
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    return compared(HUBER, input, target, weight, reduction_of(reduction), float(delta))


# Losses of probabilities

_IN_RANGE = 'assert({x} >= 0 && {x} <= 1 && "binary_cross_entropy(): an input is not between 0 and 1")'
#: Logarithms are cut off at -100, so that no loss is infinite.
BCE = Loss(
    "binary_cross_entropy",
    value=(
        f"({_IN_RANGE}, ({{y}} - 1) * fmax(log1p(-{{x}}), {{T}}(-100)) - {{y}} * fmax(log({{x}}), {{T}}(-100)))",
        lambda x, y: (y - 1) * np.maximum(np.log1p(-x), -100) - y * np.maximum(np.log(x), -100),
    ),
    of_input=derivative(
        "binary_cross_entropy_backward",
        "(({x} - {y}) / fmax((1 - {x}) * {x}, {T}(1e-12)))",
        lambda x, y: (x - y) / np.maximum((1 - x) * x, x.dtype.type(1e-12)),
        lambda x, y: (x - y) / ((1 - x) * x).clamp(min=1e-12),
    ),
    of_target=derivative(
        "binary_cross_entropy_target_backward",
        "(fmax(log1p(-{x}), {T}(-100)) - fmax(log({x}), {T}(-100)))",
        lambda x, y: np.maximum(np.log1p(-x), -100) - np.maximum(np.log(x), -100),
        lambda x, y: log1p(-x).clamp(min=-100) - log(x).clamp(min=-100),
    ),
)


@one_step
def _check_probabilities(input: Tensor) -> None:
    if not ((input._host >= 0) & (input._host <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=REFUSED, cpu=FLOAT32))
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))``, with logarithms cut off at -100.

    Parameters
    ----------
    input, target : Tensor
        Probabilities, of a floating dtype and the same shape.
    weight : Tensor, optional
        Factors of the losses; broadcast to their shape.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If the shapes differ, or there is no such reduction.
    RuntimeError
        If an input is not between 0 and 1 (on CUDA that is a failed assertion, which a later call raises), if the
        tensors are on different devices, or under autocast on CUDA: take
        :func:`binary_cross_entropy_with_logits` there.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input._layout.shape != target._layout.shape:
        raise ValueError(
            f"Using a target size ({list(target._layout.shape)}) that is different to the input size "
            f"({list(input._layout.shape)}) is deprecated. Please ensure they have the same size."
        )
    check_same_device("binary_cross_entropy", input, target=target, weight=weight)
    if not input._layout.device_state.is_cuda:
        _check_probabilities(input.detach())
    if weight is None:
        return BCE(input, target, reduction=reduction)
    return reduced(BCE(input, target, reduction="none") * weight, reduction)


BCE_WITH_LOGITS = Loss(
    "binary_cross_entropy_with_logits",
    value=(
        "(1 - {y}) * {x} + (fmax(-{x}, {T}(0)) + log1p(exp(-fabs({x}))))",
        lambda x, y: (1 - y) * x + np.clip(-x, 0, np.inf) + log1p_from_0(np.exp(-np.abs(x))),
    ),
    of_input=derivative(
        "binary_cross_entropy_with_logits_backward",
        "(1 / (1 + exp(-{x})) - {y})",
        lambda x, y: logistic_on_host(x) - y,
        lambda x, y: sigmoid(x) - y,
    ),
    of_target=derivative(
        "binary_cross_entropy_with_logits_target_backward",
        "(-{x})",
        lambda x, y: -x,
        lambda x, y: -x,
    ),
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(input)``, computed without overflow.

    Parameters
    ----------
    input : Tensor
        Logits, of a floating dtype and any shape.
    target : Tensor
        Probabilities of the same shape.
    weight : Tensor, optional
        Factors of the losses; broadcast to their shape.
    pos_weight : Tensor, optional
        Factors of the term with ``target``, one for each class in the last dimension for example; broadcast.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If the shapes differ, or there is no such reduction.
    RuntimeError
        If the tensors are on different devices.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input._layout.shape != target._layout.shape:
        raise ValueError(
            f"Target size ({list(target._layout.shape)}) must be the same as input size ({list(input._layout.shape)})"
        )
    check_same_device(
        "binary_cross_entropy_with_logits", input, target=target, weight=weight, pos_weight=pos_weight
    )
    if weight is None and pos_weight is None:
        return BCE_WITH_LOGITS(input, target, reduction=reduction)
    if pos_weight is None:
        losses = BCE_WITH_LOGITS(input, target, reduction="none")
    else:
        losses = (1 - target) * input + ((pos_weight - 1) * target + 1) * softplus_of(-input)
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction)


def softplus_of(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` without a threshold: the cross entropy of logit ``x`` and target 0."""
    return BCE_WITH_LOGITS(x, x.new_zeros(()), reduction="none")


#: Of log-probabilities, and probabilities.
KL_DIV = Loss(
    "kl_div",
    value=(
        "(({y} == 0 ? {T}(0) : {y} * log({y})) - {y} * {x})",
        lambda x, y: np.where(y == 0, 0, y * np.log(np.where(y == 0, 1, y))).astype(y.dtype) - y * x,
    ),
    of_input=derivative("kl_div_backward", "(-{y})", lambda x, y: -y, lambda x, y: -y),
    of_target=derivative(
        "kl_div_target_backward",
        "({y} == 0 ? {T}(0) : log({y}) + 1 - {x})",
        lambda x, y: np.where(y == 0, y.dtype.type(0), np.log(y) + 1 - x),
        lambda x, y: (log(y) + 1 - x).masked_fill(y == 0, 0.0),
    ),
)
#: Of log-probabilities on both sides.
KL_DIV_LOG = Loss(
    "kl_div_of_logarithms",
    value=("exp({y}) * ({y} - {x})", lambda x, y: np.exp(y) * (y - x)),
    of_input=derivative(
        "kl_div_of_logarithms_backward", "(-exp({y}))", lambda x, y: -np.exp(y), lambda x, y: -exp(y)
    ),
    of_target=derivative(
        "kl_div_of_logarithms_target_backward",
        "(exp({y}) * ({y} - {x} + 1))",
        lambda x, y: np.exp(y) * (y - x + 1),
        lambda x, y: exp(y) * (y - x + 1),
    ),
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence ``target * (log(target) - input)`` of ``target`` from ``exp(input)``.

    Parameters
    ----------
    input : Tensor
        Log-probabilities, of a floating dtype and any shape.
    target : Tensor
        Probabilities (0 gives a loss of 0), of a shape that broadcasts.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` (over all elements, which is not the divergence; it warns),
        ``"sum"``, or ``"batchmean"``: the sum divided by the size of the first dimension.
    size_average, reduce : bool, optional
        Deprecated names of reductions.
    log_target : bool
        Whether the target is log-probabilities too.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.

    Examples
    --------
    >>> log_p = tensor.tensor([[0.5, 0.5]]).log()
    >>> nn.functional.kl_div(log_p, tensor.tensor([[0.25, 0.75]]), reduction="batchmean")
    tensor(0.1308)
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    elif reduction == "mean":
        warn_caller(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' "
            "divides only by the batch size, and aligns with the KL div math definition.",
        )
    loss = KL_DIV_LOG if log_target else KL_DIV
    if reduction == "batchmean":
        total = loss(input, target, reduction="sum")
        return total / input._layout.shape[0] if input._layout.shape else total
    check_same_device(loss.name, input, target=target)
    return loss(input, target, reduction=reduction_of(reduction))


# Likelihoods


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts ``target`` under Poisson distributions.

    Parameters
    ----------
    input, target : Tensor
        Rates, or their logarithms, and counts, of shapes that broadcast.
    log_input : bool
        Whether the input is logarithms: the loss is ``exp(input) - target * input``, else
        ``input - target * log(input + eps)``.
    full : bool
        Whether Stirling's approximation of ``log(target!)`` is added, where the target is above 1.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    losses: Any = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(2 * pi * target)
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, reduction)


@host_step
def _check_variances(variances: Any) -> None:
    if (variances < 0).any():
        raise ValueError("var has negative entry/entries")


@operation(namespace="nn.functional", method=False)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of ``target`` under normal distributions of mean ``input`` and variance ``var``.

    The loss is ``(log(v) + (input - target)**2 / v) / 2`` with ``v = max(var, eps)``.

    Parameters
    ----------
    input, target : Tensor
        Of a floating dtype and shapes that broadcast.
    var : Tensor or float
        Of the input's shape, or without its last dimension, or with 1 there.
    full : bool
        Whether the constant ``log(2 * pi) / 2`` is added.
    eps : float
        Smallest variance; gradients pass as if nothing had been cut off.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).

    Raises
    ------
    ValueError
        If a variance is negative (to know it, the host waits for the device), its shape is none of those above, or
        there is no such reduction.
    """
    if not isinstance(var, TensorBase):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full((), float(var)).expand(input._layout.shape)
    expected, shape = tuple(input._layout.shape), tuple(var._layout.shape)
    if shape != expected:
        if shape == expected[:-1]:
            var = var.unsqueeze(-1)
        elif len(expected) != len(shape) or expected[:-1] != shape[:-1] or shape[-1] != 1:
            raise ValueError(
                f"var is of incorrect size: {list(shape)}, for an input of shape {list(expected)}"
            )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    constant = var.detach()
    _check_variances(constant)
    variance: Any = var + (constant.clamp(min=eps) - constant)
    difference = input - target
    losses = 0.5 * (log(variance) + square(difference) / variance)
    if full:
        losses = losses + 0.5 * log_of(2 * pi)
    return reduced(losses, reduction)


# Losses of signs


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Logistic loss ``log(1 + exp(-target * input))`` of targets 1 and -1.

    Parameters
    ----------
    input, target : Tensor
        Of a floating dtype and shapes that broadcast.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    check_same_device("soft_margin_loss", input, target=target)
    return reduced(softplus_of(-target * input), reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Parameters
    ----------
    input : Tensor
        Distances, of any shape and a numeric dtype.
    target : Tensor
        1 and -1, of a shape that broadcasts.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    check_same_device("hinge_embedding_loss", input, target=target)
    zero = input.new_zeros(())
    apart = where(target != 1, (margin - input).clamp(min=0), zero)
    return reduced(apart + where(target != -1, input, zero), reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``: target 1 ranks the first input higher, -1 the second.

    Parameters
    ----------
    input1, input2, target : Tensor
        Of shapes with the same number of dimensions that broadcast.
    reduction : str
        ``"none"`` (a loss for each element), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the numbers of dimensions differ, or the shapes do not broadcast.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    ranks = len(input1._layout.shape), len(input2._layout.shape), len(target._layout.shape)
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1._layout.shape)}, input2: {list(input2._layout.shape)}, target: {list(target._layout.shape)} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)
