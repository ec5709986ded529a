"""``DistributedDataParallel``: one model trained by several processes, each with its share of every batch."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

import tensor
from nn import Module
from nn.parameter import is_lazy
from parallel.groups.collectives.tensor_collectives import all_reduce, broadcast
from parallel.groups.process_groups import (
    checked_group,
    get_global_rank,
    get_rank,
    get_world_size,
    is_initialized,
)
from parallel.groups.reduce_op import ReduceOp
from parallel.sharding.sharded_module import cast
from tensor import Tensor

from .buckets import FIRST_BUCKET_BYTES
from .delayed_reduction import DelayedReduction
from .joining import Join, Joinable, JoinConfig, JoinHook
from .mixed_precision import LowPrecision
from .module_devices import devices_of, moved
from .module_states import broadcast_tensors, check_parameters
from .reducer import Reducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from parallel.device_mesh import DeviceMesh
    from parallel.groups.process_groups import ProcessGroup
    from parallel.groups.works import Work

    from .reducer import Hook

__all__ = ["DistributedDataParallel"]

#: Attributes that a copy makes anew from its process's default group.
_OF_THE_GROUP = ("process_group", "reducer", "_announced", "_tables", "_join_config")


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
    forward and backward passes on inputs of its own. Gradients are reduced in buckets, each as soon as it is complete;
    after ``backward()`` every process has the mean over the processes in ``grad``, bitwise equal. A process that takes
    its own number of batches trains inside :meth:`join`; gradients are accumulated over several batches inside
    :meth:`no_sync`.

    >>> parallel.init_process_group("nccl")  # doctest: +SKIP
    >>> device = parallel.get_node_local_rank()  # doctest: +SKIP
    >>> model = parallel.DistributedDataParallel(nn.Linear(10, 10).to(device), device_ids=[device])  # doctest: +SKIP
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)  # doctest: +SKIP
    >>> for x, y in loader:  # doctest: +SKIP
    ...     optimizer.zero_grad()
    ...     F.mse_loss(model(x), y).backward()
    ...     optimizer.step()
    >>> tensor.save(model.module.state_dict(), "model.pt")  # on one rank  # doctest: +SKIP

    With the default group it can be copied and pickled. A copy belongs to the default group of the process that makes or
    unpickles it, and has no communication hook.

    Parameters
    ----------
    module : Module
        The module to train. Parameters that do not require gradients are not reduced.
    device_ids : list with one int or device, optional
        The device of the module's parameters; inputs are moved there. None for a module on the CPU, or on several
        devices.
    output_device : int or device, optional
        The device to which outputs are moved; ``device_ids[0]`` by default.
    dim : int
        Accepted for compatibility.
    broadcast_buffers : bool
        Whether each forward pass begins with the buffers of rank 0, such as running averages.
    process_group : ProcessGroup, optional
        The processes that take part; all by default.
    bucket_cap_mb : float, optional
        MiB of gradients that are reduced at once; 25 by default, after a first bucket of 1.
    find_unused_parameters : bool
        Whether parameters may get no gradient in a pass, which then costs a search of the graph of the outputs.
        A parameter that no process used keeps its ``grad``.
    check_reduction : bool
        Accepted for compatibility.
    gradient_as_bucket_view : bool
        Whether ``grad`` of the parameters are views of the buckets, which saves a copy and its memory.
    static_graph : bool
        Promise that each pass uses the same parameters in the same way. Some may then be unused, and others may get
        several gradients, as with re-entrant checkpoints.
    init_sync : bool
        Whether parameters are compared between the ranks, and set to those of rank 0, at construction.
    delay_all_reduce_named_params : list of tuple of str and Parameter, optional
        Parameters, by their names in ``module``, whose gradients are not reduced in buckets, but all at once when that of
        ``param_to_hook_all_reduce`` is computed; theirs have to be complete by then. At least one other remains.
    param_to_hook_all_reduce : Parameter, optional
        Needed with ``delay_all_reduce_named_params``; used once in each pass.
    mixed_precision : MixedPrecision, optional
        An object with ``param_dtype``, in which the module computes with copies of its parameters, and inputs are;
        ``reduce_dtype``, in which gradients are reduced, by default the same; and ``buffer_dtype``, of its floating point buffers;
        such as :class:`parallel.fsdp.MixedPrecision`. Parameters and their gradients keep their dtypes. No other communication
        hook can be registered then.
    device_mesh : DeviceMesh, optional
        The processes that take part, in place of ``process_group``: a mesh of one dimension, such as ``mesh["replicate"]``.

    Raises
    ------
    RuntimeError
        If no parameter requires gradients, or a lazy module has none yet. In a forward pass, if the last backward pass
        left parameters without gradients and ``find_unused_parameters`` is False. For both ``process_group`` and
        ``device_mesh``, and a mesh of several dimensions.
    ValueError
        If one of ``delay_all_reduce_named_params`` and ``param_to_hook_all_reduce`` is passed alone, or names do not belong.
        Before :func:`parallel.init_process_group`, if ``device_ids`` names another device than that of the
        parameters, or these are on several, and for a ``bucket_cap_mb`` that is not positive.
    DistError
        If the ranks differ in number, shapes, dtypes or strides of their parameters; the message says where.
    DistBackendError
        If a rank does not construct it, or died; in a backward pass, if a rank died or did not come within the group's
        timeout.
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
        delay_all_reduce_named_params: Sequence[tuple[str, Tensor]] | None = None,
        param_to_hook_all_reduce: Tensor | None = None,
        mixed_precision: Any = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        if device_mesh is not None:
            process_group = _group_of(device_mesh, process_group)
        self.process_group = checked_group(process_group)
        self.module = module
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._delayed = _delayed(module, delay_all_reduce_named_params, param_to_hook_all_reduce)
        self._delayed_until = param_to_hook_all_reduce
        self.parameters_to_ignore.update(self._delayed)
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
        self._bucket_limits = [*first, self.bucket_bytes_cap]
        if init_sync:
            check_parameters(list(named), parameters, self.process_group)
            self._broadcast_states(0)
            broadcast_tensors(list(self._delayed.values()), self.process_group, 0)
        self.mixed_precision = mixed_precision
        self._precision: LowPrecision | None = None
        if mixed_precision is not None:
            self._precision = LowPrecision(module, mixed_precision, self.parameters_to_ignore)
            self._tables = self._buffer_tables()
        self._begin(named)

    def _begin(self, named: dict[str, Tensor]) -> None:
        """Take part in the group, with these parameters."""
        self._distributed_rank = get_rank(self.process_group)
        self.reducer = Reducer(
            list(named.values()),
            list(named),
            _Collectives(self.process_group),
            self._bucket_limits,
            find_unused_parameters=self.find_unused_parameters,
            gradient_as_bucket_view=self.gradient_as_bucket_view,
            static_graph=self.static_graph,
        )
        hook = None if self._precision is None else self._precision.hook()
        if hook is not None:
            self.reducer.hook = (self.process_group, hook)
        if self._delayed_until is not None:
            reduction = DelayedReduction(list(self._delayed.values()), self.process_group)
            self._delayed_until.register_hook(_beginning(weakref.ref(self), reduction))
        #: Keeps an operation that nobody waits for.
        self._announced: tuple[Tensor, Any] | None = None

    def _named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad and name not in self.parameters_to_ignore:
                yield name, parameter

    def _buffer_tables(self) -> list[tuple[dict[str, Tensor | None], str]]:
        """Where modules keep their buffers: under these names in these tables."""
        tables: dict[int, tuple[dict[str, Tensor | None], str]] = {}
        for prefix, module in self.module.named_modules():
            for name, each in module._buffers.items():
                full = f"{prefix}.{name}" if prefix else name
                if each is not None and full not in self.parameters_to_ignore:
                    tables.setdefault(id(each), (module._buffers, name))
        return list(tables.values())

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
        """The module's outputs; tensors among the arguments are moved to ``device_ids[0]`` first.

        Outputs are moved to ``output_device`` if there is one.

        Raises
        ------
        RuntimeError
            If the last backward pass left parameters without gradients and ``find_unused_parameters`` is False; inside
            :meth:`join` also if no rank has inputs left.
        DistBackendError
            If a rank died or did not come within the group's timeout, where buffers are broadcast.
        """
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
        outputs = self._outputs(inputs, kwargs)
        self.require_forward_param_sync = reduces
        if reduces:
            reducer.prepare(outputs)
        elif records:
            reducer.skip()
        if self.output_device is not None and self.device_ids is not None:
            outputs = moved(outputs, self.output_device)
        return outputs

    def _outputs(self, inputs: Any, kwargs: Any) -> Any:
        if self._precision is None:
            return self.module(*inputs, **kwargs)
        dtype = self._precision.config.param_dtype
        if dtype is not None:
            inputs, kwargs = cast((inputs, kwargs), dtype)
        with self._precision.computing():
            return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which gradients accumulate on each rank; the first pass after it reduces the sums.

        >>> ddp, batches = parallel.DistributedDataParallel(nn.Linear(3, 1)), tensor.randn(4, 8, 3)
        >>> with ddp.no_sync():
        ...     for batch in batches[:-1]:
        ...         ddp(batch).sum().backward()
        >>> ddp(batches[-1]).sum().backward()
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
        """Have ``hook(state, bucket)`` reduce the gradients of each :class:`parallel.GradBucket`.

        It returns a :class:`parallel.Future` of the reduced tensor, and divides by the number of ranks itself. Hooks
        that are ready to use are in :mod:`parallel.ddp_comm_hooks`.

        >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
        >>> hooks = parallel.ddp_comm_hooks.default_hooks
        >>> model.register_comm_hook(None, hooks.bf16_compress_hook)

        Parameters
        ----------
        state
            The hook's first argument; for the hooks of ``default_hooks`` the process group, or None for that of all
            ranks.
        hook : function
            Called with ``state`` and the bucket when its gradients are ready, on the stream where they are.

        Raises
        ------
        TypeError
            If ``hook`` is not callable.
        RuntimeError
            If a hook was registered before.
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

        >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
        >>> with model.join():
        ...     for batch in tensor.randn(4 + parallel.get_rank(), 8, 3):
        ...         model(batch).sum().backward()

        Parameters
        ----------
        divide_by_initial_world_size : bool
            Whether gradients are divided by the number of all ranks; else by that of ranks that still have batches.
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
        """What a rank without inputs does while others train: see :class:`parallel.Joinable`.

        Parameters
        ----------
        **kwargs
            ``divide_by_initial_world_size`` of :meth:`join`; True by default.
        """
        return _DDPJoinHook(
            self, divide_by_initial_world_size=kwargs.get("divide_by_initial_world_size", True)
        )

    @property
    def join_device(self) -> tensor.device:
        """The device on which :meth:`join` exchanges its tensors: that of the first parameter."""
        return self.device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The :class:`parallel.ProcessGroup` of the ranks that take part."""
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
        rank_tensor = tensor.full((1,), rank, dtype=tensor.int32, device=self.device)
        all_reduce(rank_tensor, ReduceOp.MAX, group=self.process_group)
        highest = int(rank_tensor.item())
        if highest < 0:
            raise RuntimeError("no rank has inputs left, so that none has the state that all shall take over")
        return highest

    # Copies and pickles

    def __getstate__(self) -> dict[str, Any]:
        if not is_initialized() or self.process_group is not checked_group(None):
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, when "
                "you have called init_process_group and have not passed process_group argument to DDP constructor: take "
                "its module otherwise, and wrap that"
            )
        state = dict(self.__dict__)
        for name in _OF_THE_GROUP:
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take part in the default group of this process, which may be another one than that of the original.

        Parameters are not compared or broadcast between the ranks, and a communication hook is not kept.
        """
        process_group = checked_group(None)
        super().__setstate__(state)
        self.process_group = process_group
        self._join_config = JoinConfig()
        self._tables = self._buffer_tables()
        self._begin(dict(self._named_parameters()))


