"""``DeviceArray``: what a transport needs of an array, of elements in a GPU's memory.

A transport that reaches such memory, as an MPI library that knows CUDA does, gets these in place of NumPy's arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor as tensors
from nvrtc_kernels.dtypes import from_numpy

if TYPE_CHECKING:
    import numpy as np

    from tensor import Tensor


class DeviceArray:
    """The elements of a contiguous CUDA tensor, in one dimension.

    What it computes is queued on the current stream and waited for, as transports work while the host waits.

    Parameters
    ----------
    tensor : Tensor
        The tensor, with whose memory it works.
    """

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach().view(-1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        result: np.dtype[Any] = self._tensor.dtype.numpy
        return result

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        result: int = self._tensor.dtype.itemsize
        return result

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._tensor.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.size,),
            "typestr": self.dtype.str,
            "data": (self._tensor.data_ptr(), False),
            "strides": None,
            "version": 2,
        }

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, elements: slice) -> DeviceArray:
        return DeviceArray(self._tensor[elements])

    def view(self, dtype: Any) -> DeviceArray:
        """The same memory as elements of another type, of as many bytes or fewer."""
        return DeviceArray(self._tensor.view(from_numpy(dtype)))

    def copy(self) -> DeviceArray:
        """The elements in memory of their own."""
        result = DeviceArray(self._tensor.clone())
        _wait(self._tensor)
        return result

    def divide(self, divisor: int) -> None:
        """Divide the elements in place."""
        self._tensor.div_(divisor)
        _wait(self._tensor)

    def overlaps(self, other: DeviceArray) -> bool:
        """Whether both have memory in common."""
        one, two = self._tensor.data_ptr(), other._tensor.data_ptr()
        return one < two + other.nbytes and two < one + self.nbytes


def _wait(tensor: Tensor) -> None:
    tensors.cuda.current_stream(tensor.device).synchronize()
