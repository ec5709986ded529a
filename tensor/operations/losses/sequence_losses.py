"""The loss of sequences whose labels are not aligned with time: connectionist temporal classification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import ctc as kernels
from nvrtc_kernels.ctc import Sizes
from nvrtc_kernels.dtypes import float32, float64, int32, int64
from tensor.core import layout as layouts
from tensor.core.base import TensorBase, empty, wrap
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.conversions import to
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.recorder import record

from .losses import reduced, reduction_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


class _Loss:
    """``place.plans[operation, layout, sizes](log_probs, targets, start, lengths, target_lengths)``.

    The loss of each sample, and what is kept for the gradient.
    """

    def plan(self, layout: Layout, sizes: Sizes) -> Callable[..., tuple[Tensor, Tensor]]:
        """What finds losses of tensors of ``layout``."""
        out = layouts.contiguous[(sizes.samples,), layout.dtype, layout.place]
        kept = layouts.contiguous[(sizes.samples, sizes.times, sizes.states), layout.dtype, layout.place]
        if not layout.place.is_cuda:

            def on_host(log_probs: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
                states = _States(log_probs._host, sizes, *[each._host for each in others])
                with np.errstate(all="ignore"):
                    alpha, loss = states.forward()
                return wrap(loss, out), wrap(alpha, kept)

            return on_host
        place: Any = layout.place
        run = kernels.plan(place.native, sizes, layout.dtype)
        local = place.local

        def on_device(*operands: Tensor) -> tuple[Tensor, Tensor]:
            loss, alpha = empty(out), empty(kept)
            run(local.stream.handle, *[x._address for x in operands], alpha._address, loss._address)
            return loss, alpha

        return on_device


class _Gradient:
    """``place.plans[operation, layout, sizes, zero_infinity]``: ``run(*operands, alpha, loss, grad)``."""

    def plan(self, layout: Layout, sizes: Sizes, zero_infinity: bool) -> Callable[..., Tensor]:
        """What makes the gradient of tensors of ``layout``."""
        out = layouts.contiguous[layout.shape, layout.dtype, layout.place]
        if not layout.place.is_cuda:

            def on_host(log_probs: Tensor, *others: Tensor) -> Tensor:
                *given, alpha, loss, grad = (each._host for each in others)
                states = _States(log_probs._host, sizes, *given)
                with np.errstate(all="ignore"):
                    return wrap(states.backward(alpha, loss, grad, zero_infinity), out)

            return on_host
        place: Any = layout.place
        run = kernels.plan_backward(place.native, sizes, layout.dtype, zero_infinity=zero_infinity)
        local = place.local
        chains = layouts.contiguous[(2 * sizes.samples * sizes.states,), int32, layout.place]
        betas = layouts.contiguous[(2 * sizes.samples * sizes.states,), layout.dtype, layout.place]

        def on_device(*operands: Tensor) -> Tensor:
            made = empty(out)
            scratch = empty(chains), empty(betas)
            addresses = [x._address for x in (*operands, *scratch, made)]
            run(local.stream.handle, *addresses)
            return made

        return on_device


class _States:
    """All samples at once on the host: rows of states, steps of time one after another."""

    def __init__(
        self,
        log_probs: Array,
        sizes: Sizes,
        targets: Array,
        start: Array,
        lengths: Array,
        target_lengths: Array,
    ) -> None:
        used = self._labels(targets, start, target_lengths)
        wrong = (used < 0) | (used >= sizes.classes)
        if wrong.any():
            raise RuntimeError(
                f"Expected targets to be classes from 0 to {sizes.classes - 1}, but got {used[wrong][0]}"
            )
        self.log_probs = log_probs
        self.lengths = lengths
        count = sizes.states
        self.numbers = np.arange(count)
        at = start[:, None] + np.minimum(self.numbers // 2, np.maximum(target_lengths - 1, 0)[:, None])
        labels = targets[np.minimum(at, max(len(targets) - 1, 0))] if len(targets) else np.zeros_like(at)
        self.last = 2 * target_lengths
        self.there = self.numbers <= self.last[:, None]
        self.labels = np.where((self.numbers % 2 == 1) & self.there, labels, sizes.blank)
        # Whether a way may go from the state two before, over a blank.
        self.skips = np.zeros(self.labels.shape, bool)
        self.skips[:, 2:] = (self.numbers[2:] % 2 == 1) & (self.labels[:, 2:] != self.labels[:, :-2])

    @staticmethod
    def _labels(targets: Array, start: Array, target_lengths: Array) -> Array:
        """Labels that count, of all samples."""
        parts = [targets[at : at + count] for at, count in zip(start, target_lengths, strict=True)]
        return np.concatenate(parts) if parts else targets[:0]

    def _at(self, time: int) -> Array:
        """Logarithms of the chances of each state's class."""
        found = np.take_along_axis(self.log_probs[time], self.labels, 1)
        return np.where(self.there, found, -np.inf)

    def forward(self) -> tuple[Array, Array]:
        """All ways to each state at each time, and the loss of each sample."""
        times, samples, _ = self.log_probs.shape
        kind = self.log_probs.dtype
        alpha = np.full((samples, times, len(self.numbers)), -np.inf, kind)
        for time in range(times):
            if time:
                before = alpha[:, time - 1]
                ways = _log_sum(before, _moved(before, 1), np.where(self.skips, _moved(before, 2), -np.inf))
            else:
                ways = np.where(self.numbers < 2, 0, -np.inf)
            alpha[:, time] = ways + self._at(time)
        rows = np.arange(samples)
        end = (
            alpha[rows, np.maximum(self.lengths - 1, 0)]
            if times
            else np.full_like(alpha[:, 0:1].sum(1), -np.inf)
        )
        before_last = np.where(self.last > 0, end[rows, np.maximum(self.last - 1, 0)], -np.inf)
        loss = -np.logaddexp(end[rows, self.last], before_last)
        loss = np.where(self.lengths == 0, np.where(self.last == 0, 0, np.inf), loss)
        return alpha, loss.astype(kind)

    def backward(self, alpha: Array, loss: Array, grad: Array, zero_infinity: bool) -> Array:
        """The gradient of the log-probabilities."""
        times, samples, classes = self.log_probs.shape
        made = np.empty(self.log_probs.shape, self.log_probs.dtype)
        beta = np.full((samples, len(self.numbers)), -np.inf, made.dtype)
        rows = np.arange(samples)
        places = (rows[:, None] * classes + self.labels).reshape(-1)
        ahead = np.zeros_like(self.skips)
        ahead[:, :-2] = self.skips[:, 2:]
        ends = (self.numbers >= self.last[:, None] - 1) & self.there
        for time in range(times - 1, -1, -1):
            here = self._at(time)
            ways = _log_sum(beta, _moved(beta, -1), np.where(ahead, _moved(beta, -2), -np.inf))
            ways = np.where(np.equal(time, self.lengths - 1)[:, None], np.where(ends, 0, -np.inf), ways)
            beta = np.where(np.less(time, self.lengths)[:, None], ways + here, -np.inf).astype(made.dtype)
            share = np.where(self.there, np.exp(alpha[:, time] + beta - here + loss[:, None]), 0)
            total = np.bincount(places, share.reshape(-1), samples * classes).reshape(samples, classes)
            made[time] = (np.exp(self.log_probs[time]) - total) * grad[:, None]
            made[time, self.lengths <= time] = 0
        if zero_infinity:
            made[:, np.isinf(loss)] = 0
        return made


