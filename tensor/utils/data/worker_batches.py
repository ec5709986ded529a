"""The batches of one iteration that worker processes read."""

from __future__ import annotations

import time
from collections import Counter, deque
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

from .worker_pool import LIFE_CHECK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .pinning import Pinner
    from .worker_pool import WorkerPool
    from .workers import Reply

_NO_MORE = object()


class WorkerBatches:
    """An iterator. Tasks go to the workers in turn, as many ahead as are prefetched.

    Batches come back in the order of the tasks, or with ``in_order=False`` as they are ready. An error ends the
    iteration, and with it the workers, unless they persist and are sound.
    """

    def __init__(
        self,
        pool: WorkerPool,
        keys: Iterator[Any],
        *,
        pinner: Pinner | None,
        timeout: float,
        in_order: bool,
        closing: bool,
    ) -> None:
        self._over = False
        self._pool = pool
        self._keys = keys
        self._pinner = pinner
        self._timeout = timeout
        self._in_order = in_order
        self._closing = closing
        self._sent = 0
        self._turn = 0
        #: Tasks to which no reply came yet, and the workers that have them.
        self._asked: dict[int, int] = {}
        self._arrived: dict[int, Reply] = {}
        #: What gives the next batches, in their order.
        self._ahead: deque[Callable[[], Any]] = deque()
        #: Workers whose datasets have not ended.
        self._reading = set(range(pool.count))
        self._cycle = cycle(range(pool.count))
        try:
            self._number = pool.begin()
            self._ask()
        except BaseException:
            self._end(broken=True)
            raise

    def __iter__(self) -> WorkerBatches:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        if self._pool.epoch_number != self._number:
            self._end(closing=False)
            raise RuntimeError(
                "this iteration has ended because another one of the same DataLoader began: with persistent_workers "
                "only one can go on at a time"
            )
        try:
            batch = self._take()
        except StopIteration:
            self._end()
            raise
        except BaseException:
            self._end(broken=True)
            raise
        try:
            return batch()
        except BaseException:
            self._end()
            raise

    def __del__(self) -> None:
        if not getattr(self, "_over", True):
            self._end()

    def _end(self, *, broken: bool = False, closing: bool | None = None) -> None:
        self._over = True
        self._ahead.clear()
        if self._pinner is not None:
            self._pinner.close()
        if broken or (self._closing if closing is None else closing):
            self._pool.close()

    def _take(self) -> Callable[[], Any]:
        """What gives the next batch. Raises ``StopIteration`` where there is none."""
        deadline = time.monotonic() + self._timeout if self._timeout else None
        self._collect(0)
        while not self._ahead:
            if not self._asked:
                raise StopIteration
            left = LIFE_CHECK if deadline is None else deadline - time.monotonic()
            self._collect(min(LIFE_CHECK, max(left, 0)))
            if not self._ahead and left <= 0:
                raise RuntimeError(
                    f"DataLoader timed out after {self._timeout} seconds: no worker sent the batch in time"
                )
        batch = self._ahead.popleft()
        self._ask()
        return batch

    def _ask(self) -> None:
        """Give out tasks, as many as are prefetched."""
        while len(self._asked) + len(self._arrived) + len(self._ahead) < self._pool.prefetch * len(
            self._reading
        ):
            keys = next(self._keys, _NO_MORE)
            if keys is _NO_MORE:
                return
            worker = self._next_worker()
            self._asked[self._sent] = worker
            self._pool.ask(worker, self._sent, keys)
            self._sent += 1

    def _next_worker(self) -> int:
        if self._in_order:
            return next(worker for worker in self._cycle if worker in self._reading)
        loads = Counter(self._asked.values())
        return min(self._reading, key=lambda worker: (loads[worker], worker))

    def _collect(self, seconds: float) -> None:
        """Take what the workers sent, and hand it on in order; wait for it up to ``seconds``."""
        for reply in self._pool.receive(seconds):
            worker = self._asked.pop(reply.index)
            if reply.packed is None and reply.failure is None:
                self._reading.discard(worker)
            else:
                self._arrived[reply.index] = reply
        self._ask()
        while self._arrived or self._turn < self._sent:
            index = self._turn if self._in_order else next(iter(self._arrived), self._turn)
            if index in self._arrived:
                self._hand_on(self._arrived.pop(index))
            elif index in self._asked or not self._in_order:
                return
            self._turn += 1

    def _hand_on(self, reply: Reply) -> None:
        make = partial(self._pool.workers.unpacked, reply)
        self._ahead.append(make if self._pinner is None else self._pinner.submit(make).result)
