"""What losses share: their reductions, and losses that compare each element of an input with one of a target.

Such a loss is an expression. Without a reduction it is a pointwise kernel; with one it is a reduction kernel, which
reads input and target once and keeps no losses of elements. So are its first derivatives one kernel each; where they
are recorded themselves, a composition of differentiable operations takes their place, and all higher derivatives
follow from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nvrtc_kernels import reduction as kernels
from nvrtc_kernels.dtypes import Category
from nvrtc_kernels.reducers import Reducer
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.arguments import two_devices
from tensor.core.base import maker
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.warning import warn_caller
from tensor.operations.creation.like import zeros_like
from tensor.operations.pointwise.arithmetic import MUL, SUB
from tensor.operations.pointwise_operation import Pointwise, written
from tensor.operations.scratch import launch_reduction

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    #: A function of arrays, and one of tensors.
    OnArrays: TypeAlias = Callable[..., Any]
    OnTensors: TypeAlias = Callable[..., Tensor]

#: Values of the argument ``reduction``.
REDUCTIONS = ("none", "mean", "sum")


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction, also from the two deprecated arguments.

    Raises
    ------
    ValueError
        If there is no such reduction.
    """
    if size_average is not None or reduce is not None:
        if reduce is not None and not reduce:
            reduction = "none"
        else:
            reduction = "mean" if size_average is None or size_average else "sum"
        warn_caller(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        )
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"{reduction} is not a valid value for reduction: it is one of {', '.join(map(repr, REDUCTIONS))}"
        )
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Losses as they are, their mean or their sum."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def check_same_device(name: str, input: Tensor, **others: Tensor | None) -> None:
    """Raise RuntimeError if a tensor is on another device than ``input``."""
    for argument, other in others.items():
        if other is not None and other._layout.device_state is not input._layout.device_state:
            raise two_devices(name, f"{input._layout.device} (input)", f"{other._layout.device} ({argument})")


# Losses that compare elements

#: What ``{T}`` stands for, the type that is computed in, in a pointwise kernel and in a reduction.
_POINTWISE, _REDUCED = "Compute", "decltype(a + a)"


def derivative(
    name: str, cuda: str, numpy: OnArrays, composition: OnTensors, *, scalars: int = 0
) -> Callable[..., Tensor]:
    """``function(grad, input, target, *scalars)``: the gradient times a slope, in one kernel.

    Parameters
    ----------
    name : str
        Of the kernel.
    cuda : str
        CUDA C++ expression of the slope at input ``{x}`` and target ``{y}``, with the scalar ``{p}`` where there is
        one; ``{T}(0.5)`` is a constant.
    numpy : callable
        The same on arrays.
    composition : callable
        The same on tensors, made of differentiable operations: where a second derivative may follow.
    """
    slope = cuda.format(x="b", y="c", p="d", T=_POINTWISE)

    def on_arrays(a: Any, x: Any, y: Any, *p: Any, out: Any = None) -> Any:
        return np.multiply(a, numpy(x, y, *p), out=out)

    kernel = Pointwise(name, f"a * ({slope})", on_arrays)

    def gradient(grad: Tensor, x: Tensor, y: Tensor, *p: float) -> Tensor:
        if modes.recording:
            return MUL.binary(grad, composition(x, y, *p))
        return kernel(grad, x, y, *p)

    return gradient


class Loss:
    """A loss that compares elements.

    Parameters
    ----------
    name : str
        As users call it.
    value : (str, callable)
        CUDA C++ expression of input ``{x}`` and target ``{y}``, with the scalar ``{p}`` where there is one
        (``{T}(0.5)`` is a constant), and the same on arrays.
    of_input, of_target : callable
        Its derivatives: see :func:`derivative`.
    scalars : int
        How many scalars there are: 0 or 1.
    """

    def __init__(
        self,
        name: str,
        value: tuple[str, OnArrays],
        of_input: Callable[..., Tensor],
        of_target: Callable[..., Tensor],
        *,
        scalars: int = 0,
    ) -> None:
        self.name = name
        self.cuda, on_arrays = value
        self.derivatives = of_input, of_target
        self.elements = Pointwise(
            name,
            self.cuda.format(x="a", y="b", p="c", T=_POINTWISE),
            on_arrays,
            categories=(Category.FLOATING,),
            derivatives=tuple(
                Derivative(lambda *operands, each=each: each(*operands), " ".join("abc"[: 2 + scalars]))
                for each in self.derivatives
            ),
        )
        self._formula = BackwardFormula(
            f"{''.join(part.capitalize() for part in name.split('_'))}Backward0",
            "input target",
            joint=Derivative(self._gradients, needs="input target"),
        )

    def __call__(self, input: Tensor, target: Tensor, *scalars: float, reduction: str) -> Tensor:
        """The loss, recorded."""
        a, b = input._layout, target._layout
        same = a.shape == b.shape and a.dtype is b.dtype and a.device_state is b.device_state
        if reduction == "none" or not same or not a.numel or not a.dtype.is_floating_point:
            return reduced(self.elements(input, target, *scalars), reduction)
        with unrecorded():
            result: Tensor = a.device_state.plans[self, a, b, reduction, len(scalars)](
                input, target, *scalars
            )
        scale = 1 / a.numel if reduction == "mean" else 1.0
        self._formula.record((result,), (input, target), (), (scalars, scale))
        return result

    def _gradients(
        self,
        requires_grad: tuple[bool, ...],
        grad: Tensor,
        input: Tensor,
        target: Tensor,
        scalars: tuple[float, ...],
        scale: float,
    ) -> tuple[Tensor | None, ...]:
        if scale != 1:
            grad = grad * scale
        return tuple(
            function(grad, input, target, *scalars) if required else None
            for function, required in zip(self.derivatives, requires_grad, strict=True)
        )

    def plan(self, a: Layout, b: Layout, reduction: str, scalars: int) -> Callable[..., Tensor]:
        """What reduces the losses of tensors of these layouts: ``run(input, target, *scalars)``."""
        if not a.device_state.is_cuda:
            return lambda *operands: reduced(self.elements(*operands), reduction)
        state: Any = a.device_state
        reducer = self.reducer(reduction, scalars)
        rank = len(a.shape)
        launch = kernels.plan(
            state.native, reducer, a.shape, tuple(range(rank)), [((0,) * rank, a.dtype)],
            [(a.strides, a.dtype), (b.strides, b.dtype)],
        )  # fmt: skip
        make = maker(layouts.contiguous[(), a.dtype, a.device_state])

        def run(input: Tensor, target: Tensor, *scalars: float) -> Tensor:
            out = make()
            addresses = out._address, input._address, target._address
            launch_reduction(state, launch, *addresses, *map(float, scalars))
            return out

        return run

    def reducer(self, reduction: str, scalars: int) -> Reducer:
        """What a device computes of input and target for the mean or the sum of their losses, with so many scalars."""
        return Reducer(
            f"{self.name}_{reduction}",
            "Sum",
            self.cuda.format(x="a", y="b", p=f"({_REDUCED})(p)", T=_REDUCED),
            ("over(x, count)" if reduction == "mean" else "x",),
            scalars=(("p", "d"),) * scalars,
        )


