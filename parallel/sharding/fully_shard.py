"""``fully_shard``: parameters, gradients and states of optimizers divided among ranks, gathered while they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from nn import Module, ModuleDict, ModuleList
from nn.parameter import is_lazy
from parallel.device_mesh import DeviceMesh, init_device_mesh
from parallel.groups.process_groups import get_process_group_ranks, get_world_size, is_initialized
from parallel.groups.setup import init_process_group, new_group

from .dtensor import DTensor, ShardedParameter, distributed, shard_group
from .parameter_group import ParameterGroup
from .placements import Replicate, Shard, Sharding, _StridedShard
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .sharded_module import ShardedModule, state_of, states_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nn import Parameter

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard"]

#: Classes of sharded modules, by those of the modules.
_classes: dict[type[Any], type[Any]] = {}


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
) -> Any:
    """Divide the parameters of a module among the ranks of a mesh. All its ranks call this, with equal modules.

    Each rank keeps a part of the first dimension of each parameter, a :class:`parallel.tensor.DTensor`, and so do gradients
    and optimizers. A call of the module gathers the parameters and gives them back, the backward pass gathers them once more,
    averages the gradients over the ranks, and leaves each rank the gradients of its parts. Apply it to the layers first, then
    to the model: each call makes a group of parameters that are gathered at once, while the group before it computes.

    >>> mesh = parallel.init_device_mesh("cpu", (parallel.get_world_size(),))
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> for layer in model:
    ...     if isinstance(layer, nn.Linear):
    ...         _ = parallel.fully_shard(layer, mesh=mesh)
    >>> model = parallel.fully_shard(model, mesh=mesh)
    >>> optimizer = nn.optim.AdamW(model.parameters(), lr=0.01)  # after it
    >>> model(tensor.randn(3, 4)).sum().backward()
    >>> norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    >>> optimizer.step()
    >>> whole = {name: value.full_tensor() for name, value in model.state_dict().items()}

    Parameters
    ----------
    module : Module
        Its class becomes a subclass of :class:`parallel.fsdp.FSDPModule`, too. Parameters of modules below it to which this was
        applied before are left to them.
    mesh : DeviceMesh, optional
        Of one dimension; or of two: then parts are replicated along the first one. All ranks by default, with CUDA devices
        where there are any.
    reshard_after_forward : bool, optional
        Whether the gathered parameters are given back between the forward and the backward pass. By default they are, but for
        the outermost module, whose backward pass comes first.
    shard_placement_fn : callable, optional
        Called with each parameter; may return None or ``Shard(0)``.
    mp_policy : MixedPrecisionPolicy, optional
        Dtypes of the computation.
    offload_policy : OffloadPolicy, optional
        :class:`parallel.fsdp.CPUOffloadPolicy` has shards, gradients and so the optimizer on the CPU.
    ignored_params : set of Parameter, optional
        Parameters that stay whole on each rank, and whose gradients are not averaged.

    Returns
    -------
    Module
        ``module`` itself.

    Raises
    ------
    TypeError
        If ``module`` is no module.
    ValueError
        If it was applied to the module before, the module is a container without ``forward``, a parameter is a scalar, is lazy,
        or is shared with a module below that was sharded before; before :func:`parallel.init_process_group` without settings.
    NotImplementedError
        For a parameter that is not contiguous, a number as ``reshard_after_forward``, other placements than ``Shard(0)``, and
        a mesh of more than two dimensions.
    """
    policy = mp_policy or MixedPrecisionPolicy()
    _check(module, reshard_after_forward)
    if mesh is None:
        if not is_initialized():
            init_process_group()
        mesh = init_device_mesh("cuda" if tensor.cuda.is_available() else "cpu", (get_world_size(),))
    if mesh.ndim > 2:
        raise NotImplementedError(
            f"fully_shard() takes a mesh of one dimension, or two of which the first replicates; got {mesh!r}: take some of its "
            "dimensions, as in mesh['replicate', 'shard']"
        )
    shard_group(mesh)
    device = (
        tensor.device(mesh.device_type, tensor.cuda.current_device())
        if mesh.device_type == "cuda"
        else tensor.device("cpu")
    )
    ignored = {id(each) for each in ignored_params or ()}
    managed = _managed(module, ignored)
    for parameter, places in managed:
        _check_parameter(parameter, places[0][1], shard_placement_fn, mesh)
    named: dict[tensor.dtype, list[tuple[ShardedParameter, list[tuple[Module, str]]]]] = {}
    for parameter, places in managed:
        shard = _sharded(parameter, mesh, device, offload_policy)
        for owner, name in places:
            owner._parameters[name] = shard
        named.setdefault(shard.dtype, []).append((shard, places))
    for below in _own_modules(module):
        for name, buffer in below._buffers.items():
            if buffer is not None:
                below._buffers[name] = buffer.to(device)
    name = type(module).__name__
    groups = [
        ParameterGroup(name, parameters, mesh, device, policy.param_dtype, policy.reduce_dtype)
        for parameters in named.values()
    ]
    reshards = None if reshard_after_forward is None else bool(reshard_after_forward)
    module.__dict__["_sharded_module"] = ShardedModule(module, groups, policy, device, reshards)
    for state in states_below(module):
        # Schedules of smaller roots, in which these may have run, end here.
        state.schedule = None
    module.__class__ = _class_of(type(module))
    return module


def _check(module: Any, reshard_after_forward: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(
            f"fully_shard() takes a module, got {type(module).__name__}: apply it to each of several modules, or to one that "
            "has them"
        )
    if state_of(module) is not None:
        raise ValueError(
            f"fully_shard() was applied to this {type(module).__name__} already: each module takes it once"
        )
    if isinstance(module, (ModuleList, ModuleDict)) and type(module).forward is Module.forward:
        raise ValueError(
            f"fully_shard does not support containers that do not implement forward: {type(module).__name__}. Apply it to the "
            "modules inside"
        )
    if type(reshard_after_forward) is int:
        raise NotImplementedError(
            f"reshard_after_forward={reshard_after_forward}: sharding among fewer ranks after the forward pass is not supported; "
            "pass True or False"
        )


def _own_modules(module: Module) -> Iterator[Module]:
    """``module`` and those below it, without those that were sharded before."""
    waiting, seen = [module], {id(module)}
    while waiting:
        each = waiting.pop(0)
        yield each
        for child in each._modules.values():
            if child is not None and id(child) not in seen and state_of(child) is None:
                seen.add(id(child))
                waiting.append(child)


def _managed(module: Module, ignored: set[int]) -> list[tuple[Any, list[tuple[Module, str]]]]:
    """The parameters of ``module`` to divide, each with all its places."""
    result: dict[int, tuple[Any, list[tuple[Module, str]]]] = {}
    for owner in _own_modules(module):
        for name, parameter in owner._parameters.items():
            if parameter is not None and id(parameter) not in ignored:
                result.setdefault(id(parameter), (parameter, []))[1].append((owner, name))
    return list(result.values())


def _check_parameter(
    parameter: Any, name: str, placement: Callable[[Any], Any] | None, mesh: DeviceMesh
) -> None:
    if is_lazy(parameter):
        raise ValueError(
            f"fully_shard() needs the shape of '{name}', which is lazy: run a forward pass first"
        )
    if isinstance(parameter, DTensor) and not hasattr(parameter, "_is_sharded"):
        _check_meshes(parameter.device_mesh, mesh, name)
    elif isinstance(parameter, DTensor) or hasattr(parameter, "_is_sharded"):
        raise ValueError(
            f"parameter '{name}' of shape {list(parameter.shape)} is divided already, as one of a module below is with which it is "
            "shared: apply fully_shard() to a module that has both, and to none in between"
        )
    if not parameter.dim():
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
        )
    if not parameter.is_contiguous():
        raise NotImplementedError(
            f"FSDP does not support non-contiguous parameters yet: '{name}' has shape {list(parameter.shape)} and strides "
            f"{parameter.stride()}; make it contiguous first"
        )
    if placement is not None:
        argument = placement(parameter)
        if argument is not None and argument != Shard(0):
            raise NotImplementedError(
                f"shard_placement_fn returned {argument!r} for '{name}': None or Shard(0) are supported"
            )


def _check_meshes(own: DeviceMesh, mesh: DeviceMesh, name: str) -> None:
    """Check that parameters that a plan has divided over ``own`` can be divided over ``mesh``."""
    root = mesh._get_root_mesh()
    ours, theirs = mesh.mesh_dim_names, own.mesh_dim_names
    if own._get_root_mesh() != root or not ours or not theirs or {*ours} & {*theirs}:
        raise ValueError(
            f"parameter '{name}' is divided already, over {own!r}, and fully_shard() was to divide it over {mesh!r}: pass it other "
            "dimensions of the mesh that both are slices of, as in mesh['dp'] and mesh['tp']"
        )


def _placed(parameter: Any, mesh: DeviceMesh) -> Sharding:
    """How a parameter lies when it is divided by rows over ``mesh``; its part, if a plan has divided it."""
    if not isinstance(parameter, DTensor):
        return Sharding.by_rows(mesh, parameter.shape)
    own = parameter._sharding
    names, others = mesh.mesh_dim_names, own.mesh.mesh_dim_names
    assert names is not None and others is not None
    factor = 1
    for dim, each in own.divisions():
        factor *= own.mesh.size(dim) if each == 0 else 1
    rows = Shard(0) if factor == 1 else _StridedShard(0, factor)
    placements = {
        **dict.fromkeys(names, Replicate()),
        names[-1]: rows,
        **dict(zip(others, own.placements, strict=True)),
    }
    root = mesh._get_root_mesh()
    order = [name for name in root.mesh_dim_names or () if name in placements]
    return Sharding(root[tuple(order)], own.shape, tuple(placements[name] for name in order))


def _sharded(
    parameter: Any, mesh: DeviceMesh, device: tensor.device, offload: OffloadPolicy | None
) -> ShardedParameter:
    """A parameter that is this rank's part of ``parameter``, in memory of its own."""
    sharding = _placed(parameter, mesh)
    local = parameter.as_subclass(tensor.Tensor).detach()
    with tensor.no_grad():
        part = Sharding.by_rows(mesh, local.shape).part_of(local)
        if not isinstance(offload, CPUOffloadPolicy) or device.type == "cpu":
            part = part.to(device, copy=True)
        else:
            part = part.to("cpu", copy=True)
            part = part.pin_memory() if offload.pin_memory else part
    result: ShardedParameter = distributed(part, sharding).as_subclass(ShardedParameter)
    result.requires_grad_(parameter.requires_grad)
    result.__dict__.update(parameter.__dict__, _is_sharded=True)
    # Another module may still have it, which is noticed when that is sharded.
    parameter._is_sharded = True
    return result


