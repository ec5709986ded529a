"""Products of matrices with the pointwise operations behind them as one kernel: see ``cuda/fused_products.cuh``.

cuBLASLt has epilogues for few operations, and computes gelu by tanh. Where a product is so small that a launch counts, one of
our own, with any chain of operations at its end, takes no longer than cuBLAS's and the chain's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .dtypes import bfloat16, float16
from .fused_pointwise import CTYPES
from .fused_rows import DRAW, Chain, Operand, structure
from .plans import bound, includes

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

#: Rows and columns of a block, and elements of these that it takes at a time, in so many buffers.
_TILE, _DEPTH, _STAGES = 64, 64, 4
_THREADS = 128
#: Elements that are copied and stored at a time: 16 bytes.
_CHUNK = 8
_WORD = 16
_CAPABILITY = (8, 0)
#: Blocks that a multiprocessor has at the same time.
_RESIDENT = 2
#: Microseconds on an H200, by the model that simulated drivers have of it: of a launch; of the first and of each further step of
#: a block; of 10^6 bytes from the cache that all multiprocessors share; of a product through cuBLAS, and of 10^9 of its
#: multiplications; of 10^6 bytes of a pointwise operation.
_LAUNCH, _FIRST_STEP, _STEP, _CACHE, _CUBLAS, _WORK, _POINTWISE = 1.2, 1.4, 0.36, 0.167, 2.3, 2.3, 0.25


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """A product ``left @ right + bias``: as :class:`.fused_rows.RowKernel`, but that no chain comes before it.

    Attributes
    ----------
    dtype : dtype
        Of the operands and of the result, which is rounded to it before operations go on with it.
    rows, n, depth : int
        ``left`` is (rows, depth), and ``right`` (depth, n).
    transposed : bool
        Whether ``right`` lies as (n, depth).
    has_bias : bool
        Whether a bias of n elements is added.
    """

    dtype: dtype
    rows: int
    n: int
    depth: int
    transposed: bool
    has_bias: bool
    source: str = "left"
    target: str = "out"
    refusal: str = "a launch takes 16 bytes at a time"

    @property
    def reads(self) -> tuple[Operand, ...]:
        """The arrays that it reads, in the order of the addresses that a launch is given."""
        return (
            Operand("left", self.dtype),
            Operand("right", self.dtype),
            Operand("bias", self.dtype, self.has_bias),
        )

    @property
    def writes(self) -> tuple[Operand, ...]:
        """The array that it writes."""
        return (Operand("out", self.dtype),)

    @property
    def chain_itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    def plan(
        self, device: Device, name: str, before: Chain | None, after: Chain | None
    ) -> Callable[..., None] | None:
        """What launches it with ``after``, as :func:`.fused_rows.plan`; ``before`` is ``None``."""
        if before is not None or after is None:
            return None
        # Results lie behind one another as the allocator's memory begins.
        results, operands = len(after.results), 2 + self.has_bias
        own = range(results, results + 2)
        others = range(results + operands, results + operands + len(after.inputs))
        variants: dict[tuple[bool, bool], Callable[..., None]] = {}

        def run(stream: Any, *arguments: Any) -> None:
            multiplied = chained = 0
            for k in own:
                multiplied |= arguments[k]
            for k in others:
                chained |= arguments[k]
            which = not multiplied % _WORD, not chained % _WORD
            launch = variants.get(which)
            if launch is None:
                launch = variants[which] = self._variant(device, name, after, *which)
            launch(stream, *arguments)

        return run

    def _variant(
        self, device: Device, name: str, after: Chain, packed: bool, aligned: bool
    ) -> Callable[..., None]:
        """The kernel for addresses of operands, and of what the chain reads, that are aligned, or not."""
        name = f"{name}_product"
        text, codes = source(name, self, after, packed=packed, aligned=aligned)
        grid = -(-self.n // _TILE), -(-self.rows // _TILE)
        return bound(
            device, "fused_products.cu", text, name, codes, grid, _THREADS, self.rows, self.n, self.depth,
            shared=_STAGES * 2 * _TILE * _DEPTH * self.dtype.itemsize,
        )  # fmt: skip


def takes(device: Device, kernel: ProductKernel) -> bool:
    """Whether there is such a kernel, and it takes no longer than cuBLAS and a pointwise operation behind it."""
    if kernel.dtype not in (float16, bfloat16) or device.compute_capability < _CAPABILITY:
        return False
    if kernel.n % _CHUNK or kernel.depth % _CHUNK or not kernel.rows:
        return False
    blocks, steps = -(-kernel.n // _TILE) * -(-kernel.rows // _TILE), -(-kernel.depth // _DEPTH)
    read = blocks * steps * 2 * _TILE * _DEPTH * kernel.dtype.itemsize
    own = _LAUNCH + max(_FIRST_STEP + _STEP * steps, read / 1e6 * _CACHE)
    moved = 3 * kernel.rows * kernel.n * kernel.dtype.itemsize
    apart = _CUBLAS + kernel.rows * kernel.n * kernel.depth / 1e9 * _WORK + _LAUNCH + moved / 1e6 * _POINTWISE
    return bool(own < apart)


def source(
    name: str, kernel: ProductKernel, after: Chain, *, packed: bool, aligned: bool
) -> tuple[str, list[str | int]]:
    """Text of the kernel ``name``, and the types of its parameters as codes of :mod:`struct`."""
    t = kernel.dtype.cuda
    outs = [f"to{k}" for k in range(len(after.results))]
    ins = [f"from{k}" for k in range(len(after.inputs))]
    pointers = [f"{each.cuda}* {to}" for to, (_, each) in zip(outs, after.results, strict=True)]
    pointers += [f"const {t}* {each.name}" for each in kernel.reads if each.is_there]
    pointers += [f"const {each.cuda}* {origin}" for origin, (each, *_) in zip(ins, after.inputs, strict=True)]
    # The numbers of a draw come first.
    scalars = sorted(after.scalars, key=lambda each: each[0] not in DRAW)
    parameters = [*pointers, *(f"{CTYPES[code]} {each}" for each, code in scalars)]
    members = ", ".join([*outs, *ins, *(each for each, _ in after.scalars), "0"])
    text = (
        f"{includes('fused_products.cuh')}"
        + "".join(f'#include "{header}"\n' for header in dict.fromkeys(after.include))
        + structure("after", after, kernel.dtype)
        + f'\nextern "C" __global__ void __launch_bounds__({_THREADS}, {_RESIDENT}) {name}(int rows, int n, int depth, '
        + f"{', '.join(parameters)}) {{\n"
        + ("    find_call(seed, call);\n" if after.draws else "")
        + f"    const After<{_cuda(aligned)}> after{{{members}}};\n"
        + f"    multiply_and_go_on<{t}, {_cuda(kernel.transposed)}, {_CHUNK if packed else 1}>(rows, n, depth, left, right, "
        + f"{'bias' if kernel.has_bias else f'static_cast<const {t}*>(nullptr)'}, after);\n}}\n"
    )
    return text, [*"iii", *"P" * len(pointers), *(code for _, code in scalars)]


def _cuda(flag: bool) -> str:
    return "true" if flag else "false"
