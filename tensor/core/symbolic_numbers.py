"""Names for sizes that a compiler leaves open. There are none here: sizes are Python's numbers, and so are results."""

from __future__ import annotations

import builtins
import math
from typing import Any


class _Symbolic:
    """A class without objects, for ``isinstance``: making one raises RuntimeError."""

    def __init__(self, *arguments: Any) -> None:
        raise RuntimeError(f"{type(self).__name__}: there are no symbolic numbers here; use Python's")


class SymInt(_Symbolic):
    """The class of symbolic integers, of which there are none: ``isinstance(size, SymInt)`` is False.

    For programs that ask. Sizes, numbers and conditions are Python's own here, as nothing is traced.
    """


class SymFloat(_Symbolic):
    """The class of symbolic floats, of which there are none: ``isinstance(number, SymFloat)`` is False.

    For programs that ask. Sizes, numbers and conditions are Python's own here, as nothing is traced.
    """


class SymBool(_Symbolic):
    """The class of symbolic conditions, of which there are none: ``isinstance(condition, SymBool)`` is False.

    For programs that ask. Sizes, numbers and conditions are Python's own here, as nothing is traced.
    """


def sym_int(a: Any) -> int:
    """``a`` as an int: ``int(a)``.

    Raises TypeError or ValueError as ``int`` does.
    """
    return builtins.int(a)


def sym_float(a: Any) -> float:
    """``a`` as a float: ``float(a)``.

    Raises TypeError or ValueError as ``float`` does.
    """
    return builtins.float(a)


def sym_max(a: float, b: float) -> float:
    """The greater of two numbers ``a`` and ``b``, a float if one of them is.

    Raises
    ------
    TypeError
        If one is no number.
    """
    return _promoted("sym_max", builtins.max, a, b)


def sym_min(a: float, b: float) -> float:
    """The lesser of two numbers ``a`` and ``b``, a float if one of them is.

    Raises
    ------
    TypeError
        If one is no number.
    """
    return _promoted("sym_min", builtins.min, a, b)


def _promoted(function: str, choose: Any, a: float, b: float) -> float:
    for each in (a, b):
        if not isinstance(each, (int, float)):
            raise TypeError(f"{function}(): expected int or float, got {type(each).__name__}")
    result: float = choose(a, b)
    return builtins.float(result) if any(isinstance(each, float) for each in (a, b)) else result


def sym_not(a: Any) -> bool:
    """``not a``, a bool.

    PyTorch has it for conditions that are traced, which there are none of here.
    """
    return not a


def sym_sqrt(a: float) -> float:
    """The square root of ``a``, a float: ``math.sqrt(a)``.

    Raises ValueError for negative numbers.
    """
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, each an argument, or all in one list or tuple.

    >>> tensor.sym_sum([1, 2, 3]), tensor.sym_sum(1, 2)
    (6, 3)
    """
    return builtins.sum(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``.

    Raises
    ------
    TypeError
        If ``b`` is no bool, or ``t`` and ``f`` have different types.
    """
    if not isinstance(b, bool) or type(t) is not type(f):
        raise TypeError(
            f"sym_ite(): expected a bool and two values of one type, got {type(b).__name__}, {type(t).__name__} "
            f"and {type(f).__name__}"
        )
    return t if b else f
