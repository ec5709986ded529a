"""Loops over elements as text of LLVM's assembler: rows, and in each row columns, which become vectors.

The function has the C signature ``loop(first, last, geometry, results..., inputs..., scalars...)``. Without outer dimensions
``first`` and ``last`` are columns, else rows, which are counted through all outer dimensions; a part of them is work for a
thread. ``geometry`` are numbers of 64 bits: columns of a row; sizes of the outer dimensions; for each operand its steps along
these in bytes, and the one along a row. No two operands have memory in common, or they are the same element by element.
Where elements draw random words, columns are gone over in chunks, whose words are made beforehand.

Most of an element's steps wait for the one before. In long rows the instructions of four vectors alternate, which keeps the
processor's units at work with fewer instructions that wait; the last columns of a row, up to 63, are done one by one or few at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.execution.native.forms import NotNative
from drv.simulator.ptx import parse

from .element import ElementWriter
from .signature import NEIGHBOURS, SAME, SCALARS, STEPS, WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype

    from .signature import Signature

#: LLVM's types by the size of an integer.
_INTEGERS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
_METADATA = """
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = distinct !{}
!1 = distinct !{!1, !2, !3}
!2 = !{!"llvm.loop.parallel_accesses", !0}
!3 = !{!"llvm.loop.vectorize.enable", i1 true}
!4 = distinct !{!4, !2, !3}
!5 = distinct !{!5, !2, !3, !6}
!6 = !{!"llvm.loop.interleave.count", i32 4}
"""
#: Columns of a chunk: its words stay in the first cache.
_CHUNK = 1024


def _ir_type(of: dtype) -> str:
    if of.is_floating_point and of.itemsize in (4, 8):
        return "float" if of.itemsize == 4 else "double"
    if of.itemsize not in _INTEGERS or of.is_complex:
        raise NotNative(of.name)
    return _INTEGERS[of.itemsize]


def text(
    ptx: str, name: str, signature: Signature, rank: int, accesses: Sequence[str], interleaved: bool
) -> str | None:
    """Text of the module with the function ``loop``; ``None`` if the device function does what has no form here.

    Parameters
    ----------
    ptx
        A module with the device function ``name`` of an element.
    signature
        Its types.
    rank
        Outer dimensions.
    accesses
        How each operand is read or written along a row, results first.
    interleaved
        Whether the instructions of four vectors alternate.
    """
    try:
        return _text(ptx, name, signature, rank, accesses, interleaved)
    except NotNative:
        return None


def _text(
    ptx: str, name: str, signature: Signature, rank: int, accesses: Sequence[str], interleaved: bool
) -> str:
    outputs = [_ir_type(each) for _, each in signature.results]
    inputs = [_ir_type(each) for each in signature.inputs]
    scalars = [SCALARS[code] for code in signature.scalars]
    module = parse(ptx)
    writer = ElementWriter(module.functions[name], module.variables)
    numbers = ["i64"] * signature.counted + ["i32"] * signature.draws
    own_scalars = scalars[2:] if signature.draws else scalars
    codes = signature.scalars[len(scalars) - len(own_scalars) :]
    signs = [each.is_signed and not each.is_floating_point for each in signature.inputs]
    function = writer.text(
        "element",
        [*numbers, *inputs, *own_scalars],
        [*(False for _ in numbers), *signs, *(code == "i" for code in codes)],
        [(byte, ir_type) for (byte, _), ir_type in zip(signature.results, outputs, strict=True)],
    )
    operands = [*outputs, *inputs][:: signature.pack]
    parameters = ["i64 %first", "i64 %last", "ptr %geometry"]
    parameters += [f"ptr %base{k}" for k in range(len(operands))]
    parameters += [f"{ir_type} %scalar{k}" for k, ir_type in enumerate(scalars)]
    declarations, begin = dict(writer.declarations), "%begin"
    before: list[str] = ["some.columns:"]
    after: list[str] = []
    if signature.draws:
        words = ElementWriter(module.functions[WORDS])
        function += words.text(WORDS, ["i64"] * 3, [False] * 3, [(4 * lane, "i32") for lane in range(4)])
        declarations |= words.declarations
        begin = "%c"
        before, after = _chunk(rank)
    lines = [
        *declarations,
        *writer.constants.values(),
        function,
        f"define void @loop({', '.join(parameters)}) #0 {{",
        "entry:",
        *([f"%words = alloca [{_CHUNK + 8} x i32], align 64"] if signature.draws else []),
        *_geometry(rank, len(operands)),
        "%any = icmp slt i64 %first, %last",
        "br i1 %any, label %row, label %end",
        "row:",
        *_row(rank, len(operands)),
        *_same(operands, accesses),
        "br i1 %some, label %some.columns, label %next",
        *before,
        "br label %column",
        "column:",
        f"%i = phi i64 [ {begin}, %{'elements' if after else 'some.columns'} ], [ %j, %column ]",
        *_element(signature, outputs, inputs, scalars, accesses),
        "%j = add nuw nsw i64 %i, 1",
        f"%more = icmp slt i64 %j, {'%c.end' if after else '%stop'}",
        f"br i1 %more, label %column, label %{'end.chunk' if after else 'next'}, !llvm.loop !{5 if interleaved else 1}",
        *after,
        "next:",
    ]
    if rank:
        lines += [
            "%following = add nuw nsw i64 %r, 1",
            "%others = icmp slt i64 %following, %last",
            "br i1 %others, label %row, label %end",
        ]
    else:
        lines.append("br label %end")
    return "\n".join([*lines, "end:", "ret void", "}", _METADATA])


def _geometry(rank: int, operands: int) -> list[str]:
    """Load the numbers that the geometry consists of."""
    names = ["columns", *(f"size{d}" for d in range(rank))]
    for k in range(operands):
        names += [*(f"step{k}.{d}" for d in range(rank)), f"along{k}"]
    lines = []
    for position, name in enumerate(names):
        lines.append(f"%at.{name} = getelementptr inbounds i64, ptr %geometry, i64 {position}")
        lines.append(f"%{name} = load i64, ptr %at.{name}")
    return lines


def _row(rank: int, operands: int) -> list[str]:
    """Columns ``%begin`` to ``%stop`` of a row, and where each operand's row begins."""
    if not rank:
        return [
            "%begin = add i64 %first, 0",
            "%stop = add i64 %last, 0",
            "%some = icmp slt i64 %begin, %stop",
            *(f"%p{k} = getelementptr inbounds i8, ptr %base{k}, i64 0" for k in range(operands)),
        ]
    lines = [
        "%r = phi i64 [ %first, %entry ], [ %following, %next ]",
        "%begin = add i64 0, 0",
        "%stop = add i64 %columns, 0",
        "%some = icmp slt i64 %begin, %stop",
    ]
    left = "%r"
    for d in range(rank - 1, 0, -1):
        lines += [
            f"%outer{d} = udiv i64 {left}, %size{d}",
            f"%inner{d} = mul i64 %outer{d}, %size{d}",
            f"%index{d} = sub i64 {left}, %inner{d}",
        ]
        left = f"%outer{d}"
    lines.append(f"%index0 = add i64 {left}, 0")
    for k in range(operands):
        pointer = f"%base{k}"
        for d in range(rank):
            name = f"%p{k}" if d == rank - 1 else f"%p{k}.{d}"
            lines.append(f"%byte{k}.{d} = mul i64 %index{d}, %step{k}.{d}")
            lines.append(f"{name} = getelementptr inbounds i8, ptr {pointer}, i64 %byte{k}.{d}")
            pointer = name
    return lines


