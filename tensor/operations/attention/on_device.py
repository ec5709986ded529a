"""Attention on a device: products by cuBLAS, and what stands between them by one kernel for each block.

Scores are in single precision also for half precision queries. Where sums of half precision products go on over
several blocks, they are kept in single precision too, and rounded once at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import attention as kernels
from nvrtc_kernels import pointwise
from nvrtc_kernels.layouts import contiguous_strides
from tensor.core.base import empty, view_of
from tensor.core.layout import contiguous, strided
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.storage import DeviceStorage, device_storage
from tensor.operations.products import blas

from .blocks import tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.attention import Block, Dropout
    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .blocks import Problem, Tile

_ALIGNMENT = 256
_CONVERT = pointwise.Expression("convert", "a")


def _round(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def _transposed(read: blas.Factor) -> blas.Factor:
    return blas.Factor(not read.transposed, read.leading, read.batch)


class _Matrices:
    """Tensors of shape (matrices, rows, columns) of one dtype, of which products take a tile."""

    __slots__ = ("itemsize", "read", "strides")

    def __init__(self, layout: Layout) -> None:
        read = blas.factor(layout.shape, layout.strides)
        assert read is not None
        self.read: blas.Factor = read
        self.strides = layout.strides
        self.itemsize = layout.itemsize

    def at(self, matrix: int, row: int) -> int:
        """Bytes to the first element of a row."""
        return (matrix * self.strides[0] + row * self.strides[1]) * self.itemsize


class _Blocks:
    """What forward and backward have in common: the products of blocks, each prepared once."""

    def __init__(self, device_state: Any, dtype: dtype, problem: Problem, capacity: int) -> None:
        self.device_state = device_state
        self.dtype = dtype
        self.compute_dtype = kernels.compute_dtype(dtype)
        self.mixed = self.compute_dtype is not dtype
        self.problem = problem
        self.tiles = list(tiles(problem, capacity, kernels.most_keys(dtype)))
        self.products: dict[Any, Callable[..., None]] = {}
        #: Most elements of a block with its padding.
        self.most = max(
            block.matrices * block.rows * kernels.stride(block.keys)
            for tile in self.tiles
            for block in tile.blocks
        )
        self.rows = max(tile.matrices * tile.rows for tile in self.tiles)
        self.deep = any(len(tile.blocks) > 1 for tile in self.tiles)

    def contiguous(self, rows: int, columns: int, dtype: dtype | None = None) -> Layout:
        """Layout of matrices."""
        return contiguous[(self.problem.matrices, rows, columns), dtype or self.dtype, self.device_state]

    def product(
        self, sizes: tuple[int, int, int, int], a: blas.Factor, b: blas.Factor, c: blas.Factor, output: dtype
    ) -> Callable[..., None]:
        """``run(c, a, b, alpha, beta)`` for addresses."""
        reads = tuple((x.transposed, x.leading, x.batch) for x in (a, b, c))
        result = self.products.get((sizes, reads, output))
        if result is None:
            result = blas.product(
                self.device_state, self.dtype, sizes, a, b, c, output=None if output is self.dtype else output
            )
            self.products[sizes, reads, output] = result
        return result

    def scores(self, tile: Tile, block: Block, rows: blas.Factor, columns: blas.Factor, depth: int) -> Any:
        """The product of rows of a tile with the rows of a block's keys or values."""
        sizes = block.matrices, block.rows, block.keys, depth
        return self.product(sizes, rows, _transposed(columns), box(block), self.compute_dtype)

    def conversion(self, shape: tuple[int, int, int], steps: int) -> Callable[..., None]:
        """``run(stream, out, given)``: rounds contiguous sums; ``steps`` elements from matrix to matrix of ``out``."""
        strides = (steps, shape[2], 1), self.dtype
        return pointwise.plan(
            self.device_state.native,
            _CONVERT,
            shape,
            strides,
            (contiguous_strides(shape), self.compute_dtype),
        )


def box(block: Block) -> blas.Factor:
    """How products read or write the scores of a block."""
    step = kernels.stride(block.keys)
    return blas.Factor(False, step, block.rows * step)


def mask_rows(mask: Layout | None) -> kernels.MaskRows | None:
    return None if mask is None else kernels.MaskRows.of(mask.shape, mask.strides, mask.dtype)


