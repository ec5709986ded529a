"""What the simulated cuBLASLt does to a product before it stores it: biases, activations, and the gradients of both.

All of it is computed on the accumulated product, in float32 or wider. Where NVIDIA's documentation leaves something open:

- Gelu is ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``, to the accuracy of the type that it is computed in.
- Relu of NaN is 0, as of C's ``fmaxf``: what relies on more than ``max(x, 0)`` shows.
- A bit of relu's mask says that an element is above 0; the first of a byte's bits is the lowest. A column's bits are written
  and read in whole pieces of 128.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.bindings.cublaslt import cublasLtEpilogue_t as Epilogue

from .cublas_state import NOT_SUPPORTED, refuse_value
from .library_call import Refusal
from .matrix_products import DTYPES
from .strided_memory import load, store

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.memory.library_memory import LibraryMemory

    from .cublas_products import Product

    Array = NDArray[Any]

#: Bits of an epilogue's number.
_RELU, _BIAS, _RELU_SLOPE, _SUMS, _GELU, _GELU_SLOPE, _AUX, _SUMS_OF_A, _SUMS_OF_B = (
    1 << position for position in range(1, 10)
)
#: What the leading dimension of a mask is a multiple of, in bits, and that of gelu's input, in elements.
_MASK_STEP, _INPUT_STEP = 128, 8
#: What addresses of auxiliary matrices are multiples of, in bytes.
_ALIGNMENT = 16
_SCALE, _CUBIC = float(np.sqrt(2 / np.pi)), 0.044715


@dataclass(frozen=True, slots=True)
class Finish:
    """A checked epilogue, but for its addresses.

    Attributes
    ----------
    number : int
        A ``cublasLtEpilogue_t``.
    leading : int
        Of the auxiliary matrix: bits for relu, elements for gelu; 0 without one.
    """

    number: int
    leading: int = 0

    @classmethod
    def of(cls, number: int, product: Product, result: int, leading: int, batch: int, dtype: int) -> Finish:
        """The epilogue of a product to a ``result`` type, with the attributes of its auxiliary matrix.

        Raises
        ------
        Refusal
            If cuBLASLt would refuse it, or it is not simulated.
        """
        if number not in tuple(Epilogue):
            raise Refusal(NOT_SUPPORTED, f"epilogue {number} is not simulated")
        if number & (_RELU | _RELU_SLOPE | _GELU | _GELU_SLOPE) and product.c.dtype.kind in "ciu":
            raise Refusal(NOT_SUPPORTED, f"{Epilogue(number).name} of {DTYPES[result].name}")
        if not number & _AUX:
            return cls(number)
        rows = product.c.shape[1]
        is_mask = bool(number & (_RELU | _RELU_SLOPE))
        step, unit = (_MASK_STEP, "bits") if is_mask else (_INPUT_STEP, "elements")
        if leading % step or leading < rows:
            raise refuse_value(
                f"CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD is {leading} {unit}: it must be a multiple of {step}, and not below the "
                f"{rows} rows of the result"
            )
        if batch % step:
            raise refuse_value(
                f"CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE is {batch} {unit}: it must be a multiple of {step}"
            )
        if dtype not in (-1, result):
            raise refuse_value(
                "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE is another type than the result's, which is not supported for it"
            )
        return cls(number, leading)

    @property
    def name(self) -> str:
        """What a report says of it, with a space before it."""
        if self.number == Epilogue.CUBLASLT_EPILOGUE_DEFAULT:
            return ""
        if self.number in (_SUMS_OF_A, _SUMS_OF_B):
            return " bias gradient"
        return Epilogue(self.number).name.removeprefix("CUBLASLT_EPILOGUE").replace("_", " ").lower()

    def check_addresses(self, vector: int, auxiliary: int) -> None:
        """Refuse addresses that are missing or not aligned."""
        if self.number & (_BIAS | _SUMS | _SUMS_OF_A | _SUMS_OF_B) and not vector:
            raise refuse_value("the epilogue needs CUBLASLT_MATMUL_DESC_BIAS_POINTER, which is null")
        if self.number & _AUX and not auxiliary:
            raise refuse_value("the epilogue needs CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, which is null")
        if self.number & _AUX and auxiliary % _ALIGNMENT:
            raise refuse_value(
                f"CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER {auxiliary:#x} is not aligned to {_ALIGNMENT} bytes"
            )

    def nbytes(self, product: Product) -> int:
        """Bytes of the auxiliary matrix that are read or written."""
        _, m, n = product.c.shape
        if not self.number & _AUX:
            return 0
        if self.number & (_RELU | _RELU_SLOPE):
            return -(-m // _MASK_STEP) * _MASK_STEP // 8 * n
        return m * n * product.c.dtype.itemsize

    def applied(
        self, memory: LibraryMemory, product: Product, total: Array, vector: int, auxiliary: int
    ) -> Array:
        """What is stored for the accumulated ``(1, m, n)`` product; what goes elsewhere than to the result is stored here."""
        number = self.number
        if number & (_RELU | _GELU | _RELU_SLOPE | _GELU_SLOPE):
            total = total.astype(np.result_type(total.dtype, np.float32), copy=False)
        if number & _BIAS:
            rows = product.c.shape[1]
            bias = load(memory, vector, product.c.dtype, (1, rows, 1), (0, 1, 0))
            total = total + bias.astype(total.dtype)
        if number & _GELU:
            if number & _AUX:
                store(memory, auxiliary, total.astype(product.rule.output), (0, 1, self.leading))
            total = total * _gelu_factor(total)
        elif number & _RELU:
            if number & _AUX:
                self._store_mask(memory, auxiliary, total[0] > 0)
            total = np.fmax(total, total.dtype.type(0))
        elif number & _RELU_SLOPE:
            total = np.where(self._load_mask(memory, auxiliary, total.shape[1:]), total, total.dtype.type(0))
        elif number & _GELU_SLOPE:
            x = load(memory, auxiliary, product.c.dtype, total.shape, (0, 1, self.leading))
            total = total * _gelu_slope(x.astype(total.dtype))
        if number & _SUMS:
            store(memory, vector, total.sum(2)[0].astype(product.rule.output), (1,))
        return total

    def sum_factor(
        self, memory: LibraryMemory, product: Product, left: Array, right: Array, vector: int
    ) -> None:
        """Store the sums of a factor over ``k``, where that is the epilogue."""
        if self.number & (_SUMS_OF_A | _SUMS_OF_B):
            factor, axis = (left, 2) if self.number & _SUMS_OF_A else (right, 1)
            sums = factor.astype(product.rule.work).sum(axis)[0]
            store(memory, vector, sums.astype(product.rule.output), (1,))

    def _store_mask(self, memory: LibraryMemory, address: int, mask: Array) -> None:
        m, n = mask.shape
        padded = np.zeros((n, -(-m // _MASK_STEP) * _MASK_STEP), bool)
        padded[:, :m] = mask.T
        store(memory, address, np.packbits(padded, axis=1, bitorder="little"), (self.leading // 8, 1))

    def _load_mask(self, memory: LibraryMemory, address: int, shape: tuple[int, ...]) -> Array:
        m, n = shape
        nbytes = -(-m // _MASK_STEP) * _MASK_STEP // 8
        packed = load(memory, address, np.dtype(np.uint8), (n, nbytes), (self.leading // 8, 1))
        bits = np.unpackbits(np.ascontiguousarray(packed), axis=1, count=m, bitorder="little")
        result: Array = bits.T.astype(bool)
        return result


def _gelu_factor(x: Array) -> Array:
    """``(1 + tanh(u)) / 2`` as ``1 / (1 + exp(-2 * u))``, which does not cancel where ``u`` is negative."""
    number = x.dtype.type
    result: Array = 1 / (1 + np.exp(number(-2 * _SCALE) * (x + number(_CUBIC) * x * x * x)))
    return result


def _gelu_slope(x: Array) -> Array:
    number, s = x.dtype.type, _gelu_factor(x)
    result: Array = s + x * s * (1 - s) * number(2 * _SCALE) * (1 + number(3 * _CUBIC) * x * x)
    return result
