"""Matrix products with the rounding rules of cuBLAS.

What is modelled, and how:

- float32, float64 and complex inputs are multiplied and accumulated in their own type.
- TF32 rounds float32 inputs (and the parts of complex ones) to 10 mantissa bits, to nearest with ties away from zero,
  as ``cvt.rna.tf32.f32`` does, and accumulates in float32. ``COMPUTE_32F_FAST_16F`` allows float16 or TF32 and is
  taken as TF32; ``COMPUTE_32F_FAST_16BF`` rounds to bfloat16.
- float16 and bfloat16 inputs have exact products in float32, where they are accumulated; the result is rounded once.
- ``COMPUTE_16F`` rounds the accumulator to float16 after every 16 products, which is what one tensor-core instruction
  takes, and after every product in the pedantic form.
- int8 products are exact; the int32 result wraps around.

The order of accumulation is that of NumPy's BLAS, which sums in blocks: a float32 product of 1024 terms is off by
3e-6 of the mean magnitude at most, where sums in order, as a GPU may take them, are off by 8.5e-6 (and by about
4e-5 for 10240 terms). To model that takes 50 times as long. Splitting a product along ``k``, with partial sums in the
output type, is not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from drv.bindings.cublas import cublasComputeType_t as Compute
from drv.bindings.cublas import cublasMath_t as Math
from drv.bindings.library_types import cudaDataType as Type
from drv.host.blas import multiply

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Element types in memory.
DTYPES: dict[int, np.dtype[Any]] = {
    Type.CUDA_R_16F: np.dtype(np.float16),
    Type.CUDA_R_16BF: np.dtype(ml_dtypes.bfloat16),
    Type.CUDA_R_32F: np.dtype(np.float32),
    Type.CUDA_R_64F: np.dtype(np.float64),
    Type.CUDA_C_32F: np.dtype(np.complex64),
    Type.CUDA_C_64F: np.dtype(np.complex128),
    Type.CUDA_R_8I: np.dtype(np.int8),
    Type.CUDA_R_32I: np.dtype(np.int32),
}

#: What device units compute types in, where inputs are not rounded.
_UNITS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "f32",
    "complex128": "f64",
    "int8": "s8",
}

_HALF, _BFLOAT, _SINGLE, _DOUBLE = Type.CUDA_R_16F, Type.CUDA_R_16BF, Type.CUDA_R_32F, Type.CUDA_R_64F
_COMPLEX, _DOUBLE_COMPLEX = Type.CUDA_C_32F, Type.CUDA_C_64F

_IN_SINGLE: dict[tuple[int, int], Type] = {
    (_HALF, _HALF): _SINGLE,
    (_HALF, _SINGLE): _SINGLE,
    (_BFLOAT, _BFLOAT): _SINGLE,
    (_BFLOAT, _SINGLE): _SINGLE,
    (Type.CUDA_R_8I, _SINGLE): _SINGLE,
    (_SINGLE, _SINGLE): _SINGLE,
    (_COMPLEX, _COMPLEX): _COMPLEX,
}
_SINGLE_ONLY: dict[tuple[int, int], Type] = {(_SINGLE, _SINGLE): _SINGLE, (_COMPLEX, _COMPLEX): _COMPLEX}
_IN_DOUBLE: dict[tuple[int, int], Type] = {
    (_DOUBLE, _DOUBLE): _DOUBLE,
    (_DOUBLE_COMPLEX, _DOUBLE_COMPLEX): _DOUBLE_COMPLEX,
}
_IN_HALF: dict[tuple[int, int], Type] = {(_HALF, _HALF): _HALF}
_IN_INTEGERS: dict[tuple[int, int], Type] = {(Type.CUDA_R_8I, Type.CUDA_R_32I): Type.CUDA_R_32I}

#: For each compute type: types of the inputs and the output, and the type of ``alpha`` and ``beta`` with them.
SUPPORTED: dict[int, dict[tuple[int, int], Type]] = {
    Compute.CUBLAS_COMPUTE_16F: _IN_HALF,
    Compute.CUBLAS_COMPUTE_16F_PEDANTIC: _IN_HALF,
    Compute.CUBLAS_COMPUTE_32F: _IN_SINGLE,
    Compute.CUBLAS_COMPUTE_32F_PEDANTIC: _IN_SINGLE,
    Compute.CUBLAS_COMPUTE_32F_FAST_16F: _SINGLE_ONLY,
    Compute.CUBLAS_COMPUTE_32F_FAST_16BF: _SINGLE_ONLY,
    Compute.CUBLAS_COMPUTE_32F_FAST_TF32: _SINGLE_ONLY,
    Compute.CUBLAS_COMPUTE_64F: _IN_DOUBLE,
    Compute.CUBLAS_COMPUTE_64F_PEDANTIC: _IN_DOUBLE,
    Compute.CUBLAS_COMPUTE_32I: _IN_INTEGERS,
    Compute.CUBLAS_COMPUTE_32I_PEDANTIC: _IN_INTEGERS,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of product is computed.

    ``scale`` is the type of ``alpha`` and ``beta``; ``work`` the NumPy type in which the product is accumulated;
    ``round_inputs`` what is done to the inputs first; ``chunk`` after how many products a float16 accumulator is
    rounded, or 0.
    """

    scale: Type
    work: np.dtype[Any]
    output: np.dtype[Any]
    round_inputs: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    chunk: int = 0

    def unit(self, inputs: np.dtype[Any]) -> str:
        """In what a device computes it, for factors of type ``inputs``: see :class:`~.simulated_library.ProductCost`."""
        if self.round_inputs is not None:
            unit = "bf16" if self.round_inputs is round_to_bfloat16 else "tf32"
        else:
            unit = _UNITS[inputs.name]
        return f"c{unit}" if inputs.kind == "c" else unit

    def multiply(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        """``a @ b`` in the accumulation's type; ``a`` is ``(batch, m, k)``, ``b`` ``(batch, k, n)``."""
        if self.chunk:
            return _multiply_half(a.astype(np.float32), b.astype(np.float32), self.chunk)
        if self.round_inputs is not None:
            a, b = self.round_inputs(a), self.round_inputs(b)
        return multiply(a.astype(self.work, copy=False), b.astype(self.work, copy=False))

    def combine(
        self, alpha: Any, product: NDArray[Any] | None, beta: Any, c: NDArray[Any] | None
    ) -> NDArray[Any]:
        """``alpha * product + beta * c``, rounded to the output's type; ``None`` stands for a term left out."""
        result: NDArray[Any] = self.total(alpha, product, beta, c).astype(self.output, copy=False)
        return result

    def total(
        self, alpha: Any, product: NDArray[Any] | None, beta: Any, c: NDArray[Any] | None
    ) -> NDArray[Any]:
        """The same before it is rounded."""
        # int32 results wrap around, which int64 arithmetic keeps exact.
        work = np.dtype(np.int64) if self.output == np.int32 else self.work
        terms = [
            factor * term.astype(work, copy=False)
            for factor, term in ((alpha, product), (beta, c))
            if term is not None
        ]
        result: NDArray[Any] = terms[0] if len(terms) == 1 else terms[0] + terms[1]
        return result


def product_rule(inputs: int, output: int, compute: int, math_mode: int) -> Rule | None:
    """The rule for a product of these types, or ``None`` where cuBLAS does not support them."""
    scale = SUPPORTED.get(compute, {}).get((inputs, output))
    if scale is None:
        return None
    out = DTYPES[output]
    if scale == Type.CUDA_R_32I:
        return Rule(scale, np.dtype(np.float64), out)
    if scale == Type.CUDA_R_16F:
        return Rule(
            scale, np.dtype(np.float32), out, chunk=16 if compute == Compute.CUBLAS_COMPUTE_16F else 1
        )
    return Rule(scale, DTYPES[scale], out, _input_rounding(inputs, compute, math_mode))


def _input_rounding(
    inputs: int, compute: int, math_mode: int
) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    if inputs not in (_SINGLE, _COMPLEX):
        return None
    if compute == Compute.CUBLAS_COMPUTE_32F_FAST_16BF:
        return round_to_bfloat16
    base_mode = math_mode & ~Math.CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
    allowed = compute == Compute.CUBLAS_COMPUTE_32F and base_mode == Math.CUBLAS_TF32_TENSOR_OP_MATH
    fast = compute in (Compute.CUBLAS_COMPUTE_32F_FAST_TF32, Compute.CUBLAS_COMPUTE_32F_FAST_16F)
    return round_to_tf32 if allowed or fast else None


def round_to_tf32(values: NDArray[Any]) -> NDArray[Any]:
    """float32 or complex64 numbers to 10 mantissa bits, to nearest, ties away from zero. NaN stays NaN."""
    single = np.ascontiguousarray(values).view(np.float32)
    bits = (single.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    rounded = bits.view(np.float32)
    # Adding to the bits of a NaN can turn it into a number.
    np.copyto(rounded, single, where=np.isnan(single))
    return rounded.view(values.dtype)


def round_to_bfloat16(values: NDArray[Any]) -> NDArray[Any]:
    """float32 or complex64 numbers to the nearest bfloat16, in the type that they have."""
    single = np.ascontiguousarray(values).view(np.float32)
    return single.astype(ml_dtypes.bfloat16).astype(np.float32).view(values.dtype)


def _multiply_half(a: NDArray[np.float32], b: NDArray[np.float32], chunk: int) -> NDArray[np.float32]:
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    total = np.zeros((*shape, a.shape[-2], b.shape[-1]), np.float32)
    for start in range(0, a.shape[-1], chunk):
        total += multiply(a[..., start : start + chunk], b[..., start : start + chunk, :])
        total = total.astype(np.float16).astype(np.float32)
    return total


def operate(matrix: NDArray[Any], operation: int) -> NDArray[Any]:
    """``op(matrix)`` of matrices ``(..., rows, columns)``: as it is (0), transposed (1), or also conjugated (2)."""
    if operation == 0:
        return matrix
    transposed = matrix.swapaxes(-1, -2)
    return transposed.conj() if operation == 2 and matrix.dtype.kind == "c" else transposed


def solve_triangular(matrix: NDArray[Any], right: NDArray[Any], *, lower: bool, unit: bool) -> NDArray[Any]:
    """``x`` with ``matrix @ x == right`` by substitution; ``matrix`` ``(n, n)``, ``right`` ``(n, columns)``.

    The other triangle, and the diagonal when ``unit``, do not count. A zero on the diagonal gives inf and NaN.
    """
    n = len(matrix)
    x = right.copy()
    for i in range(n) if lower else range(n - 1, -1, -1):
        done = slice(0, i) if lower else slice(i + 1, n)
        x[i] -= matrix[i, done] @ x[done]
        if not unit:
            x[i] /= matrix[i, i]
    return x
