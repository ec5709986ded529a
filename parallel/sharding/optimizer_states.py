"""States of optimizers by the names of parameters, whole or as DTensors, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor

from .dtensor import DTensor, distributed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nn.optim import Optimizer


def named_states(optimizer: Optimizer, names: Mapping[int, str], *, whole: bool) -> dict[str, Any]:
    """The state dict of ``optimizer`` with names in place of numbers.

    Parameters
    ----------
    names
        Of parameters, by identity.
    whole
        Whether states of divided parameters are gathered, for which all ranks call this; else they are DTensors.
    """
    params = _parameters(optimizer)
    packed = optimizer.state_dict()
    state = {
        names[id(params[key])] if isinstance(key, int) else key: {
            name: _described(params[key], each, whole) for name, each in values.items()
        }
        for key, values in packed["state"].items()
    }
    groups = [
        {**group, "params": [names[id(params[number])] for number in group["params"]]}
        for group in packed["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def numbered_states(
    optimizer: Optimizer, names: Mapping[int, str], state_dict: Mapping[str, Any]
) -> dict[str, Any]:
    """What ``optimizer.load_state_dict`` takes on this rank, from what :func:`named_states` returned on any ranks.

    Raises
    ------
    KeyError
        If the options of a parameter are missing.
    """
    params = _parameters(optimizer)
    numbers = {names[id(each)]: number for number, each in enumerate(params)}
    state = {
        numbers.get(key, key): {
            name: _part(params[numbers[key]], each) if key in numbers else each
            for name, each in values.items()
        }
        for key, values in state_dict["state"].items()
    }
    options = {
        name: {key: each for key, each in group.items() if key not in ("params", "param_names")}
        for group in state_dict["param_groups"]
        for name in group["params"]
    }
    groups, start = [], 0
    for group in optimizer.param_groups:
        count = len(group["params"])
        first = names[id(group["params"][0])] if count else None
        if first is not None and first not in options:
            raise KeyError(f"the state dict has no options of parameter '{first}', only of {sorted(options)}")
        groups.append({**(options[first] if first else {}), "params": list(range(start, start + count))})
        start += count
    return {"state": state, "param_groups": groups}


def _parameters(optimizer: Optimizer) -> list[Any]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _described(parameter: Any, value: Any, whole: bool) -> Any:
    is_divided = (
        isinstance(parameter, DTensor)
        and isinstance(value, Tensor)
        and value.dim() > 0
        and tuple(value._layout.shape) == parameter._sharding.local_shape()
    )
    if not is_divided:
        # The optimizer goes on with its own.
        return value.clone() if isinstance(value, Tensor) else value
    divided = distributed(value, parameter._sharding)
    return divided.full_tensor() if whole else divided


def _part(parameter: Any, value: Any) -> Any:
    """What this rank keeps of a state."""
    if isinstance(value, DTensor):
        if isinstance(parameter, DTensor) and value._sharding == parameter._sharding:
            return value.to_local()
        value = value.full_tensor()
    if (
        isinstance(parameter, DTensor)
        and isinstance(value, Tensor)
        and tuple(value.shape) == parameter._sharding.shape
    ):
        return parameter._sharding.part_of(value)
    return value
