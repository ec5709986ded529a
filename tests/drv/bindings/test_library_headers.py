"""What the bindings declare is what NVIDIA's headers declare, and is in NVIDIA's libraries, where those are installed."""

from __future__ import annotations

import ctypes
import re
from enum import IntEnum
from typing import Any

import pytest

import drv
from drv.bindings import cublas, cublaslt, cudnn, cufft, libraries, library_types, nccl
from drv.bindings.prototypes import IntArray, LongArray, Prototype, prototypes

from .c_headers import enums, fields, functions, header

_HEADERS = {
    "cublas": ("cublas_api.h", "library_types.h"),
    "cublasLt": ("cublasLt.h", "cublas_api.h"),
    "cudnn": ("cudnn_graph.h", "cudnn_ops.h", "cudnn_cnn.h"),
    "cufft": ("cufft.h", "cufftXt.h", "library_types.h"),
    "nccl": ("nccl.h",),
}
_DECLARED = {
    "cublas": cublas.Cublas,
    "cublasLt": cublaslt.CublasLt,
    "cudnn": cudnn.Cudnn,
    "cufft": cufft.Cufft,
    "nccl": nccl.Nccl,
}
_NUMBERS = {
    "int": ctypes.c_int,
    "cufftHandle": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "long long int": ctypes.c_longlong,
    "size_t": ctypes.c_size_t,
    "uint64_t": ctypes.c_uint64,
}
#: Handles and descriptions, which are pointers to what only the library knows.
_OPAQUE = (
    "cublasHandle_t",
    "cublasLtHandle_t",
    "cublasLtMatmulDesc_t",
    "cublasLtMatrixLayout_t",
    "cublasLtMatmulPreference_t",
    "cudnnHandle_t",
    "cudnnTensorDescriptor_t",
    "cudnnFilterDescriptor_t",
    "cudnnConvolutionDescriptor_t",
    "cudaStream_t",
    "ncclComm_t",
)
#: Types of a parameter that C returns a value through.
_OUTPUTS = {
    "int*": ctypes.c_int,
    "cufftHandle*": ctypes.c_int,
    "size_t*": ctypes.c_size_t,
    "cublasHandle_t*": ctypes.c_size_t,
    "cublasLtHandle_t*": ctypes.c_size_t,
    "cublasLtMatmulDesc_t*": ctypes.c_size_t,
    "cublasLtMatrixLayout_t*": ctypes.c_size_t,
    "cublasLtMatmulPreference_t*": ctypes.c_size_t,
    "cudnnHandle_t*": ctypes.c_size_t,
    "cudnnTensorDescriptor_t*": ctypes.c_size_t,
    "cudnnFilterDescriptor_t*": ctypes.c_size_t,
    "cudnnConvolutionDescriptor_t*": ctypes.c_size_t,
    "cudaStream_t*": ctypes.c_size_t,
    "ncclComm_t*": ctypes.c_size_t,
    "ncclUniqueId*": nccl.UniqueId,
}
_STRUCTS = {"ncclUniqueId": nccl.UniqueId, "ncclConfig_t*": ctypes.POINTER(nccl.Config)}
_ENUMS = r"cublas\w+_t|cudnn\w+_t|cudaDataType(_t)?|cufftType|nccl(Result|DataType|RedOp|ScalarResidence)_t"
_PERFORMANCE_FIELDS = [
    ("cudnnConvolutionFwdAlgo_t", "algo"),
    ("cudnnStatus_t", "status"),
    ("float", "time"),
    ("size_t", "memory"),
    ("cudnnDeterminism_t", "determinism"),
    ("cudnnMathType_t", "mathType"),
    ("int", "reserved"),
]
_ARRAYS = {"int*": IntArray, "long long int*": LongArray}


def _headers(library: str) -> str:
    # Headers of cuBLASLt come with those of cuBLAS.
    return header("cublas" if library == "cublasLt" else library, *_HEADERS[library])


def _all_prototypes() -> list[tuple[str, Prototype]]:
    return [(name, entry) for name, library in _DECLARED.items() for entry in prototypes(library).values()]


def _expected(c_type: str, declared: Any, *, output: bool) -> Any:
    if output:
        is_enum = re.fullmatch(_ENUMS, c_type[:-1])
        return ctypes.POINTER(_OUTPUTS.get(c_type, ctypes.c_int if is_enum else None))
    if c_type in _STRUCTS:
        return _STRUCTS[c_type]
    if declared in (IntArray, LongArray):
        return _ARRAYS[c_type]
    if c_type.endswith("*") or c_type in _OPAQUE:
        return ctypes.c_void_p
    if c_type in _NUMBERS:
        return _NUMBERS[c_type]
    assert re.fullmatch(_ENUMS, c_type), f"unknown type {c_type}"
    return ctypes.c_int


