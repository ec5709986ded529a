"""Many tensors moved between devices, or summed up, in few copies.

Tensors of one dtype are packed one after another in runs of up to ``buffer_size`` bytes by one kernel, and each run
travels as one copy. A tensor that fills a run alone is copied from where it is.

A copy between devices is queued on the receiving device's current stream, behind what the sending device's current
stream holds, so that copies to several devices and the sender's own work overlap. Memory that was packed is the
copy's own; where a tensor of the caller is read, the sender waits for the copy before its later work, which may
write that tensor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import drv
from nvrtc_kernels import coalescing
from nvrtc_kernels.dtypes import uint8
from tensor.core.base import empty, view_of
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.core.plans.copies import copied
from tensor.core.storage import ForeignStorage

from .devices import connect, drained_on_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor import Tensor
    from tensor.core.devices.state import CudaState
    from tensor.core.layout import Layout
    from tensor.core.storage import Storage
    from tensor.cuda import Stream

#: Bytes of a run.
BUFFER_SIZE = 10 * 1024 * 1024
#: Bytes that the start of each tensor in a run is a multiple of.
_ALIGNMENT = 16
#: Bytes from which on a tensor that is a run by itself is not packed.
_ALONE = 1 << 20


class StorageSlice(ForeignStorage):
    """A slice of another storage that counts its own changes.

    What is written to one tensor of a run is no change of the others, although they share the memory.
    """

    __slots__ = ()

    @classmethod
    def of(cls, whole: Storage, version: int, offset: int, size: int) -> StorageSlice:
        """``size`` bytes of ``whole`` from ``offset`` on."""
        # As __init__ would, without the call: every parameter of every replica is one.
        self: StorageSlice = object.__new__(cls)
        self.device_state = whole.device_state
        self.capacity = size
        self.address = whole.address + offset
        self.version = version
        self.plain = False
        self.owner = whole
        return self

    def record_stream(self, stream: Stream) -> None:
        """Note that ``stream`` uses the whole."""
        self.owner.record_stream(stream)


class Run(NamedTuple):
    """Tensors of one dtype that are copied together.

    Attributes
    ----------
    positions
        Which of the tensors.
    counts
        Their elements of ``real_dtype``; a complex element counts as two.
    offsets
        Bytes from the start of the run to each of them.
    nbytes
        Of the run.
    alone
        Whether it is one tensor, which is copied from where it is. A small one is not: the sender would wait for it.
    """

    real_dtype: dtype
    positions: tuple[int, ...]
    counts: tuple[int, ...]
    offsets: tuple[int, ...]
    nbytes: int
    alone: bool


def runs_of(layouts: Sequence[Layout], buffer_size: int) -> tuple[Run, ...]:
    """Divide tensors without gaps into runs, in their order. Those without elements are in none."""
    runs: list[Run] = []
    by_type: dict[dtype, list[int]] = {}
    for position, layout in enumerate(layouts):
        if layout.numel:
            by_type.setdefault(layout.dtype, []).append(position)
    for element_dtype, positions in by_type.items():
        taken: list[int] = []
        size = 0
        for position in positions:
            nbytes = _aligned(layouts[position].nbytes)
            if taken and size + nbytes > buffer_size:
                runs.append(_run(element_dtype, taken, layouts))
                taken, size = [], 0
            taken.append(position)
            size += nbytes
        runs.append(_run(element_dtype, taken, layouts))
    return tuple(runs)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _run(element_dtype: dtype, positions: list[int], layouts: Sequence[Layout]) -> Run:
    components = 2 if element_dtype.is_complex else 1
    counts = tuple([layouts[position].numel * components for position in positions])
    offsets, end, nbytes = [], 0, 0
    for position in positions:
        offsets.append(end)
        nbytes = end + layouts[position].nbytes
        end = _aligned(nbytes)
    real = element_dtype.to_real() if element_dtype.is_complex else element_dtype
    alone = len(positions) == 1 and nbytes >= _ALONE
    return Run(real, tuple(positions), counts, tuple(offsets), nbytes, alone)


def _route_plan(
    layouts: tuple[Layout, ...], states: tuple[CudaState, ...], buffer_size: int
) -> list[tuple[Run, list[tuple[Layout, list[tuple[int, int, int, Layout]]]]]]:
    """``device_state.plans[operation, layouts, states, buffer_size]``: runs, with layouts on each device."""
    return [
        (run, [_layouts_on(run, layouts, state) for state in states]) for run in runs_of(layouts, buffer_size)
    ]


def _layouts_on(
    run: Run, layouts: Sequence[Layout], state: CudaState
) -> tuple[Layout, list[tuple[int, int, int, Layout]]]:
    slices = [
        (position, offset, layouts[position].nbytes, layouts[position].on(state))
        for position, offset in zip(run.positions, run.offsets, strict=True)
    ]
    return (slices[0][3] if run.alone else contiguous[(run.nbytes,), uint8, state]), slices


def _sum_plan(state: CudaState, element_dtype: dtype, sources: int) -> Callable[..., None]:
    """``device_state.plans[operation, state, dtype, sources]``: :func:`nvrtc_kernels.coalescing.plan`."""
    return coalescing.plan(state.native, element_dtype, sources)


_RUNS, _ROUTE, _SUM = planned(runs_of), planned(_route_plan), planned(_sum_plan)


def _dense(x: Tensor, target: Layout) -> Tensor:
    """``x``, or a copy where its elements are laid out otherwise than in ``target``, which has no gaps."""
    have = x._layout
    if have.strides == target.strides and have.dtype is target.dtype:
        return x
    return copied(x, target.on(have.device_state))


def _pack(tensors: Sequence[Tensor], run: Run, state: CudaState) -> Tensor:
    """The tensors of a run, which are on the device of ``state``, packed one after another."""
    whole = empty(contiguous[(run.nbytes,), uint8, state])
    start = whole._address
    addresses: list[int] = []
    for position, offset in zip(run.positions, run.offsets, strict=True):
        addresses += (start + offset, tensors[position]._address)
    state.plans[_SUM, state, run.real_dtype, 1](state.local.stream.handle, addresses, run.counts)
    return whole


def _send(to: Tensor, origin: Tensor, nbytes: int) -> None:
    """Copy bytes to another device, on its current stream, behind what the sender's holds."""
    there: Any = to._layout.device_state
    here: Any = origin._layout.device_state
    stream = there.local.stream.native
    stream.wait_stream(here.local.stream.native)
    drv.copy_peer(to._address, there.native, origin._address, here.native, nbytes, stream=stream)


