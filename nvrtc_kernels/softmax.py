"""Softmax and log-softmax, and their derivatives, in one kernel each: see ``cuda/softmax.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dtypes import float64
from .fused_rows import Operand, RowKernel
from .plans import bound, includes
from .rows import Team, team

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_LONG = 1024
_COLUMNS = 128
#: Bytes of the widest load.
_LOAD_BYTES = 16
#: Elements of a line from which on they are not counted by an int.
_FAR = 1 << 31


def plan(
    device: Device, sizes: tuple[int, int, int], output: dtype, input_dtype: dtype, *, log: bool
) -> Callable[..., None]:
    """What takes the softmax along the middle dimension of contiguous ``(outer, n, inner)`` arrays.

    Parameters
    ----------
    sizes
        ``outer``, ``n``, ``inner``, none of them 0.
    output, input_dtype
        Floating point types.
    log
        Whether to take its logarithm.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, input_address)``.
    """
    return _planned(device, sizes, "softmax", (input_dtype,), output, log=log)


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


def row_kernel(
    sizes: tuple[int, int, int], output: dtype, input_dtype: dtype, *, log: bool
) -> RowKernel | None:
    """What takes the softmax, for pointwise operations before and after it: as :func:`plan`.

    ``None`` where the dimension is not the last one, and very long.
    """
    return _row_kernel(sizes, "", output, (Operand("in", input_dtype),), log)


def backward_row_kernel(
    sizes: tuple[int, int, int], output: dtype, grad: dtype, result: dtype, *, log: bool
) -> RowKernel | None:
    """The gradient, for pointwise operations before and after it: as :func:`plan_backward`.

    ``None`` where the dimension is not the last one, and very long.
    """
    reads = Operand("grad", grad), Operand("result", result)
    return _row_kernel(sizes, "_backward", output, reads, log)


def _row_kernel(
    sizes: tuple[int, int, int], direction: str, output: dtype, reads: tuple[Operand, ...], log: bool
) -> RowKernel | None:
    outer, n, inner = sizes
    head = _template(log, output, *(each.dtype for each in reads))
    operands = (*(each.name for each in reads), "out")
    writes = (Operand("out", output),)
    if inner == 1:
        call = f"softmax_rows{direction}<{head}, {{team}}>"
        return RowKernel("softmax.cuh", call, operands, reads, writes, reads[0].name, "out", outer, n)
    if n >= _FAR:
        return None
    call = f"softmax_columns{direction}<{head}>"
    passed = (f"{inner}LL", *operands)
    shape = Team(_COLUMNS, 1, 1, 1)
    return RowKernel(
        "softmax.cuh", call, passed, reads, writes, reads[0].name, "out", outer * inner, n, shape=shape
    )


def _template(log: bool, *dtypes: dtype) -> str:
    """Whether it is a logarithm, and the type that is computed in."""
    return f"{'true' if log else 'false'}, {'double' if float64 in dtypes else 'float'}"


def _planned(
    device: Device,
    sizes: tuple[int, int, int],
    name: str,
    inputs: Sequence[dtype],
    output: dtype,
    *,
    log: bool,
) -> Callable[..., None]:
    outer, n, inner = sizes
    dtypes = (*inputs, output)
    backward = "_backward" if len(inputs) > 1 else ""
    head = _template(log, *dtypes)
    pointers = ["grad", "result"] if backward else ["in"]
    parameters = [f"const {dtype.cuda}* {pointer}" for dtype, pointer in zip(inputs, pointers, strict=True)]
    parameters.append(f"{output.cuda}* out")
    addresses = "P" * len(parameters)

    def kernel(
        variant: str, template: str, numbers: Sequence[str], grid: int, threads: int, *sizes: int
    ) -> Callable[..., None]:
        kernel_name = f"{'log_' if log else ''}{name}{backward}_{variant}"
        declared = ", ".join(
            [*(f"{ctype} {x}" for x, ctype in zip("lni", numbers, strict=False)), *parameters]
        )
        passed = ", ".join([*"lni"[: len(numbers)], *pointers, "out"])
        source = (
            f"{includes('softmax.cuh')}"
            f'extern "C" __global__ void __launch_bounds__({threads}) {kernel_name}({declared}) {{\n'
            f"    {name}_{variant}{backward}<{head}{template}>({passed});\n}}\n"
        )
        codes = ["i" if ctype == "int" else "q" for ctype in numbers]
        return bound(
            device, "softmax.cu", source, kernel_name, (*codes, *addresses), grid, threads, *sizes
        )  # fmt: skip

    if inner > 1:
        lines = outer * inner
        columns = kernel("columns", "", ("long long",) * 3, -(-lines // _COLUMNS), _COLUMNS, lines, n, inner)
        return lambda stream, out, *others: columns(stream, *others, out)
    largest = max(dtype.itemsize for dtype in dtypes)
    chosen_team = team(n, largest)
    if chosen_team is None:
        width = max(_LOAD_BYTES // largest, 1)
        long = kernel("long", f", {_LONG}, {width}", ("long long",) * 2, outer, _LONG, outer, n)
        return lambda stream, out, *others: long(stream, *others, out)

    def rows(shape: Team) -> Callable[..., None]:
        numbers = ("long long", "int")
        return kernel("rows", f", {shape.template}", numbers, shape.blocks(outer), shape.threads, outer, n)

    low = chosen_team.width * largest - 1
    packed = rows(chosen_team)

    def run_rows(stream: Any, out: int, *others: int) -> None:
        low_bits = out
        for address in others:
            low_bits |= address
        if low_bits & low:
            narrow = team(n, largest, packed=False)
            assert narrow is not None
            rows(narrow)(stream, *others, out)
        else:
            packed(stream, *others, out)

    return run_rows
