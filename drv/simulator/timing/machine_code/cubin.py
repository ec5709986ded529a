"""What a cubin says of its kernels: registers, shared and local memory, instructions by PTX line. ELF, read in Python.

A cubin is an ELF file. ``.nv.info`` holds attributes by symbol (registers, stack), ``.nv.shared.NAME`` is as large as a
kernel's shared memory, ``.text.NAME`` holds its instructions of 16 bytes each (from capability 7.0 on), and with line
information ``.nv_debug_line_sass`` says which line of the PTX each comes from. NVIDIA documents these sections by the
output of ``cuobjdump -elf``; the numbers of attributes are those that it prints.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from .line_table import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSTRUCTION_BYTES = 16
_FUNCTION_SYMBOL = 2
#: Attributes of ``.nv.info``: a format byte, a number, then a 16-bit value, or a 16-bit size and that many bytes.
_SIZED = 0x04
_REGISTERS, _FRAME = 0x2F, 0x11
#: Symbol of the shared memory that the system keeps for itself from capability 9.0 on, as a part of a kernel's section.
_RESERVED_SHARED = ".nv.reservedSmem.offset0"
_RESERVED_BYTES = 1024
#: Nine low bits of instructions, the same for all forms of their operands from capability 7.0 on.
_OPCODE_MASK = 0x1FF
_NOP, _BRANCH, _EXIT = 0x118, 0x147, 0x14D
#: Twelve low bits of what gathers the lanes that take part in an instruction of the whole warp, where they have diverged.
_COLLECT = 0x348
#: Predicate of an instruction that always runs: its number, which is that of the constant "true", and no negation.
_PREDICATE_SHIFT, _ALWAYS = 12, 7
_LOCAL_LOAD, _LOCAL_STORE = 0x183, 0x187


class CubinError(ValueError):
    """Bytes that are no cubin, or one of a form that is not known."""


@dataclass(slots=True)
class CompiledKernel:
    """A kernel as the hardware runs it.

    Attributes
    ----------
    registers : int
        Per thread.
    shared : int
        Static shared memory of a block, in bytes.
    frame : int
        Local memory of a thread, in bytes: arrays that are indexed at run time, and spilled registers.
    spills : int
        Loads and stores of local memory in the code, counted as instructions.
    instructions : int
        Instructions in the code, without the padding at its end.
    code_bytes : int
        Size of the code.
    by_line : Counter
        Instructions by the line of the PTX that they come from; empty without line information. Copies for warps whose
        lanes are apart when a shuffle or vote comes are left out.
    opcodes : dict
        For each PTX line a counter of these instructions' opcodes (their nine low bits).
    """

    name: str
    registers: int = 0
    shared: int = 0
    frame: int = 0
    spills: int = 0
    instructions: int = 0
    code_bytes: int = 0
    by_line: Counter[int] = field(default_factory=Counter)
    opcodes: dict[int, Counter[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


def read_cubin(image: bytes, ptx: str | None = None) -> dict[str, CompiledKernel]:
    """The kernels and functions of a cubin, by name.

    Parameters
    ----------
    image : bytes
        The cubin.
    ptx : str, optional
        The PTX that it was made of, so that instructions are told by its lines.

    Raises
    ------
    CubinError
        If it is no ELF file of 64 bits, or is cut off.
    """
    try:
        return _Reader(image).kernels(ptx)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CubinError(f"the cubin ends too early or is damaged: {error}") from error


class _Reader:
    def __init__(self, image: bytes) -> None:
        if image[:5] != b"\x7fELF\x02":
            raise CubinError(f"expected an ELF file of 64 bits, got bytes that begin with {image[:5]!r}")
        self._image = image
        (table,) = struct.unpack_from("<Q", image, 0x28)
        entry, count, names = struct.unpack_from("<HHH", image, 0x3A)
        raw = [struct.unpack_from("<IIQQQQIIQQ", image, table + index * entry) for index in range(count)]
        strings = raw[names][4]
        self.sections = [
            _Section(self._text(strings + each[0]), each[1], each[4], each[5], each[6], each[7])
            for each in raw
        ]
        self._by_name = {each.name: each for each in self.sections}
        self.symbols = list(self._symbols())

    def _text(self, at: int) -> str:
        return self._image[at : self._image.index(b"\0", at)].decode()

    def _bytes(self, section: _Section) -> bytes:
        return self._image[section.offset : section.offset + section.size]

    def _symbols(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, type, section and value of each symbol."""
        table = self._by_name.get(".symtab")
        if table is None:
            return
        strings = self.sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self._image, at)
            yield self._text(strings + name), info & 15, section, value

    def kernels(self, ptx: str | None) -> dict[str, CompiledKernel]:
        kernels: dict[str, CompiledKernel] = {}
        code: dict[str, bytes] = {}
        reserved = any(name == _RESERVED_SHARED for name, *_ in self.symbols)
        for section in self.sections:
            if not section.name.startswith(".text."):
                continue
            name = section.name.removeprefix(".text.")
            kernel = kernels[name] = CompiledKernel(name, code_bytes=section.size)
            code[name] = self._bytes(section)
            shared = self._by_name.get(f".nv.shared.{name}")
            if shared is not None:
                kernel.shared = max(shared.size - (_RESERVED_BYTES if reserved else 0), 0)
            opcodes = _opcodes(code[name])
            kernel.instructions = len(opcodes)
            kernel.spills = sum(opcode in (_LOCAL_LOAD, _LOCAL_STORE) for opcode in opcodes)
        self._attributes(kernels)
        if ptx is not None:
            self._lines(kernels, code, ptx)
        return kernels

    def _attributes(self, kernels: dict[str, CompiledKernel]) -> None:
        section = self._by_name.get(".nv.info")
        if section is None:
            return
        data, at = self._bytes(section), 0
        while at + 4 <= len(data):
            form, attribute, value = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != _SIZED:
                continue
            if attribute in (_REGISTERS, _FRAME) and value >= 8:
                symbol, number = struct.unpack_from("<II", data, at)
                kernel = kernels.get(self.symbols[symbol][0])
                if kernel is not None and attribute == _REGISTERS:
                    kernel.registers = number
                elif kernel is not None:
                    kernel.frame = number
            at += value

    def _lines(self, kernels: dict[str, CompiledKernel], code: dict[str, bytes], ptx: str) -> None:
        table = self._by_name.get(".nv_debug_line_sass")
        text = next((each for each in self.sections if each.name.startswith(".nv_debug_ptx_txt")), None)
        if table is None or text is None:
            return
        owners: dict[int, str] = {}
        # With an addend, or without one, by architecture.
        for form, entry in ((".rela", 24), (".rel", 16)):
            relocations = self._by_name.get(f"{form}.nv_debug_line_sass")
            if relocations is not None:
                for at in range(relocations.offset, relocations.offset + relocations.size, entry):
                    offset, info = struct.unpack_from("<QQ", self._image, at)
                    owners[offset] = self.symbols[info >> 32][0].removeprefix(".text.")
        line_of = _original_lines(self._bytes(text), ptx)
        for field_offset, sequence in rows(self._bytes(table)):
            kernel = kernels.get(owners.get(field_offset, ""))
            if kernel is None:
                continue
            opcodes, out_of_line = _opcodes(code[kernel.name]), _collecting(code[kernel.name])
            for (start, line), (stop, _) in pairwise(sequence):
                original = line_of.get(line)
                if original is None:
                    continue
                for index in range(
                    start // _INSTRUCTION_BYTES, min(stop // _INSTRUCTION_BYTES, len(opcodes))
                ):
                    if index in out_of_line:
                        continue
                    kernel.by_line[original] += 1
                    kernel.opcodes.setdefault(original, Counter())[opcodes[index]] += 1


