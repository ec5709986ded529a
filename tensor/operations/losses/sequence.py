"""The loss of label sequences that are not aligned with time: connectionist temporal classification (CTC)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import ctc as kernels
from nvrtc_kernels.ctc import Sizes
from nvrtc_kernels.dtypes import float32, float64, int32, int64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core import layout as layouts
from tensor.core.base import TensorBase, empty, wrap
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans import planned
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.conversions import to
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where

from .loss import reduced, reduction_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def _loss_plan(layout: Layout, sizes: Sizes) -> Callable[..., tuple[Tensor, Tensor]]:
    """``state.plans[operation, layout, sizes](log_probs, targets, start, lengths, target_lengths)``.

    The loss of each sample, and the forward variables (alpha) of each state at each time.
    """
    out = layouts.contiguous[(sizes.samples,), layout.dtype, layout.device_state]
    variables = layouts.contiguous[
        (sizes.samples, sizes.times, sizes.states), layout.dtype, layout.device_state
    ]
    if not layout.device_state.is_cuda:

        def on_host(log_probs: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
            states = _States(log_probs._host, sizes, *[each._host for each in others])
            with np.errstate(all="ignore"):
                alpha, loss = states.forward()
            return wrap(loss, out), wrap(alpha, variables)

        return on_host
    state: Any = layout.device_state
    run = kernels.plan(state.native, sizes, layout.dtype)
    local = state.local

    def on_device(*operands: Tensor) -> tuple[Tensor, Tensor]:
        loss, alpha = empty(out), empty(variables)
        run(local.stream.handle, *[x._address for x in operands], alpha._address, loss._address)
        return loss, alpha

    return on_device


def _gradient_plan(layout: Layout, sizes: Sizes, zero_infinity: bool) -> Callable[..., Tensor]:
    """``state.plans[operation, layout, sizes, zero_infinity]``: ``run(*operands, alpha, loss, grad)``."""
    out = layouts.contiguous[layout.shape, layout.dtype, layout.device_state]
    if not layout.device_state.is_cuda:

        def on_host(log_probs: Tensor, *others: Tensor) -> Tensor:
            *targets, alpha, loss, grad = (each._host for each in others)
            states = _States(log_probs._host, sizes, *targets)
            with np.errstate(all="ignore"):
                return wrap(states.backward(alpha, loss, grad, zero_infinity), out)

        return on_host
    state: Any = layout.device_state
    run = kernels.plan_backward(state.native, sizes, layout.dtype, zero_infinity=zero_infinity)
    local = state.local
    chains = layouts.contiguous[(2 * sizes.samples * sizes.states,), int32, layout.device_state]
    betas = layouts.contiguous[(2 * sizes.samples * sizes.states,), layout.dtype, layout.device_state]

    def on_device(*operands: Tensor) -> Tensor:
        result = empty(out)
        scratch = empty(chains), empty(betas)
        addresses = [x._address for x in (*operands, *scratch, result)]
        run(local.stream.handle, *addresses)
        return result

    return on_device


class _States:
    """States (labels with blanks between them) of all samples on the host, as arrays over samples and states."""

    def __init__(
        self,
        log_probs: Array,
        sizes: Sizes,
        targets: Array,
        start: Array,
        lengths: Array,
        target_lengths: Array,
    ) -> None:
        labels = self._labels(targets, start, target_lengths)
        wrong = (labels < 0) | (labels >= sizes.classes)
        if wrong.any():
            raise RuntimeError(
                f"Expected targets to be classes from 0 to {sizes.classes - 1}, but got {labels[wrong][0]}"
            )
        self.log_probs = log_probs
        self.lengths = lengths
        count = sizes.states
        self.numbers = np.arange(count)
        at = start[:, None] + np.minimum(self.numbers // 2, np.maximum(target_lengths - 1, 0)[:, None])
        labels = targets[np.minimum(at, max(len(targets) - 1, 0))] if len(targets) else np.zeros_like(at)
        self.last = 2 * target_lengths
        self.exists = self.numbers <= self.last[:, None]
        self.labels = np.where((self.numbers % 2 == 1) & self.exists, labels, sizes.blank)
        # Whether a path may come from the state two before, over a blank.
        self.skips = np.zeros(self.labels.shape, bool)
        self.skips[:, 2:] = (self.numbers[2:] % 2 == 1) & (self.labels[:, 2:] != self.labels[:, :-2])

    @staticmethod
    def _labels(targets: Array, start: Array, target_lengths: Array) -> Array:
        """Labels within the target lengths, of all samples."""
        parts = [targets[at : at + count] for at, count in zip(start, target_lengths, strict=True)]
        return np.concatenate(parts) if parts else targets[:0]

    def _at(self, time: int) -> Array:
        """Log-probability of each state's class."""
        log_probs = np.take_along_axis(self.log_probs[time], self.labels, 1)
        return np.where(self.exists, log_probs, -np.inf)

    def forward(self) -> tuple[Array, Array]:
        """Log-probability of all paths to each state at each time, and the loss of each sample."""
        times, samples, _ = self.log_probs.shape
        dtype = self.log_probs.dtype
        alpha = np.full((samples, times, len(self.numbers)), -np.inf, dtype)
        for time in range(times):
            if time:
                before = alpha[:, time - 1]
                paths = _log_sum(
                    before, _shifted(before, 1), np.where(self.skips, _shifted(before, 2), -np.inf)
                )
            else:
                paths = np.where(self.numbers < 2, 0, -np.inf)
            alpha[:, time] = paths + self._at(time)
        rows = np.arange(samples)
        end = (
            alpha[rows, np.maximum(self.lengths - 1, 0)]
            if times
            else np.full_like(alpha[:, 0:1].sum(1), -np.inf)
        )
        before_last = np.where(self.last > 0, end[rows, np.maximum(self.last - 1, 0)], -np.inf)
        loss = -np.logaddexp(end[rows, self.last], before_last)
        loss = np.where(self.lengths == 0, np.where(self.last == 0, 0, np.inf), loss)
        return alpha, loss.astype(dtype)

    def backward(self, alpha: Array, loss: Array, grad: Array, zero_infinity: bool) -> Array:
        """The gradient of the log-probabilities."""
        times, samples, classes = self.log_probs.shape
        result = np.empty(self.log_probs.shape, self.log_probs.dtype)
        beta = np.full((samples, len(self.numbers)), -np.inf, result.dtype)
        rows = np.arange(samples)
        positions = (rows[:, None] * classes + self.labels).reshape(-1)
        ahead = np.zeros_like(self.skips)
        ahead[:, :-2] = self.skips[:, 2:]
        ends = (self.numbers >= self.last[:, None] - 1) & self.exists
        for time in range(times - 1, -1, -1):
            here = self._at(time)
            paths = _log_sum(beta, _shifted(beta, -1), np.where(ahead, _shifted(beta, -2), -np.inf))
            paths = np.where(np.equal(time, self.lengths - 1)[:, None], np.where(ends, 0, -np.inf), paths)
            beta = np.where(np.less(time, self.lengths)[:, None], paths + here, -np.inf).astype(result.dtype)
            share = np.where(self.exists, np.exp(alpha[:, time] + beta - here + loss[:, None]), 0)
            total = np.bincount(positions, share.reshape(-1), samples * classes).reshape(samples, classes)
            result[time] = (np.exp(self.log_probs[time]) - total) * grad[:, None]
            result[time, self.lengths <= time] = 0
        if zero_infinity:
            result[:, np.isinf(loss)] = 0
        return result


