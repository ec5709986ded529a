"""NumPy arrays in device memory, with any strides, for tests of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import drv
from nvrtc_kernels import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.plans import Plan


class DeviceArray:
    """A copy of ``array`` on the device; ``order`` lays its dimensions out, the innermost last.

    ``gap`` elements are left between neighbours, and ``lead`` before the first. Elements of a dimension
    that ``stretch`` names lie in one place.
    """

    def __init__(
        self,
        device: drv.Device,
        array: np.ndarray,
        *,
        order: Sequence[int] | None = None,
        gap: int = 0,
        lead: int = 0,
        stretch: Sequence[int] = (),
    ) -> None:
        order = range(array.ndim) if order is None else order
        self.shape, self.numpy = array.shape, array.dtype
        self.dtype = dtypes.from_numpy(array.dtype)
        strides, step = [0] * array.ndim, 1 + gap
        for axis in reversed(order):
            if axis not in stretch:
                strides[axis] = step
                step *= max(array.shape[axis], 1)
        self.strides = tuple(strides)
        self._host = np.zeros(lead + step + 1, array.dtype)
        self._host.view(np.uint8)[:] = 0xA5
        self._lead = lead
        self._window()[...] = array
        self.memory = drv.DeviceMemory(self._host.nbytes, device)
        drv.copy_to_device(self.memory, self._host)
        self.address = self.memory.address + lead * array.itemsize

    @property
    def operand(self) -> tuple[tuple[int, ...], dtypes.dtype]:
        return self.strides, self.dtype

    @property
    def layout(self) -> tuple[tuple[int, ...], tuple[int, ...], dtypes.dtype]:
        return self.shape, self.strides, self.dtype

    def numpy_array(self) -> np.ndarray:
        """The elements; fails where memory between or around them has changed."""
        before = self._host.copy()
        drv.copy_to_host(self._host, self.memory)
        result = self._window().copy()
        self._window()[...] = 0
        changed = self._host.copy()
        self._host = before
        self._window()[...] = 0
        assert (changed.view(np.uint8) == self._host.view(np.uint8)).all(), "written out of place"
        return result

    def _window(self) -> np.ndarray:
        strides = [step * self._host.itemsize for step in self.strides]
        data = self._host[self._lead :]
        if data.dtype.str == "<f1":
            # What ml_dtypes calls float8_e5m2, and NumPy does not know.
            return np.lib.stride_tricks.as_strided(data.view(np.uint8), self.shape, strides).view(data.dtype)
        return np.lib.stride_tricks.as_strided(data, self.shape, strides)


def run(device: drv.Device, plan: Plan, *arrays: DeviceArray | int) -> None:
    """Launch a plan on the default stream, with scratch memory that nobody has written, and wait."""
    addresses = [each if isinstance(each, int) else each.address for each in arrays]
    stream = device.default_stream
    if plan.scratch_bytes:
        with drv.DeviceMemory(plan.scratch_bytes, device) as scratch:
            plan.run(stream.handle, scratch.address, *addresses)
            stream.synchronize()
    else:
        plan.run(stream.handle, 0, *addresses)
        stream.synchronize()
