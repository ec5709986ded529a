"""What modules under one root share: streams, the order of passes, and the reduction under way."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensor
from tensor.autograd.engine.engine import pass_number, queue_callback
from tensor.cuda import Stream, StreamContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .parameter_group import ParameterGroup, Reduction
    from .sharded_module import ShardedModule


class Schedule:
    """The passes through the modules under one root.

    Attributes
    ----------
    states : list of ShardedModule
        Of the root and the modules below it, in the order of ``modules()``.
    order : list of ParameterGroup
        In the order in which forward passes that have had no backward pass yet have used them.
    reads_host : bool
        Whether shards on the CPU are copied to the device.
    """

    def __init__(self, states: list[ShardedModule], device: tensor.device) -> None:
        self.states = states
        self.order: list[ParameterGroup] = []
        #: What followed each group in the last forward pass.
        self._next: dict[int, ParameterGroup] = {}
        self._last: ParameterGroup | None = None
        self._in_backward = False
        self._reduction: Reduction | None = None
        self._device = device
        #: Modules whose forward passes run, from the outermost one.
        self._active: list[ShardedModule] = []
        #: Where shards are packed and gathered; behind the last copy out of what was gathered, so that there is not more
        #: than one gathered group in addition to that.
        self._gathering: Stream | None = None
        self._copied_out: Any = None
        self.reads_host = False
        self._copies_to_host: list[Any] = []

    @property
    def in_backward(self) -> bool:
        """Whether a backward pass through the modules runs in this thread, as when a checkpoint runs a forward pass."""
        return self._in_backward and pass_number() >= 0

    # Gathering

    @contextlib.contextmanager
    def gathering(self, *, behind_current: bool) -> Iterator[None]:
        """A block in which the stream is current on which shards are packed and gathered."""
        if self._device.type != "cuda":
            yield
            return
        if self._gathering is None:
            self._gathering = Stream(self._device)
            behind_current = True
        stream = self._gathering
        if behind_current:
            stream.wait_stream(tensor.cuda.current_stream(self._device))
        if self._copied_out is not None:
            stream.wait_event(self._copied_out)
        with StreamContext(stream):
            yield

    def note_copied_out(self, whole: tensor.Tensor) -> None:
        """Note that the current stream has queued the last use of a gathered tensor."""
        if self._device.type == "cuda":
            current = tensor.cuda.current_stream(self._device)
            whole.record_stream(current)
            self._copied_out = current.record_event()

    # Forward passes

    def begin_forward(self, state: ShardedModule) -> None:
        """Begin a forward pass through a module. For the outermost one what the current stream holds has set the shards."""
        if state is self.states[0]:
            self._active.clear()
        if self._active:
            self._active.append(state)
            return
        self._active.append(state)
        if self._in_backward:
            # The last backward pass raised.
            self._in_backward = False
            self._reduction = None
            self.order.clear()
            for each in self.states:
                for group in each.groups:
                    group.forget_gradients()
                    group.reshard()
        elif self.order:
            # No backward pass came after the last forward pass, so the optimizer may have stepped for other reasons.
            for each in self.states:
                each.reshard()
        self._last = None
        if self._gathering is not None:
            self._gathering.wait_stream(tensor.cuda.current_stream(self._device))

    def end_forward(self, state: ShardedModule) -> None:
        """End a forward pass through a module. After the outermost one, what was gathered ahead and not used is given back."""
        while self._active and self._active.pop() is not state:
            pass
        if not self._active:
            for each in self.states:
                for group in each.groups:
                    if group.is_under_way:
                        group.reshard()

    def note_use(self, group: ParameterGroup) -> ParameterGroup | None:
        """Note that the forward pass uses ``group``; the one that followed it in the last pass."""
        following = self._next.get(id(group))
        if self._last is not None:
            self._next[id(self._last)] = group
        self._last = group
        return following

    # Backward passes

    def begin_backward(self) -> None:
        """Note that a backward pass has come to one of the modules."""
        if not self.in_backward:
            self._in_backward = True
            queue_callback(self._end_backward, outermost=True)

    def before(self, group: ParameterGroup) -> ParameterGroup | None:
        """The group that the forward pass used before ``group``, whose backward pass begins."""
        for position in range(len(self.order) - 1, -1, -1):
            if self.order[position] is group:
                del self.order[position:]
                return self.order[-1] if self.order else None
        return None

    def reduce(self, reduction: Reduction) -> None:
        """Have a reduction under way; the one before it is waited for."""
        self.finish_reduction()
        self._reduction = reduction
        reduction.begin()

    def finish_reduction(self) -> None:
        """Wait for the reduction that is under way, and set the gradients of the shards."""
        reduction, self._reduction = self._reduction, None
        if reduction is not None:
            reduction.finish()

    def note_copy_to_host(self, copied: Any) -> None:
        """Note an event behind the copy of gradients to the CPU."""
        self._copies_to_host.append(copied)

    def _await_host(self) -> None:
        """Wait until gradients on the CPU are there, and nothing reads shards there that the optimizer is about to set."""
        for copied in self._copies_to_host:
            copied.synchronize()
        self._copies_to_host.clear()
        if self.reads_host and self._gathering is not None:
            self._gathering.synchronize()

    def _end_backward(self) -> None:
        with tensor.no_grad():
            for state in reversed(self.states):
                state.after_backward(at_end=True)
            self.finish_reduction()
        self._await_host()
        self.order.clear()
        self._in_backward = False
