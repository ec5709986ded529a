"""The simulated cuBLAS, cuDNN and cuFFT as shared libraries, so that they are bound and called as NVIDIA's are.

The symbols of a library are resolved (as GNU indirect functions) to C functions made here, which turn the arguments
that ``ctypes`` passed into a call of the simulated library, and its answer into a status.
"""

from __future__ import annotations

import ctypes
import subprocess
import traceback
from typing import TYPE_CHECKING, Any

from drv.bindings import cublas, cublaslt, cudnn, cufft
from drv.bindings.prototypes import IntArray, LongArray, Prototype, prototypes
from drv.errors import CudaError

if TYPE_CHECKING:
    from pathlib import Path

_DECLARATIONS = {
    "cublas": cublas.Cublas,
    "cublasLt": cublaslt.CublasLt,
    "cudnn": cudnn.Cudnn,
    "cufft": cufft.Cufft,
}
_STATUSES = {
    "cublas": cublas.cublasStatus_t,
    "cublasLt": cublas.cublasStatus_t,
    "cudnn": cudnn.cudnnStatus_t,
    "cufft": cufft.cufftResult,
}
#: Parameters that say how long arrays are.
_LENGTHS = ("rank", "nbDims", "arrayLength")
#: CUBLAS_STATUS_INTERNAL_ERROR; cuDNN and cuFFT have no such number.
_UNKNOWN = 14
_SYMBOL = """
void *slot_{0};
static void *find_{0}(void) {{ return slot_{0}; }}
void {0}(void) __attribute__((ifunc("find_{0}")));
"""


def build_library(name: str, folder: Path) -> Path:
    """Compile the library ``name``; where it is."""
    source = folder / f"{name}.c"
    target = folder / f"lib{name}.so"
    symbols = {prototype.symbol for prototype in prototypes(_DECLARATIONS[name]).values()}
    source.write_text("".join(_SYMBOL.format(symbol) for symbol in sorted(symbols)), encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(target), str(source)], check=True)
    return target


#: The functions, which the libraries refer to as long as they are loaded.
_functions = []


def connect(name: str, path: Path, simulated: Any) -> None:
    """Give the library at ``path`` the functions of the ``simulated`` one."""
    library = ctypes.CDLL(str(path))
    for prototype in prototypes(_DECLARATIONS[name]).values():
        function = _function(prototype, getattr(simulated, prototype.name), _STATUSES[name])
        _functions.append(function)
        address = ctypes.cast(function, ctypes.c_void_p)
        ctypes.c_void_p.in_dll(library, f"slot_{prototype.symbol}").value = address.value


def _function(prototype: Prototype, call: Any, statuses: Any) -> Any:
    """The C function for ``prototype`` that ends in ``call``."""
    output = prototype.output
    inputs = [
        kind for index, kind in enumerate(prototype.argtypes) if output is None or index != output.index
    ]

    def answer(*arguments: Any) -> Any:
        argument = list(arguments)
        device = argument.pop(output.index) if output is not None else None
        length = next((argument[i] for i, name in enumerate(prototype.parameters) if name in _LENGTHS), 0)
        try:
            result = call(
                *(_python(kind, value, length) for kind, value in zip(inputs, argument, strict=True))
            )
        except CudaError as error:
            return statuses[error.status] if error.status in statuses.__members__ else _UNKNOWN
        except BaseException:
            traceback.print_exc()
            return _UNKNOWN
        if prototype.restype is not None:
            return result
        if device:
            device[0] = int(result)
        return 0

    types = [ctypes.c_void_p if kind in (IntArray, LongArray) else kind for kind in prototype.argtypes]
    return ctypes.CFUNCTYPE(prototype.restype or ctypes.c_int, *types)(answer)


def _python(kind: Any, value: Any, length: int) -> Any:
    """A C argument as the simulated library takes it."""
    if kind in (IntArray, LongArray):
        return list((kind.element * length).from_address(value)) if value else None
    return value or 0