def _chunk(rank: int) -> tuple[list[str], list[str]]:
    """What is before the columns ``%c`` to ``%c.end``, which makes their words, and what is behind them."""
    first = ["%row.number = mul i64 %r, %columns"] if rank else ["%row.number = add i64 0, 0"]
    before = [
        "some.columns:",
        *first,
        "br label %chunk",
        "chunk:",
        "%c = phi i64 [ %begin, %some.columns ], [ %c.end, %end.chunk ]",
        f"%c.full = add nuw nsw i64 %c, {_CHUNK}",
        "%c.whole = icmp slt i64 %c.full, %stop",
        "%c.end = select i1 %c.whole, i64 %c.full, i64 %stop",
        "%number.first = add i64 %row.number, %c",
        "%number.end = add i64 %row.number, %c.end",
        "%block.first = lshr i64 %number.first, 2",
        "%number.past = add i64 %number.end, 3",
        "%block.end = lshr i64 %number.past, 2",
        # Where the word of column 0 would be.
        "%skipped = and i64 %number.first, 3",
        "%word.zero = sub i64 %skipped, %c",
        "br label %block",
        "block:",
        "%b = phi i64 [ %block.first, %chunk ], [ %b.next, %block ]",
        f"%four = call {{ i32, i32, i32, i32 }} @{WORDS}(i64 %b, i64 %scalar0, i64 %scalar1)",
        "%b.from = sub i64 %b, %block.first",
        "%b.word = shl i64 %b.from, 2",
    ]
    for lane in range(4):
        before += [
            f"%word.at{lane} = add i64 %b.word, {lane}",
            f"%word.p{lane} = getelementptr inbounds i32, ptr %words, i64 %word.at{lane}",
            f"%word.{lane} = extractvalue {{ i32, i32, i32, i32 }} %four, {lane}",
            f"store i32 %word.{lane}, ptr %word.p{lane}, !llvm.access.group !0",
        ]
    before += [
        "%b.next = add nuw nsw i64 %b, 1",
        "%b.more = icmp ult i64 %b.next, %block.end",
        "br i1 %b.more, label %block, label %elements, !llvm.loop !4",
        "elements:",
    ]
    after = [
        "end.chunk:",
        "%c.more = icmp slt i64 %c.end, %stop",
        "br i1 %c.more, label %chunk, label %next",
    ]
    return before, after


