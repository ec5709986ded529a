"""Pruning: parameters of which some elements are held at 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensor import ones_like

from .pruning_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    hooks_of,
)
from .vectors import parameters_to_vector

if TYPE_CHECKING:
    from nn.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Module, name: str) -> Module:
    """Give the parameter ``name`` of ``module`` a mask that prunes nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune random elements of the parameter ``name`` of ``module``.

    Parameters
    ----------
    amount
        How many: an integer, or a share from 0.0 to 1.0.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prune the elements of the parameter ``name`` of ``module`` with the least absolute values.

    Parameters
    ----------
    amount
        How many: an integer, or a share from 0.0 to 1.0.
    importance_scores
        Of the shape of the parameter: what decides in place of its elements.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune random positions along ``dim`` of the parameter ``name`` of ``module``; see :func:`random_unstructured`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the positions along ``dim`` of the parameter ``name`` with the least ``n``-norms; see :func:`l1_unstructured`."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune the parameter ``name`` of ``module`` where ``mask`` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune elements of several parameters as if they were one.

    Parameters
    ----------
    parameters
        Pairs of a module and the name of a parameter.
    pruning_method
        A class whose ``PRUNING_TYPE`` is "unstructured".
    importance_scores
        For some of the pairs what decides in place of their elements.
    **kwargs
        For the class, such as ``amount``.

    Raises
    ------
    TypeError
        For another kind of method, or ``parameters`` and scores that are no such things.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: list[tuple[Any, str]] = [(module, name) for module, name in parameters]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    important = parameters_to_vector([scores.get(pair, getattr(*pair)) for pair in pairs])
    masks = parameters_to_vector(
        [getattr(module, f"{name}_mask", ones_like(getattr(module, name))) for module, name in pairs]
    )
    mask = PruningContainer._combined(method, important.detach(), masks)
    start = 0
    for module, name in pairs:
        parameter = getattr(module, name)
        end = start + parameter.numel()
        custom_from_mask(module, name, mask[start:end].view_as(parameter))
        start = end


def remove(module: Module, name: str) -> Module:
    """Make the pruned tensor ``name`` of ``module`` a parameter as it was, for good.

    Raises
    ------
    ValueError
        If it is not pruned.
    """
    for key, hook in hooks_of(module):
        if hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of ``module`` or of a module in it is pruned."""
    return any(hooks_of(each) for each in module.modules())
