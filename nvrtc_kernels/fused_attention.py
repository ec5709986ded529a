"""Attention in one kernel, and its gradients in one or two, with no scores in memory.

See ``cuda/fused_attention.cuh`` and ``cuda/fused_attention_backward.cuh``, and for products of warpgroups and bulk copies, on
Hopper, ``cuda/warpgroup_attention.cuh`` and ``cuda/bulk_attention.cuh``.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from drv import TensorMap

from .attention import Extras
from .dtypes import bfloat16, float16, float32
from .layouts import collapse
from .plans import includes, launcher
from .warpgroup_products import has_products

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
#: The same for float32, whose fragments are twice as many.
_WIDE_TILES = {
    (32, 1): (64, 0), (32, 2): (64, 0), (64, 1): (64, 0), (64, 2): (32, 0), (128, 1): (32, 0), (128, 2): (32, 0),
    (256, 1): (16, 0),
}  # fmt: skip


#: Widths that there are products of warpgroups for, how many of these a block has, and keys that it takes at a time in forward.
_HOPPER_WIDTHS, _WARPGROUPS, _HOPPER_KEYS = (64, 128), 2, 128


class _Tile(NamedTuple):
    """Of a block of backward.

    Attributes
    ----------
    sixteens : int
        Sixteens of own rows that a warp has.
    at_a_time, step : int
        Other rows that come to shared memory at a time, and to one product.
    first, second : int
        Fragments of a sixteen of queries (or keys) and of gradients (or values) that stay in registers.
    paired : bool
        Whether two warps share their keys, where both gradients are required: one of them has the sums of each.
    warpgroups : int
        How many warpgroups multiply, of 64 rows each; 0 where warps do by themselves.
    """

    sixteens: int
    at_a_time: int
    step: int
    first: int
    second: int
    paired: bool = False
    warpgroups: int = 0

    @property
    def rows(self) -> int:
        """Own rows of a block."""
        # A warp has 16 at a time, or shares them with another one.
        return self.sixteens * self.threads // (4 if self.paired else 2)

    @property
    def threads(self) -> int:
        """Of a block."""
        return _threads(self.warpgroups)

    @property
    def shared_weights(self) -> int:
        """Bytes of weights in half precision that its warps exchange."""
        return self.rows * self.step * 2 if self.paired else 0

    def cuda(self, *, extras: bool, bulk: bool) -> str:
        """Its type; masks and dropout take the registers of the fragments. ``bulk`` tells that rows come by bulk copies."""
        held = (0, 0) if extras else (self.first, self.second)
        return f"BackwardTile<{_team(self.warpgroups, bulk=bulk)}, {self.sixteens}, {self.at_a_time}, {self.step}, {held[0]}, {held[1]}, {_cuda(self.paired)}>"


#: Of backward, by width: of queries and of keys.
_BACKWARD_TILES = {
    32: (_Tile(2, 32, 32, 2, 2), _Tile(2, 32, 32, 2, 2)),
    64: (_Tile(2, 32, 32, 4, 2), _Tile(2, 32, 16, 4, 2)),
    128: (_Tile(2, 32, 32, 4, 0), _Tile(2, 32, 32, 8, 8, paired=True)),
    256: (_Tile(1, 16, 16, 2, 0), _Tile(1, 16, 16, 2, 0)),
}
_WIDE_BACKWARD_TILES = {
    32: (_Tile(2, 32, 32, 0, 0), _Tile(2, 32, 16, 0, 0)),
    64: (_Tile(2, 32, 16, 0, 0), _Tile(2, 32, 16, 0, 0)),
    128: (_Tile(1, 16, 16, 0, 0), _Tile(1, 16, 16, 0, 0)),
    256: (_Tile(1, 16, 16, 0, 0), _Tile(1, 16, 16, 0, 0)),
}
#: By products of warpgroups, of queries and of keys.
_HOPPER_BACKWARD_TILE = _Tile(1, 64, 64, 0, 0, warpgroups=_WARPGROUPS)
#: Instead of one in pairs, where only one gradient is required: as many rows.
_UNPAIRED_TILE = _Tile(1, 32, 32, 8, 4)
#: Widest rows of which sums for keys and for values are held in registers together.
_TOGETHER = 128
#: Blocks of a multiprocessor that run at the same time, at least.
_BLOCKS_AT_ONCE = 2
#: Elements that a copy to shared memory may have, the most first.
_PIECES = (8, 4, 2, 1)
#: Bytes that a copy to shared memory may have.
_PIECE_BYTES = 16
#: Bytes of what backward saves of a row.
STATISTICS = 8
#: What kernels for teams of warpgroups include, by whether rows come by bulk copies.
_WARPGROUPS_HEADERS = {
    False: '#include "warpgroup_attention.cuh"\n\n', True: '#include "bulk_attention.cuh"\n\n'
}  # fmt: skip
#: Elements of a row that a bulk copy brings: 128 bytes, which the swizzle permutes.
_BULK_ELEMENTS = 64
#: Dimensions of a tensor map beside positions and elements, at the most.
_MOST_MAPPED = 3
#: Tiles of keys and of values that are in shared memory where they come by bulk copies, and bytes of the barriers there.
_STAGES, _BARRIER_BYTES = 2, 64
_TENSOR_MAP = 128
_MAX_MATRICES = 65535
#: Longest sequences, and what stands for a window without an end: four of them are a 32-bit number.
_LONGEST = 1 << 29
#: Compute capability from which on there are asynchronous copies and products of bfloat16.
_CAPABILITY = (8, 0)


class Sizes(NamedTuple):
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
    window : tuple of int
        How many keys before and behind that of its own position a query sees at most; -1 for all of them.
    heads : int
        Matrices of a sequence where sequences of several lengths lie one behind the other, of which ``positions`` and ``keys``
        are the longest; 0 where all have one length.
    """

    shape: tuple[int, ...]
    groups: int
    positions: int
    keys: int
    width: int
    values: int
    causal: bool
    window: tuple[int, int] = (-1, -1)
    heads: int = 0

    def packed(self, strides: Strides) -> tuple[int, bytes]:
        """Dimensions of matrices that are left, and the operands' sizes and strides as the kernels take them."""
        sizes, steps = self.collapsed(strides)
        numbers = (*sizes, *[step for each in steps for step in each], *[each[-2] for each in strides])
        before, after = (_LONGEST if each < 0 else min(each, _LONGEST) for each in self.window)
        after = 0 if self.causal else after
        return len(sizes), struct.pack(
            f"={len(numbers)}q8i", *numbers, self.positions, self.keys, self.groups, self.width, self.values,
            before, after, after < _LONGEST and before == _LONGEST,
        )  # fmt: skip

    def collapsed(self, strides: Strides) -> tuple[Sequence[int], Strides]:
        """Dimensions of matrices that are left, and each operand's strides over them."""
        if prod(self.shape) == 1:
            # A single matrix has no dimension left, and the kernel one of size 1.
            return (1,), [(0,) for _ in strides]
        return collapse(self.shape, *[each[:-2] for each in strides])

    @property
    def padded(self) -> int:
        """Elements of the kernels' rows."""
        return next(each for each in _WIDTHS if max(self.width, self.values) <= each)


