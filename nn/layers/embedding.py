"""Embedding layers: tables of vectors, looked up alone and in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from nn import functional, init
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty, no_grad

if TYPE_CHECKING:
    from tensor import Tensor, dtype


class _Table(Module):
    """What embedding layers share: a table whose row of padding is 0 at first."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        padding_idx: int | None,
        weight: Tensor | None,
        freeze: bool,
        device: Any,
        dtype: dtype | None,
    ) -> None:
        super().__init__()
        if sparse:
            raise NotImplementedError(
                f"{type(self).__name__}: sparse gradients are not implemented: leave out sparse=True, gradients are dense"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"padding_idx must be within num_embeddings: got {padding_idx} for {num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            shape = (num_embeddings, embedding_dim)
            self.weight = Parameter(empty(shape, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
        else:
            if list(weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim: got "
                    f"{list(weight.shape)} for {num_embeddings} and {embedding_dim}"
                )
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw normal numbers; the row of padding is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Rows of a table that indices name.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their length.
    padding_idx : int, optional
        A row that is 0 at first and gets no gradient.
    max_norm, norm_type : float, optional
        Rows that are looked up and longer than ``max_norm`` are scaled down to it first.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often it was looked up.
    sparse : bool
        Refused: gradients are dense.
    device, dtype
        Of the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse, padding_idx, _weight, _freeze,
            device, dtype,
        )  # fmt: skip

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer whose table is ``embeddings``, of shape (num_embeddings, embedding_dim); not trained if ``freeze``."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze
        )

    def forward(self, input: Tensor) -> Tensor:
        """Rows, of shape (..., embedding_dim)."""
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Its arguments that are not what they are by default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text


class EmbeddingBag(_Table):
    """Sums, means or maxima of the rows of a table that the indices of a bag name.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their length.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As in :class:`Embedding`.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``.
    include_last_offset : bool
        Whether offsets say also where the last bag ends.
    padding_idx : int, optional
        A row that counts nothing in a bag.
    device, dtype
        Of the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse, padding_idx, _weight, False,
            device, dtype,
        )  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer whose table is ``embeddings``, of shape (num_embeddings, embedding_dim); not trained if ``freeze``."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        made = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
            padding_idx,
        )  # fmt: skip
        made.weight.requires_grad_(not freeze)
        return made

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """What the bags come to, of shape (B, embedding_dim)."""
        return functional.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Its arguments that are not what they are by default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text
