"""Ufuncs whose operands are repeated along or across the rows of another.

NumPy's iterator copies such operands to a buffer of 8192 elements, to go over several rows at a time, unless rows are as long as
the buffer. The copies take as long as the arithmetic; where rows have some hundred elements, a loop for each is quicker.
"""

from __future__ import annotations

import numpy as np

#: Elements of a row from which on a loop of its own costs less than the copies.
_LEAST = 512
#: Elements of NumPy's buffer, and of the smallest that it takes.
_BUFFER, _SMALLEST = 8192, 16


def use_rows_in_place(n: int) -> None:
    """Have ufuncs go over rows of ``n`` elements where they are, until the ``np.errstate`` that this stands in ends.

    Operands of another dtype, which are converted in the buffer, are better without.
    """
    if _LEAST <= n < _BUFFER:
        np.setbufsize(_SMALLEST)
