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
        kind = match["type"]
        if kind == "%":
            return "%"
        flags, width, precision = match["flags"], match["width"] or "", match["precision"]
        if width == "*":
            given = int(take("i"))
            flags += "-" if given < 0 else ""
            width = str(abs(given))
        if precision == "*":
            given = int(take("i"))
            precision = None if given < 0 else str(given)
        dot = "" if precision is None else f".{precision}"
        long = match["length"] in ("l", "ll", "j", "z", "t")
        if kind in "di":
            return f"%{flags}{width}{dot}d" % _narrow(
                int(take("q" if long else "i")), match["length"], signed=True
            )
        if kind in "uxXo":
            value = _narrow(int(take("Q" if long else "I")), match["length"], signed=False)
            return (
                f"%{flags}{width}{dot}{kind if kind != 'u' else 'd'}" % value
                if kind != "o"
                else _octal(value, flags, width, precision)
            )
        if kind in "fFeEgG":
            return f"%{flags}{width}{dot}{kind}" % take("d")
        if kind in "aA":
            text = float(take("d")).hex()
            return f"%{flags.replace('0', '')}{width}s" % (text.upper() if kind == "A" else text)
        if kind == "c":
            return f"%{flags}{width}s" % chr(int(take("i")) & 0xFF)
        if kind == "s":
            return f"%{flags}{width}{dot}s" % text_at(int(take("Q")))
        if kind == "p":
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