class PackedSequences(NamedTuple):
    """Where sequences of several lengths begin, which lie one behind the other.

    Attributes
    ----------
    queries, keys : int
        Addresses of the first rows of each, int32, and of the end.
    heads, rows : int
        Matrices of a sequence, and queries of all sequences together.
    """

    queries: int
    keys: int
    heads: int
    rows: int

    @property
    def packed(self) -> bytes:
        """As the kernels take it."""
        return struct.pack("=QQqq", self.queries, self.keys, self.heads, self.rows)


def takes(device: Device, dtype: dtype, sizes: Sizes, strides: Strides) -> bool:
    """Whether there are kernels for queries, keys and values of these sizes: elements of a row have to be neighbours.

    ``strides`` are theirs, in elements: over ``sizes.shape``, then from row to row and from element to element.
    """
    return (
        dtype in (float16, bfloat16, float32)
        and device.compute_capability >= _CAPABILITY
        and max(sizes.width, sizes.values) <= _WIDTHS[-1]
        and max(sizes.positions, sizes.keys) <= _LONGEST
        and 0 < prod(sizes.shape) <= _MAX_MATRICES
        and all(each[-1] == 1 for each in strides)
        and _most_shared_bytes(dtype, sizes.padded) <= device.properties.shared_memory_per_block_optin
    )


