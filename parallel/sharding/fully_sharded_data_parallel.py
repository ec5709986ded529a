"""``FullyShardedDataParallel``: the wrapper with the interface of before ``fully_shard``, over the same engine."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import nn
import tensor
from nn import Module
from parallel.ddp.module_states import broadcast_tensors
from parallel.device_mesh import DeviceMesh
from parallel.groups.process_groups import ProcessGroup, checked_group

from .dtensor import DTensor
from .fully_shard import fully_shard
from .optimizer_states import named_states, numbered_states
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy
from .sharded_module import states_below
from .wrapping import wrap_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tensor import Tensor

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]

#: The name of the module inside, which parameters and state dicts do not show.
_INSIDE = "_fsdp_wrapped_module"
_PREFIX = f"{_INSIDE}."


class ShardingStrategy(Enum):
    """What is divided among the ranks, and when gathered parameters are given back.

    ``FULL_SHARD`` gives them back between forward and backward pass, ``SHARD_GRAD_OP`` after the backward pass.
    ``HYBRID_SHARD`` divides among the ranks of the second dimension of a mesh, as ``_HYBRID_SHARD_ZERO2`` does with the
    memory as in ``SHARD_GRAD_OP``. ``NO_SHARD`` is not supported: it is :class:`parallel.DistributedDataParallel`.
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the parameters of the next module are gathered in backward passes: always as soon as those of this one are there.

    Both values are accepted for compatibility.
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What state dicts hold: whole tensors, on all ranks, or DTensors.

    ``LOCAL_STATE_DICT`` is not supported.
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class MixedPrecision:
    """Dtypes in which a wrapped module computes; see :class:`parallel.fsdp.MixedPrecisionPolicy`.

    Parameters
    ----------
    param_dtype, reduce_dtype : dtype, optional
        As there.
    buffer_dtype : dtype, optional
        That of floating point buffers.
    keep_low_precision_grads : bool
        True is not supported: gradients have the dtype of the parameters.
    cast_forward_inputs, cast_root_forward_inputs : bool
        Whether floating point inputs are converted to ``param_dtype``: if one of both is true.
    """

    param_dtype: tensor.dtype | None = None
    reduce_dtype: tensor.dtype | None = None
    buffer_dtype: tensor.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Where shards are; see :class:`parallel.fsdp.CPUOffloadPolicy`.

    Parameters
    ----------
    offload_params : bool
        Whether parameters, gradients and so the optimizer are on the CPU while the module does not compute.
    """

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How state dicts of modules are made: base class.

    Parameters
    ----------
    offload_to_cpu : bool
        Whether tensors are copied to the CPU.
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """State dicts of whole tensors.

    Parameters
    ----------
    offload_to_cpu : bool
        Whether tensors are copied to the CPU.
    rank0_only : bool
        Whether state dicts are empty on other ranks than 0.
    """

    rank0_only: bool = False


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """State dicts of DTensors.

    Parameters
    ----------
    offload_to_cpu : bool
        Not supported for DTensors of another device.
    """


@dataclass
class OptimStateDictConfig:
    """How state dicts of optimizers are made: base class.

    Parameters
    ----------
    offload_to_cpu : bool
        Whether tensors are copied to the CPU.
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """State dicts of whole tensors.

    Parameters
    ----------
    offload_to_cpu : bool
        Whether tensors are copied to the CPU.
    rank0_only : bool
        Whether state dicts are empty on other ranks than 0.
    """

    rank0_only: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """State dicts of DTensors.

    Parameters
    ----------
    offload_to_cpu : bool
        Accepted for compatibility: DTensors stay on their device.
    """


