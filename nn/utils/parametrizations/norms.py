"""Weight normalization and spectral normalization."""

from __future__ import annotations

from typing import Any

from nn.module import Module
from nn.utils import parametrize
from tensor import Tensor, dot, mv, no_grad


def norm_except_dim(weight: Tensor, dim: int) -> Tensor:
    """2-norm over all dimensions but ``dim``, kept with size 1; over all elements for ``dim=-1``."""
    if dim == -1:
        return weight.norm(2)
    others = [each for each in range(weight.dim()) if each != dim]
    norms: Tensor = weight.norm(2, dim=others, keepdim=True) if others else weight.abs()
    return norms


def normalized(vector: Tensor, eps: float) -> Tensor:
    """``vector`` divided by its norm, or by ``eps`` if that is greater."""
    unit: Tensor = vector / vector.norm(2).clamp(min=eps)
    return unit


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Matrix with a row for each index of ``dim``."""
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
    """Weight normalization: train the norm and the direction of a weight separately (Salimans and Kingma, 2016).

    ``weight = g * v / norm(v)``.

    Parameters
    ----------
    module : Module
        Module with the weight.
    name : str
        Name of the parameter. ``parametrizations.<name>.original0`` is g, ``original1`` is v.
    dim : int or None
        Dimension that has a norm for each index; ``None`` for one norm.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If there is no such tensor.

    Examples
    --------
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    tensor.Size([40, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    module.register_load_state_dict_pre_hook(_OlderForm(name))
    return module


class _OlderForm:
    """Reads ``weight_g`` and ``weight_v`` of state dicts of :func:`nn.utils.weight_norm`."""

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
        """Power iterations towards the singular vectors of the largest singular value."""
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


def default_dimension(module: Module, dim: int | None) -> int:
    """Dimension of the outputs in a module's weight: 1 for transposed convolutions, otherwise 0."""
    if dim is not None:
        return dim
    names = [cls.__name__ for cls in type(module).__mro__]
    return 1 if any(name.startswith("ConvTranspose") for name in names) else 0


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Spectral normalization: divide a weight by its largest singular value (Miyato et al., 2018).

    The singular value is estimated by power iteration.

    Parameters
    ----------
    module : Module
        Module with the weight.
    name : str
        Name of the parameter. ``parametrizations.<name>.original`` is trained instead.
    n_power_iterations : int
        Power iterations at each call in training mode.
    eps : float
        Lower bound of norms.
    dim : int, optional
        Dimension of the outputs; 1 for transposed convolutions and 0 otherwise by default.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If there is no such tensor, or ``n_power_iterations`` is not positive.
    IndexError
        If there is no such dimension.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    parametrization = _SpectralNorm(weight, n_power_iterations, default_dimension(module, dim), eps)
    return parametrize.register_parametrization(module, name, parametrization)
