"""Driver calls that copy memory in batches, or with attributes that say when a source is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    CallError,
    call,
    integer,
    invalid_value,
    listed,
    structure,
    unsigned,
)
from drv.simulator.memory.queued_copy import pageable_rows
from drv.simulator.work.copy import CopyWork
from drv.simulator.work.copy_batch import CopyBatchWork

from .copy import CopyCalls

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from drv.simulator.memory.arrays import CudaArray
    from drv.simulator.memory.queued_copy import Endpoint
    from drv.simulator.scheduler import Stream

_ORDERS = cuda.CUmemcpySrcAccessOrder
_IN_STREAM_ORDER = int(_ORDERS.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
_DURING_THE_CALL = int(_ORDERS.CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
_ANY_TIME = int(_ORDERS.CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
_OVERLAP = int(cuda.CUmemcpyFlags.CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
_POINTER = int(cuda.CUmemcpy3DOperandType.CU_MEMCPY_OPERAND_TYPE_POINTER)
_ARRAY = int(cuda.CUmemcpy3DOperandType.CU_MEMCPY_OPERAND_TYPE_ARRAY)


class CopyBatchCalls(CopyCalls):
    """``cuMemcpyBatchAsync``, ``cuMemcpy3DBatchAsync``, ``cuMemcpy*WithAttributesAsync``, ``cuMemcpy3DPeer``."""

    @call()
    def cuMemcpyBatchAsync(
        self,
        dsts: Any,
        srcs: Any,
        sizes: Any,
        count: Any,
        attrs: Any,
        attrsIdxs: Any,
        numAttrs: Any,
        hStream: Any,
    ) -> tuple[Any, ...]:
        stream, number, groups = self._batch_stream(hStream), unsigned(count), unsigned(numAttrs)
        begins = [unsigned(each) for each in listed(attrsIdxs, groups)]
        rows = list(zip(listed(dsts, number), listed(srcs, number), listed(sizes, number), strict=True))
        orders = [_attributes(each) for each in listed(attrs, groups)]
        if (
            not number
            or not begins
            or begins[0] != 0
            or begins != sorted(set(begins))
            or begins[-1] >= number
        ):
            raise invalid_value()
        ends = [*begins[1:], number]
        spread = [
            order for order, begin, end in zip(orders, begins, ends, strict=True) for _ in range(end - begin)
        ]
        copies = [
            self._line(stream, integer(target), integer(source), unsigned(size))
            for target, source, size in rows
        ]
        self._submit(stream, copies, spread)
        return OK

    @call()
    def cuMemcpyWithAttributesAsync(
        self, dst: Any, src: Any, size: Any, attr: Any, hStream: Any
    ) -> tuple[Any, ...]:
        stream = self._uncaptured_stream(hStream)
        order = _attributes(attr)
        self._submit(stream, [self._line(stream, integer(dst), integer(src), unsigned(size))], [order])
        return OK

    @call()
    def cuMemcpy3DBatchAsync(self, numOps: Any, opList: Any, flags: Any, hStream: Any) -> tuple[Any, ...]:
        stream, number = self._batch_stream(hStream), unsigned(numOps)
        operations = listed(opList, number)
        if not number or unsigned(flags):
            raise invalid_value()
        copies = [self._box_of(stream, each) for each in operations]
        self._submit(stream, copies, [_order(each) for each in operations])
        return OK

    @call()
    def cuMemcpy3DWithAttributesAsync(self, op: Any, flags: Any, hStream: Any) -> tuple[Any, ...]:
        stream = self._uncaptured_stream(hStream)
        if unsigned(flags):
            raise invalid_value()
        self._submit(stream, [self._box_of(stream, op)], [_order(op)])
        return OK

    def _batch_stream(self, hStream: Any) -> Stream:
        stream = self._uncaptured_stream(hStream)
        if stream is stream.context.legacy:
            raise invalid_value()
        return stream

    def _uncaptured_stream(self, hStream: Any) -> Stream:
        """A stream for what cannot be captured; asking for it does not make the capture void."""
        stream = self.stream(hStream)
        if stream.capture is not None:
            raise CallError(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return stream

    def _line(self, stream: Stream, target: int, source: int, nbytes: int) -> CopyWork:
        shape = (1, 1, nbytes)
        if nbytes == 0:
            raise invalid_value()
        to, origin = (self._endpoint(address, shape, nbytes, "any") for address in (target, source))
        return CopyWork(stream.context, to, origin, shape)

    def _box_of(self, stream: Stream, operation: Any) -> CopyWork:
        extent = structure(operation, cuda.CUDA_MEMCPY3D_BATCH_OP).extent
        sides = operation.dst, operation.src
        # With an array on either side, widths are in its elements.
        items = {self._array_of(each).format.nbytes for each in sides if _operand_type(each) == _ARRAY}
        if len(items) > 1:
            raise invalid_value()
        item = items.pop() if items else 1
        shape = (int(extent.depth), int(extent.height), int(extent.width) * item)
        if 0 in shape:
            raise invalid_value()
        target, source = (self._operand(each, shape, item) for each in sides)
        return CopyWork(stream.context, target, source, shape)

    def _array_of(self, operand: Any) -> CudaArray:
        return self.array(operand.op.array.array)

    def _operand(self, operand: Any, shape: tuple[int, int, int], item: int) -> Endpoint:
        if _operand_type(operand) == _ARRAY:
            at = operand.op.array.offset
            return self.in_array(self._array_of(operand), shape, int(at.x) * item, int(at.y), int(at.z))
        pointer = operand.op.ptr
        pitch = int(pointer.rowLength) * item or shape[2]
        rows = int(pointer.layerHeight) or shape[1]
        if pitch < shape[2] or rows < shape[1]:
            raise invalid_value()
        return self._endpoint(int(pointer.ptr), shape, pitch, "any", rows * pitch)

    def _submit(self, stream: Stream, copies: list[CopyWork], orders: list[int]) -> None:
        """Queue copies, whose sources are read when ``orders`` say."""
        if not self.execute:
            return
        staged = [self._staged(copy, order) for copy, order in zip(copies, orders, strict=True)]
        operation = self.submit(stream, CopyBatchWork(stream.context, copies, staged))
        if self.launch_blocking and operation is not None:
            self.wait(operation)

    def _staged(self, copy: CopyWork, order: int) -> list[NDArray[np.uint8]] | None:
        """The bytes of a pageable source that is read by the call."""
        source, (depth, height, width) = copy.source, copy.shape
        if source.allocation is not None or order == _IN_STREAM_ORDER:
            return None
        # At any time may as well be now.
        if order == _ANY_TIME and self.scheduler.choose(2):
            return None
        return [
            pageable_rows(source.address + z * source.slice_pitch, height, width, source.pitch)
            for z in range(depth)
        ]

    # Between contexts

    @call(unsafe=True)
    def cuMemcpy3DPeer(self, pCopy: Any) -> tuple[Any, ...]:
        target, source, shape = self._described_peers(pCopy)
        contexts = [self.usable(self.context(each)) for each in (pCopy.dstContext, pCopy.srcContext)]
        if 0 in shape:
            return OK
        return self.between_contexts(contexts, lambda after: self._copy(target, source, shape, None, after))

    @call()
    def cuMemcpy3DPeerAsync(self, pCopy: Any, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        target, source, shape = self._described_peers(pCopy)
        for each in (pCopy.dstContext, pCopy.srcContext):
            self.usable(self.context(each))
        return self._copy(target, source, shape, stream) if 0 not in shape else OK

    def _described_peers(self, copy: Any) -> tuple[Endpoint, Endpoint, tuple[int, int, int]]:
        structure(copy, cuda.CUDA_MEMCPY3D_PEER)
        if copy.srcLOD or copy.dstLOD:
            raise invalid_value()
        shape = (copy.Depth, copy.Height, copy.WidthInBytes)
        target = self._described(copy, "dst", shape, copy.dstHeight, copy.dstZ)
        return target, self._described(copy, "src", shape, copy.srcHeight, copy.srcZ), shape


def _operand_type(operand: Any) -> int:
    try:
        operand_type = int(operand.type)
    except ValueError:
        raise invalid_value() from None
    if operand_type not in (_POINTER, _ARRAY):
        raise invalid_value()
    return operand_type


def _attributes(attributes: Any) -> int:
    """When a source is read, of ``CUmemcpyAttributes``."""
    return _order(structure(attributes, cuda.CUmemcpyAttributes))


def _order(described: Any) -> int:
    try:
        order = int(described.srcAccessOrder)
    except ValueError:
        raise invalid_value() from None
    if order not in (_IN_STREAM_ORDER, _DURING_THE_CALL, _ANY_TIME) or int(described.flags) & ~_OVERLAP:
        raise invalid_value()
    return order
