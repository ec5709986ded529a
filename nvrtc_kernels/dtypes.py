"""Dtypes: what an element is in NumPy, in CUDA C++ and in PTX-sized bytes.

The objects are the public ``tensor.float32`` and so on; they live here because kernels are specialised
by them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np

from . import printed_names


class Category(IntEnum):
    """What type promotion distinguishes, weakest first."""

    BOOL = 0
    INTEGER = 1
    FLOATING = 2
    COMPLEX = 3


class dtype:  # noqa: N801 - PyTorch's name
    """A dtype: the type of an element. There is one object per type, so identity compares.

    Attributes
    ----------
    name : str
        ``"float32"`` and the like; printed as ``tensor.float32``.
    itemsize : int
        Bytes per element.
    numpy : numpy.dtype
        The same type in NumPy (``ml_dtypes.bfloat16`` for bfloat16).
    cuda : str
        The same type in the CUDA C++ of this project's kernels.
    category : Category
        What it counts as in type promotion.
    scalar_type : str
        PyTorch's name of it in errors and in the names of typed classes: ``"Float"`` of ``FloatTensor``.
    is_storage_only : bool
        Whether elements are stored, moved and converted, and hardly anything is computed of them.
    """

    __slots__ = (
        "category",
        "cuda",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "is_storage_only",
        "itemsize",
        "name",
        "numpy",
        "scalar_type",
    )

    def __init__(
        self,
        name: str,
        numpy: Any,
        cuda: str,
        category: Category,
        scalar_type: str,
        *,
        is_storage_only: bool = False,
    ) -> None:
        self.name = name
        self.numpy = np.dtype(numpy)
        self.cuda = cuda
        self.category = category
        self.scalar_type = scalar_type
        self.is_storage_only = is_storage_only
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = category is Category.FLOATING
        self.is_complex = category is Category.COMPLEX
        self.is_signed = category is not Category.BOOL and self.numpy.kind != "u"

    def __repr__(self) -> str:
        return f"{printed_names.library}.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return dtype_named, (self.name,)

    def to_real(self) -> dtype:
        """Real type of the parts of a complex type; any other type itself.

        float32 of complex64, float64 of complex128.
        """
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """Complex type whose parts have this type.

        Raises
        ------
        TypeError
            For an integer, bool or half precision type: there is no such complex type.
        """
        result = {float32: complex64, float64: complex128}.get(self, self if self.is_complex else None)
        if result is None:
            raise TypeError(
                f"there is no complex type with parts of {self!r}; convert to float32 or float64 first"
            )
        return result


bool_ = dtype("bool", np.bool_, "bool", Category.BOOL, "Bool")
uint8 = dtype("uint8", np.uint8, "unsigned char", Category.INTEGER, "Byte")
int8 = dtype("int8", np.int8, "signed char", Category.INTEGER, "Char")
int16 = dtype("int16", np.int16, "short", Category.INTEGER, "Short")
int32 = dtype("int32", np.int32, "int", Category.INTEGER, "Int")
int64 = dtype("int64", np.int64, "long long", Category.INTEGER, "Long")
float16 = dtype("float16", np.float16, "Half", Category.FLOATING, "Half")
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, "BFloat16", Category.FLOATING, "BFloat16")
float32 = dtype("float32", np.float32, "float", Category.FLOATING, "Float")
float64 = dtype("float64", np.float64, "double", Category.FLOATING, "Double")
complex64 = dtype("complex64", np.complex64, "complex64", Category.COMPLEX, "ComplexFloat")
complex128 = dtype("complex128", np.complex128, "complex128", Category.COMPLEX, "ComplexDouble")
uint16 = dtype("uint16", np.uint16, "unsigned short", Category.INTEGER, "UInt16", is_storage_only=True)
uint32 = dtype("uint32", np.uint32, "unsigned int", Category.INTEGER, "UInt32", is_storage_only=True)
uint64 = dtype("uint64", np.uint64, "unsigned long long", Category.INTEGER, "UInt64", is_storage_only=True)
float8_e4m3fn = dtype(
    "float8_e4m3fn",
    ml_dtypes.float8_e4m3fn,
    "Float8E4M3",
    Category.FLOATING,
    "Float8_e4m3fn",
    is_storage_only=True,
)
float8_e5m2 = dtype(
    "float8_e5m2", ml_dtypes.float8_e5m2, "Float8E5M2", Category.FLOATING, "Float8_e5m2", is_storage_only=True
)

#: Every type that is computed with, in the order of promotion within its category.
ALL = (
    bool_,
    uint8,
    int8,
    int16,
    int32,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
)
#: Types that elements are stored in, and converted from and to, and little more.
UNSIGNED = (uint16, uint32, uint64)
FLOAT8 = (float8_e4m3fn, float8_e5m2)
STORAGE_ONLY = UNSIGNED + FLOAT8
#: Every type that there are tensors of.
EVERY = ALL + STORAGE_ONLY

_BY_NAME = {each.name: each for each in EVERY}
_BY_NUMPY = {each.numpy: each for each in EVERY}


def dtype_named(name: str) -> dtype:
    """Type called ``name`` (``"float32"``)."""
    return _BY_NAME[name]


def from_numpy(numpy_dtype: Any) -> dtype:
    """Type that equals a NumPy dtype.

    Raises
    ------
    TypeError
        When no tensor can hold the NumPy type (strings, objects, times).
    """
    numpy_type = np.dtype(numpy_dtype)
    result = _BY_NUMPY.get(numpy_type.newbyteorder("="))
    if result is None:
        known = ", ".join(each.name for each in EVERY)
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{numpy_type}. The only supported types are: {known}."
        )
    return result


def promote_types(first: dtype, second: dtype) -> dtype:
    """Smallest type that both convert to without a change of category, as PyTorch's ``promote_types``.

    The stronger category wins; within integers ``uint8`` with ``int8`` gives ``int16``; ``float16`` with
    ``bfloat16`` gives ``float32``; a complex type is wide enough for the parts of the other type. ``uint16``, ``uint32``
    and ``uint64`` are promoted to floating point only, float8 types to nothing.

    Raises
    ------
    RuntimeError
        For a type that is only stored, and another one that it is not promoted to.
    """
    result = _PROMOTED[first].get(second)
    if result is None:
        types = "Float8 Types" if {first, second} & {*FLOAT8} else "uint16, uint32, uint64 types"
        raise RuntimeError(
            f"Promotion for {types} is not supported, attempted to promote {first.scalar_type} and "
            f"{second.scalar_type}; convert one with .to(dtype) first"
        )
    return result


def _promote(first: dtype, second: dtype) -> dtype | None:
    if first is second:
        return first
    weak, strong = sorted((first, second), key=lambda each: (each.category, EVERY.index(each)))
    if weak.is_storage_only or strong.is_storage_only:
        return strong if weak in UNSIGNED and strong.is_floating_point and strong not in FLOAT8 else None
    if weak.category is not strong.category:
        if strong.is_complex and weak.is_floating_point and weak is float64:
            return complex128
        return strong
    if weak is uint8 and strong is int8:
        return int16
    if weak is float16 and strong is bfloat16:
        return float32
    return strong


_PROMOTED = {
    first: {second: result for second in EVERY if (result := _promote(first, second)) is not None}
    for first in EVERY
}
