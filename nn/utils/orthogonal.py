"""Weights that stay orthogonal matrices while they are learned."""

from __future__ import annotations

from typing import Any

from nn.module import Module
from tensor import Tensor, allclose, cat, eye, finfo, geqrf, linalg, no_grad, randn, zeros_like

from . import parametrize

__all__ = ["orthogonal"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(matrix: Any) -> bool:
    n, k = matrix.size(-2), matrix.size(-1)
    unit = eye(k, dtype=matrix.dtype, device=matrix.device)
    return allclose(
        matrix.mH @ matrix, unit.expand(*matrix.shape[:-2], k, k), atol=10 * n * finfo(matrix.dtype).eps
    )


def _orthogonalized(matrix: Any) -> Any:
    """The factor Q of a QR factorization whose R has a positive diagonal."""
    reflectors, tau = geqrf(matrix)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn()
    return linalg.householder_product(reflectors, tau) * signs.unsqueeze(-2)


class _Orthogonal(Module):
    """Maps any matrix to an orthogonal one; M. Lezcano-Casado and D. Martínez-Rubio, 2019, on maps and ``base``."""

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
        wide = matrix.size(-2) < matrix.size(-1)
        if wide:
            matrix = matrix.mT
        found = self._reflected(matrix) if self.orthogonal_map == "householder" else self._turned(matrix)
        if self._has_base:
            found = self.base @ found
        return found.mT if wide else found

    def _turned(self, matrix: Any) -> Any:
        """The lower triangle as a skew matrix, which the exponential and Cayley's map make a rotation of."""
        n, k = matrix.size(-2), matrix.size(-1)
        lower = matrix.tril()
        if n != k:
            lower = cat([lower, lower.new_zeros(*lower.shape[:-1], n - k)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            found = linalg.matrix_exp(skew)
        else:
            unit = eye(n, dtype=skew.dtype, device=skew.device)
            found = linalg.solve(unit - skew * 0.5, unit + skew * 0.5)
        return found[..., :k]

    def _reflected(self, matrix: Any) -> Any:
        """The columns below the diagonal as reflections; the diagonal holds signs, and is not learned."""
        below = matrix.tril(-1)
        tau = 2.0 / (1.0 + (below * below).sum(-2))
        signs = matrix.detach().diagonal(dim1=-2, dim2=-1).trunc()
        return linalg.householder_product(below, tau) * signs.unsqueeze(-2)

    def right_inverse(self, value: Any) -> Any:
        """What is mapped to an orthogonal ``value``, or to one near it."""
        with no_grad():
            return self._inverse(value)

    def _inverse(self, value: Any) -> Any:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {value.shape}."
            )
        wide = value.size(-2) < value.size(-1)
        matrix = value.mT if wide else value
        if not self._has_base:
            return self._reflections(matrix, wide)
        n, k = matrix.size(-2), matrix.size(-1)
        if n != k:
            # Any columns that make it square.
            rest = randn(*matrix.shape[:-1], n - k, dtype=matrix.dtype, device=matrix.device)
            self.base = _orthogonalized(cat([matrix, rest], -1))
        else:
            self.base = matrix.clone() if _is_orthogonal(matrix) else _orthogonalized(matrix)
        # All maps take this to the unit matrix: the diagonal counts as signs of reflections that are turned round.
        found = zeros_like(value)
        found.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return found

    def _reflections(self, matrix: Any, wide: bool) -> Any:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        reflectors, tau = geqrf(matrix)
        signs = reflectors.diagonal(dim1=-2, dim2=-1)
        # Where no reflection was needed the factorization left the sign that the others lack.
        signs.copy_(signs.sign() * (1 - 2 * (tau == 0).to(signs.dtype)))
        return reflectors.mT if wide else reflectors


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight an orthogonal (complex: a unitary) matrix; one that is not square, part of such a matrix.

    Parameters
    ----------
    name
        Of the parameter: a matrix or a batch of matrices. ``parametrizations.<name>.original`` is what is learned.
    orthogonal_map : {"matrix_exp", "cayley", "householder"}
        What makes orthogonal matrices; by default the first for square and complex ones, otherwise the last.
    use_trivialization
        Whether what is learned turns a matrix that is kept beside it, which allows to assign any value.

    Raises
    ------
    ValueError
        If there is no such parameter, it is no matrix, or for another map.
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
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)
