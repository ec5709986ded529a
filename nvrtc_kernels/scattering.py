"""Writing where index tensors say: ``t[i, j] = x``, ``index_copy``, ``index_fill``, ``scatter``, ``put``.

Of several values for one element one stays, and which is not defined. Where it must be the same one in every
run, :mod:`.accumulation` writes the last with its reducer ``"last"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .indexing import (
    THREADS,
    WORDS,
    bounds,
    index_parameters,
    launcher,
    nothing,
    unroll_and_grid,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .indexing import Selection


def plan(
    device: Device, operation: str, selection: Selection, values: Sequence[int] | None
) -> Callable[..., None]:
    """What overwrites the selected elements.

    Parameters
    ----------
    operation
        What kernels and failed assertions are called: a C++ name, such as ``"index_copy"``.
    selection
        Its array is what is written to. Elements of that must not overlap.
    values
        Strides of the values, whose shape and type are those of the selection, 0 where they are stretched;
        ``None`` for one number everywhere.

    Returns
    -------
    callable
        ``run(stream_handle, target_address, values_address, *index_addresses)``, or without strides
        ``run(stream_handle, target_address, number, *index_addresses)``: a number that the type can hold, or
        the bytes of an element. An index that is out of bounds fails an assertion of the kernel.
    """
    if 0 in selection.shape:
        return nothing
    if values is None:
        return _filling(device, operation, selection)
    word, run = _writes(device, operation, selection, values, widen=True)
    if word == selection.element_dtype.itemsize:
        return run
    low = word - 1

    def run_aligned(stream: Any, target: int, source: int, *indices: int) -> None:
        if (target | source) & low:
            _writes(device, operation, selection, values, widen=False)[1](stream, target, source, *indices)
        else:
            run(stream, target, source, *indices)

    return run_aligned


def _writes(
    device: Device, operation: str, selection: Selection, values: Sequence[int], *, widen: bool
) -> tuple[int, Callable[..., None]]:
    return _planned(device, operation, selection, values, "scatter_words", "const {}* in", "P", widen=widen)


def _filling(device: Device, operation: str, selection: Selection) -> Callable[..., None]:
    element_dtype = selection.element_dtype

    def planned(*, widen: bool) -> tuple[int, Callable[..., None]]:
        # The number has no memory to walk through: it goes along with the target.
        steps = selection.strides
        return _planned(device, operation, selection, steps, "fill_words", "{} in", "", widen=widen)

    word, run = planned(widen=True)
    low, copies = word - 1, word // element_dtype.itemsize

    def run_filling(stream: Any, target: int, number: complex | bytes, *indices: int) -> None:
        element = number if isinstance(number, bytes) else np.array(number, element_dtype.numpy).tobytes()
        if target & low:
            planned(widen=False)[1](stream, target, element, *indices)
        else:
            run(stream, target, element * copies, *indices)

    return run_filling


def _planned(
    device: Device,
    operation: str,
    selection: Selection,
    plain: Sequence[int],
    function: str,
    source_type: str,
    code: str,
    *,
    widen: bool,
) -> tuple[int, Callable[..., None]]:
    """Bytes of a word, and what launches ``function`` of ``cuda/scatter.cuh`` with ``source_type`` values."""
    geometry = walk(selection, plain, widen=widen)
    unroll, grid = unroll_and_grid(geometry.count)
    word = WORDS[geometry.word]
    parameters, index = index_parameters(selection)
    name = f"{operation}_{function.partition('_')[0]}_{geometry.word}_bytes"
    source = (
        f'#include "scatter.cuh"\n\n{bounds(operation, selection)}{geometry.declarations}\n'
        f'extern "C" __global__ void {name}(Walk walk, Lookup lookup, Walk::Number count, {word}* out, '
        f"{source_type.format(word)}{parameters}) {{\n{index}"
        f"    {function}<Bounds, {unroll}>(walk, lookup, count, out, in, index);\n}}\n"
    )
    codes = (*geometry.codes, "P", code or geometry.word, *"P" * len(selection.indices))
    launch = launcher(device, name, source, codes)
    arguments = geometry.arguments

    def run(stream: Any, target: int, values: Any, *indices: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, *arguments, target, values, *indices)

    return geometry.word, run
