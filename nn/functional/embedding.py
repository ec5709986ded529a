"""Embeddings: rows of a table, alone and in bags."""

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
    """Rows of ``weight`` that ``input`` names.

    Parameters
    ----------
    input : Tensor
        int64 or int32, of any shape.
    weight : Tensor
        Of shape (V, D).
    padding_idx : int, optional
        A row that gets no gradient.
    max_norm, norm_type : float, optional
        Rows that are named and longer than ``max_norm`` are scaled down to it first, in place.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often it is named.
    sparse : bool
        Refused: gradients are dense.

    Raises
    ------
    IndexError
        If an index is no row; on CUDA that is a failed assertion, which a later call raises.
    """
    padding = padding_row(padding_idx, weight.size(0))
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
    """Sums, means or maxima of the rows that the indices of a bag name.

    Parameters
    ----------
    input : Tensor
        Indices of shape (B, L), a bag in each row, or a vector with ``offsets``.
    weight : Tensor
        Of shape (V, D).
    offsets : Tensor, optional
        Where each bag starts in a vector; with ``include_last_offset`` also where the last one ends.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``.
    per_sample_weights : Tensor, optional
        What each row is multiplied with, for sums; of the shape of ``input``.
    padding_idx : int, optional
        A row that counts nothing.

    Returns
    -------
    Tensor
        Of shape (B, D).

    Raises
    ------
    ValueError
        If shapes do not fit, or there is no such mode.
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
