"""Parametrizations of weights: by norm and direction, by their largest singular value, and as orthogonal ones."""

from __future__ import annotations

from typing import Any

from nn.module import Module
from tensor import Tensor, dot, mv, no_grad

from . import parametrize
from .orthogonal import orthogonal

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except_dim(weight: Tensor, dim: int) -> Tensor:
    """2-norm over all dimensions but ``dim``, which stay with size 1; with ``dim=-1`` that of all elements."""
    if dim == -1:
        return weight.norm(2)
    others = [each for each in range(weight.dim()) if each != dim]
    norms: Tensor = weight.norm(2, dim=others, keepdim=True) if others else weight.abs()
    return norms


def normalized(vector: Tensor, eps: float) -> Tensor:
    """``vector`` divided by its norm, which counts as ``eps`` where it is less."""
    unit: Tensor = vector / vector.norm(2).clamp(min=eps)
    return unit


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Matrix with a row for each position along ``dim``."""
    if dim:
        weight = weight.movedim(dim, 0)
    matrix: Tensor = weight.flatten(1) if weight.dim() > 1 else weight.unsqueeze(1)
    return matrix


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        weight: Tensor = weight_v * (weight_g / norm_except_dim(weight_v, self.dim))
        return weight

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn norm and direction of a weight apart (T. Salimans and D. P. Kingma, 2016).

    Parameters
    ----------
    name
        Of the parameter. ``parametrizations.<name>.original0`` is its norm, ``original1`` its direction.
    dim
        Dimension along which there are norms of their own; ``None`` for one norm of all elements.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    module.register_load_state_dict_pre_hook(_OlderForm(name))
    return module


class _OlderForm:
    """Reads ``weight_g`` and ``weight_v``, which :func:`nn.utils.weight_norm` has in state dicts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, _: Module, state_dict: Any, prefix: str, *__: Any) -> None:
        old = (f"{prefix}{self.name}_g", f"{prefix}{self.name}_v")
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{number}"] = state_dict.pop(key)


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        dims = weight.dim()
        if not -dims <= dim < dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                rows, columns = matrix.shape
                u = matrix.new_empty(rows).normal_(0, 1)
                v = matrix.new_empty(columns).normal_(0, 1)
                self.register_buffer("_u", normalized(u, eps))
                self.register_buffer("_v", normalized(v, eps))
                self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        """Bring the vectors nearer to the singular vectors of the largest singular value."""
        with no_grad():
            for _ in range(count):
                self._u.copy_(normalized(mv(matrix, self._v), self.eps))
                self._v.copy_(normalized(mv(matrix.adjoint(), self._u), self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return normalized(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copies, so that a second call before the backward pass changes nothing that is saved.
        u, v = self._u.clone(), self._v.clone()
        divided: Tensor = weight / dot(u, mv(matrix, v))
        return divided

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def default_dimension(module: Module, given: int | None) -> int:
    """Dimension of the outputs of a module's weight, which transposed convolutions have second."""
    if given is not None:
        return given
    names = [cls.__name__ for cls in type(module).__mro__]
    return 1 if any(name.startswith("ConvTranspose") for name in names) else 0


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (T. Miyato et al., 2018).

    Parameters
    ----------
    name
        Of the parameter. ``parametrizations.<name>.original`` is what is learned.
    n_power_iterations
        Steps, in each forward pass of training, towards the singular vectors.
    eps
        Least norm to divide by.
    dim
        Dimension of the outputs; by default 1 for transposed convolutions, otherwise 0.

    Raises
    ------
    ValueError
        If there is no such parameter.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    made = _SpectralNorm(weight, n_power_iterations, default_dimension(module, dim), eps)
    return parametrize.register_parametrization(module, name, made)
