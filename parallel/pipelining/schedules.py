"""Schedules of pipelines: which micro-batch a stage computes when, and what it exchanges with its neighbours in between."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import tensor
from parallel.groups.collectives.point_to_point import batch_isend_irecv
from tensor import Tensor
from tensor.core.names.absent import hints as _hints
from tensor.utils._pytree import tree_map_only

from . import order
from .microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.groups.collectives.point_to_point import P2POp
    from parallel.groups.works import Work

    from .order import Action
    from .stage import PipelineStage

__all__ = ["PipelineScheduleSingle", "Schedule1F1B", "ScheduleGPipe"]


class PipelineScheduleSingle:
    """What schedules with one stage for each rank have in common; use :class:`Schedule1F1B` or :class:`ScheduleGPipe`.

    Parameters
    ----------
    stage : PipelineStage
        This rank's.
    n_microbatches : int
        How many parts of equal size a batch is divided into.
    loss_fn : callable, optional
        The loss of a micro-batch, a scalar, of its output and target. Without it there is no backward pass.
    args_chunk_spec : tuple, optional
        How positional arguments are divided, with a ``TensorChunkSpec`` for each tensor and None for what all micro-batches have.
        By default tensors are divided along their first dimension.
    kwargs_chunk_spec : dict, optional
        The same for keyword arguments.
    output_merge_spec : optional
        The same for the outputs, which are put together.
    scale_grads : bool
        Whether gradients are those of the mean of the micro-batches' losses, as for a loss that is a mean; otherwise those of
        their sum. The gradient with which a backward pass begins is ``1 / n_microbatches`` then, so that gradients that were
        there before, as of another step, are added to.
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: tuple[Any, ...] | None = None,
        kwargs_chunk_spec: dict[str, Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < 1:
            raise ValueError(f"n_microbatches is at least 1, got {n_microbatches}")
        self._stage = stage
        self._n_microbatches = n_microbatches
        self._loss_fn = loss_fn
        self._specs = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self.scale_grads = scale_grads

    def _order_of(self, stage: int) -> list[Action]:
        """The passes of micro-batches through a stage, in their order."""
        raise NotImplementedError("use Schedule1F1B or ScheduleGPipe")

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Send a batch through the pipeline, forward and backward. All ranks of the group call this.

        Parameters
        ----------
        *args
            The batch, in the first stage; other stages do not need it.
        target : Tensor, optional
            What the loss compares with, in the last stage; divided along its first dimension.
        losses : list, optional
            Is filled with the micro-batches' losses, in the last stage.
        return_outputs : bool
            Whether the last stage returns what its module did.
        loss_kwargs : dict, optional
            Further arguments of the loss, the same for all micro-batches.
        **kwargs
            Keyword arguments of this stage's module.

        Returns
        -------
        Any
            The outputs for the batch, in the last stage; otherwise None.

        Raises
        ------
        RuntimeError
            If there is a loss, and gradients are not recorded.
        ValueError
            If the batch cannot be divided into micro-batches of one size, the last stage has no target, a loss is no scalar, or a
            module returns tensors of other shapes than in the first micro-batch.
        TypeError
            If a module returns something else than plain tensors for the next stage.
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        if self._loss_fn is not None and not tensor.is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; it should not be used under "
                "tensor.no_grad(). Call eval() there"
            )
        if self._loss_fn is not None and target is None and self._stage.is_last:
            raise ValueError("step(): the last stage has a loss, and needs target=")
        trains = self._loss_fn is not None
        return self._run(trains, args, kwargs, target, losses, return_outputs, loss_kwargs)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Send a batch through the pipeline, forward alone. All ranks of the group call this, as under ``tensor.no_grad()``.

        Parameters
        ----------
        *args, target, losses, return_outputs, loss_kwargs, **kwargs
            See :meth:`step`. Without a target there are no losses.

        Returns
        -------
        Any
            The outputs for the batch, in the last stage; otherwise None.
        """
        return self._run(False, args, kwargs, target, losses, return_outputs, loss_kwargs)

    def _run(
        self,
        trains: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        losses: list[Any] | None,
        return_outputs: bool,
        loss_kwargs: dict[str, Any] | None,
    ) -> Any:
        stage, count = self._stage, self._n_microbatches
        microbatches = _Microbatches(self, args if stage.is_first else (), kwargs, target, loss_kwargs)
        stage.clear_runtime_states()
        outputs: list[Any] = [None] * count
        computed: list[Any] = [None] * count
        actions = self._order_of(stage.stage_index) if trains else order.forward_passes(count)
        neighbours = _Neighbours(self) if trains else None
        sending: list[Work] = []
        outgoing: list[P2POp] = []
        before: Action | None = None
        for action in actions:
            number = action.microbatch
            incoming = (
                stage.forward_receives(number, trains=trains)
                if action.forward
                else stage.backward_receives(number)
            )
            if before is not None and neighbours is not None and neighbours.meet(before, action):
                _wait(_begin([*outgoing, *incoming]))
            else:
                sending += _begin(outgoing)
                _wait(_begin(incoming))
            if action.forward:
                output, outgoing = stage.forward_one_chunk(
                    number, microbatches.args[number], microbatches.kwargs[number], trains=trains
                )
                if stage.is_last:
                    computed[number] = microbatches.loss(number, output)
                    outputs[number] = output if return_outputs else None
                del output
            else:
                outgoing = stage.backward_one_chunk(
                    number,
                    loss=computed[number],
                    scale=1 / count if self.scale_grads else 1.0,
                    last=action == actions[-1],
                )
                if stage.is_last:
                    # What they were computed from goes.
                    computed[number] = computed[number].detach()
                    outputs[number] = tree_map_only(Tensor, lambda x: x.detach(), outputs[number])
            before = action
        _wait([*sending, *_begin(outgoing)])
        if losses is not None and stage.is_last:
            losses[:] = [each for each in computed if each is not None]
        if not (stage.is_last and return_outputs):
            return None
        return merge_chunks(outputs, self._output_merge_spec)


class ScheduleGPipe(PipelineScheduleSingle):
    """All forward passes of a step, then all backward passes.

    >>> stage = parallel.pipelining.PipelineStage(nn.Linear(4, 2), 0, 1, tensor.device("cpu"))
    >>> schedule = parallel.pipelining.ScheduleGPipe(stage, 2)
    >>> schedule.eval(tensor.ones(4, 4)).shape
    tensor.Size([4, 2])

    Parameters
    ----------
    stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        See :class:`PipelineScheduleSingle`.
    """

    def _order_of(self, stage: int) -> list[Action]:
        """The passes of micro-batches through a stage, in their order."""
        return order.all_forward_all_backward(self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """Backward passes as early as they can be, in turns with forward passes.

    A stage has saved what backward passes need of as many micro-batches at most as there are stages from it to the last one.

    >>> stage = parallel.pipelining.PipelineStage(nn.Linear(4, 2), 0, 1, tensor.device("cpu"))
    >>> schedule = parallel.pipelining.Schedule1F1B(stage, 2, nn.functional.mse_loss)
    >>> schedule.step(tensor.ones(4, 4), target=tensor.ones(4, 2)).shape
    tensor.Size([4, 2])

    Parameters
    ----------
    stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        See :class:`PipelineScheduleSingle`.

    Raises
    ------
    ValueError
        If there are fewer micro-batches than stages.
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: tuple[Any, ...] | None = None,
        kwargs_chunk_spec: dict[str, Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            stage,
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )
        if n_microbatches < stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages "
                f"({stage.num_stages})."
            )

    def _order_of(self, stage: int) -> list[Action]:
        """The passes of micro-batches through a stage, in their order."""
        return order.one_forward_one_backward(stage, self._stage.num_stages, self._n_microbatches)


