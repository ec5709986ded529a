"""The simulated cuBLAS: the functions of :class:`drv.bindings.cublas.Cublas`, computed with NumPy on simulated memory.

Calls check their arguments and queue their work on the handle's stream, as NVIDIA's do. A workspace given with
``cublasSetWorkspace`` is written to, so that the race finder sees one that two streams share. Only the elements that
a routine touches are read and written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.host.blas import single_threaded
from drv.simulator.unexecuted import remember

from .cublas_matrices import MatrixCalls
from .cublas_products import ProductCalls
from .cublas_vectors import VectorCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.driver import SimulatedDriver

#: Functions that are accepted again without another look on a driver that runs nothing: see :mod:`drv.simulator.unexecuted`.
_UNEXECUTED = ("cublasGemmEx", "cublasGemmStridedBatchedEx")


class SimulatedCublas(ProductCalls, MatrixCalls, VectorCalls):
    """cuBLAS on a simulated driver."""

    def __init__(self, driver: SimulatedDriver) -> None:
        super().__init__(driver)
        single_threaded()
        if not driver.execute:
            self.__dict__.update({name: self._unexecuted(driver, name) for name in _UNEXECUTED})

    def _unexecuted(self, driver: SimulatedDriver, name: str) -> Callable[..., None]:
        checked = getattr(self, name)
        handles, accepted, thread = self._handles, driver.accepted.of(name), driver.thread
        faults = driver.inject.asked

        def call(handle: int, *arguments: Any) -> None:
            state = handles.get(handle)
            if state is None:
                checked(handle, *arguments)
                return
            key = state.device, state.stream, state.math_mode, state.pointer_mode, arguments
            context = accepted.get(key)
            if context is None or not thread.contexts or thread.contexts[-1] is not context or faults:
                checked(handle, *arguments)
                remember(driver, accepted, key)

        return call
