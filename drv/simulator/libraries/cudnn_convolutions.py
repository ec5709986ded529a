"""Convolutions of the simulated cuDNN: what fits together, and how it is computed.

A convolution is a matrix product: windows of the image become columns, which each group's filters are multiplied with. Products are
those of :mod:`.matrix_products`: float16 and bfloat16 operands are exact in float32, where sums are kept, float32 operands are rounded
to TF32 unless the math type is ``CUDNN_FMA_MATH``, and results are rounded once. An image's columns may be large, so a
convolution is computed a few items, or a few rows of windows, at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from drv.bindings.cudnn import cudnnConvolutionMode_t, cudnnDataType_t, cudnnMathType_t
from drv.bindings.library_types import cudaDataType
from drv.host.blas import multiply
from drv.simulator.work.simulated_library import ProductCost

from .cudnn_descriptors import NOT_SUPPORTED, Convolution, Filters, Tensor, nbytes, packed, refuse
from .library_call import Refusal
from .matrix_products import DTYPES, Rule, round_to_tf32
from .strided_memory import load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from drv.simulator.memory.library_memory import LibraryMemory

#: Bytes of columns that are there at once, unless one row of windows has more.
_COLUMN_BYTES = 1 << 26

_FLOAT, _DOUBLE = cudnnDataType_t.CUDNN_DATA_FLOAT, cudnnDataType_t.CUDNN_DATA_DOUBLE
#: Types of elements that are simulated, and those of sums with them.
_TYPES: dict[int, tuple[cudaDataType, cudnnDataType_t]] = {
    _FLOAT: (cudaDataType.CUDA_R_32F, _FLOAT),
    _DOUBLE: (cudaDataType.CUDA_R_64F, _DOUBLE),
    cudnnDataType_t.CUDNN_DATA_HALF: (cudaDataType.CUDA_R_16F, _FLOAT),
    cudnnDataType_t.CUDNN_DATA_BFLOAT16: (cudaDataType.CUDA_R_16BF, _FLOAT),
}


@dataclass(frozen=True, slots=True)
class Summation:
    """In how many partial sums at least, if there are as many terms, an element is added up, and in which order these are."""

    parts: int = 1
    order: Callable[[int], Sequence[int]] = range


@dataclass(frozen=True, slots=True)
class Part:
    """Items ``[first, last)`` of a batch, and rows ``[top, bottom)`` of the windows: positions in their first dimension."""

    first: int
    last: int
    top: int
    bottom: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Image, filters and result that fit together; in a backward pass one of them is a gradient to compute.

    ``windows`` are the result's spatial sizes, ``channels`` and ``filters`` those of one group.
    """

    image: Tensor
    weights: Filters
    result: Tensor
    convolution: Convolution
    rule: Rule
    dtype: np.dtype[Any]
    items: int
    groups: int
    channels: int
    filters: int
    kernel: tuple[int, ...]
    windows: tuple[int, ...]

    @classmethod
    def checked(cls, image: Tensor, weights: Filters, result: Tensor, convolution: Convolution) -> Problem:
        """What these describe; refused where cuDNN would refuse it."""
        for name, described in (("image", image), ("filters", weights), ("result", result)):
            if not described.shape:
                raise refuse(f"the descriptor of the {name} is not set")
        dims = len(image.shape)
        lengths = dims, len(weights.shape), len(result.shape), len(convolution.padding) + 2
        if len(set(lengths)) > 1:
            raise refuse(
                f"image, filters and result have {dims}, {lengths[1]} and {lengths[2]} dimensions, and the convolution "
                f"has {lengths[3] - 2} spatial ones"
            )
        if dims not in (4, 5):
            raise Refusal(NOT_SUPPORTED, f"{dims} dimensions: 4 or 5 are supported")
        dtype, rule = _types(image, weights, result, convolution)
        groups = convolution.groups
        filters, channels, *kernel = weights.shape
        if image.shape[1] != groups * channels or filters % groups:
            raise refuse(
                f"image {image.shape} with filters {weights.shape}: {groups} groups of {channels} channels need an image of "
                f"{groups * channels} channels and a multiple of {groups} filters"
            )
        windows = _windows(image.shape[2:], kernel, convolution)
        expected = (image.shape[0], filters, *windows)
        if min(windows) < 1:
            raise refuse(f"filters {weights.shape} are larger than the padded image {image.shape}")
        if result.shape != expected:
            raise refuse(
                f"the result of image {image.shape} with filters {weights.shape} is {expected}, not {result.shape}"
            )
        for name, tensor in (("image", image), ("result", result)):
            _require_layout(name, tensor, weights)
        items = image.shape[0]
        return cls(
            image,
            weights,
            result,
            convolution,
            rule,
            dtype,
            items,
            groups,
            channels,
            filters // groups,
            tuple(kernel),
            windows,
        )

    def text(self) -> str:
        """Sizes, for reports: what is not as usual is named."""
        convolution = self.convolution
        text = (
            f"n={self.items} c={self.image.shape[1]} image={_sizes(self.image.shape[2:])} "
            f"k={self.weights.shape[0]} filter={_sizes(self.kernel)}"
        )
        for name, values, usual in (
            ("padding", convolution.padding, 0),
            ("stride", convolution.strides, 1),
            ("dilation", convolution.dilation, 1),
            ("groups", (self.groups,), 1),
        ):
            if set(values) != {usual}:
                text += f" {name}={_sizes(values)}"
        return text

    @property
    def window_count(self) -> int:
        """Windows of an image."""
        return prod(self.windows)

    @property
    def window_size(self) -> int:
        """Elements of a window: a group's channels times kernel elements."""
        return self.channels * prod(self.kernel)

    @property
    def column_bytes(self) -> int:
        """Bytes of an item's columns, in the type of its elements."""
        return self.groups * self.window_size * self.window_count * self.dtype.itemsize

    def cost(self, m: int, n: int, k: int) -> ProductCost:
        """How much work the convolution is, as products of a group of these sizes."""
        size = self.dtype.itemsize
        moved = sum(nbytes(each, size) for each in (self.image, self.weights, self.result))
        unit = self.rule.unit(self.dtype)
        if self.convolution.math_type == cudnnMathType_t.CUDNN_FMA_MATH and unit in ("f16", "bf16"):
            unit = "f32"
        return ProductCost(m, n, k, self.groups, unit, moved)

    def forward(
        self,
        memory: LibraryMemory,
        scalars: tuple[float, float],
        addresses: tuple[int, int, int],
        summation: Summation,
    ) -> None:
        """``result = alpha * convolution(image, filters) + beta * result``."""
        image, weights, result = addresses
        alpha, beta = scalars
        factors = self._load_weights(memory, weights)
        for part in self._parts():
            columns = self._columns(self._padded(memory, image, part), part)
            total = multiply(factors, columns)
            block = total.reshape(-1, part.last - part.first, part.bottom - part.top, *self.windows[1:])
            self._finish(memory, alpha, np.moveaxis(block, 1, 0), beta, self.result, result, part)

    def backward_data(
        self,
        memory: LibraryMemory,
        scalars: tuple[float, float],
        addresses: tuple[int, int, int],
        summation: Summation,
    ) -> None:
        """``image = alpha * (gradient of the image) + beta * image``, from filters and the result's gradient."""
        weights, result, image = addresses
        alpha, beta = scalars
        factors = self._load_weights(memory, weights).swapaxes(1, 2)
        parts = list(self._parts())
        slices = _slices(self.filters, summation.parts)
        for first in sorted({part.first for part in parts}):
            rows = [part for part in parts if part.first == first]
            gradient = np.zeros((rows[0].last - first, *self._padded_shape), self.rule.work)
            for part in rows:
                errors = self._load_result(memory, result, part)
                for number in summation.order(len(slices)):
                    depth = slices[number]
                    self._scatter(multiply(factors[:, :, depth], errors[:, depth]), gradient, part, summation)
            inner = gradient[self._inside]
            whole = Part(first, rows[0].last, 0, self.image.shape[2])
            self._finish(memory, alpha, inner, beta, self.image, image, whole)

    def backward_filter(
        self,
        memory: LibraryMemory,
        scalars: tuple[float, float],
        addresses: tuple[int, int, int],
        summation: Summation,
    ) -> None:
        """``filters = alpha * (gradient of the filters) + beta * filters``, from an image and the result's gradient."""
        image, result, weights = addresses
        alpha, beta = scalars
        parts = list(self._parts(summation.parts))
        total: NDArray[Any] = np.zeros((self.groups, self.filters, self.window_size), self.rule.work)
        for number in summation.order(len(parts)):
            part = parts[number]
            columns = self._columns(self._padded(memory, image, part), part)
            total += multiply(self._load_result(memory, result, part), columns.swapaxes(1, 2))
        gradient = total.reshape(self.weights.shape)
        if self._flipped:
            gradient = np.flip(gradient, self._spatial)
        old = self._load(memory, self.weights, weights) if beta else None
        values = self.rule.combine(alpha, gradient, beta, old)
        store(memory, weights, values, self.weights.strides)

    # Parts

    def _parts(self, at_least: int = 1) -> Iterator[Part]:
        """Items, or rows of windows of one item, whose columns are not too many; ``at_least`` so many parts if that can be."""
        row = self.groups * self.window_size * prod(self.windows[1:]) * self.rule.work.itemsize
        height = self.windows[0]
        items = max(_COLUMN_BYTES // (row * height), 1)
        rows = min(max(_COLUMN_BYTES // row, 1), height)
        items = max(min(items, self.items // at_least), 1)
        if self.items < at_least:
            rows = max(min(rows, height * self.items // at_least), 1)
        if items > 1:
            rows = height
        for first in range(0, self.items, items):
            for top in range(0, height, rows):
                yield Part(first, min(first + items, self.items), top, min(top + rows, height))

    # Operands

    @property
    def _flipped(self) -> bool:
        return self.convolution.mode == cudnnConvolutionMode_t.CUDNN_CONVOLUTION

    @property
    def _spatial(self) -> tuple[int, ...]:
        return tuple(range(2, len(self.image.shape)))

    @property
    def _padded_shape(self) -> tuple[int, ...]:
        """Channels and spatial sizes of an image with its padding."""
        spatial = zip(self.image.shape[2:], self.convolution.padding, strict=True)
        return (self.image.shape[1], *(size + 2 * pad for size, pad in spatial))

    @property
    def _inside(self) -> tuple[Any, ...]:
        """Where in padded images the images are."""
        spatial = zip(self.image.shape[2:], self.convolution.padding, strict=True)
        return (..., *(slice(pad, pad + size) for size, pad in spatial))

    def _load(self, memory: LibraryMemory, described: Tensor | Filters, address: int) -> NDArray[Any]:
        return load(memory, address, self.dtype, described.shape, described.strides)

    def _operand(self, values: NDArray[Any]) -> NDArray[Any]:
        """Elements in the type of the products, rounded as these take them."""
        rounded = values if self.rule.round_inputs is None else self.rule.round_inputs(values)
        return rounded.astype(self.rule.work, copy=False)

    def _load_weights(self, memory: LibraryMemory, address: int) -> NDArray[Any]:
        """Filters ``(groups, filters, window elements)``, turned so that windows are multiplied with them as they are."""
        values = self._load(memory, self.weights, address)
        if self._flipped:
            values = np.flip(values, self._spatial)
        return self._operand(values).reshape(self.groups, self.filters, self.window_size)

    def _padded(self, memory: LibraryMemory, address: int, part: Part) -> NDArray[Any]:
        """A part's items with zeros around them."""
        items = Part(part.first, part.last, 0, self.image.shape[2])
        padded = np.zeros((part.last - part.first, *self._padded_shape), self.rule.work)
        start, shape = _section(self.image, address, items, self.dtype.itemsize)
        padded[self._inside] = self._operand(load(memory, start, self.dtype, shape, self.image.strides))
        return padded

    def _columns(self, padded: NDArray[Any], part: Part) -> NDArray[Any]:
        """Windows ``(groups, window elements, items * windows)`` of a part."""
        items, channels, *_ = padded.shape
        rows = part.bottom - part.top
        item_step, channel_step, *steps = padded.strides
        across = [step * stride for step, stride in zip(steps, self.convolution.strides, strict=True)]
        within = [step * dilation for step, dilation in zip(steps, self.convolution.dilation, strict=True)]
        below = padded[:, :, part.top * self.convolution.strides[0] :]
        view = as_strided(
            below,
            (channels, *self.kernel, items, rows, *self.windows[1:]),
            (channel_step, *within, item_step, *across),
            writeable=False,
        )
        return view.reshape(self.groups, self.window_size, -1)

    def _load_result(self, memory: LibraryMemory, address: int, part: Part) -> NDArray[Any]:
        """A part of the result's gradient, ``(groups, filters, items * windows)``."""
        start, shape = _section(self.result, address, part, self.dtype.itemsize)
        values = self._operand(load(memory, start, self.dtype, shape, self.result.strides))
        return np.moveaxis(values, 0, 1).reshape(self.groups, self.filters, -1)

    def _scatter(
        self, columns: NDArray[Any], gradient: NDArray[Any], part: Part, summation: Summation
    ) -> None:
        """Add columns ``(groups, window elements, items * windows)`` to the padded image's elements that they came from."""
        items, rows = part.last - part.first, part.bottom - part.top
        sizes = (rows, *self.windows[1:])
        blocks = columns.reshape(-1, *self.kernel, items, *sizes)
        elements = list(combinations(*map(range, self.kernel)))
        convolution = self.convolution
        starts = (part.top * convolution.strides[0], *[0] * (len(sizes) - 1))
        for number in summation.order(len(elements)):
            element = elements[number]
            region = (
                slice(start + at * dilation, start + at * dilation + (size - 1) * stride + 1, stride)
                for start, at, dilation, size, stride in zip(
                    starts, element, convolution.dilation, sizes, convolution.strides, strict=True
                )
            )
            where: tuple[Any, ...] = (..., *region)
            chosen: tuple[Any, ...] = (slice(None), *element)
            gradient[where] += np.moveaxis(blocks[chosen], 1, 0)

    def _finish(
        self,
        memory: LibraryMemory,
        alpha: float,
        values: NDArray[Any],
        beta: float,
        tensor: Tensor,
        address: int,
        part: Part,
    ) -> None:
        start, shape = _section(tensor, address, part, self.dtype.itemsize)
        old = load(memory, start, self.dtype, shape, tensor.strides) if beta else None
        store(memory, start, self.rule.combine(alpha, values, beta, old), tensor.strides)


def _types(
    image: Tensor, weights: Filters, result: Tensor, convolution: Convolution
) -> tuple[np.dtype[Any], Rule]:
    types = image.data_type, weights.data_type, result.data_type
    if len(set(types)) > 1:
        raise refuse(f"image, filters and result are of the types {types}: expected the same for all")
    known = _TYPES.get(types[0])
    if known is None:
        raise Refusal(NOT_SUPPORTED, f"convolutions of the type {types[0]} are not simulated")
    element, compute = known
    if convolution.compute_type != compute:
        raise Refusal(
            NOT_SUPPORTED,
            f"sums of {DTYPES[element].name} in the type {convolution.compute_type}: expected {compute.name}",
        )
    tf32 = types[0] == _FLOAT and convolution.math_type != cudnnMathType_t.CUDNN_FMA_MATH
    scale = cudaDataType.CUDA_R_64F if compute == _DOUBLE else cudaDataType.CUDA_R_32F
    return DTYPES[element], Rule(scale, DTYPES[scale], DTYPES[element], round_to_tf32 if tf32 else None)


def _windows(image: tuple[int, ...], kernel: Iterable[int], convolution: Convolution) -> tuple[int, ...]:
    along = zip(image, kernel, convolution.padding, convolution.strides, convolution.dilation, strict=True)
    return tuple(
        (size + 2 * pad - (length - 1) * dilation - 1) // stride + 1
        for size, length, pad, stride, dilation in along
    )


def _require_layout(name: str, tensor: Tensor, weights: Filters) -> None:
    axes = [axis for axis in range(len(tensor.shape)) if tensor.shape[axis] > 1]
    axes.sort(key=lambda axis: tensor.strides[axis])
    extent = 1
    for axis in axes:
        if tensor.strides[axis] < extent:
            raise Refusal(
                NOT_SUPPORTED,
                f"strides {tensor.strides} of the {name} {tensor.shape}: elements overlap, or go backwards",
            )
        extent += (tensor.shape[axis] - 1) * tensor.strides[axis]
    if weights.channels_last:
        _, channels, *spatial = tensor.shape
        *inner, step = packed((*spatial, channels))
        expected = (step, *inner)
        if any(tensor.strides[axis] != expected[axis - 1] for axis in axes if axis):
            raise Refusal(
                NOT_SUPPORTED,
                f"strides {tensor.strides} of the {name} {tensor.shape}: filters in the format CUDNN_TENSOR_NHWC need its "
                f"items packed in that order, with strides {expected}",
            )


def _section(tensor: Tensor, address: int, part: Part, itemsize: int) -> tuple[int, tuple[int, ...]]:
    """Address and shape of a part of a tensor."""
    offset = part.first * tensor.strides[0] + part.top * tensor.strides[2]
    shape = (part.last - part.first, tensor.shape[1], part.bottom - part.top, *tensor.shape[3:])
    return address + offset * itemsize, shape


def _slices(count: int, parts: int) -> list[slice]:
    """``count`` things in up to ``parts`` slices of about the same size."""
    parts = min(parts, count)
    return [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def _sizes(values: Iterable[int]) -> str:
    return "x".join(map(str, values))