def piece_of(itemsize: int, *numbers: int) -> int:
    """How many neighbouring elements are copied at a time where widths, strides and addresses have these numbers of them.

    Examples
    --------
    >>> piece_of(2, 64, 192), piece_of(4, 64, 192), piece_of(2, 64, 12), piece_of(2, 7)
    (8, 4, 4, 1)
    """
    return next(
        piece
        for piece in _PIECES
        if piece * itemsize <= _PIECE_BYTES and all(number % piece == 0 for number in numbers)
    )


def _by_warpgroups(device: Device, dtype: dtype, sizes: Sizes) -> bool:
    """Whether products of warpgroups are quickest: their blocks have many rows."""
    return (
        has_products(device)
        and dtype is not float32
        and sizes.padded in _HOPPER_WIDTHS
        and min(sizes.positions, sizes.keys) > _QUERIES
    )


def _by_bulk_copies(
    dtype: dtype, sizes: Sizes, strides: Strides, operands: Sequence[int], *, aligned: bool
) -> bool:
    """Whether rows that products of warpgroups read come to shared memory by bulk copies: where tensor maps describe them.

    There are none of sequences that lie one behind the other, of which a map would have all rows: the next sequence's would stand
    where rows behind the last one are zeros, and no weight of 0 makes an infinite value 0. ``operands`` are the numbers in ``strides``
    of what is read, ``aligned`` tells that addresses are multiples of 16.
    """
    shape, steps = sizes.collapsed(strides)
    unit = _PIECE_BYTES // dtype.itemsize
    return (
        aligned
        and not sizes.heads
        and len(shape) <= _MOST_MAPPED
        and all(strides[number][-2] > 0 for number in operands)
        and all(step % unit == 0 for number in operands for step in (*steps[number], strides[number][-2]))
    )


def _tensor_maps(
    device: Device, dtype: dtype, sizes: Sizes, strides: Strides, operands: Sequence[tuple[int, int, int]]
) -> list[TensorMap]:
    """A map for each of some operands: its number in ``strides``, its rows' elements, and how many rows are copied at a time."""
    shape, steps = sizes.collapsed(strides)
    maps = []
    for number, width, rows in operands:
        # A dimension that is broadcast has one index there, and any stride.
        outer = [size if step else 1 for size, step in zip(shape, steps[number], strict=True)]
        apart = [step * dtype.itemsize or _PIECE_BYTES for step in steps[number]]
        positions = sizes.keys if number in (1, 2) else sizes.positions
        maps.append(
            TensorMap(
                dtype.name, (*outer, positions, width), (*apart, strides[number][-2] * dtype.itemsize),
                (*[1] * len(outer), rows, _BULK_ELEMENTS), swizzle=128, promotion=128, device=device,
            )
        )  # fmt: skip
    return maps


def _threads(warpgroups: int) -> int:
    """Of a block of so many warpgroups, or without any."""
    return _THREADS * max(warpgroups, 1)


def _team(warpgroups: int, *, bulk: bool = False) -> str:
    return f"{'Bulk' * bulk}Warpgroups<{warpgroups}>" if warpgroups else "Warps"


def _inputs(element: str, names: Sequence[str], *, bulk: bool) -> str:
    """Parameters of a kernel: addresses, or tensor maps by value."""
    form = "const __grid_constant__ TensorMap" if bulk else f"const {element}*"
    return ", ".join(f"{form} {name}" for name in names)


def _parts(dtype: dtype, tf32: bool) -> int:
    """Numbers that tensor cores take for one."""
    return 1 if tf32 or dtype is not float32 else 2


def _backward_tiles(dtype: dtype, padded: int, *, both: bool = True) -> tuple[_Tile, _Tile]:
    """Of queries and of keys; ``both`` if gradients of keys and values are required."""
    of_queries, of_keys = (_WIDE_BACKWARD_TILES if dtype is float32 else _BACKWARD_TILES)[padded]
    return of_queries, of_keys if both or not of_keys.paired else _UNPAIRED_TILE


def _shared_bytes(dtype: dtype, padded: int, tile: _Tile) -> int:
    elements = (2 * tile.rows + 4 * tile.at_a_time) * padded
    return elements * int(dtype.itemsize)