class _Microbatches:
    """The arguments and targets of a step by micro-batch, and the losses."""

    def __init__(
        self,
        schedule: PipelineScheduleSingle,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        loss_kwargs: dict[str, Any] | None,
    ) -> None:
        count, (args_spec, kwargs_spec) = schedule._n_microbatches, schedule._specs
        self.args, self.kwargs = split_args_kwargs_into_chunks(
            args, kwargs, count, args_spec if args else None, kwargs_spec if kwargs else None
        )
        self._targets: Any = None
        if target is not None and schedule._stage.is_last:
            divided, _ = split_args_kwargs_into_chunks((target,), {}, count, (TensorChunkSpec(0),))
            self._targets = divided
        self._loss_fn = schedule._loss_fn
        self._loss_kwargs = loss_kwargs or {}

    def loss(self, number: int, output: Any) -> Any:
        """The loss of a micro-batch; None where there is none."""
        if self._loss_fn is None or self._targets is None:
            return None
        loss = self._loss_fn(output, *self._targets[number], **self._loss_kwargs)
        if loss.numel() != 1:
            raise ValueError(
                f"loss_fn returned a tensor of shape {list(loss.shape)}: the loss of a micro-batch is a scalar, as its mean"
            )
        return loss


class _Neighbours:
    """Between which passes two neighbours send to each other at once.

    Between these each queues both messages in one call. One after the other, with NCCL, each send would wait for the receive
    that the other rank has queued behind its own send.
    """

    def __init__(self, schedule: PipelineScheduleSingle) -> None:
        stage, stages = schedule._stage.stage_index, schedule._stage.num_stages
        self._next = set(pairwise(schedule._order_of(stage + 1))) if stage + 1 < stages else set()
        self._previous = set(pairwise(schedule._order_of(stage - 1))) if stage else set()

    def meet(self, before: Action, after: Action) -> bool:
        """Whether what is sent after one pass, and received before the next, is so with one neighbour, which does the opposite."""
        opposite = after, before
        if before.forward and not after.forward:
            return opposite in self._next
        return after.forward and not before.forward and opposite in self._previous


def _begin(operations: list[P2POp]) -> list[Work]:
    return batch_isend_irecv(operations) if operations else []


def _wait(works: list[Work]) -> None:
    for each in works:
        each.wait()


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