@dataclass
class StateDictSettings:
    """What :meth:`FullyShardedDataParallel.get_state_dict_type` returns.

    Parameters
    ----------
    state_dict_type : StateDictType
        What state dicts hold.
    state_dict_config, optim_state_dict_config
        How they are made.
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


def _default_settings() -> StateDictSettings:
    return StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())


def _configs(
    state_dict_type: StateDictType, config: StateDictConfig | None, optim_config: OptimStateDictConfig | None
) -> StateDictSettings:
    if state_dict_type is StateDictType.FULL_STATE_DICT:
        classes: tuple[Any, Any] = FullStateDictConfig, FullOptimStateDictConfig
    elif state_dict_type is StateDictType.SHARDED_STATE_DICT:
        classes = ShardedStateDictConfig, ShardedOptimStateDictConfig
    else:
        raise NotImplementedError(
            f"state_dict_type={state_dict_type} is not supported: use FULL_STATE_DICT or SHARDED_STATE_DICT"
        )
    result: list[Any] = []
    for cls, argument in zip(classes, (config, optim_config), strict=True):
        value = cls() if argument is None else argument
        if type(value) is not cls:
            raise RuntimeError(
                f"Expected state_dict_config of type {cls.__name__} but got {type(value).__name__}"
            )
        result.append(value)
    return StateDictSettings(state_dict_type, result[0], result[1])


class FullyShardedDataParallel(Module):
    """Wraps a module so that parameters, gradients and states of the optimizer are divided among the ranks.

    It does what :func:`parallel.fully_shard` does, which new programs use. The original parameters are those that optimizers see,
    as with PyTorch's ``use_orig_params=True``, and each holds this rank's rows. Their names are those of the module without the
    wrappers. State dicts hold whole tensors, unless :meth:`state_dict_type` says otherwise.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    >>> policy = parallel.fsdp.wrap.ModuleWrapPolicy({nn.Linear})
    >>> model = parallel.fsdp.FullyShardedDataParallel(model, auto_wrap_policy=policy)
    >>> optimizer = nn.optim.AdamW(model.parameters(), lr=0.01)
    >>> model(tensor.randn(3, 4)).sum().backward()
    >>> norm = model.clip_grad_norm_(1.0)
    >>> optimizer.step()
    >>> model.state_dict()["0.weight"].shape
    tensor.Size([8, 4])

    Parameters
    ----------
    module : Module
        The module, equal on all ranks unless ``sync_module_states``.
    process_group : ProcessGroup, optional
        The ranks that take part; all by default.
    sharding_strategy : ShardingStrategy, optional
        ``FULL_SHARD`` by default.
    cpu_offload : CPUOffload, optional
        Whether shards are on the CPU.
    auto_wrap_policy : callable, optional
        Which modules inside are wrapped, too: see :mod:`parallel.fsdp.wrap`.
    backward_prefetch : BackwardPrefetch, optional
        None gathers nothing ahead in backward passes.
    mixed_precision : MixedPrecision, optional
        Dtypes of the computation.
    ignored_modules : iterable of Module, optional
        Modules whose parameters stay whole on each rank.
    param_init_fn : callable, optional
        Not supported: initialise the module before.
    device_id : int or device, optional
        This rank's GPU, to which the shards are moved; where the module is by default.
    sync_module_states : bool
        Whether parameters and buffers are set to those of rank 0 first.
    forward_prefetch, limit_all_gathers, use_orig_params : bool
        Accepted for compatibility.
    ignored_states : iterable of Parameter or of Module, optional
        As ``ignored_modules``, or parameters that stay whole.
    device_mesh : DeviceMesh, optional
        The ranks, in place of ``process_group``; of two dimensions for ``HYBRID_SHARD``.

    Raises
    ------
    ValueError
        If both ``process_group`` and ``device_mesh`` are passed, the mesh does not fit the strategy, both ``ignored_modules`` and
        ``ignored_states`` are passed, and as :func:`parallel.fully_shard`.
    NotImplementedError
        For arguments that are not supported.
    """

    def __init__(
        self,
        module: Module,
        process_group: ProcessGroup | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: int | tensor.device | None = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if strategy is ShardingStrategy.NO_SHARD:
            raise NotImplementedError(
                "ShardingStrategy.NO_SHARD is not supported: use parallel.DistributedDataParallel"
            )
        if param_init_fn is not None:
            raise NotImplementedError(
                "param_init_fn is not supported: initialise the module before it is wrapped"
            )
        precision = mixed_precision or MixedPrecision()
        if precision.keep_low_precision_grads:
            raise NotImplementedError("MixedPrecision(keep_low_precision_grads=True) is not supported")
        if ignored_modules is not None and ignored_states is not None:
            raise ValueError("Cannot pass both ignored_modules and ignored_states at the same time.")
        ignored = list(ignored_modules or ignored_states or ())
        mesh = _mesh(module, process_group, device_mesh, device_id, strategy)
        self._settings = _default_settings()
        self._mesh = mesh
        if sync_module_states:
            states: list[Tensor] = [
                each for each in (*module.parameters(), *module.buffers()) if not isinstance(each, DTensor)
            ]
            for group in mesh.get_all_groups():
                broadcast_tensors(states, group)
        if auto_wrap_policy is not None:
            shared: dict[str, Any] = {
                "sharding_strategy": strategy,
                "backward_prefetch": backward_prefetch,
                "mixed_precision": mixed_precision,
                "ignored_states": ignored,
                "device_mesh": mesh,
            }
            wrap_inside(
                module,
                auto_wrap_policy,
                lambda each, **overrides: FullyShardedDataParallel(each, **{**shared, **overrides}),
                {id(each) for each in ignored if isinstance(each, Module)},
            )
        parameters = {
            parameter
            for each in ignored
            for parameter in (each.parameters() if isinstance(each, Module) else [each])
        }
        if precision.buffer_dtype is not None:
            for below in module.modules():
                for name, buffer in below._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        below._buffers[name] = buffer.to(precision.buffer_dtype)
        casts = precision.cast_forward_inputs or precision.cast_root_forward_inputs
        fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=None
            if strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
            else False,
            mp_policy=MixedPrecisionPolicy(
                precision.param_dtype, precision.reduce_dtype, cast_forward_inputs=casts
            ),
            offload_policy=CPUOffloadPolicy()
            if cpu_offload is not None and cpu_offload.offload_params
            else None,
            ignored_params=parameters,
        )
        if backward_prefetch is None:
            module.set_modules_to_backward_prefetch([])
        self.add_module(_INSIDE, module)
        self.register_state_dict_post_hook(_after_state_dict)
        self.register_load_state_dict_pre_hook(_before_load)

    @property
    def module(self) -> Module:
        """The wrapped module.

        It is a :class:`parallel.fsdp.FSDPModule` now.
        """
        inside: Any = self._modules[_INSIDE]
        return inside  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """The wrapper's attributes, and those of the module inside."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _INSIDE or _INSIDE not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self.module, name)

    def __getitem__(self, key: Any) -> Any:
        inside: Any = self.module
        return inside[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's outputs.

        Parameters
        ----------
        *args, **kwargs
            Of the module.
        """
        return self.module(*args, **kwargs)

    # Names

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As :meth:`nn.Module.named_parameters`, with the names of the module without wrappers.

        Parameters
        ----------
        *args, **kwargs
            As there.
        """
        for name, each in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), each

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As :meth:`nn.Module.named_buffers`, with the names of the module without wrappers.

        Parameters
        ----------
        *args, **kwargs
            As there.
        """
        for name, each in super().named_buffers(*args, **kwargs):
            yield name.replace(_PREFIX, ""), each

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers among ``module`` and the modules inside.

        Parameters
        ----------
        module : Module
            Where to look.
        root_only : bool
            Leave out wrappers inside of others.

        Returns
        -------
        list of FullyShardedDataParallel
        """
        wrappers = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
        if not root_only:
            return wrappers
        inner = {id(below) for each in wrappers for below in each.module.modules()}
        return [each for each in wrappers if id(each) not in inner]

    # Gradients

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block in which each rank accumulates its own whole gradients; the first pass after it reduces the sums.

        >>> model = parallel.fsdp.FullyShardedDataParallel(nn.Linear(2, 1))
        >>> with model.no_sync():
        ...     model(tensor.ones(1, 2)).sum().backward()
        >>> model(tensor.ones(1, 2)).sum().backward()
        """
        states = list(states_below(self))
        before = [state.reduces for state in states]
        for state in states:
            state.reduces = False
        try:
            yield
        finally:
            for state, value in zip(states, before, strict=True):
                state.reduces = value

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the gradients by their norm over all ranks. All ranks call this.

        Parameters
        ----------
        max_norm, norm_type : float
            See :func:`nn.utils.clip_grad_norm_`.

        Returns
        -------
        Tensor
            The norm before, a scalar, equal on all ranks.
        """
        return nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

    # Whole parameters

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A block in which the parameters of wrapped modules are whole. All ranks enter and leave it.

        Parameters
        ----------
        module : Module
            The module, wrapped or with wrapped ones inside.
        recurse : bool
            Whether those of wrapped modules inside of wrapped ones are, too.
        writeback : bool
            Whether each rank keeps what was written to its rows.
        rank0_only, offload_to_cpu, with_grads : bool
            True is not supported.

        Raises
        ------
        NotImplementedError
            For arguments that are not supported.
        """
        if rank0_only or offload_to_cpu or with_grads:
            raise NotImplementedError(
                "summon_full_params() has no rank0_only, offload_to_cpu and with_grads: use state_dict_type, or DTensor.full_tensor() "
                "of parameters and gradients"
            )
        wrappers = FullyShardedDataParallel.fsdp_modules(module, root_only=not recurse)
        states = [
            state for each in wrappers for state in states_below(each.module) if state.module is each.module
        ]
        for state in states:
            state.gather(behind_current=True)
        for state in states:
            state.wait()
        try:
            yield
        finally:
            for state in states:
                for group in state.groups:
                    if writeback:
                        group.write_back()
                    group.reshard()

    # State dicts

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Set what state dicts of the wrapped modules inside ``module`` hold from now on.

        Parameters
        ----------
        module : Module
            The module, wrapped or with wrapped ones inside.
        state_dict_type : StateDictType
            Whole tensors, or DTensors.
        state_dict_config, optim_state_dict_config
            How they are made; of the classes that belong to the type.

        Returns
        -------
        StateDictSettings
            Those before.

        Raises
        ------
        NotImplementedError
            For ``LOCAL_STATE_DICT``.
        RuntimeError
            If a configuration does not belong to the type.
        """
        settings = _configs(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for each in FullyShardedDataParallel.fsdp_modules(module):
            each._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What state dicts of the wrapped modules inside ``module`` hold.

        Parameters
        ----------
        module : Module
            The module, wrapped or with wrapped ones inside.

        Returns
        -------
        StateDictSettings
        """
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        return wrappers[0]._settings if wrappers else _default_settings()

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """A block in which state dicts hold something else.

        Parameters
        ----------
        module, state_dict_type, state_dict_config, optim_state_dict_config
            See :meth:`set_state_dict_type`, as for the errors.
        """
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for each in FullyShardedDataParallel.fsdp_modules(module):
                each._settings = before

    @staticmethod
    def optim_state_dict(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any] | None = None,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """The states of an optimizer by the names of parameters, whole or as DTensors as for modules. All ranks call this.

        Parameters
        ----------
        model : Module
            The model, whose parameters ``optim`` has.
        optim : Optimizer
            The optimizer.
        optim_state_dict, group
            Accepted for compatibility.

        Returns
        -------
        dict
            ``{"state": {name: ...}, "param_groups": [...]}``; empty on other ranks with ``rank0_only``.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        config = settings.optim_state_dict_config
        result = named_states(optim, _names(model), whole=whole)
        if getattr(config, "rank0_only", False) and _rank(model):
            return {}
        if whole and config.offload_to_cpu:
            for state in result["state"].values():
                state.update(
                    {key: each.cpu() for key, each in state.items() if isinstance(each, tensor.Tensor)}
                )
        return result

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes on this rank, from what :meth:`optim_state_dict` returned on any number of ranks.

        Parameters
        ----------
        model : Module
            The model, whose parameters ``optim`` has.
        optim : Optimizer
            The optimizer.
        optim_state_dict : dict
            The states by name, on all ranks.
        is_named_optimizer : bool
            Accepted for compatibility.
        load_directly : bool
            Whether to load it, too.
        group : ProcessGroup, optional
            Accepted for compatibility.

        Returns
        -------
        dict

        Raises
        ------
        KeyError
            If the options of a parameter are missing.
        """
        result = numbered_states(optim, _names(model), optim_state_dict)
        if load_directly:
            optim.load_state_dict(result)
        return result


def _names(model: Module) -> dict[int, str]:
    return {id(each): name.replace(_PREFIX, "") for name, each in model.named_parameters()}


def _rank(model: Module) -> int:
    for each in FullyShardedDataParallel.fsdp_modules(model):
        return each._mesh.get_rank()
    return 0


def _mesh(
    module: Module,
    process_group: Any,
    device_mesh: DeviceMesh | None,
    device_id: Any,
    strategy: ShardingStrategy,
) -> DeviceMesh:
    """The mesh that the arguments describe."""
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    if device_mesh is not None and process_group is not None:
        raise ValueError("Cannot pass both process_group and device_mesh at the same time.")
    if hybrid and (device_mesh is None or device_mesh.ndim != 2):
        raise ValueError(
            f"{strategy} takes device_mesh= of two dimensions, along the first of which parts are replicated, as "
            "parallel.init_device_mesh makes it"
        )
    if device_id is not None:
        device = tensor.device("cuda", device_id) if isinstance(device_id, int) else tensor.device(device_id)
        if device.type == "cuda" and device.index is not None:
            tensor.cuda.set_device(device)
        device_type = device.type
    else:
        first = next(iter(module.parameters()), None)
        device_type = "cpu" if first is None else first.device.type
    if device_mesh is not None:
        if device_mesh.ndim != (2 if hybrid else 1):
            raise ValueError(f"{strategy} takes a mesh of one dimension, got {device_mesh!r}")
        return device_mesh
    if isinstance(process_group, tuple):
        raise NotImplementedError(
            "a pair of process groups is not supported: pass device_mesh= of two dimensions"
        )
    return DeviceMesh.from_group(checked_group(process_group), device_type)


def _after_state_dict(module: Any, state_dict: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Take the wrapper's name out, and have whole tensors where the settings say so."""
    settings: StateDictSettings = module._settings
    config = settings.state_dict_config
    inside = prefix + _PREFIX
    for key in [key for key in state_dict if key.startswith(inside)]:
        value = state_dict.pop(key)
        if settings.state_dict_type is StateDictType.FULL_STATE_DICT:
            if isinstance(value, DTensor):
                value = value.full_tensor()
            if getattr(config, "rank0_only", False) and module._mesh.get_rank():
                continue
            if config.offload_to_cpu and isinstance(value, tensor.Tensor):
                value = value.cpu()
        state_dict[prefix + key[len(inside) :]] = value


def _before_load(module: Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    inside = prefix + _PREFIX
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(inside)]:
        state_dict[inside + key[len(prefix) :]] = state_dict.pop(key)