def difference_loss(
    name: str,
    value: tuple[str, OnArrays],
    slope: tuple[str, OnArrays],
    curvature: tuple[str, OnArrays, Callable[..., Tensor | float]] | None,
    *,
    scalars: int = 0,
) -> Loss:
    """A loss of the difference ``{d}`` of input and target alone.

    Parameters
    ----------
    value, slope, curvature
        CUDA C++ expression of ``{d}`` and the scalar ``{p}`` (``{T}(0.5)`` is a constant) and a function
        ``f(d, *scalars)`` of arrays, which may write to ``d``, and return it; of the curvature also a function of tensors, made of
        differentiable operations. ``None`` for a curvature of 0.
    """

    def cuda(expression: str, x: str, y: str, p: str) -> str:
        return f"({expression.format(d=f'({x} - {y})', p=p, T=_POINTWISE)})"

    second: Pointwise | None = None
    if curvature is not None:
        of_curvature, on_curvature, composition = curvature
        second = Pointwise(
            f"{name}_double_backward",
            f"a * b * {cuda(of_curvature, 'c', 'd', 'e')}",
            lambda a, b, x, y, *p: a * b * on_curvature(x - y, *p),
        )

    def curved(grad: Tensor, a: Tensor, x: Tensor, y: Tensor, *p: float) -> Tensor:
        """``grad * a`` times the curvature."""
        if second is None:
            return zeros_like(grad)
        if modes.recording:
            return MUL.binary(MUL.binary(grad, a), composition(SUB.binary(x, y), *p))
        return second(grad, a, x, y, *p)

    of_slope, on_slope = slope
    first = Pointwise(
        f"{name}_backward",
        f"a * {cuda(of_slope, 'b', 'c', 'd')}",
        lambda a, x, y, *p, out=None: np.multiply(a, on_slope(_difference(x, y, out), *p), out=out),
        derivatives=(
            Derivative(lambda grad, x, y, *p: first(grad, x, y, *p), " ".join("bcd"[: 2 + scalars])),
            Derivative(lambda *operands: curved(*operands), " ".join("abcd"[: 3 + scalars])),
            Derivative(lambda *operands: -curved(*operands), " ".join("abcd"[: 3 + scalars])),
        ),
    )
    of_value, on_value = value

    def of_arrays(x: Any, y: Any, *p: Any, out: Any = None) -> Any:
        return written(on_value(_difference(x, y, out), *p), out)

    return Loss(
        name,
        (of_value.replace("{d}", "({x} - {y})"), of_arrays),
        first,
        lambda grad, x, y, *p: -first(grad, x, y, *p),
        scalars=scalars,
    )


def _difference(x: Any, y: Any, out: Any) -> Any:
    """``x - y``, an array also of operands without dimensions."""
    return np.subtract(
        x, y, out=np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype) if out is None else out
    )


def compared(
    loss: Loss,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    *scalars: float,
) -> Tensor:
    """A loss of tensors that broadcast, with a warning where their shapes differ.

    With a weight the mean is divided by the sum of the weights.

    Raises
    ------
    ValueError
        If the weight has another shape than the losses.
    """
    expected, shape = tuple(input._layout.shape), tuple(target._layout.shape)
    if expected != shape:
        warn_caller(
            f"Using a target size ({list(shape)}) that is different to the input size ({list(expected)}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        )
    check_same_device(loss.name, input, target=target, weight=weight)
    if weight is None:
        return loss(input, target, *scalars, reduction=reduction)
    losses = loss(input, target, *scalars, reduction="none")
    if tuple(weight._layout.shape) != tuple(losses._layout.shape):
        raise ValueError(
            f"Weights and input must have the same size: got {list(weight._layout.shape)} and "
            f"{list(losses._layout.shape)}"
        )
    losses = losses * weight
    if reduction == "mean":
        return losses.sum() / weight.sum()
    return reduced(losses, reduction)
