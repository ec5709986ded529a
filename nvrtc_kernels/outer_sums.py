"""Gradients of the weights and biases of many linear maps in one launch: see ``cuda/outer_sums.cuh``."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .dtypes import bfloat16, float16, float32
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

#: Rows and columns of a block, which are summed up this many at a time, in so many buffers.
_TILE, _DEPTH, _STAGES = 128, 32, 4
_THREADS = 128
#: A product in the table: four addresses, three sizes and the number of its first block.
_ENTRY = struct.Struct("=4Q4i")
#: Products of a launch: with the number of them the table stays under the 4 KiB that every device takes.
CAPACITY = 3840 // _ENTRY.size
#: Elements that a copy to shared memory may have, the most first: 16 bytes.
_PIECES = (8, 4, 2, 1)
PIECE = _PIECES[0]
#: Compute capability from which on there are asynchronous copies and products of bfloat16.
_CAPABILITY = (8, 0)
#: Blocks that a multiprocessor has at the same time.
_RESIDENT = 2
#: Microseconds on an H200, by the model that simulated drivers have of it: of a launch, and of a step of all blocks that are
#: resident; of a product through cuBLAS, and of 10^9 of its multiplications.
_LAUNCH, _STEP, _ALONE, _ALONE_WORK = 2.0, 0.65, 1.8, 2.8


@dataclass(frozen=True, slots=True)
class OuterSum:
    """A product ``grad^T @ rows`` of contiguous ``(count, outputs)`` and ``(count, inputs)``.

    Attributes
    ----------
    outputs, inputs, count : int
        The sizes, none of them 0.
    sums : bool
        Whether the sum of the rows of ``grad`` is a result, too.
    """

    outputs: int
    inputs: int
    count: int
    sums: bool

    @property
    def blocks(self) -> int:
        """Blocks that compute it."""
        return -(-self.outputs // _TILE) * -(-self.inputs // _TILE)

    @property
    def steps(self) -> int:
        """Steps of a block."""
        return -(-self.count // _DEPTH)


def takes(device: Device, dtype: dtype, result: dtype, product: OuterSum) -> bool:
    """Whether a product can be one of several: it is of half precision, and does not fill a device by itself."""
    return (
        dtype in (float16, bfloat16)
        and result in (dtype, float32)
        and device.compute_capability >= _CAPABILITY
        and product.blocks <= _RESIDENT * device.properties.multi_processor_count
    )


def pays(device: Device, products: Sequence[OuterSum]) -> bool:
    """Whether products are done sooner in one launch than one by one through cuBLAS."""
    resident = _RESIDENT * device.properties.multi_processor_count
    steps = sum(product.blocks * product.steps for product in products) / resident
    together = _LAUNCH + _STEP * max(steps, *(product.steps for product in products))
    work = sum(product.outputs * product.inputs * product.count for product in products)
    return together < len(products) * _ALONE + work / 1e9 * _ALONE_WORK


def plan(device: Device, dtype: dtype, result: dtype, products: Sequence[OuterSum]) -> Callable[..., None]:
    """What computes products that :func:`takes` accepts, at most :data:`CAPACITY`.

    Parameters
    ----------
    dtype, result
        Of what is multiplied, and of products and sums. Products are exact, and sums are float32 before they are rounded.

    Returns
    -------
    callable
        ``run(stream_handle, *addresses)`` with those of ``out``, of the sums where there are any, of ``grad`` and of
        ``rows``, of one product after the other.
    """
    table = struct.Struct(
        f"={_ENTRY.format.lstrip('=') * len(products)}{_ENTRY.size * (CAPACITY - len(products))}x"
    )
    sizes: list[tuple[int, ...]] = []
    blocks = operands = 0
    slots: list[tuple[int, ...]] = []
    for product in products:
        sizes.append((product.outputs, product.inputs, product.count, blocks))
        blocks += product.blocks
        others = operands + 1 + product.sums
        slots.append((operands, operands + 1 if product.sums else -1, others, others + 1))
        operands = others + 2
    widths = 0
    for product in products:
        widths |= product.outputs | product.inputs
    shared = _STAGES * 2 * _TILE * _DEPTH * dtype.itemsize
    launches: dict[int, Callable[..., None]] = {}

    def kernel(piece: int) -> Callable[..., None]:
        name = f"sum_outer_products_{dtype.name}"
        source = (
            f'{includes("outer_sums.cuh")}extern "C" __global__ void __launch_bounds__({_THREADS}, {_RESIDENT}) '
            f"{name}(const __grid_constant__ OuterSums<{CAPACITY}> table, int count) {{\n"
            f"    sum_outer_products<{dtype.cuda}, {result.cuda}, {piece}, {CAPACITY}>(table, count);\n}}\n"
        )
        return launcher(device, "outer_sums.cu", source, name, (table.size, "i"), shared)

    def run(stream: Any, *addresses: int) -> None:
        together = 0
        for address in addresses:
            together |= address
        elements = widths | together // dtype.itemsize
        piece = next(each for each in _PIECES if elements % each == 0)
        launch = launches.get(piece)
        if launch is None:
            launch = launches[piece] = kernel(piece)
        numbers: list[int] = []
        for slot, own in zip(slots, sizes, strict=True):
            numbers += [0 if position < 0 else addresses[position] for position in slot]
            numbers += own
        launch(blocks, 1, 1, _THREADS, 1, 1, shared, stream, table.pack(*numbers), len(products))

    return run