def _log_sum(a: Array, b: Array, c: Array) -> Array:
    found: Array = np.logaddexp(np.logaddexp(a, b), c)
    return found


def _moved(rows: Array, by: int) -> Array:
    """Rows moved to higher states, or to lower ones."""
    found = np.full_like(rows, -np.inf)
    if by > 0:
        found[:, by:] = rows[:, :-by]
    else:
        found[:, :by] = rows[:, -by:]
    return found


LOSS, GRADIENT = _Loss(), _Gradient()


def _gradient(
    _: tuple[bool, ...],
    grad: Tensor,
    log_probs: Tensor,
    alpha: Tensor,
    loss: Tensor,
    operands: tuple[Tensor, ...],
    sizes: Sizes,
    zero_infinity: bool,
) -> tuple[Tensor]:
    run = log_probs._layout.place.plans[GRADIENT, log_probs._layout, sizes, zero_infinity]
    recording, modes.recording = modes.recording, False
    try:
        made = run(log_probs, *operands, alpha, loss, grad.contiguous())
    finally:
        modes.recording = recording
    record((made,), (grad, log_probs), "CtcLossBackwardBackward0", _no_second, ())
    return (made,)


def _no_second(*_: Any) -> None:
    raise NotImplementedError("the derivative for '_ctc_loss_backward' is not implemented")


