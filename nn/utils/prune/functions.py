"""Pruning: parameters with elements that are held at 0 by a mask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nn.utils.convert_parameters import parameters_to_vector
from tensor import ones_like

from .methods import (
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    hooks_of,
)

if TYPE_CHECKING:
    from nn.module import Module


def identity(module: Module, name: str) -> Module:
    """Add a mask that prunes nothing to the parameter ``name`` of ``module``. Returns the module.

    Raises
    ------
    AttributeError
        If the module has no such parameter.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune random elements of a parameter.

    Parameters
    ----------
    module : Module
        Module with the parameter.
    name : str
        Name of the parameter. It becomes ``<name>_orig``, with a buffer ``<name>_mask``.
    amount : int or float
        Number of elements, or their part from 0.0 to 1.0.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If ``amount`` is out of range.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prune the elements of a parameter with the smallest magnitudes.

    Parameters
    ----------
    module : Module
        Module with the parameter.
    name : str
        Name of the parameter. It becomes ``<name>_orig``, with a buffer ``<name>_mask``.
    amount : int or float
        Number of elements, or their part from 0.0 to 1.0.
    importance_scores : Tensor, optional
        Of the parameter's shape: their magnitudes are compared instead.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If ``amount`` is out of range.

    Examples
    --------
    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", amount=0.5)
    >>> layer.weight_mask.sum()
    tensor(3.)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune random indices along dimension ``dim`` of a parameter.

    Parameters
    ----------
    module, name
        See :func:`random_unstructured`, as for the errors.
    amount : int or float
        How many indices, or which fraction of them.
    dim : int
        The dimension.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prune the indices along dimension ``dim`` of a parameter with the smallest ``n``-norms.

    Parameters
    ----------
    module, name, importance_scores
        See :func:`l1_unstructured`, as for the errors.
    amount : int or float
        How many indices, or which fraction of them.
    n : int, float or str
        Order of the norm.
    dim : int
        The dimension.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune the parameter ``name`` of ``module`` where ``mask``, a tensor of its shape, is 0. Returns the module.

    The parameter becomes ``<name>_orig``, the mask the buffer ``<name>_mask``, and their product the attribute.

    Raises
    ------
    AssertionError
        If ``mask`` has another shape than the parameter.
    AttributeError
        If the module has no such parameter.

    Examples
    --------
    >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 1), "weight", tensor.tensor([[1, 0]]))
    >>> (layer.weight == 0).tolist(), [name for name, _ in layer.named_parameters()]
    ([[False, True]], ['bias', 'weight_orig'])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune elements of several parameters, compared across all of them.

    Parameters
    ----------
    parameters : iterable of (Module, str)
        Modules and names of their parameters.
    pruning_method : type
        Class with ``PRUNING_TYPE`` "unstructured", such as :class:`L1Unstructured`.
    importance_scores : dict, optional
        Scores by (module, name), to compare instead of the parameters.
    **kwargs
        Arguments of the class, such as ``amount``.

    Raises
    ------
    TypeError
        If ``parameters`` is not iterable, the scores are not a dict, or the method is not unstructured.
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
    """Make the pruning of the parameter ``name`` of ``module`` permanent, and remove its mask.

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
    """Whether a parameter of ``module`` or of a submodule is pruned.

    Examples
    --------
    >>> layer = nn.Linear(2, 2)
    >>> nn.utils.prune.is_pruned(layer), nn.utils.prune.is_pruned(nn.utils.prune.identity(layer, "weight"))
    (False, True)
    """
    return any(hooks_of(each) for each in module.modules())
