"""Bounding gradients: by the norm of all of them, or each element. Nothing here waits for a device.

On a device the norm of all gradients takes two launches, and their scaling one, for up to 190 of them.
"""

from __future__ import annotations

import functools
import types
import warnings
from typing import TYPE_CHECKING

from tensor import Tensor, no_grad, promote_types, stack, tensor
from tensor.operations.optimizers.gradient_clipping import scale, total_norm

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Norm of all elements of all tensors, as if they were one vector.

    Parameters
    ----------
    norm_type
        The exponent; ``inf`` for the largest magnitude.
    error_if_nonfinite
        Whether to wait for the result, and raise if it is not finite.
    foreach
        Accepted for PyTorch's users; changes nothing.

    Returns
    -------
    Tensor
        With one element, on the device of the first tensor; zero where there are no tensors.

    Raises
    ------
    RuntimeError
        If ``error_if_nonfinite`` and the norm is not finite.
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return tensor(0.0)
    power = float(norm_type)
    total = _norm(given, power)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {power} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _norm(given: list[Tensor], power: float) -> Tensor:
    kind = functools.reduce(promote_types, {each.dtype for each in given})
    with no_grad():
        found = total_norm(given) if power == 2 else None
        if found is None:
            first = given[0].device
            found = stack([each.norm(power).to(first, kind) for each in given]).norm(power)
        # The norm of complex numbers is real.
        return found.to(found.dtype if kind.is_complex else kind)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients of ``parameters`` by ``max_norm / total_norm`` where that is below 1.

    Parameters
    ----------
    total_norm
        What :func:`get_total_norm` gives.
    foreach
        Accepted for PyTorch's users; changes nothing.
    """
    _scale(_gradients(parameters), max_norm, total_norm)


def _scale(gradients: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    if gradients:
        with no_grad():
            scale(gradients, (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of ``parameters`` so that the norm of all of them is at most ``max_norm``.

    The arguments are those of :func:`get_total_norm`, whose result before the scaling is returned.
    """
    if isinstance(parameters, types.GeneratorType):
        parameters = list(parameters)
        if not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
            )
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    _scale(gradients, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Old name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Bring all elements of the gradients of ``parameters`` between ``-clip_value`` and ``clip_value``."""
    bound = float(clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-bound, bound)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    return [each.grad for each in given if each.grad is not None]
