"""Embedding layers: lookup tables of vectors, for single indices and for bags of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from nn import functional, init
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty, no_grad

if TYPE_CHECKING:
    from tensor import Tensor, dtype


class _Table(Module):
    """Base class of the embedding layers: a table with an optional padding row, which is 0 initially."""

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
        """Draw from the standard normal distribution; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Lookup table: maps each index to a row of ``weight``.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their length.
    padding_idx : int, optional
        Row that is 0 initially and gets no gradient; negative numbers count from the end.
    max_norm : float, optional
        Rows that are looked up and have a greater norm are scaled down to it first, in place.
    norm_type : float
        The p of that p-norm.
    scale_grad_by_freq : bool
        Whether the gradient of a row is divided by how often its index is in the input.
    sparse : bool
        Whether the gradient is a sparse tensor of the rows that are looked up, for :class:`nn.optim.SparseAdam`, SGD and
        Adagrad.
    device, dtype
        Of the table.

    Attributes
    ----------
    weight : Parameter
        Shape (num_embeddings, embedding_dim), drawn from the standard normal distribution initially.

    Raises
    ------
    AssertionError
        If ``padding_idx`` is not a row.

    Examples
    --------
    >>> nn.Embedding(10, 3)(tensor.tensor([[1, 2], [4, 9]])).shape
    tensor.Size([2, 2, 3])
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
        """A layer with ``embeddings``, of shape (num_embeddings, embedding_dim), as its table.

        Parameters
        ----------
        freeze : bool
            Whether the table is not trained: its ``requires_grad`` is False.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
            As in :class:`Embedding`.

        Raises
        ------
        AssertionError
            If ``embeddings`` does not have 2 dimensions.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze
        )

    def forward(self, input: Tensor) -> Tensor:
        """Look up indices.

        Parameters
        ----------
        input : Tensor
            int64 or int32 indices, of any shape.

        Returns
        -------
        Tensor
            Shape ``(*input.shape, embedding_dim)``.

        Raises
        ------
        IndexError
            If an index is not in [0, num_embeddings); on CUDA it is a device-side assertion, which a later call
            raises.
        RuntimeError
            If the indices have another dtype.
        """
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
        """What ``repr()`` shows of the module: sizes, and options that are not the default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse:
            text += ", sparse=True"
        return text


class EmbeddingBag(_Table):
    """Sums, means or maxima of the rows of a table that bags of indices refer to, without the rows in memory.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows of the table, and their length.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As in :class:`Embedding`.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``; an empty bag gives 0.
    include_last_offset : bool
        Whether offsets have one element more, the end of the last bag.
    padding_idx : int, optional
        Row that is left out of the bags, is 0 initially and gets no gradient.
    device, dtype
        Of the table.

    Attributes
    ----------
    weight : Parameter
        Shape (num_embeddings, embedding_dim), drawn from the standard normal distribution initially.

    Examples
    --------
    >>> layer = nn.EmbeddingBag(10, 3, mode="sum")
    >>> layer(tensor.tensor([1, 2, 4, 5, 4]), offsets=tensor.tensor([0, 2])).shape  # bags [1, 2] and [4, 5, 4]
    tensor.Size([2, 3])
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
        """A layer with ``embeddings``, of shape (num_embeddings, embedding_dim), as its table.

        Parameters
        ----------
        freeze : bool
            Whether the table is not trained: its ``requires_grad`` is False.
        max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx
            As in :class:`EmbeddingBag`.

        Raises
        ------
        AssertionError
            If ``embeddings`` does not have 2 dimensions.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        layer = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
            padding_idx,
        )  # fmt: skip
        layer.weight.requires_grad_(not freeze)
        return layer

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Reduce bags of rows.

        Parameters
        ----------
        input : Tensor
            Indices of shape (B, L), one bag in each row, or of shape (M,) with ``offsets``.
        offsets : Tensor, optional
            First position of each bag in an input of shape (M,).
        per_sample_weights : Tensor, optional
            Factors of the rows, of the input's shape; only for sums.

        Returns
        -------
        Tensor
            Shape (B, embedding_dim).

        Raises
        ------
        ValueError
            If the input has other than one or two dimensions, ``offsets`` are missing with one or passed with two, or
            ``per_sample_weights`` have another shape than the input.
        """
        return functional.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: sizes, and options that are not the default."""
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
