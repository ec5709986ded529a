"""Matrix products on the host, shared by the process's own threads, with BLAS at one thread each.

Threads of BLAS spin while they wait for each other and for the next product. On a machine with other work, or in a
container with a quota of processor time, they take that time from those who would use it: a training of small
products then lasts ten times as long. The threads of :mod:`drv.host.threads` sleep. So BLAS gets one thread, for the
whole process, and a large product is cut into blocks of rows or columns: results have the same bits for any number of threads.
OpenBLAS, which NumPy's wheels bring, adds up an element of float32 in the same order wherever a large product is cut, if the
processor has AVX-512. There are as many blocks as threads then, since each block packs the other factor once more: with blocks of 128
rows that is a fifth of the time. Other kernels add up the rows at the end of a block in another order, so the shape alone decides where
other products are cut.

Where oneMKL is installed (:mod:`drv.host.mkl`), products are its own from a million multiplications on. It adds up in another order
where a product is cut, so the shape alone decides where, into blocks of more rows, for which it takes no longer than NumPy's BLAS for all.

Who sets ``OPENBLAS_NUM_THREADS``, or the like for another BLAS, has decided otherwise: BLAS then keeps its threads, and
products are not cut.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import mkl
from .threads import share, thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

#: Environment variables by which users say how many threads BLAS has.
_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
#: Multiplications of a block at least: half a millisecond's work or so.
_BLOCK = 1 << 24
#: Rows or columns of a block at least, so that packing the other factor once more for each does not show.
_ROWS = 128
#: The same for oneMKL, and for its factors of half precision, beside whose multiplications packing costs more.
_ROWS_OF_MKL, _ROWS_OF_HALF = 256, 512
#: Processors, as OpenBLAS names them, whose sums of float32 have the same order in all rows of a block. Those of float64 do not,
#: nor do those of float32 on a "Haswell", as processors with AVX2 are called.
_ORDERED = ("SkylakeX",)
#: Blocks of a product at most.
_BLOCKS = 64
#: Multiplications up to which OpenBLAS's kernels of float32 for AVX-512 read factors where they are, rather than pack them first, and
#: columns that these are quick for.
_UNPACKED, _COLUMNS = 1_000_000, 64
_FLOAT32 = np.dtype(np.float32)


class _Blas:
    """What was found out about BLAS when it was first needed.

    Attributes
    ----------
    single : bool, optional
        Whether it has one thread.
    ordered : bool
        Whether the sum of an element of float32 has the same order wherever a large product is cut.
    """

    single: bool | None = None
    ordered = False


def single_threaded() -> bool:
    """Let NumPy's BLAS have one thread, unless the environment says how many; whether it has one.

    Looked up and set with the first call of a process. What calls BLAS calls this before.
    """
    result = _Blas.single
    if result is None:
        from threadpoolctl import ThreadpoolController  # for the first product of a process

        loaded = ThreadpoolController().select(user_api="blas").lib_controllers
        # NumPy's wheels bring one of their own: SciPy's, for instance, is not ours to change.
        libraries = [each for each in loaded if Path(each.filepath).parent.name == "numpy.libs"] or loaded
        if not any(os.environ.get(name) for name in _VARIABLES):
            for library in libraries:
                library.set_num_threads(1)
        _Blas.ordered = bool(libraries) and all(
            each.internal_api == "openblas" and each.architecture in _ORDERED for each in libraries
        )
        result = _Blas.single = all(library.num_threads == 1 for library in libraries)
    return result


def matmul_for(multiplications: int) -> Callable[..., NDArray[Any]]:
    """What multiplies matrices for products of so many multiplications: :func:`multiply` where threads share it.

    Otherwise as :func:`product_for` says.
    """
    return multiply if multiplications >= 2 * _BLOCK else product_for(multiplications)


def product_for(multiplications: int) -> Callable[..., NDArray[Any]]:
    """What multiplies matrices on this thread: :func:`product`, or just ``np.matmul`` where they are small."""
    return product if multiplications >= mkl.LEAST_OF_HALF and mkl.library() is not None else np.matmul


def multiplies(dtype: np.dtype[Any], multiplications: int) -> bool:
    """Whether :func:`product` and :func:`multiply` take matrices of half precision as they are, for a product of float32.

    Parameters
    ----------
    dtype : numpy.dtype
        The factors', ``float16`` or ``bfloat16``.
    multiplications : int
        Rows times depth times columns, of each product of a batch.
    """
    return single_threaded() and mkl.multiplies(dtype, multiplications)


def plan(
    dtype: np.dtype[Any],
    sizes: tuple[int, int, int],
    a: tuple[Sequence[int], Sequence[int]],
    b: tuple[Sequence[int], Sequence[int]],
    step: int,
) -> Callable[..., None] | None:
    """``run(a, b, out, alpha=1.0, beta=0.0)``, with the addresses of matrices, writes ``alpha * a @ b + beta * out``.

    Parameters
    ----------
    dtype : numpy.dtype
        The factors'; that of ``out`` is float32 where this is of half precision.
    sizes : tuple of int
        Rows, depth and columns.
    a, b : pair of sequences of int
        Shapes and strides, in elements.
    step : int
        Elements from row to row of ``out``.

    Returns
    -------
    callable or None
        ``None`` if arrays are to be given to :func:`matmul_for`: NumPy is as quick, or threads share the product.
    """
    multiplications = sizes[0] * sizes[1] * sizes[2]
    if multiplications >= 2 * _BLOCK or not single_threaded() or not mkl.multiplies(dtype, multiplications):
        return None
    first, second = mkl.factor(*a), mkl.factor(*b)
    return None if first is None or second is None else mkl.plan(dtype, sizes, first, second, step)


def product(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """``np.matmul(a, b, out)`` on this thread, by oneMKL where that is installed and quicker.

    Parameters
    ----------
    a, b : ndarray
        Matrices, or batches of them. Those of half precision are multiplied and summed up in float32.
    out : ndarray, optional
        What the product is written to.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    if min(a.ndim, b.ndim) > 1 and mkl.multiplies(a.dtype, a.shape[-2] * a.shape[-1] * b.shape[-1]):
        result = _by_mkl(a, b, out)
        if result is not None:
            return result
    if mkl.is_half(a.dtype):
        a, b = a.astype(np.float32), b.astype(np.float32)
    whole: NDArray[Any] = np.matmul(a, b, out=out)
    return whole


