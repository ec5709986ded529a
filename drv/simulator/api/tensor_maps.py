"""Driver calls that make tensor maps (``cuTensorMap*``)."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_value,
    signed,
    structure,
    unsigned,
)
from drv.simulator.driver_state import DriverState
from drv.simulator.memory.tensor_map import (
    BYTES,
    DATA_TYPES,
    FLOATS,
    INTERLEAVED_BYTES,
    MOST_DIMENSIONS,
    SWIZZLE_SPANS,
    TensorMap,
)

from .clusters import FIRST_CAPABILITY

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERLEAVE_32B, _SWIZZLE_32B = 2, 1
_MOST_BOX, _MOST_STEP = 256, 8
_MOST_CHANNELS, _MOST_PIXELS = 256, 1024
_MOST_STRIDE = 1 << 40
#: Range of the corners of an im2col box by the rank of the tensor.
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}


class TensorMapCalls(DriverState):
    """``cuTensorMap*``."""

    @call(1)
    def cuTensorMapEncodeTiled(
        self,
        tensorDataType: Any,
        tensorRank: Any,
        globalAddress: Any,
        globalDim: Any,
        globalStrides: Any,
        boxDim: Any,
        elementStrides: Any,
        interleave: Any,
        swizzle: Any,
        l2Promotion: Any,
        oobFill: Any,
    ) -> tuple[Any, ...]:
        rank = unsigned(tensorRank, 32)
        _check(1 <= rank <= MOST_DIMENSIONS)
        box = _numbers(boxDim, rank, 32)
        tensor_map = TensorMap(
            rank,
            integer(tensorDataType),
            integer(globalAddress),
            _numbers(globalDim, rank),
            _numbers(globalStrides, rank - 1),
            box,
            _numbers(elementStrides, rank, 32),
            integer(interleave),
            integer(swizzle),
            integer(oobFill),
            integer(l2Promotion),
        )
        self._check_tensor(tensor_map)
        _check(all(0 < size <= _MOST_BOX for size in box))
        _check_row(tensor_map, box[0])
        return SUCCESS, _handle(tensor_map)

    @call(1)
    def cuTensorMapEncodeIm2col(
        self,
        tensorDataType: Any,
        tensorRank: Any,
        globalAddress: Any,
        globalDim: Any,
        globalStrides: Any,
        pixelBoxLowerCorner: Any,
        pixelBoxUpperCorner: Any,
        channelsPerPixel: Any,
        pixelsPerColumn: Any,
        elementStrides: Any,
        interleave: Any,
        swizzle: Any,
        l2Promotion: Any,
        oobFill: Any,
    ) -> tuple[Any, ...]:
        rank = unsigned(tensorRank, 32)
        _check(rank in _CORNERS)
        lower, upper = (
            tuple(signed(each) for each in corner[: rank - 2])
            for corner in (pixelBoxLowerCorner or (), pixelBoxUpperCorner or ())
        )
        most = _CORNERS[rank]
        _check(len(lower) == len(upper) == rank - 2)
        _check(all(-most <= each < most for each in (*lower, *upper)))
        tensor_map = TensorMap(
            rank,
            integer(tensorDataType),
            integer(globalAddress),
            _numbers(globalDim, rank),
            _numbers(globalStrides, rank - 1),
            (),
            _numbers(elementStrides, rank, 32),
            integer(interleave),
            integer(swizzle),
            integer(oobFill),
            integer(l2Promotion),
            im2col=True,
            lower=lower,
            upper=upper,
            channels=unsigned(channelsPerPixel, 32),
            pixels=unsigned(pixelsPerColumn, 32),
        )
        self._check_tensor(tensor_map)
        _check(0 < tensor_map.channels <= _MOST_CHANNELS and 0 < tensor_map.pixels <= _MOST_PIXELS)
        sizes = tensor_map.sizes[1:-1]
        _check(all(low <= size - 1 + high for size, low, high in zip(sizes, lower, upper, strict=True)))
        _check_row(tensor_map, tensor_map.channels)
        return SUCCESS, _handle(tensor_map)

    @call(1)
    def cuTensorMapEncodeIm2colWide(
        self,
        tensorDataType: Any,
        tensorRank: Any,
        globalAddress: Any,
        globalDim: Any,
        globalStrides: Any,
        pixelBoxLowerCornerWidth: Any,
        pixelBoxUpperCornerWidth: Any,
        channelsPerPixel: Any,
        pixelsPerColumn: Any,
        elementStrides: Any,
        interleave: Any,
        mode: Any,
        swizzle: Any,
        l2Promotion: Any,
        oobFill: Any,
    ) -> tuple[Any, ...]:
        rank = unsigned(tensorRank, 32)
        _check(rank in _CORNERS)
        if not self.thread.contexts:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        # Devices from compute capability 10.0 on have this mode, whose copies are not simulated.
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call()
    def cuTensorMapReplaceAddress(self, tensorMap: Any, globalAddress: Any) -> tuple[Any, ...]:
        structure(tensorMap, cuda.CUtensorMap)
        tensor_map = TensorMap.decode(ctypes.string_at(tensorMap.getPtr(), BYTES))
        if tensor_map is None:
            raise invalid_value()
        address = integer(globalAddress)
        alignment = 32 if tensor_map.interleave == _INTERLEAVE_32B else 16
        _check(address != 0 and address % alignment == 0)
        ctypes.memmove(tensorMap.getPtr(), replace(tensor_map, address=address).encode(), BYTES)
        return OK

    def _check_tensor(self, tensor_map: TensorMap) -> None:
        """What both modes require."""
        if not self.thread.contexts:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        if self.thread.contexts[-1].device.capability < FIRST_CAPABILITY:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        alignment = 32 if tensor_map.interleave == _INTERLEAVE_32B else 16
        _check(0 <= tensor_map.data_type < len(DATA_TYPES) and tensor_map.interleave in INTERLEAVED_BYTES)
        _check(tensor_map.swizzle in SWIZZLE_SPANS and tensor_map.promotion in range(4))
        _check(tensor_map.fill == 0 or (tensor_map.fill == 1 and tensor_map.data_type in FLOATS))
        _check(tensor_map.address != 0 and tensor_map.address % alignment == 0)
        _check(all(0 < size <= 1 << 32 for size in tensor_map.sizes))
        _check(all(stride % alignment == 0 and 0 < stride < _MOST_STRIDE for stride in tensor_map.strides))
        _check(all(0 < step <= _MOST_STEP for step in tensor_map.steps))
        if tensor_map.interleave:
            _check(tensor_map.rank > 2)
        if tensor_map.interleave == _INTERLEAVE_32B:
            _check(tensor_map.swizzle == _SWIZZLE_32B)


def _check(holds: bool) -> None:
    if not holds:
        raise invalid_value()


def _check_row(tensor_map: TensorMap, elements: int) -> None:
    """The innermost dimension of a box fits the layout in shared memory."""
    if not tensor_map.interleave:
        row = elements * tensor_map.element_bytes
        _check(row % 16 == 0)
        span = SWIZZLE_SPANS[tensor_map.swizzle]
        _check(not span or row <= span)


def _numbers(values: Sequence[Any] | None, count: int, bits: int = 64) -> tuple[int, ...]:
    """The first ``count`` of a list of unsigned numbers."""
    numbers = tuple(unsigned(integer(each), bits) for each in (values or ())[:count])
    _check(len(numbers) == count)
    return numbers


def _handle(tensor_map: TensorMap) -> cuda.CUtensorMap:
    result = cuda.CUtensorMap()
    ctypes.memmove(result.getPtr(), tensor_map.encode(), BYTES)
    return result