def plan(
    query: Layout,
    key: Layout,
    value: Layout,
    mask: Layout | None,
    problem: Problem,
    capacity: int,
    dropping: bool,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """What computes results and logarithms of the sums; see :class:`..attention._Forward`."""
    device_state: Any = query.device_state
    local, dtype = device_state.local, query.dtype
    own = _Blocks(device_state, dtype, problem, capacity)
    rows, values = problem.rows, problem.values
    out = own.contiguous(rows, values)
    saved = contiguous[(problem.matrices, rows), own.compute_dtype, device_state]
    q, k, v = _Matrices(query), _Matrices(key), _Matrices(value)
    seen = mask_rows(mask)
    weigh = kernels.plan_weights(device_state.native, dtype, seen, dropping=dropping)
    weights_at = _round(own.most * own.compute_dtype.itemsize) if own.mixed else 0
    sums_at = weights_at + _round(own.most * dtype.itemsize)
    workspace = max(sums_at, _round(own.most * own.compute_dtype.itemsize))
    if own.mixed and own.deep:
        workspace += own.rows * values * own.compute_dtype.itemsize
    into = _Matrices(out)
    steps = []
    for tile in own.tiles:
        aside = own.mixed and len(tile.blocks) > 1
        result = blas.Factor(False, values, (tile.rows if aside else rows) * values)
        blocks = [
            (
                block,
                own.scores(tile, block, q.read, k.read, problem.width),
                k.at(tile.matrix, block.first_key),
                own.product(
                    (block.matrices, block.rows, values, block.keys), box(block), v.read, result,
                    own.compute_dtype if aside else dtype,
                ),
                v.at(tile.matrix, block.first_key),
            )
            for block in tile.blocks
        ]  # fmt: skip
        convert = own.conversion((tile.matrices, tile.rows, values), rows * values) if aside else None
        target = into.at(tile.matrix, tile.row)
        steps.append((q.at(tile.matrix, tile.row), target, result.batch, convert, blocks))

    def run(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: Dropout | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        stream = local.stream
        output, logarithms = empty(out), empty(saved)
        scratch = _workspace(device_state, workspace)
        address, q_address, k_address, v_address = (
            scratch.address, query._address, key._address, value._address,
        )  # fmt: skip
        hidden = b"" if mask is None or seen is None else seen.packed(mask._address)
        dropped = b"" if dropout is None else dropout.packed
        weights, sums = address + weights_at, logarithms._address
        for start, target, step, convert, blocks in steps:
            target += output._address
            result = target if convert is None else address + sums_at
            later = False
            for block, score, key_at, combine, value_at in blocks:
                score(address, q_address + start, k_address + key_at)
                weigh(
                    stream.handle, block, scale, hidden, dropped, address, weights, sums, result if later else 0,
                    step, values,
                )  # fmt: skip
                combine(result, weights, v_address + value_at, 1, later)
                later = True
            if convert is not None:
                convert(stream.handle, target, result)
        return output, logarithms

    return run


def _workspace(device_state: Any, size: int) -> DeviceStorage:
    return device_storage(
        device_state, size, device_state.allocate(size, device_state.local.stream.cuda_stream)
    )


def plan_backward(
    grad: Layout, query: Layout, key: Layout, value: Layout, mask: Layout | None, problem: Problem, capacity: int,
    dropping: bool, expected: tuple[bool, ...], mask_shape: tuple[int, ...] | None,
) -> Callable[..., tuple[Tensor | None, ...]]:  # fmt: skip
    """What computes the gradients; see :class:`..attention._Backward`."""
    device_state: Any = query.device_state
    local, dtype = device_state.local, query.dtype
    own = _Blocks(device_state, dtype, problem, capacity)
    compute_dtype = own.compute_dtype
    rows, total, width, values = problem.rows, problem.keys, problem.width, problem.values
    g, q, k, v = _Matrices(grad), _Matrices(query), _Matrices(key), _Matrices(value)
    seen = mask_rows(mask)
    differentiate = kernels.plan_gradients(device_state.native, dtype, seen, dropping=dropping)
    measure = kernels.plan_row_products(device_state.native, dtype, problem.matrices * rows, values)
    output = own.contiguous(rows, width), own.contiguous(total, width), own.contiguous(total, values)
    saved = contiguous[(problem.matrices, rows), compute_dtype, device_state]
    # Keys behind the last query are seen by none of them.
    reached = max(block.first_key + block.keys for block in own.tiles[0].blocks)
    # Sums of half precision over several blocks go on in single precision.
    several = own.mixed and not all(tile.first for tile in own.tiles)
    most = max(tile.matrices for tile in own.tiles)
    box_bytes = _round(own.most * compute_dtype.itemsize)
    at = {"scores": 0, "slopes": box_bytes}
    end = 2 * box_bytes
    for name, count, needed in (
        ("weights", own.most * dtype.itemsize, own.mixed),
        ("score_grads", own.most * dtype.itemsize, own.mixed),
        ("query", own.rows * width * compute_dtype.itemsize, own.mixed and own.deep),
        ("key", most * reached * width * compute_dtype.itemsize, several),
        ("value", most * reached * values * compute_dtype.itemsize, several),
    ):
        at[name] = end
        end += _round(count) if needed else 0
    if not own.mixed:
        at["weights"], at["score_grads"] = at["scores"], at["slopes"]
    steps = []
    for number, tile in enumerate(own.tiles):
        aside = own.mixed and len(tile.blocks) > 1
        of_query = blas.Factor(False, width, (tile.rows if aside else rows) * width)
        of_key = blas.Factor(False, width, (reached if several else total) * width)
        of_value = blas.Factor(False, values, (reached if several else total) * values)
        blocks = []
        for block in tile.blocks:
            scores = box(block)
            matrices, height, keys = block.matrices, block.rows, block.keys
            column = 0 if several else tile.matrix * total
            blocks.append(
                (
                    block,
                    tile.region(block),
                    own.scores(tile, block, q.read, k.read, width),
                    own.scores(tile, block, g.read, v.read, values),
                    k.at(tile.matrix, block.first_key),
                    v.at(tile.matrix, block.first_key),
                    own.product(
                        (matrices, height, width, keys), scores, k.read, of_query, compute_dtype if aside else dtype
                    ),
                    own.product(
                        (matrices, keys, width, height), _transposed(scores), q.read, of_key,
                        compute_dtype if several else dtype,
                    ),
                    own.product(
                        (matrices, keys, values, height), _transposed(scores), g.read, of_value,
                        compute_dtype if several else dtype,
                    ),
                    column + block.first_key,
                )
            )  # fmt: skip
        last = number + 1 == len(own.tiles) or own.tiles[number + 1].first
        round_query = own.conversion((tile.matrices, tile.rows, width), rows * width) if aside else None
        round_others = None
        if several and last:
            round_others = tuple(
                own.conversion((tile.matrices, reached, size), total * size) for size in (width, values)
            )
        steps.append((tile, blocks, round_query, round_others))
    size, narrow_size = compute_dtype.itemsize if several else dtype.itemsize, dtype.itemsize

    def run(
        grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, result: Tensor,
        logarithms: Tensor, dropout: Dropout | None, scale: float,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        stream = local.stream.handle
        entry = [empty(layout) if want else None for layout, want in zip(output, expected[:3], strict=True)]
        dq, dk, dv = (0 if x is None else x._address for x in entry)
        if reached < total:
            for x in entry[1:]:
                if x is not None:
                    x.zero_()
        of_mask = None
        if expected[3] and mask_shape is not None:
            of_mask = empty(contiguous[mask_shape, compute_dtype, device_state]).zero_()
        along = empty(saved)
        measure(stream, grad._address, result._address, along._address)
        scratch = _workspace(device_state, end)
        base = scratch.address
        where = {name: base + offset for name, offset in at.items()}
        dk_sums, dv_sums = (where["key"], where["value"]) if several else (dk, dv)
        q_address, k_address, v_address, g_address = (
            query._address, key._address, value._address, grad._address,
        )  # fmt: skip
        hidden = b"" if mask is None or seen is None else seen.packed(mask._address)
        dropped = b"" if dropout is None else dropout.packed
        for tile, blocks, round_query, round_others in steps:
            q_at = q_address + q.at(tile.matrix, tile.row)
            g_at = g_address + g.at(tile.matrix, tile.row)
            target = dq + (tile.matrix * rows + tile.row) * width * narrow_size
            dq_at = target if round_query is None else where["query"]
            later = False
            for block, region, score, slope, k_at, v_at, to_query, to_key, to_value, column in blocks:
                score(where["scores"], q_at, k_address + k_at)
                slope(where["slopes"], g_at, v_address + v_at)
                differentiate(
                    stream, block, scale, hidden, dropped, where["scores"], where["slopes"], logarithms._address,
                    along._address, where["weights"], where["score_grads"],
                )  # fmt: skip
                if expected[0]:
                    to_query(dq_at, where["score_grads"], k_address + k_at, scale, later)
                if expected[1]:
                    to_key(dk_sums + column * width * size, where["score_grads"], q_at, scale, not tile.first)
                if expected[2]:
                    to_value(dv_sums + column * values * size, where["weights"], g_at, 1, not tile.first)
                if of_mask is not None:
                    _add_to_mask(of_mask, region, block, dtype, scratch, at["score_grads"])
                later = True
            if round_query is not None and expected[0]:
                round_query(stream, target, dq_at)
            if round_others is not None:
                first = tile.matrix * total * narrow_size
                if expected[1]:
                    round_others[0](stream, dk + first * width, dk_sums)
                if expected[2]:
                    round_others[1](stream, dv + first * values, dv_sums)
        return (*entry, None if of_mask is None else of_mask.to(dtype))

    return run


def _add_to_mask(
    into: Tensor, region: tuple[slice, ...], block: Block, dtype: dtype, scratch: DeviceStorage, offset: int
) -> None:
    """Add gradients of scores to that of the mask, over whose stretched dimensions they are summed."""
    shape = tuple(each.stop - each.start for each in region)
    step = kernels.stride(block.keys)
    strides = (*(each * step for each in contiguous_strides(shape[:-1])), 1)
    slopes = view_of(scratch, strided[shape, strides, dtype, scratch.device_state], offset)
    sizes = into.shape
    stretched = [dim for dim, size in enumerate(sizes) if size == 1]
    with unrecorded():
        where = tuple(slice(0, 1) if size == 1 else each for size, each in zip(sizes, region, strict=True))
        into[where] += slopes.sum(stretched, keepdim=True) if stretched else slopes
