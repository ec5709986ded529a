"""States of models and optimizers by the names of parameters, however the model is wrapped and divided.

These are names of ``torch.distributed.checkpoint.state_dict``. What :func:`get_state_dict` returns is what
:func:`parallel.checkpoint.save` and :func:`parallel.checkpoint.load` take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensor
from nn.optim import Optimizer
from parallel.data_parallel.data_parallel import DataParallel
from parallel.ddp.distributed_data_parallel import DistributedDataParallel
from parallel.groups.collectives.object_collectives import broadcast_object_list
from parallel.groups.collectives.tensor_collectives import broadcast
from parallel.groups.process_groups import get_rank, is_initialized
from parallel.sharding.dtensor import DTensor, distributed
from parallel.sharding.fully_sharded_data_parallel import FullyShardedDataParallel, StateDictType
from parallel.sharding.optimizer_states import named_states, numbered_states
from tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nn import Module
    from nn.module.state import IncompatibleKeys

    Optimizers = Optimizer | Iterable[Optimizer]

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

#: Names that wrappers have for what they wrap, and that names of parameters leave out.
_OF_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


@dataclass
class StateDictOptions:
    """What states hold, and how they are restored.

    Parameters
    ----------
    full_state_dict : bool
        Whether tensors are whole, for which all ranks call; else divided ones are :class:`parallel.tensor.DTensor`.
    cpu_offload : bool
        Whether tensors are copied to the CPU; with ``full_state_dict`` only rank 0 has them, and the others an empty dict.
    ignore_frozen_params : bool
        Whether to leave parameters out that do not require gradients.
    keep_submodule_prefixes : bool
        Whether names begin with those of ``submodules``.
    strict : bool
        Whether names that are missing, or that the model does not have, are an error.
    broadcast_from_rank0 : bool
        Whether whole tensors are taken from rank 0, and what is passed on other ranks makes no difference; it needs
        ``full_state_dict``.
    flatten_optimizer_state_dict : bool
        Whether states of optimizers have names such as ``state.layer.weight.exp_avg``, of one depth, with which they can be
        loaded where parameters are in other groups.
    dsd_fqn_modifiers : str
        Accepted for compatibility.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def get_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimizers.

    >>> model = nn.Linear(2, 1)
    >>> optimizer = nn.optim.AdamW(model.parameters())
    >>> weights, states = parallel.checkpoint.get_state_dict(model, optimizer)
    >>> list(weights), list(states["state"])
    (['weight', 'bias'], ['weight', 'bias'])

    Parameters
    ----------
    model, optimizers, submodules, options
        See :func:`get_model_state_dict` and :func:`get_optimizer_state_dict`, as for the errors.

    Returns
    -------
    tuple
        What these return.
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The parameters and buffers of a model, by the names that they have without wrappers.

    Parameters
    ----------
    model : Module
        Plain, or wrapped or divided by :class:`parallel.DistributedDataParallel`, :func:`parallel.fully_shard` or
        :class:`parallel.fsdp.FullyShardedDataParallel`.
    submodules : set of Module, optional
        Modules below it whose states alone are taken.
    options : StateDictOptions, optional
        See there.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        For options that exclude each other.
    """
    options = _checked(options)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = model.state_dict()
    frozen = {name for name, each in model.named_parameters() if not each.requires_grad}
    below = _prefixes(model, submodules)
    result = {}
    for raw, value in state.items():
        name = _clean(model, raw)
        prefix = next((each for each in below if name.startswith(each)), None)
        if prefix is None or (options.ignore_frozen_params and {raw, name} & frozen):
            continue
        result[name if options.keep_submodule_prefixes else name[len(prefix) :]] = value
    return _delivered(result, options)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The states of optimizers by the names of a model's parameters.

    An optimizer that has not stepped yet gets the states that its first step makes, so that they can be loaded into.

    Parameters
    ----------
    model : Module
        See :func:`get_model_state_dict`.
    optimizers : Optimizer or iterable of Optimizer
        Of its parameters.
    submodules : set of Module, optional
        Modules below it, the states of whose parameters alone are taken.
    options : StateDictOptions, optional
        See there.

    Returns
    -------
    dict
        ``{"state": {name: ...}, "param_groups": [...]}``, or flat, as the options say.

    Raises
    ------
    ValueError
        For options that exclude each other, and if an optimizer has a parameter that the model does not have.
    """
    options = _checked(options)
    names = _parameter_names(model)
    below = _prefixes(model, submodules)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for each in _list_of(optimizers):
        _check_optimizer(each, names)
        _have_states(each)
        states = named_states(each, names, whole=False)
        state.update({name: value for name, value in states["state"].items() if _is_below(name, below)})
        for group in states["param_groups"]:
            group["params"] = [name for name in group["params"] if _is_below(name, below)]
            if group["params"]:
                groups.append(group)
    if options.ignore_frozen_params:
        frozen = {names[id(each)] for each in model.parameters() if not each.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
        for group in groups:
            group["params"] = [name for name in group["params"] if name not in frozen]
    result = {"state": state, "param_groups": groups}
    return _delivered(_flat(result) if options.flatten_optimizer_state_dict else result, options)


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Restore the states of a model and of its optimizers.

    Parameters
    ----------
    model, optimizers, options
        See :func:`get_model_state_dict` and :func:`get_optimizer_state_dict`.
    model_state_dict, optim_state_dict : dict
        What :func:`get_state_dict` returned, however the model was wrapped and divided.

    Returns
    -------
    IncompatibleKeys
        As of :meth:`nn.Module.load_state_dict`.

    Raises
    ------
    KeyError, RuntimeError, ValueError
        See :func:`set_model_state_dict` and :func:`set_optimizer_state_dict`.
    """
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Restore the parameters and buffers of a model.

    Parameters
    ----------
    model : Module
        See :func:`get_model_state_dict`.
    model_state_dict : dict
        Whole tensors or DTensors, by names without those of wrappers.
    options : StateDictOptions, optional
        See there.

    Returns
    -------
    IncompatibleKeys
        As of :meth:`nn.Module.load_state_dict`.

    Raises
    ------
    RuntimeError
        If shapes differ, or, unless ``options.strict`` is False, names.
    ValueError
        For options that exclude each other.
    """
    options = _checked(options)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        present = {_clean(model, raw): (raw, value) for raw, value in model.state_dict().items()}
        if options.broadcast_from_rank0:
            targets = {name: value for name, (_, value) in present.items()}
            model_state_dict = _from_rank0(model_state_dict, targets.get, model)
        named = {
            present[name][0] if name in present else name: value for name, value in model_state_dict.items()
        }
        return model.load_state_dict(named, strict=options.strict)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Restore the states of optimizers.

    Parameters
    ----------
    model, optimizers, options
        See :func:`get_optimizer_state_dict`.
    optim_state_dict : dict
        What that returned, flat or not, with whole tensors or DTensors.

    Raises
    ------
    KeyError
        If it lacks the options of a parameter.
    ValueError
        For options that exclude each other, and if an optimizer has a parameter that the model does not have.
    """
    options = _checked(options)
    names = _parameter_names(model)
    parameters = {names[id(each)]: each for each in model.parameters()}
    listed = _list_of(optimizers)
    for each in listed:
        _check_optimizer(each, names)
    if options.broadcast_from_rank0:
        flat = _flat(optim_state_dict) if "state" in optim_state_dict else optim_state_dict
        optim_state_dict = _from_rank0(
            flat, lambda path: parameters.get(path.partition(".")[2].rpartition(".")[0]), model
        )
    if "state" not in optim_state_dict:
        optim_state_dict = _nested(optim_state_dict, parameters)
    for each in listed:
        own = {names[id(parameter)] for group in each.param_groups for parameter in group["params"]}
        state = {name: value for name, value in optim_state_dict["state"].items() if name in own}
        states = {"state": state, "param_groups": optim_state_dict["param_groups"]}
        each.load_state_dict(numbered_states(each, names, states))


# Names


def _clean(model: Any, raw: str) -> str:
    """The name of a parameter or buffer without those of wrappers."""
    module, result = model, []
    for each in raw.split("."):
        wraps = isinstance(module, (DistributedDataParallel, DataParallel)) and each == "module"
        if not wraps and each not in _OF_WRAPPERS:
            result.append(each)
        module = getattr(module, "_modules", {}).get(each)
        if isinstance(module, FullyShardedDataParallel):
            module = module.module
    return ".".join(result)


def _parameter_names(model: Module) -> dict[int, str]:
    return {id(each): _clean(model, name) for name, each in model.named_parameters()}


def _prefixes(model: Module, submodules: set[Module] | None) -> list[str]:
    """How names begin that are asked for."""
    if not submodules:
        return [""]
    return [f"{_clean(model, name)}." for name, each in model.named_modules() if each in submodules]


def _is_below(name: Any, prefixes: list[str]) -> bool:
    return any(str(name).startswith(each) for each in prefixes)


# Optimizers


def _list_of(optimizers: Optimizers) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _check_optimizer(optimizer: Optimizer, names: Mapping[int, str]) -> None:
    for group in optimizer.param_groups:
        for each in group["params"]:
            if id(each) not in names:
                raise ValueError(
                    f"{type(optimizer).__name__} has a parameter of shape {list(each.shape)} that the model does not have: make "
                    "the optimizer after the model was wrapped or divided, of its parameters"
                )


def _have_states(optimizer: Optimizer) -> None:
    """Have an optimizer make its states, by a step that changes nothing."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    if optimizer.state or any(each.grad is not None for each in parameters):
        return
    for each in parameters:
        if each.requires_grad:
            local = each.to_local() if isinstance(each, DTensor) else each
            zeros = tensor.zeros_like(local.detach())
            each.grad = distributed(zeros, each._sharding) if isinstance(each, DTensor) else zeros
    rates = [group.get("lr") for group in optimizer.param_groups]
    try:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = tensor.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


def _flat(states: Mapping[str, Any]) -> dict[str, Any]:
    """States with names of one depth."""
    result = {
        f"state.{name}.{key}": value for name, each in states["state"].items() for key, value in each.items()
    }
    for group in states["param_groups"]:
        for name in group["params"]:
            result.update(
                {f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"}
            )
    return result


def _nested(flat: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`_flat` was called with; each parameter has a group of its own."""
    state: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    for path, value in flat.items():
        part, _, rest = path.partition(".")
        name, _, key = rest.rpartition(".")
        if name in parameters:
            (state if part == "state" else options).setdefault(name, {})[key] = value
    return {
        "state": state,
        "param_groups": [{**each, "params": [name]} for name, each in options.items()],
    }


# Tensors


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _delivered(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """``state`` with tensors whole, or on the CPU, as the options say."""

    def tensor_of(value: Tensor) -> Tensor:
        if options.full_state_dict and isinstance(value, DTensor):
            value = value.full_tensor()
        return value.cpu() if options.cpu_offload else value

    def walked(value: Any) -> Any:
        if isinstance(value, Tensor):
            return tensor_of(value.detach())
        if type(value) is dict:
            return {key: walked(each) for key, each in value.items()}
        return [walked(each) for each in value] if type(value) is list else value

    result: dict[str, Any] = walked(state)
    on_rank0 = options.full_state_dict and options.cpu_offload
    return {} if on_rank0 and is_initialized() and get_rank() else result


def _from_rank0(state: Mapping[str, Any], target_of: Callable[[str], Any], model: Module) -> dict[str, Any]:
    """``state`` of rank 0 on all ranks; of what ``target_of`` has divided under a name, each has its part."""
    described: list[Any] = [None]
    if not is_initialized() or get_rank() == 0:
        described[0] = [
            (
                name,
                (tuple(each.shape), each.dtype) if isinstance(each, Tensor) else each,
                isinstance(each, Tensor),
            )
            for name, each in state.items()
        ]
    if not is_initialized():
        return dict(state)
    broadcast_object_list(described, src=0)
    device = next((each.device for each in model.parameters()), tensor.device("cpu"))
    result = {}
    for name, value, is_tensor in described[0]:
        if not is_tensor:
            result[name] = value
            continue
        shape, dtype = value
        whole = (
            state[name].detach().to(device).contiguous()
            if get_rank() == 0
            else tensor.empty(shape, dtype=dtype, device=device)
        )
        broadcast(whole, src=0)
        target = target_of(name)
        if isinstance(target, DTensor) and target._sharding.shape == tuple(shape):
            sharding = target._sharding
            result[name] = distributed(sharding.part_of(whole).clone().contiguous(), sharding)
        else:
            result[name] = whole
    return result
