"""What a tensor is: its shape, strides, dtype, device and memory, as methods and as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts
from tensor.core import memory_format as formats
from tensor.core.base import TensorBase, TensorFields, check_tensor
from tensor.core.devices.state import CudaState
from tensor.core.parameter_casts import hand_out
from tensor.core.storage import DeviceStorage, ForeignStorage, Storage
from tensor.core.typed_storage import TypedStorage, storage_class
from tensor.core.warning import warn_caller
from tensor.operations.definition import operation

if TYPE_CHECKING:
    from nvrtc_kernels import dtypes
    from tensor.core.devices.device import device as Device
    from tensor.core.devices.stream import Stream
    from tensor.core.size import Size

    from .tensor import Tensor


class Description(TensorFields):
    """The methods of a tensor that say what it is, and change nothing."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions, a tuple of integers; the same as :meth:`size`.

        Examples
        --------
        >>> tensor.zeros(2, 3).shape
        tensor.Size([2, 3])
        """
        return self._layout.shape

    @property
    def dtype(self) -> dtypes.dtype:
        """Type of the elements.

        Examples
        --------
        >>> tensor.zeros(2).dtype
        tensor.float32
        """
        return self._layout.dtype

    @property
    def device(self) -> Device:
        """The device that the elements are on.

        Examples
        --------
        >>> tensor.zeros(2).device
        device(type='cpu')
        """
        return self._layout.device

    @property
    def layout(self) -> Any:
        """``tensor.strided``; of a sparse tensor ``tensor.sparse_coo``, ``sparse_csr`` or ``sparse_csc``.

        Examples
        --------
        >>> tensor.eye(2).to_sparse().layout
        tensor.sparse_coo
        """
        return formats.strided

    @property
    def ndim(self) -> int:
        """Number of dimensions; the same as :meth:`dim`.

        Examples
        --------
        >>> tensor.zeros(2, 3).ndim
        2
        """
        return len(self._layout.shape)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device.

        >>> tensor.zeros(1).is_cuda
        False
        """
        return self._layout.device_state.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are on the CPU."""
        return not self._layout.device_state.is_cuda

    @property
    def itemsize(self) -> int:
        """Bytes of an element; the same as :meth:`element_size`.

        Examples
        --------
        >>> tensor.zeros(2).itemsize
        4
        """
        return self._layout.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements: ``numel() * itemsize``.

        Examples
        --------
        >>> tensor.zeros(2, 3).nbytes
        24
        """
        return self._layout.numel * self._layout.itemsize

    def size(self, dim: int | None = None) -> Any:
        """Sizes of all dimensions, or with ``dim`` of one.

        Raises
        ------
        IndexError
            If ``dim`` is out of range.

        Examples
        --------
        >>> tensor.zeros(2, 3).size()
        tensor.Size([2, 3])
        >>> tensor.zeros(2, 3).size(-1)
        3
        """
        shape = self._layout.shape
        if dim is None:
            return shape
        return shape[_existing(dim, len(shape))]

    def stride(self, dim: int | None = None) -> Any:
        """Steps in memory, in elements, between neighbours along all dimensions, or with ``dim`` along one.

        Raises
        ------
        IndexError
            If ``dim`` is out of range.

        Examples
        --------
        >>> tensor.zeros(2, 3).stride()
        (3, 1)
        >>> tensor.zeros(2, 3).T.stride(0)
        1
        """
        strides = self._layout.strides
        if dim is None:
            return strides
        return strides[_existing(dim, len(strides))]

    def dim(self) -> int:
        """Number of dimensions.

        Examples
        --------
        >>> tensor.zeros(2, 3).dim()
        2
        """
        return len(self._layout.shape)

    ndimension = dim

    def numel(self) -> int:
        """Number of elements: the product of the sizes.

        Examples
        --------
        >>> tensor.zeros(2, 3).numel()
        6
        """
        return self._layout.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes of an element.

        Examples
        --------
        >>> tensor.zeros(2, dtype=tensor.float64).element_size()
        8
        """
        return self._layout.itemsize

    def storage_offset(self) -> int:
        """Number of elements from the start of the storage to the first element.

        Examples
        --------
        >>> tensor.arange(5)[2:].storage_offset()
        2
        """
        return self._offset // self._layout.itemsize

    def untyped_storage(self) -> Storage:
        """The memory that this tensor shares with its views, as bytes.

        Examples
        --------
        >>> tensor.zeros(2, 3).untyped_storage().nbytes()
        24
        """
        return self._storage

    def storage(self) -> TypedStorage:
        """The memory that this tensor shares with its views, as elements of its dtype, for old programs.

        Examples
        --------
        >>> tensor.tensor([1.0, 2.0])[1:].storage().tolist()
        [1.0, 2.0]
        """
        warn_caller(
            "TypedStorage is deprecated: use tensor.untyped_storage(), whose elements are bytes, or the tensor itself"
        )
        return TypedStorage(wrap_storage=self._storage, dtype=self._layout.dtype)

    def storage_type(self) -> Any:
        """The class of :meth:`storage`, such as ``tensor.FloatStorage``.

        Examples
        --------
        >>> tensor.zeros(2).storage_type()
        <class 'tensor.FloatStorage'>
        """
        is_cuda = self._layout.device_state.is_cuda
        return (
            storage_class(self._layout.dtype, is_cuda=True) if is_cuda else storage_class(self._layout.dtype)
        )

    def is_shared(self) -> bool:
        """Whether the memory is shared memory; true of all tensors on devices.

        Examples
        --------
        >>> tensor.zeros(2).is_shared()
        False
        """
        return self._storage.is_shared()

    def data_ptr(self) -> int:
        """Address of the first element, on the host or the device; 0 for a tensor without elements.

        Examples
        --------
        >>> tensor.zeros(0).data_ptr()
        0
        """
        if self._layout.device_state.is_cuda:
            hand_out(self._storage)
        return self._address if self._layout.numel else 0

    def get_device(self) -> int:
        """Index of the CUDA device that the tensor is on; -1 for the CPU.

        Examples
        --------
        >>> tensor.zeros(1).get_device()
        -1
        """
        device_state = self._layout.device_state
        return device_state.ordinal if isinstance(device_state, CudaState) else -1

    def is_contiguous(self, memory_format: formats.memory_format = formats.contiguous_format) -> bool:
        """Whether the elements lie without gaps in row-major order, or in that of ``memory_format``.

        Examples
        --------
        >>> x = tensor.zeros(2, 3)
        >>> x.is_contiguous(), x.T.is_contiguous()
        (True, False)
        """
        return formats.format_of(memory_format, "is_contiguous").describes(self._layout)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating one: float16, bfloat16, float32 or float64.

        Examples
        --------
        >>> tensor.tensor([1.0]).is_floating_point()
        True
        """
        return self._layout.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex64 or complex128.

        Examples
        --------
        >>> tensor.tensor([1j]).is_complex()
        True
        """
        return self._layout.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers: all but bool and uint8.

        Examples
        --------
        >>> tensor.tensor([True]).is_signed()
        False
        """
        return self._layout.dtype.is_signed

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether both tensors have the same storage, offset, shape and strides.

        Examples
        --------
        >>> x = tensor.zeros(3)
        >>> x.is_set_to(x.detach()), x.is_set_to(x.clone())
        (True, False)
        """
        check_tensor(tensor, "is_set_to", "tensor")
        return (
            self._storage is tensor._storage
            and self._offset == tensor._offset
            and self._layout.shape == tensor._layout.shape
            and self._layout.strides == tensor._layout.strides
        )

    def _is_view(self) -> bool:
        return self._base is not None

    def is_same_size(self, other: Tensor) -> bool:
        """Whether both tensors have the same shape.

        Raises
        ------
        TypeError
            If ``other`` is not a tensor.

        Examples
        --------
        >>> tensor.zeros(2, 3).is_same_size(tensor.ones(3))
        False
        """
        check_tensor(other, "is_same_size", "other")
        return self._layout.shape == other._layout.shape

    def dim_order(self) -> tuple[int, ...]:
        """The dimensions in the order in which they lie in memory, the outermost first.

        Examples
        --------
        >>> tensor.zeros(2, 3).T.dim_order()
        (1, 0)
        """
        layout = self._layout
        return tuple(reversed(layouts.stride_order(layout.shape, layout.strides)))

    def is_conj(self) -> bool:
        """False: conjugate elements are computed at once, not when they are read."""
        return False

    def is_neg(self) -> bool:
        """False: negative elements are computed at once, not when they are read."""
        return False

    def resolve_conj(self) -> Tensor:
        """The tensor itself, as no tensor is a conjugate that is yet to be computed; see :meth:`is_conj`.

        Shape and dtype may be any.
        """
        return self  # type: ignore[return-value]

    def resolve_neg(self) -> Tensor:
        """The tensor itself, as no tensor is a negative that is yet to be computed; see :meth:`is_neg`.

        Shape and dtype may be any.
        """
        return self  # type: ignore[return-value]

    #: Kinds of tensors that there are not.
    is_meta = is_mps = is_nested = is_quantized = is_sparse = is_sparse_csr = is_xla = is_xpu = False
    is_ipu = is_maia = is_mkldnn = is_mtia = is_vulkan = False

    def is_distributed(self) -> bool:
        """False: there are no tensors that several processes share parts of."""
        return False

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
    """Whether ``obj`` is a tensor, an instance of :class:`Tensor` or of a class derived from it.

    Examples
    --------
    >>> tensor.is_tensor(tensor.zeros(1)), tensor.is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, TensorBase)


