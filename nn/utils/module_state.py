"""Modules as functions of their parameters and buffers: names of ``torch.func``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.layers.normalization import _BatchNorm
from tensor import stack

from .stateless import functional_call as _call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nn.module import Module
    from tensor import Tensor

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module(*args, **kwargs)`` with other tensors as its parameters and buffers.

    Parameters
    ----------
    module : Module
        It is restored when the call returns or raises.
    parameter_and_buffer_dicts : mapping, or sequence of them
        Tensors by path; several mappings are taken together.
    args : tuple or Any
        Positional arguments, or the only one.
    kwargs : dict, optional
        Keyword arguments.
    tie_weights : bool
        Whether a tensor also replaces parameters that are the same object under another path.
    strict : bool
        Whether all parameters and buffers must be replaced.

    Raises
    ------
    ValueError
        If a path is in two mappings, an element is no mapping, or different tensors are passed for tied parameters.
    RuntimeError
        If a path is unknown, or, if ``strict``, missing.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> parameters = {"weight": tensor.tensor([[1.0, 10.0]]), "bias": tensor.tensor([100.0])}
    >>> tensor.func.functional_call(model, parameters, tensor.tensor([1.0, 2.0]))
    tensor([121.])
    """
    merged: dict[str, Tensor]
    if isinstance(parameter_and_buffer_dicts, dict):
        merged = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (list, tuple)):
        merged = {}
        for each in parameter_and_buffer_dicts:
            if not isinstance(each, dict):
                raise ValueError(
                    "Expected all elements of parameter_and_buffer_dicts to be dictionaries, got "
                    f"{type(each).__name__}"
                )
            repeated = merged.keys() & each.keys()
            if repeated:
                raise ValueError(
                    f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
                )
            merged.update(each)
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    return _call(module, merged, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of modules that are alike, each stacked along a new first dimension.

    With :func:`functional_call` and :func:`tensor.func.vmap` one call evaluates all of the modules.

    Parameters
    ----------
    models : sequence of Module
        Of one class, in the same mode.

    Returns
    -------
    parameters, buffers : dict
        Tensors by path. The parameters are leaves that require grad where the modules' do.

    Raises
    ------
    RuntimeError
        If there is no module, or they differ in class or mode, or of a parameter some require grad and some do not.

    Examples
    --------
    >>> parameters, buffers = tensor.func.stack_module_state([nn.Linear(3, 2) for _ in range(5)])
    >>> parameters["weight"].shape
    tensor.Size([5, 2, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(each.training for each in models) or not any(each.training for each in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(each) is not type(models[0]) for each in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(each.named_parameters()) for each in models])
    buffers = _stacked([dict(each.named_buffers()) for each in models])
    return parameters, buffers


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    result = {}
    for path in states[0]:
        tensors = [each[path] for each in states]
        requires_grad = [each.requires_grad for each in tensors]
        if any(requires_grad) != all(requires_grad):
            raise RuntimeError(
                f"Expected {path} from each model to have the same .requires_grad, got {requires_grad}"
            )
        result[path] = stack([each.detach() for each in tensors]).requires_grad_(requires_grad[0])
    return result


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let the batch normalizations inside ``root`` keep no running statistics, in place, and return ``root``.

    What writes running statistics cannot be batched by :func:`tensor.func.vmap`.

    Examples
    --------
    >>> model = tensor.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))
    >>> model[0].running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
