"""Functions of sparse tensors, as in ``torch.sparse``.

``tensor.sparse_coo_tensor``, ``tensor.sparse_csr_tensor`` and ``Tensor.to_sparse`` make sparse tensors; most operations on them
are the ordinary ones (``@``, ``+``, ``*``, ``sum``, ...), and those that do not take sparse tensors say so. Gradients with
respect to a sparse tensor are sparse, of its structure.
"""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .functions import addmm, log_softmax, mm, sampled_addmm, softmax, sum
from .invariants import check_sparse_tensor_invariants

__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "sum"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
