"""Communication hooks of :class:`parallel.DistributedDataParallel`: how buckets of gradients are reduced.

- ``default_hooks`` averages them as they are, or in half precision.
- ``powerSGD_hook`` sends matrices of low rank instead.

>>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
>>> model.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.fp16_compress_hook)
"""

from . import default_hooks, powerSGD_hook

__all__ = ["default_hooks", "powerSGD_hook"]
