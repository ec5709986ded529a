"""What tensor cores compute: the forms of ``mma`` and ``wmma.mma``, and the product of each.

Products of elements are exact. Integers add up exactly and wrap around, or saturate, at the end. Of the
floating-point formats below double precision the products and the addend are summed in float64 and rounded once,
to nearest, ties to even, to the type of the result: within half an ulp of the exact result, but for
``k * 2**-52`` times the sum of the magnitudes of what is added. A GPU sums at least as exactly as its accumulators
are, in an order and with a rounding that PTX leaves open (current ones align the terms to the largest and truncate), so
its last bits may differ. Of tf32 operands the 13 lowest bits are ignored. Double precision is a chain of fused
multiply-adds from the addend on, in the order of ``k``, each rounded as the instruction says.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic.floats.brain_floats import widen
from drv.simulator.arithmetic.operation import UnknownInstruction
from drv.simulator.arithmetic.packing import MINIFLOATS
from drv.simulator.arithmetic.resolution import resolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Bits of the types that matrices have.
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
    "e4m3": 8, "e5m2": 8, "s32": 32,
}  # fmt: skip
_FLOAT8 = ("e4m3", "e5m2")
_BYTES = ("s8", "u8")
_NIBBLES = ("s4", "u4")
#: Shapes of ``mma.sync`` by the types of its factors, which may differ within a group.
_MMA_SHAPES: dict[tuple[str, ...], str] = {
    ("f16",): "m8n8k4 m16n8k8 m16n8k16",
    ("bf16",): "m16n8k8 m16n8k16",
    ("tf32",): "m16n8k4 m16n8k8",
    ("f64",): "m8n8k4 m16n8k4 m16n8k8 m16n8k16",
    _BYTES: "m8n8k16 m16n8k16 m16n8k32",
    _NIBBLES: "m8n8k32 m16n8k32 m16n8k64",
    ("b1",): "m8n8k128 m16n8k128 m16n8k256",
    _FLOAT8: "m16n8k16 m16n8k32",
}
_WMMA_16 = "m16n16k16 m32n8k16 m8n32k16"
#: The same of ``wmma``, whose two factors have one type.
_WMMA_SHAPES: dict[tuple[str, ...], str] = {
    ("f16",): _WMMA_16,
    ("bf16",): _WMMA_16,
    ("tf32",): "m16n16k8",
    ("f64",): "m8n8k4",
    ("s8",): _WMMA_16,
    ("u8",): _WMMA_16,
    ("s4",): "m8n8k32",
    ("u4",): "m8n8k32",
    ("b1",): "m8n8k128",
}
#: Types of addends and results by the type of the factors.
_RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"),
}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_MODIFIERS = {"sync", "aligned", "row", "col", "satfinite", "popc", "and", "xor", *_ROUNDINGS}


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """A matrix instruction: ``d (m, n) = a (m, k) @ b (k, n) + c (m, n)``, with the types of the four.

    ``combine`` is ``"and"`` or ``"xor"`` for single bits, whose matches are counted.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    d: str
    a_layout: str = "row"
    b_layout: str = "col"
    saturates: bool = False
    rounding: str = "rn"
    combine: str = ""


@functools.cache
def matrix_form(opcode: str) -> MatrixForm:
    """The form of a ``mma`` or ``wmma.mma`` instruction. Raises :class:`UnknownInstruction` for one that is not known."""
    base, *qualifiers = opcode.split(".")
    shapes = _MMA_SHAPES
    if base == "wmma":
        shapes = _WMMA_SHAPES
        qualifiers.remove("mma")
    known = known_shapes(base, shapes)
    matched = next(filter(None, map(_SHAPE.fullmatch, qualifiers)), None)
    if matched is None:
        raise UnknownInstruction(opcode, known)
    types = [qualifier for qualifier in qualifiers if qualifier in BITS]
    rest = set(qualifiers) - set(types) - _MODIFIERS - {matched.group()}
    if base == "wmma" and len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    layouts = [qualifier for qualifier in qualifiers if qualifier in ("row", "col")]
    if rest or len(types) != 4 or len(layouts) != 2:
        raise UnknownInstruction(opcode, known)
    d, a, b, c = types
    group = next((each for each in shapes if a in each and b in each), ())
    results = _RESULTS.get(a, ("s32",))
    volta = base == "mma" and a == "f16" and matched.group() == "m8n8k4"
    if (
        matched.group() not in shapes.get(group, "").split()
        or c not in results
        or d not in results
        or (c != d and base == "mma" and not volta)
        or (layouts != ["row", "col"] and not volta and (base == "mma" or BITS[a] < 8))
    ):
        raise UnknownInstruction(opcode, known)
    combine = next((qualifier for qualifier in qualifiers if qualifier in ("and", "xor")), "")
    if bool(combine) != (a == "b1"):
        raise UnknownInstruction(opcode, known)
    m, n, k = map(int, matched.groups())
    rounding = next((qualifier for qualifier in qualifiers if qualifier in _ROUNDINGS), "rn")
    return MatrixForm(
        m, n, k, a, b, c, d, layouts[0], layouts[1], "satfinite" in qualifiers, rounding, combine
    )


