"""Losses of each element of an input and the same of a target.

A loss is an expression. Without a reduction it is a pointwise kernel; with one it is a reduction that reads input
and target once and keeps no losses of elements.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import reduction as kernels
from nvrtc_kernels.dtypes import Category
from nvrtc_kernels.reducers import Reducer
from tensor.core import layout as layouts
from tensor.core.base import maker
from tensor.core.modes.grad_mode import modes
from tensor.operations.normalization.row_normalization import launch_reduction
from tensor.operations.pointwise.powers import exp, log, log1p
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.recorder import record
from tensor.operations.special.error_and_gamma import sigmoid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

_FLOATING = (Category.FLOATING,)
#: What ``{T}`` stands for, the type that is computed in, in a pointwise kernel and in a reduction.
_POINTWISE, _REDUCED = "Compute", "decltype(a + a)"


class Loss:
    """A loss of elements.

    Parameters
    ----------
    name : str
        As users call it.
    cuda : str
        CUDA C++ expression of input ``a`` and target ``b``, of a number ``{p}`` where there is one; ``{T}(0.5)`` is
        a constant.
    numpy : callable
        The same on arrays.
    derivatives : sequence
        For input and target ``function(grad, a, b, *numbers)``, of operations that have derivatives themselves.
    numbers : int
        How many numbers there are: 0 or 1.
    title : str
        Name of the node; by default made of the name.
    """

    def __init__(
        self,
        name: str,
        cuda: str,
        numpy: Callable[..., Any],
        derivatives: Sequence[Callable[..., Tensor]],
        *,
        numbers: int = 0,
        include: str = "",
        title: str = "",
    ) -> None:
        self.name = name
        self.cuda = cuda
        self.include = include
        self.derivatives = tuple(derivatives)
        one, other = derivatives
        if numbers:
            wrapped: tuple[Any, ...] = (
                lambda grad, a, b, c: one(grad, a, b, c),
                lambda grad, a, b, c: other(grad, a, b, c),
            )
        else:
            wrapped = lambda grad, a, b: one(grad, a, b), lambda grad, a, b: other(grad, a, b)
        self.row = Pointwise(
            name,
            cuda.format(T=_POINTWISE, p="c"),
            numpy,
            categories=_FLOATING,
            include=include,
            derivatives=wrapped,
        )
        self.title = title or f"{''.join(part.capitalize() for part in name.split('_'))}Backward0"

    def __call__(self, input: Tensor, target: Tensor, *numbers: float, reduction: str) -> Tensor:
        """The loss, recorded."""
        a, b = input._layout, target._layout
        plain = a.shape == b.shape and a.dtype is b.dtype and a.place is b.place
        if reduction == "none" or not plain or not a.numel or not a.dtype.is_floating_point:
            losses = self.row(input, target, *numbers)
            if reduction == "none":
                return losses
            return losses.mean() if reduction == "mean" else losses.sum()
        recording, modes.recording = modes.recording, False
        try:
            made: Tensor = a.place.plans[self, a, b, reduction, len(numbers)](input, target, *numbers)
        finally:
            modes.recording = recording
        scale = 1 / a.numel if reduction == "mean" else 1.0
        record((made,), (input, target), self.title, self._gradients, (input, target), (numbers, scale))
        return made

    def _gradients(
        self,
        wanted: tuple[bool, ...],
        grad: Tensor,
        input: Tensor,
        target: Tensor,
        numbers: tuple[float, ...],
        scale: float,
    ) -> tuple[Tensor | None, ...]:
        if scale != 1:
            grad = grad * scale
        return tuple(
            function(grad, input, target, *numbers) if asked else None
            for function, asked in zip(self.derivatives, wanted, strict=True)
        )

    def plan(self, a: Layout, b: Layout, reduction: str, numbers: int) -> Callable[..., Tensor]:
        """What reduces the losses of tensors of these layouts."""
        if not a.place.is_cuda:

            def on_host(input: Tensor, target: Tensor, *numbers: float) -> Tensor:
                losses = self.row(input, target, *numbers)
                return losses.mean() if reduction == "mean" else losses.sum()

            return on_host
        place: Any = a.place
        reducer = Reducer(
            f"{self.name}_{reduction}",
            "Sum",
            self.cuda.format(T=_REDUCED, p=f"({_REDUCED})(p)"),
            ("over(x, count)" if reduction == "mean" else "x",),
            scalars=(("p", "d"),) * numbers,
            include=self.include,
        )
        out = layouts.contiguous[(), a.dtype, a.place]
        rank = len(a.shape)
        launch = kernels.plan(
            place.native, reducer, a.shape, tuple(range(rank)), [((0,) * rank, a.dtype)],
            [(a.strides, a.dtype), (b.strides, b.dtype)],
        )  # fmt: skip

        make = maker(out)

        def run(input: Tensor, target: Tensor, *numbers: float) -> Tensor:
            made = make()
            addresses = made._address, input._address, target._address
            launch_reduction(place, launch, *addresses, *map(float, numbers))
            return made

        return run


def _of_difference(
    name: str,
    cuda: tuple[str, str, str],
    numpy: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
    *,
    numbers: int = 0,
    title: str = "",
) -> Loss:
    """A loss of ``d = input - target``: value, slope and curvature, in CUDA C++ and on arrays.

    Its derivatives are operations of their own: the slope times a gradient, and the curvature times two.
    """
    value, slope, curvature = numpy

    def third(_: Any) -> Any:
        raise NotImplementedError(f"the third derivative of {name} is not implemented")

    def text(expression: str, operands: str, number: str) -> str:
        a, b = operands[0], operands[1]
        return f"({expression.format(d=f'({a} - {b})', p=number, T=_POINTWISE)})"

    def bound(function: Callable[..., Any], names: str, number: str) -> Callable[..., Any]:
        """``function`` as a derivative that needs the operands ``names``, and the number where there is one."""
        letters = ("grad", *names, *number[:numbers])
        parameters = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in letters]
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return function

    second = Pointwise(
        f"{name}_double_backward",
        f"a * b * {text(cuda[2], 'cd', 'e')}",
        lambda a, b, x, y, *p: a * b * curvature(x - y, *p),
        derivatives=(
            bound(lambda grad, b, x, y, *p: second(grad, b, x, y, *p), "bcd", "e"),
            bound(lambda grad, a, x, y, *p: second(grad, a, x, y, *p), "acd", "e"),
            third,
            third,
        ),
    )
    first = Pointwise(
        f"{name}_backward",
        f"a * {text(cuda[1], 'bc', 'd')}",
        lambda a, x, y, *p: a * slope(x - y, *p),
        derivatives=(
            bound(lambda grad, x, y, *p: first(grad, x, y, *p), "bc", "d"),
            bound(lambda grad, a, x, y, *p: second(grad, a, x, y, *p), "abc", "d"),
            bound(lambda grad, a, x, y, *p: -second(grad, a, x, y, *p), "abc", "d"),
        ),
    )
    return Loss(
        name,
        cuda[0].format(d="(a - b)", p="{p}", T="{T}"),
        lambda a, b, *p: value(a - b, *p),
        (first, lambda grad, a, b, *p: -first(grad, a, b, *p)),
        numbers=numbers,
        title=title,
    )


MSE = _of_difference(
    "mse_loss",
    ("{d} * {d}", "{d} * {T}(2)", "{T}(2)"),
    (lambda d: d * d, lambda d: d + d, lambda d: np.full_like(d, 2)),
)
L1 = _of_difference(
    "l1_loss",
    ("fabs({d})", "({d} > 0 ? {T}(1) : {d} < 0 ? {T}(-1) : {d} * {T}(0))", "{T}(0)"),
    (np.abs, np.sign, np.zeros_like),
)
SMOOTH_L1 = _of_difference(
    "smooth_l1_loss",
    (
        "(fabs({d}) < {p} ? {T}(0.5) * {d} * {d} / {p} : fabs({d}) - {T}(0.5) * {p})",
        "(fabs({d}) < {p} ? {d} / {p} : {d} > 0 ? {T}(1) : {d} < 0 ? {T}(-1) : {d} * {T}(0))",
        "(fabs({d}) < {p} ? {T}(1) / {p} : {T}(0))",
    ),
    (
        lambda d, p: np.where(np.abs(d) < p, 0.5 * d * d / p, np.abs(d) - 0.5 * p),
        lambda d, p: np.where(np.abs(d) < p, d / p, np.sign(d)),
        lambda d, p: np.where(np.abs(d) < p, 1 / p, 0.0).astype(d.dtype),
    ),
    numbers=1,
)
HUBER = _of_difference(
    "huber_loss",
    (
        "(fabs({d}) <= {p} ? {T}(0.5) * {d} * {d} : {p} * (fabs({d}) - {T}(0.5) * {p}))",
        "({d} < -{p} ? -{p} : {d} > {p} ? {p} : {d})",
        "({d} < -{p} || {d} > {p} ? {T}(0) : {T}(1))",
    ),
    (
        lambda d, p: np.where(np.abs(d) <= p, 0.5 * d * d, p * (np.abs(d) - 0.5 * p)),
        lambda d, p: np.clip(d, -p, p),
        lambda d, p: (np.abs(d) <= p).astype(d.dtype),
    ),
    numbers=1,
)


def _bce(a: Any, b: Any) -> Any:
    return (b - 1) * np.maximum(np.log1p(-a), -100) - b * np.maximum(np.log(a), -100)


#: Logarithms are cut off at -100, so that no loss is infinite.
BCE = Loss(
    "binary_cross_entropy",
    '(assert(a >= 0 && a <= 1 && "binary_cross_entropy(): an input is not between 0 and 1"), '
    "(b - 1) * fmax(log1p(-a), {T}(-100)) - b * fmax(log(a), {T}(-100)))",
    _bce,
    (
        lambda grad, a, b: grad * (a - b) / ((1 - a) * a).clamp(min=1e-12),
        lambda grad, a, b: grad * (log1p(-a).clamp(min=-100) - log(a).clamp(min=-100)),
    ),
)


def _bce_with_logits(a: Any, b: Any) -> Any:
    return (1 - b) * a + np.maximum(-a, 0) + np.log1p(np.exp(-np.abs(a)))


BCE_WITH_LOGITS = Loss(
    "binary_cross_entropy_with_logits",
    "(1 - b) * a + (fmax(-a, {T}(0)) + log1p(exp(-fabs(a))))",
    _bce_with_logits,
    (lambda grad, a, b: grad * (sigmoid(a) - b), lambda grad, a, b: -(grad * a)),
)


def _kl_div(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0, b * np.log(np.where(b == 0, 1, b))).astype(b.dtype) - b * a


#: Of logarithms of chances, and chances.
KL_DIV = Loss(
    "kl_div",
    "((b == 0 ? {T}(0) : b * log(b)) - b * a)",
    _kl_div,
    (
        lambda grad, a, b: -(grad * b).expand(a.shape),
        lambda grad, a, b: grad * (log(b) + 1 - a).masked_fill(b == 0, 0.0),
    ),
)
#: Of logarithms of both.
KL_DIV_LOG = Loss(
    "kl_div_of_logarithms",
    "exp(b) * (b - a)",
    lambda a, b: np.exp(b) * (b - a),
    (
        lambda grad, a, b: -(grad * exp(b)).expand(a.shape),
        lambda grad, a, b: grad * (exp(b) * (b - a + 1)),
    ),
)