def copies(
    tensors: Sequence[Tensor], states: Sequence[CudaState], buffer_size: int = BUFFER_SIZE
) -> list[list[Tensor]]:
    """Copies of ``tensors``, which are on one device, on the device of each of ``states``; nothing is recorded.

    Each device gets its copies from the one before it, so that a run is on several connections at once.
    """
    if not tensors or not states:
        return [[] for _ in states]
    source: Any = tensors[0]._layout.device_state
    layouts = tuple([x._layout.as_dense() for x in tensors])
    tensors = [
        x if x._layout is layout else copied(x, layout) for x, layout in zip(tensors, layouts, strict=True)
    ]
    columns: list[list[Any]] = [[None] * len(tensors) for _ in states]
    connect((source, *states))
    with drained_on_failure() as used:
        used += [state.local.stream.native for state in states]
        _copy_runs(tensors, layouts, source, states, buffer_size, columns)
    for position, layout in enumerate(layouts):
        if not layout.numel:
            for state, results in zip(states, columns, strict=True):
                results[position] = empty(layout.on(state))
    return columns


def _copy_runs(
    tensors: Sequence[Tensor],
    layouts: tuple[Layout, ...],
    source: CudaState,
    states: Sequence[CudaState],
    buffer_size: int,
    columns: list[list[Any]],
) -> None:
    reads_tensors = False
    for run, route in source.plans[_ROUTE, layouts, tuple(states), buffer_size]:
        if run.alone:
            origin = tensors[run.positions[0]]
            reads_tensors = True
        else:
            origin = _pack(tensors, run, source)
            # It is free before the copy from it is done.
            origin.record_stream(states[0].local.stream)
        for (layout, slices), results in zip(route, columns, strict=True):
            there = empty(layout)
            _send(there, origin, run.nbytes)
            origin = there
            if run.alone:
                results[run.positions[0]] = there
                continue
            whole = there._storage
            version = whole.version
            for position, offset, nbytes, layout_there in slices:
                results[position] = view_of(StorageSlice.of(whole, version, offset, nbytes), layout_there, 0)
    # What a device does next may write what the following one still reads.
    senders = (source, *states) if reads_tensors else states
    for sender, receiver in pairwise(senders):
        sender.local.stream.native.wait_stream(receiver.local.stream.native)


