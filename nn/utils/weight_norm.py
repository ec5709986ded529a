"""Weight normalization as a forward pre-hook: the older form, for existing state dicts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from nn.parameter import Parameter

from .parametrizations.norms import norm_except_dim

if TYPE_CHECKING:
    from nn.module import Module

__all__ = ["remove_weight_norm", "weight_norm"]


class WeightNorm:
    """Hook that computes the parameter ``name`` from ``<name>_g`` and ``<name>_v``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight, from norm and direction."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _hook_of(module: Module, name: str) -> int | None:
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook.function, WeightNorm) and hook.function.name == name:
            return number
    return None


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the norm and the direction of a weight separately, as ``<name>_g`` and ``<name>_v``.

    Deprecated: use :func:`nn.utils.parametrizations.weight_norm` in new code.

    Parameters
    ----------
    module, name, dim
        See that function.

    Raises
    ------
    RuntimeError
        If the weight is normalized already.
    """
    warnings.warn(
        "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if _hook_of(module, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight.detach(), hook.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.data))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Turn the weight ``name`` of ``module`` back into a parameter.

    Raises
    ------
    ValueError
        If it has no weight normalization.
    """
    number = _hook_of(module, name)
    if number is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = module._forward_pre_hooks.pop(number).function.compute_weight(module)
    for each in (name, f"{name}_g", f"{name}_v"):
        delattr(module, each)
    module.register_parameter(name, Parameter(weight.detach()))
    return module
