"""Backward passes inside backward passes: each level knows its pass, and no depth is too great."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import drv
from tensor.autograd.recording import anomaly, saved
from tensor.core.devices.state import cuda_state
from tensor.core.modes.grad_mode import modes

if TYPE_CHECKING:
    from collections.abc import Callable

    from .engine import GraphTask

#: Passes inside each other that share a thread: each of them takes about a dozen of Python's frames.
MAX_DEPTH = 30


class _Current(threading.local):
    """Of one thread: the innermost pass that runs, and how many there are."""

    task: Any = None
    depth = 0


current = _Current()


def run_nested(task: GraphTask, create_graph: bool) -> None:
    """Run ``task`` in this thread; in a new one where passes are nested deeply."""
    if current.depth >= MAX_DEPTH:
        _in_new_thread(partial(_run, task, create_graph))
    else:
        _run(task, create_graph)


def _run(task: GraphTask, create_graph: bool) -> None:
    recording, autocast, outer = modes.recording, modes.autocast, current.task
    # Derivatives compute in the types of the forward pass.
    modes.recording, modes.autocast, current.task = create_graph, None, task
    current.depth += 1
    try:
        task.run()
    finally:
        current.depth -= 1
        modes.recording, modes.autocast, current.task = recording, autocast, outer


def _in_new_thread(function: Callable[[], None]) -> None:
    """Call ``function`` where modes and streams are as here, and the stack is empty."""
    state = _thread_state()
    failure: list[BaseException] = []

    def work() -> None:
        try:
            for local, values in state:
                for name, value in values.items():
                    setattr(local, name, value)
            function()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="nested backward pass")
    thread.start()
    thread.join()
    if failure:
        try:
            raise failure.pop()
        finally:
            # The traceback refers to this frame.
            del failure


def _thread_state() -> list[tuple[Any, dict[str, Any]]]:
    """What this thread has set: objects that differ from thread to thread, and their values."""
    state: list[tuple[Any, dict[str, Any]]] = [
        (modes, {"recording": modes.recording, "inference": modes.inference}),
        (saved.hooks, {"stack": saved.hooks.stack, "disabled": saved.hooks.disabled}),
        (anomaly.running, {"node": anomaly.running.node}),
    ]
    if drv.is_initialized():
        runtime = drv.runtime()
        for ordinal in range(drv.device_count()):
            local = cuda_state(ordinal).local
            if local.stream is not local.default:
                state.append((local, {"stream": local.stream}))
        state.append((runtime.current, {"selected": runtime.current.selected}))
    return state