def _numbers(given: Any, name: str, count: int, most: int, what: str) -> list[int]:
    """Lengths as a list, checked."""
    if isinstance(given, TensorBase):
        if given._layout.dtype not in (int32, int64):
            raise RuntimeError(f"{name} must be integral, got {given._layout.dtype!r}")
        given = given.tolist()  # type: ignore[attr-defined]
        given = given if isinstance(given, list) else [given]
    found = [int(number) for number in given]
    if len(found) != count:
        raise RuntimeError(f"{name} must be of size batch_size: expected {count} lengths, got {len(found)}")
    for number in found:
        if number < 0 or number > most:
            raise RuntimeError(
                f"Expected {name} to have value at least 0 and at most {most}{what}, but got value {number}"
            )
    return found


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
    """Negative log-likelihood of sequences of labels, over all ways in which they may lie in time.

    From Graves, Fernandez, Gomez, Schmidhuber, ICML 2006. As in PyTorch the gradient is right behind
    :func:`log_softmax`, and there is no second one. Lengths that are on a device make the host wait.

    Parameters
    ----------
    log_probs : Tensor
        Logarithms of chances, of shape (T, N, C) or (T, C).
    targets : Tensor
        Labels, int64 or int32, of shape (N, S), or all of them one after another, or (S,) of a single sample.
    input_lengths, target_lengths : Tensor or sequence of int
        Of each sample.
    blank : int
        The class that is no label.
    reduction : str
        ``"none"``, ``"sum"``, or ``"mean"``, of losses that are divided by the targets' lengths.
    zero_infinity : bool
        Whether infinite losses (of targets that are longer than their input) and their gradients become 0.

    Raises
    ------
    RuntimeError
        If shapes, lengths or the blank do not fit.
    """
    reduction = reduction_of(reduction)
    given, batched = log_probs, len(log_probs._layout.shape) == 3
    if not batched:
        if len(log_probs._layout.shape) != 2:
            raise RuntimeError(
                f"ctc_loss(): expected log_probs of shape (T, N, C) or (T, C), got {list(log_probs._layout.shape)}"
            )
        given = log_probs.unsqueeze(1)
    kind = given._layout.dtype
    if not kind.is_floating_point:
        raise NotImplementedError(f'"ctc_loss" not implemented for {kind!r}')
    if kind not in (float32, float64):
        given = given.to(float32)
    times, samples, classes = given._layout.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: expected 0 to {classes - 1}, got {blank}")
    if targets._layout.dtype not in (int32, int64):
        raise RuntimeError(f"targets must be integral, got {targets._layout.dtype!r}")
    lengths = _numbers(input_lengths, "input_lengths", samples, times, ", the inputs' length")
    shape = targets._layout.shape
    padded = len(shape) == 2
    most = shape[1] if padded else targets._layout.numel
    wanted = _numbers(target_lengths, "target_lengths", samples, most, ", the targets' length")
    if padded and shape[0] != samples:
        raise RuntimeError(
            f"Expected tensor to have size {samples} at dimension 0, but got size {shape[0]} for targets"
        )
    if not padded and sum(wanted) != targets._layout.numel:
        raise RuntimeError(
            f"Expected tensor to have size {sum(wanted)} at dimension 0, but got size {targets._layout.numel} for "
            "targets: those of all samples, one after another"
        )
    starts = [n * most for n in range(samples)] if padded else list(np.cumsum([0, *wanted])[:-1])
    place = given._layout.place
    labels = to(targets.reshape(-1).contiguous(), place.device, int64)
    numbers = [to(wrap(np.array(each, np.int64)), place.device) for each in (starts, lengths, wanted)]
    _, steps = given._layout.shape, given._layout.strides
    sizes = Sizes(
        (steps[0], steps[1], steps[2]), times, samples, classes, 2 * max(wanted, default=0) + 1, blank
    )
    operands = (labels, *numbers)
    if not samples:
        return reduced(given.new_zeros(0), reduction)
    losses, alpha = place.plans[LOSS, given._layout, sizes](given.detach(), *operands)
    record(
        (losses,),
        (given,),
        "CtcLossBackward0",
        _gradient,
        (given, alpha, losses),
        (operands, sizes, zero_infinity),
    )
    if zero_infinity:
        losses = where(losses == float("inf"), losses.new_zeros(()), losses)
    if reduction == "mean":
        losses = (losses / numbers[2].clamp(min=1).to(losses._layout.dtype)).mean()
    elif reduction == "sum":
        losses = losses.sum()
    elif not batched:
        losses = losses.squeeze(0)
    return losses if losses._layout.dtype is kind else losses.to(kind)  # type: ignore[no-any-return]
