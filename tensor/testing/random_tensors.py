"""``make_tensor``: random tensors of any dtype, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import bool_, uint8
from tensor.core.dtypes.limits import finfo, iinfo
from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype as _dtype
    from tensor.methods.tensor import Tensor


def make_tensor(
    *shape: Any,
    dtype: _dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random elements, drawn evenly from ``[low, high)`` by the default generators.

    Parameters
    ----------
    shape
        Sizes, one by one or as a sequence.
    dtype
        Any. Real and imaginary parts of complex elements are drawn each.
    device
        Where the tensor is.
    low, high : float, optional
        -9 and 9 for floating point and complex dtypes, 0 and 2 for bool, 0 and 10 for uint8, -9 and 10 for other integers.
    requires_grad : bool
        Whether gradients of it are computed; for floating point and complex dtypes.
    noncontiguous : bool
        Whether it shows every other element of a larger one, if it has more than one.
    exclude_zero : bool
        Whether zeros are replaced by the smallest positive number of the dtype.
    memory_format : optional
        As for ``Tensor.to``; not together with ``noncontiguous``.

    Raises
    ------
    ValueError
        If ``low`` is not below ``high``, for ``requires_grad`` with integers, or for ``noncontiguous`` with
        ``memory_format``.

    Examples
    --------
    >>> tensor.testing.make_tensor(2, 3, dtype=tensor.float32, device="cpu").shape
    tensor.Size([2, 3])
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    is_float = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not is_float:
        raise ValueError(f"requires_grad=True takes a floating point or complex dtype, but got {dtype!r}")
    if noncontiguous and memory_format is not None:
        raise ValueError("noncontiguous and memory_format cannot be given together")
    if is_float:
        default = (-9.0, 9.0)
    else:
        default = (0, 2) if dtype is bool_ else (0, 10) if dtype is uint8 else (-9, 10)
    first, last = (
        usual if bound is None else bound for usual, bound in zip(default, (low, high), strict=True)
    )
    if not first < last:
        raise ValueError(f"`low` must be less than `high`, but got {first} >= {last}")
    functions = published("tensor")
    if is_float:
        result = functions["empty"](sizes, dtype=dtype, device=device)
        parts = functions["view_as_real"](result) if dtype.is_complex else result
        parts.uniform_(first, last)
    else:
        lowest, highest = (0, 1) if dtype is bool_ else (iinfo(dtype).min, iinfo(dtype).max)
        bounds = max(int(np.ceil(first)), lowest), min(int(np.ceil(last)), highest + 1)
        result = functions["randint"](*bounds, sizes, dtype=dtype, device=device)
    if exclude_zero:
        smallest = finfo(dtype).tiny if is_float else 1
        result = functions["where"](result == 0, functions["full_like"](result, smallest), result)
    if noncontiguous and result.numel() > 1:
        result = result.repeat_interleave(2, -1)[..., ::2]
    elif memory_format is not None:
        result = result.to(memory_format=memory_format)
    leaf: Tensor = result.requires_grad_(requires_grad)
    return leaf
