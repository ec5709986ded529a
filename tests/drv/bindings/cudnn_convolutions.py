"""Convolutions on a device through cuDNN's functions, and the same in double precision."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import drv
from drv import simulator
from drv.bindings.cudnn import AlgorithmPerformance, Cudnn
from drv.bindings.cudnn import cudnnDataType_t as Type

from .library_arrays import DeviceArray, installed, wide

DTYPES: dict[Type, Any] = {
    Type.CUDNN_DATA_FLOAT: np.float32,
    Type.CUDNN_DATA_DOUBLE: np.float64,
    Type.CUDNN_DATA_HALF: np.float16,
    Type.CUDNN_DATA_BFLOAT16: ml_dtypes.bfloat16,
}
FLOAT, DOUBLE, HALF, BFLOAT = DTYPES
DEFAULT, TENSOR, _, FMA = range(4)
FORWARD, DATA, FILTER = "Forward", "BackwardData", "BackwardFilter"


def simulated_cudnn(**options: Any) -> Cudnn:
    """cuDNN of a simulated device with ``options`` that nothing has used; the current context is its own."""
    drv.reset()
    simulator.install(**{"cudnn": True, "check": "race", **options})
    return _library()


def cudnn_library() -> Cudnn:
    """cuDNN of the driver in use, of a fresh device if that is simulated; the current context is device 0's."""
    return simulated_cudnn() if drv.runtime().simulated else _library()


def _library() -> Cudnn:
    drv.Device(0).use()
    library: Cudnn = installed("cudnn")
    return library