@pytest.mark.parametrize(
    ("library", "prototype"), _all_prototypes(), ids=lambda value: getattr(value, "name", value)
)
def test_prototypes(library: str, prototype: Prototype) -> None:
    returned, parameters = functions(_headers(library))[prototype.symbol]
    if prototype.restype is ctypes.c_char_p:
        assert returned == "const char*"
    elif prototype.restype is ctypes.c_size_t:
        assert returned == "size_t"
    else:
        assert returned in ("cublasStatus_t", "cudnnStatus_t", "cufftResult", "ncclResult_t")
    assert len(parameters) == len(prototype.argtypes)
    output = prototype.output.index if prototype.output is not None else -1
    for index, (c_type, declared) in enumerate(zip(parameters, prototype.argtypes, strict=True)):
        assert declared is _expected(c_type, declared, output=index == output), f"parameter {index}: {c_type}"


def test_names_are_those_of_the_macros() -> None:
    text = header("cublas", "cublas_v2.h", "cublas_api.h")
    macros = dict(re.findall(r"#define (cublas\w+) (cublas\w+)", text))
    exported = functions(text)
    for prototype in prototypes(cublas.Cublas).values():
        wide = f"{prototype.name}_64"
        has_wide_form = wide in macros or wide in exported
        public = wide if has_wide_form else prototype.name
        assert macros.get(public, public) == prototype.symbol


@pytest.mark.parametrize(
    ("library", "enum"),
    [
        *(
            ("cublas", enum)
            for enum in vars(cublas).values()
            if isinstance(enum, type) and issubclass(enum, IntEnum) and enum is not IntEnum
        ),
        *(
            ("cublasLt", enum)
            for name, enum in vars(cublaslt).items()
            if name.startswith("cublasLt") and isinstance(enum, type) and issubclass(enum, IntEnum)
        ),
        ("cublas", library_types.cudaDataType),
        *(
            ("cudnn", enum)
            for name, enum in vars(cudnn).items()
            if name.startswith("cudnn") and isinstance(enum, type) and issubclass(enum, IntEnum)
        ),
        ("cufft", cufft.cufftResult),
        ("cufft", cufft.cufftType),
        ("nccl", nccl.ncclResult_t),
        ("nccl", nccl.ncclRedOp_t),
        ("nccl", nccl.ncclDataType_t),
        ("nccl", nccl.ncclScalarResidence_t),
    ],
)
def test_enums(library: str, enum: type[IntEnum]) -> None:
    values = enums(_headers(library))
    assert {name: value for name, value in values.items() if name in enum.__members__} == dict(
        enum.__members__.items()
    )


def test_statuses_are_complete() -> None:
    values = enums(header("cublas", "cublas_api.h"))
    assert {name for name in values if name.startswith("CUBLAS_STATUS")} == set(
        cublas.cublasStatus_t.__members__
    )
    values = enums(header("cufft", "cufft.h"))
    skipped = re.compile("CUFFT_(COMPATIBILITY|[RCDZ]2[RCDZ])")
    assert {name for name in values if name.startswith("CUFFT_") and not skipped.match(name)} == set(
        cufft.cufftResult.__members__
    )


def test_statuses_of_cudnn_are_known() -> None:
    values = enums(header("cudnn", "cudnn_graph.h"))
    names = {name for name, value in values.items() if name.startswith("CUDNN_STATUS") and 0 <= value < 6000}
    # Each release may have new ones, which are told by their thousands.
    assert set(cudnn.cudnnStatus_t.__members__) <= names


def test_structs_of_cudnn() -> None:
    text = _headers("cudnn")
    types = {"float": ctypes.c_float, "size_t": ctypes.c_size_t, "int": ctypes.c_int * 3}
    expected = [(name, types.get(c_type, ctypes.c_int)) for c_type, name in _PERFORMANCE_FIELDS]
    assert list(cudnn.AlgorithmPerformance._fields_) == expected
    for name in ("Fwd", "BwdData", "BwdFilter"):
        body = re.search(rf"struct cudnnConvolution{name}AlgoPerfStruct \{{([^}}]*)\}}", text)
        assert body
        declared = re.findall(r"(\w+)\s+(\w+)(?:\[3\])?;", body[1])
        assert [(re.sub(name, "Fwd", c_type), field) for c_type, field in declared] == _PERFORMANCE_FIELDS


def test_statuses_of_nccl_are_complete() -> None:
    text = header("nccl", "nccl.h")
    body = re.search(r"enum \{([^}]*)\} ncclResult_t;", text)
    assert body
    names = re.findall(r"(\w+)\s*=", body[1])
    assert set(names) - set(nccl.ncclResult_t.__members__) == {"ncclNumResults"}


