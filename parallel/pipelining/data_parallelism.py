"""When gradients of a stage are reduced among its replicas or shards: in the backward pass of the last micro-batch."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from parallel.ddp.distributed_data_parallel import DistributedDataParallel
from parallel.sharding.sharded_module import states_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nn import Module
    from tensor import Tensor


def forward(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``module(*args, **kwargs)``, after which no backward pass reduces unless :func:`backward` says so."""
    if isinstance(module, DistributedDataParallel):
        with module.no_sync():
            return module(*args, **kwargs)
    return module(*args, **kwargs)


@contextlib.contextmanager
def backward(module: Module, outputs: list[Tensor], *, last: bool) -> Iterator[None]:
    """A block with the backward pass of a micro-batch, which reduces what the ones before have added up if it is the last one.

    Where the caller has turned reductions off, as to go through several batches, the last one does not reduce either.
    """
    if last:
        if isinstance(module, DistributedDataParallel) and module.require_backward_grad_sync:
            module.reducer.prepare(outputs)
        yield
        return
    before = [(each, each.reduces, each.reshard_after_backward) for each in states_below(module)]
    for state, _, _ in before:
        state.reduces = state.reshard_after_backward = False
    try:
        yield
    finally:
        for state, reduces, reshards in before:
            state.reduces, state.reshard_after_backward = reduces, reshards
