"""``gradcheck`` and ``gradgradcheck``: derivatives compared with differences."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes

from .derivative_check import (
    DerivativeCheck,
    GradcheckError,
    as_tuple,
    differentiable,
    random_like,
    requires_grad,
)
from .differentiation import grad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of ``func`` with central differences.

    Parameters
    ----------
    func : callable
        A function of ``inputs`` that gives a tensor or several.
    inputs
        A tensor, or a sequence of tensors and anything else. Those that require grad are checked; they should be
        float64 or complex128, as others are not precise enough for the default tolerances. They are changed in
        place and restored.
    eps : float
        How far an element is moved in either direction.
    atol, rtol : float
        An element of the Jacobian may be off by ``atol + rtol * abs(numerical)``.
    raise_exception : bool
        Whether a wrong derivative is an error; else the result says so.
    nondet_tol : float
        How much gradients of two equal backward passes may differ.
    check_undefined_grad : bool
        Whether to check that outputs without a gradient count as those with a gradient of zeros.
    check_grad_dtypes : bool
        Whether to check that each ``autograd.Function`` gives gradients of the dtypes of its inputs.
    fast_mode : bool
        Whether to compare one random combination of the elements of each Jacobian instead of all.
    masked : bool, optional
        Has a meaning for sparse tensors only.

    Returns
    -------
    bool
        Whether the derivatives are right.

    Raises
    ------
    GradcheckError
        If ``raise_exception`` and a derivative is wrong.
    ValueError
        If no input requires grad, or forward or batched derivatives shall be checked, which there are not.
    RuntimeError
        If elements of an input that requires grad overlap in memory.
    """
    _refuse(
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
    )
    if not check_backward_ad:
        raise ValueError("nothing to check: check_backward_ad=False, and there are no forward derivatives")
    arguments = as_tuple(inputs)
    check = DerivativeCheck(func, arguments, _wanted(arguments), eps, atol, rtol)
    try:
        check.run(
            fast=fast_mode,
            nondet_tol=nondet_tol,
            undefined=check_undefined_grad,
            kinds=check_grad_dtypes,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the gradients of gradients of ``func`` with central differences.

    Parameters
    ----------
    grad_outputs : optional
        A gradient for each output; by default random ones.
    gen_non_contig_grad_outputs : bool
        Whether those have gaps between their elements.

    Returns
    -------
    bool
        Whether the derivatives are right. The other parameters, and what is raised, are as of :func:`gradcheck`.
    """
    _refuse(check_fwd_over_rev=check_fwd_over_rev)
    if not check_rev_over_rev:
        raise ValueError("nothing to check: check_rev_over_rev=False, and there are no forward derivatives")
    arguments = as_tuple(inputs)
    _wanted(arguments)
    if grad_outputs is None:
        random = np.random.default_rng(0)
        gradients = tuple(
            random_like(output, random, gaps=gen_non_contig_grad_outputs)
            for output in differentiable(func(*arguments))
        )
    else:
        gradients = as_tuple(grad_outputs)
    count = len(arguments)

    def gradients_of(*given: Any) -> tuple[Any, ...]:
        used = [x for x in given[:count] if requires_grad(x)]
        found = grad(
            differentiable(func(*given[:count])), used, given[count:], create_graph=True, allow_unused=True
        )
        return tuple(gradient for gradient in found if gradient is not None)

    return gradcheck(
        gradients_of,
        arguments + gradients,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        masked=masked,
    )


def _refuse(**asked: bool) -> None:
    for name, value in asked.items():
        if value:
            raise ValueError(
                f"{name}=True is not supported: there are neither forward nor batched derivatives"
            )


def _wanted(arguments: Sequence[Any]) -> list[Tensor]:
    """The checked inputs."""
    found: list[Tensor] = []
    for position, given in enumerate(arguments):
        if not requires_grad(given):
            continue
        if given.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point or complex: it is "
                f"{given.dtype!r}. This check will likely fail if all the inputs are not of double precision floating "
                "point or complex.",
                stacklevel=3,
            )
        overlaps = any(step == 0 and size > 1 for step, size in zip(given.stride(), given.shape, strict=True))
        if overlaps and given.numel():
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
        found.append(given)
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    return found
