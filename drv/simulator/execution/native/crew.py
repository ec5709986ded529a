"""Batches of one launch on several cores: each thread has a machine of its own, and takes the batch that is next."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from drv.simulator.execution.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.simulator.execution.launch_state import LaunchState

    from .machine import Machine

#: The threads that help, by their number; made when they are first needed, and not there after a fork.
_helpers: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_helpers.clear)


class Crew:
    """Runs the batches of a launch from block ``first`` on.

    Parameters
    ----------
    launch : LaunchState
        The launch. Its blocks have nothing to do with each other, so that batches may run in any order and at once.
    machines : sequence of Machine
        One for each thread, the calling one included, which know the launch.
    first : int
        The first block that has not run.
    """

    def __init__(self, launch: LaunchState, machines: Sequence[Machine], first: int) -> None:
        self._launch = launch
        self._machines = machines
        self._starts = iter(range(first, launch.blocks, launch.batch_blocks))
        self._lock = threading.Lock()
        self._failure: tuple[int, BaseException] | None = None
        self._stopped = False
        self._left: dict[int, Batch] = {}

    def run(self) -> list[Batch]:
        """Run all batches; returns those that native code has not finished, in their order.

        What is raised is what the first of the batches that fail raises, whichever failed first.
        """
        others = self._machines[1:]
        if len(others) not in _helpers:
            _helpers[len(others)] = ThreadPoolExecutor(len(others), "graphroot blocks")
        helping = [_helpers[len(others)].submit(self._work, machine) for machine in others]
        try:
            self._work(self._machines[0])
            wait(helping)
        except BaseException:
            self._stop()
            raise
        finally:
            # Nothing of the launch goes on when this is left, by an interrupt either.
            wait(helping)
        if self._failure is not None:
            raise self._failure[1]
        return [self._left[start] for start in sorted(self._left)]

    def _stop(self) -> None:
        self._stopped = True
        for machine in self._machines:
            machine.interrupted = True

    def _work(self, machine: Machine) -> None:
        launch = self._launch
        while True:
            with self._lock:
                start = None if self._stopped else next(self._starts, None)
            if start is None:
                return
            try:
                batch = Batch(launch, start, min(launch.batch_blocks, launch.blocks - start))
                if not machine.run(batch):
                    self._left[start] = batch
            except Exception as error:
                # Batches before it have all begun, so that the first failure is among those that are known in the end.
                with self._lock:
                    self._stopped = True
                    if self._failure is None or start < self._failure[0]:
                        self._failure = start, error
                return
