"""Driver calls about the memory that graphs of a device allocate."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import OK, SUCCESS, call, integer, invalid_value
from drv.simulator.graphs.book import GraphBook

_ATTRIBUTES = cuda.CUgraphMem_attribute


class GraphMemoryCalls(GraphBook):
    """``cuDeviceGraphMemTrim``, ``cuDevice*GraphMemAttribute``."""

    @call()
    def cuDeviceGraphMemTrim(self, device: Any) -> tuple[Any, ...]:
        self.graph_memory(self.device(device)).trim()
        return OK

    @call(1)
    def cuDeviceGetGraphMemAttribute(self, device: Any, attr: Any) -> tuple[Any, ...]:
        memory, attribute = self.graph_memory(self.device(device)), _attribute(attr)
        value = {
            _ATTRIBUTES.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: memory.mapped,
            _ATTRIBUTES.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: memory.mapped_high,
            _ATTRIBUTES.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: memory.reserved,
            _ATTRIBUTES.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: memory.reserved_high,
        }[attribute]
        return SUCCESS, cuda.cuuint64_t(value)

    @call()
    def cuDeviceSetGraphMemAttribute(self, device: Any, attr: Any, value: Any) -> tuple[Any, ...]:
        memory, attribute = self.graph_memory(self.device(device)), _attribute(attr)
        if integer(value) != 0:
            raise invalid_value()
        if attribute == _ATTRIBUTES.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
            memory.mapped_high = memory.mapped
        elif attribute == _ATTRIBUTES.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
            memory.reserved_high = memory.reserved
        else:
            raise invalid_value()
        return OK


def _attribute(attr: Any) -> cuda.CUgraphMem_attribute:
    try:
        return _ATTRIBUTES(integer(attr))
    except ValueError:
        raise invalid_value() from None
