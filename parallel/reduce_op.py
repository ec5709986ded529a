"""How a collective combines the values of the ranks."""

from __future__ import annotations

import enum


class ReduceOp(enum.Enum):
    """What :func:`parallel.all_reduce` and its like do with the values of all ranks, element by element.

    ``AVG`` is the sum divided by the number of ranks, for floating point and complex types; ``BAND``, ``BOR``
    and ``BXOR`` are for integers and bools.
    """

    SUM = "sum"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