def test_structs() -> None:
    text = header("nccl", "nccl.h")
    types = {
        "size_t": ctypes.c_size_t,
        "unsigned int": ctypes.c_uint,
        "int": ctypes.c_int,
        "char*": ctypes.c_char_p,
    }
    expected = [(name, types[c_type]) for c_type, name in fields(text, "ncclConfig_t")]
    assert list(nccl.Config._fields_) == expected[: len(nccl.Config._fields_)]
    assert re.search(r"#define NCCL_UNIQUE_ID_BYTES 128\s", text)
    assert re.search(r"#define NCCL_API_MAGIC 0xcafebeef\s", text)
    assert re.search(r"#define NCCL_CONFIG_UNDEF_INT INT_MIN\s", text)


def test_structs_of_cublaslt() -> None:
    text = _headers("cublasLt")
    body = re.search(r"typedef struct \{([^}]*)\} cublasLtMatmulHeuristicResult_t;", text)
    assert body
    names = re.findall(r"(\w+)(?:\[\d+\])?;", body[1])
    assert [name for name, *_ in cublaslt.HeuristicResult._fields_] == names
    assert re.search(r"typedef struct \{\s*uint64_t data\[8\];\s*\} cublasLtMatmulAlgo_t;", text)


def _bound(name: str) -> Any:
    try:
        return libraries.bind(name)
    except drv.LibraryNotInstalledError:
        pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("name", ["cublas", "cublasLt", "cudnn", "cufft", "nccl"])
def test_every_symbol_exists(name: str) -> None:
    bound = _bound(name)
    for prototype in prototypes(_DECLARED[name]).values():
        assert callable(getattr(bound, prototype.name))


def test_calls_that_need_no_gpu() -> None:
    bound = _bound("cublas")
    assert bound.cublasGetStatusName(7) == b"CUBLAS_STATUS_INVALID_VALUE"
    for status, text in cublas.STATUS_TEXT.items():
        assert bound.cublasGetStatusString(status) == text.encode()
    with pytest.raises(
        drv.InvalidHandleError, match="cublasSetStream.handle=0, streamId=0. failed: CUBLAS_STATUS_NOT"
    ):
        bound.cublasSetStream(0, 0)
    fft = _bound("cufft")
    assert fft.cufftGetVersion() >= 12000
    fft.cufftDestroy(cufft.CUFFT_PLAN_NULL)
    with pytest.raises(drv.InvalidHandleError, match="CUFFT_INVALID_PLAN"):
        fft.cufftDestroy(12345)
    with pytest.raises(ctypes.ArgumentError, match="2147483648 does not fit"):
        fft.cufftPlanMany(1, (2**31,), None, 1, 0, None, 1, 0, cufft.cufftType.CUFFT_C2C, 1)
    with pytest.raises(TypeError):
        fft.cufftDestroy()


def test_calls_of_cudnn_that_need_no_gpu() -> None:
    bound = _bound("cudnn")
    assert bound.cudnnGetVersion() >= 91000
    assert bound.cudnnGetErrorString(2000) == b"CUDNN_STATUS_BAD_PARAM"
    tensor = bound.cudnnCreateTensorDescriptor()
    bound.cudnnSetTensorNdDescriptor(tensor, 0, 4, (2, 3, 4, 5), (60, 20, 5, 1))
    with pytest.raises(drv.InvalidValueError, match=r"dimA=.* failed: CUDNN_STATUS_BAD_PARAM.*parameter"):
        bound.cudnnSetTensorNdDescriptor(tensor, 0, 4, (2, 3, -4, 5), (60, 20, 5, 1))
    bound.cudnnDestroyTensorDescriptor(tensor)
    filters = bound.cudnnCreateFilterDescriptor()
    bound.cudnnSetFilterNdDescriptor(filters, 2, 1, 4, (8, 3, 3, 3))
    bound.cudnnDestroyFilterDescriptor(filters)
    convolution = bound.cudnnCreateConvolutionDescriptor()
    bound.cudnnSetConvolutionNdDescriptor(convolution, 2, (1, 1), (1, 1), (1, 1), 1, 0)
    bound.cudnnSetConvolutionMathType(convolution, 1)
    bound.cudnnSetConvolutionGroupCount(convolution, 2)
    bound.cudnnDestroyConvolutionDescriptor(convolution)


def test_calls_of_nccl_that_need_no_gpu() -> None:
    bound = _bound("nccl")
    assert bound.ncclGetVersion() >= nccl.Config.VERSION
    assert bound.ncclGetErrorString(0) == b"no error"
    with pytest.raises(
        drv.InvalidValueError, match=r"ncclCommCount.comm=0. failed: ncclInvalidArgument.*NCCL_DEBUG"
    ):
        bound.ncclCommCount(0)
    with pytest.raises(ctypes.ArgumentError):
        bound.ncclCommInitRank(1, b"x" * 128, 0)
