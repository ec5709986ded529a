"""Attention in one kernel, and its gradients in one or two, with no scores in memory.

See ``cuda/fused_attention.cuh`` and ``cuda/fused_attention_backward.cuh``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from .attention import Extras
from .dtypes import bfloat16, float16
from .layouts import collapse
from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .attention import MaskRows
    from .dtypes import dtype

    Strides = Sequence[Sequence[int]]

#: Elements of a query, key and value that there are kernels for; narrower ones are padded in shared memory.
_WIDTHS = (32, 64, 128, 256)
#: Queries and threads of a block: twice as many queries where that many are there.
_QUERIES, _THREADS = 64, 128
#: By width, and by 16 queries of a warp: keys that are taken at a time, and the fragments of queries in registers.
_TILES = {
    (32, 1): (64, 2), (32, 2): (64, 2), (64, 1): (64, 4), (64, 2): (64, 4), (128, 1): (64, 8), (128, 2): (32, 4),
    (256, 1): (32, 4),
}  # fmt: skip
#: Of backward, by width: sixteens of queries that a warp has, and of keys, and rows that are taken at a time.
_BACKWARD_TILES = {32: (2, 2, 32), 64: (2, 2, 32), 128: (1, 1, 32), 256: (1, 1, 16)}
#: Widest rows of which sums for keys and for values are held in registers together.
_TOGETHER = 128
#: Blocks of a multiprocessor that run at the same time, at least.
_BLOCKS_AT_ONCE = 2
#: Elements that a copy to shared memory may have, the most first: 16 bytes.
PIECES = (8, 4, 2, 1)
#: Bytes of what backward saves of a row.
STATISTICS = 8
_MAX_MATRICES = 65535
#: Compute capability from which on there are asynchronous copies and products of bfloat16.
_CAPABILITY = (8, 0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of an attention.

    Attributes
    ----------
    shape : tuple of int
        The dimensions before positions and elements, that all operands are stretched to.
    groups : int
        How many neighbouring matrices of queries share one of keys.
    positions, keys : int
        Lengths of the sequences of queries, and of keys and values.
    width, values : int
        Elements of a query (and key), and of a value.
    causal : bool
        Whether a query sees no keys behind its own position.
    """

    shape: tuple[int, ...]
    groups: int
    positions: int
    keys: int
    width: int
    values: int
    causal: bool

    def packed(self, strides: Strides) -> tuple[int, bytes]:
        """Dimensions of matrices that are left, and the operands' sizes and strides as the kernels take them."""
        # A single matrix has no dimension left, and the kernel one of size 1.
        sizes, steps = collapse((*self.shape, 1), *[(*each[:-2], 0) for each in strides])
        numbers = (*sizes, *[step for each in steps for step in each], *[each[-2] for each in strides])
        return len(sizes), struct.pack(
            f"={len(numbers) + 1}q6i", *numbers, self.positions, self.keys, self.groups, self.width, self.values,
            self.causal, 0,
        )  # fmt: skip


def takes(device: Device, dtype: dtype, sizes: Sizes, strides: Strides) -> bool:
    """Whether there are kernels for queries, keys and values of these sizes: elements of a row have to be neighbours.

    ``strides`` are theirs, in elements: over ``sizes.shape``, then from row to row and from element to element.
    """
    return (
        dtype in (float16, bfloat16)
        and device.compute_capability >= _CAPABILITY
        and max(sizes.width, sizes.values) <= _WIDTHS[-1]
        and 0 < prod(sizes.shape) <= _MAX_MATRICES
        and all(each[-1] == 1 for each in strides)
    )


def piece_of(*numbers: int) -> int:
    """How many neighbouring elements are copied at a time where widths, strides and addresses have these numbers of them.

    Examples
    --------
    >>> piece_of(64, 192), piece_of(64, 12), piece_of(7)
    (8, 4, 1)
    """
    return next(piece for piece in PIECES if all(number % piece == 0 for number in numbers))


def _padded(sizes: Sizes) -> int:
    return next(each for each in _WIDTHS if max(sizes.width, sizes.values) <= each)


