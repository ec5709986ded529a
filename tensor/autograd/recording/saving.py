"""``saved_tensors_hooks``: functions between a tensor and how a node keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from . import saved

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """Have what operations save for backward kept as ``pack_hook(tensor)``; ``unpack_hook`` gives it back.

    Holds inside ``with``, in this thread; the innermost pair counts. ``pack_hook`` runs while the operation
    is recorded, ``unpack_hook`` when the saved tensor is used.

    >>> x = tensor.tensor([3.0], requires_grad=True)
    >>> with tensor.autograd.graph.saved_tensors_hooks(lambda x: x.numpy(), tensor.from_numpy):
    ...     y = x.exp()
    >>> y.backward()

    Parameters
    ----------
    pack_hook : callable
        Takes the tensor, and returns anything.
    unpack_hook : callable
        Takes what ``pack_hook`` returned, and returns a tensor of the same shape, dtype and device.

    Raises
    ------
    RuntimeError
        On entering, inside :func:`disable_saved_tensors_hooks`.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Self:
        if saved.hooks.disabled is not None:
            raise RuntimeError(saved.hooks.disabled)
        saved.hooks.stack.append((self.pack_hook, self.unpack_hook))
        saved.packing_blocks.add(1)
        return self

    def __exit__(self, *exception: object) -> None:
        saved.packing_blocks.add(-1)
        saved.hooks.stack.pop()
