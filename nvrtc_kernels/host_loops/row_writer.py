"""Functions over rows of arrays, written loop by loop: each goes over the columns of a row and may add up what it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.simulator.execution.native.forms.expressions import (
    ADD,
    DIV,
    F32,
    F64,
    MUL,
    SUB,
    Emitter,
    Value,
    constant,
    llvm_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_METADATA = """
attributes #0 = { nounwind "prefer-vector-width"="512" }
!0 = distinct !{}
!1 = distinct !{!1, !2, !3}
!2 = !{!"llvm.loop.parallel_accesses", !0}
!3 = !{!"llvm.loop.vectorize.enable", i1 true}
!4 = distinct !{!4, !2, !3, !5}
!5 = !{!"llvm.loop.interleave.count", i32 4}
!6 = !{!"branch_weights", i32 1000, i32 1}
"""
#: Columns whose sum is in single precision: each of 64 that are added up at a time has 16 terms.
_CHUNK = 1024
_OPERATORS = {"+": ADD, "-": SUB, "*": MUL, "/": DIV}


class RowWriter(Emitter):
    """The text of ``loop(first, last, n, arrays...)``, which does something to rows ``first`` to ``last`` of ``n`` columns.

    Parameters
    ----------
    double : bool
        Whether elements are float64, or float32.
    arrays : sequence of str
        Names of the parameters: addresses of float32 or float64.
    numbers : sequence of str
        Names of parameters that are such numbers.
    """

    def __init__(self, double: bool, arrays: Sequence[str], numbers: Sequence[str] = ()) -> None:
        super().__init__("v")
        self.dtype = F64 if double else F32
        self.ir_type = llvm_type(self.dtype)
        self._block = "row"
        self._loops = 0
        parameters = ["i64 %first", "i64 %last", "i64 %n", *(f"ptr %{name}" for name in arrays)]
        self._head = f"define void @loop({', '.join([*parameters, *(f'{self.ir_type} %{name}' for name in numbers)])}) #0 {{"
        self.lines += [
            "entry:",
            "%any = icmp slt i64 %first, %last",
            "br i1 %any, label %row, label %done",
            "row:",
            "%r = phi i64 [ %first, %entry ], [ %following, %next ]",
            "%start = mul i64 %r, %n",
        ]

    def text(self) -> str:
        """The module, once the row is done."""
        lines = [
            "br label %next",
            "next:",
            "%following = add nuw nsw i64 %r, 1",
            "%others = icmp slt i64 %following, %last",
            "br i1 %others, label %row, label %done",
            "done:",
            "ret void",
            "}",
            _METADATA,
        ]
        return "\n".join([*self.declarations, self._head, *self.lines, *lines])

    # Values

    def number(self, value: float) -> Value:
        """A constant."""
        return Value(constant(value, self.dtype), self.dtype)

    def parameter(self, name: str) -> Value:
        """A number that the function is given."""
        return Value(f"%{name}", self.dtype)

    def columns(self) -> Value:
        """How many columns there are, as a number."""
        return Value(self.emit(f"sitofp i64 %n to {self.ir_type}"), self.dtype)

    def compute(self, left: Value, operator: str, right: Value) -> Value:
        """A sum, difference, product or quotient."""
        return self.binary(_OPERATORS[operator], left, right)

    # Memory

    def row_of(self, array: str) -> str:
        """Address of the row in an array of rows."""
        return self.emit(f"getelementptr inbounds {self.ir_type}, ptr %{array}, i64 %start")

    def load(self, base: str, index: str) -> Value:
        """An element."""
        pointer = self.emit(f"getelementptr inbounds {self.ir_type}, ptr {base}, i64 {index}")
        return Value(self.emit(f"load {self.ir_type}, ptr {pointer}, !llvm.access.group !0"), self.dtype)

    def store(self, value: Value, base: str, index: str) -> None:
        """Write an element."""
        pointer = self.emit(f"getelementptr inbounds {self.ir_type}, ptr {base}, i64 {index}")
        self.lines.append(f"store {self.ir_type} {value.text}, ptr {pointer}, !llvm.access.group !0")

    def over_columns(
        self,
        body: Callable[[str], Sequence[Value]],
        sums: int = 0,
        dtype: Any = None,
        *,
        maxima: bool = False,
        end: str = "%n",
    ) -> list[Value]:
        """A loop over the columns; ``body(index)`` gives what is added up, ``sums`` numbers, in no certain order.

        They are of ``dtype``, by default that of the elements. With ``maxima`` it gives the largest of each in place of the sum, and
        NaN where there is one. ``end`` is the column behind the last one, of at least one.
        """
        sum_dtype = self.dtype if dtype is None else dtype
        sum_type = llvm_type(sum_dtype)
        self._loops += 1
        name, before = f"column{self._loops}", self._block
        totals = [f"%{name}.sum{k}" for k in range(sums)]
        self.lines += [f"br label %{name}", f"{name}:"]
        self.lines.append(f"%{name}.i = phi i64 [ 0, %{before} ], [ %{name}.j, %{name} ]")
        begin = constant(float("-inf") if maxima else 0.0, sum_dtype)
        self.lines += [
            f"{total} = phi {sum_type} [ {begin}, %{before} ], [ {total}.next, %{name} ]" for total in totals
        ]
        values = body(f"%{name}.i")
        for total, value in zip(totals, values, strict=True):
            operation = f"fadd reassoc {sum_type} {total}, {value.text}"
            if maxima:
                maximum = f"{sum_type} @llvm.maximum.f{8 * sum_dtype.itemsize}"
                self.declarations[f"declare {maximum}({sum_type}, {sum_type})"] = None
                operation = f"call {maximum}({sum_type} {total}, {sum_type} {value.text})"
            self.lines.append(f"{total}.next = {operation}")
        self._next_column(name, end, f", !llvm.loop !{4 if sums else 1}")
        return [Value(f"{total}.next", sum_dtype) for total in totals]

    def running_sums(self, source: str, target: str) -> None:
        """Write the running sums of a row, which are added up in double precision one after the other."""
        name, before = "running", self._block
        single = self.ir_type == "float"
        zero = constant(0.0, F64)
        self.lines += [
            f"br label %{name}",
            f"{name}:",
            f"%{name}.i = phi i64 [ 0, %{before} ], [ %{name}.j, %{name} ]",
            f"%{name}.sum = phi double [ {zero}, %{before} ], [ %{name}.next, %{name} ]",
        ]
        element = self.converted(self.load(source, f"%{name}.i"), F64)
        self.lines.append(f"%{name}.next = fadd double %{name}.sum, {element.text}")
        total = Value(f"%{name}.next", F64)
        self.store(self.converted(total, F32) if single else total, target, f"%{name}.i")
        self._next_column(name)

    def running_extremes(self, source: str, values: str, positions: str, *, largest: bool) -> None:
        """Write the running extremes of a row, and positions of the last of equal ones; a NaN wins from where it stands on.

        That a number wins is rare, or usual in rows that are sorted: branches, which the processor foresees, let no element
        wait for the one before.
        """
        name, before, beats = "extreme", self._block, "olt" if largest else "ogt"
        first = self.load(source, "0").text
        self.lines += [
            f"br label %{name}",
            f"{name}:",
            f"%{name}.i = phi i64 [ 0, %{before} ], [ %{name}.j, %{name}.done ]",
            f"%{name}.best = phi {self.ir_type} [ {first}, %{before} ], [ %{name}.next, %{name}.done ]",
            f"%{name}.at = phi i64 [ 0, %{before} ], [ %{name}.at.next, %{name}.done ]",
        ]
        x = self.load(source, f"%{name}.i").text
        self.lines += [
            f"%{name}.loses = fcmp {beats} {self.ir_type} {x}, %{name}.best",
            f"br i1 %{name}.loses, label %{name}.done, label %{name}.else, !prof !6",
            f"{name}.else:",
            f"%{name}.number = fcmp ord {self.ir_type} {x}, {x}",
            f"%{name}.nan = fcmp uno {self.ir_type} %{name}.best, %{name}.best",
            f"%{name}.stays = and i1 %{name}.number, %{name}.nan",
            f"br i1 %{name}.stays, label %{name}.done, label %{name}.wins, !prof !6",
            f"{name}.wins:",
            f"br label %{name}.done",
            f"{name}.done:",
        ]
        former = ", ".join(f"[ %{name}.best, %{name}{block} ]" for block in ("", ".else"))
        former_at = ", ".join(f"[ %{name}.at, %{name}{block} ]" for block in ("", ".else"))
        self.lines += [
            f"%{name}.next = phi {self.ir_type} {former}, [ {x}, %{name}.wins ]",
            f"%{name}.at.next = phi i64 {former_at}, [ %{name}.i, %{name}.wins ]",
        ]
        self.store(Value(f"%{name}.next", self.dtype), values, f"%{name}.i")
        pointer = self.emit(f"getelementptr inbounds i64, ptr {positions}, i64 %{name}.i")
        self.lines.append(f"store i64 %{name}.at.next, ptr {pointer}")
        self._next_column(name)

    def _next_column(self, name: str, end: str = "%n", hints: str = "") -> None:
        """End the loop ``name`` over columns: go on with the next one up to ``end``, or behind the loop."""
        self._block = f"{name}.end"
        self.lines += [
            f"%{name}.j = add nuw nsw i64 %{name}.i, 1",
            f"%{name}.more = icmp slt i64 %{name}.j, {end}",
            f"br i1 %{name}.more, label %{name}, label %{name}.end{hints}",
            f"{name}.end:",
        ]

    def load_half(self, base: str, index: str, *, bfloat: bool) -> Value:
        """An element of an array of bfloat16, or of float16, in single precision."""
        ir_type = "i16" if bfloat else "half"
        pointer = self.emit(f"getelementptr inbounds {ir_type}, ptr {base}, i64 {index}")
        element = self.emit(f"load {ir_type}, ptr {pointer}, !llvm.access.group !0")
        if not bfloat:
            return Value(self.emit(f"fpext half {element} to float"), F32)
        bits = self.emit(f"shl i32 {self.emit(f'zext i16 {element} to i32')}, 16")
        return Value(self.emit(f"bitcast i32 {bits} to float"), F32)

    def sum_of_halves(self, load: Callable[[str], Value], target: str, *, squares: bool) -> None:
        """The same for ``load`` of float16, whose values are a range that single precision adds up few of without harm.

        So conversions to double precision, which take most of the time, are of a sum for each chunk.
        """
        before = self._block
        zero, single_zero = constant(0.0, F64), constant(0.0, F32)
        self.lines += [
            "br label %chunk",
            "chunk:",
            f"%chunk.i = phi i64 [ 0, %{before} ], [ %chunk.end, %chunk.done ]",
            f"%chunk.total = phi double [ {zero}, %{before} ], [ %chunk.next, %chunk.done ]",
            f"%chunk.full = add nuw nsw i64 %chunk.i, {_CHUNK}",
            "%chunk.whole = icmp slt i64 %chunk.full, %n",
            "%chunk.end = select i1 %chunk.whole, i64 %chunk.full, i64 %n",
            "br label %half",
            "half:",
            "%half.i = phi i64 [ %chunk.i, %chunk ], [ %half.j, %half ]",
            f"%half.sum = phi float [ {single_zero}, %chunk ], [ %half.next, %half ]",
        ]
        value = load("%half.i")
        if squares:
            value = self.binary(MUL, value, value)
        self.lines += [
            f"%half.next = fadd reassoc float %half.sum, {value.text}",
            "%half.j = add nuw nsw i64 %half.i, 1",
            "%half.more = icmp slt i64 %half.j, %chunk.end",
            "br i1 %half.more, label %half, label %chunk.done, !llvm.loop !4",
            "chunk.done:",
            "%chunk.sum = fpext float %half.next to double",
            "%chunk.next = fadd double %chunk.total, %chunk.sum",
            "br i1 %chunk.whole, label %chunk, label %chunk.last",
            "chunk.last:",
            f"%chunk.at = getelementptr inbounds double, ptr {target}, i64 %r",
            "store double %chunk.next, ptr %chunk.at",
        ]
        self._block = "chunk.last"

    def double_sum(self, load: Callable[[str], Value], target: str, *, squares: bool) -> None:
        """Write the sum of what ``load`` gives for each column, or of its square, to the row's place in ``target``; in double precision."""

        def term(index: str) -> Value:
            value = self.converted(load(index), F64)
            return self.binary(MUL, value, value) if squares else value

        (total,) = self.over_columns(lambda i: [term(i)], 1, dtype=F64)
        pointer = self.emit(f"getelementptr inbounds double, ptr {target}, i64 %r")
        self.lines.append(f"store double {total.text}, ptr {pointer}")
