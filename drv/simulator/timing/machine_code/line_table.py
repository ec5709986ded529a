"""DWARF line tables (version 2 and 3), as cubins have them: which line each address comes from."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_NEGATE, _BASIC_BLOCK, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 6, 7, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


def rows(data: bytes) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Sequences of a line table.

    Yields
    ------
    field_offset : int
        Offset in ``data`` of the sequence's start address, where a relocation says which function it is.
    rows : list of tuple
        Address, relative to that, and line, in order; the last one is the end of the code.
    """
    at = 0
    while at + 10 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        end = at + 4 + length
        (header,) = struct.unpack_from("<I", data, at + 6)
        first = at + 10 + header
        minimum, _, base, line_range, opcode_base = struct.unpack_from("<BBbBB", data, at + 10)
        lengths = data[at + 15 : at + 14 + opcode_base]
        yield from _program(data, first, end, (minimum, base, line_range, opcode_base), lengths)
        at = end


def _program(
    data: bytes, at: int, end: int, form: tuple[int, int, int, int], lengths: bytes
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    minimum, base, line_range, opcode_base = form
    address, line, field_offset = 0, 1, -1
    sequence: list[tuple[int, int]] = []
    while at < end:
        opcode = data[at]
        at += 1
        if opcode >= opcode_base:
            step = opcode - opcode_base
            address += step // line_range * minimum
            line += base + step % line_range
            sequence.append((address, line))
        elif opcode == 0:
            size, at = _unsigned(data, at)
            extended = data[at]
            if extended == _SET_ADDRESS:
                field_offset, address = at + 1, 0
            elif extended == _END_SEQUENCE:
                sequence.append((address, line))
                yield field_offset, sequence
                address, line, field_offset, sequence = 0, 1, -1, []
            at += size
        elif opcode == _COPY:
            sequence.append((address, line))
        elif opcode == _ADVANCE_PC:
            step, at = _unsigned(data, at)
            address += step * minimum
        elif opcode == _ADVANCE_LINE:
            step, at = _signed(data, at)
            line += step
        elif opcode == _CONST_ADD_PC:
            address += (255 - opcode_base) // line_range * minimum
        elif opcode == _FIXED_ADVANCE_PC:
            address += struct.unpack_from("<H", data, at)[0]
            at += 2
        elif opcode not in (_NEGATE, _BASIC_BLOCK):
            for _ in range(lengths[opcode - 1]):
                _, at = _unsigned(data, at)


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return result, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """The same with a sign."""
    start = at
    value, at = _unsigned(data, at)
    bits = 7 * (at - start)
    return (value - (1 << bits) if value >> (bits - 1) else value), at