def _most_shared_bytes(dtype: dtype, padded: int) -> int:
    """What the kernels of backward take, which take most."""
    return max(
        _shared_bytes(dtype, padded, tile) + 4 * tile.at_a_time * STATISTICS + tile.shared_weights
        for tile in _backward_tiles(dtype, padded)
    )


def plan(
    device: Device,
    dtype: dtype,
    sizes: Sizes,
    strides: Strides,
    piece: int,
    mask: MaskRows | None,
    *,
    dropping: bool,
    tf32: bool,
    aligned: bool = False,
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
    tf32
        Whether factors of float32 are rounded to TF32. Otherwise each is the sum of two such numbers.
    aligned
        Whether addresses of queries, keys and values are multiples of 16.

    Returns
    -------
    callable
        ``run(stream_handle, scale, sequences, mask, dropout, query, key, value, result, logarithms)``: ``sequences``,
        ``mask`` and ``dropout`` are packed, and empty for none. The result's rows are numbered through, and
        ``logarithms`` are those of their sums of exponentials, float32. Relative errors are those of sums in
        float32 of products of weights that are rounded to the operands' dtype, or to TF32; without it about those of
        float32.
    """
    padded, tiles, bulk = sizes.padded, _WIDE_TILES if dtype is float32 else _TILES, False
    if _by_warpgroups(device, dtype, sizes):
        groups, held = 1, 0
        warpgroups, keys_of_tile = _WARPGROUPS, _HOPPER_KEYS
        bulk = _by_bulk_copies(dtype, sizes, strides, range(3), aligned=aligned)
    else:
        warpgroups, groups = 0, 2 if sizes.positions > _QUERIES and (padded, 2) in tiles else 1
        keys_of_tile, held = tiles[padded, groups]
    threads = _threads(warpgroups)
    rows = groups * threads // 2
    stages = _STAGES if bulk else 1
    shared = (rows + 2 * stages * keys_of_tile) * padded * dtype.itemsize + _BARRIER_BYTES * bulk
    rank, operands = sizes.packed(strides)
    t = dtype.cuda
    inputs = _inputs(t, ("query", "key", "value"), bulk=bulk)
    mapped = "&" * bulk
    maps: list[TensorMap] = []
    if bulk:
        read = (0, sizes.width, rows), (1, sizes.width, keys_of_tile), (2, sizes.values, keys_of_tile)
        maps = _tensor_maps(device, dtype, sizes, strides, read)
    launch = _launcher(
        device, dtype, "fused_attention.cuh", f"attention_of_{padded}", f"AttentionOperands<{rank}, 4>", operands, sizes, mask,
        dropping, f"{inputs}, {t}* result, float* logarithms",
        f"attend<{_team(warpgroups, bulk=bulk)}, {t}, {padded}, {_parts(dtype, tf32)}, {piece}, {groups}, {keys_of_tile}, {held}, {rank}>",
        f"{mapped}query, {mapped}key, {mapped}value, result, logarithms", shared, warpgroups=warpgroups, maps=len(maps),
    )  # fmt: skip
    grid, count = -(-sizes.positions // rows), prod(sizes.shape)

    def run(
        stream: Any, scale: float, sequences: bytes, seen: bytes, dropped: bytes, *addresses: int
    ) -> None:
        extra = [each for each in (sequences, seen, dropped) if each]
        launch(grid, count, 1, threads, 1, 1, shared, stream, operands, scale, *extra, *addresses)

    def run_by_bulk_copies(
        stream: Any, scale: float, sequences: bytes, seen: bytes, dropped: bytes, query: int, key: int, value: int,
        *outputs: int,
    ) -> None:  # fmt: skip
        extra = [each for each in (seen, dropped) if each]
        launch(
            grid, count, 1, threads, 1, 1, shared, stream, operands, scale, *extra, of_query.at(query), of_key.at(key),
            of_value.at(value), *outputs,
        )  # fmt: skip

    if bulk:
        of_query, of_key, of_value = maps
        return run_by_bulk_copies
    return run


def fits_one_launch(device: Device, dtype: dtype, sizes: Sizes) -> bool:
    """Whether all blocks of a backward pass run at once, so that a second launch would cost more than it saves."""
    return (
        sizes.padded <= _TOGETHER
        and _bytes_at_once(dtype, sizes.padded) <= device.properties.shared_memory_per_block_optin
        and sum(prod(each) for each in _backward_grids(sizes, *_backward_tiles(dtype, sizes.padded)))
        <= _BLOCKS_AT_ONCE * device.properties.multi_processor_count
    )


def _bytes_at_once(dtype: dtype, padded: int) -> int:
    """Shared memory of a block where all is one launch: two tiles of results, too."""
    rows = max(tile.at_a_time for tile in _backward_tiles(dtype, padded))
    return _most_shared_bytes(dtype, padded) + 2 * rows * padded * int(dtype.itemsize)


def _backward_grids(
    sizes: Sizes, of_queries: _Tile, of_keys: _Tile
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Blocks and matrices, of queries and of keys."""
    matrices = prod(sizes.shape)
    return (
        (-(-sizes.positions // of_queries.rows), matrices),
        (-(-sizes.keys // of_keys.rows), matrices // sizes.groups),
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
    tf32: bool,
    at_once: bool = False,
    aligned: bool = False,
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
    tf32
        As for :func:`plan`.
    at_once
        Whether all is one launch: see :func:`fits_one_launch`. There ``of_key`` or ``of_value`` is true.
    aligned
        Whether addresses of queries, keys, values and gradients of results are multiples of 16.

    Returns
    -------
    callable
        ``run(stream_handle, scale, sequences, mask, dropout, query, key, value, result, grad, logarithms, statistics, grad_query,
        grad_key, grad_value)``: ``statistics`` are :data:`STATISTICS` bytes for each row, which are written unless all is
        one launch; addresses of gradients that are not required are 0.
    """
    padded = sizes.padded
    tile, tile_of_keys = _backward_tiles(dtype, padded, both=of_key and of_value)
    read, maps = (0, 1, 2, 4), []
    if not at_once and _by_warpgroups(device, dtype, sizes):
        tile = tile_of_keys = _HOPPER_BACKWARD_TILE
        if _by_bulk_copies(dtype, sizes, strides, read, aligned=aligned):
            widths = sizes.width, sizes.width, sizes.values, sizes.values
            boxes = [(number, width, tile.at_a_time) for number, width in zip(read, widths, strict=True)]
            maps = _tensor_maps(device, dtype, sizes, strides, boxes)
    bulk = bool(maps)
    rank, operands = sizes.packed(strides)
    t = dtype.cuda
    header, of = "fused_attention_backward.cuh", f"AttentionOperands<{rank}, 8>"
    inputs, mapped = _inputs(t, ("query", "key", "value", "grad"), bulk=bulk), "&" * bulk
    extras = mask is not None or dropping
    form = f"{t}, {padded}, {_parts(dtype, tf32)}, {piece}"
    own, own_of_keys = (each.cuda(extras=extras, bulk=bulk) for each in (tile, tile_of_keys))
    # Beside rows also their statistics, and the addresses of those of a mask.
    beside = 4 * tile_of_keys.at_a_time * STATISTICS + tile_of_keys.shared_weights
    shared, shared_by_keys = (_shared_bytes(dtype, padded, each) for each in (tile, tile_of_keys))
    shared_by_keys += beside + _BARRIER_BYTES * bulk
    (blocks, matrices), (blocks_of_keys, matrices_of_keys) = _backward_grids(sizes, tile, tile_of_keys)
    if at_once:
        shared = _bytes_at_once(dtype, padded)
        launch = _launcher(
            device, dtype, header, f"attention_of_{padded}_backward", of, operands, sizes, mask, dropping,
            f"{inputs}, const {t}* result, const float* logarithms, {t}* grad_query, {t}* grad_key, {t}* grad_value",
            f"attend_backward<{form}, {own}, {own_of_keys}, {_cuda(of_key)}, {_cuda(of_value)}, {rank}>",
            "query, key, value, result, grad, logarithms, grad_query, grad_key, grad_value", shared, first=f"{blocks}, ",
        )  # fmt: skip

        def run_at_once(
            stream: Any, scale: float, sequences: bytes, seen: bytes, dropped: bytes, query: int, key: int, value: int,
            result: int, grad: int, logarithms: int, statistics: int, grad_query: int, grad_key: int, grad_value: int,
        ) -> None:  # fmt: skip
            extra = [each for each in (sequences, seen, dropped) if each]
            launch(
                blocks + blocks_of_keys, matrices, 1, _THREADS, 1, 1, shared, stream, operands, scale, *extra, query, key,
                value, grad, result, logarithms, grad_query, grad_key, grad_value,
            )  # fmt: skip

        return run_at_once
    shared += _BARRIER_BYTES * bulk
    by_queries = _launcher(
        device, dtype, header, f"attention_of_{padded}_backward_queries", of, operands, sizes, mask, dropping,
        f"{inputs}, const {t}* result, const float* logarithms, RowStatistics* statistics, {t}* grad_query",
        f"attend_backward_queries<{form}, {own}, {rank}>",
        f"{mapped}query, {mapped}key, {mapped}value, result, {mapped}grad, logarithms, statistics, grad_query", shared,
        first="blockIdx.x, gridDim.x, ", warpgroups=tile.warpgroups, maps=len(maps),
    )  # fmt: skip
    passes = [(of_key, of_value)]
    if padded > _TOGETHER:
        passes = [(of_key, False), (False, of_value)]
    by_keys = [
        _launcher(
            device, dtype, header, f"attention_of_{padded}_backward{'_keys' * key}{'_values' * value}", of, operands,
            sizes, mask, dropping, f"{inputs}, const RowStatistics* statistics, {t}* grad_key, {t}* grad_value",
            f"attend_backward_keys<{form}, {own_of_keys}, {_cuda(key)}, {_cuda(value)}, true, {rank}>",
            f"{mapped}query, {mapped}key, {mapped}value, nullptr, {mapped}grad, nullptr, statistics, grad_key, grad_value",
            shared_by_keys, first="blockIdx.x, ", warpgroups=tile_of_keys.warpgroups, maps=len(maps),
        )
        for key, value in passes
        if key or value
    ]  # fmt: skip

    def run(
        stream: Any, scale: float, sequences: bytes, seen: bytes, dropped: bytes, query: int, key: int, value: int,
        result: int, grad: int, logarithms: int, statistics: int, grad_query: int, grad_key: int, grad_value: int,
    ) -> None:  # fmt: skip
        extra = [each for each in (sequences, seen, dropped) if each]
        inputs: Sequence[Any] = query, key, value, grad
        if maps:
            inputs = [each.at(address) for each, address in zip(maps, inputs, strict=True)]
        by_queries(
            blocks, matrices, 1, tile.threads, 1, 1, shared, stream, operands, scale, *extra, *inputs, result, logarithms,
            statistics, grad_query,
        )  # fmt: skip
        for launch in by_keys:
            launch(
                blocks_of_keys, matrices_of_keys, 1, tile_of_keys.threads, 1, 1, shared_by_keys, stream, operands, scale, *extra,
                *inputs, statistics, grad_key, grad_value,
            )  # fmt: skip

    return run


def _cuda(flag: bool) -> str:
    return "true" if flag else "false"


def _launcher(
    device: Device, dtype: dtype, header: str, name: str, operands_type: str, operands: bytes, sizes: Sizes,
    mask: MaskRows | None, dropping: bool, parameters: str, function: str, passed: str, shared: int, first: str = "",
    warpgroups: int = 0, maps: int = 0,
) -> Callable[..., None]:  # fmt: skip
    """A kernel that takes operands, scale, and, where there are, sequences, mask and dropout, before tensor maps and addresses.

    ``first`` is what the function is given behind the operands.
    """
    extras = Extras.of(mask, dropping=dropping)
    sequences, codes = [], []
    if sizes.heads:
        sequences.append("PackedSequences sequences")
        codes.append(len(PackedSequences(0, 0, 0, 0).packed))
    head = ", ".join([f"{operands_type} operands", "float scale", *sequences, *extras.parameters])
    lengths = "sequences" if sequences else "EqualLengths()"
    call_arguments = ", ".join(["operands", f"{first}scale", lengths, *extras.arguments])
    source = (
        f"{includes(header)}{_WARPGROUPS_HEADERS[maps > 0] if warpgroups else ''}"
        f'extern "C" __global__ void __launch_bounds__({_threads(warpgroups)}) {name}({head}, {parameters}) {{\n'
        f"    {function}({call_arguments}, {passed});\n}}\n"
    )
    every = (len(operands), "f", *codes, *extras.codes, *[_TENSOR_MAP] * maps, *"P" * parameters.count("*"))
    return launcher(
        device, "fused_attention.cu", source, name, every, shared, one_architecture=warpgroups > 0
    )
