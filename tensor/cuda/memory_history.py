"""What the allocators did, with Python stacks, and what they hold: PyTorch's memory snapshots."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import drv
from drv.allocators import AllocatorOptions, History
from tensor.core.devices.state import cuda_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from drv.allocators.history import Frames
    from tensor.core.devices.state import CudaState

Enabled = Literal["state", "all"]
Context = Literal["state", "alloc", "all"]
_ACTIONS = frozenset(
    (
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "oom",
        "snapshot",
    )
)


class Recording(History):
    """The history of one device's allocator, behind what an earlier recording kept.

    Parameters
    ----------
    earlier : list of dict
        Entries to go before this recording's.
    skip_actions : iterable of str
        Actions to leave out.
    """

    def __init__(
        self,
        *,
        trace: bool,
        context: Context | None,
        max_entries: int,
        earlier: list[dict[str, Any]],
        skip_actions: Iterable[str] = (),
    ) -> None:
        super().__init__(trace=trace, context=context, max_entries=max_entries)
        self._earlier = earlier
        self._max_entries = max(max_entries, 1)
        self._skipped = frozenset(skip_actions)

    def record(self, action: str, address: int, size: int, stream: int, frames: Frames | None) -> None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        if action not in self._skipped:
            super().record(action, address, size, stream, frames)

    def trace(self) -> list[dict[str, Any]]:
        """The latest actions, the earliest first."""
        return (self._earlier + super().trace())[-self._max_entries :]


def _record_memory_history(
    enabled: Enabled | bool | None = "all",
    context: Context | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
    skip_actions: Iterable[str] | None = None,
) -> None:
    """Keep what the allocators of all devices do from now on, for :func:`_snapshot`.

    Parameters
    ----------
    enabled
        ``"all"`` (or True) keeps actions and the stacks of live blocks, ``"state"`` only the latter;
        ``None`` (or False) ends recording and forgets.
    context
        For what to keep Python stacks: ``None``, nothing; ``"state"``, live blocks; ``"alloc"``, also
        allocations; ``"all"``, also frees.
    stacks
        ``"python"`` or ``"all"``, which are the same: there are no C++ frames.
    max_entries : int
        How many actions to keep per device, the latest.
    device
        Not used, as in PyTorch.
    clear_history : bool
        Whether to forget what an earlier call kept.
    skip_actions
        Actions not to keep: ``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``,
        ``segment_free``, ``segment_map``, ``segment_unmap``, ``oom``, ``snapshot``.

    Raises
    ------
    ValueError
        For an argument that is none of those.
    """
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    _check("enabled", enabled, (None, *get_args(Enabled)))
    _check("context", context, (None, *get_args(Context)))
    _check("stacks", stacks, ("python", "all"))
    skipped = frozenset(skip_actions or ())
    for action in skipped:
        _check("skip_actions", action, sorted(_ACTIONS))
    for device_state in _states(choose=enabled is not None):
        recordings = _recordings(device_state)
        before = recordings.pop(device_state.ordinal, None)
        if enabled is None:
            device_state.allocator.observe(None)
            continue
        recordings[device_state.ordinal] = result = Recording(
            trace=enabled == "all",
            context=context,
            max_entries=max_entries,
            earlier=[] if before is None or clear_history else before.trace(),
            skip_actions=skipped,
        )
        device_state.allocator.observe(result)


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Segments that the allocators of all devices hold, with their blocks, sizes in bytes.

    ``mempool_id`` chooses those of one pool: :attr:`MemPool.id`, or what :meth:`CUDAGraph.pool` returns; (0, 0) is memory
    that is in none.

    Each has ``device``, ``address``, ``total_size``, ``allocated_size``, ``active_size``, ``requested_size``,
    ``stream``, ``segment_type``, ``segment_pool_id`` and ``blocks``; a block ``address``, ``size``, ``requested_size``, ``state``
    (``active_allocated``, ``active_pending_free`` or ``inactive``) and ``frames``, the Python stack of its
    allocation where history was recorded.
    """
    segments = [segment for device_state in _states() for segment in device_state.allocator.snapshot()]
    return [each for each in segments if mempool_id in (None, tuple(each["segment_pool_id"]))]


def _snapshot(device: Any = None) -> dict[str, Any]:
    """What :func:`memory_snapshot` tells, and the recorded actions.

    Returns
    -------
    dict
        ``segments``; ``device_traces``, one list of actions per device; ``allocator_settings``. ``device`` is
        not used, as in PyTorch: the snapshot is of all devices.
    """
    segments = memory_snapshot()
    traces = []
    for device_state in _states():
        recording = _recordings(device_state).get(device_state.ordinal)
        traces.append([] if recording is None else recording.trace())
    settings = dataclasses.asdict(AllocatorOptions.from_environment())
    return {"segments": segments, "device_traces": traces, "allocator_settings": settings}


def _dump_snapshot(filename: str = "dump_snapshot.json") -> None:
    """Write :func:`_snapshot` to the file ``filename``, as JSON: reading it runs no code, as a pickle might.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    import json  # only for what is written

    Path(filename).write_text(json.dumps(_snapshot()), encoding="utf-8")


def _states(*, choose: bool = False) -> Iterator[CudaState]:
    """Those of all devices; none as long as no driver was chosen, unless one is to be chosen now."""
    if choose or drv.is_initialized():
        for ordinal in range(len(drv.runtime().devices)):
            yield cuda_state(ordinal)


def _recordings(device_state: CudaState) -> dict[int, Recording]:
    return device_state.runtime.cache("memory recordings", dict)


def _check(argument: str, value: Any, expected: Iterable[Any]) -> None:
    if value not in expected:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, expected))}, got {value!r}")
