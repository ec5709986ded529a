"""The way over the host: factorisations are NumPy's, also of CUDA tensors.

There the current stream copies the matrices to pinned memory, **the host waits for it**, LAPACK works, and the
stream copies the results from pinned memory to the device. The host does not wait for that: later work on the
stream finds the results, and work on other streams is ordered with them as with those of any operation. So a call
costs one wait, in which errors are found too, and cannot be captured in a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.blas import single_threaded
from nvrtc_kernels.dtypes import from_numpy
from tensor.core import layout as layouts
from tensor.core.base import empty, wrap
from tensor.core.devices.state import cpu
from tensor.core.plans.copies import COPY, copied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


def on_host(function: Callable[..., Sequence[Array]], *tensors: Tensor) -> tuple[Tensor, ...]:
    """What ``function`` makes of the tensors' elements as NumPy arrays, as tensors on their device.

    Not recorded. ``function`` may neither change its arguments nor return memory of theirs.
    """
    device_state: Any = tensors[0]._layout.device_state
    single_threaded()
    if not device_state.is_cuda:
        with np.errstate(all="ignore"):
            return tuple(
                [wrap(np.asarray(each, order="C")) for each in function(*[x._host for x in tensors])]
            )
    arrays = [each._host for each in _brought(device_state, tensors)]
    with np.errstate(all="ignore"):
        results = function(*arrays)
    return tuple([_sent(device_state, np.asarray(each)) for each in results])


def _brought(device_state: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies in pinned memory, which have arrived."""
    result = []
    for x in tensors:
        layout = x._layout.as_contiguous().on(cpu)
        staged = empty(layout, pin_memory=True)
        device_state.plans[COPY, layout, x._layout](staged, x, True)
        result.append(staged)
    device_state.local.stream.synchronize()
    return result


def _sent(device_state: Any, array: Array) -> Tensor:
    """A tensor on a device with the elements of ``array`` once the current stream has copied them."""
    layout = layouts.contiguous[array.shape, from_numpy(array.dtype), cpu]
    staged = empty(layout, pin_memory=True)
    staged._writable[...] = array
    return copied(staged, layout.on(device_state), non_blocking=True)


def adjoint_of(array: Array) -> Array:
    """Conjugate transposes of matrices."""
    result: Array = np.conj(np.swapaxes(array, -1, -2))
    return result


def read(*tensors: Tensor) -> list[Array]:
    """Elements of tensors on the host, which waits for their devices."""
    device_state: Any = tensors[0]._layout.device_state
    return [x._host for x in (_brought(device_state, tensors) if device_state.is_cuda else tensors)]


def one_by_one(
    function: Callable[[Array], Array], shape: tuple[int, ...], array: Array
) -> tuple[Array, list[int]]:
    """``function`` of every matrix of a batch, and the numbers of those of which there is none.

    Parameters
    ----------
    shape
        Of the result for a matrix, which is NaN where ``function`` raises NumPy's LinAlgError.
    """
    batch = array.shape[:-2]
    flat = array.reshape(-1, *array.shape[-2:])
    result = np.full((len(flat), *shape), np.nan, array.dtype)
    wrong = []
    for number, matrix in enumerate(flat):
        try:
            result[number] = function(matrix)
        except np.linalg.LinAlgError:
            wrong.append(number)
    return result.reshape(*batch, *shape), wrong
