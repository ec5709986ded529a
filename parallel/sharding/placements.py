"""How tensors lie on meshes: ``Shard``, ``Replicate`` and ``Partial``, and ``Sharding``, which has one for each dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parallel.device_mesh import DeviceMesh
    from tensor import Tensor

__all__ = ["Partial", "Placement", "Replicate", "Shard", "Sharding"]

#: Reductions that a :class:`Partial` may be resolved by.
_REDUCTIONS = ("sum", "avg", "product", "max", "min")


class Placement:
    """How a tensor lies along a dimension of a mesh.

    Base class of :class:`Shard`, :class:`Replicate` and :class:`Partial`.
    """

    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether the tensor is divided among the ranks.

        Parameters
        ----------
        dim : int, optional
            Ask about this dimension alone.

        Returns
        -------
        bool
            False here.
        """
        return False

    def is_replicate(self) -> bool:
        """Whether each rank has the whole tensor; False here."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction of what the ranks have.

        Parameters
        ----------
        reduce_op : str, optional
            Ask about this reduction alone.

        Returns
        -------
        bool
            False here.
        """
        return False


@dataclass(frozen=True, slots=True)
class Shard(Placement):
    """Divided among the ranks along a dimension of the tensor.

    Parts have ``ceil(size / ranks)`` rows each; the last ones may have fewer, or none.

    Parameters
    ----------
    dim : int
        The dimension; negative ones count from the last.
    """

    dim: int

    def is_shard(self, dim: int | None = None) -> bool:
        """See :meth:`Placement.is_shard`."""
        return dim in (None, self.dim)


@dataclass(frozen=True, slots=True)
class _StridedShard(Shard):
    """A division of the parts that later dimensions of the mesh leave: each of their ranks divides its part once more.

    ``fully_shard`` makes it of parameters that a tensor-parallel plan divides along the same dimension.
    """

    split_factor: int


@dataclass(frozen=True, slots=True)
class Replicate(Placement):
    """The whole tensor on each of the ranks.

    >>> parallel.tensor.Replicate()
    Replicate()
    """

    def is_replicate(self) -> bool:
        """See :meth:`Placement.is_replicate`."""
        return True


@dataclass(frozen=True, slots=True, repr=False)
class Partial(Placement):
    """Each rank has a term of the whole shape: the tensor is their reduction, which was not computed yet.

    >>> parallel.tensor.Partial()
    Partial(sum)

    Parameters
    ----------
    reduce_op : str
        ``"sum"``, ``"avg"``, ``"product"``, ``"max"`` or ``"min"``.

    Raises
    ------
    ValueError
        For another reduction.
    """

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in _REDUCTIONS:
            raise ValueError(f"Partial() takes one of {', '.join(_REDUCTIONS)}; got {self.reduce_op!r}")

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """See :meth:`Placement.is_partial`."""
        return reduce_op in (None, self.reduce_op)


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a tensor lies on a mesh.

    Dimensions of the mesh divide the tensor one after another: each divides what the ones before have left, from the first to
    the last, and then those of :class:`_StridedShard`.

    Attributes
    ----------
    mesh : DeviceMesh
        The ranks.
    shape : tuple of int
        Of the whole tensor.
    placements : tuple of Placement
        One for each dimension of the mesh, with dimensions of the tensor from 0 on.
    """

    mesh: DeviceMesh
    shape: tuple[int, ...]
    placements: tuple[Placement, ...]

    @classmethod
    def by_rows(cls, mesh: DeviceMesh, shape: Sequence[int]) -> Sharding:
        """Along the first dimension, over the last dimension of ``mesh``, and replicated along the others."""
        return cls(mesh, tuple(shape), (*[Replicate()] * (mesh.ndim - 1), Shard(0)))

    def replaced(self, placements: Sequence[Placement]) -> Sharding:
        """The same tensor, placed otherwise."""
        return Sharding(self.mesh, self.shape, tuple(placements))

    def divisions(self) -> list[tuple[int, int]]:
        """Dimensions of the mesh with those of the tensor that they divide, in order."""
        shards = [(dim, each) for dim, each in enumerate(self.placements) if isinstance(each, Shard)]
        shards.sort(key=lambda pair: isinstance(pair[1], _StridedShard))
        return [(dim, each.dim) for dim, each in shards]

    @property
    def is_partial(self) -> bool:
        """Whether a reduction was not computed yet."""
        return any(each.is_partial() for each in self.placements)

    def groups(self) -> list[Any]:
        """The process groups among whose ranks elements are divided."""
        return [self.mesh.get_group(dim) for dim, _ in self.divisions()]

    def extent(self) -> list[tuple[int, int]]:
        """Where this rank's part begins along each dimension, and its size there."""
        result = [(0, size) for size in self.shape]
        for mesh_dim, dim in self.divisions():
            start, size = result[dim]
            first, end = bounds(size, self.mesh.size(mesh_dim), self.mesh.get_local_rank(mesh_dim))
            result[dim] = start + first, end - first
        return result

    def part_of(self, whole: Tensor) -> Tensor:
        """The part of this rank, a view of the whole tensor."""
        for dim, (start, size) in enumerate(self.extent()):
            if size != self.shape[dim]:
                whole = whole.narrow(dim, start, size)
        return whole

    def local_shape(self) -> tuple[int, ...]:
        """Shape of this rank's part."""
        return tuple(size for _, size in self.extent())

    def local_offsets(self) -> tuple[int, ...]:
        """Where this rank's part begins in the whole tensor."""
        return tuple(start for start, _ in self.extent())

    # Of those that are divided by rows

    @property
    def ranks(self) -> int:
        """Number of parts."""
        return self.mesh.size(self.mesh.ndim - 1)

    @property
    def rows(self) -> int:
        """Rows of the parts, but for the last ones."""
        return -(-self.shape[0] // self.ranks)

    @property
    def padded(self) -> int:
        """Elements of a part with all its rows."""
        count = self.rows
        for size in self.shape[1:]:
            count *= size
        return count


def bounds(size: int, ranks: int, rank: int) -> tuple[int, int]:
    """First row of a rank's part of ``size`` rows, and the one after its last."""
    rows = -(-size // ranks)
    return min(size, rows * rank), min(size, rows * (rank + 1))


def checked_placements(
    name: str, mesh: DeviceMesh, placements: Sequence[Placement] | None, dims: int
) -> tuple[Placement, ...]:
    """Placements on a mesh of a tensor of ``dims`` dimensions, which are replicated by default.

    Raises
    ------
    ValueError
        If they are not as many as dimensions of the mesh.
    TypeError
        If one is none.
    IndexError
        If the tensor has no such dimension.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if isinstance(placements, Placement) or len(placements) != mesh.ndim:
        raise ValueError(
            f"{name}: `placements` must have the same length as `device_mesh.ndim`: a placement for each dimension of {mesh!r}; "
            f"got {placements}"
        )
    result: list[Placement] = []
    for each in placements:
        if not isinstance(each, Placement):
            raise TypeError(f"{name}: a placement is Shard(dim), Replicate() or Partial(), got {each!r}")
        if isinstance(each, Shard):
            if not -dims <= each.dim < dims:
                raise IndexError(
                    f"{name}: {each!r} of a tensor of {dims} dimensions: it has no such dimension"
                )
            each = Shard(each.dim % dims) if each.dim < 0 else each
        result.append(each)
    return tuple(result)
