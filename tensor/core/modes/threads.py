"""How many threads operations on the CPU use."""

from __future__ import annotations

import operator
from typing import Any

from drv.host import threads
from drv.host.blas import single_threaded
from drv.host.processors import processor_count

_LIMIT = 1 << 31


class _Interop:
    """What :func:`set_num_interop_threads` was given."""

    count: int | None = None


def set_num_threads(num: int, /) -> None:
    """Let operations on the CPU use up to ``num`` threads of this process, the calling one among them.

    They sleep while there is nothing to do, and operations that are too small for several use one. Results do not
    depend on the number. NumPy's BLAS is given one thread, as these threads share large products: that holds for products
    that the program makes with NumPy itself too. If ``OPENBLAS_NUM_THREADS`` (or ``MKL_NUM_THREADS``, ...) is set, BLAS
    keeps the threads that it says, beside these.

    Without a call there are as many as ``OMP_NUM_THREADS`` says, at most as many as there are processors for this
    process: those of its affinity, and no more than a quota of its control group (as containers have) pays for.
    Workers of a :class:`~tensor.utils.data.DataLoader` have one.

    Raises
    ------
    RuntimeError
        If ``num`` is not a positive integer.
    ValueError
        If it is 2**31 or more.

    Examples
    --------
    >>> before = tensor.get_num_threads()
    >>> tensor.set_num_threads(2)
    >>> tensor.get_num_threads()
    2
    >>> tensor.set_num_threads(before)
    """
    threads.set_thread_count(_positive("set_num_threads", num))
    single_threaded()


def get_num_threads() -> int:
    """How many threads an operation on the CPU uses at most; see :func:`set_num_threads`."""
    return threads.thread_count()


def set_num_interop_threads(num: int, /) -> None:
    """Say how many operations may run at once on the CPU. It is kept, and changes nothing: they run one at a time.

    Raises
    ------
    RuntimeError
        If ``num`` is not a positive integer, or a number was set before.
    ValueError
        If it is 2**31 or more.
    """
    count = _positive("set_num_interop_threads", num)
    if _Interop.count is not None:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads "
            f"called: it was set to {_Interop.count} before; call it once, at the start of the program"
        )
    _Interop.count = count


def get_num_interop_threads() -> int:
    """What :func:`set_num_interop_threads` was given; at first the number of processors for this process."""
    return processor_count() if _Interop.count is None else _Interop.count


def _positive(function: str, argument: Any) -> int:
    try:
        if isinstance(argument, bool):
            raise TypeError
        count = operator.index(argument)
    except TypeError:
        raise RuntimeError(f"{function} expects an int, but got {type(argument).__name__}") from None
    if count <= 0:
        raise RuntimeError(f"{function} expects a positive integer, but got {count}")
    if count >= _LIMIT:
        raise ValueError(
            f"{function} expects less than 2**31 threads, but got {count}: Overflow when unpacking long"
        )
    return count


def set_flush_denormal(mode: bool) -> bool:
    """False: the CPU keeps subnormal numbers, whatever ``mode`` says, as there is no way to tell it from Python.

    Raises
    ------
    RuntimeError
        If ``mode`` is no bool.
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"set_flush_denormal(): mode must be a bool, got {type(mode).__name__}")
    return False
