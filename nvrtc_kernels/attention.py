"""Softmax of scaled dot-product attention over blocks of its scores, and its derivative: see ``cuda/attention.cuh``.

The products before and after are the caller's; what the caller keeps of a row between and after its blocks is one
number, the logarithm of its sum of exponentials.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .dtypes import float32, float64
from .layouts import collapse
from .plans import NOTHING, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

#: Rows of a block start at multiples of so many elements.
ALIGNMENT = 8
_THREADS = 128
#: Keys, threads of a row, packs of each: a row is held in registers.
_TEAMS = {
    4: ((32, 8, 1), (64, 16, 1), (128, 32, 1), (256, 32, 2), (512, 32, 4), (1024, 32, 8), (4096, 128, 8),
        (16384, 512, 8), (32768, 1024, 8)),
    8: ((32, 8, 1), (64, 16, 1), (128, 32, 1), (256, 32, 2), (512, 32, 4), (2048, 128, 4), (8192, 512, 4)),
}  # fmt: skip


def compute_dtype(dtype: dtype) -> dtype:
    """Type of the scores of half precision queries, and of what is kept of a row: single precision at least."""
    return float64 if dtype is float64 else float32


def most_keys(dtype: dtype) -> int:
    """Most keys of a block."""
    return _TEAMS[compute_dtype(dtype).itemsize][-1][0]


def stride(keys: int) -> int:
    """Elements from a row of a block of so many keys to the next."""
    return -(-keys // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of some matrices, over a range of keys.

    Attributes
    ----------
    matrices, rows : int
        Matrices, and rows of each.
    first, step : int
        Number of the first row, and what is added to it from one matrix to the next.
    positions : int
        Length of a sequence of queries; a row's position is its number modulo it.
    first_key, keys : int
        Range of keys; the first is a multiple of 4.
    causal : bool
        Whether a row sees no keys behind its position.
    """

    matrices: int
    rows: int
    first: int
    step: int
    positions: int
    first_key: int
    keys: int
    causal: bool
    packed: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        numbers = (
            self.matrices * self.rows,
            self.rows,
            self.first,
            self.step,
            self.positions,
            self.first_key,
        )
        packed = struct.pack("=6q4i", *numbers, self.keys, stride(self.keys), self.causal, 0)
        object.__setattr__(self, "packed", packed)


