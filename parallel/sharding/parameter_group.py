"""``ParameterGroup``: parameters that are gathered and whose gradients are reduced together.

Each rank has its shards of the parameters. Gathering packs them into one flat tensor, gathers the flat tensors of all
ranks, and copies the rows of each parameter to where they belong, in memory that all parameters of the group share and that
exists only meanwhile. What autograd has saved refers to this memory, and finds it filled anew in the backward pass. Gradients
go the other way: packed by rank, reduced and scattered in one operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from nn import Parameter
from parallel.groups.collectives.tensor_collectives import (
    all_gather_into_tensor,
    all_reduce,
    reduce_scatter_tensor,
)
from parallel.groups.reduce_op import ReduceOp
from tensor.core.base import view_of
from tensor.core.layout import contiguous

from .dtensor import ShardedParameter, distributed, padded_rows, shard_group
from .placements import Sharding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn import Module
    from parallel.device_mesh import DeviceMesh
    from tensor import Tensor
    from tensor.cuda import Stream

    from .schedule import Schedule

#: Bytes to which the beginning of each gathered parameter is aligned, as an allocation's is.
_ALIGNMENT = 256


class _Member:
    """A parameter, where modules have it, and where it lies in what is gathered."""

    __slots__ = ("offset", "outer", "places", "shard", "sharding", "whole", "window")

    def __init__(
        self, shard: ShardedParameter, places: Sequence[tuple[Module, str]], mesh: DeviceMesh
    ) -> None:
        self.shard = shard
        #: Of what is gathered; and that of which it is this rank's part, by a tensor-parallel plan.
        self.outer, self.sharding = _divisions(shard._sharding, mesh)
        self.places = list(places)
        #: Of this parameter's shard among those of a rank, in elements.
        self.offset = 0
        #: The gathered parameter, and its memory by rank and element of the shard.
        self.whole: Any = None
        self.window: Any = None


class ParameterGroup:
    """Parameters of one dtype that are gathered together.

    Parameters
    ----------
    name
        For messages.
    parameters
        Each with the modules that have it, and its name there.
    mesh
        Among whose ranks they are divided; the group's members have the same.
    device
        Where the module computes; shards may be on the CPU.
    param_dtype, reduce_dtype
        In which parameters are gathered, and gradients reduced; None for the parameters' own and the gradients' own.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[ShardedParameter, Sequence[tuple[Module, str]]]],
        mesh: DeviceMesh,
        device: tensor.device,
        param_dtype: tensor.dtype | None,
        reduce_dtype: tensor.dtype | None,
    ) -> None:
        self.name = name
        self.mesh = mesh
        self.device = device
        self.schedule: Schedule | None = None
        self.members = [_Member(shard, places, mesh) for shard, places in parameters]
        self._param_dtype, self._reduce_dtype = param_dtype, reduce_dtype
        self._ranks = self.members[0].sharding.ranks
        self._total = 0
        for member in self.members:
            member.offset = self._total
            self._total += member.sharding.padded
        self.reduce_group: Any = None
        self.divisor: float | None = None
        self.reduces_unused = False
        self.is_gathered = False
        self._under_way: tuple[Any, Tensor] | None = None
        self._storage: Any = None
        self._streams: list[Stream] = []

    @property
    def is_under_way(self) -> bool:
        """Whether the parameters are being gathered, and nobody has waited for them."""
        return self._under_way is not None

    def _dtype(self) -> tensor.dtype:
        return self._param_dtype or self.members[0].shard.dtype

    # Parameters

    def gather(self, *, behind_current: bool = False) -> None:
        """Begin to gather the parameters, unless they are there or under way.

        ``behind_current``: whether what the current stream holds may have set the shards.
        """
        if self._under_way is not None or self.is_gathered:
            return
        assert self.schedule is not None
        self._refresh()
        with tensor.no_grad(), self.schedule.gathering(behind_current=behind_current):
            dtype = self._dtype()
            rows = []
            for member in self.members:
                local = member.shard.to_local().detach()
                if local.device.type != self.device.type:
                    self.schedule.reads_host = True
                    local = local.to(self.device, non_blocking=True)
                rows.append(padded_rows(local, member.sharding).reshape(-1).to(dtype))
            packed = tensor.cat(rows)
            whole = packed.new_empty(self._ranks * self._total)
            work = all_gather_into_tensor(whole, packed, group=shard_group(self.mesh), async_op=True)
        self._under_way = work, whole

    def wait(self) -> None:
        """Have the current streams wait for the parameters, and the modules use them."""
        if self._under_way is None:
            return
        (work, whole), self._under_way = self._under_way, None
        assert self.schedule is not None
        work.wait()
        with tensor.no_grad():
            if self._storage is None or self.members[0].whole.dtype is not whole.dtype:
                self._lay_out(whole)
            else:
                self._with_version_kept(self._storage.capacity)
            storage = self._storage
            version = storage.version
            rows = whole.view(self._ranks, self._total)
            for member in self.members:
                if member.sharding.padded:
                    member.window.copy_(rows.narrow(1, member.offset, member.sharding.padded))
            storage.version = version
            self.schedule.note_copied_out(whole)
        self.is_gathered = True
        for member in self.members:
            for module, name in member.places:
                module._parameters[name] = member.whole

    def _lay_out(self, whole: Tensor) -> None:
        """Make the gathered parameters, in memory of their own."""
        dtype, state = whole.dtype, whole._layout.device_state
        step = max(1, _ALIGNMENT // dtype.itemsize)
        starts, start = [], 0
        for member in self.members:
            starts.append(start)
            start += -(-self._ranks * member.sharding.padded // step) * step
        flat = whole.new_empty(start)
        self._storage = flat._storage
        for member, begin in zip(self.members, starts, strict=True):
            sharding, position = member.sharding, begin * dtype.itemsize
            member.window = view_of(
                self._storage, contiguous[(self._ranks, sharding.padded), dtype, state], position
            )
            view = view_of(self._storage, contiguous[sharding.shape, dtype, state], position)
            if member.outer is None:
                member.whole = Parameter(view, member.shard.requires_grad)
            else:
                member.whole = distributed(view, member.outer).as_subclass(ShardedParameter)
                member.whole.requires_grad_(member.shard.requires_grad)
            if member.shard.requires_grad:
                member.whole.register_post_accumulate_grad_hook(self._note_stream)

    def _with_version_kept(self, size: int) -> None:
        """Give the memory of the gathered parameters back, or get it, unseen by what autograd has saved."""
        version = self._storage.version
        self._storage.resize_(size)
        self._storage.version = version

    def _refresh(self) -> None:
        """Take over parameters that were put in the places of the shards, as by ``load_state_dict(assign=True)``."""
        for member in self.members:
            module, name = member.places[0]
            present: Any = module._parameters.get(name)
            if present is member.shard:
                continue
            if type(present) is not ShardedParameter or present._sharding != member.shard._sharding:
                described = (
                    "None" if present is None else f"{type(present).__name__} of shape {list(present.shape)}"
                )
                raise RuntimeError(
                    f"parameter '{name}' of {self.name or 'the module'} was replaced by a {described}: under fully_shard it is an "
                    "nn.Parameter of a DTensor of the same shape and mesh, as parallel.tensor.distribute_tensor makes it"
                )
            member.shard = present
            for each, other in member.places[1:]:
                each._parameters[other] = present
            self._storage = None

    def reshard(self) -> None:
        """Have the modules use the shards, and give the memory of the gathered parameters back."""
        if self._under_way is not None:
            (work, whole), self._under_way = self._under_way, None
            work.wait()
            assert self.schedule is not None
            self.schedule.note_copied_out(whole)
        if not self.is_gathered:
            return
        self.is_gathered = False
        for member in self.members:
            for module, name in member.places:
                module._parameters[name] = member.shard
        self._with_version_kept(0)

    def write_back(self) -> None:
        """Set the shards to this rank's rows of the gathered parameters, which were written to."""
        with tensor.no_grad():
            for member in self.members if self.is_gathered else ():
                member.shard.to_local().copy_(
                    member.sharding.part_of(member.whole.as_subclass(tensor.Tensor))
                )

    # Gradients

    def _note_stream(self, parameter: Tensor) -> None:
        state: Any = parameter._layout.device_state
        if state.is_cuda and state.local.stream not in self._streams:
            self._streams.append(state.local.stream)

    def forget_gradients(self) -> None:
        """Drop gradients that were not reduced."""
        for member in self.members:
            if member.whole is not None:
                member.whole.grad = None

    def reduction(self) -> Reduction | None:
        """The reduction of the gradients that there are; None without any."""
        members = [
            member
            for member in self.members
            if member.whole is not None and member.shard.requires_grad and member.whole.grad is not None
        ]
        if not members:
            return None
        if self.reduces_unused:
            members = [member for member in self.members if member.shard.requires_grad]
        return Reduction(self, members)

    def take_gradients(self, members: Sequence[_Member]) -> Tensor:
        """The gradients of ``members``, packed by rank: ``(ranks, elements)``; on the current stream."""
        rows = []
        dtype = self._reduce_dtype or self._dtype()
        device: Any = self.members[0].whole._layout.device_state
        here = device.local.stream if device.is_cuda else None
        others = [each for each in self._streams if each != here]
        for each in others:
            assert here is not None
            here.wait_stream(each)
        self._streams.clear()
        for member in members:
            sharding = member.sharding
            # Of a DTensor the part.
            state = member.whole._autograd
            gradient, state.grad = (None, None) if state is None else (state.grad, None)
            count = self._ranks * sharding.rows
            if gradient is None:
                rows.append(tensor.zeros(self._ranks, sharding.padded, dtype=dtype, device=self.device))
                continue
            if others:
                gradient.record_stream(here)
            if count != sharding.shape[0]:
                padded = gradient.new_zeros((count, *sharding.shape[1:]))
                padded[: sharding.shape[0]].copy_(gradient)
                gradient = padded
            rows.append(gradient.reshape(self._ranks, -1).to(dtype))
        return tensor.cat(rows, 1)


class Reduction:
    """The gradients of a group on their way to the shards."""

    __slots__ = ("_group", "_members", "_output", "_work")

    def __init__(self, group: ParameterGroup, members: list[_Member]) -> None:
        self._group = group
        self._members = members
        self._output: Any = None
        self._work: Any = None

    def begin(self) -> None:
        """Pack the gradients on the current stream, and begin to reduce them."""
        group = self._group
        packed = group.take_gradients(self._members)
        self._output = packed.new_empty(packed.shape[1])
        self._work = reduce_scatter_tensor(
            self._output,
            packed.reshape(-1),
            ReduceOp.AVG if group.divisor is None else ReduceOp.SUM,
            group=group.reduce_group or shard_group(group.mesh),
            async_op=True,
        )

    def finish(self) -> None:
        """Have the current streams wait for the results, which become gradients of the shards, or are added to them."""
        group = self._group
        self._work.wait()
        output: Tensor = self._output
        if output.device.type == "cuda":
            output.record_stream(tensor.cuda.current_stream(output.device))
        if group.mesh.ndim == 2:
            all_reduce(
                output, ReduceOp.AVG if group.divisor is None else ReduceOp.SUM, group=group.mesh.get_group(0)
            )
        if group.divisor is not None:
            output.div_(group.divisor)
        first = self._members[0].shard
        output = output.to(first.dtype)
        if first.device.type != output.device.type:
            output = self._on_host(output)
        start = 0
        for member in self._members:
            shard, sharding = member.shard, member.sharding
            local = sharding.local_shape()
            count = shard._layout.numel
            gradient = output.narrow(0, start, count).reshape(local)
            start += sharding.padded
            state = shard._autograd
            if state.grad is None:
                state.grad = gradient
            else:
                state.grad.add_(gradient)
            for hook in list((state.post_hooks or {}).values()):
                hook(shard)

    def _on_host(self, output: Tensor) -> Tensor:
        """The gradients, copied to the CPU. The end of the backward pass waits for the copy, unless something needs them now."""
        states = [member.shard._autograd for member in self._members]
        result = tensor.empty(output.shape, dtype=output.dtype, pin_memory=self._members[0].shard.is_pinned())
        result.copy_(output, non_blocking=True)
        copied = tensor.cuda.current_stream(output.device).record_event()
        if any(state.grad is not None or state.post_hooks for state in states):
            copied.synchronize()
        else:
            assert self._group.schedule is not None
            self._group.schedule.note_copy_to_host(copied)
        return result


def _divisions(sharding: Sharding, mesh: DeviceMesh) -> tuple[Sharding | None, Sharding]:
    """How a tensor-parallel plan has divided a parameter, if one has, and how its part is divided by rows over ``mesh``."""
    if sharding.mesh == mesh:
        return None, sharding
    names = sharding.mesh.mesh_dim_names
    assert names is not None
    others = [name for name in names if name not in (mesh.mesh_dim_names or ())]
    placements = [sharding.placements[names.index(name)] for name in others]
    outer = Sharding(sharding.mesh[tuple(others)], sharding.shape, tuple(placements))
    return outer, Sharding.by_rows(mesh, outer.local_shape())
