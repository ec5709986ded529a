"""How a collective combines the values of the ranks."""

from __future__ import annotations

import enum


class ReduceOp(enum.Enum):
    """The reduction of :func:`parallel.all_reduce` and the like: how the elements of all ranks are combined.

    - ``SUM`` and ``PRODUCT`` are for all dtypes, ``PRODUCT`` not for complex ones. On bools they are "any" and "all".
    - ``MIN`` and ``MAX`` are for all but complex dtypes. With ``gloo`` and ``mpi`` they propagate NaN.
    - ``AVG`` is the sum divided by the number of ranks, for floating point and complex dtypes.
    - ``BAND``, ``BOR`` and ``BXOR`` are bitwise, for integers and bools. NCCL has ``BAND`` and ``BOR`` alone, for
      bools.

    Collectives raise ValueError before anything is sent if the reduction is not for the tensor's dtype.
    """

    SUM = "sum"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