def _result_dtype(factors: np.dtype[Any]) -> np.dtype[Any]:
    return _FLOAT32 if mkl.is_half(factors) else factors


def _by_mkl(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any] | None:
    """What NumPy would make of them, or ``None`` if it is to do so."""
    if not single_threaded():
        return None
    if out is None:
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if max(a.ndim, b.ndim) > 2 else ()
        except ValueError:
            return None
        out = np.empty((*batch, a.shape[-2], b.shape[-1]), _result_dtype(a.dtype))
    elif np.may_share_memory(out, a) or np.may_share_memory(out, b):
        return None
    return out if mkl.multiply(a, b, out) else None


def columns_at_once(rows: int, depth: int, columns: int) -> int:
    """How many columns to multiply few rows of float32 with at a time, where a step's product comes again and again.

    OpenBLAS packs a large factor once more for each product, which takes a third of the time for 32 rows.
    """
    if mkl.multiplies(_FLOAT32, rows * depth * columns):
        return columns
    work = rows * depth * _COLUMNS
    ordered = single_threaded() and _Blas.ordered
    return _COLUMNS if ordered and work <= _UNPACKED < rows * depth * columns else columns


def _blocks(most: int, size: int, dtype: np.dtype[Any], rows: int) -> int:
    """How many blocks there are of so many rows or columns, of at least so many each."""
    result = min(most, size // rows)
    return min(result, thread_count()) if rows == _ROWS and _Blas.ordered and dtype == np.float32 else result


def multiply(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """``np.matmul(a, b, out)``, with threads that share what is large.

    Parameters
    ----------
    a, b, out : ndarray
        As :func:`product` takes them.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    if (
        not single_threaded()
        or min(a.ndim, b.ndim) < 2
        or max(a.size * b.shape[-1], b.size * a.shape[-2]) < 2 * _BLOCK
        or a.dtype != b.dtype
        # BLAS knows of a matrix times its own transpose, which is half the work.
        or np.may_share_memory(a, b)
    ):
        return product(a, b, out)
    rows, depth, columns = *a.shape[-2:], b.shape[-1]
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result: NDArray[Any] = np.empty((*shape, rows, columns), _result_dtype(a.dtype)) if out is None else out
    matmul: Callable[..., Any] = np.matmul
    least = _ROWS
    if mkl.is_half(a.dtype) or mkl.multiplies(a.dtype, rows * depth * columns):
        matmul, least = product, _ROWS_OF_HALF if mkl.is_half(a.dtype) else _ROWS_OF_MKL
    blocks = min(result.size * depth // _BLOCK, _BLOCKS)
    if shape and shape[0] >= blocks:
        count = shape[0]

        def block(start: int, end: int) -> None:
            of_a = a[start:end] if a.ndim == result.ndim and a.shape[0] > 1 else a
            of_b = b[start:end] if b.ndim == result.ndim and b.shape[0] > 1 else b
            matmul(of_a, of_b, out=result[start:end])

    elif rows >= columns:
        count, blocks = rows, _blocks(blocks, rows, a.dtype, least)

        def block(start: int, end: int) -> None:
            matmul(a[..., start:end, :], b, out=result[..., start:end, :])

    else:
        count, blocks = columns, _blocks(blocks, columns, a.dtype, least)

        def block(start: int, end: int) -> None:
            matmul(a, b[..., start:end], out=result[..., start:end])

    blocks = max(blocks, 1)
    share(lambda number: block(number * count // blocks, (number + 1) * count // blocks), blocks)
    return result
