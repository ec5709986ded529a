"""Tensor maps: what bulk copies of tensors (``cp.async.bulk.tensor``) are told of a tensor in device memory."""

from __future__ import annotations

import ctypes
import operator
from math import prod
from typing import TYPE_CHECKING, Any

from .current import current_device
from .errors import InvalidValueError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .device import Device
    from .memory import DeviceMemory

#: Bytes of an element, by what ``CU_TENSOR_MAP_DATA_TYPE_*`` names it.
_ELEMENT_BYTES = {
    "uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float16": 2, "float32": 4, "float64": 8,
    "bfloat16": 2, "float32_ftz": 4, "tfloat32": 4, "tfloat32_ftz": 4,
}  # fmt: skip
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROMOTIONS = {0: "NONE", 64: "L2_64B", 128: "L2_128B", 256: "L2_256B"}
_FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}
_CAPABILITY = (9, 0)
_BYTES, _ALIGNMENT = 128, 16
_MOST_DIMENSIONS, _MOST_SIZE, _MOST_STRIDE, _MOST_BOX, _MOST_STEP = 5, 1 << 32, 1 << 40, 256, 8
_MOST_ADDRESS = 1 << 64
#: Addresses whose maps are remembered.
_MOST_ENCODED = 1024


class TensorMap:
    """A tensor in device memory, and the box of it that one bulk copy moves to shared memory or from there.

    A kernel takes it by value, as ``const __grid_constant__`` parameter of 128 bytes that are aligned to 64; a recorded graph
    holds a copy as it holds all parameters. The address is named last, by :meth:`at`: tensors that are alike have one map.

    Parameters
    ----------
    dtype : str
        Of the elements: ``uint8``, ``uint16``, ``uint32``, ``int32``, ``uint64``, ``int64``, ``float16``, ``bfloat16``,
        ``float32``, ``float64``, ``tfloat32``, and with subnormal numbers read as zeros ``float32_ftz``, ``tfloat32_ftz``.
    shape : sequence of int
        One to five sizes, from 1 to 2^32 elements each. Coordinates in a kernel are in the opposite order: the first one is
        that of the last dimension.
    strides : sequence of int
        Bytes from one index to the next of each dimension but the last, whose elements are neighbours: multiples of 16, above
        0 and below 2^40.
    box : sequence of int
        Sizes of the box, from 1 to 256 each. Its last one has a multiple of 16 bytes, and at most ``swizzle`` where there is
        one.
    steps : sequence of int, optional
        From one element of the box to the next in the tensor, from 1 to 8, for each dimension; all 1 by default. A box then
        has ``ceil(box / steps)`` elements. The last one has to be 1.
    swizzle : int
        Bytes within which rows are permuted in shared memory, by 16 bytes each, against bank conflicts: 0 (not at all), 32, 64
        or 128.
    promotion : int
        Bytes that level 2 fetches at a time: 0 (what is asked for), 64, 128 or 256.
    fill : str
        What elements outside the tensor are: ``"zero"``, or ``"nan"`` of floating point numbers.
    device : Device, optional
        Whose kernels use it; this thread's current device by default.

    Attributes
    ----------
    device : Device
        Whose kernels use it.
    box_bytes : int
        Bytes that one copy moves, elements outside the tensor included: what an ``mbarrier`` object has to expect.

    Raises
    ------
    NotSupportedError
        If the device's compute capability is below 9.0.
    InvalidValueError
        If anything is not as said above.

    Examples
    --------
    >>> rows = drv.TensorMap("float16", (1000, 64), (128,), (32, 64), swizzle=128)
    >>> rows.box_bytes
    4096
    >>> memory = drv.DeviceMemory(1000 * 128)
    >>> len(rows.at(memory))
    128
    """

    __slots__ = ("_arguments", "_encoded", "box_bytes", "device")

    def __init__(
        self,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        *,
        steps: Sequence[int] | None = None,
        swizzle: int = 0,
        promotion: int = 0,
        fill: str = "zero",
        device: Device | None = None,
    ) -> None:
        from cuda.bindings import driver as cuda

        if device is None:
            device = current_device()
        if device.compute_capability < _CAPABILITY:
            major, minor = device.compute_capability
            raise NotSupportedError(
                f"tensor maps are for devices of compute capability 9.0 and later; device {device.ordinal} has {major}.{minor}"
            )
        shape, strides, box = _integers("shape", shape), _integers("strides", strides), _integers("box", box)
        rank = len(shape)
        steps = (1,) * rank if steps is None else _integers("steps", steps)
        size = _ELEMENT_BYTES.get(dtype)
        _require(size is not None, f"dtype {dtype!r}: expected one of {', '.join(_ELEMENT_BYTES)}")
        assert size is not None
        _require(1 <= rank <= _MOST_DIMENSIONS, f"{rank} dimensions: it has 1 to {_MOST_DIMENSIONS}")
        for name, values, count in (
            ("strides", strides, rank - 1),
            ("box", box, rank),
            ("steps", steps, rank),
        ):
            _require(len(values) == count, f"{len(values)} {name} of {rank} dimensions: expected {count}")
        _require(all(0 < each <= _MOST_SIZE for each in shape), f"shape {shape}: sizes are from 1 to 2^32")
        _require(
            all(each % _ALIGNMENT == 0 and 0 < each < _MOST_STRIDE for each in strides),
            f"strides {strides}: they are multiples of {_ALIGNMENT} bytes, above 0 and below 2^40",
        )
        _require(all(0 < each <= _MOST_BOX for each in box), f"box {box}: sizes are from 1 to {_MOST_BOX}")
        _require(
            all(0 < each <= _MOST_STEP for each in steps) and steps[-1] == 1,
            f"steps {steps}: they are from 1 to {_MOST_STEP}, and the last one is 1",
        )
        for name, value, options in (
            ("swizzle", swizzle, _SWIZZLES),
            ("promotion", promotion, _PROMOTIONS),
            ("fill", fill, _FILLS),
        ):
            _require(value in options, f"{name} {value!r}: expected one of {', '.join(map(repr, options))}")
        _require(fill == "zero" or "float" in dtype, f"fill 'nan' of {dtype}, which has no NaN")
        row = box[-1] * size
        _require(
            row % _ALIGNMENT == 0,
            f"box {box} of {dtype}: {row} bytes a row, which is no multiple of {_ALIGNMENT}",
        )
        _require(
            not swizzle or row <= swizzle,
            f"box {box} of {dtype}: {row} bytes a row, of which a swizzle permutes {swizzle}",
        )
        self.device = device
        self.box_bytes: int = prod(-(-each // step) for each, step in zip(box, steps, strict=True)) * size
        self._encoded: dict[int, bytes] = {}
        # The driver begins with the last dimension.
        self._arguments: tuple[Any, ...] = (
            getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{dtype.upper()}"),
            rank,
            [cuda.cuuint64_t(each) for each in reversed(shape)],
            [cuda.cuuint64_t(each) for each in reversed(strides)],
            [cuda.cuuint32_t(each) for each in reversed(box)],
            [cuda.cuuint32_t(each) for each in reversed(steps)],
            cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[swizzle]}"),
            getattr(cuda.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{_PROMOTIONS[promotion]}"),
            getattr(cuda.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{_FILLS[fill]}"),
        )

    def at(self, address: int | DeviceMemory) -> bytes:
        """The map of the tensor that begins at an address, as kernels take it.

        It depends on nothing else, so those of the latest addresses are remembered, whatever memory lies there since. Safe to
        call from several threads.

        Parameters
        ----------
        address : int or DeviceMemory
            Of the first element: a multiple of 16.

        Returns
        -------
        bytes
            128 of them.

        Raises
        ------
        InvalidValueError
            If the address is none, 0 or no multiple of 16.
        CudaError
            If the driver refuses it.
        """
        try:
            number = address if isinstance(address, int) else address.address
        except AttributeError:
            raise InvalidValueError(
                f"tensor map at {address!r}: expected an address, or DeviceMemory, not {type(address).__name__}"
            ) from None
        try:
            return self._encoded[number]
        except KeyError:
            return self._encode(number)

    def _encode(self, address: int) -> bytes:
        _require(
            0 < address < _MOST_ADDRESS and address % _ALIGNMENT == 0,
            f"address {address:#x}: it is no multiple of {_ALIGNMENT} above 0 and below 2^64",
        )
        runtime = self.device.runtime
        self.device.use()
        dtype, rank, *others = self._arguments
        result = runtime.check(
            runtime.driver.cuTensorMapEncodeTiled(dtype, rank, address, *others),
            "cuTensorMapEncodeTiled",
            f"address {address:#x}",
        )
        data = ctypes.string_at(int(result.getPtr()), _BYTES)
        if len(self._encoded) >= _MOST_ENCODED:
            self._encoded.clear()
        self._encoded[address] = data
        return data


def _integers(name: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise InvalidValueError(
            f"tensor map with {name} {values!r}: expected a sequence of integers"
        ) from None


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidValueError(f"tensor map with {what}")
