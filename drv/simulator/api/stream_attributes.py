"""Driver calls about the attributes of streams: what launches on them have unless they say otherwise."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import OK, SUCCESS, call, contents, filled, integer, invalid_value, structure
from drv.simulator.driver_state import DriverState

from .context import GREATEST_PRIORITY, LEAST_PRIORITY

_BYTES = 64
_ATTRIBUTES = cuda.CUlaunchAttributeID
_PRIORITY = int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_PRIORITY)
_POLICY = int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
_OF_STREAMS = (
    int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW),
    _POLICY,
    _PRIORITY,
    int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP),
    int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN),
)
_DOMAIN_MAP = int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
_POLICIES = tuple(int(each) for each in cuda.CUsynchronizationPolicy)


class StreamAttributeCalls(DriverState):
    """``cuStreamGetAttribute``, ``cuStreamSetAttribute``, ``cuStreamCopyAttributes``."""

    @call(1)
    def cuStreamGetAttribute(self, hStream: Any, attr: Any) -> tuple[Any, ...]:
        stream, attribute = self.stream(hStream), _attribute(attr)
        result = cuda.CUstreamAttrValue()
        if attribute == _PRIORITY:
            result.priority = stream.priority
        elif attribute in stream.attributes:
            filled(result, stream.attributes[attribute])
        elif attribute == _POLICY:
            result.syncPolicy = cuda.CUsynchronizationPolicy.CU_SYNC_POLICY_AUTO
        elif attribute == _DOMAIN_MAP:
            result.memSyncDomainMap.remote = 1
        return SUCCESS, result

    @call()
    def cuStreamSetAttribute(self, hStream: Any, attr: Any, value: Any) -> tuple[Any, ...]:
        stream, attribute = self.stream(hStream), _attribute(attr)
        data = contents(structure(value, cuda.CUstreamAttrValue), _BYTES)
        if attribute == _PRIORITY:
            stream.priority = max(GREATEST_PRIORITY, min(LEAST_PRIORITY, value.priority))
            return OK
        if attribute == _POLICY and int.from_bytes(data[:4], "little") not in _POLICIES:
            raise invalid_value()
        stream.attributes = {**stream.attributes, attribute: data}
        return OK

    @call()
    def cuStreamCopyAttributes(self, dst: Any, src: Any) -> tuple[Any, ...]:
        target, source = self.stream(dst), self.stream(src)
        if target.context is not source.context:
            raise invalid_value()
        target.attributes = source.attributes
        return OK


def _attribute(attr: Any) -> int:
    attribute = integer(attr)
    if attribute not in _OF_STREAMS:
        raise invalid_value()
    return attribute
