"""Communication hooks of :class:`parallel.DistributedDataParallel`: how buckets of gradients are reduced.

- ``default_hooks`` averages them as they are, or in half precision.
- ``hierarchical_hook`` averages them inside nodes first, and sends little between them.
- ``powerSGD_hook`` sends matrices of low rank instead.

>>> model = parallel.DistributedDataParallel(nn.Linear(3, 1))
>>> model.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.fp16_compress_hook)
"""

from . import default_hooks, hierarchical_hook, powerSGD_hook

__all__ = ["default_hooks", "hierarchical_hook", "powerSGD_hook"]
