"""Atomic operations of many lanes on memory, as if the lanes came one after the other.

Lanes that meet at one element are the only difficulty. The ways, by what is asked:

- all elements distinct: one gather and one scatter;
- old values not wanted, and NumPy has the operation: ``ufunc.at``, which goes in lane order;
- integer sums, which do not depend on order: one running sum over the lanes sorted by element;
- else rounds: the first lane of every element, then the second of every element, ..., until few
  elements have lanes left; these are scanned one by one (``ufunc.accumulate`` rounds in lane order).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from .operation import DTYPES, UnknownInstruction
from .resolution import resolve

if TYPE_CHECKING:
    from .operation import Function, Lanes

#: From this many elements on, rounds over all of them cost less than a scan for each.
_FEW = 12

_INTEGERS = ("u32", "s32", "u64", "s64")
_BITS = ("b32", "b64")

#: Operations that NumPy does in lane order, element by element, and the types for which it is theirs.
_UFUNCS: dict[str, tuple[np.ufunc, tuple[str, ...]]] = {
    "add": (np.add, (*_INTEGERS, "f16", "f32", "f64")),
    "min": (np.minimum, _INTEGERS),
    "max": (np.maximum, _INTEGERS),
    "and": (np.bitwise_and, _BITS),
    "or": (np.bitwise_or, _BITS),
    "xor": (np.bitwise_xor, _BITS),
}
#: Sums of these are scanned as lanes of another dtype.
_SCANNED_AS = {"f16x2": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
_SCANNED_AS["bf16x2"] = _SCANNED_AS["bf16"]
_FLOATS = ("f16", "bf16", "f16x2", "bf16x2", "f32", "f64")


def atomic(
    view: Lanes,
    indices: Lanes,
    op: str,
    ptx_type: str,
    value: Lanes,
    compare: Lanes | None = None,
    *,
    want_old: bool,
) -> Lanes | None:
    """Do the atomic ``op`` of every lane on ``view[indices[lane]]``, in lane order.

    ``view`` is memory as the dtype of ``ptx_type`` (`DTYPES`); for "b128" its shape is ``(m, 2)`` of
    uint64, and so are ``value`` and ``compare``. ``indices`` has shape ``(n,)``; ``value`` and
    ``compare`` (for "cas") ``(n,)`` or ``(1,)``. ``op`` is add, min, max, inc, dec, and, or, xor, exch
    or cas. Subnormals of f32 are kept, which a GPU does in shared but not in global memory. Returns
    the value before each lane's operation, or None if that is not wanted.

    Raises
    ------
    UnknownInstruction
        When there is no such operation on the type.
    """
    update = _update(op, ptx_type)
    operands = (value,) if compare is None else (compare, value)
    if not want_old and (ufunc := _ufunc(op, ptx_type)) is not None:
        ufunc.at(view, indices, value)
        return None
    if not want_old and op == "exch":
        # Of several values for one element the last one stays.
        view[indices] = value
        return None
    if len(indices) > 1 and not (indices[1:] > indices[:-1]).all():
        old: Lanes = _with_duplicates(view, indices, op, ptx_type, operands)
        return old if want_old else None
    old = view[indices]
    view[indices] = update(old, *operands)
    return old if want_old else None


def _ufunc(op: str, ptx_type: str) -> np.ufunc | None:
    ufunc, types = _UFUNCS.get(op, (None, ()))
    return ufunc if ptx_type in types else None


def _update(op: str, ptx_type: str) -> Function:
    """Return the new value as a function of the old one and the operands."""
    if op == "cas" and ptx_type in ("b16", *_BITS):
        return lambda old, compare, value: np.where(old == compare, value, old)
    if op == "cas" and ptx_type == "b128":
        return lambda old, compare, value: np.where((old == compare).all(-1, keepdims=True), value, old)
    if op == "exch" and ptx_type in (*_BITS, "b128"):
        return lambda old, value: np.broadcast_to(value, old.shape)
    if op == "inc" and ptx_type == "u32":
        return lambda old, value: np.where(old >= value, np.uint32(0), old + np.uint32(1))
    if op == "dec" and ptx_type == "u32":
        return lambda old, value: np.where((old == 0) | (old > value), value, old - np.uint32(1))
    if (ufunc := _ufunc(op, ptx_type)) is not None:
        return ufunc
    if op in ("add", "min", "max") and ptx_type in _FLOATS:
        return resolve(f"{op}.{ptx_type}").function
    raise UnknownInstruction(f"atom.{op}.{ptx_type}")


def _with_duplicates(
    view: Lanes, indices: Lanes, op: str, ptx_type: str, operands: tuple[Lanes, ...]
) -> Lanes:
    lanes = len(indices)
    order, elements = _sorted_lanes(indices)
    starts = np.flatnonzero(np.concatenate(([True], elements[1:] != elements[:-1])))
    operands = tuple(
        operand[order] if len(operand) == lanes else operand.repeat(lanes, axis=0) for operand in operands
    )
    old = np.empty((lanes, *view.shape[1:]), view.dtype)
    if op == "add" and ptx_type in _INTEGERS:
        old[order] = _running_sums(view, elements[starts], starts, operands[0])
    else:
        old[order] = _in_rounds(view, elements[starts], starts, op, ptx_type, operands)
    return old


def _sorted_lanes(indices: Lanes) -> tuple[Lanes, Lanes]:
    """Return the lanes in the order of their elements (then of lanes), and the elements in that order."""
    lanes = len(indices)
    bits = lanes.bit_length()
    if int(indices.max()) >> (62 - bits):
        order = np.argsort(indices, kind="stable")
        return order, indices[order]
    # Sorting element and lane in one integer is several times faster than a stable argsort.
    keys = indices.astype(np.int64) << bits
    keys |= np.arange(lanes)
    keys.sort()
    return keys & (1 << bits) - 1, keys >> bits


def _running_sums(view: Lanes, elements: Lanes, starts: Lanes, values: Lanes) -> Lanes:
    """Add sorted integer lanes to memory; return what each lane finds there."""
    counts = np.diff(starts, append=len(values))
    sums = np.add.accumulate(values, dtype=values.dtype)
    before = sums - values
    result: Lanes = before + (view[elements] - before[starts]).repeat(counts)
    last = starts + counts - 1
    view[elements] = result[last] + values[last]
    return result


def _in_rounds(
    view: Lanes, elements: Lanes, starts: Lanes, op: str, ptx_type: str, operands: tuple[Lanes, ...]
) -> Lanes:
    """Apply sorted lanes to memory; return what each lane finds there."""
    update = _update(op, ptx_type)
    lanes = len(operands[0])
    counts = np.diff(starts, append=lanes)
    # Elements with most lanes first: those with lanes left are always a prefix.
    busiest = np.argsort(-counts, kind="stable")
    elements, starts, counts = elements[busiest], starts[busiest], counts[busiest]
    current = view[elements]
    previous = np.empty((lanes, *view.shape[1:]), view.dtype)
    active, done = len(elements), 0
    while active > _FEW:
        at = starts[:active] + done
        now = current[:active]
        previous[at] = now
        current[:active] = update(now, *(operand[at] for operand in operands))
        done += 1
        active = int(np.searchsorted(-counts, -done, side="left"))
    for element in range(active):
        piece = slice(int(starts[element]) + done, int(starts[element] + counts[element]))
        values = _scan(op, ptx_type, current[element : element + 1], [o[piece] for o in operands])
        previous[piece] = values[:-1]
        current[element] = values[-1]
    view[elements] = current
    return previous


def _scan(op: str, ptx_type: str, initial: Lanes, operands: list[Lanes]) -> Lanes:
    """Return the values that one element has before each lane, and after the last."""
    if op == "exch":
        return np.concatenate((initial, operands[0]))
    if (ufunc := _ufunc(op, ptx_type)) is not None:
        accumulated: Lanes = ufunc.accumulate(np.concatenate((initial, operands[0])))
        return accumulated
    if op == "add":
        dtype = _SCANNED_AS[ptx_type]
        pieces = np.concatenate((initial, operands[0])).view(dtype).reshape(len(operands[0]) + 1, -1)
        sums: Lanes = np.add.accumulate(pieces, axis=0)
        return sums.view(DTYPES[ptx_type]).reshape(-1)
    if op == "cas":
        return _scan_exchanges(initial, *operands)
    update = _update(op, ptx_type)
    values = [initial]
    for lane in range(len(operands[0])):
        values.append(update(values[-1], operands[0][lane : lane + 1]))
    return np.concatenate(values)


def _scan_exchanges(initial: Lanes, compare: Lanes, value: Lanes) -> Lanes:
    current = initial.tolist()[0]
    values = [current]
    for expected, new in zip(compare.tolist(), value.tolist(), strict=True):
        if current == expected:
            current = new
        values.append(current)
    return np.array(values, initial.dtype)