def _class_of(cls: type[Any]) -> type[Any]:
    result = _classes.get(cls)
    if result is None:
        result = _classes[cls] = type(
            f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__}
        )
    return result


class FSDPModule(Module):
    """What modules are that :func:`parallel.fully_shard` was applied to, beside what they were: methods to steer it.

    It is not constructed.
    """

    def _state(self) -> ShardedModule:
        state = state_of(self)
        assert state is not None
        return state

    def _states(self, recurse: bool) -> Sequence[ShardedModule]:
        return list(states_below(self)) if recurse else [self._state()]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of this module's own group. All ranks call this.

        They stay until :meth:`reshard`, or the next forward or backward pass through the module is over.

        Parameters
        ----------
        async_op : bool
            Whether to go on meanwhile.

        Returns
        -------
        UnshardHandle or None
            With ``async_op``, an object with ``wait()``, to be called before the parameters are used. A forward pass does so.

        Raises
        ------
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        state = self._state()
        state.gather(behind_current=True)
        handle = UnshardHandle(state)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Have the module's own group of parameters be parts again, and give the memory of the gathered ones back.

        It does nothing if they are. What was written to gathered parameters is lost.
        """
        self._state().reshard()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward passes reduce gradients. Without, each rank accumulates its own whole gradients.

        Parameters
        ----------
        requires_gradient_sync : bool
            The first backward pass after True reduces the sums.
        recurse : bool
            Whether it holds for the modules below, too.
        """
        for state in self._states(recurse):
            state.reduces = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether gathered parameters are given back after the forward pass: see :func:`parallel.fully_shard`.

        Parameters
        ----------
        reshard_after_forward : bool
            As there.
        recurse : bool
            Whether it holds for the modules below, too.
        """
        for state in self._states(recurse):
            state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether gathered parameters are given back after backward passes that reduce no gradients, as by default.

        Parameters
        ----------
        reshard_after_backward : bool
            False saves gathering them for the further passes before the optimizer steps.
        recurse : bool
            Whether it holds for the modules below, too.
        """
        for state in self._states(recurse):
            state.reshard_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward passes gather this module's own parameters, as they do by default.

        Parameters
        ----------
        unshard_in_backward : bool
            False for modules whose backward pass needs no parameters, such as an embedding.
        """
        self._state().gathers_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Begin to gather ``modules`` when this one's parameters are there, in forward passes.

        By default that is what followed this module in the last forward pass.

        Parameters
        ----------
        modules : list of FSDPModule
            In the order of their use; none to gather nothing ahead.

        Raises
        ------
        ValueError
            If :func:`parallel.fully_shard` was not applied to one.
        """
        self._state().forward_prefetch = _states_of(modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Begin to gather ``modules`` when this one's parameters are there, in backward passes.

        By default that is what came before this module in the forward pass.

        Parameters
        ----------
        modules : list of FSDPModule
            In the order of their use; none to gather nothing ahead.

        Raises
        ------
        ValueError
            If :func:`parallel.fully_shard` was not applied to one.
        """
        self._state().backward_prefetch = _states_of(modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sums of this module's own gradients by ``factor``, instead of the number of ranks.

        Parameters
        ----------
        factor : float
            Not zero.
        """
        for group in self._state().groups:
            group.divisor = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters of a group count as zeros that got no gradient while others of the group did.

        By default all ranks use the same parameters, and those that none uses keep their ``grad``.

        Parameters
        ----------
        reduce_scatter_unused_params : bool
            True where ranks may use different parameters of a group.
        recurse : bool
            Whether it holds for the modules below, too.
        """
        for state in self._states(recurse):
            for group in state.groups:
                group.reduces_unused = reduce_scatter_unused_params

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Reduce gradients in a process group of their own, so that they need not take turns with gathering.

        All ranks call this.

        Parameters
        ----------
        enable : bool
            False undoes it.
        recurse : bool
            Whether it holds for the modules below, too.

        Raises
        ------
        DistBackendError
            If the ranks cannot connect in time.
        """
        separate: dict[int, Any] = {}
        for state in self._states(recurse):
            for group in state.groups:
                shared = shard_group(group.mesh)
                if enable and id(shared) not in separate:
                    separate[id(shared)] = new_group(
                        get_process_group_ranks(shared),
                        use_local_synchronization=True,
                        group_desc="reduce_scatter",
                        sort_ranks=False,
                    )
                group.reduce_group = separate[id(shared)] if enable else None

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        for state in states_below(self):
            state.reshard()
        return super()._apply(fn, recurse)


def _states_of(modules: Sequence[Any]) -> list[ShardedModule]:
    states = [state_of(each) for each in modules]
    for each, state in zip(modules, states, strict=True):
        if state is None:
            raise ValueError(
                f"modules to gather ahead are ones that fully_shard() was applied to; {type(each).__name__} is none"
            )
    return [each for each in states if each is not None]


class UnshardHandle:
    """What :meth:`FSDPModule.unshard` returns with ``async_op=True``.

    Parameters
    ----------
    state : ShardedModule
        Of the module.
    """

    def __init__(self, state: ShardedModule) -> None:
        self._state = state

    def wait(self) -> None:
        """Have the current stream wait for the parameters, which are in their places then. Idempotent."""
        self._state.wait()
