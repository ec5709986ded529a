"""Where results go: the layout of new ones, and what may be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nvrtc_kernels import layouts as strides_of
from tensor.core import layout as layouts
from tensor.core.plans.copies import check_no_overlap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def result_layout(shape: tuple[int, ...], dtype: dtype, tensors: Sequence[Layout]) -> Layout:
    """Layout of a new result: the operands' order of dimensions, as PyTorch's TensorIterator chooses it."""
    device_state = tensors[0].device_state
    whole = [each for each in tensors if each.shape == shape]
    if all(each.contiguous for each in tensors if each.shape) or not whole:
        return layouts.contiguous[shape, dtype, device_state]
    first = whole[0]
    if len(whole) == len(tensors) and all(each.strides == first.strides for each in whole) and first.dense:
        return layouts.strided[shape, first.strides, dtype, device_state]
    strides = [strides_of.broadcast_strides(each.shape, each.strides, shape) for each in tensors]
    order = strides_of.stride_order(shape, *strides)
    return layouts.strided[shape, strides_of.packed_strides(shape, order), dtype, device_state]


def check_target(name: str, target: Layout, shape: tuple[int, ...], result: dtype) -> None:
    """Raise RuntimeError if a result of a shape and type cannot be written to ``target``."""
    check_no_overlap(target)
    if target.shape != shape:
        raise RuntimeError(
            f"{name}(): output with shape {list(target.shape)} doesn't match the broadcast shape {list(shape)}"
        )
    if result.category > target.dtype.category:
        raise RuntimeError(
            f"{name}(): result type {result!r} can't be cast to the desired output type {target.dtype!r}"
        )


def check_partial_overlap(out: Tensor, x: Tensor, name: str) -> None:
    """Raise RuntimeError if writing ``out`` would change elements of ``x`` that are still to be read."""
    ours, theirs = out._layout, x._layout
    if out._offset == x._offset and ours.strides == theirs.strides and ours.shape == theirs.shape:
        return
    if out._offset < x._offset + theirs.nbytes and x._offset < out._offset + ours.nbytes and _meet(out, x):
        raise RuntimeError(
            f"{name}(): unsupported operation: some elements of the input tensor and the written-to tensor refer to "
            "a single memory location. Please clone() the tensor before performing the operation."
        )


def _meet(first: Tensor, second: Tensor) -> bool:
    """Whether two views of a storage have bytes in common; only addresses are compared."""
    if first._layout.dense and second._layout.dense:
        return True
    size = first._storage.capacity
    addresses = np.lib.stride_tricks.as_strided(np.empty(0, np.uint8), (size,), (1,), writeable=False)
    shown = [
        np.ndarray(x._layout.shape, x._layout.dtype.numpy, addresses, x._offset, x._layout.numpy_strides)
        for x in (first, second)
    ]
    try:
        return bool(np.shares_memory(shown[0], shown[1], max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False