@operation(method=False)
def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is the storage of tensors; see :meth:`Tensor.untyped_storage`.

    Examples
    --------
    >>> tensor.is_storage(tensor.zeros(1).untyped_storage())
    True
    """
    return isinstance(obj, (Storage, TypedStorage))


@operation(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one: float16, bfloat16, float32 or float64.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.is_floating_point(tensor.tensor([1.0]))
    True
    """
    check_tensor(input, "is_floating_point", "input")
    return input._layout.dtype.is_floating_point


@operation(method=False)
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex64 or complex128.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.is_complex(tensor.tensor([1j]))
    True
    """
    check_tensor(input, "is_complex", "input")
    return input._layout.dtype.is_complex


@operation(method=False)
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers: all but bool and uint8.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.is_signed(tensor.tensor([1, 2]))
    True
    """
    check_tensor(input, "is_signed", "input")
    return input._layout.dtype.is_signed


@operation(method=False)
def is_conj(input: Tensor) -> bool:
    """Always ``False``: conjugates are computed at once, not when elements are read.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.is_conj(tensor.tensor([1j]).conj())
    False
    """
    check_tensor(input, "is_conj", "input")
    return False


@operation(method=False)
def is_neg(input: Tensor) -> bool:
    """Always ``False``: negatives are computed at once, not when elements are read.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.is_neg(tensor.tensor([1j]).imag)
    False
    """
    check_tensor(input, "is_neg", "input")
    return False


