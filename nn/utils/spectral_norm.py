"""Spectral normalization as a forward pre-hook: the older form, for existing state dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.parameter import Parameter
from tensor import dot, mv, no_grad

from .parametrizations.norms import as_matrix, default_dimension, normalized

if TYPE_CHECKING:
    from nn.module import Module

__all__ = ["remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """Hook that computes the parameter ``name`` from ``<name>_orig`` and the singular vectors ``<name>_u``, ``<name>_v``."""

    #: Of what it keeps in state dicts.
    _version = 1

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """The weight, divided by its largest singular value."""
        weight, u, v = (getattr(module, f"{self.name}_{each}") for each in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                fixed = matrix.detach()
                for _ in range(self.n_power_iterations):
                    v.copy_(normalized(mv(fixed.t(), u), self.eps))
                    u.copy_(normalized(mv(fixed, v), self.eps))
            # Copies, so that a second call before the backward pass changes nothing that is saved.
            u, v = u.clone(), v.clone()
        return weight / dot(u, mv(matrix, v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


class _Version:
    """Writes the version of the layout into the metadata of state dicts."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        known = local_metadata.setdefault("spectral_norm", {})
        known[f"{self.hook.name}.version"] = self.hook._version


def _hook_of(module: Module, name: str) -> int | None:
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook.function, SpectralNorm) and hook.function.name == name:
            return number
    return None


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value; ``<name>_orig`` is trained instead.

    Use :func:`nn.utils.parametrizations.spectral_norm` in new code.

    Parameters
    ----------
    module, name, n_power_iterations, eps, dim
        See that function.

    Raises
    ------
    RuntimeError
        If the weight is normalized already.
    ValueError
        If the parameter is ``None``, or ``n_power_iterations`` is not positive.
    """
    if _hook_of(module, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, default_dimension(module, dim), eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    with no_grad():
        matrix = as_matrix(weight.detach(), hook.dim)
        rows, columns = matrix.shape
        u = normalized(matrix.new_empty(rows).normal_(0, 1), eps)
        v = normalized(matrix.new_empty(columns).normal_(0, 1), eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    # An attribute, so that the module has it before its first call.
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(_Version(hook))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Turn the weight ``name`` of ``module`` back into a parameter.

    Raises
    ------
    ValueError
        If it has no spectral normalization.
    """
    number = _hook_of(module, name)
    if number is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook: SpectralNorm = module._forward_pre_hooks[number].function
    with no_grad():
        weight = hook.compute_weight(module, do_power_iteration=False)
    del module._forward_pre_hooks[number]
    for each in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, each)
    module.register_parameter(name, Parameter(weight.detach()))
    for key, (known, _) in list(module._state_dict_hooks.items()):
        if isinstance(known, _Version) and known.hook is hook:
            del module._state_dict_hooks[key]
    return module
