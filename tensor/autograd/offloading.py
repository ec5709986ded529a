"""``save_on_cpu``: activations wait for their backward pass in host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import empty
from tensor.core.devices.state import cpu
from tensor.core.plans.copies import COPY, copied

from .recording.saving import saved_tensors_hooks

if TYPE_CHECKING:
    from tensor.core.devices.stream import Stream
    from tensor.methods.tensor import Tensor


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Keep what operations save in host memory, and bring it back for the backward pass.

    Tensors on the CPU stay where they are.

    >>> x = tensor.tensor([3.0], requires_grad=True)
    >>> with tensor.autograd.graph.save_on_cpu(pin_memory=False):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([6.])

    Parameters
    ----------
    pin_memory : bool
        Whether to use pinned memory. The copies there and back are then queued on the streams of the
        operations, and the host waits for neither.
    device_type : str
        ``"cuda"``, whose tensors are moved.

    Raises
    ------
    ValueError
        If ``device_type`` is another one.
    RuntimeError
        In the backward pass, if a tensor on the CPU was written in place since it was saved.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if device_type != "cuda":
            raise ValueError(f"save_on_cpu() knows the device type 'cuda', got {device_type!r}")

        def pack(tensor: Tensor) -> Any:
            return _HostCopy(tensor, pin_memory=pin_memory)

        super().__init__(pack, _HostCopy.bring_back)


class _HostCopy:
    """A tensor in host memory.

    Attributes
    ----------
    tensor : Tensor
        The elements.
    layout : Layout
        Of the tensor on its device.
    stream : Stream or None
        The stream that copied it, where the copy may be under way.
    version : int
        For a tensor that stayed where it was, how often that was written in place.
    """

    __slots__ = ("layout", "stream", "tensor", "version")

    def __init__(self, tensor: Tensor, *, pin_memory: bool) -> None:
        layout = tensor._layout
        self.layout = layout.as_dense()
        self.stream: Stream | None = None
        if not layout.device_state.is_cuda:
            self.tensor = tensor
            self.version = tensor._storage.version
            return
        self.tensor = copied(tensor, self.layout.on(cpu), non_blocking=pin_memory, pin_memory=pin_memory)
        self.version = 0
        if pin_memory:
            self.stream = layout.device_state.local.stream
            # Without the graph that held it, the memory may be freed before the copy has been made.
            tensor.record_stream(self.stream)

    def bring_back(self) -> Tensor:
        """The tensor, on its device and ready on the stream that is current there."""
        layout = self.layout
        if not layout.device_state.is_cuda:
            result = self.tensor
            if result._storage.version != self.version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{result.type()} {list(result.shape)}], saved under save_on_cpu(), is at version "
                    f"{result._storage.version}; expected version {self.version} instead"
                )
            return result
        current = layout.device_state.local.stream
        if self.stream is not None and self.stream != current:
            current.native.wait_stream(self.stream.native)
        output = empty(layout)
        layout.device_state.plans[COPY, layout, self.tensor._layout](
            output, self.tensor, self.stream is not None
        )
        return output
