"""Hooks that average buckets, as they are or in half precision: ``model.register_comm_hook(process_group, hook)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from parallel.groups.collectives.tensor_collectives import all_reduce
from parallel.groups.process_groups import get_world_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.ddp.buckets import GradBucket
    from parallel.groups.futures import Future
    from parallel.groups.process_groups import ProcessGroup

    Hook = Callable[[Any, GradBucket], Future[tensor.Tensor]]

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[tensor.Tensor]:
    """Average the bucket over ``process_group`` (None: all ranks), as DistributedDataParallel does without a hook.

    Returns a :class:`parallel.Future` of the averaged buffer, ``(N,)``, in the gradients' dtype. It raises
    DistBackendError from :meth:`Future.wait` if a rank died or did not come in time.
    """
    buffer = bucket.buffer()
    buffer.div_(get_world_size(process_group))
    return _summed(buffer, process_group).then(lambda future: future.value()[0])


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[tensor.Tensor]:
    """Average the bucket over ``process_group`` (None: all ranks) in float16.

    That halves the bytes of float32 gradients that are sent. They are divided by the number of ranks before they are
    rounded, so that sums stay in the range of float16. Returns a :class:`parallel.Future` of the averaged buffer,
    ``(N,)``, in the gradients' dtype.

    >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
    >>> model.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.fp16_compress_hook)
    """
    return compressed(process_group, bucket, tensor.float16)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[tensor.Tensor]:
    """Average the bucket over ``process_group`` (None: all ranks) in bfloat16.

    That halves the bytes of float32 gradients that are sent, and keeps their range. Returns a
    :class:`parallel.Future` of the averaged buffer, ``(N,)``, in the gradients' dtype.
    """
    return compressed(process_group, bucket, tensor.bfloat16)


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives ``hook`` buckets in float16 and converts its results back to the gradients' dtype.

    >>> hooks = parallel.ddp_comm_hooks
    >>> hook = hooks.default_hooks.fp16_compress_wrapper(hooks.powerSGD_hook.powerSGD_hook)
    >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
    >>> model.register_comm_hook(hooks.powerSGD_hook.PowerSGDState(None), hook)
    """
    return _wrapped(hook, tensor.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives ``hook`` buckets in bfloat16 and converts its results back to the gradients' dtype.

    >>> hooks = parallel.ddp_comm_hooks
    >>> hook = hooks.default_hooks.bf16_compress_wrapper(hooks.powerSGD_hook.powerSGD_hook)
    >>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
    >>> model.register_comm_hook(hooks.powerSGD_hook.PowerSGDState(None), hook)
    """
    return _wrapped(hook, tensor.bfloat16)


def _summed(buffer: tensor.Tensor, process_group: ProcessGroup | None) -> Future[list[tensor.Tensor]]:
    work = all_reduce(buffer, group=process_group, async_op=True)
    assert work is not None
    return work.get_future()


def compressed(
    process_group: ProcessGroup | None, bucket: GradBucket, dtype: tensor.dtype
) -> Future[tensor.Tensor]:
    """Average the bucket over ``process_group`` (None: all ranks) in ``dtype``."""
    buffer = bucket.buffer()
    # Divided before it is rounded: sums of many ranks stay in the range of float16.
    compressed = (buffer / get_world_size(process_group)).to(dtype)
    return _summed(compressed, process_group).then(lambda future: buffer.copy_(future.value()[0]))


def _wrapped(hook: Hook, dtype: tensor.dtype) -> Hook:
    def wrapper(state: Any, bucket: GradBucket) -> Future[tensor.Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def decompress(future: Future[Any]) -> tensor.Tensor:
            value = future.value()
            return buffer.copy_(value[0] if isinstance(value, (list, tuple)) else value)

        return hook(state, bucket).then(decompress)

    return wrapper
