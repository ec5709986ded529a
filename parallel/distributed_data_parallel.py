"""``DistributedDataParallel``: one model trained by several processes, each with its share of every batch."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensor
from nn import Module
from nn.parameter import is_lazy
from tensor import Tensor

from .buckets import FIRST_BUCKET_BYTES
from .collectives import all_reduce, broadcast
from .joining import Join, Joinable, JoinHook
from .module_devices import devices_of, moved
from .module_states import broadcast_tensors, check_parameters
from .process_groups import checked_group, get_global_rank, get_rank, get_world_size
from .reduce_op import ReduceOp
from .reducer import Reducer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .process_groups import ProcessGroup
    from .reducer import Hook
    from .works import Work

__all__ = ["DistributedDataParallel"]


class _Collectives:
    """What :class:`Reducer` needs of a process group."""

    def __init__(self, process_group: ProcessGroup) -> None:
        self.group = process_group
        self.rank = get_rank(process_group)
        self.size = get_world_size(process_group)
        self.root = get_global_rank(process_group, 0)

    def all_reduce(self, x: Tensor) -> Work | None:
        return all_reduce(x, group=self.group, async_op=True)

    def broadcast(self, x: Tensor) -> Work | None:
        return broadcast(x, self.root, group=self.group, async_op=True)


class DistributedDataParallel(Module, Joinable):
    """Wraps a module so that its gradients are averaged over all processes, while the backward pass still runs.

    Each process constructs it with the same module, which starts with the parameters and buffers of rank 0, and runs
    forward and backward passes on inputs of its own.

    >>> parallel.init_process_group("gloo")  # doctest: +SKIP
    >>> model = DistributedDataParallel(nn.Linear(10, 10))  # doctest: +SKIP
    >>> model(x).sum().backward()  # doctest: +SKIP

    Parameters
    ----------
    module : Module
        What is trained.
    device_ids : list with one int or device, optional
        Where the module's parameters are; inputs are moved there. None for a module on the CPU, or on several devices.
    output_device : int or device, optional
        Where outputs are moved to; ``device_ids[0]`` unless given.
    dim : int
        Accepted for compatibility.
    broadcast_buffers : bool
        Whether each forward pass begins with the buffers of rank 0.
    process_group : ProcessGroup, optional
        The processes that take part; all of them unless given.
    bucket_cap_mb : float, optional
        MiB of gradients that are reduced at once. Unless given it is 25, after a first bucket of 1.
    find_unused_parameters : bool
        Whether parameters may get no gradient in a pass: the graph of the outputs is then searched for those.
    check_reduction : bool
        Accepted for compatibility.
    gradient_as_bucket_view : bool
        Whether ``grad`` of the parameters shows the memory that is reduced, which saves a copy and the memory of it.
    static_graph : bool
        Promise that each pass uses the same parameters in the same way. Then some may be unused, and others may get
        several gradients, as in re-entrant checkpoints.
    init_sync : bool
        Whether parameters are compared, and set to those of rank 0, at the begin.

    Raises
    ------
    RuntimeError
        If the module has no parameters that require gradients.
    ValueError
        Before ``init_process_group()``, and if ``device_ids`` and the devices of the parameters do not match.
    DistError
        If the ranks differ in their parameters, see :func:`parallel.module_states.check_parameters`.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        self.process_group = checked_group(process_group)
        self.module = module
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        for name, each in module.named_parameters():
            if is_lazy(each):
                raise RuntimeError(
                    f"Modules with uninitialized parameters can't be used with `DistributedDataParallel`, and '{name}' is one. "
                    "Run a dummy forward pass to correctly initialize the modules"
                )
        self._tables = self._buffer_tables()
        named = dict(self._named_parameters())
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient."
            )
        parameters = list(named.values())
        self.device = parameters[0].device
        self.device_ids, self.output_device = devices_of(device_ids, output_device, named)
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        if self.bucket_bytes_cap <= 0:
            raise ValueError(f"bucket_cap_mb expects a positive number of MiB, got {bucket_cap_mb}")
        first = [min(FIRST_BUCKET_BYTES, self.bucket_bytes_cap)] if bucket_cap_mb is None else []
        if init_sync:
            check_parameters(list(named), parameters, self.process_group)
            self._broadcast_states(0)
        self._distributed_rank = get_rank(self.process_group)
        self.reducer = Reducer(
            parameters,
            list(named),
            _Collectives(self.process_group),
            [*first, self.bucket_bytes_cap],
            find_unused_parameters=find_unused_parameters,
            gradient_as_bucket_view=gradient_as_bucket_view,
            static_graph=static_graph,
        )
        #: Keeps an operation that nobody waits for.
        self._announced: tuple[Tensor, Any] | None = None

    def _named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad and name not in self.parameters_to_ignore:
                yield name, parameter

    def _buffer_tables(self) -> list[tuple[dict[str, Tensor | None], str]]:
        """Where modules keep their buffers: under these names in these tables."""
        found: dict[int, tuple[dict[str, Tensor | None], str]] = {}
        for prefix, module in self.module.named_modules():
            for name, each in module._buffers.items():
                full = f"{prefix}.{name}" if prefix else name
                if each is not None and full not in self.parameters_to_ignore:
                    found.setdefault(id(each), (module._buffers, name))
        return list(found.values())

    def _buffers_of_module(self) -> list[Tensor]:
        """The buffers as they are now: a module may have put others in their places."""
        return [each for table, name in self._tables if (each := table.get(name)) is not None]

    def _broadcast_states(self, rank: int) -> None:
        """Set all parameters, those without gradients too, and buffers to those of a rank of the group."""
        states: list[Tensor] = [
            each for name, each in self.module.named_parameters() if name not in self.parameters_to_ignore
        ]
        if self.broadcast_buffers:
            states += self._buffers_of_module()
        broadcast_tensors(states, self.process_group, rank)

    # The forward pass

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        records = tensor.is_grad_enabled()
        reduces = records and self.require_backward_grad_sync
        reducer = self.reducer
        if reduces:
            reducer.check_finished()
        if self._join_config.enable:
            self._announce()
        if records:
            reducer.rebuild()
        if self.require_forward_param_sync and self.broadcast_buffers:
            self._broadcast_buffers(joined=False)
        if self._join_config.enable:
            self._reduces_anywhere(joined=False)
        if self.device_ids is not None:
            inputs, kwargs = moved(inputs, self.device_ids[0]), moved(kwargs, self.device_ids[0])
        outputs = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = reduces
        if reduces:
            reducer.prepare(outputs)
        elif records:
            reducer.skip()
        if self.output_device is not None and self.device_ids is not None:
            outputs = moved(outputs, self.output_device)
        return outputs

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forward passes inside leave gradients to be added up on each rank; those after the block are averaged.

        >>> with ddp.no_sync():  # doctest: +SKIP
        ...     for batch in batches[:-1]:
        ...         ddp(batch).sum().backward()
        >>> ddp(batches[-1]).sum().backward()  # doctest: +SKIP
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _broadcast_buffers(self, *, joined: bool) -> None:
        """Set the buffers to those of rank 0; inside :class:`Join` of the last rank that has inputs."""
        buffers = self._buffers_of_module()
        if buffers:
            rank = self._last_rank(not joined) if self._join_config.enable else 0
            broadcast_tensors(buffers, self.process_group, rank)

    # Communication hooks and static graphs

    def register_comm_hook(self, state: Any, hook: Hook) -> None:
        """Have ``hook(state, bucket)`` reduce the gradients of a :class:`parallel.GradBucket`.

        It returns a :class:`parallel.Future` of the reduced tensor, and divides by the number of ranks where that is
        wanted. Those that are ready to use are in :mod:`parallel.ddp_comm_hooks`.

        Raises
        ------
        TypeError
            If ``hook`` is not callable.
        RuntimeError
            At a second call.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.check_finished()
        self.reducer.hook = (state, hook)

    def _set_static_graph(self) -> None:
        """As ``static_graph=True``; before the first forward pass."""
        self.static_graph = True
        self.reducer.set_static_graph()

    # Uneven inputs

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A block in which ranks may have different numbers of batches.

        Parameters
        ----------
        divide_by_initial_world_size : bool
            Whether gradients are divided by the number of all ranks, or by that of ranks that still have batches.
        enable, throw_on_early_termination
            See :class:`parallel.Join`.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """See :class:`parallel.Joinable`."""
        return _Shadow(self, divide_by_initial_world_size=kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> tensor.device:
        """Where the operations between ranks have their tensors."""
        return self.device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The ranks that take part."""
        return self.process_group

    def _announce(self) -> None:
        """Tell ranks without inputs that an iteration begins, and learn how many have inputs."""
        work = Join.notify_join_context(self)
        reducer = self.reducer
        if work is None or self._divides_by_all:
            reducer.divisor = get_world_size(self.process_group)
        else:
            # The host waits for the number only when gradients are there.
            reducer.divisor = lambda: int(work.result()[0].item())

    _divides_by_all = True

    def _reduces_anywhere(self, *, joined: bool) -> bool:
        """Tell all ranks whether this iteration is reduced; only those without inputs wait for the answer."""
        flag = tensor.full((1,), float(not joined and self.require_backward_grad_sync), device=self.device)
        work = all_reduce(flag, group=self.process_group, async_op=True)
        self._announced = flag, work
        if not joined:
            return self.require_backward_grad_sync
        assert work is not None
        work.wait()
        return bool(flag.item())

    def _last_rank(self, taken: bool) -> int:
        """The highest rank in the group on which ``taken`` is true."""
        rank = self._distributed_rank if taken else -1
        found = tensor.full((1,), rank, dtype=tensor.int32, device=self.device)
        all_reduce(found, ReduceOp.MAX, group=self.process_group)
        highest = int(found.item())
        if highest < 0:
            raise RuntimeError("no rank has inputs left, so that none has the state that all shall take over")
        return highest

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a DistributedDataParallel cannot be copied or pickled, as its process group cannot: take its module, and wrap "
            "that"
        )


class _Shadow(JoinHook):
    """What a rank does while others still have inputs."""

    def __init__(self, ddp: DistributedDataParallel, *, divide_by_initial_world_size: bool) -> None:
        self.ddp = ddp
        ddp._divides_by_all = divide_by_initial_world_size

    def main_hook(self) -> None:
        """Take part in a forward and a backward pass of the others."""
        ddp = self.ddp
        ddp.reducer.rebuild()
        if ddp.require_forward_param_sync and ddp.broadcast_buffers:
            ddp._broadcast_buffers(joined=True)
        ddp.require_forward_param_sync = ddp._reduces_anywhere(joined=True)
        if ddp.require_forward_param_sync:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over the model of a rank that had inputs until the end."""
        ddp = self.ddp
        ddp.reducer.divisor = get_world_size(ddp.process_group)
        ddp._broadcast_states(ddp._last_rank(is_last_joiner))
