"""``PipelineStage``: some layers of a model, with what they get from the stage before and send to the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tensor
from nn import Module
from parallel.groups.collectives.object_collectives import recv_object_list, send_object_list
from parallel.groups.collectives.point_to_point import P2POp, irecv, isend
from parallel.groups.process_groups import get_rank, get_world_size
from parallel.sharding.dtensor import DTensor
from tensor import Tensor
from tensor.core.names.absent import hints as _hints

from . import data_parallelism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parallel.groups.process_groups import Group

__all__ = ["PipelineStage"]


class _Activation(NamedTuple):
    """What a tensor that stages pass on looks like in every micro-batch."""

    shape: tuple[int, ...]
    dtype: tensor.dtype
    requires_grad: bool

    def __repr__(self) -> str:
        return f"{self.dtype} of shape {list(self.shape)}{' with a gradient' if self.requires_grad else ''}"


class PipelineStage:
    """A stage of a pipeline: consecutive layers of a model, which one rank computes.

    Its module is called with what the module of the stage before returned, a tensor or a tuple of tensors; that of the first
    stage with the positional arguments of the schedule's ``step()``. Keyword arguments of ``step()`` are each stage's own.

    The shapes of what is passed on are told to the next stage once, with the first micro-batch, and are the same in all
    micro-batches and steps; those of ``eval()`` are told separately.

    >>> layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> rank, stages = parallel.get_rank(), parallel.get_world_size()  # 0 and 1 here
    >>> stage = parallel.pipelining.PipelineStage(layers, rank, stages, tensor.device("cpu"))
    >>> stage.is_first, stage.is_last
    (True, True)

    Parameters
    ----------
    submodule : Module
        The layers, on ``device``; may be a :class:`parallel.DistributedDataParallel`, or what
        :func:`parallel.fully_shard` was applied to: gradients are reduced once, with the last micro-batch.
    stage_index : int
        The number of the stage, which is the number of this rank in ``group``.
    num_stages : int
        How many there are; as many as ranks in ``group``.
    device : tensor.device
        Where the tensors are that are passed on.
    input_args, output_args : Tensor or tuple of Tensor, optional
        Examples of what a micro-batch's module gets and returns, with which what comes is compared.
    group : ProcessGroup, optional
        The stages, as a mesh has them: ``mesh.get_group("pp")``. All ranks by default.

    Raises
    ------
    TypeError
        If ``submodule`` is no module.
    ValueError
        If the number of stages is not that of ranks, or that of the stage not this rank's.
    """

    def __init__(
        self,
        submodule: Any,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Tensor | tuple[Tensor, ...] | None = None,
        output_args: Tensor | tuple[Tensor, ...] | None = None,
        group: Group = None,
    ) -> None:
        if not isinstance(submodule, Module):
            raise TypeError(f"PipelineStage() takes a module, got {type(submodule).__name__}")
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        rank, size = get_rank(group), get_world_size(group)
        if (rank, size) != (stage_index, num_stages):
            raise ValueError(
                f"PipelineStage(): stage {stage_index} of {num_stages} on rank {rank} of a group of {size}: each rank of a group has "
                "one stage, whose number is its own; pass group= with as many ranks as stages, as mesh.get_group('pp')"
            )
        self.submod = submodule
        self.stage_index = stage_index
        self.num_stages = num_stages
        self.device = tensor.device(device)
        self.group = group
        #: By micro-batch, what of its forward pass the backward pass begins and ends at: outputs, and received inputs.
        self.fwd_cache: dict[int, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = {}
        self._expected = {"input_args": _examples(input_args), "output_args": _examples(output_args)}
        #: Of the activations that come and go, by whether a backward pass follows.
        self._incoming: dict[bool, tuple[_Activation, ...]] = {}
        self._outgoing: dict[bool, tuple[_Activation, ...]] = {}
        self._received: dict[int, list[Tensor]] = {}
        self._gradients: dict[int, list[Tensor]] = {}

    @property
    def is_first(self) -> bool:
        """Whether this stage gets the batch: a bool."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether this stage computes the outputs and the loss: a bool."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forget micro-batches, as those of a step that raised."""
        self.fwd_cache.clear()
        self._received.clear()
        self._gradients.clear()

    # What comes

    def forward_receives(self, microbatch: int, *, trains: bool) -> list[P2POp]:
        """The operations to receive the activations of a micro-batch: a list of P2POp.

        Parameters
        ----------
        microbatch : int
            Its number.
        trains : bool
            Whether a backward pass follows.

        Raises
        ------
        ValueError
            If they do not look as ``input_args``.
        """
        if self.is_first:
            return []
        if trains not in self._incoming:
            described: list[Any] = [None]
            recv_object_list(described, group=self.group, group_src=self.stage_index - 1)
            self._check("input_args", described[0])
            self._incoming[trains] = described[0]
        buffers = [
            tensor.empty(each.shape, dtype=each.dtype, device=self.device) for each in self._incoming[trains]
        ]
        self._received[microbatch] = buffers
        return self._operations(irecv, buffers, self.stage_index - 1)

    def backward_receives(self, microbatch: int) -> list[P2POp]:
        """The operations to receive the gradients of what was sent of a micro-batch: a list of P2POp.

        Parameters
        ----------
        microbatch : int
            Its number.
        """
        if self.is_last:
            return []
        outputs, _ = self.fwd_cache[microbatch]
        gradients = [
            tensor.empty(each.shape, dtype=each.dtype, device=self.device)
            for each in outputs
            if each.requires_grad
        ]
        self._gradients[microbatch] = gradients
        return self._operations(irecv, gradients, self.stage_index + 1)

    # What is computed, and goes

    def forward_one_chunk(
        self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any], *, trains: bool
    ) -> tuple[Any, list[P2POp]]:
        """The forward pass of a micro-batch: what the module returned, and the operations to send it.

        Parameters
        ----------
        microbatch : int
            Its number.
        args, kwargs
            From outside the pipeline; positional ones count in the first stage.
        trains : bool
            Whether a backward pass follows.

        Raises
        ------
        TypeError
            If the module returns something else than plain tensors for the next stage.
        ValueError
            If it returns tensors on another type of device, of other shapes than in the first micro-batch, or unlike
            ``output_args``.
        """
        received = tuple(self._received.pop(microbatch, ()))
        if trains:
            for each, described in zip(received, self._incoming[True] if received else (), strict=True):
                each.requires_grad_(described.requires_grad)
        output = data_parallelism.forward(self.submod, args if self.is_first else received, kwargs)
        outputs = tuple(output) if isinstance(output, (tuple, list)) else (output,)
        if trains:
            self.fwd_cache[microbatch] = outputs, received
        if self.is_last:
            return output, []
        self._describe(outputs, trains)
        return output, self._operations(isend, [each.detach() for each in outputs], self.stage_index + 1)

    def backward_one_chunk(
        self, microbatch: int, *, loss: Tensor | None, scale: float, last: bool
    ) -> list[P2POp]:
        """The backward pass of a micro-batch; the operations to send the gradients of what was received.

        Parameters
        ----------
        microbatch : int
            Its number.
        loss : Tensor, optional
            The loss, of the last stage.
        scale : float
            What the gradient of the loss is.
        last : bool
            Whether it is the last one of the step.
        """
        outputs, inputs = self.fwd_cache.pop(microbatch)
        if loss is not None:
            roots, gradients = [loss], [tensor.full_like(loss, scale)]
        else:
            roots = [each for each in outputs if each.requires_grad]
            gradients = self._gradients.pop(microbatch)
        if roots:
            with data_parallelism.backward(self.submod, roots, last=last):
                tensor.autograd.backward(roots, gradients)
        if self.is_first:
            return []
        returned = [
            tensor.zeros_like(each) if each.grad is None else each.grad
            for each in inputs
            if each.requires_grad
        ]
        return self._operations(isend, returned, self.stage_index - 1)

    def _operations(self, operation: Any, tensors: Sequence[Tensor], stage: int) -> list[P2POp]:
        return [P2POp(operation, each, group=self.group, group_peer=stage) for each in tensors]

    def _describe(self, outputs: tuple[Any, ...], trains: bool) -> None:
        """Tell the next stage what the outputs look like, or see that they look as they did."""
        for each in outputs:
            if not isinstance(each, Tensor) or isinstance(each, DTensor):
                raise TypeError(
                    f"stage {self.stage_index}: the module returned {type(each).__name__} for the next stage, which gets plain "
                    "tensors, one or a tuple of them; of a DTensor pass to_local() on"
                )
            if each.device != self.device and each.device.type != self.device.type:
                raise ValueError(
                    f"stage {self.stage_index}: the module returned a tensor on {each.device}, and the stage is on {self.device}"
                )
        described = tuple(
            _Activation(tuple(each.shape), each.dtype, trains and each.requires_grad) for each in outputs
        )
        present = self._outgoing.get(trains)
        if present is None:
            self._check("output_args", described)
            send_object_list([described], group=self.group, group_dst=self.stage_index + 1)
            self._outgoing[trains] = described
        elif present != described:
            raise ValueError(
                f"stage {self.stage_index}: the module returned {described}, and {present} in the first micro-batch, for which the "
                "next stage has room: pass batches of one size, or make another stage and schedule on all ranks"
            )

    def _check(self, name: str, described: tuple[_Activation, ...]) -> None:
        expected = self._expected[name]
        present = [(each.shape, each.dtype) for each in described]
        if expected is not None and present != [(each.shape, each.dtype) for each in expected]:
            raise ValueError(
                f"stage {self.stage_index}: {name} says {expected}, and a micro-batch has {described}"
            )


def _examples(tensors: Any) -> tuple[_Activation, ...] | None:
    if tensors is None:
        return None
    return tuple(
        _Activation(tuple(each.shape), each.dtype, each.requires_grad)
        for each in ((tensors,) if isinstance(tensors, Tensor) else tensors)
    )


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
