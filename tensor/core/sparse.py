"""What a sparse tensor is made of: a structure, which says where its elements are, and a dense tensor of their values.

A sparse tensor has a :class:`SparseLayout` and a :class:`SparseStorage` in the places of layout and storage, so that
shapes, dtypes, devices, versions and gradients are found where those of any tensor are. What asks how its elements lie in
memory, as everything does that knows dense tensors alone, gets a :class:`SparseOperandError`. It is raised while an
operation is planned, before anything is computed or changed, and the public function then looks for a rule of its name
(:mod:`tensor.operations.sparse_rules`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from .layout import Layout, Memo
from .memory_format import layout as LayoutName
from .modes.grad_mode import first_version, inference_blocks
from .size import Size
from .warning import inside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.dtypes import dtype
    from tensor.methods.tensor import Tensor

    from .devices.state import DeviceState
    from .devices.stream import Stream

sparse_coo = LayoutName("sparse_coo")
sparse_csr = LayoutName("sparse_csr")
sparse_csc = LayoutName("sparse_csc")


class SparseOperandError(NotImplementedError):
    """An operation that knows dense tensors alone was given a sparse one."""

    def __init__(self, layout_name: LayoutName, what: str = "") -> None:
        super().__init__(layout_name, what)
        self.layout_name = layout_name
        #: The outermost function of these packages that was called, whichever asked for the memory.
        self.operation = what or _caller()

    def __str__(self) -> str:
        return (
            f"{self.operation}() is not implemented for sparse tensors, and an operand has the layout {self.layout_name!r}: convert "
            "it with to_dense() first"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseOperandError, (self.layout_name, self.operation)


def _caller() -> str:
    frame: Any = sys._getframe(2)
    name = frame.f_code.co_name
    while frame is not None and inside(frame):
        if not frame.f_code.co_name.startswith(("_call", "<")):
            name = frame.f_code.co_name
        frame = frame.f_back
    return str(name)


class SparseLayout(Layout):
    """Shape, dtype, device and sparse format of a tensor; its elements have no strides.

    Attributes
    ----------
    layout_name : layout
        ``tensor.sparse_coo``, ``tensor.sparse_csr`` or ``tensor.sparse_csc``.
    """

    __slots__ = ("layout_name",)

    layout_name: LayoutName

    def __init__(
        self, shape: Sequence[int], dtype: dtype, device_state: DeviceState, layout_name: LayoutName
    ) -> None:
        self.shape = Size.trusted(shape)
        self.dtype = dtype
        self.device_state = device_state
        self.device = device_state.device
        self.itemsize = dtype.itemsize
        self.numel = self.shape.numel()
        self.layout_name = layout_name

    def __repr__(self) -> str:
        return f"<SparseLayout {self.layout_name!r} {list(self.shape)} {self.dtype} on {self.device}>"

    if not TYPE_CHECKING:

        def _refused(self) -> NoReturn:
            raise SparseOperandError(self.layout_name)

        contiguous = dense = strides = numpy_strides = span = nbytes = property(_refused)

    def with_strides(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
        """Raise SparseOperandError: there are no strides."""
        raise SparseOperandError(self.layout_name)

    def with_dtype(self, dtype: dtype) -> Layout:
        """The layout of elements of another type."""
        return sparse[self.shape, dtype, self.device_state, self.layout_name]

    def with_shape(self, shape: Sequence[int]) -> SparseLayout:
        """The layout of another shape."""
        return sparse[Size.trusted(shape), self.dtype, self.device_state, self.layout_name]

    def of(self, values: Tensor) -> SparseLayout:
        """The layout with the dtype and device of ``values``."""
        layout = values._layout
        return sparse[self.shape, layout.dtype, layout.device_state, self.layout_name]

    def on(self, device_state: DeviceState) -> Layout:
        """The layout on another device."""
        return sparse[self.shape, self.dtype, device_state, self.layout_name]


#: ``sparse[shape, dtype, device_state, layout_name]``: the shared layout.
sparse: Memo[SparseLayout] = Memo(SparseLayout)


class Coordinates:
    """Where the elements are, by coordinates.

    Attributes
    ----------
    indices : Tensor
        int64, of shape (sparse dimensions, elements): a column for each element.
    coalesced : bool
        Whether the columns differ and are in row-major order.
    """

    __slots__ = ("coalesced", "indices")

    layout_name = sparse_coo

    def __init__(self, indices: Tensor, *, coalesced: bool) -> None:
        self.indices = indices
        self.coalesced = coalesced

    @property
    def count(self) -> int:
        """Number of elements that are specified."""
        return self.indices._layout.shape[1]

    @property
    def dimensions(self) -> int:
        """Number of sparse dimensions, the first ones."""
        return self.indices._layout.shape[0]

    def tensors(self) -> tuple[Tensor, ...]:
        """The index tensors."""
        return (self.indices,)


class Compressed:
    """Where the elements of a matrix are, row by row or column by column.

    Attributes
    ----------
    starts : Tensor
        int64 or int32: position of the first element of each row (or column), and at last the number of elements.
    plain : Tensor
        The column (or row) of each element.
    by_columns : bool
        Whether it is columns that are compressed.
    """

    __slots__ = ("by_columns", "layout_name", "plain", "starts")

    dimensions = 2
    #: The elements of a row are thought to be distinct.
    coalesced = True

    def __init__(self, starts: Tensor, plain: Tensor, *, by_columns: bool) -> None:
        self.starts = starts
        self.plain = plain
        self.by_columns = by_columns
        self.layout_name = sparse_csc if by_columns else sparse_csr

    @property
    def count(self) -> int:
        """Number of elements that are specified."""
        return self.plain._layout.shape[0]

    def tensors(self) -> tuple[Tensor, ...]:
        """The index tensors."""
        return self.starts, self.plain


Structure = Coordinates | Compressed


class SparseStorage:
    """What sparse tensors share that are made of each other by ``detach``: structure, values, and a version.

    Attributes
    ----------
    structure : Coordinates or Compressed
        Where the elements are. It is not changed, but replaced.
    values : Tensor
        Dense, of shape (elements, sizes of dense dimensions...), without a history.
    version : int
        Counts what was written in place.
    """

    __slots__ = ("__weakref__", "device_state", "structure", "values", "version")

    #: The host does not read it as an array.
    plain = False

    def __init__(self, structure: Structure, values: Tensor) -> None:
        self.structure = structure
        self.values = values
        self.device_state = values._layout.device_state
        self.version = first_version() if inference_blocks.count else 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"a sparse tensor's storage has no attribute {name!r}")
        raise SparseOperandError(self.structure.layout_name)

    def record_stream(self, stream: Stream) -> None:
        """Note that ``stream`` uses the memory of all parts."""
        for each in (*self.structure.tensors(), self.values):
            each.record_stream(stream)

    def belongs_to(self, stream: Stream) -> bool:
        """False: nobody takes the memory over."""
        return False

    def is_pinned(self) -> bool:
        """Whether the values lie in pinned memory."""
        return self.values.is_pinned()

    def is_shared(self) -> bool:
        """Whether the values lie in shared memory."""
        return self.values.is_shared()


def is_sparse(x: Any) -> TypeGuard[Tensor]:
    """Whether ``x`` is a sparse tensor."""
    return isinstance(getattr(x, "_layout", None), SparseLayout)


def storage_of(x: Tensor) -> SparseStorage:
    """The parts of a sparse tensor."""
    storage: Any = x._storage
    return storage  # type: ignore[no-any-return]


_class: type[Any]


def register(cls: type[Any]) -> None:
    """Make sparse tensors of class ``cls`` from now on."""
    global _class
    _class = cls


def sparse_tensor(storage: SparseStorage, layout: SparseLayout) -> Tensor:
    """A tensor of these parts. Nothing is checked."""
    self: Any = object.__new__(_class)
    self._storage = storage
    self._layout = layout
    self._offset = 0
    self._autograd = self._base = self._array = None
    return self  # type: ignore[no-any-return]
