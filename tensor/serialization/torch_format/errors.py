"""The error for a pickle that asks for what is not done."""

from __future__ import annotations

import pickle
import reprlib
from typing import Any

from tensor.serialization.structure import UnreadableError

_short = reprlib.Repr()
_short.maxlevel = 2
_short.maxstring = _short.maxother = 80


class UnpicklingError(RuntimeError, pickle.UnpicklingError):
    """A file of ``torch.save`` asks for something that is not done for a file, or its pickle is malformed.

    It is also a :class:`pickle.UnpicklingError`, which ``torch.load`` raises there.
    """


class RefusedError(UnreadableError):
    """Why a pickle is not carried out. The caller says which file."""


def excerpt(value: Any) -> str:
    """``value`` in an error, shortened."""
    if type(value) in (bool, int, float, str, bytes, list, tuple, dict):
        return _short.repr(value)
    return f"a {type(value).__qualname__}"