@operation(method=False)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape.

    Raises
    ------
    TypeError
        If an argument is not a tensor.

    Examples
    --------
    >>> tensor.is_same_size(tensor.zeros(2, 3), tensor.ones(2, 3))
    True
    """
    check_tensor(input, "is_same_size", "input")
    return input.is_same_size(other)


@operation(method=False)
def numel(input: Tensor) -> int:
    """Number of elements: the product of the sizes.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.numel(tensor.zeros(2, 3))
    6
    """
    check_tensor(input, "numel", "input")
    return input._layout.numel


@operation(method=False)
def is_inference(input: Tensor) -> bool:
    """Whether the memory of the tensor was allocated in :class:`~tensor.inference_mode`.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> with tensor.inference_mode():
    ...     x = tensor.zeros(1)
    >>> tensor.is_inference(x)
    True
    """
    check_tensor(input, "is_inference", "input")
    return input.is_inference()


@operation(method=False)
def typename(obj: Any) -> str:
    """Name of the type of a tensor, such as ``"tensor.FloatTensor"``; of any other object, the name of its class.

    Examples
    --------
    >>> tensor.typename(tensor.tensor([1, 2]))
    'tensor.LongTensor'
    >>> tensor.typename(1.0)
    'float'
    """
    if isinstance(obj, TensorBase):
        return str(obj.type())
    cls = obj if isinstance(obj, type) else type(obj)
    module = cls.__module__
    return cls.__qualname__ if module in (None, "builtins") else f"{module}.{cls.__qualname__}"


@operation(method=False)
def get_device(input: Tensor) -> int:
    """Index of the CUDA device that the tensor is on; -1 for the CPU.

    Raises
    ------
    TypeError
        If ``input`` is not a tensor.

    Examples
    --------
    >>> tensor.get_device(tensor.zeros(1))
    -1
    """
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
