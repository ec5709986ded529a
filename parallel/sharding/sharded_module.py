"""``ShardedModule``: what :func:`parallel.fully_shard` adds to a module: hooks around its forward and backward passes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import tensor
from parallel.ddp.unused_parameters import tensors_in
from tensor import Tensor
from tensor.autograd import Function

from .dtensor import local_part, placed_like
from .schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nn import Module

    from .parameter_group import ParameterGroup
    from .policies import MixedPrecisionPolicy


class ShardedModule:
    """The state of a module that :func:`parallel.fully_shard` was applied to.

    Attributes
    ----------
    groups : list of ParameterGroup
        The parameters of the module and of modules below it that have no state of their own; a group for each dtype.
    reshard_after_forward : bool or None
        Whether the shards are in their places between forward and backward pass; None leaves it to whether this is the root.
    """

    def __init__(
        self,
        module: Module,
        groups: list[ParameterGroup],
        policy: MixedPrecisionPolicy,
        device: tensor.device,
        reshard_after_forward: bool | None,
    ) -> None:
        self.module = module
        self.groups = groups
        self.policy = policy
        self.device = device
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward = True
        self.gathers_in_backward = True
        self.reduces = True
        #: Modules to gather ahead, where the user says so.
        self.forward_prefetch: list[ShardedModule] | None = None
        self.backward_prefetch: list[ShardedModule] | None = None
        self.schedule: Schedule | None = None
        module.register_forward_pre_hook(self._before_forward, prepend=True, with_kwargs=True)
        module.register_forward_hook(self._after_forward)
        module.register_state_dict_pre_hook(self._before_state_dict)
        module.register_load_state_dict_pre_hook(self._before_state_dict)

    def join(self) -> Schedule:
        """The schedule of the root that this module is below; it is the root where there is none yet."""
        if self.schedule is None:
            states = [each for each in map(state_of, self.module.modules()) if each is not None]
            schedule = Schedule(states, self.device)
            for each in states:
                each.schedule = schedule
                for group in each.groups:
                    group.schedule = schedule
        assert self.schedule is not None
        return self.schedule

    def gather(self, *, behind_current: bool = False) -> None:
        """Begin to gather the parameters."""
        self.join()
        for group in self.groups:
            group.gather(behind_current=behind_current)

    def wait(self) -> None:
        """Have the module use the parameters that are being gathered."""
        for group in self.groups:
            group.wait()

    def reshard(self) -> None:
        """Have the module use the shards."""
        for group in self.groups:
            group.reshard()

    def _keeps_after_forward(self, schedule: Schedule) -> bool:
        if not tensor.is_grad_enabled():
            # No backward pass follows, and the shards may change.
            return False
        if self.reshard_after_forward is None:
            return schedule.states[0] is self
        return not self.reshard_after_forward

    # Around the forward pass

    def _before_forward(self, module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        schedule = self.join()
        recomputes = schedule.in_backward
        if not recomputes:
            schedule.begin_forward(self)
        following: list[ParameterGroup] = []
        for group in self.groups:
            group.gather()
        for group in self.groups:
            group.wait()
            if not recomputes:
                after = schedule.note_use(group)
                following = [] if after is None else [after]
        if not recomputes:
            self._gather_ahead(self.forward_prefetch, following)
        if self.policy.cast_forward_inputs and self.policy.param_dtype is not None:
            args, kwargs = cast((args, kwargs), self.policy.param_dtype)
        if tensor.is_grad_enabled():
            args, kwargs = self._behind_boundary(args, kwargs)
        return args, kwargs

    def _gather_ahead(self, states: list[ShardedModule] | None, groups: list[ParameterGroup]) -> None:
        for group in groups if states is None else [group for state in states for group in state.groups]:
            group.gather()

    def _behind_boundary(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments, whose gradients come when the backward pass through the module is over."""
        inputs = [each for each in tensors_in((args, kwargs)) if each.requires_grad]
        if not inputs or not any(group.members for group in self.groups):
            return args, kwargs
        passed = _Boundary.apply(self, *map(local_part, inputs))
        replaced = {id(each): placed_like(other, each) for each, other in zip(inputs, passed, strict=True)}
        result: tuple[Any, Any] = mapped((args, kwargs), lambda x: replaced.get(id(x), x))
        return result

    def _after_forward(self, module: Module, args: Any, output: Any) -> Any:
        schedule = self.join()
        if schedule.in_backward:
            # A checkpoint's forward pass: the backward pass through it follows at once.
            return self._cast_output(output)
        if tensor.is_grad_enabled():
            outputs = [each for each in tensors_in(output) if each.requires_grad]
            if outputs:
                schedule.order.extend(self.groups)
            for each in outputs:
                local_part(each).register_hook(self._before_backward)
        if not self._keeps_after_forward(schedule):
            self.reshard()
        schedule.end_forward(self)
        return self._cast_output(output)

    def _cast_output(self, output: Any) -> Any:
        dtype = self.policy.output_dtype
        return output if dtype is None else cast(output, dtype)

    # Around the backward pass

    def _before_backward(self, gradient: Tensor) -> None:
        schedule = self.join()
        schedule.begin_backward()
        before = None
        for group in reversed(self.groups):
            before = schedule.before(group)
            if self.gathers_in_backward:
                group.gather()
        self.wait()
        self._gather_ahead(self.backward_prefetch, [] if before is None else [before])

    @tensor.no_grad()  # type: ignore[untyped-decorator]
    def after_backward(self, *, at_end: bool = False) -> None:
        """Reduce the gradients that the backward pass has computed, and have the module use the shards.

        ``at_end``: whether no module is used in this pass any more.
        """
        schedule = self.join()
        for group in reversed(self.groups):
            # After a reduction the optimizer may step. Whether it has, cannot be told: a shard may have no elements.
            if (self.reshard_after_backward or self.reduces) and (at_end or not group.is_under_way):
                group.reshard()
            if self.reduces:
                reduction = group.reduction()
                if reduction is not None:
                    schedule.reduce(reduction)

    def _before_state_dict(self, *args: Any) -> None:
        self.reshard()


class _Boundary(Function):
    """The identity on a module's inputs; its backward pass comes after the module's."""

    @staticmethod
    def forward(ctx: Any, state: ShardedModule, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.state = state
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        ctx.state.after_backward()
        return None, *gradients


def state_of(module: Module) -> ShardedModule | None:
    """What :func:`parallel.fully_shard` has added to ``module``; None if it was not applied to it."""
    state: ShardedModule | None = module.__dict__.get("_sharded_module")
    return state


def mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """``value`` with the tensors in tuples, lists, dicts and dataclasses inside each other replaced by ``function``."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, function) for each in value))
    if type(value) in (tuple, list):
        return type(value)([mapped(each, function) for each in value])
    if isinstance(value, dict):
        return type(value)((key, mapped(each, function)) for key, each in value.items())
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            each.name: mapped(getattr(value, each.name), function) for each in fields(value) if each.init
        }
        return replace(value, **changed)
    return value


def cast(value: Any, dtype: tensor.dtype) -> Any:
    """``value`` with its tensors of floating point in ``dtype``."""
    return mapped(value, lambda x: x.to(dtype) if x.dtype.is_floating_point else x)


def states_below(module: Module) -> Iterator[ShardedModule]:
    """Of the module and those below it, each that has one."""
    for each in module.modules():
        state = state_of(each)
        if state is not None:
            yield state
