"""Parts of complex numbers, and numbers made of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category

from .operations.pointwise import Pointwise

if TYPE_CHECKING:
    from .tensors import Tensor

CONJ = Pointwise(
    "conj_physical",
    "conj(a)",
    np.conjugate,
    categories=(Category.COMPLEX,),
    derivatives=(lambda grad: conjugate(grad),),
)


def conjugate(value: Any) -> Any:
    """Conjugate of a tensor or a number; what is real stays as it is."""
    if type(value) in (int, float, bool):
        return value
    if type(value) is complex:
        return value.conjugate()
    return CONJ.unary(value) if value._layout.dtype.is_complex else value


def conj(input: Tensor) -> Tensor:
    """Complex conjugate; a real tensor itself. The result is new memory, not a view."""
    return conjugate(input)


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex conjugate in new memory."""
    if not input._layout.dtype.is_complex:
        if out is None:
            return input.clone()
        from .arithmetic import MUL

        return MUL.out(out, input, 1)
    return CONJ.out(out, input)
