"""Recording operations that work on several CUDA devices, such as copies between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase

from .node import attach
from .recorder import BackwardFormula, OperationNode, mask_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.devices.stream import Stream
    from tensor.methods.tensor import Tensor

    from .recorder import Mask


class DevicesNode(OperationNode):
    """A recorded operation on several devices: it runs on a stream of each.

    Attributes
    ----------
    used_streams : tuple of Stream
        Those that were current in the forward pass: first those of the outputs' devices.
    """

    __slots__ = ("used_streams",)

    used_streams: tuple[Stream, ...]

    def streams(self) -> tuple[Stream, ...]:
        """The current one of each device in the forward pass."""
        return self.used_streams


class DevicesFormula(BackwardFormula):
    """How an operation is run backward that works on several devices: on the current stream of each.

    Gradients of outputs that none has reached are ``None``.
    """

    __slots__ = ()

    def record(
        self,
        outputs: Sequence[Tensor],
        inputs: Sequence[Any],
        others: Sequence[Any] = (),
        context: tuple[Any, ...] = (),
        mask: Mask | None = None,
    ) -> None:
        """See :meth:`.BackwardFormula.record`."""
        if mask is None:
            mask = mask_of(inputs)
        dtype = outputs[0]._layout.dtype
        if mask is not None and (dtype.is_floating_point or dtype.is_complex):
            attach(self.node(mask, (*inputs, *others), outputs, context), inputs, outputs)

    def node(  # type: ignore[override]
        self,
        mask: Mask,
        values: Sequence[Any],
        outputs: Sequence[Tensor] = (),
        context: tuple[Any, ...] = (),
    ) -> DevicesNode:
        """See :meth:`.BackwardFormula.node`."""
        node = super().node(mask, values, outputs, context, DevicesNode)
        states = dict.fromkeys(
            [x._layout.device_state for x in (*outputs, *values) if isinstance(x, TensorBase)]
        )
        node.used_streams = tuple([each.local.stream for each in states if each.is_cuda])
        return node
