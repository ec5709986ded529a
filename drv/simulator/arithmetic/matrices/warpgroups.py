"""What ``wgmma.mma_async`` computes: its forms, and where the factors lie in shared memory.

A factor in shared memory is described by 64 bits: its address, the leading and the stride byte offset, a base offset and a
swizzle mode. It consists of units of 16 bytes. Unless it is transposed (the dimension of m or n lies side by side, not that
of k), a row has two units: 8 rows are a core matrix, and the stride leads from one to the next. Without swizzling the units
of a row are the leading offset apart, and the rows of a core matrix 16 bytes; else the rows are as long as the swizzle's
span.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic.operation import UnknownInstruction

from .products import BITS, MatrixForm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

UNIT = 16
ROWS = 64
_CORE_ROWS = 8
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_FLOAT8, _BYTES = ("e4m3", "e5m2"), ("s8", "u8")
#: Types of the factors, which may differ within a group, with k and the types of the result.
_FORMS: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {
    ("f16",): (16, ("f16", "f32")),
    ("bf16",): (16, ("f32",)),
    ("tf32",): (8, ("f32",)),
    _FLOAT8: (32, ("f16", "f32")),
    _BYTES: (32, ("s32",)),
    ("b1",): (256, ("s32",)),
}
_COLUMNS = tuple(range(8, 257, 8))
#: Of integers not every number of columns exists.
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))
KNOWN = "forms that are known: " + "; ".join(
    f"{'/'.join(types)}: m64nNk{k} with results {'/'.join(results)}" for types, (k, results) in _FORMS.items()
)
#: Bytes over which the rows are swizzled, and the bits of addresses that are, by the mode of a descriptor.
_MODES = {0: (0, 0), 1: (128, 7), 2: (64, 3), 3: (32, 1)}


@dataclass(frozen=True, slots=True)
class WarpgroupForm:
    """A form of ``wgmma.mma_async``. ``product`` is the same as one of ``mma``.

    ``scales`` says that its factors may be negated, ``transposes`` that they may lie transposed in shared memory.
    """

    product: MatrixForm
    scales: bool
    transposes: bool


@functools.cache
def warpgroup_form(opcode: str) -> WarpgroupForm:
    """The form of an instruction. Raises :class:`UnknownInstruction` for one that is not known."""
    qualifiers = opcode.split(".")
    types = [qualifier for qualifier in qualifiers if qualifier in BITS]
    matched = next(filter(None, map(_SHAPE.fullmatch, qualifiers)), None)
    rest = set(qualifiers) - {"wgmma", "mma_async", "sync", "aligned", "satfinite", "and", "popc", *BITS}
    if matched is None or len(types) != 3 or rest != {matched.group()}:
        raise UnknownInstruction(opcode, KNOWN)
    d, a, b = types
    k, results = next((form for group, form in _FORMS.items() if a in group and b in group), (0, ()))
    whole = results == ("s32",)
    n = int(matched.group(1))
    if (
        int(matched.group(2)) != k
        or d not in results
        or n not in (_INTEGER_COLUMNS if whole else _COLUMNS)
        or ("satfinite" in qualifiers and a not in _BYTES)
        or ("popc" in qualifiers) is not (a == "b1")
        or ("and" in qualifiers) is not (a == "b1")
    ):
        raise UnknownInstruction(opcode, KNOWN)
    combine = "and" if a == "b1" else ""
    form = MatrixForm(ROWS, n, k, a, b, d, d, saturates="satfinite" in qualifiers, combine=combine)
    return WarpgroupForm(form, not whole, BITS[a] == UNIT)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """How a factor lies in shared memory."""

    start: int
    leading: int
    stride: int
    base_offset: int
    mode: int

    @classmethod
    def of(cls, bits: int) -> Descriptor:
        """What a matrix descriptor says."""
        field = 0x3FFF
        return cls(
            (bits & field) * UNIT,
            (bits >> 16 & field) * UNIT,
            (bits >> 32 & field) * UNIT,
            bits >> 49 & 7,
            bits >> 62 & 3,
        )

    def addresses(self, lines: int, transposed: bool) -> Array:
        """Addresses of the units of a factor with ``lines`` rows (a) or columns (b).

        ``(lines, 2)``; where it is transposed ``(lines / 8, k)``, each unit with 8 lines of one step along k.
        """
        relative = _relative(lines, self.leading, self.stride, self.mode, transposed)
        result = self.start + relative
        _, mask = _MODES[self.mode]
        if mask:
            # The pattern begins anew every 8 lines of 128 bytes, at the base offset where it is not aligned.
            line = (result >> 7) - self.base_offset
            result = result ^ (line & mask) << 4
        return result


@functools.lru_cache(maxsize=256)
def _relative(lines: int, leading: int, stride: int, mode: int, transposed: bool) -> Array:
    span, _ = _MODES[mode]
    if not transposed:
        core, row = np.divmod(np.arange(lines), _CORE_ROWS)
        unit = np.arange(2)
        rows = core * stride + row * (span or UNIT)
        result: Array = rows[:, None] + unit * (UNIT if span else leading)
    else:
        unit, step = np.arange(lines // _CORE_ROWS), np.arange(UNIT)
        core, row = np.divmod(step, _CORE_ROWS)
        if span:
            across, within = np.divmod(unit, span // UNIT)
            result = (within * UNIT + across * leading)[:, None] + core * stride + row * span
        else:
            result = (unit * stride)[:, None] + core * leading + row * UNIT
    result.flags.writeable = False
    return result


def matrix(units: Array, ptx_type: str, transposed: bool) -> Array:
    """Bit patterns ``(count, lines, k)`` of factors from their units ``(count, ..., 16)`` of bytes."""
    count = units.shape[0]
    if transposed:
        elements = np.ascontiguousarray(units).view(np.uint16)
        result: Array = elements.swapaxes(2, 3).reshape(count, -1, elements.shape[2])
        return result
    rows = np.ascontiguousarray(units).reshape(count, units.shape[1], -1)
    if ptx_type == "b1":
        return np.unpackbits(rows, axis=2, bitorder="little")
    bits = BITS[ptx_type]
    return rows.view(np.dtype(f"uint{bits}"))


def negated(values: Array, ptx_type: str) -> Array:
    """Bit patterns of numbers with the opposite sign."""
    bits = BITS[ptx_type]
    result: Array = values ^ values.dtype.type(1 << (bits - 1))
    return result
