"""``ZeroRedundancyOptimizer``: each rank keeps the states of a part of the parameters, and steps them for all ranks.

It is the first stage of ZeRO (Rajbhandari et al., 2020): gradients are averaged as ever, by
:class:`parallel.DistributedDataParallel`, and the memory of the optimizer is divided by the number of ranks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import tensor
from nn.optim import Optimizer
from parallel.ddp.joining import Join, Joinable, JoinHook
from parallel.ddp.module_states import broadcast_tensors
from parallel.groups.collectives.object_collectives import gather_object
from parallel.groups.collectives.tensor_collectives import broadcast
from parallel.groups.process_groups import checked_group
from tensor import Tensor
from tensor.core.base import view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from parallel.groups.process_groups import ProcessGroup

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose states are divided among the ranks: each keeps those of its own parameters.

    Parameters are dealt out whole, the largest first, each to the rank that has the fewest elements so far. :meth:`step`
    updates this rank's own parameters with an optimizer of ``optimizer_class``, and every rank then gets the results of
    the others. Gradients must be the same on all ranks, as :class:`parallel.DistributedDataParallel` makes them. The results
    are those of ``optimizer_class`` with all parameters on every rank.

    >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
    >>> optimizer = parallel.optim.ZeroRedundancyOptimizer(model.parameters(), nn.optim.Adam, lr=0.01)
    >>> model(tensor.randn(8, 3)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.consolidate_state_dict(to=0)  # on all ranks
    >>> if parallel.get_rank() == 0:
    ...     checkpoint = optimizer.state_dict()

    Parameters
    ----------
    params : iterable
        Tensors, pairs of names and tensors, or dicts: groups; the same on all ranks.
    optimizer_class : type
        Class of the optimizer that steps this rank's parameters, such as :class:`nn.optim.AdamW`.
    process_group : ProcessGroup, optional
        The ranks among which states are divided; all by default.
    parameters_as_bucket_view : bool
        Whether the parameters become views of flat tensors, one for each rank, dtype and device, which are sent without
        copies. Otherwise they are packed for each step.
    overlap_with_ddp : bool
        Not supported: True raises NotImplementedError.
    **defaults
        Arguments for ``optimizer_class``.

    Attributes
    ----------
    optim : Optimizer
        The optimizer of this rank's parameters.

    Raises
    ------
    TypeError
        If ``optimizer_class`` is not a class of optimizers, or ``params`` is not an iterable of tensors.
    ValueError
        Before :func:`parallel.init_process_group`, if there are no parameters, or one is not dense.
    NotImplementedError
        If ``overlap_with_ddp``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True) is not supported: leave it out and call step() after the "
                "backward pass, or use parallel.fully_shard"
            )
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(f"optimizer_class is a subclass of nn.optim.Optimizer, got {optimizer_class!r}")
        self.process_group = checked_group(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._loads = [0] * self.world_size
        #: The parameters of each rank, by group.
        self._partition: list[list[list[Tensor]]] = []
        self._flats: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        self._consolidated: list[dict[str, Any]] | None = None
        self._optimizer: Optimizer | None = None
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self.optim = self._optimizer = optimizer_class(self._local_groups(), **defaults)
        #: The states of this rank's parameters.
        self.state = self.optim.state
        self._copy_options(self.optim.param_groups, self.param_groups)
        for number in range(len(self.param_groups)):
            self._use_flats(number)

    # Which rank has what

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, which is divided among the ranks as the others are. All ranks call this.

        Parameters
        ----------
        param_group : dict
            See :meth:`nn.optim.Optimizer.add_param_group`, also for the errors. ValueError also if a parameter is not dense.
        """
        if isinstance(param_group, dict):
            params = param_group["params"]
            params = (
                [params]
                if isinstance(params, Tensor)
                else params
                if isinstance(params, set)
                else list(params)
            )
            param_group["params"] = params
            for each in params:
                x = each[1] if isinstance(each, tuple) else each
                if isinstance(x, Tensor) and x.layout is not tensor.strided:
                    raise ValueError(
                        f"ZeroRedundancyOptimizer only takes dense parameters, and one of shape {list(x.shape)} has the "
                        f"layout {x.layout!r}"
                    )
        super().add_param_group(param_group)
        parts: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        for each in sorted(self.param_groups[-1]["params"], key=Tensor.numel, reverse=True):
            rank = self._loads.index(min(self._loads))
            parts[rank].append(each)
            self._loads[rank] += each.numel()
        self._partition.append(parts)
        if self._optimizer is not None:
            self._optimizer.add_param_group(self._local_groups()[-1])
            self._copy_options(self._optimizer.param_groups[-1:], self.param_groups[-1:])
            self._use_flats(len(self.param_groups) - 1)

    def _local_groups(self) -> list[dict[str, Any]]:
        """Groups for the optimizer of this rank: the same options, and its own parameters."""
        return [
            {
                **{name: value for name, value in group.items() if name not in ("params", "param_names")},
                "params": parts[self.rank],
            }
            for group, parts in zip(self.param_groups, self._partition, strict=True)
        ]

    @staticmethod
    def _copy_options(sources: list[dict[str, Any]], targets: list[dict[str, Any]]) -> None:
        """Set options, which schedulers and users may have changed, of ``targets`` to those of ``sources``."""
        for source, target in zip(sources, targets, strict=True):
            for name, value in source.items():
                if name not in ("params", "param_names"):
                    target[name] = value

    def _use_flats(self, number: int) -> None:
        """Make the parameters of a group views of flat tensors, one for each rank, dtype and device."""
        if not self.parameters_as_bucket_view:
            return
        for rank, params in enumerate(self._partition[number]):
            similar: dict[Any, list[Tensor]] = {}
            for each in params:
                if each.numel():
                    similar.setdefault((each._layout.device_state, each.dtype), []).append(each)
            for several in similar.values():
                self._flats[rank].append(_flattened(several))

    # Steps

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this rank's own parameters, and get those of the other ranks. All ranks call this.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients anew, and returns the loss.
        **kwargs
            For the ``step`` of the optimizer.

        Returns
        -------
        What ``closure`` returned, or None.

        Raises
        ------
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        Join.notify_join_context(self)
        self._copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        self._copy_options(self.optim.param_groups, self.param_groups)
        self._share()
        return loss

    def _share(self) -> None:
        """Have every rank's parameters on all ranks."""
        if self.world_size == 1:
            return
        if not self.parameters_as_bucket_view:
            for rank in range(self.world_size):
                params = [each for parts in self._partition for each in parts[rank]]
                broadcast_tensors(params, self.process_group, rank)
            return
        works = [
            broadcast(flat, group=self.process_group, group_src=rank, async_op=True)
            for rank, flats in enumerate(self._flats)
            for flat in flats
        ]
        for work in works:
            assert work is not None
            work.wait()

    # State dicts

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the states of all ranks on one, which can call :meth:`state_dict` then. All ranks call this.

        The states are copied to the CPU.

        Parameters
        ----------
        to : int
            The rank, in the process group, that gets them.

        Raises
        ------
        ValueError
            If the group has no such rank.
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        if not 0 <= to < self.world_size:
            raise ValueError(f"to={to} is no rank of the group, which has {self.world_size}")
        self._copy_options(self.param_groups, self.optim.param_groups)
        own = _on_host(self.optim.state_dict())
        gathered: list[Any] | None = [None] * self.world_size if self.rank == to else None
        gather_object(own, gathered, group=self.process_group, group_dst=to)
        self._consolidated = gathered

    def state_dict(self) -> dict[str, Any]:
        """The states of all parameters, as they were at the last :meth:`consolidate_state_dict` to this rank.

        It is what :meth:`nn.optim.Optimizer.state_dict` of an optimizer with all parameters returns.

        Raises
        ------
        RuntimeError
            If the states were not gathered on this rank.
        """
        if self._consolidated is None:
            raise RuntimeError(
                f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to={self.rank})` "
                "on all ranks beforehand if you meant to save the global state."
            )
        states: dict[Any, Any] = {each: {} for group in self.param_groups for each in group["params"]}
        for rank, gathered in enumerate(self._consolidated):
            params = [each for parts in self._partition for each in parts[rank]]
            for key, value in gathered["state"].items():
                states[params[key] if isinstance(key, int) else key] = value
        own, self.state = (
            self.state,
            defaultdict(dict, {key: value for key, value in states.items() if value}),
        )
        try:
            return super().state_dict()
        finally:
            self.state = own

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict of all parameters; each rank keeps what belongs to its own. All ranks call this.

        Parameters
        ----------
        state_dict : dict
            Of this class, with any number of ranks, or of an optimizer of the same class as ``optim``.

        Raises
        ------
        ValueError
            See :meth:`nn.optim.Optimizer.load_state_dict`; nothing was changed then.
        """
        state = state_dict["state"]
        # Checks all groups, and sets their options.
        super().load_state_dict({**state_dict, "state": {}})
        saved = state_dict["param_groups"]
        numbers = {
            id(each): number
            for group, packed in zip(self.param_groups, saved, strict=True)
            for each, number in zip(group["params"], packed["params"], strict=True)
        }
        own = [each for parts in self._partition for each in parts[self.rank]]
        mine = {
            position: state[numbers[id(each)]]
            for position, each in enumerate(own)
            if numbers[id(each)] in state
        }
        local = self.optim.state_dict()["param_groups"]
        self._copy_options(saved, local)
        self.optim.load_state_dict({"state": mine, "param_groups": local})
        self.state = self.optim.state
        self._consolidated = None

    # Uneven inputs

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank without inputs does while others train: it steps with them. See :class:`parallel.Joinable`.

        Parameters
        ----------
        **kwargs
            Accepted for compatibility.
        """
        return _StepHook(self)

    @property
    def join_device(self) -> tensor.device:
        """The device on which :class:`parallel.Join` exchanges its tensors: that of the first parameter."""
        first: Tensor = next(each for group in self.param_groups for each in group["params"])
        return first.device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The :class:`parallel.ProcessGroup` among whose ranks states are divided."""
        return self.process_group


class _StepHook(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Step as the ranks with inputs do."""
        self._optimizer.step()


@tensor.no_grad()  # type: ignore[untyped-decorator]
def _flattened(params: list[Tensor]) -> Tensor:
    """A flat tensor of the elements of ``params``, which are its views from now on."""
    first = params[0]
    flat = tensor.empty(sum(each.numel() for each in params), dtype=first.dtype, device=first.device)
    start = 0
    for each in params:
        layout = each._layout.as_dense()
        view = view_of(flat._storage, layout, start)
        view.copy_(each.detach())
        each.data = view
        start += layout.numel * layout.dtype.itemsize
    return flat


def _on_host(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_host(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(each) for each in value)
    return value
