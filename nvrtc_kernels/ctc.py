"""Connectionist temporal classification: see ``cuda/ctc.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_WARP, _MOST = 32, 256


class Sizes(NamedTuple):
    """Of log-probabilities of shape (times, samples, classes) with any strides, and of targets.

    Attributes
    ----------
    steps : tuple of int
        Strides of the log-probabilities.
    times, samples, classes : int
        Their shape.
    states : int
        Twice the longest target, and one more.
    blank : int
        The class that is no label.
    """

    steps: tuple[int, int, int]
    times: int
    samples: int
    classes: int
    states: int
    blank: int

    @property
    def arguments(self) -> tuple[int, ...]:
        """As kernels take them."""
        return (*self.steps, self.samples, self.classes, self.times, self.states, self.blank)

    @property
    def threads(self) -> int:
        """Threads of a sample."""
        threads = _WARP
        while threads < _MOST and threads < max(self.states, self.classes):
            threads *= 2
        return threads


_HEAD = (
    "long long time_step, long long sample_step, long long class_step, long long samples, long long classes, "
    "long long times, long long states, long long blank"
)
_PROBLEM = "Ctc{time_step, sample_step, class_step, samples, classes, times, states, blank}"
_INPUTS = "const {0}* log_probs, const long long* targets, const long long* start, const long long* lengths, "


def plan(device: Device, sizes: Sizes, dtype: dtype) -> Callable[..., None]:
    """What finds the loss of each sample, for float32 or float64.

    Returns
    -------
    callable
        ``run(stream_handle, log_probs, targets, start, lengths, target_lengths, alpha, loss)``, all addresses:
        int64 but for the first and the last two. ``alpha`` has samples * times * states elements.
    """
    parameters = (
        _INPUTS.format(dtype.cuda)
        + f"const long long* target_lengths, {dtype.cuda}* alpha, {dtype.cuda}* loss"
    )
    passed = "log_probs, targets, start, lengths, target_lengths, alpha, loss"
    source = (
        f"{includes('ctc.cuh')}"
        f'extern "C" __global__ void ctc_loss({_HEAD}, {parameters}) {{\n'
        f"    ctc_forward<{dtype.cuda}>({_PROBLEM}, {passed});\n}}\n"
    )
    launch = launcher(device, "ctc.cu", source, "ctc_loss", "qqqqqqqqPPPPPPP")
    arguments, threads = sizes.arguments, sizes.threads

    def run(stream: Any, *addresses: int) -> None:
        launch(sizes.samples, 1, 1, threads, 1, 1, 0, stream, *arguments, *addresses)

    return run


def plan_backward(device: Device, sizes: Sizes, dtype: dtype, *, zero_infinity: bool) -> Callable[..., None]:
    """What makes the gradient of contiguous log-probabilities.

    Returns
    -------
    callable
        ``run(stream_handle, log_probs, targets, start, lengths, target_lengths, alpha, loss, grad, chain, beta,
        out)``, all addresses. ``chain`` (int32) and ``beta`` have 2 * samples * states elements, whose contents do
        not matter.
    """
    parameters = _INPUTS.format(dtype.cuda) + (
        f"const long long* target_lengths, const {dtype.cuda}* alpha, const {dtype.cuda}* loss, const {dtype.cuda}* grad, "
        f"int* chain, {dtype.cuda}* beta, {dtype.cuda}* out"
    )
    passed = "log_probs, targets, start, lengths, target_lengths, alpha, loss, grad, chain, beta, out"
    name = "ctc_loss_backward_without_infinities" if zero_infinity else "ctc_loss_backward"
    source = (
        f"{includes('ctc.cuh')}"
        f'extern "C" __global__ void {name}({_HEAD}, {parameters}) {{\n'
        f"    ctc_backward<{dtype.cuda}>({_PROBLEM}, {'true' if zero_infinity else 'false'}, {passed});\n}}\n"
    )
    launch = launcher(device, "ctc.cu", source, name, "qqqqqqqqPPPPPPPPPPP")
    arguments, threads = sizes.arguments, sizes.threads

    def run(stream: Any, *addresses: int) -> None:
        launch(sizes.samples, 1, 1, threads, 1, 1, 0, stream, *arguments, *addresses)

    return run
