"""Products of matrices in the host's memory: in which dtype, and by what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.host import blas
from drv.host.addresses import address_of
from tensor.core.dtypes import promotion as rules
from tensor.core.host.memory import LEAST, empty_array
from tensor.core.host.native_loops import address
from tensor.operations.normalization.row_normalization import in_compute_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


class Matrix(NamedTuple):
    """A factor, as a tensor's memory has it.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns in memory, which the tensor's dimensions are put together to.
    strides : tuple of int
        In elements.
    transposed : bool
        Whether the factor is this one's transpose.
    """

    shape: tuple[int, int]
    strides: tuple[int, int]
    transposed: bool = False

    @property
    def as_factor(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shape and strides of the factor."""
        if self.transposed:
            return self.shape[::-1], self.strides[::-1]
        return self.shape, self.strides

    def of(self, array: Array) -> Array:
        """The factor of a tensor's memory."""
        matrix = array.reshape(self.shape)
        return matrix.T if self.transposed else matrix


def rows_of(count: int, size: int, *, transposed: bool = False) -> Matrix:
    """Contiguous rows, of any number of dimensions in the tensor."""
    return Matrix((count, size), (size, 1), transposed)


class HostProduct:
    """How tensors of a dtype are multiplied.

    Attributes
    ----------
    computes_in : dtype
        The dtype that is summed up in, and that of the products.
    reads : dtype
        The dtype of the factors that are multiplied: half precision where the processor and a library can do that.
    matmul : callable
        ``matmul(a, b, out=None)``, as NumPy has it.
    """

    __slots__ = ("_stores", "computes_in", "matmul", "reads")

    def __init__(self, dtype: dtype, multiplications: int, batch: int = 1) -> None:
        self._stores = dtype
        self.computes_in = rules.computes_in(dtype)
        self.reads = dtype if blas.multiplies(dtype.numpy, multiplications) else self.computes_in
        self.matmul = blas.matmul_for(batch * multiplications)

    def factor(self, x: Tensor) -> Array:
        """A tensor's memory, as ``matmul`` takes it."""
        return x._host if self.reads is self._stores else in_compute_dtype(x)


def plan_pair(product: HostProduct, a: Matrix, b: Matrix) -> Callable[[Tensor, Tensor], Array]:
    """``run(a, b)``: the product of two matrices as a new array, of the dtype that is computed in."""
    (rows, depth), (_, columns) = a.as_factor[0], b.as_factor[0]
    shape, dtype, matmul = (rows, columns), product.computes_in.numpy, product.matmul
    direct = blas.plan(product.reads.numpy, (rows, depth, columns), a.as_factor, b.as_factor, columns)
    if direct is not None and product.reads is product._stores:
        multiply = direct

        def run_directly(x: Tensor, y: Tensor) -> Array:
            result = empty_array(shape, dtype)
            multiply(address(x), address(y), address_of(result))
            return result

        return run_directly

    if rows * columns * dtype.itemsize < LEAST and product.reads is product._stores:
        # NumPy makes small arrays by itself.
        def run_small(x: Tensor, y: Tensor) -> Array:
            with np.errstate(all="ignore"):
                return matmul(a.of(x._host), b.of(y._host))

        return run_small

    def run(x: Tensor, y: Tensor) -> Array:
        with np.errstate(all="ignore"):
            return matmul(a.of(product.factor(x)), b.of(product.factor(y)), empty_array(shape, dtype))

    return run
