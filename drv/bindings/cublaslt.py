"""cuBLASLt: matrix products with epilogues, as far as this project uses it. Statuses are cuBLAS' (:mod:`.cublas`).

A product is described by objects: one for each matrix, one for the operation, whose attributes say what is done to the
result before it is stored. ``D = epilogue(alpha * op(A) @ op(B) + beta * C)``; matrices are column-major, as in cuBLAS. An
algorithm is asked for once for what the objects describe, and may then be used for every product like that.
"""

import ctypes
from enum import IntEnum
from typing import Annotated, ClassVar, Protocol

from . import prototypes
from .cublas import failure
from .prototypes import Address, Int, Long, Output, Size

# ruff: noqa: N801, N803, N815 - the names are C's


class cublasLtMatrixLayoutAttribute_t(IntEnum):
    """Attributes of a matrix: those that are changed after its making."""

    CUBLASLT_MATRIX_LAYOUT_TYPE = 0
    CUBLASLT_MATRIX_LAYOUT_ORDER = 1
    CUBLASLT_MATRIX_LAYOUT_ROWS = 2
    CUBLASLT_MATRIX_LAYOUT_COLS = 3
    CUBLASLT_MATRIX_LAYOUT_LD = 4
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6


class cublasLtMatmulDescAttributes_t(IntEnum):
    """Attributes of an operation, as far as they are used here."""

    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0
    CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2
    CUBLASLT_MATMUL_DESC_TRANSA = 3
    CUBLASLT_MATMUL_DESC_TRANSB = 4
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26


class cublasLtMatmulPreferenceAttributes_t(IntEnum):
    """What an algorithm may need and do."""

    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8


class cublasLtReductionScheme_t(IntEnum):
    """How partial sums of a product that is split along ``k`` are added: a mask of what is allowed."""

    CUBLASLT_REDUCTION_SCHEME_NONE = 0
    CUBLASLT_REDUCTION_SCHEME_INPLACE = 1
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2
    CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4
    CUBLASLT_REDUCTION_SCHEME_MASK = 7


class cublasLtEpilogue_t(IntEnum):
    """What is done to a product before it is stored.

    A bias is added before the activation. AUX keeps for a backward pass, in a matrix besides D, what the activation's gradient
    needs: the input of gelu in D's type, or a bit for each element that says whether relu passes it on.
    """

    CUBLASLT_EPILOGUE_DEFAULT = 1
    CUBLASLT_EPILOGUE_RELU = 2
    CUBLASLT_EPILOGUE_RELU_AUX = 130
    #: A vector, an element for each row of D, is added to each column.
    CUBLASLT_EPILOGUE_BIAS = 4
    CUBLASLT_EPILOGUE_RELU_BIAS = 6
    CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134
    #: The product is the gradient of relu's result; D is that of its input.
    CUBLASLT_EPILOGUE_DRELU = 136
    #: The same, and the sums of D's rows are stored as the bias, whose gradient they are.
    CUBLASLT_EPILOGUE_DRELU_BGRAD = 152
    #: Gelu by its approximation with the hyperbolic tangent.
    CUBLASLT_EPILOGUE_GELU = 32
    CUBLASLT_EPILOGUE_GELU_AUX = 160
    CUBLASLT_EPILOGUE_GELU_BIAS = 36
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164
    CUBLASLT_EPILOGUE_DGELU = 192
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208
    #: The sum of A over ``k``, an element for each row of D, is stored as the bias.
    CUBLASLT_EPILOGUE_BGRADA = 256
    #: The sum of B over ``k``, an element for each column of D, is stored as the bias.
    CUBLASLT_EPILOGUE_BGRADB = 512


class MatmulAlgo(ctypes.Structure):
    """``cublasLtMatmulAlgo_t``: an algorithm, which may be copied."""

    _fields_: ClassVar = [("data", ctypes.c_uint64 * 8)]


class HeuristicResult(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``: an algorithm, and the bytes of workspace that it needs."""

    _fields_: ClassVar = [
        ("algo", MatmulAlgo),
        ("workspaceSize", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("wavesCount", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class Create(Protocol):
    """Make an object without arguments: a handle for the current context, or preferences."""

    def __call__(self, /) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class Version(Protocol):
    """The version, as of cuBLAS."""

    def __call__(self, /) -> Annotated[int, ctypes.c_size_t]: ...


class Destroy(Protocol):
    """Destroy an object."""

    def __call__(self, described: Address, /) -> None: ...


class DescCreate(Protocol):
    """Describe an operation by its compute type, and the type of ``alpha`` and ``beta``."""

    def __call__(self, computeType: Int, scaleType: Int, /) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class LayoutCreate(Protocol):
    """Describe a column-major matrix: ``ld`` elements lie between its columns."""

    def __call__(
        self, dataType: Int, rows: Size, cols: Size, ld: Long, /
    ) -> Annotated[int, Output(ctypes.c_size_t, 0)]: ...


class SetAttribute(Protocol):
    """Set an attribute to the ``sizeInBytes`` bytes at ``buf`` in host memory."""

    def __call__(self, described: Address, attr: Int, buf: Address, sizeInBytes: Size, /) -> None: ...


class Heuristic(Protocol):
    """Write up to ``requestedAlgoCount`` :class:`HeuristicResult`, the quickest first; returns how many there are."""

    def __call__(
        self,
        lightHandle: Address,
        operationDesc: Address,
        Adesc: Address,
        Bdesc: Address,
        Cdesc: Address,
        Ddesc: Address,
        preference: Address,
        requestedAlgoCount: Int,
        heuristicResultsArray: Address,
        /,
    ) -> Annotated[int, Output(ctypes.c_int, 9)]: ...


class Matmul(Protocol):
    """``D = epilogue(alpha * op(A) @ op(B) + beta * C)`` on ``stream``, by ``algo`` or, if that is 0, by the first that fits."""

    def __call__(
        self,
        lightHandle: Address,
        computeDesc: Address,
        alpha: Address,
        A: Address,
        Adesc: Address,
        B: Address,
        Bdesc: Address,
        beta: Address,
        C: Address,
        Cdesc: Address,
        D: Address,
        Ddesc: Address,
        algo: Address,
        workspace: Address,
        workspaceSizeInBytes: Size,
        stream: Address,
        /,
    ) -> None: ...


class CublasLt(Protocol):
    """Functions of cuBLASLt, NVIDIA's or the simulated one."""

    cublasLtCreate: Create
    cublasLtDestroy: Destroy
    cublasLtGetVersion: Version
    cublasLtMatmulDescCreate: DescCreate
    cublasLtMatmulDescDestroy: Destroy
    cublasLtMatmulDescSetAttribute: SetAttribute
    cublasLtMatrixLayoutCreate: LayoutCreate
    cublasLtMatrixLayoutDestroy: Destroy
    cublasLtMatrixLayoutSetAttribute: SetAttribute
    cublasLtMatmulPreferenceCreate: Create
    cublasLtMatmulPreferenceDestroy: Destroy
    cublasLtMatmulPreferenceSetAttribute: SetAttribute
    cublasLtMatmulAlgoGetHeuristic: Heuristic
    cublasLtMatmul: Matmul


def bind(library: ctypes.CDLL) -> CublasLt:
    """The functions of :class:`CublasLt` in NVIDIA's library."""
    bound: CublasLt = prototypes.bind(CublasLt, library, failure)
    return bound
