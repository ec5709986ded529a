"""Products through cuBLASLt, which do in one launch what cuBLAS needs another one for.

A bias is added and an activation applied before the result is rounded and stored, or the sums of a factor, which are the gradient
of a bias, are stored beside the product. A product that is the gradient of an activation's result becomes that of its input, of
which the sums are such a gradient, too. What a product is described by belongs to the thread's handle of cuBLAS, as addresses are
set in it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drv.bindings.cublaslt import HeuristicResult
from drv.bindings.cublaslt import cublasLtEpilogue_t as Epilogue
from drv.bindings.cublaslt import cublasLtMatmulDescAttributes_t as Desc
from drv.bindings.cublaslt import cublasLtMatmulPreferenceAttributes_t as Preference
from drv.bindings.cublaslt import cublasLtReductionScheme_t as Reduction
from drv.errors import InvalidValueError, LibraryNotInstalledError, NotSupportedError
from tensor.core.modes.precision import settings

from .blas import TYPES, Precision, handle_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Runtime
    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import CudaState

    from .blas import Factor, Handle

BIAS = int(Epilogue.CUBLASLT_EPILOGUE_BIAS)
#: The sums of the first factor's columns; cuBLAS, which computes the transposes, calls it B.
SUMS_OF_FIRST = int(Epilogue.CUBLASLT_EPILOGUE_BGRADB)
#: Activations, by whether a bias is added before. Nothing says what the library's relu makes of NaN.
RELU = {False: int(Epilogue.CUBLASLT_EPILOGUE_RELU), True: int(Epilogue.CUBLASLT_EPILOGUE_RELU_BIAS)}
#: Gelu by tanh.
GELU = {False: int(Epilogue.CUBLASLT_EPILOGUE_GELU), True: int(Epilogue.CUBLASLT_EPILOGUE_GELU_BIAS)}
#: The same, and its input is stored too.
GELU_AND_INPUT = {
    False: int(Epilogue.CUBLASLT_EPILOGUE_GELU_AUX),
    True: int(Epilogue.CUBLASLT_EPILOGUE_GELU_AUX_BIAS),
}
#: The gradient of gelu's input, where the product is that of its result, by whether the sums of its columns are stored.
GELU_GRADIENT = {
    False: int(Epilogue.CUBLASLT_EPILOGUE_DGELU),
    True: int(Epilogue.CUBLASLT_EPILOGUE_DGELU_BGRAD),
}
_WITH_INPUT = (*GELU_AND_INPUT.values(), *GELU_GRADIENT.values())
#: What columns of gelu's input are a multiple of.
_INPUT_COLUMNS = 8
#: What addresses are multiples of, in bytes.
ALIGNMENT = 16
#: The same of memory as it is allocated, which algorithms are asked for first.
_ALLOCATED = 256
_ALIGNMENT_ATTRIBUTES = tuple(each for each in Preference if "_ALIGNMENT_" in each.name)
_IN_COMPUTE_TYPE = (
    Reduction.CUBLASLT_REDUCTION_SCHEME_INPLACE | Reduction.CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
)
#: Descriptions that a handle has at most.
_MOST = 1024
_WIDTHS = ("float16", "bfloat16", "float32")


def product(
    device_state: CudaState,
    dtype: dtype,
    sizes: tuple[int, int, int],
    factors: tuple[Factor, Factor, Factor],
    epilogue: int,
    *,
    tf32: str = "matmul_tf32",
    output: dtype | None = None,
) -> Callable[..., bool] | None:
    """``run(c, a, b, vector=0, input=0, alpha=1)``: ``C = epilogue(alpha * A @ B)``, for addresses; whether it was possible.

    It runs on the current stream of the thread that calls it, as precisely as the settings say then. Where it is not
    possible nothing has been done: the library has no algorithm for it, or addresses are not aligned.

    Parameters
    ----------
    sizes
        Rows of A, columns of B, columns of A.
    factors
        How A, B and C are read; C is row-major.
    epilogue
        :data:`BIAS` (the vector, an element for each column of C, is added to its rows), :data:`SUMS_OF_FIRST` (the vector,
        an element for each row of C, becomes the sums of A's columns), or one of :data:`RELU`, :data:`GELU`,
        :data:`GELU_AND_INPUT` and :data:`GELU_GRADIENT` (the vector, an element for each column of C, becomes the sums of
        these), of which the last two write and read the input of gelu, a contiguous matrix of C's shape.
    output
        Type of C and the vector, where it is another one than that of the factors.

    Returns
    -------
    callable or None
        ``None`` where the library is missing, or never does that.
    """
    m, n, k = sizes
    if dtype.name not in _WIDTHS or min(sizes) < 2:
        return None
    library = _library(device_state.runtime)
    leading = n if epilogue in _WITH_INPUT else 0
    if library is None or leading % _INPUT_COLUMNS:
        return None
    a, b, c = factors
    data = int(TYPES[dtype.name])
    result = data if output is None else int(TYPES[output.name])
    precision = Precision(dtype, tf32, widened=result != data)
    now, reduction = precision.now, precision.reduction
    multiply, local = library.cublasLtMatmul, device_state.local
    native, current = device_state.native, device_state.runtime.current
    # Row-major matrices are the transposes of what cuBLAS sees: it computes the transpose of the product.
    matrices = (
        (data, *((k, n) if b.transposed else (n, k)), b.leading),
        (data, *((m, k) if a.transposed else (k, m)), a.leading),
        (result, n, m, c.leading),
    )
    question = _Question(library, epilogue, (int(b.transposed), int(a.transposed)), matrices, leading)

    def run(
        c_address: int, a_address: int, b_address: int, vector: int = 0, input: int = 0, alpha: float = 1
    ) -> bool:
        together = c_address | a_address | b_address | vector | input
        if together % ALIGNMENT:
            return False
        blas = local.blas
        if blas is None or blas.stream is not local.stream or current.device is not native:
            blas = handle_for(device_state)
        compute, scalar = now()
        key = question, compute, together % _ALLOCATED == 0, reduction is None or getattr(settings, reduction)
        described = blas.described.get(key)
        if described is None:
            described = _describe(blas, key, scalar, vector, input)
        if not described.algorithm:
            return False
        if described.vector != vector:
            described.point(vector)
        if described.input != input:
            described.point_input(input)
        one, zero = blas.one_and_zero[scalar]
        if alpha != 1:
            number = blas.scalars[scalar][0]
            number.value, one = alpha, number.address
        first, second, third = described.matrices
        multiply(
            blas.handle, described.operation, one, b_address, first, a_address, second, zero, c_address, third,
            c_address, third, described.algorithm, *blas.workspace, blas.stream_address,
        )  # fmt: skip
        return True

    return run


def _library(runtime: Runtime) -> Any:
    """cuBLASLt; ``None`` where it is missing, which is looked for once."""

    def find() -> Any:
        try:
            return runtime.library("cublasLt")
        except LibraryNotInstalledError:
            return None

    return runtime.cache("cublasLt, if it is there", find)


@dataclass(slots=True, eq=False, frozen=True)
class _Question:
    """What a product is, but for what the settings and the addresses say."""

    library: Any
    epilogue: int
    transposed: tuple[int, int]
    matrices: tuple[tuple[int, int, int, int], ...]
    #: Elements between the rows of gelu's input; 0 where it is of no matter.
    leading: int


class Described:
    """An operation and matrices as cuBLASLt knows them, with an algorithm.

    Attributes
    ----------
    operation : int
        The description of the operation.
    matrices : tuple of int
        Those of the factors and the result.
    algorithm : int
        Address of the algorithm; 0 where there is none.
    vector, input : int
        Addresses of the epilogue's vector, and of gelu's input.
    """

    __slots__ = ("_library", "_pointer", "_result", "algorithm", "input", "matrices", "operation", "vector")

    def __init__(self, library: Any, operation: int, matrices: tuple[int, ...]) -> None:
        self._library = library
        self.operation = operation
        self.matrices = matrices
        self.algorithm = self.vector = self.input = 0
        self._result = HeuristicResult()
        self._pointer = ctypes.c_uint64()

    def point(self, address: int) -> None:
        """Have the epilogue's vector at an address."""
        self.vector = self._pointer.value = address
        self.set(Desc.CUBLASLT_MATMUL_DESC_BIAS_POINTER, self._pointer)

    def point_input(self, address: int) -> None:
        """Have the input of gelu at an address."""
        self.input = self._pointer.value = address
        self.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, self._pointer)

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute of the operation to a ctypes value."""
        self._library.cublasLtMatmulDescSetAttribute(
            self.operation, int(attribute), ctypes.addressof(value), ctypes.sizeof(value)
        )

    def choose(self, handle: int, preference: int) -> None:
        """Ask for an algorithm."""
        first, second, third = self.matrices
        try:
            number = self._library.cublasLtMatmulAlgoGetHeuristic(
                handle, self.operation, first, second, third, third, preference, 1, ctypes.addressof(self._result)
            )  # fmt: skip
        except (NotSupportedError, InvalidValueError):
            # A version of the library may know less than this one asks for.
            return
        if number and self._result.state == 0:
            self.algorithm = ctypes.addressof(self._result)

    def destroy(self) -> None:
        """Give the descriptions back."""
        self._library.cublasLtMatmulDescDestroy(self.operation)
        for each in self.matrices:
            self._library.cublasLtMatrixLayoutDestroy(each)


def _describe(
    blas: Handle, key: tuple[_Question, int, bool, bool], scalar: int, vector: int, input: int
) -> Described:
    question, compute, is_allocated, reduced = key
    library = question.library
    if len(blas.described) >= _MOST:
        for each in blas.described.values():
            each.destroy()
        blas.described.clear()
    result = Described(
        library,
        library.cublasLtMatmulDescCreate(compute, scalar),
        tuple(library.cublasLtMatrixLayoutCreate(*matrix) for matrix in question.matrices),
    )
    first_transposed, second_transposed = question.transposed
    result.set(Desc.CUBLASLT_MATMUL_DESC_TRANSA, ctypes.c_int32(first_transposed))
    result.set(Desc.CUBLASLT_MATMUL_DESC_TRANSB, ctypes.c_int32(second_transposed))
    result.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE, ctypes.c_uint32(question.epilogue))
    result.point(vector)
    if question.leading:
        result.set(Desc.CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ctypes.c_int64(question.leading))
        result.point_input(input)
    alignment = _ALLOCATED if is_allocated else ALIGNMENT
    wishes: dict[int, Any] = {each: ctypes.c_uint32(alignment) for each in _ALIGNMENT_ATTRIBUTES}
    wishes[Preference.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES] = ctypes.c_uint64(blas.workspace[1])
    if not reduced:
        wishes[Preference.CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = ctypes.c_uint32(_IN_COMPUTE_TYPE)
    preference = library.cublasLtMatmulPreferenceCreate()
    try:
        for attribute, value in wishes.items():
            library.cublasLtMatmulPreferenceSetAttribute(
                preference, int(attribute), ctypes.addressof(value), ctypes.sizeof(value)
            )
        result.choose(blas.handle, preference)
    finally:
        library.cublasLtMatmulPreferenceDestroy(preference)
    blas.described[key] = result
    return result