def _delayed(
    module: Module, named: Sequence[tuple[str, Tensor]] | None, until: Tensor | None
) -> dict[str, Tensor]:
    """The parameters whose reduction is delayed, by name."""
    if (named is None) != (until is None):
        raise ValueError(
            "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time."
        )
    present = dict(module.named_parameters())
    for name, each in named or ():
        if present.get(name) is not each:
            raise ValueError(
                f"delay_all_reduce_named_params has the name '{name}', which is not that of this parameter in the module: pass "
                "items of module.named_parameters()"
            )
    if until is not None and not until.requires_grad:
        raise ValueError("param_to_hook_all_reduce requires no gradient, and the reduction would never begin")
    return {name: each for name, each in named or () if each.requires_grad}


def _beginning(
    ddp: weakref.ref[DistributedDataParallel], reduction: DelayedReduction
) -> Callable[[Tensor], None]:
    """The hook of the parameter after whose gradient others are reduced; it does not keep ``ddp`` alive."""

    def hook(_: Tensor) -> None:
        alive = ddp()
        if alive is not None and alive.require_backward_grad_sync:
            reduction.begin()

    return hook


def _group_of(mesh: DeviceMesh, process_group: ProcessGroup | None) -> ProcessGroup:
    if process_group is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if mesh.ndim != 1:
        raise RuntimeError(
            f"Only 1D device mesh is supported, but got {mesh}: pass one of its dimensions, as mesh['replicate']"
        )
    return mesh.get_group(0)


class _DDPJoinHook(JoinHook):
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
