"""What a tensor is: its shape, strides, dtype, device and memory, as methods and as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from tensor.core import memory_format as formats
from tensor.core.base import TensorBase, check_tensor
from tensor.core.devices.state import CudaState
from tensor.core.storage import DeviceStorage, ForeignStorage, Storage
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from nvrtc_kernels import dtypes
    from tensor.core.devices.device import device as Device
    from tensor.core.devices.stream import Stream
    from tensor.core.size import Size

    from .tensor import Tensor


class Description(TensorBase):
    """The methods of a tensor that say what it is, and change nothing."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return self._layout.shape

    @property
    def dtype(self) -> dtypes.dtype:
        """Type of the elements."""
        return self._layout.dtype

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._layout.device

    @property
    def layout(self) -> Any:
        """``tensor.strided``, the only one there is."""
        return formats.strided

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._layout.shape)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return self._layout.device_state.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are on the CPU."""
        return not self._layout.device_state.is_cuda

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._layout.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._layout.numel * self._layout.itemsize

    def size(self, dim: int | None = None) -> Any:
        """Sizes of the dimensions, or of one."""
        shape = self._layout.shape
        if dim is None:
            return shape
        return shape[_existing(dim, len(shape))]

    def stride(self, dim: int | None = None) -> Any:
        """Steps between neighbours of the dimensions, or of one, in elements."""
        strides = self._layout.strides
        if dim is None:
            return strides
        return strides[_existing(dim, len(strides))]

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._layout.shape)

    ndimension = dim

    def numel(self) -> int:
        """Number of elements."""
        return self._layout.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._layout.itemsize

    def storage_offset(self) -> int:
        """Elements from the storage's start to the first element."""
        return self._offset // self._layout.itemsize

    def untyped_storage(self) -> Storage:
        """The bytes that this tensor and its views share."""
        return self._storage

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there is none."""
        return self._address if self._layout.numel else 0

    def get_device(self) -> int:
        """Index of the CUDA device; -1 for the CPU."""
        device_state = self._layout.device_state
        return device_state.ordinal if isinstance(device_state, CudaState) else -1

    def is_contiguous(self, memory_format: formats.memory_format = formats.contiguous_format) -> bool:
        """Whether the elements lie in row-major order, or that of ``memory_format``, without gaps."""
        return formats.format_of(memory_format, "is_contiguous").describes(self._layout)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point type."""
        return self._layout.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex type."""
        return self._layout.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers."""
        return self._layout.dtype.is_signed

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both show the same memory in the same way."""
        return (
            self._storage is tensor._storage
            and self._offset == tensor._offset
            and self._layout.shape == tensor._layout.shape
            and self._layout.strides == tensor._layout.strides
        )

    def _is_view(self) -> bool:
        return self._base is not None

    def is_same_size(self, other: Tensor) -> bool:
        """Whether both have the same shape."""
        check_tensor(other, "is_same_size", "other")
        return self._layout.shape == other._layout.shape

    def dim_order(self) -> tuple[int, ...]:
        """Dimensions from the outermost in memory to the innermost."""
        layout = self._layout
        return tuple(reversed(layouts.stride_order(layout.shape, layout.strides)))

    def is_conj(self) -> bool:
        """False: conjugate elements are computed at once, not when they are read."""
        return False

    def is_neg(self) -> bool:
        """False: negative elements are computed at once, not when they are read."""
        return False

    def resolve_conj(self) -> Tensor:
        """The tensor itself; see :meth:`is_conj`."""
        return self  # type: ignore[return-value]

    def resolve_neg(self) -> Tensor:
        """The tensor itself; see :meth:`is_neg`."""
        return self  # type: ignore[return-value]

    #: Kinds of tensors that there are not.
    is_meta = is_mps = is_nested = is_quantized = is_sparse = is_sparse_csr = is_xla = is_xpu = False

    def record_stream(self, stream: Stream) -> None:
        """Note that ``stream`` uses this tensor's memory, which belongs to the stream it was allocated on.

        When the tensor is freed, the memory is not used again before what ``stream`` holds by then is done.

        Raises
        ------
        RuntimeError
            For a CPU tensor.
        """
        storage = self._storage
        if not isinstance(storage, (DeviceStorage, ForeignStorage)):
            raise RuntimeError(f"record_stream() wants a CUDA tensor, this one is on {self.device}")
        storage.record_stream(stream)


@operation(method=False)
def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, TensorBase)


@operation(method=False)
def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is the memory of tensors."""
    return isinstance(obj, Storage)


@operation(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the tensor's dtype is a floating point type."""
    check_tensor(input, "is_floating_point", "input")
    return input._layout.dtype.is_floating_point


@operation(method=False)
def is_complex(input: Tensor) -> bool:
    """Whether the tensor's dtype is a complex type."""
    check_tensor(input, "is_complex", "input")
    return input._layout.dtype.is_complex


@operation(method=False)
def is_signed(input: Tensor) -> bool:
    """Whether the tensor's dtype has negative numbers."""
    check_tensor(input, "is_signed", "input")
    return input._layout.dtype.is_signed


@operation(method=False)
def is_conj(input: Tensor) -> bool:
    """False: conjugate elements are computed at once, not when they are read."""
    check_tensor(input, "is_conj", "input")
    return False


@operation(method=False)
def is_neg(input: Tensor) -> bool:
    """False: negative elements are computed at once, not when they are read."""
    check_tensor(input, "is_neg", "input")
    return False


@operation(method=False)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    check_tensor(input, "is_same_size", "input")
    return input.is_same_size(other)


@operation(method=False)
def numel(input: Tensor) -> int:
    """Number of elements."""
    check_tensor(input, "numel", "input")
    return input._layout.numel


@operation(method=False)
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    check_tensor(input, "is_inference", "input")
    return input.is_inference()


@operation(method=False)
def typename(obj: Any) -> str:
    """Name of a tensor's type, such as ``"tensor.FloatTensor"``; of anything else its class."""
    if isinstance(obj, TensorBase):
        return str(obj.type())
    cls = obj if isinstance(obj, type) else type(obj)
    module = cls.__module__
    return cls.__qualname__ if module in (None, "builtins") else f"{module}.{cls.__qualname__}"


@operation(method=False)
def get_device(input: Tensor) -> int:
    """Index of the CUDA device; -1 for the CPU."""
    check_tensor(input, "get_device", "input")
    return input.get_device()


def _existing(dim: int, rank: int) -> int:
    if not -rank <= dim < rank:
        if not rank:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return dim
