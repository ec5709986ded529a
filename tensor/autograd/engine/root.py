"""``GraphRoot``: where a backward pass starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.devices.stream import Stream
    from tensor.methods.tensor import Tensor


class GraphRoot:
    """The initial gradients of a backward pass, and the streams that they are ready on.

    When it is made it is tied to the caller's current streams on the devices of the gradients. So a gradient
    that the caller made, and the first operation that uses it, are ordered as any two operations of the
    caller are: ``with cuda.stream(s): loss.backward()`` is safe.

    Attributes
    ----------
    edges : list
        Where each gradient goes.
    gradients : list of Tensor
        The gradients.
    streams : list of Stream or None
        The stream that each is ready on; ``None`` on the CPU.
    """

    __slots__ = ("edges", "gradients", "streams")

    def __init__(self, edges: Sequence[Any], gradients: Sequence[Tensor]) -> None:
        self.edges = list(edges)
        self.gradients = list(gradients)
        self.streams = list(map(self.stream_of, gradients))

    @staticmethod
    def stream_of(gradient: Tensor) -> Stream | None:
        """The caller's current stream on the gradient's device."""
        device_state = gradient._layout.device_state
        return device_state.local.stream if device_state.is_cuda else None