def known_shapes(base: str, shapes: dict[tuple[str, ...], str] | None = None) -> str:
    """What a report says of the forms of ``mma`` or ``wmma`` that are known."""
    if shapes is None:
        shapes = _WMMA_SHAPES if base == "wmma" else _MMA_SHAPES
    forms = "; ".join(f"{'/'.join(types)}: {', '.join(each.split())}" for types, each in shapes.items())
    return f"shapes of {base} that are known, by the type of the factors: {forms}"


def is_wmma_shape(shape: str, ptx_type: str) -> bool:
    """Whether fragments of ``ptx_type`` have a ``shape``, as factors or as the addend."""
    for types, shapes in _WMMA_SHAPES.items():
        results = _RESULTS.get(types[0], ("s32",))
        if shape in shapes.split() and (ptx_type in types or ptx_type in results):
            return True
    return False


def multiply(form: MatrixForm, a: Array, b: Array, c: Array) -> Array:
    """``a @ b + c`` of stacks of matrices ``(count, rows, columns)`` of bit patterns.

    ``a`` and ``b`` hold an element each (two of 4 bits are two elements) as unsigned integers, float64 as such; ``c``
    is float16, float32, int32 or float64, and so is the result.
    """
    if form.a == "f64":
        return _fused_chain(form, a, b, c)
    if form.d == "s32":
        return _whole_numbers(form, a, b, c)
    total = np.matmul(_decoded(form.a, a), _decoded(form.b, b))
    total += c
    result: Array = total.astype(np.float16 if form.d == "f16" else np.float32)
    return result


def _decoded(ptx_type: str, bits: Array) -> Array:
    """Bit patterns as float64."""
    values: Array
    if ptx_type == "f16":
        values = bits.view(np.float16)
    elif ptx_type == "bf16":
        values = widen(bits)
    elif ptx_type == "tf32":
        values = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    else:
        values = _miniature(ptx_type)[bits]
    result: Array = values.astype(np.float64)
    return result


@functools.cache
def _miniature(ptx_type: str) -> Array:
    """Values of the 256 patterns of an 8-bit format."""
    values: Array = np.arange(256, dtype=np.uint8).view(MINIFLOATS[ptx_type][0]).astype(np.float64)
    return values


def _integers(ptx_type: str, bits: Array) -> Array:
    """Elements of 1, 4 and 8 bits as float32, in which their products and sums are exact."""
    if ptx_type == "s8":
        bits = bits.view(np.int8)
    if ptx_type == "s4":
        return (bits ^ np.uint8(8)).astype(np.float32) - np.float32(8)
    return bits.astype(np.float32)


def _whole_numbers(form: MatrixForm, a: Array, b: Array, c: Array) -> Array:
    left, right = _integers(form.a, a), _integers(form.b, b)
    product = np.matmul(left, right)
    if form.combine == "xor":
        product = left.sum(axis=2, keepdims=True) + right.sum(axis=1, keepdims=True) - 2 * product
    total = product.astype(np.int64) + c
    if form.saturates:
        total = total.clip(np.iinfo(np.int32).min, np.iinfo(np.int32).max)
    result: Array = total.astype(np.int32)
    return result


def _fused_chain(form: MatrixForm, a: Array, b: Array, c: Array) -> Array:
    fused = resolve(f"fma.{form.rounding}.f64").function
    total = np.ascontiguousarray(c, np.float64).ravel()
    for index in range(form.k):
        left = np.broadcast_to(a[:, :, index, None], c.shape).ravel()
        right = np.broadcast_to(b[:, index, None, :], c.shape).ravel()
        total = fused(left, right, total)
    result: Array = total.reshape(c.shape)
    return result
