"""``tensor.norm``, which had norms of vectors and of matrices before :mod:`tensor.linalg` told them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.operations.autocast import FLOAT32_RESULT, Autocast
from tensor.operations.definition import operation
from tensor.operations.reductions.variance import vector_norm

from .norms import matrix_norm

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor


@operation(autocast=Autocast(cuda=FLOAT32_RESULT))
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> Tensor:
    """Norm of all elements, or over ``dim``: ``p`` is a number, or ``"fro"`` for 2. See :func:`vector_norm`.

    ``"nuc"`` is the sum of the singular values of matrices; see :func:`tensor.linalg.matrix_norm`.

    Raises
    ------
    RuntimeError
        For integers, or another text.

    Examples
    --------
    >>> tensor.norm(tensor.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if isinstance(p, str):
        if p == "nuc":
            return matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
        if p != "fro":
            raise RuntimeError(f"norm(): expected a number, 'fro' or 'nuc' for p, got {p!r}")
        p = 2
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype, out=out)
