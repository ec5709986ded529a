"""Reading the elements that index tensors select: ``t[i, j]``, ``index_select``, ``gather``, ``take``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def plan(device: Device, operation: str, selection: Selection, output: Sequence[int]) -> Callable[..., None]:
    """What copies the selected elements to an output.

    Parameters
    ----------
    operation
        What kernels and failed assertions are called: a C++ name, such as ``"index_select"``.
    output
        Strides of the output, whose shape and type are those of the selection.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, source_address, *index_addresses)``. An index that is out of
        bounds fails an assertion of the kernel.
    """
    if 0 in selection.shape:
        return nothing
    word, run = _plan(device, operation, selection, output, widen=True)
    if word == selection.element_dtype.itemsize:
        return run
    low = word - 1

    def run_aligned(stream: Any, out: int, source: int, *indices: int) -> None:
        if (out | source) & low:
            _plan(device, operation, selection, output, widen=False)[1](stream, out, source, *indices)
        else:
            run(stream, out, source, *indices)

    return run_aligned


def _plan(
    device: Device, operation: str, selection: Selection, output: Sequence[int], *, widen: bool
) -> tuple[int, Callable[..., None]]:
    geometry = walk(selection, output, widen=widen)
    unroll, grid = unroll_and_grid(geometry.count)
    word = WORDS[geometry.word]
    parameters, index = index_parameters(selection)
    name = f"{operation}_{geometry.word}_bytes"
    source = (
        f'#include "gather.cuh"\n\n{bounds(operation, selection)}{geometry.declarations}\n'
        f'extern "C" __global__ void {name}(Walk walk, Lookup lookup, Walk::Number count, {word}* out, '
        f"const {word}* in{parameters}) {{\n{index}"
        f"    gather_words<Bounds, {unroll}>(walk, lookup, count, out, in, index);\n}}\n"
    )
    launch = launcher(device, name, source, (*geometry.codes, *"PP", *"P" * len(selection.indices)))
    arguments = geometry.arguments

    def run(stream: Any, out: int, source: int, *indices: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, *arguments, out, source, *indices)

    return geometry.word, run
