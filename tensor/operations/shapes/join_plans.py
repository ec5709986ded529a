"""How tensors are put together into a new one.

Looked up by all their layouts: what is checked, where each part goes and what copies it there is worked out once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels.dtypes import STORAGE_ONLY
from tensor.core.arguments import dimension, two_devices
from tensor.core.base import empty, maker, view_of
from tensor.core.dtypes.promotion import promoted
from tensor.core.layout import contiguous
from tensor.core.memory_format import contiguous_format, suggested
from tensor.core.plans import planned
from tensor.core.plans.copies import COPY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.core.memory_format import memory_format
    from tensor.methods.tensor import Tensor


class Joining(NamedTuple):
    """How tensors of certain layouts become one.

    Attributes
    ----------
    run : callable
        ``run(tensors)``: the new tensor. Not recorded.
    dim : int
        Along which dimension.
    sizes : tuple of int
        What each one takes of it; None for those that are left out.
    left_out : bool
        Whether there are empty vectors among the tensors, which take no part; ``run`` is not given them.
    differentiable : bool
        Whether the type of the result has derivatives.
    """

    run: Callable[[Sequence[Tensor]], Tensor]
    dim: int
    sizes: tuple[int | None, ...]
    left_out: bool
    differentiable: bool


def _cat_plan(dim: int, *arguments: Layout) -> Joining:
    """How to join tensors along a dimension that they have.

    ``device_state.plans[CAT, dim, *layouts]`` is a :class:`Joining`.
    """
    for position, layout in enumerate(arguments):
        if not layout.shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    joined = [layout for layout in arguments if layout.shape != (0,)]
    first = (joined or arguments)[0]
    # Nothing but empty vectors has no dimensions to speak of.
    at = dimension(dim, len(first.shape)) if joined else 0
    for position, layout in enumerate(joined):
        if len(layout.shape) != len(first.shape):
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {len(first.shape)} and {len(layout.shape)}"
            )
        _check_place("cat", layout, first)
        for axis, (size, expected) in enumerate(zip(layout.shape, first.shape, strict=True)):
            if axis != at and size != expected:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {expected} but got size "
                    f"{size} for tensor number {position} in the list."
                )
    sizes = tuple([layout.shape[at] for layout in joined])
    # Every tensor has dimensions, so all have the same weight.
    dtype = promoted(arguments)
    shape = (*first.shape[:at], sum(sizes), *first.shape[at + 1 :])
    result = _format(arguments).layout(contiguous[shape, dtype, first.device_state])
    joining = _joining(result, at, joined, sizes)
    if len(joined) == len(arguments):
        return joining
    parts = tuple([None if layout.shape == (0,) else layout.shape[at] for layout in arguments])
    return joining._replace(sizes=parts, left_out=True)


CAT = planned(_cat_plan, takes=STORAGE_ONLY)


def _stack_plan(dim: int, *arguments: Layout) -> Joining:
    """How to join tensors along a new dimension.

    ``device_state.plans[STACK, dim, *layouts]`` is a :class:`Joining`.
    """
    first = arguments[0]
    at = dimension(dim, len(first.shape) + 1)
    for position, layout in enumerate(arguments):
        if layout.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                f"{list(layout.shape)} at entry {position}"
            )
        _check_place("stack", layout, first)
    shape = (*first.shape[:at], len(arguments), *first.shape[at:])
    result = contiguous[shape, promoted(arguments), first.device_state]
    form = _format(arguments)
    if at < len(first.shape) and form is not contiguous_format:
        # They lie as if they were joined along the dimension behind the new one.
        joined = (*first.shape[:at], len(arguments) * first.shape[at], *first.shape[at + 1 :])
        strides = form.layout(contiguous[joined, result.dtype, result.device_state]).strides
        result = result.with_strides(
            result.shape, (*strides[:at], strides[at] * first.shape[at], *strides[at:])
        )
    return _joining(result, at, arguments, (1,) * len(arguments), new=True)


STACK = planned(_stack_plan, takes=STORAGE_ONLY)


def _format(arguments: Sequence[Layout]) -> memory_format:
    """Channels last where all tensors have the same such format."""
    form = suggested(arguments[0])
    return form if all(suggested(each) is form for each in arguments[1:]) else contiguous_format


def _check_place(name: str, layout: Layout, first: Layout) -> None:
    if layout.device_state is not first.device_state:
        raise two_devices(name, first.device, layout.device)


def _joining(
    result: Layout,
    at: int,
    arguments: Sequence[Layout],
    sizes: tuple[int, ...],
    *,
    new: bool = False,
) -> Joining:
    """How to fill ``result`` part by part; with ``new``, the parts do not have the dimension themselves."""
    dtype = result.dtype
    if not result.device_state.is_cuda and arguments and all(layout.dtype is dtype for layout in arguments):
        run = _host_joining(result, at, new)
    else:
        run = _copying(result, at, arguments, sizes, new)
    return Joining(run, at, sizes, False, dtype.is_floating_point or dtype.is_complex)


def _host_joining(result: Layout, at: int, new: bool) -> Callable[[Sequence[Tensor]], Tensor]:
    """For elements of one type on the host: NumPy."""
    with_dimension = (*[slice(None)] * at, None)

    def run(inputs: Sequence[Tensor]) -> Tensor:
        arrays = [x._host[with_dimension] for x in inputs] if new else [x._host for x in inputs]
        value = empty(result)
        np.concatenate(arrays, at, value._writable)
        return value

    return run


def _copying(
    result: Layout, at: int, argument: Sequence[Layout], sizes: Sequence[int], new: bool
) -> Callable[[Sequence[Tensor]], Tensor]:
    """For anything: each part is copied to its place."""
    strides = result.strides[:at] + result.strides[at + 1 :] if new else result.strides
    plans: Any = result.device_state.plans
    parts, offset = [], 0
    for layout, size in zip(argument, sizes, strict=True):
        part = result.with_strides(layout.shape, strides)
        parts.append((part, offset, plans[COPY, part, layout]))
        offset += size * result.numpy_strides[at]
    make = maker(result)

    def run(inputs: Sequence[Tensor]) -> Tensor:
        value = make()
        storage = value._storage
        for x, (part, start, copy) in zip(inputs, parts, strict=True):
            copy(view_of(storage, part, start), x, False)
        return value

    return run
