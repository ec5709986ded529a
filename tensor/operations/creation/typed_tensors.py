"""``FloatTensor`` and its like, which old scripts call for tensors and ask ``isinstance`` of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.printed_names import printed
from tensor.core.base import TensorBase
from tensor.core.devices.state import cpu, cuda_state
from tensor.core.dtypes.default import get_default_dtype, set_default_dtype

from .construction import of_old_class
from .conversions import TYPE_NAMES
from .factories import set_default_device

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype


class _TypedTensor(type):
    """Class of the classes. Their objects are tensors; calling one makes a tensor of its type."""

    dtype: dtype
    is_cuda: bool

    def __call__(cls, *data: Any) -> Any:
        device_state = cuda_state() if cls.is_cuda else cpu
        return of_old_class(data, device_state.device, cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, TensorBase)
            and instance._layout.dtype is cls.dtype
            and instance._layout.device_state.is_cuda is cls.is_cuda
        )

    def __repr__(cls) -> str:
        return printed(f"<class '{cls.__module__}.{cls.__name__}'>")


def typed(name: str, dtype: dtype, *, is_cuda: bool = False) -> Any:
    """The class ``name`` of tensors of one dtype on one type of device."""
    members = {
        "__doc__": (
            f"Tensors of {dtype.name} on {'the current CUDA device' if is_cuda else 'the CPU'}, for old scripts.\n\n"
            "Called with sizes it gives a tensor with undefined elements, with a sequence one that holds it; anything\n"
            "else raises TypeError. ``isinstance(x, ...)`` is true of tensors of that dtype and type of device.\n"
            "``tensor.tensor(..., dtype=, device=)`` says more."
        ),
        "__module__": "tensor.cuda" if is_cuda else "tensor",
        "dtype": dtype,
        "is_cuda": is_cuda,
    }
    return _TypedTensor(name, (), members)


BFloat16Tensor = typed("BFloat16Tensor", dtypes.bfloat16)
BoolTensor = typed("BoolTensor", dtypes.bool_)
ByteTensor = typed("ByteTensor", dtypes.uint8)
CharTensor = typed("CharTensor", dtypes.int8)
DoubleTensor = typed("DoubleTensor", dtypes.float64)
FloatTensor = typed("FloatTensor", dtypes.float32)
HalfTensor = typed("HalfTensor", dtypes.float16)
IntTensor = typed("IntTensor", dtypes.int32)
LongTensor = typed("LongTensor", dtypes.int64)
ShortTensor = typed("ShortTensor", dtypes.int16)


def set_default_tensor_type(t: Any) -> None:
    """:func:`set_default_dtype` and :func:`set_default_device` in one, for old scripts.

    Parameters
    ----------
    t
        A floating point class such as ``tensor.cuda.FloatTensor``, or its name.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(t, str):
        *where, name = t.split(".")
        names = {f"{name}Tensor": type_name for type_name, name in TYPE_NAMES.items()}
        if name not in names:
            raise TypeError(f"invalid type: '{t}'; expected a name such as 'tensor.FloatTensor'")
        dtype, is_cuda = dtypes.dtype_named(names[name]), "cuda" in where
    elif isinstance(t, _TypedTensor):
        dtype, is_cuda = t.dtype, t.is_cuda
    else:
        raise TypeError(f"invalid type object: expected a class such as tensor.FloatTensor, got {t!r}")
    before = get_default_dtype()
    set_default_dtype(dtype)
    try:
        set_default_device("cuda" if is_cuda else None)
    except BaseException:
        set_default_dtype(before)
        raise
