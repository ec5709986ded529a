"""Transposed copies of matrices of 4-byte elements on the CPU, as a native loop over blocks of 4 x 4 elements in registers.

NumPy reads or writes an element of a cache line at a time, and comes back to the line when it is gone.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from .code import assembled
from .planning import worth

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

_BLOCK = 4


def copy_transposed(source: Array, out: Array) -> None:
    """``out[...] = source.swapaxes(2, 3)`` of arrays of float32 with four dimensions."""
    # Rows that are far apart are read, or written, in long runs.
    loop = _loop(source.strides[2] > out.strides[2]) if worth(source.size) else None
    if loop is None or source.strides[3] != source.itemsize or out.strides[3] != out.itemsize:
        out[...] = source.swapaxes(2, 3)
        return
    items, planes, rows, columns = source.shape
    row_blocks, column_blocks = rows // _BLOCK, columns // _BLOCK
    addresses = source.ctypes.data, out.ctypes.data
    loop(items, planes, row_blocks, column_blocks, *addresses, *source.strides[:3], *out.strides[:3])
    if rows % _BLOCK:
        rest = row_blocks * _BLOCK
        out[..., rest:] = source[:, :, rest:].swapaxes(2, 3)
    if columns % _BLOCK:
        rest = column_blocks * _BLOCK
        out[:, :, rest:] = source[..., rest:].swapaxes(2, 3)


@functools.cache
def _loop(along_rows: bool) -> Callable[..., None] | None:
    types = [*[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 6]
    return assembled(("transposition", along_rows), lambda: _text(along_rows), types)


#: Counters of the dimensions of a loop.
_DIMENSIONS = ("item", "plane", "row", "column")


def _text(along_rows: bool) -> str:
    """Text of ``loop(items, planes, rows, columns, source, target, steps of the source, steps of the target)``.

    Rows and columns are those of blocks; steps are bytes from an item, a plane and a row to the next. Blocks follow each other along
    the rows of the source, or along its columns.
    """
    order = [*_DIMENSIONS[:2], *(("row", "column") if along_rows else ("column", "row"))]
    parameters = [f"i64 %{name}s" for name in _DIMENSIONS] + ["ptr %source", "ptr %target"]
    parameters += [f"i64 %{of}.{name}" for of in ("source", "target") for name in _DIMENSIONS[:3]]
    lines = [f"define void @loop({', '.join(parameters)}) nounwind {{", "entry:"]
    lines += [f"%some.{name} = icmp sgt i64 %{name}s, 0" for name in _DIMENSIONS]
    lines += ["%some = and i1 %some.item, %some.plane", "%others = and i1 %some.row, %some.column"]
    lines += ["%any = and i1 %some, %others", "br i1 %any, label %over.item, label %done"]
    before = "entry"
    for name in order:
        lines += [
            f"over.{name}:",
            f"%{name} = phi i64 [ 0, %{before} ], [ %{name}.following, %after.{name} ]",
        ]
        before = f"over.{name}"
        if name != order[-1]:
            lines.append(f"br label %over.{order[order.index(name) + 1]}")
    lines += _block()
    for name in reversed(order):
        outer = order[order.index(name) - 1] if name != order[0] else None
        lines += [
            f"br label %after.{name}",
            f"after.{name}:",
            f"%{name}.following = add nuw nsw i64 %{name}, 1",
            f"%{name}.more = icmp slt i64 %{name}.following, %{name}s",
            f"br i1 %{name}.more, label %over.{name}, label %end.{name}",
            f"end.{name}:",
        ]
        if outer is None:
            lines.append("br label %done")
    return "\n".join([*lines, "done:", "ret void", "}"])


def _block() -> list[str]:
    """Read a block, turn it, and write it."""
    lines = ["%first.row = mul i64 %row, 4", "%first.column = mul i64 %column, 4"]
    for of, row, column in (("source", "row", "column"), ("target", "column", "row")):
        lines += [
            f"%{of}.at.item = mul i64 %item, %{of}.item",
            f"%{of}.at.plane = mul i64 %plane, %{of}.plane",
            f"%{of}.at.row = mul i64 %first.{row}, %{of}.row",
            f"%{of}.at.column = mul i64 %first.{column}, 4",
            f"%{of}.sum = add i64 %{of}.at.item, %{of}.at.plane",
            f"%{of}.whole = add i64 %{of}.sum, %{of}.at.row",
            f"%{of}.byte = add i64 %{of}.whole, %{of}.at.column",
            f"%{of}.p0 = getelementptr inbounds i8, ptr %{of}, i64 %{of}.byte",
        ]
        lines += [
            f"%{of}.p{k} = getelementptr inbounds i8, ptr %{of}.p{k - 1}, i64 %{of}.row" for k in range(1, 4)
        ]
    lines += [f"%r{k} = load <4 x i32>, ptr %source.p{k}, align 4" for k in range(4)]

    def shuffle(name: str, first: str, second: str, elements: str) -> str:
        picked = ", ".join(f"i32 {each}" for each in elements)
        return f"%{name} = shufflevector <4 x i32> %{first}, <4 x i32> %{second}, <4 x i32> <{picked}>"

    lines += [shuffle("low0", "r0", "r1", "0415"), shuffle("high0", "r0", "r1", "2637")]
    lines += [shuffle("low1", "r2", "r3", "0415"), shuffle("high1", "r2", "r3", "2637")]
    for number, half in enumerate(("low", "high")):
        lines.append(shuffle(f"o{2 * number}", f"{half}0", f"{half}1", "0145"))
        lines.append(shuffle(f"o{2 * number + 1}", f"{half}0", f"{half}1", "2367"))
    return [*lines, *(f"store <4 x i32> %o{k}, ptr %target.p{k}, align 4" for k in range(4))]
