"""Every arithmetic instruction that has a native form gives NumPy's bits."""

from __future__ import annotations

import ctypes
import zlib

import numpy as np
import pytest

from drv.host import machine_code
from drv.simulator.arithmetic.operation import DTYPES, VectorOperation
from drv.simulator.arithmetic.resolution import FAMILIES, resolve, table
from drv.simulator.execution.native.forms import Emitter, NotNative, Value, llvm_type, native_form
from drv.simulator.execution.native.writer import METADATA, stored_type
from tests.drv.simulator.arithmetic.lanes import demanding_floats

pytestmark = pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")

LANES = 160
#: Parts of the instructions that one run tests; all of them with --nightly.
PARTS = 5
#: Whose native forms need a constant operand, and which ones are tried.
CONSTANTS = {"prmt.b32": (2, (0x3210, 0x7531, 0x8F0A)), "lop3.b32": (3, (0x96, 0xE8, 0x01))}


def operations() -> list[tuple[VectorOperation, int | None]]:
    """All instructions of the tables, by their forms; with a constant operand where that is needed."""
    result: list[tuple[VectorOperation, int | None]] = []
    for base in FAMILIES:
        for opcode, rows in table(base).items():
            for row in rows:
                if "cc" in (*row.operands, *row.results):
                    continue
                each = resolve(opcode, len(row.operands), len(row.results))
                constants = CONSTANTS.get(opcode, (0, (None,)))[1]
                result += [(each, constant) for constant in constants]
    return result


def written(number: int, operation: VectorOperation, constant: int | None) -> tuple[str, dict[str, None]]:
    """A function ``f(number)(arrays, lanes)`` that does an instruction in a loop."""
    e = Emitter()
    values = []
    for index, ptx_type in enumerate(operation.operands):
        dtype = DTYPES[ptx_type]
        if constant is not None and index == CONSTANTS[operation.opcode][0]:
            values.append(Value(str(constant), dtype))
            continue
        kind = stored_type(dtype)
        pointer = e.emit(f"getelementptr {kind}, ptr %array{index}, i64 %i")
        text = e.emit(f"load {kind}, ptr {pointer}, !llvm.access.group !0")
        values.append(Value(e.emit(f"trunc i8 {text} to i1") if dtype.kind == "b" else text, dtype))
    if operation.expression is not None:
        results = [e.expression(operation.expression, values)]
    else:
        results = native_form(e, operation.opcode, values)
    count = len(operation.operands)
    for index, (result, ptx_type) in enumerate(zip(results, operation.results, strict=False)):
        result = e.bits(result, DTYPES[ptx_type])
        kind = stored_type(DTYPES[ptx_type])
        text = e.emit(f"zext i1 {result.text} to i8") if ptx_type == "pred" else result.text
        pointer = e.emit(f"getelementptr {kind}, ptr %array{count + index}, i64 %i")
        e.lines.append(f"store {kind} {text}, ptr {pointer}, !llvm.access.group !0")
    head = [
        line
        for index in range(count + len(operation.results))
        for line in (
            f"%at{index} = getelementptr ptr, ptr %arrays, i64 {index}",
            f"%array{index} = load ptr, ptr %at{index}",
        )
    ]
    body = "\n  ".join(
        [
            *head,
            "br label %loop",
            "loop:",
            "%i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *e.lines,
            "%next = add i64 %i, 1",
            "%more = icmp ult i64 %next, %lanes",
            "br i1 %more, label %loop, label %done, !llvm.loop !1",
            "done:",
            "ret i64 0",
        ]
    )
    return f"define i64 @f{number}(ptr %arrays, i64 %lanes) {{\nentry:\n  {body}\n}}\n", e.declarations


def operand(ptx_type: str, random: np.random.Generator) -> np.ndarray:
    """Values of every kind, special ones among them."""
    dtype = DTYPES[ptx_type]
    if dtype.kind == "b":
        return random.integers(0, 2, LANES).astype(np.bool_)
    if ptx_type in ("f32", "f64", "f16"):
        if ptx_type == "f16":
            return random.integers(0, 1 << 16, LANES).astype(np.uint16).view(np.float16)
        (values,) = demanding_floats(ptx_type, LANES, 1, random)
        special = np.array([0, -0.0, 1, -1, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 3e9, -3e9, 2e19], dtype)
        values[: len(special)] = special
        return random.permutation(values)
    bits = 8 * dtype.itemsize
    values = (
        random.integers(0, 1 << bits, LANES, np.uint64, endpoint=False)
        if bits < 64
        else random.integers(0, (1 << 64) - 1, LANES, np.uint64, endpoint=True)
    )
    values >>= random.integers(0, bits, LANES).astype(np.uint64)
    values[:8] = np.array([0, 1, 2, 31, 32, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1], np.uint64)
    return random.permutation(values).astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


