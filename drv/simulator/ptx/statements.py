"""Statements as compilers write them, one on a line, read by one look at the line.

They are most of a text. Whatever looks unlike them is left to the parser, which goes word by word and knows what is wrong.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from .program import Address, Immediate, Negated, Operand, Pair, Register, Symbol, Vector

if TYPE_CHECKING:
    from collections.abc import Container

_NUMBER = (
    r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"
    r"|[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+U?"
)
_NAME = r"[%$_A-Za-z][\w$%.]*"
#: A line that is an instruction, or a location in the source (``.loc``), and no more. Words are looked at later.
STATEMENT = re.compile(
    r"""[ \t]*(?:
        (?:@(?P<guard>!?%[\w$]+)[ \t]+)?(?P<opcode>[a-z]\w*(?:(?:\.|::)\w+)*)(?:[ \t]+(?P<operands>[^;:\n"/@]*))?;
      | \.loc[ \t]+(?P<file>[0-9]+)[ \t]+(?P<line>[0-9]+)[ \t]+(?P<column>[0-9]+)
        (?:,[ ]function_name[ ][\w$]+(?:\+[0-9]+)?,[ ]inlined_at[ ](?P<outer>[0-9]+[ ][0-9]+[ ][0-9]+))?
    )[ \t]*\n""",
    re.VERBOSE | re.ASCII,
)
_BRACKET = re.compile(r"[{\[(]")
#: Commas between operands, not those within brackets of any kind.
_COMMA = re.compile(r",(?![^{\[(]*[}\])])")
_OPERAND = re.compile(
    rf"(?P<register>%[\w$.]+)(?:\|(?P<second>_|%[\w$.]+))?"
    rf"|(?P<number>-?(?:{_NUMBER}))"
    rf"|\[(?P<base>{_NAME})(?:\+(?P<offset>-?(?:0|[1-9][0-9]*)))?\]"
    rf"|\{{(?P<items>[^{{}}]*)\}}"
    rf"|!(?P<negated>%[\w$.]+)"
    rf"|(?P<name>[$_A-Za-z][\w$.]*)",
    re.ASCII,
)


class Unusual(Exception):  # noqa: N818 - it never leaves the parser
    """A line that is to be read word by word."""


class Reader:
    """Reads the statements of a function, in which no name has another meaning than itself.

    ``registers`` are the declared ones. Equal operands are one object.
    """

    def __init__(self, registers: Container[str]) -> None:
        self._registers = registers
        self._operands: dict[str, Operand] = {"_": None, "WARP_SZ": Immediate(32)}
        self._guards: dict[str, tuple[Register, bool]] = {}

    def read(self, match: re.Match[str]) -> tuple[str, tuple[Operand, ...], tuple[Register, bool] | None]:
        """Opcode, operands and guard of the instruction that :data:`STATEMENT` has matched. Raises :class:`Unusual`."""
        guard_text, opcode, rest = match.group("guard", "opcode", "operands")
        guard = None
        if guard_text is not None:
            guard = self._guards.get(guard_text)
            if guard is None:
                register = self._operand(guard_text.lstrip("!"))
                if not isinstance(register, Register):
                    raise Unusual
                guard = self._guards[guard_text] = register, guard_text.startswith("!")
        if not rest:
            return opcode, (), guard
        known, read = self._operands, self._operand
        texts = rest.split(",") if _BRACKET.search(rest) is None else _COMMA.split(rest)
        operands = tuple([known[text] if text in known else read(text) for text in texts])
        return opcode, operands, guard

    def _operand(self, text: str) -> Operand:
        """An operand, with spaces around it or not."""
        known, name = self._operands, text.strip()
        if name not in known:
            if name in self._registers:
                known[name] = Register(name)
            else:
                match = _OPERAND.fullmatch(name)
                if match is None:
                    raise Unusual
                known[name] = self._meaning(match)
        operand = known[text] = known[name]
        return operand

    def _meaning(self, match: re.Match[str]) -> Operand:
        kind = match.lastgroup
        text = match.group()
        match kind:
            case "register":
                return Register(text)
            case "second":
                first, second = self._operand(match["register"]), self._operand(match["second"])
                assert isinstance(first, Register)
                assert second is None or isinstance(second, Register)
                return Pair(first, second)
            case "number":
                return signed_number(text.removeprefix("-"), negative=text.startswith("-"))
            case "base" | "offset":
                base = self._operand(match["base"])
                if not isinstance(base, (Register, Symbol)):
                    raise Unusual
                return Address(base, int(match["offset"] or 0))
            case "items":
                items = tuple([self._operand(each) for each in match["items"].split(",")])
                return Vector(items)
            case "negated":
                register = self._operand(match["negated"])
                assert isinstance(register, Register)
                return Negated(register)
            case _:
                return Register(text) if text in self._registers else Symbol(text)


def number(text: str) -> Immediate:
    """A number of PTX. Raises ValueError if it is none."""
    lead = text[:2].lower()
    if lead == "0f":
        return Immediate(int(text[2:], 16), "f32")
    if lead == "0d":
        return Immediate(int(text[2:], 16), "f64")
    if "." in text:
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    digits = text.rstrip("U")
    if lead == "0x":
        return Immediate(int(digits, 16))
    if lead == "0b":
        return Immediate(int(digits, 2))
    if len(digits) > 1 and digits[0] == "0":
        return Immediate(int(digits, 8))
    return Immediate(int(digits))


def signed_number(text: str, *, negative: bool) -> Immediate:
    """A number, or its opposite. Raises ValueError if it is none."""
    constant = number(text)
    if not negative:
        return constant
    if constant.kind == "int":
        return Immediate(-constant.value)
    return Immediate(constant.value ^ 1 << (31 if constant.kind == "f32" else 63), constant.kind)
