"""Methods of sparse tensors, which every tensor has: layouts, and the parts of a sparse tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tensor.core.creation_arguments import dtype_of_argument
from tensor.core.sparse import Compressed, Coordinates, is_sparse, sparse_coo
from tensor.operations.sparse import layouts
from tensor.operations.sparse.parts import coalesced, plain, structure_of, values_of
from tensor.operations.sparse.parts import raw_values as _raw_values

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype
    from tensor.core.memory_format import layout as LayoutName

    from .tensor import Tensor


class SparseMethods:
    """Conversions between layouts, and the parts of a sparse tensor."""

    __slots__ = ()

    def to_dense(self, dtype: dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor of the same elements; a dense one itself.

        Parameters
        ----------
        dtype : dtype, optional
            Of the result.
        masked_grad : bool, optional
            Taken for PyTorch's sake: the gradient is that of the specified elements.

        Examples
        --------
        >>> tensor.sparse_coo_tensor([[0], [1]], [2.0], (2, 2)).to_dense()
        tensor([[0., 2.],
                [0., 0.]])
        """
        result = layouts.to_dense(cast("Tensor", self))
        return result if dtype is None else result.to(dtype_of_argument(dtype, "to_dense"))

    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: LayoutName | None = None,
        blocksize: Any = None,
        dense_dim: int | None = None,
    ) -> Tensor:
        """The tensor in a sparse layout, with its elements that are not 0; for how many there are the host waits.

        Parameters
        ----------
        sparse_dim : int, optional
            How many dimensions, the first ones, are sparse; all by default.
        layout : layout, optional
            ``tensor.sparse_coo`` (the default), ``sparse_csr`` or ``sparse_csc``.
        blocksize
            None: blocks are not implemented.
        dense_dim : int, optional
            How many dimensions, the last ones, are dense.

        Raises
        ------
        RuntimeError
            If the layout does not take the tensor.
        NotImplementedError
            For blocks.

        Examples
        --------
        >>> tensor.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        tensor(indices=tensor([[0],
                               [1]]),
               values=tensor([2.]),
               size=(2, 2), nnz=1, layout=tensor.sparse_coo)
        """
        x = cast("Tensor", self)
        if blocksize is not None:
            raise NotImplementedError(
                "to_sparse(): layouts of blocks (BSR, BSC) are not implemented; use sparse_csr"
            )
        if layout is None and dense_dim is None:
            return layouts.to_coordinates(x, sparse_dim)
        if sparse_dim is not None:
            raise RuntimeError("to_sparse(): give sparse_dim, or layout and dense_dim, but not both")
        return layouts.to_layout(x, layout or sparse_coo, "to_sparse", dense_dim)

    def to_sparse_coo(self) -> Tensor:
        """The tensor in the layout ``tensor.sparse_coo``; see :meth:`to_sparse`.

        Of a dense tensor the elements that are not 0 are stored; a tensor in this layout is returned itself. Shape and dtype
        stay.

        Examples
        --------
        >>> tensor.eye(2).to_sparse_coo().indices()
        tensor([[0, 1],
                [0, 1]])
        """
        return layouts.to_coordinates(cast("Tensor", self))

    def to_sparse_csr(self, dense_dim: int | None = None) -> Tensor:
        """The matrix with its elements row by row; see :meth:`to_sparse`.

        Parameters
        ----------
        dense_dim : int, optional
            How many dimensions of a dense tensor, the last ones, stay dense.

        Raises
        ------
        RuntimeError
            If it is no matrix.

        Examples
        --------
        >>> tensor.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse_csr().crow_indices()
        tensor([0, 1, 1])
        """
        return layouts.to_compressed(
            cast("Tensor", self), "to_sparse_csr", by_columns=False, dense_dim=dense_dim
        )

    def to_sparse_csc(self, dense_dim: int | None = None) -> Tensor:
        """The matrix with its elements column by column; see :meth:`to_sparse_csr`.

        Parameters
        ----------
        dense_dim : int, optional
            How many dimensions of a dense tensor, the last ones, stay dense.

        Raises
        ------
        RuntimeError
            If it is no matrix.
        """
        return layouts.to_compressed(
            cast("Tensor", self), "to_sparse_csc", by_columns=True, dense_dim=dense_dim
        )

    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The elements at the indices that the sparse tensor ``mask`` specifies.

        Raises
        ------
        RuntimeError
            If ``mask`` is not sparse, or has another shape or device.

        Examples
        --------
        >>> x = tensor.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> x.sparse_mask(tensor.eye(2).to_sparse()).values()
        tensor([1., 4.])
        """
        return layouts.sparse_mask(cast("Tensor", self), mask)

    def coalesce(self) -> Tensor:
        """The sparse tensor with one element for each index, in row-major order; itself if it is so.

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_coo``.

        Examples
        --------
        >>> tensor.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (2,)).coalesce()
        tensor(indices=tensor([[1]]),
               values=tensor([5.]),
               size=(2,), nnz=1, layout=tensor.sparse_coo)
        """
        layouts.coordinates(cast("Tensor", self), "coalesce")
        return coalesced(cast("Tensor", self))

    def is_coalesced(self) -> bool:
        """Whether each index has one element at most, in row-major order, and that is known.

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_coo``.
        """
        return layouts.coordinates(cast("Tensor", self), "is_coalesced").coalesced

    def _coalesced_(self, coalesced: bool) -> Tensor:
        own = layouts.coordinates(cast("Tensor", self), "_coalesced_")
        self._storage.structure = Coordinates(own.indices, coalesced=coalesced)  # type: ignore[attr-defined]
        return cast("Tensor", self)

    def indices(self) -> Tensor:
        """Coordinates of the elements, of shape (sparse dimensions, elements).

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_coo``, or the tensor is not coalesced.
        """
        structure = layouts.coordinates(cast("Tensor", self), "indices")
        if not structure.coalesced:
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return plain(structure.indices)

    def values(self) -> Tensor:
        """The values of the elements, of shape (elements, sizes of the dense dimensions...). Gradients flow through it.

        Raises
        ------
        RuntimeError
            If the tensor is dense, or not coalesced.
        """
        x = cast("Tensor", self)
        if not is_sparse(x):
            raise RuntimeError(
                "values expected sparse tensor layout but got Strided: convert it with to_sparse()"
            )
        if not structure_of(x).coalesced:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return values_of(x)

    def _indices(self) -> Tensor:
        return plain(layouts.coordinates(cast("Tensor", self), "_indices").indices)

    def _values(self) -> Tensor:
        layouts.coordinates(cast("Tensor", self), "_values")
        return _raw_values(cast("Tensor", self))

    def _nnz(self) -> int:
        x = cast("Tensor", self)
        if not is_sparse(x):
            raise RuntimeError(
                "_nnz expected sparse tensor layout but got Strided: convert it with to_sparse()"
            )
        return structure_of(x).count

    def sparse_dim(self) -> int:
        """Number of sparse dimensions, the first ones; 0 of a dense tensor."""
        x = cast("Tensor", self)
        return structure_of(x).dimensions if is_sparse(x) else 0

    def dense_dim(self) -> int:
        """Number of dense dimensions, the last ones; all of a dense tensor."""
        return len(cast("Tensor", self)._layout.shape) - self.sparse_dim()

    _dimI, _dimV = sparse_dim, dense_dim  # noqa: N815 - PyTorch's names

    def crow_indices(self) -> Tensor:
        """Where each row starts among the elements, and at last how many there are.

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_csr``.
        """
        return plain(self._lines("crow_indices", by_columns=False).starts)

    def col_indices(self) -> Tensor:
        """The column of each element.

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_csr``.
        """
        return plain(self._lines("col_indices", by_columns=False).plain)

    def ccol_indices(self) -> Tensor:
        """Where each column starts among the elements, and at last how many there are.

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_csc``.
        """
        return plain(self._lines("ccol_indices", by_columns=True).starts)

    def row_indices(self) -> Tensor:
        """The row of each element.

        Raises
        ------
        RuntimeError
            If the layout is not ``tensor.sparse_csc``.
        """
        return plain(self._lines("row_indices", by_columns=True).plain)

    def _lines(self, name: str, *, by_columns: bool) -> Compressed:
        return layouts.compressed_structure(cast("Tensor", self), name, by_columns=by_columns)
