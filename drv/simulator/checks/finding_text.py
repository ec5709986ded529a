"""The text of findings: what happened, where, and which synchronisation is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.python_stack import format_stack

from .findings import MAX_RANGES, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .findings import AccessReport

#: What reports call the host.
HOST = "the host"
#: What helps against races between threads of a kernel.
BARRIER = (
    "Put a barrier between the two (__syncthreads(), or __syncwarp() among the threads of a warp), "
    "or use atomics for both."
)
ONE_WRITER = "Let one thread write it, or use an atomic: which value stays is not defined."
ONE_IS_ENOUGH = "It is the same whichever value stays; one thread would be enough."
ACROSS_CLUSTER = (
    "Threads of different blocks of a cluster are unordered: let the cluster meet between the two "
    "(cluster.sync(), barrier.cluster), or use atomics for both."
)
ACROSS_GRID = (
    "Threads of different blocks are unordered: use atomics for both, publish the data with "
    "__threadfence() and an atomic, or split the kernel in two."
)
WITHIN_LIFE = "Let the cluster meet (cluster.sync()) before the first access to it, and after the last one."
BEFORE_THE_END = (
    "Wait for the operation's group before the block ends; of copies it is enough that they have read."
)
#: What helps against races with asynchronous operations, and where the asynchronous proxy reads what is not handed over.
IN_FLIGHT = (
    "The asynchronous operation is not known to be complete: wait for its group or its mbarrier phase first, and where "
    "another thread has waited, let a barrier hand that on."
)
UNFENCED = (
    "What ordinary stores write reaches the asynchronous proxy through a proxy fence only: put fence.proxy.async behind "
    "the writes, in front of the barrier that hands them over."
)
CACHED = (
    "Textures and surfaces are read through a cache that does not see what the same launch has written, not even the same "
    "thread: write in one launch and read in the next, or read by an ordinary load."
)
UNFENCED_MAP = (
    "What a kernel writes into a tensor map reaches copies of tensors through fences only: release the change with "
    "fence.proxy.tensormap::generic.release, and let the thread that issues the copy pass "
    "fence.proxy.tensormap::generic.acquire."
)
REGISTERS_EARLY = (
    "Wait for the product before its registers are touched: wgmma.wait_group. (The assembler may serialise such code, "
    "which is right but slow, and says so.)"
)
REGISTERS_UNFENCED = (
    "Put wgmma.fence between what touches the registers of a product, or of its first factor, and the product; and before "
    "the first product."
)


def byte_ranges(offsets: NDArray[np.int64], width: int) -> list[tuple[int, int]]:
    """Ranges ``[start, stop)`` that ``width`` bytes at each of ``offsets`` make, ascending and apart."""
    starts = np.unique(offsets)
    gaps = np.flatnonzero(starts[1:] > starts[:-1] + width)
    first = starts[np.concatenate(([0], gaps + 1))]
    last = starts[np.append(gaps, starts.size - 1)] + width
    return list(zip(first.tolist(), last.tolist(), strict=True))


def describe_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """``bytes [0, 16), [32, 48)``; of many ranges the first few."""
    text = ", ".join(f"[{start}, {stop})" for start, stop in ranges[:MAX_RANGES])
    rest = f" and {len(ranges) - MAX_RANGES} more ranges" if len(ranges) > MAX_RANGES else ""
    return f"bytes {text}{rest}"


def describe_block(launch: Any, block: int) -> str:
    """``block (1, 0, 0)`` of a launch, from a linear index."""
    return f"block {_coordinates(block, launch.grid)}"


def describe_thread(launch: Any, block: int, thread: int) -> str:
    """``block (1, 0, 0), thread (33, 0, 0)`` of a launch, from linear indices."""
    return f"block {_coordinates(block, launch.grid)}, thread {_coordinates(thread, launch.block)}"


def race_message(
    kind: Kind,
    first: AccessReport,
    second: AccessReport,
    allocation: Allocation,
    ranges: Sequence[tuple[int, int]],
) -> str:
    """Two operations, or an operation and the host, in the order in which they were queued."""
    return "\n".join(
        (
            f"{kind}: nothing orders {_who(second)} after {_who(first)}, and both touch",
            f"  {_where(allocation, ranges)}",
            f"First queued:\n  {first.describe()}",
            f"Then:\n  {second.describe()}",
            _missing_wait(kind, first, second),
        )
    )


def exclusive_message(
    first: AccessReport, second: AccessReport, allocation: Allocation, ranges: Sequence[tuple[int, int]]
) -> str:
    """The host touches managed memory while a device that cannot share it with the host is at work."""
    return "\n".join(
        (
            "race: the host touches managed memory while a device is at work that cannot share it",
            f"  {_where(allocation, ranges)}",
            f"First queued:\n  {first.describe()}",
            f"Then:\n  {second.describe()}",
            (
                "The device has no CONCURRENT_MANAGED_ACCESS: wait for its work first, or attach the memory to a stream of its "
                "own, or to the host (cuStreamAttachMemAsync)."
            ),
        )
    )


def kernel_race_message(
    kind: Kind,
    first: AccessReport,
    second: AccessReport,
    allocation: Allocation | None,
    ranges: Sequence[tuple[int, int]],
    *,
    same_block: bool,
    advice: str = "",
) -> str:
    """Two threads of one kernel. ``advice`` is what would help, where it is nothing usual."""
    what = "race"
    happens = "two threads touch {space} with nothing to order them"
    if advice:
        pass
    elif kind is Kind.SAME_VALUE:
        what = "same value"
        happens = "two threads store the same value to {space} with nothing to order them"
        advice = ONE_IS_ENOUGH
    elif first.site is second.site and first.action == "writes":
        advice = ONE_WRITER
    elif same_block:
        advice = BARRIER
    elif allocation is None:
        advice = ACROSS_CLUSTER
    else:
        advice = ACROSS_GRID
    space = "shared memory" if allocation is None else "global memory"
    return "\n".join(
        (
            f"{what} within {second.operation}: {happens.format(space=space)}",
            f"  {_where(allocation, ranges)}",
            f"One thread:\n  {first.describe()}",
            f"Another:\n  {second.describe()}",
            advice,
        )
    )


def distributed_message(
    report: AccessReport, owner: str, what: str, ranges: Sequence[tuple[int, int]]
) -> str:
    """A thread that touches the shared memory of ``owner``, a block that ``what``."""
    wording = (
        f"{describe_ranges(ranges)} of the shared memory of {owner}"
        if ranges
        else f"shared memory of {owner}"
    )
    return "\n".join(
        (
            f"race within {report.operation}: a thread touches the shared memory of another block, which {what}",
            f"  {wording}",
            report.describe(),
            WITHIN_LIFE,
        )
    )


def unfinished_message(report: AccessReport, owner: str) -> str:
    """A block that has ended before an asynchronous operation had read its shared memory."""
    return "\n".join(
        (
            f"race within {report.operation}: {owner} ends while an asynchronous operation may still read its shared memory",
            report.describe(),
            BEFORE_THE_END,
        )
    )


def register_race_message(first: AccessReport | None, second: AccessReport, advice: str) -> str:
    """Registers of an asynchronous product that a thread touches too early, or without a fence."""
    lines = [
        f"race within {second.operation}: registers of an asynchronous matrix product are touched out of order"
    ]
    if first is None:
        lines.append(f"No fence comes before:\n  {second.describe()}")
    else:
        lines += [f"First:\n  {first.describe()}", f"Then:\n  {second.describe()}"]
    return "\n".join([*lines, advice])


def undefined_message(
    report: AccessReport, allocation: Allocation | None, ranges: Sequence[tuple[int, int]]
) -> str:
    """A read of bytes that were never written."""
    return "\n".join(
        (
            f"uninitialized: {_who(report)} reads memory that nothing has written",
            f"  {_where(allocation, ranges)}",
            report.describe(),
            "Fill the memory first, or do not read the part that nothing fills.",
        )
    )


def _missing_wait(kind: Kind, first: AccessReport, second: AccessReport) -> str:
    stream, what = first.stream, first.operation
    if first.launch is not None:
        if first.launch is second.launch:
            return (
                f"Both are nodes of {first.launch.graph}: let one depend on the other. In a capture, record an event on "
                "one stream and let the other wait for it."
            )
        stream, what = first.launch.stream, f"the launch of {first.launch.graph}"
    if second.operation == HOST:
        if kind is Kind.FREED_IN_USE:
            return f"Synchronise with {stream} before the memory is freed."
        return (
            f"Synchronise with {stream}, or with an event recorded on it after {what}, "
            f"before the host {second.action} this memory."
        )
    to, then = second.stream, second.operation
    if second.launch is not None:
        to, then = second.launch.stream, f"the launch of {second.launch.graph}"
    if stream is None or stream == to:
        return "Record an event after the first and wait for it before the second."
    return (
        f"Record an event on {stream} after {what} and let {to} wait for it "
        f"before {then}, or queue both on one stream."
    )


def _who(report: AccessReport) -> str:
    return report.operation if report.stream is None else f"{report.operation} on {report.stream}"


def _where(allocation: Allocation | None, ranges: Sequence[tuple[int, int]]) -> str:
    if allocation is None:
        return f"{describe_ranges(ranges)} of the block's shared memory"
    text = f"{describe_ranges(ranges)} of {allocation.describe()}"
    return f"{text}, allocated by\n{format_stack(allocation.stack)}" if allocation.stack else text


def _coordinates(index: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    rest, x = divmod(index, size[0])
    z, y = divmod(rest, size[1])
    return x, y, z
