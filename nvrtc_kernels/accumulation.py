"""Combining values with the elements that index tensors select: ``index_add``, ``scatter_reduce``, ``index_put(accumulate)``.

Any number of values may meet at one element. There are two ways:

========  ==========================================================================================
atomics   one launch, and no memory besides. Sums and products of floating point numbers differ in the
          last bits from run to run; everything else is the same in every run
segments  the same in every run: positions are sorted by the element they select, then combined in order
          (:mod:`.segments`). Half precision is rounded once
========  ==========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import segments
from .indexing import THREADS, bounds, index_parameters, unroll_and_grid, walk
from .plans import NOTHING, Plan, includes, launcher
from .segments import COUNT, LAST, REDUCERS, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv import Device

    from .dtypes import dtype
    from .indexing import Selection

#: Types of ``cuda/accumulate.cuh``.
_WAYS = {"sum": "SumAt", "prod": "ProductAt", "amax": "LargestAt", "amin": "SmallestAt", COUNT: "SumAt"}
#: Bytes that are compared and exchanged, at most.
_CELL = 8


def plan(
    device: Device,
    operation: str,
    reducer: str,
    selection: Selection,
    values: tuple[Sequence[int], dtype] | None,
    *,
    deterministic: bool = False,
) -> Plan:
    """What combines values with the selected elements, which count as one value each.

    A mean is a sum that is divided by a ``"count"``, which starts with a target of ones.

    Parameters
    ----------
    operation
        What kernels and failed assertions are called: a C++ name, such as ``"index_add"``.
    reducer
        ``"sum"``, ``"prod"``, ``"amax"``, ``"amin"`` (NaN is beyond either end), ``"count"`` (adds how many
        values there are) or ``"last"`` (the last value in row-major order, overwriting the element). On
        bool, sums and maxima are "or", products and minima are "and".
    selection
        Its array is what is changed. Elements of that must not overlap.
    values
        Strides and type of the values, whose shape is that of the selection, 0 where they are stretched.
        They are converted to the type of the selection. ``None`` for ``"count"``.
    deterministic
        Whether the result must be the same in every run, to the last bit.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, target_address, values_address, *index_addresses)``; the address
        of the values does not matter where there are none. An index that is out of bounds fails an
        assertion of the kernel.

    Raises
    ------
    ValueError
        For a reducer that there is not, values for ``"count"``, none for another, and more positions than
        can be sorted.
    TypeError
        For extremes of complex numbers.
    """
    if reducer not in REDUCERS:
        raise ValueError(f"{operation}(): reduce must be one of {', '.join(REDUCERS)}, {reducer!r} was given")
    if (values is None) != (reducer == COUNT):
        raise ValueError(
            f"{operation}(): reducer {COUNT!r} has no values, and every other has; got {reducer!r}"
        )
    if selection.element_dtype.is_complex and reducer in ("amax", "amin"):
        raise TypeError(
            f"{operation}(): {reducer} compares values, but complex numbers ({selection.element_dtype!r}) have no order"
        )
    if 0 in selection.shape:
        return NOTHING
    if _has_atomics(reducer, selection.element_dtype) and not (
        deterministic and _depends(reducer, selection.element_dtype)
    ):
        return _atomic(device, operation, reducer, selection, values)
    return segments.plan(device, operation, reducer, selection, values)


def _has_atomics(reducer: str, element_dtype: dtype) -> bool:
    """Whether an element can be updated alone, in one step or in independent halves."""
    if reducer == LAST:
        return False
    if element_dtype.itemsize == 1:
        return element_dtype.name == "bool"
    return element_dtype.itemsize <= _CELL or reducer in ("sum", COUNT)


def _depends(reducer: str, element_dtype: dtype) -> bool:
    """Whether a result depends on the order of values."""
    return reducer in ("sum", "prod") and (element_dtype.is_floating_point or element_dtype.is_complex)


def _atomic(
    device: Device,
    operation: str,
    reducer: str,
    selection: Selection,
    values: tuple[Sequence[int], dtype] | None,
) -> Plan:
    element_dtype = selection.element_dtype
    geometry = walk(selection, selection.strides if values is None else values[0], widen=False)
    unroll, grid = unroll_and_grid(geometry.count)
    parameters, index = index_parameters(selection)
    source_type, source_code = source_of(values)
    name = f"{operation}_{reducer}_of_{element_dtype.name}"
    source = (
        f"{includes('accumulate.cuh')}"
        f"{bounds(operation, selection)}{geometry.declarations}\n"
        f'extern "C" __global__ void {name}(Walk walk, Lookup lookup, Walk::Number count, {element_dtype.cuda}* target, '
        f"const {source_type}* values{parameters}) {{\n{index}"
        f"    accumulate<{_WAYS[reducer]}, Bounds, {unroll}>"
        f"(walk, lookup, count, target, {source_code}, index);\n}}\n"
    )
    codes = (*geometry.codes, *"PP", *"P" * len(selection.indices))
    launch = launcher(device, f"{operation}.cu", source, name, codes)
    arguments = geometry.arguments

    def run(stream: Any, _: int, target: int, values: int, *indices: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, *arguments, target, values, *indices)

    return Plan(run)
