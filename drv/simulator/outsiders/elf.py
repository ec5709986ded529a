"""Shared libraries in the ELF format, written without a compiler or a linker."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .stubs import RESERVED, SLOT_BYTES, machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .stubs import CodeMaker

_PAGE = 0x10000
_HEADER, _PROGRAM_HEADER, _SECTION_HEADER, _SYMBOL = 64, 56, 64, 24
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_GLOBAL_FUNCTION, _GLOBAL_OBJECT = 0x12, 0x11
_SEGMENTS = 5


def shared_library(
    soname: str,
    functions: Sequence[str],
    prefix: str,
    status: int,
    target: tuple[int, CodeMaker] | None = None,
) -> bytes:
    """A shared library whose functions go where a table in it says.

    Parameters
    ----------
    soname : str
        The library's own name, such as ``"libcuda.so.1"``.
    functions : sequence of str
        Names of the exported functions; a function's index in it is its number.
    prefix : str
        Beginning of two other names: ``prefix + "_slots"`` is the table, in which there are the resolver's address,
        ``void *(*)(int number)``, the status, and one address for each function; ``prefix + "_end"`` is a function
        without arguments that empties it for good.
    status : int
        What functions answer for which the table, and the resolver, have no address.
    target : tuple, optional
        ELF's number of the architecture, and what makes its code; by default those of this machine.

    Returns
    -------
    bytes
        The file.

    Raises
    ------
    NotImplementedError
        If this machine's architecture is not known.
    """
    number, make_code = machine() if target is None else target
    names = [*functions, f"{prefix}_end", f"{prefix}_slots"]
    strings, offsets = _strings([soname, *names])
    symbols_at = _HEADER + _SEGMENTS * _PROGRAM_HEADER
    hash_at = symbols_at + _SYMBOL * (len(names) + 1)
    hashes = _hash_table(names)
    strings_at = hash_at + len(hashes)
    text_at = _aligned(strings_at + len(strings))
    # The length of the code does not depend on where it is.
    text_size = len(make_code(len(functions), text_at, text_at)[0])
    data_at = _aligned(text_at + text_size)
    dynamic = [
        (14, offsets[soname]), (4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, _SYMBOL), (0, 0),
    ]  # fmt: skip
    slots_at = data_at + 16 * len(dynamic)
    slots_size = SLOT_BYTES * (len(functions) + RESERVED)
    text, starts = make_code(len(functions), text_at, slots_at)
    symbols = bytes(_SYMBOL)
    for name, start in zip(names[:-1], starts, strict=True):
        symbols += struct.pack("<IBBHQQ", offsets[name], _GLOBAL_FUNCTION, 0, 4, text_at + start, 0)
    symbols += struct.pack("<IBBHQQ", offsets[names[-1]], _GLOBAL_OBJECT, 0, 6, slots_at, slots_size)
    end = slots_at + slots_size
    names_of_sections = b"\0.dynsym\0.hash\0.dynstr\0.text\0.dynamic\0.data\0.shstrtab\0"
    sections_at = -(-(end + len(names_of_sections)) // 8) * 8
    segments = (
        (_LOAD, _READ, 0, strings_at + len(strings), _PAGE),
        (_LOAD, _READ | _EXECUTE, text_at, text_size, _PAGE),
        (_LOAD, _READ | _WRITE, data_at, end - data_at, _PAGE),
        (_DYNAMIC, _READ | _WRITE, data_at, 16 * len(dynamic), 8),
        # No code on the stack.
        (_STACK, _READ | _WRITE, 0, 0, 16),
    )
    # Linkers, unlike loaders, find the symbols by the sections.
    sections = (
        ("", 0, 0, 0, 0, 0, 0, 0, 0),
        (".dynsym", 11, 2, symbols_at, len(symbols), 3, 1, 8, _SYMBOL),
        (".hash", 5, 2, hash_at, len(hashes), 1, 0, 4, 4),
        (".dynstr", 3, 2, strings_at, len(strings), 0, 0, 1, 0),
        (".text", 1, 6, text_at, text_size, 0, 0, 32, 0),
        (".dynamic", 6, 3, data_at, 16 * len(dynamic), 3, 0, 8, 16),
        (".data", 1, 3, slots_at, slots_size, 0, 0, 8, 0),
        (".shstrtab", 3, 0, end, len(names_of_sections), 0, 0, 1, 0),
    )
    image = bytearray(sections_at)
    image[:_HEADER] = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        b"\x7fELF", 2, 1, 1, 0, 3, number, 1, 0, _HEADER, sections_at, 0, _HEADER, _PROGRAM_HEADER, len(segments),
        _SECTION_HEADER, len(sections), len(sections) - 1,
    )  # fmt: skip
    for index, (kind, flags, at, size, alignment) in enumerate(segments):
        struct.pack_into(
            "<IIQQQQQQ",
            image,
            _HEADER + index * _PROGRAM_HEADER,
            kind,
            flags,
            at,
            at,
            at,
            size,
            size,
            alignment,
        )
    for at, contents in (
        (symbols_at, symbols),
        (hash_at, hashes),
        (strings_at, strings),
        (text_at, text),
        (data_at, b"".join(struct.pack("<QQ", *entry) for entry in dynamic)),
        (slots_at, struct.pack("<QQ", 0, status)),
        (end, names_of_sections),
    ):
        image[at : at + len(contents)] = contents
    for name, kind, flags, at, size, link, info, alignment, entry in sections:
        name_offset = names_of_sections.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        address = at if flags else 0
        image += struct.pack(
            "<IIQQQQIIQQ", name_offset, kind, flags, address, at, size, link, info, alignment, entry
        )
    return bytes(image)


def _aligned(address: int) -> int:
    return -(-address // _PAGE) * _PAGE


def _strings(texts: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    """A table of strings, and where in it each begins."""
    table, offsets = bytearray(1), {}
    for text in texts:
        offsets[text] = len(table)
        table += text.encode() + b"\0"
    return bytes(table) + bytes(-len(table) % 8), offsets


def _hash_table(names: Sequence[str]) -> bytes:
    """ELF's hash table of the symbols, which begin at number 1."""
    count = max(len(names), 1)
    buckets, chains = [0] * count, [0] * (len(names) + 1)
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    words = [count, len(chains), *buckets, *chains]
    return struct.pack(f"<{len(words)}I", *words) + bytes(4 * (len(words) % 2))


def _hash(name: str) -> int:
    result = 0
    for byte in name.encode():
        result = (result << 4) + byte
        high = result & 0xF0000000
        result = (result ^ high >> 24) & ~high & 0xFFFFFFFF
    return result