def plan(
    device: Device,
    dtype: dtype,
    sizes: Sizes,
    strides: Strides,
    piece: int,
    mask: MaskRows | None,
    *,
    dropping: bool,
) -> Callable[..., None]:
    """What computes attention of operands that :func:`takes` accepts.

    Parameters
    ----------
    strides
        Of queries, keys, values and results; elements of a row of results are neighbours too.
    piece
        As :func:`piece_of` tells it of widths, strides and addresses.
    mask
        Where the rows of a mask lie; ``None`` for none.
    dropping
        Whether weights are dropped.

    Returns
    -------
    callable
        ``run(stream_handle, scale, mask, dropout, query, key, value, result, logarithms)``: ``mask`` and ``dropout`` are
        packed, and empty for none. The result's rows are numbered through, and ``logarithms`` are those
        of their sums of exponentials, float32. Relative errors are those of sums in float32 of products of weights that
        are rounded to the operands' dtype.
    """
    padded = _padded(sizes)
    groups = 2 if sizes.positions > _QUERIES and (padded, 2) in _TILES else 1
    keys_of_tile, held = _TILES[padded, groups]
    shared = (groups * _QUERIES + 2 * keys_of_tile) * padded * dtype.itemsize
    rank, operands = sizes.packed(strides)
    t = dtype.cuda
    launch = _launcher(
        device, dtype, "fused_attention.cuh", f"attention_of_{padded}", f"AttentionOperands<{rank}, 4>", operands, mask,
        dropping, f"const {t}* query, const {t}* key, const {t}* value, {t}* result, float* logarithms",
        f"attend<{t}, {padded}, {piece}, {groups}, {keys_of_tile}, {held}, {rank}>", "query, key, value, result, logarithms",
        shared,
    )  # fmt: skip
    grid, count = -(-sizes.positions // (groups * _QUERIES)), prod(sizes.shape)

    def run(stream: Any, scale: float, seen: bytes, dropped: bytes, *addresses: int) -> None:
        extra = [each for each in (seen, dropped) if each]
        launch(grid, count, 1, _THREADS, 1, 1, shared, stream, operands, scale, *extra, *addresses)

    return run


def fits_one_launch(device: Device, sizes: Sizes) -> bool:
    """Whether all blocks of a backward pass run at once, so that a second launch would cost more than it saves."""
    padded = _padded(sizes)
    return (
        padded <= _TOGETHER
        and sum(prod(each) for each in _backward_grids(sizes, padded))
        <= _BLOCKS_AT_ONCE * device.properties.multi_processor_count
    )


def _backward_grids(sizes: Sizes, padded: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Blocks and matrices, of queries and of keys."""
    tiles, tiles_of_keys, _ = _BACKWARD_TILES[padded]
    matrices = prod(sizes.shape)
    return (
        (-(-sizes.positions // (tiles * _QUERIES)), matrices),
        (-(-sizes.keys // (tiles_of_keys * _QUERIES)), matrices // sizes.groups),
    )


def plan_backward(
    device: Device,
    dtype: dtype,
    sizes: Sizes,
    strides: Strides,
    piece: int,
    mask: MaskRows | None,
    *,
    dropping: bool,
    of_key: bool,
    of_value: bool,
    at_once: bool = False,
) -> Callable[..., None]:
    """What computes the gradients of what :func:`plan` computes, the same ones every time.

    Parameters
    ----------
    strides
        Of queries, keys, values, results, gradients of results, and of those of queries, keys and values, as for
        :func:`plan`; those of keys and values have no stride over the matrices of queries that share them.
    piece
        As :func:`piece_of` tells it of widths, strides and addresses.
    of_key, of_value
        Whether these gradients are required.
    at_once
        Whether all is one launch: see :func:`fits_one_launch`. There ``of_key`` or ``of_value`` is true.

    Returns
    -------
    callable
        ``run(stream_handle, scale, mask, dropout, query, key, value, result, grad, logarithms, statistics, grad_query,
        grad_key, grad_value)``: ``statistics`` are :data:`STATISTICS` bytes for each row, which are written unless all is
        one launch; addresses of gradients that are not required are 0.
    """
    padded = _padded(sizes)
    tiles, tiles_of_keys, at_a_time = _BACKWARD_TILES[padded]
    rank, operands = sizes.packed(strides)
    t = dtype.cuda
    header, of = "fused_attention_backward.cuh", f"AttentionOperands<{rank}, 8>"
    inputs = f"const {t}* query, const {t}* key, const {t}* value"

    def shared_bytes(own: int) -> int:
        elements = (2 * own * _QUERIES + 4 * at_a_time) * padded
        return elements * int(dtype.itemsize)

    (blocks, matrices), (blocks_of_keys, matrices_of_keys) = _backward_grids(sizes, padded)
    if at_once:
        # Rows of results, too.
        shared = shared_bytes(max(tiles, tiles_of_keys)) + 2 * at_a_time * (
            2 * STATISTICS + padded * dtype.itemsize
        )
        rows_of_keys = f"{_cuda(of_key)}, {_cuda(of_value)}"
        launch = _launcher(
            device, dtype, header, f"attention_of_{padded}_backward", of, operands, mask, dropping,
            f"{inputs}, const {t}* result, const {t}* grad, const float* logarithms, {t}* grad_query, {t}* grad_key, "
            f"{t}* grad_value",
            f"attend_backward<{t}, {padded}, {piece}, {tiles}, {at_a_time}, {rows_of_keys}, {rank}>",
            "query, key, value, result, grad, logarithms, grad_query, grad_key, grad_value", shared, first=f"{blocks}, ",
        )  # fmt: skip

        def run_at_once(
            stream: Any, scale: float, seen: bytes, dropped: bytes, query: int, key: int, value: int, result: int,
            grad: int, logarithms: int, statistics: int, grad_query: int, grad_key: int, grad_value: int,
        ) -> None:  # fmt: skip
            extra = [each for each in (seen, dropped) if each]
            launch(
                blocks + blocks_of_keys, matrices, 1, _THREADS, 1, 1, shared, stream, operands, scale, *extra, query, key,
                value, result, grad, logarithms, grad_query, grad_key, grad_value,
            )  # fmt: skip

        return run_at_once
    shared = shared_bytes(tiles)
    by_queries = _launcher(
        device, dtype, header, f"attention_of_{padded}_backward_queries", of, operands, mask, dropping,
        f"{inputs}, const {t}* result, const {t}* grad, const float* logarithms, RowStatistics* statistics, {t}* grad_query",
        f"attend_backward_queries<{t}, {padded}, {piece}, {tiles}, {at_a_time}, {rank}>",
        "query, key, value, result, grad, logarithms, statistics, grad_query", shared, first="blockIdx.x, gridDim.x, ",
    )  # fmt: skip
    # Beside rows also their statistics, and the addresses of those of a mask.
    shared_by_keys = shared_bytes(tiles_of_keys) + 2 * at_a_time * 2 * STATISTICS
    passes = [(of_key, of_value)]
    if padded > _TOGETHER:
        passes = [(of_key, False), (False, of_value)]
    by_keys = [
        _launcher(
            device, dtype, header, f"attention_of_{padded}_backward{'_keys' * key}{'_values' * value}", of, operands,
            mask, dropping, f"{inputs}, const {t}* grad, const RowStatistics* statistics, {t}* grad_key, {t}* grad_value",
            f"attend_backward_keys<{t}, {padded}, {piece}, {tiles_of_keys}, {at_a_time}, {_cuda(key)}, {_cuda(value)}, true, {rank}>",
            "query, key, value, nullptr, grad, nullptr, statistics, grad_key, grad_value", shared_by_keys, first="blockIdx.x, ",
        )
        for key, value in passes
        if key or value
    ]  # fmt: skip

    def run(
        stream: Any, scale: float, seen: bytes, dropped: bytes, query: int, key: int, value: int, result: int,
        grad: int, logarithms: int, statistics: int, grad_query: int, grad_key: int, grad_value: int,
    ) -> None:  # fmt: skip
        extra = [each for each in (seen, dropped) if each]
        by_queries(
            blocks, matrices, 1, _THREADS, 1, 1, shared, stream, operands, scale, *extra, query, key, value, result,
            grad, logarithms, statistics, grad_query,
        )  # fmt: skip
        for launch in by_keys:
            launch(
                blocks_of_keys, matrices_of_keys, 1, _THREADS, 1, 1, shared_by_keys, stream, operands, scale, *extra,
                query, key, value, grad, statistics, grad_key, grad_value,
            )  # fmt: skip

    return run


def _cuda(flag: bool) -> str:
    return "true" if flag else "false"


def _launcher(
    device: Device, dtype: dtype, header: str, name: str, operands_type: str, operands: bytes, mask: MaskRows | None,
    dropping: bool, parameters: str, function: str, passed: str, shared: int, first: str = "",
) -> Callable[..., None]:  # fmt: skip
    """A kernel that takes operands, scale, and, where there are, mask and dropout, before its addresses.

    ``first`` is what the function is given behind the operands.
    """
    extras = Extras.of(dtype, mask, dropping=dropping)
    head = ", ".join([f"{operands_type} operands", "float scale", *extras.parameters])
    call_arguments = ", ".join(["operands", f"{first}scale", *extras.arguments])
    source = (
        f"{includes(header, *extras.dtypes)}"
        f'extern "C" __global__ void __launch_bounds__({_THREADS}) {name}({head}, {parameters}) {{\n'
        f"    {function}({call_arguments}, {passed});\n}}\n"
    )
    codes = (len(operands), "f", *extras.codes, *"P" * (parameters.count("*")))
    return launcher(device, "fused_attention.cu", source, name, codes, shared)