def _same(operands: Sequence[str], accesses: Sequence[str]) -> list[str]:
    return [
        f"%x{k} = load {ir_type}, ptr %p{k}"
        for k, (ir_type, access) in enumerate(zip(operands, accesses, strict=True))
        if access == SAME
    ]


def _element(
    signature: Signature,
    outputs: Sequence[str],
    inputs: Sequence[str],
    scalars: Sequence[str],
    accesses: Sequence[str],
) -> list[str]:
    lines = []
    pack = signature.pack
    for v, ir_type in enumerate((*outputs, *inputs)):
        k, lane = divmod(v, pack)
        if pack > 1:
            lines.append(f"%first{v} = mul i64 %i, {pack}")
            lines.append(f"%number{v} = add i64 %first{v}, {lane}")
            lines.append(f"%q{v} = getelementptr {ir_type}, ptr %p{k}, i64 %number{v}")
        elif accesses[k] == NEIGHBOURS:
            lines.append(f"%q{k} = getelementptr inbounds {ir_type}, ptr %p{k}, i64 %i")
        elif accesses[k] == STEPS:
            lines.append(f"%offset{k} = mul i64 %i, %along{k}")
            lines.append(f"%q{k} = getelementptr inbounds i8, ptr %p{k}, i64 %offset{k}")
        if v >= len(outputs) and accesses[k] != SAME:
            lines.append(f"%x{v} = load {ir_type}, ptr %q{v}, !llvm.access.group !0")
    if signature.draws:
        lines.append("%word.number = add i64 %word.zero, %i")
        lines.append("%word.p = getelementptr inbounds i32, ptr %words, i64 %word.number")
        lines.append("%word = load i32, ptr %word.p, !llvm.access.group !0")
    passed = ["i64 %i"] * signature.counted + ["i32 %word"] * signature.draws
    passed += [f"{ir_type} %x{len(outputs) + k}" for k, ir_type in enumerate(inputs)]
    passed += [f"{ir_type} %scalar{k}" for k, ir_type in enumerate(scalars) if k >= 2 * signature.draws]
    structure = "{ " + ", ".join(outputs) + " }"
    lines.append(f"%result = call {structure} @element({', '.join(passed)})")
    for v, ir_type in enumerate(outputs):
        lines.append(f"%y{v} = extractvalue {structure} %result, {v}")
        lines.append(f"store {ir_type} %y{v}, ptr %q{v}, !llvm.access.group !0")
    return lines
