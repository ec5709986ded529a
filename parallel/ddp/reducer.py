"""``Reducer``: averages gradients between ranks while the backward pass that computes them still runs.

A hook on each parameter notes when its gradient is ready. Once all gradients of a bucket, and of all buckets before it,
are ready, its reduction begins: the order of reductions is the same on all ranks, whatever the order of gradients is.
The end of the pass waits for the results, which become the parameters' gradients.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import tensor
from tensor import Tensor
from tensor.autograd.engine.engine import queue_callback, will_execute
from tensor.core.warning import caller_stacklevel
from tensor.cuda import StreamContext
from tensor.operations.optimizers.scaled_copies import scaled_copies

from .buckets import Bucket, GradBucket, assign, shows
from .unused_parameters import UsedParameters, node_of, not_reached

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.groups.futures import Future
    from tensor.autograd.recording.node_hooks import RemovableHandle

    Hook = Callable[[Any, GradBucket], Future[Any]]

_MARKED_TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module "
    "parameter outside the `forward` function. Please make sure model parameters are not shared across multiple "
    "concurrent forward-backward passes, or use static_graph=True if the graph does not change during training. 2) Reused "
    "parameters in multiple reentrant backward passes, for example several `checkpoint` functions that wrap the same part of "
    "the model: use checkpoint(..., use_reentrant=False), or static_graph=True if the graph does not change. 3) A "
    "parameter that find_unused_parameters=True did not find in the graph of the outputs, and that got a gradient all the "
    "same."
)


class Reducer:
    """Averages the gradients of ``parameters`` between the ranks of a group.

    Parameters
    ----------
    parameters
        Leaves that require gradients, in the same order on all ranks.
    names
        Names of the parameters, for messages.
    collectives
        The group's operations: ``all_reduce(tensor)`` (a sum) and ``broadcast(tensor)`` (from rank 0) begin in place
        and return an object with ``wait()``; also ``rank`` and ``size``.
    limits
        Bytes of the first, second, ... bucket, see :func:`parallel.ddp.buckets.assign`.
    find_unused_parameters
        Whether parameters may be missing in the graph of the outputs.
    gradient_as_bucket_view
        Whether gradients are views of the buckets instead of copies.
    static_graph
        Whether each pass runs through the same graph; then parameters may be unused, or get several gradients.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        collectives: Any,
        limits: Sequence[int],
        *,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        self.parameters = list(parameters)
        self.names = list(names)
        self.collectives = collectives
        self.limits = tuple(limits)
        self.find_unused = find_unused_parameters and not static_graph
        self.as_view = gradient_as_bucket_view
        self.static_graph = static_graph
        #: Divisor of the gradients; a function if it is known later.
        self.divisor: int | Callable[[], int] = collectives.size
        self.hook: tuple[Any, Hook] | None = None
        count = len(self.parameters)
        #: Whether the gradients of the next pass are to be reduced; whether they are being; whether they were.
        self.expected = self.running = self.reduced = False
        self._warned = False
        self._next = 0
        self._factor = 1.0
        self._ready = bytearray(count)
        self._unused: list[int] = []
        self.used = UsedParameters(
            count, self.parameters[0].device, asks=self.find_unused or static_graph, keeps=static_graph
        )
        #: In a static graph: how many gradients each parameter gets in a pass, and how many are missing.
        self._gradients: list[int] | None = None
        self._missing: list[int] = []
        #: Order in which gradients became ready in the first pass that was reduced.
        self._order: dict[int, None] = {}
        self.rebuilt = False
        self.buckets: list[Bucket] = []
        self._bucket_of: list[Bucket] = []
        self._make_buckets(assign(self.parameters, self.limits))
        self._handles: list[RemovableHandle] = [
            parameter.register_post_accumulate_grad_hook(_arrival(weakref.ref(self), number))
            for number, parameter in enumerate(self.parameters)
        ]

    def __del__(self) -> None:
        for handle in getattr(self, "_handles", ()):
            handle.remove()

    def _make_buckets(self, assignment: Sequence[Sequence[int]]) -> None:
        self.buckets = [
            Bucket(index, numbers, [self.parameters[number] for number in numbers])
            for index, numbers in enumerate(assignment)
        ]
        by_number = {number: bucket for bucket in self.buckets for number in bucket.numbers}
        self._bucket_of = [by_number[number] for number in range(len(self.parameters))]

    def set_static_graph(self) -> None:
        """As with ``static_graph``; before the first pass."""
        self.static_graph, self.find_unused = True, False
        self.used = UsedParameters(len(self.parameters), self.parameters[0].device, asks=True, keeps=True)

    # Around the forward pass

    def rebuild(self) -> bool:
        """Rebuild the buckets in the order in which gradients became ready in the first pass of rank 0.

        Every rank calls this before each forward pass; the first time after a reduction it is a collective.

        Returns
        -------
        bool
            Whether the buckets were rebuilt.
        """
        if tensor.cuda.is_current_stream_capturing():
            # It waits for the order that rank 0 has seen. On all ranks alike.
            return False
        if self.rebuilt or self.find_unused or len(self._order) != len(self.parameters) or self.running:
            return False
        self.rebuilt = True
        device = self.parameters[0].device
        order = tensor.tensor(list(self._order), dtype=tensor.int64, device=device)
        self.collectives.broadcast(order).wait()
        self._order.clear()
        assignment = assign(self.parameters, self.limits, order.tolist())
        if assignment != [bucket.numbers for bucket in self.buckets]:
            self._make_buckets(assignment)
            if self.as_view:
                self._use_views()
        return True

    def _use_views(self) -> None:
        """Replace the gradients that exist by views of the buckets."""
        for bucket in self.buckets:
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                gradient = parameter._autograd.grad
                if gradient is not None:
                    scaled_copies([view], [gradient])
                    parameter._autograd.grad = view
            bucket.read()

    def prepare(self, outputs: Any) -> None:
        """Prepare to reduce the gradients of the next backward pass, which begins at ``outputs``.

        Raises
        ------
        RuntimeError
            If the reduction of an earlier pass is not complete.
        """
        self.check_finished()
        self.expected, self.reduced = True, False
        self._next = 0
        count = len(self.parameters)
        self._ready = bytearray(count)
        for bucket in self.buckets:
            bucket.pending = len(bucket.numbers)
        if self._gradients is not None:
            self._missing = list(self._gradients)
            self._unused = [number for number in range(count) if not self._gradients[number]]
        elif self.find_unused:
            self._unused = not_reached(outputs, self.parameters)
        if not self.rebuilt:
            self._order.clear()

    def skip(self) -> None:
        """Do not reduce the gradients of the next backward pass, unless an earlier forward pass has asked for it."""
        self.reduced = False

    def check_finished(self) -> None:
        """Raise RuntimeError if the reduction of the last pass has begun and is not complete."""
        if not self.running:
            return
        missing = [
            f"{name} (number {number})" for number, name in enumerate(self.names) if not self._ready[number]
        ]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates "
            "that your module has parameters that were not used in producing loss, or that the backward pass raised an "
            "exception. You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to `parallel.DistributedDataParallel`, and by making sure all `forward` function "
            "outputs participate in calculating loss. If you already have done the above, then it wasn't able to locate the "
            "output tensors in the return value of your module's `forward` function: tensors in tuples, lists, dicts and "
            f"dataclasses are found. Parameters which did not receive grad for rank {self.collectives.rank}: "
            f"{', '.join(missing) or 'none'}"
        )

    # In the backward pass

    def arrive(self, number: int) -> None:
        """Note that a gradient of parameter ``number`` was computed."""
        self.used.here[number] = 1
        if not self.expected:
            if self.reduced:
                self._warn()
            return
        if not self.running:
            self._begin()
        bucket = self._bucket_of[number]
        if bucket.local is not None and bucket.local.stream is not bucket.stream:
            bucket.note(bucket.local.stream)
        if self.static_graph:
            if self._gradients is None:
                self._missing[number] += 1
                # The last of several gradients counts.
                self._order.pop(number, None)
                self._order[number] = None
                return
            self._missing[number] -= 1
            if self._missing[number] > 0:
                return
        self._mark(number)

    def _begin(self) -> None:
        self.running = True
        divisor = self.divisor if isinstance(self.divisor, int) else self.divisor()
        self._factor = 1.0 if self.hook is not None else 1 / divisor
        if self.static_graph and self._gradients is None:
            self._missing = [0] * len(self.parameters)
            queue_callback(self._first_of_static_graph, outermost=True)
            return
        queue_callback(self._mark_without_gradients, outermost=True)
        for number in self._unused:
            self._mark(number)

    def _mark(self, number: int) -> None:
        """Note that the gradient of parameter ``number`` is complete in this pass."""
        if self._ready[number]:
            raise RuntimeError(
                f"{_MARKED_TWICE} Parameter at index {number} with name {self.names[number]} has been marked as ready twice."
            )
        self._ready[number] = 1
        if not self.rebuilt and not self.static_graph:
            self._order[number] = None
        bucket = self._bucket_of[number]
        bucket.pending -= 1
        if not bucket.pending:
            with tensor.no_grad():
                bucket.fill(self._factor, as_views=self.used.here if self.as_view else None)
                self._launch()

    def _launch(self) -> None:
        """Launch the reductions of all buckets that are complete, in order."""
        buckets = self.buckets
        while self._next < len(buckets) and not buckets[self._next].pending:
            bucket = buckets[self._next]
            self._next += 1
            with _stream(bucket):
                bucket.reduction = self._reduce(bucket, bucket.flat)
        if self._next == len(buckets):
            self.used.tell(self.collectives.all_reduce)
            queue_callback(self._finish, outermost=True)

    def _reduce(self, bucket: Bucket, flat: Tensor) -> Any:
        """Launch the reduction of ``flat``, the contents of ``bucket``."""
        if self.hook is None:
            return self.collectives.all_reduce(flat)
        state, hook = self.hook
        future = hook(state, GradBucket(bucket, flat, bucket.index == len(self.buckets) - 1))
        if not hasattr(future, "wait"):
            raise TypeError(
                f"the communication hook '{getattr(hook, '__name__', hook)}' returned {type(future).__name__}: expected a "
                "Future of the reduced tensor, such as parallel.all_reduce(..., async_op=True).get_future()"
            )
        return future

    # At its end

    def _mark_without_gradients(self) -> None:
        """Mark parameters that the pass reached without a gradient: a Function may return None."""
        if not self.running:
            return
        for number, parameter in enumerate(self.parameters):
            if not self._ready[number]:
                node = node_of(parameter)
                if node is not None and will_execute(node):
                    self._mark(number)

    def _first_of_static_graph(self) -> None:
        """Reduce all gradients of the first pass, in which their number becomes known."""
        self._gradients = list(self._missing)
        unused = [number for number, count in enumerate(self._gradients) if not count]
        self._order = dict.fromkeys([*unused, *self._order])
        for number in range(len(self.parameters)):
            self._mark(number)

    def _finish(self) -> None:
        """Wait for the reductions, and set the parameters' gradients."""
        self.expected = False
        with tensor.no_grad():
            for bucket in self.buckets:
                reduction, bucket.reduction = bucket.reduction, None
                self._receive(bucket, reduction)
                self._deliver(bucket)
                bucket.read()
        self.used.end()
        self.running, self.reduced = False, True

    def _receive(self, bucket: Bucket, reduction: Any) -> None:
        """Wait until ``bucket`` has the results."""
        if self.hook is None:
            reduction.wait()
            return
        result = _result(reduction, bucket)
        if result._storage is not bucket.flat._storage or result._offset != bucket.flat._offset:
            bucket.flat.copy_(result.reshape(-1))

    def _deliver(self, bucket: Bucket) -> None:
        """Set the gradients of parameters to the contents of their bucket."""
        targets, sources = [], []
        for number, parameter, view in zip(bucket.numbers, bucket.parameters, bucket.views, strict=True):
            state = parameter._autograd
            gradient = state.grad
            if gradient is not None and shows(gradient, view):
                continue
            if not self.used.anywhere(number):
                continue
            if self.as_view:
                state.grad = view
                continue
            if gradient is None:
                gradient = state.grad = tensor.empty_like(view)
            targets.append(gradient)
            sources.append(view)
        scaled_copies(targets, sources)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                "a backward pass of a DistributedDataParallel module computed gradients that are not averaged between the "
                "ranks: those of its last forward pass have been already. Call forward() again before each backward(), or "
                "sum the losses of several forward passes and call backward() once",
                stacklevel=caller_stacklevel(),
            )

    # For ranks without inputs of their own

    def shadow(self) -> None:
        """Take part in the reductions of the others' backward pass, with gradients that are zero."""
        with tensor.no_grad():
            reductions = []
            for bucket in self.buckets:
                zeros = tensor.zeros_like(bucket.flat)
                reductions.append((bucket, self._reduce(bucket, zeros), zeros))
            self.used.tell_none(self.collectives.all_reduce)
            for bucket, reduction, _ in reductions:
                if self.hook is None:
                    reduction.wait()
                else:
                    _result(reduction, bucket)
        if not self.rebuilt and not self._order:
            # What is broadcast is the order of rank 0; if that is this one, it is the order that there is.
            self._order = dict.fromkeys(number for bucket in self.buckets for number in bucket.numbers)


def _arrival(reducer: weakref.ref[Reducer], number: int) -> Callable[[Tensor], None]:
    """The hook of a parameter; it does not keep the reducer alive."""

    def hook(_: Tensor) -> None:
        alive = reducer()
        if alive is not None:
            alive.arrive(number)

    return hook


def _stream(bucket: Bucket) -> contextlib.AbstractContextManager[Any]:
    """The stream on which a bucket was filled is current."""
    return contextlib.nullcontext() if bucket.filled_on is None else StreamContext(bucket.filled_on)


def _result(future: Any, bucket: Bucket) -> Tensor:
    """The result of a communication hook's future."""
    result = future.wait()
    if isinstance(result, (list, tuple)) and len(result) == 1:
        result = result[0]
    if not isinstance(result, Tensor) or result.numel() != bucket.flat.numel():
        description = (
            f"a tensor of shape {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        )
        raise TypeError(
            f"the future of a communication hook gave {description} for bucket {bucket.index}: expected a tensor with its "
            f"{bucket.flat.numel()} elements"
        )
    return result
