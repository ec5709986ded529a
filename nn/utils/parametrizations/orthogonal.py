"""Orthogonal parametrization of weights."""

from __future__ import annotations

from typing import Any

from nn.module import Module
from nn.utils import parametrize
from tensor import Tensor, allclose, cat, eye, finfo, geqrf, linalg, no_grad, randn, zeros_like

__all__ = ["orthogonal"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(matrix: Any) -> bool:
    n, k = matrix.size(-2), matrix.size(-1)
    identity = eye(k, dtype=matrix.dtype, device=matrix.device)
    return allclose(
        matrix.mH @ matrix, identity.expand(*matrix.shape[:-2], k, k), atol=10 * n * finfo(matrix.dtype).eps
    )


def _orthogonalized(matrix: Any) -> Any:
    """The factor Q of a QR factorization whose R has a positive diagonal."""
    reflectors, tau = geqrf(matrix)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn()
    return linalg.householder_product(reflectors, tau) * signs.unsqueeze(-2)


class _Orthogonal(Module):
    """Maps any matrix to an orthogonal one (Lezcano-Casado and Martínez-Rubio, 2019; ``base`` is the trivialization's)."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    @property
    def _has_base(self) -> bool:
        return "base" in self._buffers

    def forward(self, matrix: Any) -> Any:
        has_more_columns = matrix.size(-2) < matrix.size(-1)
        if has_more_columns:
            matrix = matrix.mT
        result = self._reflected(matrix) if self.orthogonal_map == "householder" else self._turned(matrix)
        if self._has_base:
            result = self.base @ result
        return result.mT if has_more_columns else result

    def _turned(self, matrix: Any) -> Any:
        """The lower triangle as a skew-symmetric matrix, which the exponential or the Cayley map turns into a rotation."""
        n, k = matrix.size(-2), matrix.size(-1)
        lower = matrix.tril()
        if n != k:
            lower = cat([lower, lower.new_zeros(*lower.shape[:-1], n - k)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            rotation = linalg.matrix_exp(skew)
        else:
            identity = eye(n, dtype=skew.dtype, device=skew.device)
            rotation = linalg.solve(identity - skew * 0.5, identity + skew * 0.5)
        return rotation[..., :k]

    def _reflected(self, matrix: Any) -> Any:
        """The columns below the diagonal as Householder reflectors; the diagonal holds signs, and is not learned."""
        below = matrix.tril(-1)
        tau = 2.0 / (1.0 + (below * below).sum(-2))
        signs = matrix.detach().diagonal(dim1=-2, dim2=-1).trunc()
        return linalg.householder_product(below, tau) * signs.unsqueeze(-2)

    def right_inverse(self, value: Any) -> Any:
        """A matrix that is mapped to the orthogonal ``value``, or to one near it."""
        with no_grad():
            return self._inverse(value)

    def _inverse(self, value: Any) -> Any:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {value.shape}."
            )
        has_more_columns = value.size(-2) < value.size(-1)
        matrix = value.mT if has_more_columns else value
        if not self._has_base:
            return self._reflections(matrix, has_more_columns)
        n, k = matrix.size(-2), matrix.size(-1)
        if n != k:
            # Random columns complete it to a square matrix.
            columns = randn(*matrix.shape[:-1], n - k, dtype=matrix.dtype, device=matrix.device)
            self.base = _orthogonalized(cat([matrix, columns], -1))
        else:
            self.base = matrix.clone() if _is_orthogonal(matrix) else _orthogonalized(matrix)
        # All maps take this to the identity: the diagonal holds the negated signs of reflections.
        original = zeros_like(value)
        original.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return original

    def _reflections(self, matrix: Any, has_more_columns: bool) -> Any:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        reflectors, tau = geqrf(matrix)
        signs = reflectors.diagonal(dim1=-2, dim2=-1)
        # The factorization skips a reflection where none is needed, and leaves the sign that the others lack.
        signs.copy_(signs.sign() * (1 - 2 * (tau == 0).to(signs.dtype)))
        return reflectors.mT if has_more_columns else reflectors


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Constrain a weight to be an orthogonal, if complex a unitary, matrix.

    A rectangular one has orthonormal columns or rows.

    Parameters
    ----------
    module : Module
        Module with the weight.
    name : str
        Name of the parameter: a matrix or a batch of matrices. ``parametrizations.<name>.original`` is trained
        instead.
    orthogonal_map : str, optional
        ``"matrix_exp"`` (the default for square and complex matrices), ``"cayley"`` or ``"householder"`` (the default
        for others).
    use_trivialization : bool
        Whether to parametrize relative to a base matrix, which makes any value assignable.

    Returns
    -------
    Module
        ``module``.

    Raises
    ------
    ValueError
        If there is no such tensor, it has fewer than 2 dimensions, or the map is unknown or does not support it.

    References
    ----------
    Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds", 2019.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)
