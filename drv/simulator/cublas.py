"""The simulated cuBLAS: the functions of :class:`drv.cublas.Cublas`, computed with NumPy on simulated memory.

Calls check their arguments and queue their work on the handle's stream, as NVIDIA's do. A workspace given with
``cublasSetWorkspace`` is written to, so that the race finder sees one that two streams share. Only the elements that
a routine touches are read and written.
"""

from __future__ import annotations

from .cublas_matrices import MatrixCalls
from .cublas_products import ProductCalls
from .cublas_vectors import VectorCalls


class SimulatedCublas(ProductCalls, MatrixCalls, VectorCalls):
    """cuBLAS on a simulated driver."""
