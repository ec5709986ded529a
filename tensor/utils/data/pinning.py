"""Batches into pinned memory, ahead of their use."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tensor import cuda
from tensor.core.base import TensorBase
from tensor.core.devices.device import device as as_device

from .nesting import mapping_like, sequence_like

if TYPE_CHECKING:
    from collections.abc import Callable


def pin_memory(data: Any) -> Any:
    """A copy of ``data`` whose tensors lie in pinned memory.

    Mappings, tuples, named tuples and sequences are rebuilt with pinned parts, objects with a method
    ``pin_memory`` become what that returns, and all else stays what it is.

    Raises
    ------
    RuntimeError
        If there is no CUDA driver, or no pinned memory left.
    """
    if isinstance(data, TensorBase) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, Mapping):
        return mapping_like(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, (str, bytes)) or not isinstance(data, Sequence):
        return data
    return sequence_like(data, [pin_memory(part) for part in data])


class Pinner:
    """A thread that pins batches, in the order in which they are given, for one device's use."""

    def __init__(self, device: int) -> None:
        self._thread = ThreadPoolExecutor(1, "pin_memory", _select, (device,))

    def submit(self, make: Callable[[], Any]) -> Future[Any]:
        """Have ``make()`` called and its result pinned by the thread."""
        return self._thread.submit(lambda: pin_memory(make()))

    def close(self) -> None:
        """Drop what has not begun, and wait for the rest."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def _select(device: int) -> None:
    cuda.set_device(device)


def pinning_device(expected: bool, device: Any = "") -> int | None:
    """Index of the device to pin for, ``None`` where nothing is pinned: without a device, with a warning."""
    if not expected:
        return None
    if not cuda.is_available():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.",
            stacklevel=4,
        )
        return None
    index = as_device(device).index if device else None
    return cuda.current_device() if index is None else index