def _log_sum(a: Array, b: Array, c: Array) -> Array:
    result: Array = np.logaddexp(np.logaddexp(a, b), c)
    return result


def _shifted(rows: Array, by: int) -> Array:
    """Rows shifted to higher states, or to lower ones."""
    result = np.full_like(rows, -np.inf)
    if by > 0:
        result[:, by:] = rows[:, :-by]
    else:
        result[:, :by] = rows[:, -by:]
    return result


LOSS, GRADIENT = planned(_loss_plan), planned(_gradient_plan)


def _gradient(
    grad: Tensor,
    log_probs: Tensor,
    alpha: Tensor,
    loss: Tensor,
    operands: tuple[Tensor, ...],
    sizes: Sizes,
    zero_infinity: bool,
) -> Tensor:
    run = log_probs._layout.device_state.plans[GRADIENT, log_probs._layout, sizes, zero_infinity]
    with unrecorded():
        result: Tensor = run(log_probs, *operands, alpha, loss, grad.contiguous())
    _OF_GRADIENTS.record((result,), (grad, log_probs))
    return result


def _no_second(*_: Any) -> None:
    raise NotImplementedError("the derivative for '_ctc_loss_backward' is not implemented")


_FORMULA = BackwardFormula(
    "CtcLossBackward0",
    "log_probs alpha",
    [Derivative(_gradient, needs="log_probs alpha loss")],
    outputs="loss",
)
_OF_GRADIENTS = BackwardFormula(
    "CtcLossBackwardBackward0", "grad log_probs", joint=Derivative(_no_second, needs="")
)


