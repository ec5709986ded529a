"""Functions of the program that are called on the host."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUgraphNodeType

from .work import Work

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context, DriverState

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class HostWork(Work):
    """A call of the C function at ``address`` with the argument ``data``."""

    __slots__ = ("address", "data")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_HOST
    on_host = True

    def __init__(self, context: Context, address: int, data: int) -> None:
        super().__init__(context, "host function")
        self.address = address
        self.data = data

    def run(self, driver: DriverState) -> None:
        """Call the function."""
        _HOST_FUNCTION(self.address)(self.data)
