"""Which parameters a pass uses: on this rank, as the graph says, and on any rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
import tensor
from tensor import Tensor
from tensor.autograd.recording.node import edge_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tensor.autograd.graph import Node

    #: Begins to sum a tensor over the ranks; what it returns has ``wait()``.
    AllReduce = Callable[[Tensor], Any]


class UsedParameters:
    """Which parameters got a gradient since the last reduction.

    Attributes
    ----------
    here : bytearray
        By number, whether this rank computed a gradient.
    """

    __slots__ = ("_anywhere", "_device", "_keeps", "_sum", "_work", "asks", "here")

    def __init__(self, count: int, device: tensor.device, *, asks: bool, keeps: bool) -> None:
        """``asks``: whether ranks tell each other what they used; ``keeps``: whether they do so only once."""
        self.here = bytearray(count)
        self.asks = asks
        self._device = device
        self._keeps = keeps
        self._anywhere: list[int] | None = None
        self._sum: Tensor | None = None
        self._work: Any = None

    def tell(self, all_reduce: AllReduce) -> None:
        """Launch the exchange with the other ranks, if there is one."""
        if self.asks and self._anywhere is None:
            if tensor.cuda.is_current_stream_capturing():
                raise drv.CaptureError(
                    "DistributedDataParallel asks in each pass which parameters the ranks have used, and a stream is captured "
                    "into a CUDA graph, which the answer would have to be read from: use static_graph=True, with a step "
                    "before the capture, instead of find_unused_parameters=True"
                )
            self._sum = tensor.tensor(list(self.here), dtype=tensor.int32, device=self._device)
            self._work = all_reduce(self._sum)

    def tell_none(self, all_reduce: AllReduce) -> None:
        """As :meth:`tell` and :meth:`end`, on a rank without inputs, which uses none."""
        used, self.here = self.here, bytearray(len(self.here))
        self.tell(all_reduce)
        self.end()
        self.here = used

    def anywhere(self, number: int) -> bool:
        """Whether the parameter got a gradient on any rank; waits for the others only if this one has none."""
        if self.here[number] or not self.asks:
            return True
        if self._anywhere is None:
            self._read()
        return bool(self._anywhere and self._anywhere[number])

    def _read(self) -> None:
        if self._sum is not None:
            self._work.wait()
            self._anywhere = self._sum.tolist()

    def end(self) -> None:
        """End a pass."""
        if self._keeps:
            if self._anywhere is None:
                self._read()
        else:
            self._anywhere = None
        if self._work is not None:
            # The operation has to be over before its tensor goes.
            self._work.wait()
        self._sum = self._work = None
        self.here = bytearray(len(self.here))


def not_reached(outputs: Any, parameters: Sequence[Tensor]) -> list[int]:
    """Numbers of the parameters that the graph of ``outputs`` does not reach."""
    waiting = [edge[0] for each in tensors_in(outputs) if (edge := edge_of(each)) is not None]
    seen: set[Node] = set(waiting)
    while waiting:
        for edge in waiting.pop().next:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                waiting.append(edge[0])
    return [number for number, parameter in enumerate(parameters) if node_of(parameter) not in seen]


def node_of(parameter: Tensor) -> Node | None:
    """The node that accumulates the gradient of ``parameter``; None if it is in no graph."""
    accumulator = parameter._autograd.accumulator
    node: Node | None = None if accumulator is None else accumulator()
    return node


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists, dicts and dataclasses."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, (list, tuple)):
            waiting.extend(each)
        elif hasattr(type(each), "__dataclass_fields__"):
            waiting.extend(getattr(each, name) for name in type(each).__dataclass_fields__)
