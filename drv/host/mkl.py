"""Products of matrices by Intel's oneMKL, where the extra ``mkl`` has installed it.

Its kernels take up to a third less time than those of the BLAS that NumPy's wheels bring, for the sizes of layers, and it
multiplies factors of half precision as they are, where the processor can: with instructions for tiles of bfloat16 (AMX) in a fifth
of the time that conversions to float32 and their product take. Its sequential form is loaded, which has no threads of its own:
those of this process share what is large (:mod:`drv.host.blas`).

Functions are called by ``ctypes``, as the documentation of oneMKL's C interface (``mkl_cblas.h``) declares them, with indices of
32 bits.
"""

from __future__ import annotations

import site
import sys
from ctypes import CDLL, c_double, c_float, c_int, c_void_p
from functools import cache
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.environment import mkl_allowed

from .processors import instruction_sets, vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Arguments of ``MKL_Set_Threading_Layer`` and ``MKL_Set_Interface_Layer``.
_SEQUENTIAL, _INDICES_OF_32_BITS = 1, 0
#: Arguments of ``cblas_*gemm*``.
_ROW_MAJOR, _AS_IT_IS, _TRANSPOSED = 101, 111, 112
#: Multiplications from which a call pays: NumPy calls its BLAS in a tenth of the microseconds that ``ctypes`` takes, and that has
#: kernels of its own for small matrices; factors of half precision need not be converted.
_LEAST, LEAST_OF_HALF = 1 << 20, 1 << 17
#: Functions by dtype of the factors: the name, and what the processor has to have, so that it is the quicker way.
_HALF = {
    "bfloat16": ("cblas_gemm_bf16bf16f32", "avx512_bf16"),
    "float16": ("cblas_gemm_f16f16f32", "avx512_fp16"),
}
_FULL = {"float32": ("cblas_sgemm", c_float), "float64": ("cblas_dgemm", c_double)}
#: What is behind the name of a function that multiplies many matrices, each as far from the one before.
_OF_BATCH = "_batch_strided"


class Factor(NamedTuple):
    """How a matrix lies in memory.

    Attributes
    ----------
    transposed : bool
        Whether columns, in place of rows, are what lies next to each other.
    step : int
        Elements from row to row, or from column to column.
    """

    transposed: bool
    step: int


def factor(shape: Sequence[int], strides: Sequence[int]) -> Factor | None:
    """How a matrix of a shape and strides, in elements, lies in memory; ``None`` where neither rows nor columns are contiguous."""
    (rows, columns), (down, right) = shape, strides
    if right == 1 and down >= columns:
        return Factor(False, down)
    if down == 1 and right >= rows:
        return Factor(True, right)
    return None


@cache
def library() -> Any:
    """The library, loaded and set up when first asked for; ``None`` where it is not installed, or not to be used.

    It is not used if another part of the process has set it up for threads before.
    """
    if not mkl_allowed():
        return None
    for path in _candidates():
        try:
            loaded = CDLL(str(path))
        except OSError:
            continue
        if loaded.MKL_Set_Threading_Layer(_SEQUENTIAL) != _SEQUENTIAL:
            return None
        if loaded.MKL_Set_Interface_Layer(_INDICES_OF_32_BITS) != _INDICES_OF_32_BITS:
            return None
        return loaded
    return None


def _candidates() -> Iterator[Path]:
    """Where packages have put the library's dispatching form, the newest version first."""
    for root in dict.fromkeys((sys.prefix, site.getuserbase(), sys.base_prefix)):
        yield from sorted(Path(root, "lib").glob("libmkl_rt.so*"), reverse=True)


@cache
def _function(dtype: np.dtype[Any], *, batch: bool = False) -> Callable[..., None] | None:
    """The product of factors of a dtype, or those of a batch; ``None`` if NumPy's is as good, or there is no such function."""
    name = dtype.name
    if name in _HALF:
        symbol, instructions = _HALF[name]
        scalar: Any = c_float
        if instructions not in instruction_sets():
            return None
    elif name in _FULL and vendor() == "GenuineIntel":
        symbol, scalar = _FULL[name]
    else:
        return None
    function = getattr(library(), symbol + _OF_BATCH if batch else symbol, None)
    if function is not None:
        function.restype = None
        matrix = (c_void_p, c_int, c_int) if batch else (c_void_p, c_int)
        function.argtypes = [*[c_int] * 6, scalar, *matrix, *matrix, scalar, *matrix, *[c_int] * batch]
    result: Callable[..., None] | None = function
    return result