@dataclass(frozen=True)
class Sizes:
    """Sizes of a convolution of ``channels`` to ``filters`` channels in all."""

    items: int = 2
    channels: int = 4
    image: tuple[int, ...] = (6, 7)
    filters: int = 6
    kernel: tuple[int, ...] = (3, 2)
    padding: int = 1
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    flipped: bool = False

    @property
    def windows(self) -> tuple[int, ...]:
        along = zip(self.image, self.kernel, strict=True)
        return tuple(
            (n + 2 * self.padding - (k - 1) * self.dilation - 1) // self.stride + 1 for n, k in along
        )

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of image, filters and result."""
        return (
            (self.items, self.channels, *self.image),
            (self.filters, self.channels // self.groups, *self.kernel),
            (self.items, self.filters, *self.windows),
        )


def exact(
    direction: str, sizes: Sizes, image: NDArray[Any], weights: NDArray[Any], result: NDArray[Any]
) -> NDArray[Any]:
    """The result, or the gradient of image or filters, element of a window by element; what it replaces is not looked at."""
    pad = [(0, 0)] * 2 + [(sizes.padding, sizes.padding)] * len(sizes.kernel)
    padded = np.pad(image, pad)
    image_gradient, filter_gradient = np.zeros_like(padded), np.zeros_like(weights)
    total = np.zeros(sizes.shapes[2])
    inputs, outputs = sizes.channels // sizes.groups, sizes.filters // sizes.groups
    for at in product(*map(range, sizes.kernel)):
        along = zip(at, sizes.windows, strict=True)
        where = tuple(
            slice(i * sizes.dilation, i * sizes.dilation + (n - 1) * sizes.stride + 1, sizes.stride)
            for i, n in along
        )
        element = tuple(n - 1 - i for i, n in zip(at, sizes.kernel, strict=True)) if sizes.flipped else at
        for group in range(sizes.groups):
            i, o = slice(group * inputs, (group + 1) * inputs), slice(group * outputs, (group + 1) * outputs)
            block, matrix = padded[(slice(None), i, *where)], weights[(o, slice(None), *element)]
            windows, errors = (x.reshape(*x.shape[:2], -1) for x in (block, result[:, o]))
            total[:, o] += np.einsum("niw,oi->now", windows, matrix).reshape(total[:, o].shape)
            image_gradient[(slice(None), i, *where)] += np.einsum("now,oi->niw", errors, matrix).reshape(
                block.shape
            )
            filter_gradient[(o, slice(None), *element)] += np.einsum("now,niw->oi", errors, windows)
    inside = tuple(slice(sizes.padding, sizes.padding + n) for n in sizes.image)
    return {FORWARD: total, DATA: image_gradient[(..., *inside)], FILTER: filter_gradient}[direction]


def strides(shape: tuple[int, ...], *, channels_last: bool = False, gap: int = 0) -> tuple[int, ...]:
    """Strides of packed elements, but for ``gap`` elements between items."""
    order = (0, *range(2, len(shape)), 1) if channels_last else tuple(range(len(shape)))
    result, step = [0] * len(shape), 1
    for axis in reversed(order):
        result[axis] = step
        step *= shape[axis]
    result[0] += gap
    return tuple(result)


class Convolution:
    """Operands on a device and their descriptors. ``layouts`` are the strides of image and result, ``channels_last`` the filters'."""

    def __init__(
        self,
        library: Cudnn,
        sizes: Sizes,
        data_type: Type = FLOAT,
        *,
        math: int = FMA,
        channels_last: bool = False,
        gap: int = 0,
        layouts: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
        seed: int = 0,
        integers: bool = False,
    ) -> None:
        self.library, self.sizes, self.data_type, self.math = library, sizes, data_type, math
        self.handle = library.cudnnCreate()
        rng = np.random.default_rng(seed)
        draw = (lambda shape: rng.integers(-3, 4, shape)) if integers else rng.standard_normal
        shapes = sizes.shapes
        if layouts is None:
            layouts = tuple(strides(shapes[i], channels_last=channels_last, gap=gap) for i in (0, 2))  # type: ignore[assignment]
        steps = layouts[0], strides(shapes[1], channels_last=channels_last), layouts[1]
        self.values = [draw(shape).astype(DTYPES[data_type]) for shape in shapes]
        self.arrays = [DeviceArray(x, step) for x, step in zip(self.values, steps, strict=True)]
        dims = len(shapes[0])
        self.image, self.result = library.cudnnCreateTensorDescriptor(), library.cudnnCreateTensorDescriptor()
        library.cudnnSetTensorNdDescriptor(self.image, data_type, dims, shapes[0], steps[0])
        library.cudnnSetTensorNdDescriptor(self.result, data_type, dims, shapes[2], steps[2])
        self.weights = library.cudnnCreateFilterDescriptor()
        library.cudnnSetFilterNdDescriptor(self.weights, data_type, channels_last, dims, shapes[1])
        self.convolution = library.cudnnCreateConvolutionDescriptor()
        library.cudnnSetConvolutionNdDescriptor(
            self.convolution, dims - 2, *([value] * (dims - 2) for value in (sizes.padding, sizes.stride, sizes.dilation)),
            not sizes.flipped, DOUBLE if data_type == DOUBLE else FLOAT,
        )  # fmt: skip
        library.cudnnSetConvolutionMathType(self.convolution, math)
        library.cudnnSetConvolutionGroupCount(self.convolution, sizes.groups)
        scalar = ctypes.c_double if data_type == DOUBLE else ctypes.c_float
        self.alpha, self.beta = scalar(1), scalar(0)
        self.workspace: drv.DeviceMemory | None = None

    def order(self, direction: str) -> tuple[int, int, int]:
        """Which of image, filters and result are the function's operands."""
        return {FORWARD: (0, 1, 2), DATA: (1, 2, 0), FILTER: (0, 2, 1)}[direction]

    def arguments(self, direction: str) -> dict[str, Any]:
        """What algorithms are asked for with."""
        descriptors = [(self.image, self.weights, self.result)[i] for i in self.order(direction)]
        return {
            "handle": self.handle, "firstDesc": descriptors[0], "secondDesc": descriptors[1], "convDesc": self.convolution,
            "outDesc": descriptors[2],
        }  # fmt: skip

    def algorithms(self, direction: str, count: int = 10) -> list[AlgorithmPerformance]:
        """What the library recommends, the quickest first, and then what it does not support."""
        results = (AlgorithmPerformance * count)()
        function = getattr(self.library, f"cudnnGetConvolution{direction}Algorithm_v7")
        written = function(*self.arguments(direction).values(), count, ctypes.addressof(results))
        return list(results[:written])

    def supported(self, direction: str) -> list[int]:
        """Numbers of the algorithms that are supported."""
        return [each.algo for each in self.algorithms(direction) if each.status == 0]

    def workspace_size(self, direction: str, algorithm: int) -> int:
        """Bytes that an algorithm needs."""
        function = getattr(self.library, f"cudnnGetConvolution{direction}WorkspaceSize")
        size: int = function(*self.arguments(direction).values(), algorithm)
        return size

    def run(self, direction: str, algorithm: int | None = None, **changed: Any) -> None:
        """Queue it by ``algorithm``, or the quickest one; ``changed`` are arguments to replace."""
        if algorithm is None:
            algorithm = self.algorithms(direction, 1)[0].algo
        size = changed.pop("size", None)
        if size is None:
            size = self.workspace_size(direction, algorithm)
            if size and (self.workspace is None or self.workspace.nbytes < size):
                self.workspace = drv.DeviceMemory(size)
        known = self.arguments(direction)
        addresses = [self.arrays[i].address for i in self.order(direction)]
        arguments = {
            "handle": self.handle, "alpha": ctypes.addressof(self.alpha), "firstDesc": known["firstDesc"], "first": addresses[0],
            "secondDesc": known["secondDesc"], "second": addresses[1], "convDesc": self.convolution, "algo": algorithm,
            "workSpace": self.workspace.address if self.workspace else 0, "workSpaceSizeInBytes": size,
            "beta": ctypes.addressof(self.beta), "outDesc": known["outDesc"], "out": addresses[2],
        }  # fmt: skip
        getattr(self.library, f"cudnnConvolution{direction}")(*{**arguments, **changed}.values())

    def output(self, direction: str) -> NDArray[Any]:
        """What is in the memory of the result now."""
        return self.arrays[self.order(direction)[2]].numpy()

    def expected(self, direction: str) -> NDArray[Any]:
        """What it would be in double precision, of the operands as they were at first."""
        return self._exact(direction, self.values, self.alpha.value, self.beta.value)

    def _exact(self, direction: str, operands: list[NDArray[Any]], alpha: float, beta: float) -> NDArray[Any]:
        value = alpha * exact(direction, self.sizes, *map(wide, operands))
        return value + beta * wide(operands[self.order(direction)[2]]) if beta else value

    def terms(self, direction: str) -> int:
        """How many products an element of the result is the sum of, at most."""
        sizes = self.sizes
        kernel = int(np.prod(sizes.kernel))
        counts = {
            FORWARD: kernel * sizes.channels,
            DATA: kernel * sizes.filters,
            FILTER: sizes.items * int(np.prod(sizes.windows)),
        }
        return counts[direction]

    def check(
        self, direction: str, rounding: float, accumulation: float = 2**-24, operand: float = 0.0
    ) -> None:
        """Compare with double precision.

        ``rounding`` is the relative error of the result's last rounding, ``accumulation`` that of each addition, ``operand`` that of each
        operand's rounding, all of the sum of magnitudes.
        """
        expected = self.expected(direction)
        positive = [np.abs(values) for values in self.values]
        magnitude = self._exact(direction, positive, abs(self.alpha.value), abs(self.beta.value))
        bound = 2 * rounding * np.abs(expected) + magnitude * (
            4 * (self.terms(direction) + 4) * accumulation + 2.1 * operand
        )
        error = np.abs(wide(self.output(direction)) - expected)
        bound = bound + (2**-24 if self.data_type == HALF else 0)
        assert (error <= bound).all(), (
            f"{direction}: error {error.max()}, {(error / bound).max()} of what is allowed"
        )
