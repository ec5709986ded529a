"""Embeddings: lookups of rows of a table, single and in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.operations.definition import operation
from tensor.operations.indexing import embedding as embeddings
from tensor.operations.indexing.embedding import bags_of_rows, one_hot, padding_row, renormalise

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


@operation(namespace="nn.functional", method=False)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of a table.

    Parameters
    ----------
    input : Tensor
        int64 or int32 indices, of any shape.
    weight : Tensor
        Table of shape (V, D).
    padding_idx : int, optional
        Row that gets no gradient.
    max_norm : float, optional
        Rows that are looked up and have a greater norm are scaled down to it first, in place.
    norm_type : float
        The p of that p-norm.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often its index is in the input.
    sparse : bool
        Whether the gradient is a sparse tensor of the rows that are looked up, for :class:`nn.optim.SparseAdam`, SGD and
        Adagrad.

    Returns
    -------
    Tensor
        Shape ``(*input.shape, D)``, of the table's dtype.

    Raises
    ------
    IndexError
        If an index is not in [0, V); on CUDA it is a device-side assertion, which a later call raises.

    Examples
    --------
    >>> nn.functional.embedding(tensor.tensor([0, 2]), tensor.eye(3))
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    padding = -1 if padding_idx is None else padding_row(padding_idx, weight.size(0))
    if max_norm is not None:
        renormalise(weight, input, max_norm, norm_type)
    return embeddings.embedding(weight, input, padding, scale_grad_by_freq, sparse)


@operation(namespace="nn.functional", method=False)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of a table.

    Parameters
    ----------
    input : Tensor
        Indices of shape (B, L), one bag in each row, or of shape (M,) with ``offsets``.
    weight : Tensor
        Table of shape (V, D).
    offsets : Tensor, optional
        First position of each bag in an input of shape (M,); with ``include_last_offset`` also the end of the last
        bag.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As those of :func:`embedding`.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``; an empty bag gives 0.
    per_sample_weights : Tensor, optional
        Factors of the rows, of the input's shape; only for sums.
    include_last_offset : bool
        Whether ``offsets`` has one element more, the end of the last bag.
    padding_idx : int, optional
        Row that is left out of the bags and gets no gradient.

    Returns
    -------
    Tensor
        Shape (B, D).

    Raises
    ------
    ValueError
        If the input has other than one or two dimensions, ``offsets`` are missing with one or passed with two,
        ``per_sample_weights`` have another shape than the input or come with another mode than ``"sum"``, the mode is
        unknown, or it is ``"max"`` and ``sparse`` or ``scale_grad_by_freq`` is true.
    """
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have the "
            f"same shape as the input ({list(input.shape)})"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                "sequences. However, found offsets"
            )
        input, offsets = bags_of_rows(input)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        renormalise(weight, input, max_norm, norm_type)
    return embeddings.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
