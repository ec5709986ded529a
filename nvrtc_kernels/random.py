"""Kernels that fill device memory with random numbers.

They compute what ``tensor.operations.random.distributions`` computes on the CPU, bit for bit: no multiplication is
fused with an addition, and no library function of either side takes part.
"""

from __future__ import annotations

import struct
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from drv import prepare

from . import dtypes, host_loops, normal_quantile
from .kernel_cache import KernelCache
from .layouts import broadcast_strides, collapse
from .program import library_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device, Function

_FUNCTORS = {
    "uniform": ("Uniform", 0),
    "normal": ("Normal", 0),
    "log_normal": ("LogNormal", 0),
    "exponential": ("Exponential", 0),
    "cauchy": ("Cauchy", 0),
    "geometric": ("Geometric", 0),
    "bernoulli": ("Bernoulli", 1),
    "random": ("Integers", 2),
    "wide random": ("WideIntegers", 4),
}
_THREADS = 256
#: Blocks per multiprocessor: enough threads to fill it, and each has several blocks of words to do.
_BLOCKS = 8
_doubles, _words = struct.Struct("=dd"), struct.Struct("=QQ")

#: ``launch(stream_handle, *kernel_arguments)`` for a number of elements.
Launch = "Callable[..., None]"


def plan(
    device: Device, shape: Sequence[int], strides: Sequence[int], dtype: dtypes.dtype
) -> Callable[..., None]:
    """What fills device memory with the numbers of a call, ordered on a stream.

    Parameters
    ----------
    shape, strides
        Of the target, strides in elements. The numbers do not depend on the strides.
    dtype
        Of the target: real, and floating point for the continuous distributions.

    Returns
    -------
    callable
        ``run(stream_handle, address, distribution, seed, call, first, second=0)``; what comes after the target's
        address is as in ``tensor.operations.random.distributions.numbers``.
    """
    count = prod(shape)
    sizes, (steps,) = collapse(shape, strides)
    rank = len(sizes)
    flat = rank == 1 and (steps[0] == 1 or count == 1)
    geometry = () if flat else (struct.pack(f"={2 * rank}q", *sizes, *steps),)
    #: By distributions what launches their kernels, and the grid.
    launches: dict[str, tuple[Callable[..., None], int]] = {}

    def prepared(distribution: str) -> tuple[Callable[..., None], int]:
        functor, words = _functor(distribution, dtype)
        variant = f"<{dtype.cuda}, {functor}<{dtype.cuda}>"
        table = _table(distribution, dtype)
        # A thread stores 16 bytes, or the numbers of a block of words.
        elements = max(4 // words, 16 // dtype.itemsize if flat else 0)
        if flat:
            launch, limit = _launcher(device, f"fill_flat{variant}>", "PQQQQQ", table)
        else:
            types = ("P", *"QQQQQ", 16 * rank)
            launch, limit = _launcher(device, f"fill_strided{variant}, {rank}>", types, table)
        entry = launches[distribution] = launch, _grid(-(-count // elements), limit)
        return entry

    def run(
        stream: Any, address: int, distribution: str, seed: int, call: int, first: float, second: float = 0
    ) -> None:
        distribution, *parameters = parameters_of(distribution, first, second)
        launch, grid = launches.get(distribution) or prepared(distribution)
        launch(
            grid, 1, 1, _THREADS, 1, 1, 0, stream, address, count, seed, call, *parameters, *geometry
        )  # fmt: skip

    return run if count else _nothing


def plan_on_host(distribution: str, dtype: dtypes.dtype, count: int) -> Callable[..., None] | None:
    """What fills ``count`` contiguous elements on the CPU with the numbers of a call, as a native loop with the same bits.

    Returns
    -------
    callable or None
        ``run(address, seed, call, first, second)`` with the parameters of :func:`parameters_of`; ``None`` where there is no
        such loop.
    """
    if dtype.is_complex or dtype.is_storage_only or not host_loops.worth(count):
        return None
    name, words = _functor(distribution, dtype)
    per = 4 // words
    functor = f"{name}<{dtype.cuda}>"
    text = f"""{_table(distribution, dtype)}#include "distributions.cuh"
#include "philox.cuh"

struct Numbers {{
    {dtype.cuda} item[{per}];
}};

extern "C" __device__ Numbers {host_loops.ELEMENT}(Word64 block, Word64 seed, Word64 call, Word64 first, Word64 second) {{
    const {functor} distribution(first, second);
    const Words4 words = philox(seed, call, block);
    Numbers numbers;
#pragma unroll
    for (int i = 0; i < {per}; ++i) numbers.item[i] = distribution(words.word + i * {words});
    return numbers;
}}
"""
    program = library_program(text, "random_numbers.cu", *host_loops.RELOCATABLE, "--fmad=false")
    results = tuple((lane * dtype.itemsize, dtype) for lane in range(per))
    signature = host_loops.Signature(results, (), ("Q", "Q", "Q", "Q"), counted=True, pack=per)
    return host_loops.plan_packs(program, signature, count)


def words_on_host(count: int) -> Callable[..., None] | None:
    """What writes random words of a call on the CPU, as a native loop, where so many of them are worth it.

    Returns
    -------
    callable or None
        ``run(blocks, address, seed, call, first=0)``, of ``blocks`` groups of four words from group ``first`` on, where ``address`` is
        that of group 0; ``None`` where there is no such loop.
    """
    return _words_loop() if host_loops.worth(count) else None


@cache
def _words_loop() -> Callable[..., None] | None:
    text = f"""#include "philox.cuh"

extern "C" __device__ Words4 {host_loops.ELEMENT}(unsigned long long block, unsigned long long seed, unsigned long long call) {{
    return philox(seed, call, block);
}}
"""
    program = library_program(text, "random_words.cu", *host_loops.RELOCATABLE)
    results = tuple((4 * lane, dtypes.int32) for lane in range(4))
    signature = host_loops.Signature(results, (), ("Q", "Q"), counted=True, pack=4)
    return host_loops.flat(program, signature)


def _functor(distribution: str, dtype: dtypes.dtype) -> tuple[str, int]:
    """The functor of a distribution, and the words that it takes."""
    functor, words = _FUNCTORS[distribution]
    return functor, words or (1 if dtype.is_floating_point and dtype.itemsize < 8 else 2)


def _table(distribution: str, dtype: dtypes.dtype) -> str:
    """What the program of a distribution begins with: the table that single precision takes its normal numbers from."""
    if "normal" not in distribution or not dtype.is_floating_point or dtype.itemsize == 8:
        return ""
    numbers = ", ".join(f"{number.hex()}f" for number in normal_quantile.segments().T.ravel().tolist())
    return f"#define NORMAL_SEGMENTS {numbers}\n"


def parameters_of(distribution: str, first: float, second: float) -> tuple[str, int, int]:
    """The distribution that a kernel draws by, and its parameters as 64 bits each."""
    if distribution in ("bernoulli", "random"):
        if distribution == "random" and not 0 < first <= 1 << 32:
            distribution = "wide random"
        return distribution, int(first) & 0xFFFFFFFFFFFFFFFF, int(second) & 0xFFFFFFFFFFFFFFFF
    return distribution, *_words.unpack(_doubles.pack(first, second))


def _nothing(*_: Any) -> None:
    """No elements: no launch."""


def fill_bernoulli(
    device: Device,
    stream: Any,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: dtypes.dtype,
    probability: int,
    probability_shape: Sequence[int],
    probability_strides: Sequence[int],
    probability_dtype: dtypes.dtype,
    seed: int,
    call: int,
) -> None:
    """Fill device memory with ones and zeros, each one with the probability at its index.

    ``probability`` is the address of floating point numbers whose shape broadcasts to ``shape``. A number
    outside ``[0, 1]`` fails an assertion of the kernel. The rest is as in :func:`plan`.
    """
    count = prod(shape)
    if count == 0:
        return
    stretched = broadcast_strides(probability_shape, probability_strides, shape)
    sizes, (out, input_strides) = collapse(shape, strides, stretched)
    rank = len(sizes)
    name = f"fill_bernoulli<{dtype.cuda}, {probability_dtype.cuda}, {rank}>"
    launcher, limit = _launcher(device, name, ("P", "P", *"QQQ", 24 * rank))
    geometry = struct.pack(f"={3 * rank}q", *sizes, *out, *input_strides)
    launcher(
        _grid(-(-count // 4), limit), 1, 1, _THREADS, 1, 1, 0, stream,
        address, probability, count, seed, call, geometry,
    )  # fmt: skip


#: Bytes of device memory that say where a generator stands at a replay: seed, first call and epoch, 64 bits each.
REPLAY_BYTES = 24
#: Types of the parameters of :func:`begin_replay`.
BEGIN_REPLAY = "PQQQQ"
#: Of a call that is captured: its number counts from the replay's first call, and its seed is the address of those bytes.
CAPTURED = 1 << 63


def begin_replay(device: Device) -> Function:
    """The kernel of one thread that sets where a generator stands at a replay; see ``philox_replay.cuh``.

    Its parameters, of the types :data:`BEGIN_REPLAY`: address of :data:`REPLAY_BYTES` bytes, epoch, seed, first call, and
    how many calls later than the last replay's it is where the epoch is still the same.
    """
    program = library_program('#include "philox_replay.cuh"\n', "philox_replay.cu", "--fmad=false")
    return KernelCache.of(device.runtime).function(program, "begin_replay", device)


def _grid(threads: int, limit: int) -> int:
    return min(-(-threads // _THREADS), limit)


def _launcher(
    device: Device, name: str, types: Sequence[str | int], table: str = ""
) -> tuple[Callable[..., None], int]:
    """What launches the kernel ``name`` of a program that begins with ``table``, and the most blocks that make sense."""

    def make() -> tuple[Callable[..., None], int]:
        program = library_program(
            table + '#include "random_fill.cuh"\n', "random_fill.cu", "--fmad=false", name_expressions=(name,)
        )
        function = KernelCache.of(device.runtime).function(program, name, device)
        return prepare(function, types), device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS

    return device.runtime.cache(("random fill", device.ordinal, name), make)
