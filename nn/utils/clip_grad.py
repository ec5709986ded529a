"""Gradient clipping, by the norm of all gradients or by value. Nothing here waits for a device.

On a device the norm of all gradients takes two launches, and scaling them one, for up to 190 of them.
"""

from __future__ import annotations

import functools
import types
import warnings
from typing import TYPE_CHECKING, Any

from tensor import Tensor, no_grad, promote_types, stack, strided, tensor
from tensor.core.names.absent import hints as _hints
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
    tensors : Tensor or iterable of Tensor
        Floating point or complex tensors, such as gradients.
    norm_type : float
        The p of the p-norm; ``inf`` for the largest magnitude.
    error_if_nonfinite : bool
        Whether to raise if the result is not finite, for which the host waits for it.
    foreach : bool, optional
        Accepted for compatibility.

    Returns
    -------
    Tensor
        Scalar on the device of the first tensor; 0 without tensors.

    Raises
    ------
    RuntimeError
        If ``error_if_nonfinite`` and the norm is not finite.
    NotImplementedError
        If a tensor is sparse.
    """
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    _check_dense("get_total_norm", listed)
    if not listed:
        return tensor(0.0)
    power = float(norm_type)
    total = _norm(listed, power)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {power} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _norm(tensors: list[Tensor], power: float) -> Tensor:
    if any(hasattr(cls, "norm_over_ranks") for cls in set(map(type, tensors))):
        return _norm_over_ranks(tensors, power)
    dtype = functools.reduce(promote_types, {each.dtype for each in tensors})
    with no_grad():
        norm = total_norm(tensors) if power == 2 else None
        if norm is None:
            first = tensors[0].device
            norm = stack([each.norm(power).to(first, dtype) for each in tensors]).norm(power)
        # The norm of complex numbers is real.
        return norm.to(norm.dtype if dtype.is_complex else dtype)


def _norm_over_ranks(tensors: list[Tensor], power: float) -> Tensor:
    """The norm where some tensors are divided among ranks: :class:`parallel.tensor.DTensor`, of a layer above."""
    divided: list[Any] = [each for each in tensors if hasattr(type(each), "norm_over_ranks")]
    with no_grad():
        norm: Tensor = type(divided[0]).norm_over_ranks(divided, lambda parts: _norm(parts, power), power)
        whole = [each for each in tensors if not hasattr(type(each), "norm_over_ranks")]
        return stack([norm, _norm(whole, power).to(norm.device, norm.dtype)]).norm(power) if whole else norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients of ``parameters`` by ``min(1, max_norm / total_norm)``, in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters; those without a gradient are skipped.
    max_norm : float
        Maximum norm.
    total_norm : Tensor
        Norm of the gradients, such as :func:`get_total_norm` returns.
    foreach : bool, optional
        Accepted for compatibility.
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
    """Clip the gradients of ``parameters`` so that the norm of all of them together is at most ``max_norm``, in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters; those without a gradient are skipped.
    max_norm : float
        Maximum norm.
    norm_type, error_if_nonfinite, foreach
        As those of :func:`get_total_norm`.

    Returns
    -------
    Tensor
        The norm before clipping, a scalar.

    Raises
    ------
    RuntimeError
        If ``error_if_nonfinite`` and the norm is not finite; the gradients are unchanged then.
    NotImplementedError
        If a gradient is sparse.

    Examples
    --------
    >>> x = tensor.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> nn.utils.clip_grad_norm_(x, max_norm=1.0)
    tensor(10.)
    >>> x.grad
    tensor([0.6000, 0.8000])
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
    """Deprecated name of :func:`clip_grad_norm_`.

    Parameters
    ----------
    parameters, max_norm, norm_type, error_if_nonfinite, foreach
        See that function, as for the errors.

    Warns
    -----
    FutureWarning
        Always.
    """
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp the gradients of ``parameters`` to [``-clip_value``, ``clip_value``], in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Parameters; those without a gradient are skipped.
    clip_value : float
        Maximum magnitude of an element.
    foreach : bool, optional
        Accepted for compatibility.

    Raises
    ------
    NotImplementedError
        If a gradient is sparse; nothing is changed then.
    """
    bound = float(clip_value)
    gradients = _gradients(parameters)
    _check_dense("clip_grad_value_", gradients)
    with no_grad():
        for gradient in gradients:
            gradient.clamp_(-bound, bound)


def _check_dense(name: str, gradients: list[Tensor]) -> None:
    for each in gradients:
        if each.layout is not strided:
            raise NotImplementedError(
                f"{name}(): not implemented for sparse gradients, and one of shape {list(each.shape)} has the layout "
                f"{each.layout!r}: leave the parameter out, or use a layer without sparse=True"
            )


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [each.grad for each in tensors if each.grad is not None]


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
