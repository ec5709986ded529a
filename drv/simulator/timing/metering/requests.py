"""What a memory instruction asks of the hardware: sectors and lines of each warp's request, bank conflicts, hot addresses.

Lanes arrive as flat arrays; :func:`by_warp` lays them out with a row for each warp. Lanes that are off are filled with
an address that an active lane of the warp has, which changes none of the counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.simulator.timing.figures import BANKS, LINE, SECTOR, WARP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.execution.lanes import Lanes

    Array = NDArray[Any]

_SECTOR_SHIFT, _LINE_SHIFT = SECTOR.bit_length() - 1, LINE.bit_length() - 1
_WORD = 4


class Warps(NamedTuple):
    """Lanes by warp: ``order`` and ``at`` lay out an array of lanes (``None`` where it is a reshape).

    ``blocks`` is the thread block of each row, numbered within the batch; ``requests`` how many warp instructions the
    lanes are.
    """

    rows: int
    width: int
    order: Array | None
    at: tuple[Array, Array] | None
    blocks: Array
    requests: int
    lanes: int


def by_warp(lanes: Lanes) -> Warps:
    """How the lanes that run an instruction are spread over warps."""
    batch = lanes.batch
    per_block = batch.launch.warps
    if lanes.n == batch.n and batch.launch.threads % WARP == 0:
        rows = lanes.n // WARP
        return Warps(rows, WARP, None, None, np.arange(rows) // per_block, rows, lanes.n)
    slots = np.broadcast_to(lanes.constant("warp_slot"), (lanes.n,))
    warps = slots >> 5
    order = None
    if lanes.n > 1 and (warps[1:] < warps[:-1]).any():
        order = np.argsort(warps, kind="stable")
        warps = warps[order]
    starts = np.flatnonzero(np.concatenate(([True], warps[1:] != warps[:-1])))
    counts = np.diff(np.append(starts, lanes.n))
    rows = len(starts)
    width = int(counts.max())
    blocks = warps[starts] // per_block
    requests = int((-(-counts // WARP)).sum())
    if rows * width == lanes.n:
        return Warps(rows, width, order, None, blocks, requests, lanes.n)
    row = np.repeat(np.arange(rows), counts)
    column = np.arange(lanes.n) - np.repeat(starts, counts)
    return Warps(rows, width, order, (row, column), blocks, requests, lanes.n)


def table(warps: Warps, values: Array) -> Array:
    """``values`` ``(lanes,)`` as ``(rows, width)``; entries of lanes that are off repeat the largest of their row."""
    if warps.order is not None:
        values = values[warps.order]
    if warps.at is None:
        return values.reshape(warps.rows, warps.width)
    result = np.full((warps.rows, warps.width), -1, np.int64)
    result[warps.at] = values
    missing = result < 0
    np.copyto(result, result.max(axis=1, keepdims=True), where=missing)
    return result


class GlobalRequest(NamedTuple):
    """What one instruction asks of global memory, over all warps that run it.

    ``keys`` are the sectors, as ``block << KEY_SHIFT | sector``, each once for a warp.
    """

    sectors: int
    lines: int
    needed: int
    keys: Array


#: Sectors of absolute addresses take fewer bits than this.
KEY_SHIFT = 46
KEY_MASK = (1 << KEY_SHIFT) - 1


def global_request(warps: Warps, addresses: Array, width: int) -> GlobalRequest:
    """Sectors and lines that the lanes' accesses touch, and the sectors that would do for their distinct bytes.

    Parameters
    ----------
    addresses
        First byte of each lane, absolute, ``(lanes,)``; aligned to ``width``.
    width
        Bytes of each lane, up to 16.
    """
    if addresses.strides[0] == 0 and warps.lanes > 1:
        # All lanes read one address.
        sector = int(addresses[0]) >> _SECTOR_SHIFT
        keys = (warps.blocks << KEY_SHIFT) | sector
        return GlobalRequest(warps.rows, warps.rows, warps.rows, keys)
    each = table(warps, addresses)
    # Sorting is only needed where addresses go down somewhere.
    if (each[:, 1:] < each[:, :-1]).any():
        each = np.sort(each, axis=1)
    sectors = each >> _SECTOR_SHIFT
    first = _first(sectors)
    lines = sectors >> (_LINE_SHIFT - _SECTOR_SHIFT)
    distinct = _first(each).sum(axis=1) * width
    keys = ((warps.blocks << KEY_SHIFT)[:, None] | sectors)[first]
    needed = int((-(-distinct // SECTOR)).sum())
    return GlobalRequest(len(keys), int(_first(lines).sum()), needed, keys)


def _first(rows: Array) -> Array:
    """Where each row of ``rows``, which ascends, has a value for the first time."""
    result = np.empty(rows.shape, np.bool_)
    result[:, 0] = True
    np.not_equal(rows[:, 1:], rows[:, :-1], out=result[:, 1:])
    return result


class SharedRequest(NamedTuple):
    """Clocks that shared memory takes for an instruction over all its warps, and those that it would without conflicts."""

    wavefronts: int
    ideal: int
    worst: int
    words: int


def shared_request(warps: Warps, offsets: Array, width: int) -> SharedRequest:
    """Bank conflicts of an access to shared memory.

    A bank gives one word of 4 bytes per clock; lanes that read the same word share it. An access takes as many clocks
    as the bank that is asked for the most distinct words.
    """
    if offsets.strides[0] == 0 and warps.lanes > 1:
        clocks = -(-width // (BANKS * _WORD))
        return SharedRequest(
            warps.rows * clocks, warps.rows * clocks, clocks, warps.rows * -(-width // _WORD)
        )
    words = table(warps, offsets) // _WORD
    if width > _WORD:
        words = (words[:, :, None] + np.arange(width // _WORD)).reshape(warps.rows, -1)
    row = np.arange(warps.rows)[:, None] * BANKS
    least = -(-words.shape[1] // BANKS)
    if warps.at is None and _spread_out(words, row, least):
        return SharedRequest(least * warps.rows, least * warps.rows, least, words.size)
    words = np.sort(words, axis=1)
    first = _first(words)
    position = (row + (words & (BANKS - 1)))[first]
    clocks = np.bincount(position, minlength=warps.rows * BANKS).reshape(-1, BANKS).max(axis=1)
    ideal = -(-first.sum(axis=1) // BANKS)
    return SharedRequest(int(clocks.sum()), int(ideal.sum()), int(clocks.max()), int(first.sum()))


def _spread_out(words: Array, row: Array, least: int) -> bool:
    """Whether words are all distinct and no bank is asked for more than others: the usual cases, without sorting."""
    if least > 1:
        return bool((np.diff(words, axis=1) == 1).all())
    asked = np.bincount((row + (words & (BANKS - 1))).ravel(), minlength=row.size * BANKS)
    return bool(asked.max() <= 1)


def same_address(warps: Warps, addresses: Array) -> tuple[int, int]:
    """For atomics: distinct addresses of all warps together, and the most lanes of one warp that name one address."""
    if addresses.strides[0] == 0 and warps.lanes > 1:
        return warps.rows, min(warps.width, warps.lanes)
    each = np.sort(table(warps, addresses), axis=1)
    first = _first(each)
    distinct = int(first.sum())
    starts = np.flatnonzero(first.ravel())
    return distinct, int(np.diff(np.append(starts, first.size)).max())
