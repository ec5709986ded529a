"""Buckets: gradients one after another in one flat tensor, so that one collective reduces many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from tensor.core.base import view_of
from tensor.core.devices.graph_capture import capture_of
from tensor.operations.optimizers.scaled_copies import scaled_copies

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensor import Tensor
    from tensor.cuda import Stream

#: The first bucket is small: it is what the end of a backward pass, or its beginning, waits for.
FIRST_BUCKET_BYTES = 1 << 20


def assign(
    parameters: Sequence[Tensor], limits: Sequence[int], order: Iterable[int] | None = None
) -> list[list[int]]:
    """Put parameters into buckets: the numbers of those of each, in the order in which buckets become full.

    A bucket has parameters of one dtype and device, and takes no more once it has reached its limit.

    Parameters
    ----------
    limits
        Bytes of the first, second, ... bucket of each dtype and device; the last holds for all further ones.
    order
        Numbers of the parameters in the order in which their gradients will be ready; from the last to the first
        unless given, as a backward pass mostly finds them.
    """
    ordered = list(reversed(range(len(parameters))) if order is None else order)
    full: list[tuple[int, list[int]]] = []
    #: By dtype and device: what is being filled, how many bytes it has, and how many buckets are full.
    filling: dict[Any, tuple[list[int], int, int]] = {}
    for position, number in enumerate(ordered):
        layout = parameters[number]._layout
        key = layout.device_state, layout.dtype
        numbers, size, count = filling.pop(key, ([], 0, 0))
        numbers.append(number)
        size += layout.numel * layout.dtype.itemsize
        if size >= limits[min(count, len(limits) - 1)]:
            full.append((position, numbers))
            numbers, size, count = [], 0, count + 1
        filling[key] = numbers, size, count
    positions = {number: position for position, number in enumerate(ordered)}
    full += [(positions[numbers[-1]], numbers) for numbers, _, _ in filling.values() if numbers]
    return [numbers for _, numbers in sorted(full)]


class Bucket:
    """Gradients of some parameters of one dtype and device, one after another.

    Attributes
    ----------
    numbers : list of int
        Of the parameters, among all that are reduced.
    parameters : list of Tensor
        They themselves.
    flat : Tensor
        The gradients one after another, each in the order of its parameter's memory.
    views : list of Tensor
        The gradients as views of ``flat``, shaped as the parameters are.
    pending : int
        Gradients that are missing in this pass.
    """

    __slots__ = (
        "_last",
        "_streams",
        "filled_on",
        "flat",
        "index",
        "local",
        "numbers",
        "parameters",
        "pending",
        "reduction",
        "stream",
        "views",
    )

    def __init__(self, index: int, numbers: Sequence[int], parameters: Sequence[Tensor]) -> None:
        self.index = index
        self.numbers = list(numbers)
        self.parameters = list(parameters)
        first = parameters[0]._layout
        total = sum(each._layout.numel for each in parameters)
        self.flat = tensor.empty(total, dtype=first.dtype, device=first.device)
        self.views: list[Tensor] = []
        start = 0
        for each in parameters:
            layout = each._layout.as_dense()
            self.views.append(view_of(self.flat._storage, layout, start))
            start += layout.numel * layout.dtype.itemsize
        self.pending = len(self.numbers)
        #: What is under way: has ``wait()``.
        self.reduction: Any = None
        state: Any = first.device_state
        #: Knows this thread's current stream on the device; None for the CPU.
        self.local = state.local if state.is_cuda else None
        #: Where the last gradient became ready; and all such streams of this pass, where there are several.
        self.stream: Stream | None = None
        self._streams: list[Stream] = []
        self.filled_on: Stream | None = None
        #: Where the last results were read.
        self._last: Stream | None = None

    def note(self, stream: Stream) -> None:
        """Note that gradients are ready on ``stream``, too."""
        self.stream = stream
        if stream not in self._streams:
            self._streams.append(stream)

    def fill(self, factor: float, *, as_views: Sequence[int] | None = None) -> None:
        """Put ``factor`` times the gradients, zeros for missing ones, in place, on the current stream.

        With ``as_views`` the gradients are views of the bucket from now on: of those parameters at whose number it is
        true. Those of others, which may be unused on all ranks and then stay as they are, leave the bucket.
        """
        self._join_streams()
        targets, sources, missing = [], [], []
        occupied = False
        for number, parameter, view in zip(self.numbers, self.parameters, self.views, strict=True):
            state = parameter._autograd
            gradient = state.grad
            if gradient is None:
                missing.append(view)
                continue
            takes_view = as_views is not None and as_views[number]
            if shows(gradient, view):
                occupied = True
                if as_views is not None and not takes_view:
                    state.grad = gradient.clone()
                if factor == 1:
                    continue
            elif takes_view:
                state.grad = view
            targets.append(view)
            sources.append(gradient)
        if len(missing) > 1 and not occupied:
            # One launch, where the bucket has nothing to keep.
            missing = [self.flat]
        for each in missing:
            each.zero_()
        scaled_copies(targets, sources, factor)

    def _join_streams(self) -> None:
        """Have the current stream wait for all that make the gradients, and for what read the bucket last."""
        if self.local is None:
            return
        here = self.filled_on = self.local.stream
        self.flat.record_stream(here)
        others = [each for each in self._streams if each != here]
        if self._last is not None and self._last != here:
            others.append(self._last)
        capture = capture_of(here.device_state)
        if capture is not None:
            # A replay uses this memory; and a graph does not wait for what was before its capture, a pass that read the
            # bucket on another stream included.
            capture.referenced.append(self.flat)
            others = [each for each in others if each.native.capture is capture.recording]
        for each in others:
            here.wait_stream(each)
        if others:
            for parameter in self.parameters:
                gradient = parameter._autograd.grad
                if gradient is not None:
                    gradient.record_stream(here)
        self.stream = None
        self._streams.clear()

    def read(self) -> None:
        """Note that the current stream reads the results from now on."""
        if self.local is not None:
            self._last = self.local.stream
            self.flat.record_stream(self._last)


def shows(gradient: Tensor, view: Tensor) -> bool:
    """Whether ``gradient`` shows the same memory as ``view``."""
    if gradient is view:
        return True
    same_memory = gradient._storage is view._storage and gradient._offset == view._offset
    return same_memory and gradient._layout is view._layout


class GradBucket:
    """The argument of a communication hook: the gradients of some parameters as one flat tensor.

    They are this rank's own, not yet divided by the number of ranks. :class:`parallel.DistributedDataParallel`
    constructs it.

    Parameters
    ----------
    bucket : Bucket
        The parameters, and views of the flat tensor in their shapes.
    buffer : Tensor
        The gradients, ``(N,)``.
    is_last : bool
        Whether it is the last bucket of the backward pass.
    """

    __slots__ = ("_bucket", "_buffer", "_last")

    def __init__(self, bucket: Bucket, buffer: Tensor, is_last: bool) -> None:
        self._bucket = bucket
        self._buffer = buffer
        self._last = is_last

    def index(self) -> int:
        """Number of the bucket, from 0, in the order in which buckets are reduced."""
        return self._bucket.index

    def buffer(self) -> Tensor:
        """The gradients one after another, ``(N,)``, of one dtype and device.

        Not a copy: what is written to it becomes the gradients. A hook may only use it on the streams that are current when
        it is called.
        """
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the tensor that :meth:`buffer` returns, as with one of another dtype.

        Raises
        ------
        ValueError
            If ``buffer`` has another number of elements.
        """
        if buffer.numel() != self._buffer.numel():
            raise ValueError(
                f"set_buffer() expects {self._buffer.numel()} elements, as the bucket has, got {buffer.numel()}"
            )
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradient of each parameter, as views of :meth:`buffer` in the parameters' shapes and strides.

        A new list, in the order of :meth:`parameters`.
        """
        buffer = self._buffer
        if buffer is self._bucket.flat:
            return list(self._bucket.views)
        slices = buffer.reshape(-1).split([view.numel() for view in self._bucket.views])
        return [
            piece.as_strided(view.shape, view.stride())
            for piece, view in zip(slices, self._bucket.views, strict=True)
        ]

    def parameters(self) -> list[Tensor]:
        """The parameters whose gradients these are, in the order of :meth:`gradients`.

        A new list of the module's own parameters.
        """
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether this is the last bucket of the backward pass."""
        return self._last
