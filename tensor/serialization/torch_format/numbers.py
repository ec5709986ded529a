"""NumPy's dtypes, scalars and arrays from what their pickles say: numbers, bools and strings of fixed length."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import RefusedError, excerpt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .storages import Budget

_CODE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16|[SU][0-9]{1,6})")
_VERSION = 3
_DIMENSIONS = 64
#: A flag of dtypes that is set for strings: they are filled before use.
_FILLED = 8


class Numbers:
    """The values of NumPy in one pickle.

    Parameters
    ----------
    budget
        The limit of what is copied.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        #: Dtypes and arrays that a pickle has named and not yet described: it does so once.
        self._open: dict[int, Any] = {}

    def dtype(self, code: Any, align: Any = False, copy: Any = True) -> np.dtype[Any]:
        """The dtype of a code such as ``f8``, of native byte order until it is described. A new object."""
        if type(code) is not str or not _CODE.fullmatch(code):
            raise RefusedError(
                f"its pickle has an array or a scalar of NumPy's type {excerpt(code)}; numbers, bools and strings are read"
            )
        # With copy, NumPy makes an object of its own, whose byte order can be set.
        result: np.dtype[Any] = np.dtype(code, False, True)
        self._open[id(result)] = result
        return result

    def empty(self, shape: Any) -> NDArray[Any]:
        """An array whose shape and elements follow."""
        if type(shape) is not tuple or len(shape) != 1 or type(shape[0]) is not int or shape[0]:
            raise RefusedError(f"its pickle makes an array of shape {excerpt(shape)} before it describes it")
        result: NDArray[Any] = np.empty(0, np.uint8)
        self._open[id(result)] = result
        return result

    def scalar(self, dtype: Any, data: Any = None) -> np.generic:
        """A scalar of the bytes ``data``."""
        if not isinstance(dtype, np.dtype) or type(data) is not bytes or len(data) != dtype.itemsize:
            raise RefusedError(
                f"its pickle has a NumPy scalar of {excerpt(data)}, which is none of {dtype!s}"
            )
        _check_bools(dtype, data)
        self._budget.charge(len(data))
        (result,) = np.frombuffer(data, dtype) if dtype.itemsize else np.zeros(1, dtype)
        scalar: np.generic = result
        return scalar

    def describe(self, target: Any, state: Any) -> None:
        """Give a dtype its byte order, or an array its elements.

        Raises
        ------
        RefusedError
            If the pickle did not just make it, or the state does not fit.
        """
        if self._open.pop(id(target), None) is not target or type(state) is not tuple:
            raise RefusedError(f"its pickle changes {excerpt(target)} after it was made")
        if isinstance(target, np.dtype):
            self._describe_dtype(target, state)
        else:
            self._describe_array(target, state)

    def _describe_dtype(self, target: np.dtype[Any], state: tuple[Any, ...]) -> None:
        order = state[1] if len(state) > 1 else None
        is_text = target.kind in "SU"
        size = target.itemsize if is_text else -1
        alignment = target.alignment if is_text else -1
        fitting = (_VERSION, order, None, None, None, size, alignment, _FILLED if is_text else 0)
        if (
            type(order) is not str
            or order not in ("<", ">", "|", "=")
            or not _is_plain(state)
            or state != fitting
        ):
            raise RefusedError(f"its pickle describes NumPy's type {target!s} by {excerpt(state)}")
        if order == ">":
            target.__setstate__(fitting)  # type: ignore[attr-defined]

    def _describe_array(self, target: NDArray[Any], state: tuple[Any, ...]) -> None:
        if len(state) != 5:
            raise RefusedError(f"its pickle describes an array by {excerpt(state)}")
        version, shape, dtype, is_fortran, data = state
        if (
            type(version) is not int
            or version != 1
            or type(shape) is not tuple
            or len(shape) > _DIMENSIONS
            or not all(type(each) is int and 0 <= each < 1 << 62 for each in shape)
            or not isinstance(dtype, np.dtype)
            or type(is_fortran) is not bool
            or type(data) is not bytes
            or prod(shape) * dtype.itemsize != len(data)
            or prod(size or 1 for size in shape) >= 1 << 62
        ):
            raise RefusedError(
                f"its pickle has an array of shape {excerpt(shape)} and type {excerpt(str(dtype))} that its bytes do not fill"
            )
        _check_bools(dtype, data)
        self._budget.charge(len(data))
        target.__setstate__((1, shape, dtype, is_fortran, data))  # type: ignore[arg-type]


def _is_plain(state: tuple[Any, ...]) -> bool:
    return all(each is None or type(each) in (int, str) for each in state)


def _check_bools(dtype: np.dtype[Any], data: bytes) -> None:
    if dtype.kind == "b" and data.strip(b"\0\1"):
        raise RefusedError("its pickle has bools of NumPy that are neither 0 nor 1")
