"""Attention in one kernel, with no scores in memory: see ``cuda/fused_attention.cuh``."""

from __future__ import annotations

import struct
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

#: Elements of a query, key and value that there are kernels for; narrower ones are padded in shared memory.
_WIDTHS = (32, 64, 128)
#: Queries and threads of a block: twice as many queries where that many are there.
_QUERIES, _THREADS = 64, 128
#: By width, and by 16 queries of a warp: keys that are taken at a time, and the fragments of queries in registers.
_TILES = {
    (32, 1): (64, 2), (32, 2): (64, 2), (64, 1): (64, 4), (64, 2): (64, 4), (128, 1): (64, 8), (128, 2): (32, 4)
}  # fmt: skip
#: Elements of 16 bytes, which a copy to shared memory has.
_CHUNK = 8
#: Bytes that addresses are multiples of.
ALIGNMENT = 16
_MAX_MATRICES = 65535
#: Compute capability from which on there are asynchronous copies and products of bfloat16.
_CAPABILITY = (8, 0)


def takes(
    device: Device,
    dtype: dtype,
    shape: Sequence[int],
    widths: tuple[int, int],
    strides: Sequence[Sequence[int]],
) -> bool:
    """Whether there is a kernel for queries, keys and values of these sizes, where their addresses are aligned.

    Parameters
    ----------
    shape
        Sizes of the dimensions before positions and elements, that all three are stretched to.
    widths
        Elements of a query (and key), and of a value.
    strides
        Of queries, keys and values, in elements: over ``shape``, then from row to row and from element to element.
    """
    width, values = widths
    return (
        dtype in (float16, bfloat16)
        and device.compute_capability >= _CAPABILITY
        and width == values
        and width % _CHUNK == 0
        and width <= _WIDTHS[-1]
        and 0 < prod(shape) <= _MAX_MATRICES
        and all(each[-1] == 1 and all(step % _CHUNK == 0 for step in each[:-1]) for each in strides)
    )


def plan(
    device: Device,
    dtype: dtype,
    shape: Sequence[int],
    positions: int,
    keys: int,
    width: int,
    strides: Sequence[Sequence[int]],
    mask: MaskRows | None,
    *,
    causal: bool,
    dropping: bool,
) -> Callable[..., None]:
    """What computes attention of operands that :func:`takes` accepts.

    Parameters
    ----------
    positions, keys
        Lengths of the sequences of queries, and of keys and values.
    mask
        Where the rows of a mask lie; ``None`` for none.
    causal
        Whether a query sees no keys behind its own position.
    dropping
        Whether weights are dropped.

    Returns
    -------
    callable
        ``run(stream_handle, scale, mask, dropout, query, key, value, result, logarithms)``: ``mask`` and ``dropout`` are
        packed, and empty for none. The result is contiguous; its rows are numbered through, and ``logarithms`` are those
        of their sums of exponentials, float32. Relative errors are those of sums in float32 of products of weights that
        are rounded to the operands' dtype.
    """
    padded = next(each for each in _WIDTHS if width <= each)
    # A single matrix has no dimension left, and the kernel one of size 1.
    sizes, steps = collapse((*shape, 1), *[(*each[:-2], 0) for each in strides])
    rank = len(sizes)
    numbers = (*sizes, *[step for each in steps for step in each], *[each[-2] for each in strides], positions)
    operands = struct.pack(f"={len(numbers)}q4i", *numbers, keys, width, causal, 0)
    extras = Extras.of(dtype, mask, dropping=dropping)
    head = ", ".join([f"AttentionOperands<{rank}> operands", "float scale", *extras.parameters])
    passed = ", ".join(["operands", "scale", *extras.arguments])
    groups = 2 if positions > _QUERIES else 1
    keys_of_tile, held = _TILES[padded, groups]
    name, t = f"attention_of_{padded}", dtype.cuda
    source = (
        f"{includes('fused_attention.cuh', *extras.dtypes)}"
        f'extern "C" __global__ void __launch_bounds__({_THREADS}) {name}({head}, const {t}* query, '
        f"const {t}* key, const {t}* value, {t}* result, float* logarithms) {{\n"
        f"    attend<{t}, {padded}, {groups}, {keys_of_tile}, {held}, {rank}>({passed}, query, key, value, result, logarithms);\n}}\n"
    )
    launch = launcher(
        device, "fused_attention.cu", source, name, (len(operands), "f", *extras.codes, *"PPPPP")
    )
    grid, count = -(-positions // (groups * _QUERIES)), prod(shape)

    def run(stream: Any, scale: float, seen: bytes, dropped: bytes, *addresses: int) -> None:
        extra = [each for each in (seen, dropped) if each]
        launch(grid, count, 1, _THREADS, 1, 1, 0, stream, operands, scale, *extra, *addresses)

    return run