@cache
def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of half precision."""
    return dtype.name in _HALF


def multiplies(dtype: np.dtype[Any], multiplications: int) -> bool:
    """Whether products of matrices of a dtype, with so many multiplications each, are left to the library.

    Parameters
    ----------
    dtype : numpy.dtype
        The factors'. Of half precision, the product is of float32; what is smaller than the least normal number counts as zero
        where bfloat16's instructions say so.
    multiplications : int
        Rows times depth times columns.
    """
    least = LEAST_OF_HALF if is_half(dtype) else _LEAST
    return multiplications >= least and _function(dtype) is not None


def plan(
    dtype: np.dtype[Any], sizes: tuple[int, int, int], a: Factor, b: Factor, step: int
) -> Callable[..., None] | None:
    """``run(a, b, out, alpha=1.0, beta=0.0)``, with the addresses of matrices, writes ``alpha * a @ b + beta * out`` on this thread.

    Parameters
    ----------
    dtype : numpy.dtype
        The factors'; that of ``out`` is float32 where this is of half precision.
    sizes : tuple of int
        Rows, depth and columns.
    a, b : Factor
        How the factors lie in memory.
    step : int
        Elements from row to row of ``out``.

    Returns
    -------
    callable or None
        ``None`` if NumPy's products are as good.
    """
    rows, depth, columns = sizes
    function = _function(dtype) if multiplies(dtype, rows * depth * columns) else None
    if function is None or max(a.step, b.step, step, *sizes) >= 1 << 31:
        return None
    multiply = function
    of_a, of_b = (_TRANSPOSED if each.transposed else _AS_IT_IS for each in (a, b))
    a_step, b_step = a.step, b.step

    def run(a: int, b: int, out: int, alpha: float = 1.0, beta: float = 0.0) -> None:
        multiply(_ROW_MAJOR, of_a, of_b, rows, columns, depth, alpha, a, a_step, b, b_step, beta, out, step)

    return run


def multiply(a: Array, b: Array, out: Array) -> bool:
    """Write the products of matrices, on this thread, and tell whether that was possible.

    Parameters
    ----------
    a, b : ndarray
        Of shapes (..., rows, depth) and (..., depth, columns), which are stretched to those of ``out``.
    out : ndarray
        Of shape (..., rows, columns), of the factors' dtype, or of float32 where that is of half precision. It must not overlap
        the factors.

    Returns
    -------
    bool
        False, and nothing was done, if shapes or dtypes do not fit, if NumPy is as quick, if the elements of a matrix are not next to
        each other along one of its dimensions, or if a matrix of full precision is multiplied by its own transpose, which is half the
        work for NumPy.
    """
    (rows, depth), columns, batch = a.shape[-2:], b.shape[-1], out.shape[:-2]
    if a.dtype != b.dtype or out.dtype != (np.float32 if is_half(a.dtype) else a.dtype):
        return False
    if b.shape[-2] != depth or out.shape[-2:] != (rows, columns):
        return False
    first, second, result = _lies(a), _lies(b), _lies(out)
    if first is None or second is None or result is None or result.transposed:
        return False
    at = a.ctypes.data, b.ctypes.data, out.ctypes.data
    if at[0] == at[1] and first != second and not is_half(a.dtype):
        return False
    run = plan(a.dtype, (rows, depth, columns), first, second, result.step)
    if run is None:
        return False
    if not batch:
        run(*at)
        return True
    try:
        steps = [np.broadcast_to(each, (*batch, *each.shape[-2:])).strides[:-2] for each in (a, b, out)]
    except ValueError:
        return False
    if not _run_batch(a.dtype, (rows, depth, columns), (first, second, result), at, batch, steps):
        for index in np.ndindex(batch):
            run(*(start + sum(map(mul, index, strides)) for start, strides in zip(at, steps, strict=True)))
    return True


def _run_batch(
    dtype: np.dtype[Any],
    sizes: tuple[int, int, int],
    matrices: tuple[Factor, Factor, Factor],
    addresses: tuple[int, ...],
    batch: tuple[int, ...],
    steps: Sequence[tuple[int, ...]],
) -> bool:
    """Multiply matrices that lie equally far from each other, in one call; whether they do and there is one."""
    function = _function(dtype, batch=True)
    dimensions = [number for number, size in enumerate(batch) if size != 1]
    if function is None or len(dimensions) != 1:
        return False
    (dimension,) = dimensions
    apart = [divmod(each[dimension], dtype.itemsize) for each in steps]
    if any(rest or not 0 < step < 1 << 31 for step, rest in apart):
        return False
    rows, depth, columns = sizes
    of_a, of_b = (_TRANSPOSED if each.transposed else _AS_IT_IS for each in matrices[:2])
    a, b, out = (
        (address, how.step, step) for address, how, (step, _) in zip(addresses, matrices, apart, strict=True)
    )
    function(_ROW_MAJOR, of_a, of_b, rows, columns, depth, 1.0, *a, *b, 0.0, *out, batch[dimension])
    return True


def _lies(matrices: Array) -> Factor | None:
    size = matrices.itemsize
    (down, gap), (right, rest) = (divmod(each, size) for each in matrices.strides[-2:])
    return None if gap or rest else factor(matrices.shape[-2:], (down, right))


def verbose(enabled: bool) -> None:
    """Say whether the library writes a line to the standard output for each of its calls."""
    loaded = library()
    if loaded is not None:
        loaded.MKL_Verbose(int(enabled))
