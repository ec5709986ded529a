"""``printf`` in kernels."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+))?(?P<length>hh|h|ll|l|j|z|t|L)?(?P<type>[a-zA-Z%])"
)


def format_text(pattern: str, data: bytes, text_at: Callable[[int], str]) -> tuple[str, int]:
    """What ``printf(pattern, ...)`` prints, and how many arguments it takes.

    The arguments are packed in ``data`` as CUDA packs them.

    Integers take 4 bytes or, with ``l``, ``ll``, ``j``, ``z`` or ``t``, 8; doubles and pointers 8; each lies at a
    multiple of its size. ``text_at`` reads the string that a ``%s`` argument points to.
    """
    at = taken = 0

    def take(code: str) -> int | float:
        nonlocal at, taken
        taken += 1
        size = struct.calcsize(code)
        at = -(-at // size) * size
        value: int | float = struct.unpack_from("<" + code, data, at)[0]
        at += size
        return value

    def replace(match: re.Match[str]) -> str:
        conversion = match["type"]
        if conversion == "%":
            return "%"
        flags, width, precision = match["flags"], match["width"] or "", match["precision"]
        if width == "*":
            number = int(take("i"))
            flags += "-" if number < 0 else ""
            width = str(abs(number))
        if precision == "*":
            number = int(take("i"))
            precision = None if number < 0 else str(number)
        dot = "" if precision is None else f".{precision}"
        long = match["length"] in ("l", "ll", "j", "z", "t")
        if conversion in "di":
            return f"%{flags}{width}{dot}d" % _narrow(
                int(take("q" if long else "i")), match["length"], signed=True
            )
        if conversion in "uxXo":
            value = _narrow(int(take("Q" if long else "I")), match["length"], signed=False)
            return (
                f"%{flags}{width}{dot}{conversion if conversion != 'u' else 'd'}" % value
                if conversion != "o"
                else _octal(value, flags, width, precision)
            )
        if conversion in "fFeEgG":
            return f"%{flags}{width}{dot}{conversion}" % take("d")
        if conversion in "aA":
            text = float(take("d")).hex()
            return f"%{flags.replace('0', '')}{width}s" % (text.upper() if conversion == "A" else text)
        if conversion == "c":
            return f"%{flags}{width}s" % chr(int(take("i")) & 0xFF)
        if conversion == "s":
            return f"%{flags}{width}{dot}s" % text_at(int(take("Q")))
        if conversion == "p":
            return f"%{flags}{width}s" % hex(int(take("Q")))
        return match[0]

    text = _DIRECTIVE.sub(replace, pattern)
    return text, taken


def _narrow(value: int, length: str | None, *, signed: bool) -> int:
    bits = {"hh": 8, "h": 16}.get(length or "")
    if bits is None:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _octal(value: int, flags: str, width: str, precision: str | None) -> str:
    digits = format(value, "o").rjust(int(precision or 1), "0")
    if "#" in flags and not digits.startswith("0"):
        digits = "0" + digits
    if "0" in flags and "-" not in flags and precision is None:
        return digits.rjust(int(width or 0), "0")
    return digits.ljust(int(width or 0)) if "-" in flags else digits.rjust(int(width or 0))