def bits(values: np.ndarray, ptx_type: str) -> np.ndarray:
    """Bit patterns; one NaN is as good as another."""
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        return np.ascontiguousarray(values).view(f"u{values.itemsize}")
    parts = (
        np.ascontiguousarray(values).view(np.uint16) if ptx_type in ("bf16", "f16x2", "bf16x2") else values
    )
    if ptx_type == "f16x2":
        return np.where((parts & 0x7FFF) > 0x7C00, 0x7FFF, parts)
    if ptx_type in ("bf16", "bf16x2"):
        return np.where((parts & 0x7FFF) > 0x7F80, 0x7FFF, parts)
    return values


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
def test_native_forms(part: int) -> None:
    texts: list[str] = []
    declarations: dict[str, None] = {}
    native = []
    for operation, constant in operations():
        # Which part an instruction belongs to does not depend on what others there are.
        if zlib.crc32(f"{operation.opcode} {len(operation.operands)} {constant}".encode()) % PARTS != part:
            continue
        try:
            text, called = written(len(native), operation, constant)
        except NotNative:
            continue
        texts.append(text)
        declarations |= called
        native.append((operation, constant))
    assert len(native) > 100
    names = [f"f{number}" for number in range(len(native))]
    image = machine_code.compiled("\n".join([*declarations, *texts, METADATA]))
    code = machine_code.LoadedCode(image, f"test of arithmetic {part}", names)
    random = np.random.default_rng(part)
    for number, (operation, constant) in enumerate(native):
        sources = [operand(each, random) for each in operation.operands]
        if constant is not None:
            sources[CONSTANTS[operation.opcode][0]] = np.array([constant], np.uint32)
        results = [np.zeros(LANES, DTYPES[each]) for each in operation.results]
        arrays = np.array([each.ctypes.data for each in (*sources, *results)], np.int64)
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(
            code.addresses[f"f{number}"]
        )
        function(arrays.ctypes.data, LANES)
        with np.errstate(all="ignore"):
            expected = operation.function(*sources)
        for result, reference, ptx_type in zip(
            results, expected if isinstance(expected, tuple) else [expected], operation.results, strict=True
        ):
            same = bits(result, ptx_type) == bits(np.broadcast_to(reference, (LANES,)), ptx_type)
            if not same.all():
                lane = int(np.flatnonzero(~same)[0]) * LANES // len(same)
                shown = [each[lane] if len(each) > 1 else each[0] for each in sources]
                raise AssertionError(
                    f"{operation.opcode}{shown}: {result[lane]!r}, NumPy {reference[lane]!r}"
                )


def test_the_usual_instructions_are_native() -> None:
    usual = """add.f32 mul.rn.f32 fma.rn.f32 fma.rn.f64 div.rn.f32 rcp.rn.f32 sqrt.rn.f32 max.f32 min.NaN.f32 ex2.approx.ftz.f32
        neg.f32 abs.f32 add.s32 mul.wide.u32 mul.hi.u32 mad.lo.s32 mul.lo.s64 div.u32 rem.s64 shl.b32 shr.u64 and.b64
        setp.lt.s32 setp.neu.f32 setp.le.ftz.f32 selp.f32 cvt.s64.s32 cvt.rn.f32.u32 cvt.rzi.s32.f32 cvt.rn.f16.f32 cvt.f32.f16
        cvt.rn.bf16.f32 cvt.f32.bf16 fma.rm.f32 cvt.sat.f32.f32 clz.b32 popc.b32 bfind.u32 bfe.u32 bfi.b32 add.f16x2"""
    for opcode in usual.split():
        written(0, resolve(opcode), None)
    with pytest.raises(NotNative):
        written(0, resolve("sin.approx.f32"), None)


def test_types_have_llvm_types() -> None:
    assert [llvm_type(DTYPES[each]) for each in ("pred", "u8", "s16", "f16", "f32", "f64", "b64")] == [
        "i1", "i8", "i16", "half", "float", "double", "i64"
    ]  # fmt: skip
