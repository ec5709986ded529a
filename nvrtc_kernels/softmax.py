"""Softmax and log-softmax, and their derivatives, in one kernel each: see ``cuda/softmax.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtypes import float64
from .plans import includes, launcher
from .rows import team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_LONG = 1024
_COLUMNS = 128


def plan(
    device: Device, sizes: tuple[int, int, int], output: dtype, given: dtype, *, log: bool
) -> Callable[..., None]:
    """What takes the softmax along the middle dimension of contiguous ``(outer, n, inner)`` arrays.

    Parameters
    ----------
    sizes
        ``outer``, ``n``, ``inner``, none of them 0.
    output, given
        Floating point types.
    log
        Whether its logarithm is wanted.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, given_address)``.
    """
    return _planned(device, sizes, "softmax", (given,), output, log=log)


def plan_backward(
    device: Device, sizes: tuple[int, int, int], output: dtype, grad: dtype, result: dtype, *, log: bool
) -> Callable[..., None]:
    """What makes the gradient of the input from that of the result, and the result.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, grad_address, result_address)``.
    """
    return _planned(device, sizes, "softmax", (grad, result), output, log=log)


def _planned(
    device: Device,
    sizes: tuple[int, int, int],
    name: str,
    given: Sequence[dtype],
    output: dtype,
    *,
    log: bool,
) -> Callable[..., None]:
    outer, n, inner = sizes
    kinds = (*given, output)
    wide = "double" if float64 in kinds else "float"
    backward = "_backward" if len(given) > 1 else ""
    head = f"{'true' if log else 'false'}, {wide}"
    pointers = ["grad", "result"] if backward else ["in"]
    parameters = [f"const {kind.cuda}* {pointer}" for kind, pointer in zip(given, pointers, strict=True)]
    parameters.append(f"{output.cuda}* out")
    addresses = "P" * len(parameters)

    def kernel(variant: str, template: str, numbers: Sequence[str], threads: int) -> Callable[..., None]:
        title = f"{'log_' if log else ''}{name}{backward}_{variant}"
        declared = ", ".join([*(f"{kind} {x}" for x, kind in zip("lni", numbers, strict=False)), *parameters])
        passed = ", ".join([*"lni"[: len(numbers)], *pointers, "out"])
        source = (
            f"{includes('softmax.cuh', *kinds)}"
            f'extern "C" __global__ void __launch_bounds__({threads}) {title}({declared}) {{\n'
            f"    {name}_{variant}{backward}<{head}{template}>({passed});\n}}\n"
        )
        codes = ["i" if kind == "int" else "q" for kind in numbers]
        return launcher(device, "softmax.cu", source, title, (*codes, *addresses))

    if inner > 1:
        launch = kernel("columns", "", ("long long",) * 3, _COLUMNS)
        lines = outer * inner
        grid = -(-lines // _COLUMNS)

        def run_columns(stream: Any, out: int, *others: int) -> None:
            launch(grid, 1, 1, _COLUMNS, 1, 1, 0, stream, lines, n, inner, *others, out)

        return run_columns
    largest = max(kind.itemsize for kind in kinds)
    found = team(n, largest)
    if found is None:
        launch_long = kernel("long", f", {_LONG}", ("long long",) * 2, _LONG)

        def run_long(stream: Any, out: int, *others: int) -> None:
            launch_long(outer, 1, 1, _LONG, 1, 1, 0, stream, outer, n, *others, out)

        return run_long
    shape = found
    low = shape.width * largest - 1
    packed = kernel("rows", f", {shape.template}", ("long long", "int"), shape.threads)
    grid = shape.blocks(outer)

    def run_rows(stream: Any, out: int, *others: int) -> None:
        low_bits = out
        for address in others:
            low_bits |= address
        if low_bits & low:
            narrow = team(n, largest, packed=False)
            assert narrow is not None
            launch = kernel("rows", f", {narrow.template}", ("long long", "int"), narrow.threads)
            launch(narrow.blocks(outer), 1, 1, narrow.threads, 1, 1, 0, stream, outer, n, *others, out)
        else:
            packed(grid, 1, 1, shape.threads, 1, 1, 0, stream, outer, n, *others, out)

    return run_rows
