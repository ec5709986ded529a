"""Types in annotations: the names of ``torch.types``."""

# ruff: noqa: PYI042, PYI047 - the names are PyTorch's, and programs use them
import os
from typing import IO, TYPE_CHECKING, TypeAlias

from nvrtc_kernels.dtypes import dtype
from tensor.core.devices.device import device as _device
from tensor.core.size import Size
from tensor.core.storage import Storage
from tensor.core.symbolic_numbers import SymBool, SymFloat, SymInt
from tensor.methods.tensor import Tensor

from .core.names.absent import hints as _hints

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

#: Sizes are Python's numbers here; the second half of each is empty.
IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
PySymType: TypeAlias = SymInt | SymFloat | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)

_bool: TypeAlias = bool
_bytes: TypeAlias = bytes
_complex: TypeAlias = complex
_dispatchkey: TypeAlias = str
_dtype: TypeAlias = dtype
_int: TypeAlias = int
_float: TypeAlias = float
_str: TypeAlias = str
_symsize: TypeAlias = Size | list[int | SymInt] | tuple[int | SymInt, ...]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...] | list[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | tuple[Tensor | None, ...] | list[Tensor | None]
_TensorOrTensorsOrGradEdge = _TensorOrTensors

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