def _lengths(lengths: Any, name: str, count: int, most: int, what: str) -> list[int]:
    """Lengths as a list, checked."""
    if isinstance(lengths, TensorBase):
        if lengths._layout.dtype not in (int32, int64):
            raise RuntimeError(f"{name} must be integral, got {lengths._layout.dtype!r}")
        lengths = lengths.tolist()
        lengths = lengths if isinstance(lengths, list) else [lengths]
    result = [int(length) for length in lengths]
    if len(result) != count:
        raise RuntimeError(f"{name} must be of size batch_size: expected {count} lengths, got {len(result)}")
    for length in result:
        if length < 0 or length > most:
            raise RuntimeError(
                f"Expected {name} to have value at least 0 and at most {most}{what}, but got value {length}"
            )
    return result


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Negative log-likelihood of label sequences, summed over all alignments of the labels with time.

    A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber, "Connectionist Temporal Classification", 2006. As in PyTorch
    the gradient assumes that ``log_probs`` is a result of :func:`log_softmax`, and there is no second derivative.

    Parameters
    ----------
    log_probs : Tensor
        Log-probabilities of a floating dtype, of shape (T, N, C), or (T, C) of a single sample.
    targets : Tensor
        Labels, int64 or int32, of shape (N, S), or (sum of the target lengths,), or (S,) of a single sample.
    input_lengths, target_lengths : Tensor or sequence of int
        Lengths of each sample, N of them; tensors on a device make the host wait.
    blank : int
        The class that is not a label.
    reduction : str
        ``"none"`` (a loss for each sample), ``"sum"``, or ``"mean"``, of losses divided by the target lengths.
    zero_infinity : bool
        Whether infinite losses (of a target that is longer than its input has room for) and their gradients become 0.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If a shape is not the one above, there is not a length for each sample, one is longer than its data, a label
        or ``blank`` is not a class, or targets or lengths are not int32 or int64.
    NotImplementedError
        If the dtype of ``log_probs`` is not a floating one, or from its second derivative.

    Examples
    --------
    >>> log_probs = tensor.zeros(4, 1, 3).log_softmax(-1)
    >>> nn.functional.ctc_loss(log_probs, tensor.tensor([[1, 2]]), (4,), (2,), reduction="sum")
    tensor(1.6864)
    """
    reduction = reduction_of(reduction)
    x, batched = log_probs, len(log_probs._layout.shape) == 3
    if not batched:
        if len(log_probs._layout.shape) != 2:
            raise RuntimeError(
                f"ctc_loss(): expected log_probs of shape (T, N, C) or (T, C), got {list(log_probs._layout.shape)}"
            )
        x = log_probs.unsqueeze(1)
    if not x._layout.numel:
        raise RuntimeError(
            f"ctc_loss(): log_probs tensor must not be empty, got {list(log_probs._layout.shape)}"
        )
    dtype = x._layout.dtype
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"ctc_loss" not implemented for {dtype!r}')
    if dtype not in (float32, float64):
        x = x.to(float32)
    times, samples, classes = x._layout.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: expected 0 to {classes - 1}, got {blank}")
    if targets._layout.dtype not in (int32, int64):
        raise RuntimeError(f"targets must be integral, got {targets._layout.dtype!r}")
    lengths = _lengths(input_lengths, "input_lengths", samples, times, ", the inputs' length")
    shape = targets._layout.shape
    padded = len(shape) == 2
    most = shape[1] if padded else targets._layout.numel
    label_counts = _lengths(target_lengths, "target_lengths", samples, most, ", the targets' length")
    if padded and shape[0] != samples:
        raise RuntimeError(
            f"Expected tensor to have size {samples} at dimension 0, but got size {shape[0]} for targets"
        )
    if not padded and sum(label_counts) != targets._layout.numel:
        raise RuntimeError(
            f"Expected tensor to have size {sum(label_counts)} at dimension 0, but got size {targets._layout.numel} for "
            "targets: those of all samples, one after another"
        )
    starts = [n * most for n in range(samples)] if padded else list(np.cumsum([0, *label_counts])[:-1])
    state = x._layout.device_state
    labels = to(targets.reshape(-1).contiguous(), state.device, int64)
    lengths_of = [
        to(wrap(np.array(each, np.int64)), state.device) for each in (starts, lengths, label_counts)
    ]
    steps = x._layout.strides
    sizes = Sizes(
        (steps[0], steps[1], steps[2]), times, samples, classes, 2 * max(label_counts, default=0) + 1, blank
    )
    operands = (labels, *lengths_of)
    if not samples:
        return reduced(x.new_zeros(0), reduction)
    losses, alpha = state.plans[LOSS, x._layout, sizes](x.detach(), *operands)
    _FORMULA.record((losses,), (x,), (alpha,), (operands, sizes, zero_infinity))
    if zero_infinity:
        losses = where(losses == float("inf"), losses.new_zeros(()), losses)
    if reduction == "mean":
        losses = (losses / lengths_of[2].clamp(min=1).to(losses._layout.dtype)).mean()
    elif reduction == "sum":
        losses = losses.sum()
    elif not batched:
        losses = losses.squeeze(0)
    return losses if losses._layout.dtype is dtype else losses.to(dtype)  # type: ignore[no-any-return]
