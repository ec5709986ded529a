"""PowerSGD: gradients of matrices travel as products of two thin ones.

A gradient M of n x m elements is sent as P Q^T with r columns each: P = M Q and then Q = M^T P are summed over the
ranks, which is one step of a power iteration for the space of M's largest singular values. What is lost is added to
the next gradient (error feedback), and Q is where the next step starts (warm start). See T. Vogels, S. P. Karimireddy,
M. Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS 2019, algorithms 1
and 2.
"""
# ruff: noqa: N999 - PyTorch's name

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import tensor
from parallel.groups.collectives.tensor_collectives import all_reduce
from parallel.groups.process_groups import get_world_size

from .default_hooks import allreduce_hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parallel.ddp.buckets import GradBucket
    from parallel.groups.futures import Future
    from parallel.groups.process_groups import ProcessGroup
    from tensor import Tensor

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

_log = logging.getLogger(__name__)


class PowerSGDState:
    """What the hooks of this module remember: ``model.register_comm_hook(PowerSGDState(None), powerSGD_hook)``.

    Parameters
    ----------
    process_group : ProcessGroup or None
        That of the model.
    matrix_approximation_rank : int
        Columns r of the thin matrices.
    start_powerSGD_iter : int
        Iterations that reduce gradients as they are, before the first that compresses them.
    min_compression_rate : float
        A gradient is compressed only where that divides the elements to send by more than this.
    use_error_feedback : bool
        Whether what was lost is added to the next gradient. It takes as much memory as the gradients.
    warm_start : bool
        Whether an iteration starts from the matrices of the last.
    orthogonalization_epsilon : float
        Added to norms before they divide.
    random_seed : int
        Of the matrices that iterations start from; the same on all ranks.
    compression_stats_logging_frequency : int
        Iterations from one line of the log (level INFO) about the compression to the next.
    batch_tensors_with_same_shape : bool
        Whether gradients of one shape are multiplied in one go, which helps with many small ones.

    Raises
    ------
    ValueError
        If compression would start before buckets are what they stay.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,  # noqa: N803 - PyTorch's name
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if matrix_approximation_rank < 1:
            raise ValueError(
                f"matrix_approximation_rank expects a positive number, got {matrix_approximation_rank}"
            )
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can "
                f"only be applied after the first two iterations in DDP, got {start_powerSGD_iter}."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.random_seed = random_seed
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        #: Iterations so far.
        self.iter = 0
        #: By bucket: what was lost, and the Q of each group of matrices.
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Add 1 to ``iter`` if ``bucket`` is the last one of its backward pass.

        The hooks call it, and log when compression begins.
        """
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_powerSGD_iter:
                _log.info("PowerSGD compresses gradients from iteration %d on", self.iter)

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times fewer elements were sent, and how many there were before and after compression.

        All three are 0 before the first bucket.

        >>> state = parallel.ddp_comm_hooks.powerSGD_hook.PowerSGDState(None)
        >>> state.compression_stats()
        (0.0, 0, 0)
        """
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after else 0.0, before, after

    def count(self, bucket: GradBucket, before: int, after: int) -> None:
        """Note that ``bucket`` was compressed from ``before`` elements to ``after``.

        The hooks call it. Every ``compression_stats_logging_frequency`` iterations the last bucket logs the ratio.
        """
        self.total_numel_before_compression += before
        self.total_numel_after_compression += after
        if bucket.is_last() and self.iter % self.compression_stats_logging_frequency == 0:
            _log.info(
                "PowerSGD, iteration %d: %.1f times fewer elements", self.iter, self.compression_stats()[0]
            )


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:  # noqa: N802 - PyTorch's name
    """Average the bucket approximately: each gradient of two dimensions and more as a matrix.

    A gradient of shape ``(n, ...)`` counts as a matrix of n rows. Those with one dimension, and those that would hardly
    shrink, are averaged as they are.

    Parameters
    ----------
    state : PowerSGDState
        The options, and what is remembered from one iteration to the next; one for each model.
    bucket : GradBucket
        The gradients.

    Returns
    -------
    Future of Tensor
        The averaged buffer, ``(N,)``; its :meth:`Future.wait` raises DistBackendError if a rank died or did not come
        in time.
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()
    exact = _with_feedback(state, bucket, buffer)
    compressed: dict[object, list[Tensor]] = {}
    plain: list[Tensor] = []
    sent = 0
    for number, gradient in enumerate(bucket.gradients()):
        shape = gradient.shape
        n = shape[0] if gradient.dim() > 1 else 1
        m = gradient.numel() // n if n else 0
        r = min(n, m, state.matrix_approximation_rank)
        if (
            gradient.dim() > 1
            and gradient.is_contiguous()
            and (n + m) * r * state.min_compression_rate < n * m
        ):
            key = (n, m) if state.batch_tensors_with_same_shape else number
            compressed.setdefault(key, []).append(gradient.view(n, m))
            sent += (n + m) * r
        else:
            plain.append(gradient.as_strided((gradient.numel(),), (1,)))
            sent += gradient.numel()
    state.count(bucket, buffer.numel(), sent)
    rest = tensor.cat(plain or [buffer[:0]]).div_(get_world_size(state.process_group))
    rest_sum = _summed(rest, state)

    def take_rest() -> Tensor:
        rest_sum.wait()
        for target, piece in zip(plain, rest.split([each.numel() for each in plain]), strict=True):
            target.copy_(piece)
        return _store_error(state, bucket, buffer, exact)

    if not compressed:
        return rest_sum.then(lambda _: take_rest())
    groups = [each[0].unsqueeze(0) if len(each) == 1 else tensor.stack(each) for each in compressed.values()]
    ps, p_sum = _project(state, bucket.index(), groups)

    def finish(_: object) -> Tensor:
        _approximate(state, bucket.index(), groups, ps)
        for gradients, group in zip(compressed.values(), groups, strict=True):
            if len(gradients) > 1:
                for target, piece in zip(gradients, group.unbind(0), strict=True):
                    target.copy_(piece)
        return take_rest()

    return p_sum.then(finish)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:  # noqa: N802 - PyTorch's name
    """Average the bucket approximately: all of it as one square matrix, padded with zeros.

    Faster than :func:`powerSGD_hook`, and less exact. Its parameters and result are those of :func:`powerSGD_hook`.

    Parameters
    ----------
    state : PowerSGDState
        The options, and what is remembered from one iteration to the next; one for each model.
    bucket : GradBucket
        The gradients.
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    buffer = bucket.buffer()
    exact = _with_feedback(state, bucket, buffer)
    side = math.isqrt(max(buffer.numel() - 1, 0)) + 1
    square = tensor.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
    square[: buffer.numel()] = buffer
    groups = [square.view(1, side, side)]
    r = min(side, state.matrix_approximation_rank)
    state.count(bucket, buffer.numel(), 2 * side * r)
    ps, p_sum = _project(state, bucket.index(), groups)

    def finish(_: object) -> Tensor:
        _approximate(state, bucket.index(), groups, ps)
        buffer.copy_(square[: buffer.numel()])
        return _store_error(state, bucket, buffer, exact)

    return p_sum.then(finish)


def _with_feedback(state: PowerSGDState, bucket: GradBucket, buffer: Tensor) -> Tensor | None:
    """Add to the gradients what was lost of the last; a copy of the sum, with error feedback."""
    if not state.use_error_feedback:
        return None
    error = state.error_dict.get(bucket.index())
    if error is not None:
        buffer.add_(error)
    return buffer.clone()


def _store_error(state: PowerSGDState, bucket: GradBucket, buffer: Tensor, exact: Tensor | None) -> Tensor:
    """Remember what the result lacks, and count the iteration."""
    if exact is not None:
        state.error_dict[bucket.index()] = exact.sub_(buffer)
    if not state.warm_start:
        state.q_memory_dict.clear()
    state.maybe_increase_iter(bucket)
    return buffer


def _project(
    state: PowerSGDState, index: int, groups: Sequence[Tensor]
) -> tuple[list[Tensor], Future[list[Tensor]]]:
    """P = M Q of matrices of shape ``(batch, n, m)``, and the future of their sums over ranks."""
    qs = state.q_memory_dict.get(index)
    if qs is None:
        qs = []
        for number, each in enumerate(groups):
            batch, n, m = each.shape
            # Each iteration, bucket and group draws other numbers, the same on all ranks.
            seed = hash((state.random_seed, state.iter, index, number)) & ((1 << 62) - 1)
            generator = tensor.Generator(each.device).manual_seed(seed)
            shape = (batch, m, min(n, m, state.matrix_approximation_rank))
            qs.append(tensor.randn(shape, dtype=each.dtype, device=each.device, generator=generator))
        state.q_memory_dict[index] = qs
    for q in qs:
        _orthogonalize(q, state.orthogonalization_epsilon)
    flat, ps = _flatten([tensor.bmm(each, q) for each, q in zip(groups, qs, strict=True)])
    return ps, _summed(flat, state)


def _approximate(state: PowerSGDState, index: int, groups: Sequence[Tensor], ps: Sequence[Tensor]) -> None:
    """Replace matrices by their mean over ranks, of low rank."""
    for p in ps:
        _orthogonalize(p, state.orthogonalization_epsilon)
    flat, qs = _flatten([tensor.bmm(each.transpose(1, 2), p) for each, p in zip(groups, ps, strict=True)])
    flat.div_(get_world_size(state.process_group))
    _summed(flat, state).wait()
    state.q_memory_dict[index] = qs
    for each, p, q in zip(groups, ps, qs, strict=True):
        each.copy_(tensor.bmm(p, q.transpose(1, 2)))


def _flatten(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """One flat tensor, and the tensors as views of it."""
    flat = tensor.cat([each.reshape(-1) for each in tensors])
    pieces = flat.split([each.numel() for each in tensors])
    return flat, [piece.view(original.shape) for piece, original in zip(pieces, tensors, strict=True)]


def _summed(flat: Tensor, state: PowerSGDState) -> Future[list[Tensor]]:
    work = all_reduce(flat, group=state.process_group, async_op=True)
    assert work is not None
    return work.get_future()


def _orthogonalize(matrices: Tensor, epsilon: float) -> None:
    """Make the columns of ``(batch, n, r)`` orthonormal in place; columns of zeros stay.

    Gram and Schmidt's way, on the device; each column is projected twice, after which it is orthogonal to working
    precision (W. Kahan: twice is enough).
    """
    smallest = tensor.finfo(matrices.dtype).tiny
    for number in range(matrices.shape[2]):
        column = matrices[:, :, number : number + 1]
        if number:
            before = matrices[:, :, :number]
            for _ in range(2):
                column -= tensor.bmm(before, tensor.bmm(before.transpose(1, 2), column))
        norm = column.norm(dim=1, keepdim=True)
        column /= (norm + epsilon).clamp_(min=smallest)