class MaskRows(NamedTuple):
    """Where the rows of a mask lie.

    Attributes
    ----------
    sizes, strides : tuple of int
        Shape that the rows' numbers go over, and the mask's strides over it.
    key_stride : int
        From one key to the next.
    element_dtype : dtype
        bool, where ``True`` lets a key be seen, or a floating point type, which is added.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    key_stride: int
    element_dtype: dtype

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], element_dtype: dtype) -> MaskRows:
        """Those of a mask of ``shape`` ``(..., queries, keys)``; a stretched dimension has stride 0."""
        sizes, (steps,) = collapse(shape[:-1], strides[:-1])
        return cls(tuple(sizes), tuple(steps), strides[-1], element_dtype)

    def packed(self, address: int) -> bytes:
        """As the kernels take it."""
        numbers = (*self.sizes, *self.strides, self.key_stride)
        return struct.pack(f"={len(numbers)}qQ", *numbers, address)


@dataclass(frozen=True, slots=True)
class Dropout:
    """Which weights are dropped: row ``i`` has the words of ``blocks`` counters from ``i * blocks`` on.

    Attributes
    ----------
    seed, call : int
        Of the generator.
    below : int
        Words under this keep their weight.
    blocks : int
        Counters of a row: a quarter of the keys of all blocks, rounded up.
    scale : float
        What kept weights are multiplied by.
    """

    seed: int
    call: int
    below: int
    blocks: int
    scale: float

    @property
    def packed(self) -> bytes:
        """As the kernels take it."""
        return struct.pack("=4QdQ", self.seed, self.call, self.below, self.blocks, self.scale, 0)


class Extras(NamedTuple):
    """What a kernel takes of mask and dropout, in its source and at a launch.

    Attributes
    ----------
    parameters, arguments : list of str
        What the kernel declares, and what it passes on.
    codes : list of int
        Bytes of the parameters.
    """

    parameters: list[str]
    arguments: list[str]
    codes: list[int]

    @classmethod
    def of(cls, mask: MaskRows | None, *, dropping: bool) -> Extras:
        """Those of a kernel with a mask, or None, and with or without dropout."""
        result = cls([], ["NoMask()", "NoDropout()"], [])
        if mask is not None:
            result.parameters.append(f"Mask<{len(mask.sizes)}, {mask.element_dtype.cuda}> mask")
            result.arguments[0] = "mask"
            result.codes.append(len(mask.packed(0)))
        if dropping:
            result.parameters.append("AttentionDropout dropout")
            result.arguments[1] = "dropout"
            result.codes.append(len(Dropout(0, 0, 0, 0, 0).packed))
        return result


def plan_weights(
    device: Device, dtype: dtype, mask: MaskRows | None, *, dropping: bool
) -> Callable[..., None]:
    """What makes the weights of a block from its scores.

    Parameters
    ----------
    dtype
        Type of the weights; scores have :func:`compute_dtype` of it.
    mask
        Where the rows of a mask lie; ``None`` for none.
    dropping
        Whether weights are dropped.

    Returns
    -------
    callable
        ``run(stream_handle, block, scale, mask, dropout, scores, weights, logarithms, result, result_step, width)``.
        ``mask`` and ``dropout`` are packed, and empty for none; ``weights`` may be ``scores``. ``result`` is 0
        for the first keys of rows, later the address of what the earlier ones gave, of ``width`` elements for each row, which is
        scaled, with ``result_step`` elements between matrices; the type of these and of ``logarithms``, one for
        each row by its number, is that of the scores.
    """
    variants: dict[int, tuple[Callable[..., None], int]] = {}
    teams = _TEAMS[compute_dtype(dtype).itemsize]

    def variant(keys: int) -> tuple[Callable[..., None], int]:
        limit, along, packs = next(team for team in teams if keys <= team[0])
        entry = variants.get(limit)
        if entry is None:
            threads = max(along, _THREADS)
            compute_type = compute_dtype(dtype).cuda
            pointers = f"const {compute_type}* scores, {dtype.cuda}* weights, {compute_type}* logarithms, {compute_type}* result"
            launch = _launcher(
                device, dtype, mask, dropping, f"attention_weights_{limit}", threads,
                f"{pointers}, long long result_step, long long width",
                f"attention_weights<{compute_type}, {threads}, {along}, {packs}>",
                "scores, weights, logarithms, result, result_step, width", "PPPPqq",
            )  # fmt: skip
            entry = variants[limit] = launch, along
        return entry

    def run(
        stream: Any, block: Block, scale: float, seen: bytes, dropped: bytes, scores: int, weights: int,
        logarithms: int, result: int, result_step: int, width: int,
    ) -> None:  # fmt: skip
        launch, along = variant(block.keys)
        threads = max(along, _THREADS)
        grid = -(-block.matrices * block.rows * along // threads)
        extra = [each for each in (seen, dropped) if each]
        launch(
            grid, 1, 1, threads, 1, 1, 0, stream, block.packed, scale, *extra, scores, weights, logarithms, result,
            result_step, width,
        )  # fmt: skip

    return run


def plan_gradients(
    device: Device, dtype: dtype, mask: MaskRows | None, *, dropping: bool
) -> Callable[..., None]:
    """What makes weights and gradients of the scores of a block, from scores and gradients of the weights.

    Returns
    -------
    callable
        ``run(stream_handle, block, scale, mask, dropout, scores, grads, logarithms, along, weights, score_grads)``.
        ``along`` is what :func:`plan_row_products` makes of result and gradient, ``logarithms`` what the weights'
        kernel wrote; the last two addresses may be those of scores and gradients.
    """
    variants: dict[int, Callable[..., None]] = {}

    def run(stream: Any, block: Block, scale: float, seen: bytes, dropped: bytes, *addresses: int) -> None:
        along = 8 if block.keys <= 32 else 32 if block.keys <= 1024 else _THREADS
        launch = variants.get(along)
        if launch is None:
            compute_type = compute_dtype(dtype).cuda
            launch = variants[along] = _launcher(
                device, dtype, mask, dropping, f"attention_gradients_{along}", _THREADS,
                f"const {compute_type}* scores, const {compute_type}* grads, const {compute_type}* logarithms, const {compute_type}* along, "
                f"{dtype.cuda}* weights, {dtype.cuda}* score_grads",
                f"attention_gradients<{compute_type}, {_THREADS}, {along}>",
                "scores, grads, logarithms, along, weights, score_grads", "PPPPPP",
            )  # fmt: skip
        grid = -(-block.matrices * block.rows * along // _THREADS)
        extra = [each for each in (seen, dropped) if each]
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, block.packed, scale, *extra, *addresses)

    return run


def plan_row_products(device: Device, dtype: dtype, rows: int, width: int) -> Callable[..., None]:
    """What sums the products of two contiguous ``(rows, width)`` arrays along their rows.

    Returns
    -------
    callable
        ``run(stream_handle, first, second, sums)``, all addresses; the sums have :func:`compute_dtype`.
    """
    if not rows:
        return NOTHING.run
    along = 8 if width <= 32 else 32
    compute_type = compute_dtype(dtype).cuda
    source = (
        f"{includes('attention.cuh')}"
        f'extern "C" __global__ void attention_row_products(long long rows, long long width, const {dtype.cuda}* a, '
        f"const {dtype.cuda}* b, {compute_type}* sums) {{\n"
        f"    attention_row_products<{compute_type}, {_THREADS}, {along}>(rows, width, a, b, sums);\n}}\n"
    )
    launch = launcher(device, "attention.cu", source, "attention_row_products", "qqPPP")
    grid = -(-rows * along // _THREADS)

    def run(stream: Any, first: int, second: int, sums: int) -> None:
        launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, width, first, second, sums)

    return run


def _launcher(
    device: Device, dtype: dtype, mask: MaskRows | None, dropping: bool, name: str, threads: int, parameters: str,
    function: str, passed: str, codes: str,
) -> Callable[..., None]:  # fmt: skip
    """A kernel that takes block, scale, and, where there are, mask and dropout, before its own parameters."""
    extras = Extras.of(mask, dropping=dropping)
    head = ", ".join(["AttentionBlock block", "double scale", *extras.parameters])
    call_arguments = ", ".join(["block", f"({compute_dtype(dtype).cuda})scale", *extras.arguments])
    source = (
        f"{includes('attention.cuh')}"
        f'extern "C" __global__ void __launch_bounds__({threads}) {name}({head}, {parameters}) {{\n'
        f"    {function}({call_arguments}, {passed});\n}}\n"
    )
    size = struct.calcsize("=6q4i")
    return launcher(device, "attention.cu", source, name, (size, "d", *extras.codes, *codes))