def sums(
    columns: Sequence[Sequence[Tensor]],
    destination: CudaState,
    layouts: Sequence[Layout] | None = None,
    buffer_size: int = BUFFER_SIZE,
) -> list[Tensor]:
    """Sums of the first tensors of all columns, of the second ones, ..., on ``destination``; nothing is recorded.

    The tensors of a column are on one device. Sums have the first column's types and, without gaps, the order of
    dimensions in ``layouts``, by default the first column's.
    """
    if not columns[0]:
        return []
    targets = tuple(
        [x._layout.as_dense().on(destination) for x in columns[0]] if layouts is None else layouts
    )
    columns = [[_dense(x, layout) for x, layout in zip(each, targets, strict=True)] for each in columns]
    here = [each for each in columns if each[0]._layout.device_state is destination]
    others = [each for each in columns if each[0]._layout.device_state is not destination]
    results: list[Any] = [None] * len(targets)
    with drained_on_failure() as used:
        for state in (*(each[0]._layout.device_state for each in others), destination):
            assert state.is_cuda
            used.append(state.local.stream.native)
        _sum_runs(here, others, destination, targets, buffer_size, results)
    return [empty(layout) if x is None else x for x, layout in zip(results, targets, strict=True)]


def _sum_runs(
    here: Sequence[Sequence[Tensor]],
    others: Sequence[Sequence[Tensor]],
    destination: CudaState,
    targets: tuple[Layout, ...],
    buffer_size: int,
    results: list[Any],
) -> None:
    senders: dict[Any, None] = {}
    for run in destination.plans[_RUNS, targets, buffer_size]:
        sources = [[each[position]._address for position in run.positions] for each in here]
        if run.real_dtype.itemsize == 2 and run.real_dtype.is_floating_point:
            # On the way a sum would be rounded at every device.
            arrived = [_chain_sum([each], run, destination, senders) for each in others]
        else:
            arrived = [_chain_sum(others, run, destination, senders)] if others else []
        sources += [[start._address + offset for offset in run.offsets] for start in arrived]
        for position in run.positions:
            results[position] = empty(targets[position])
        _add([results[position]._address for position in run.positions], sources, run, destination)
    # What a device does next may write what is still being read.
    for state, receiver in senders:
        state.local.stream.native.wait_stream(receiver.local.stream.native)


def _chain_sum(
    columns: Sequence[Sequence[Tensor]], run: Run, destination: CudaState, senders: dict[Any, None]
) -> Tensor:
    """The sum of the tensors of a run, packed one after another on the destination.

    It goes from the last device through all others, each of which adds its own: so every connection carries it once,
    and different runs are on different connections. Notes in ``senders`` whose tensors are read by which device.
    """
    last = columns[-1]
    state: Any = last[0]._layout.device_state
    if run.alone:
        carried = last[run.positions[0]]
    else:
        carried = _pack(last, run, state)
    for receiver, column in [
        *((each[0]._layout.device_state, each) for each in columns[-2::-1]),
        (destination, None),
    ]:
        there: Any = receiver
        connect((state, there))
        arrived = empty(contiguous[(run.nbytes,), uint8, there])
        _send(arrived, carried, run.nbytes)
        if run.alone and carried is last[run.positions[0]]:
            senders[state, there] = None
        else:
            # It is free before the copy from it is done.
            carried.record_stream(there.local.stream)
        if column is not None:
            start = arrived._address
            results = [start + offset for offset in run.offsets]
            _add(results, [results, [column[position]._address for position in run.positions]], run, there)
        state, carried = there, arrived
    return carried


def _add(results: list[int], sources: list[list[int]], run: Run, state: CudaState) -> None:
    """Write the sums of ``sources`` to the addresses ``results``."""
    handle = state.local.stream.handle
    limit = coalescing.MAX_SOURCES
    taken, rest = sources[:limit], sources[limit:]
    while taken:
        addresses = [address for row in zip(results, *taken, strict=True) for address in row]
        state.plans[_SUM, state, run.real_dtype, len(taken)](handle, addresses, run.counts)
        taken, rest = ([results, *rest[: limit - 1]] if rest else []), rest[limit - 1 :]