def _opcodes(code: bytes) -> list[int]:
    """Opcodes of instructions, without what pads the end: a branch to itself and instructions that do nothing."""
    words = [
        struct.unpack_from("<H", code, at)[0] & _OPCODE_MASK for at in range(0, len(code), _INSTRUCTION_BYTES)
    ]
    while words and words[-1] == _NOP:
        words.pop()
    if words and words[-1] == _BRANCH:
        words.pop()
    return words


def _collecting(code: bytes) -> set[int]:
    """Numbers of the instructions to which warps branch whose lanes are apart when a shuffle or vote comes.

    The assembler puts such code, with a copy of the shuffle, behind the kernel's own, wherever it cannot tell that lanes are
    together. It stands between two jumps. Warps whose lanes are together never get there.
    """
    result: set[int] = set()
    begin, collects = 0, False
    for number, at in enumerate(range(0, len(code), _INSTRUCTION_BYTES)):
        (word,) = struct.unpack_from("<H", code, at)
        collects |= word & 0xFFF == _COLLECT
        if word & _OPCODE_MASK in (_BRANCH, _EXIT) and word >> _PREDICATE_SHIFT == _ALWAYS:
            if collects:
                result.update(range(begin, number + 1))
            begin, collects = number + 1, False
    return result


def _original_lines(contents: bytes, ptx: str) -> dict[int, int]:
    """For each line of the text that the assembler keeps, which has no comments and blank lines, the line in ``ptx``."""
    result: dict[int, int] = {}
    originals = ["".join(line.split("//")[0].split()) for line in ptx.splitlines()]
    position = 0
    for number, line in enumerate(contents.split(b"\0"), 1):
        text = "".join(line.decode(errors="replace").split())
        if not text:
            continue
        for candidate in range(position, len(originals)):
            if originals[candidate] == text:
                result[number] = candidate + 1
                position = candidate + 1
                break
    return result
