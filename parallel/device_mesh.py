"""``DeviceMesh``: the ranks of a job as an array of several dimensions, each of which is a process group.

A mesh of shape ``(2, 4)`` with the dimensions ``("replicate", "shard")`` has two groups of four ranks along ``shard``, and
four groups of two along ``replicate``. Each rank has one group of each dimension. PyTorch has these names in
``torch.distributed.device_mesh``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import tensor
from parallel.groups.process_groups import (
    checked_group,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    is_initialized,
)
from parallel.groups.setup import init_process_group, new_group
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from parallel.groups.process_groups import ProcessGroup
    from tensor import Tensor

    #: Backends of dimensions, by their names or numbers.
    Backends = dict[int | str, Any]

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks of a job as an array, with a process group for each dimension. All its ranks construct it.

    >>> mesh = parallel.DeviceMesh("cuda", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))  # doctest: +SKIP
    >>> mesh["tp"].get_group()  # of ranks 0 and 1, on rank 0  # doctest: +SKIP
    <parallel.ProcessGroup '1', gloo, rank 0 of 2>

    :func:`init_device_mesh` makes the mesh of all ranks. Before :func:`parallel.init_process_group`, constructing a mesh
    calls it. A mesh is equal to another one with the same ranks, shape, names and type of device.

    Attributes
    ----------
    device_type : str
        Type of the devices: ``"cuda"`` or ``"cpu"``.
    mesh_dim_names : tuple of str or None
        Names of the dimensions.

    Parameters
    ----------
    device_type : str
        Type of the devices, without an index.
    mesh : Tensor, array or nested list of int
        The numbers of the ranks, each at most once.
    mesh_dim_names : tuple of str, optional
        A name for each dimension.
    backend_override : tuple, optional
        For each dimension a pair of a backend's name, or None, and options, which are accepted for compatibility.

    Raises
    ------
    TypeError
        If ``mesh`` has other elements than integers.
    ValueError
        If a rank comes twice or does not exist, or ``mesh`` is empty.
    RuntimeError
        If ``device_type`` has an index, or the names are not as many as dimensions, or not unique.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Sequence[tuple[str | None, Any]] | None = None,
    ) -> None:
        ranks = _ranks_of(mesh)
        names = _checked_names(mesh_dim_names, ranks.shape)
        _check_type(device_type)
        _set_up(device_type)
        size = get_world_size()
        outside = ranks[(ranks < 0) | (ranks >= size)]
        if outside.size:
            raise ValueError(
                f"Rank {outside[0]} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
        pairs = backend_override or [(None, None)] * ranks.ndim
        backends = [name for name, _ in pairs]
        if len(backends) != ranks.ndim:
            raise RuntimeError(
                f"backend_override has {len(backends)} entries, and the mesh {ranks.ndim} dimensions"
            )
        self._describe(device_type, ranks, _strides(ranks.shape), names, None)
        self._groups: list[ProcessGroup] = self._make_groups(backends)

    def _describe(
        self,
        device_type: str,
        ranks: NDArray[Any],
        strides: tuple[int, ...],
        names: tuple[str, ...] | None,
        root: DeviceMesh | None,
    ) -> None:
        self.device_type = device_type
        self.mesh_dim_names = names
        self._ranks = ranks
        self._stride = strides
        self._root = root
        #: Meshes of some dimensions, and flattened ones, by the names of their dimensions.
        self._slices: dict[tuple[str, ...], DeviceMesh] = {}
        self._flattened: dict[str, DeviceMesh] = {}
        self._rank = get_rank()
        position = np.argwhere(ranks == self._rank)
        self._coordinate = tuple(map(int, position[0])) if len(position) else None
        self._groups = []

    def _make_groups(self, backends: Sequence[str | None]) -> list[ProcessGroup]:
        """Make the group of each dimension that has this rank; other ranks make theirs."""
        if self._coordinate is None:
            return []
        groups: list[Any] = []
        everyone = list(range(get_world_size()))
        for dim, backend in enumerate(backends):
            index: list[Any] = list(self._coordinate)
            index[dim] = slice(None)
            members = self._ranks[tuple(index)].tolist()
            if members == everyone and backend is None:
                groups.append(checked_group(None))
                continue
            name = str(dim) if self.mesh_dim_names is None else self.mesh_dim_names[dim]
            groups.append(
                new_group(
                    members,
                    backend=backend,
                    use_local_synchronization=True,
                    group_desc=f"mesh_{name}",
                    sort_ranks=False,
                )
            )
        return groups

    def __repr__(self) -> str:
        if self.mesh_dim_names is None:
            shape = str(self.shape)
        else:
            pairs = zip(self.mesh_dim_names, self.shape, strict=True)
            shape = f"({', '.join(f'{name}={size}' for name, size in pairs)})"
        return f"DeviceMesh({shape}, '{self.device_type}', stride={self._stride})"

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, tuple(self._ranks.ravel().tolist()), self.mesh_dim_names

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has process groups of this process")

    # What it is made of

    @property
    def mesh(self) -> Tensor:
        """The numbers of the ranks, an int32 tensor on the CPU in the shape of the mesh; a new one."""
        return tensor.tensor(self._ranks.astype(np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """Ranks along each dimension, a tuple of int."""
        return tuple(map(int, self._ranks.shape))

    @property
    def ndim(self) -> int:
        """Number of dimensions, an int."""
        return self._ranks.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        """Number of ranks.

        Parameters
        ----------
        mesh_dim : int, optional
            Count those along this dimension alone.

        Returns
        -------
        int
        """
        return int(self._ranks.size) if mesh_dim is None else self.shape[mesh_dim]

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Indices of this rank in the mesh, one for each dimension.

        A tuple of int; None if the mesh does not have this rank.
        """
        return self._coordinate

    def get_rank(self) -> int:
        """Rank of this process in the job, an int, whether the mesh has it or not."""
        return self._rank

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Index of this rank along a dimension.

        Parameters
        ----------
        mesh_dim : int or str, optional
            The dimension, by its number or name; may be left out if there is one.

        Returns
        -------
        int

        Raises
        ------
        RuntimeError
            If ``mesh_dim`` is left out of several dimensions, or the mesh does not have this rank.
        KeyError, IndexError
            If there is no such dimension.
        """
        dim = self._dim(mesh_dim)
        return self._own_coordinate()[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The process group along a dimension that has this rank.

        Parameters
        ----------
        mesh_dim : int or str, optional
            The dimension, by its number or name; may be left out if there is one.

        Returns
        -------
        ProcessGroup

        Raises
        ------
        RuntimeError
            If ``mesh_dim`` is left out of several dimensions, or the mesh does not have this rank.
        KeyError, IndexError
            If there is no such dimension.
        """
        dim = self._dim(mesh_dim)
        self._own_coordinate()
        return self._groups[dim]

    def get_all_groups(self) -> list[ProcessGroup]:
        """The process groups that have this rank, one for each dimension.

        A new list; it is empty if the mesh does not have this rank.
        """
        return list(self._groups)

    def _own_coordinate(self) -> tuple[int, ...]:
        if self._coordinate is None:
            raise RuntimeError(
                f"rank {self._rank} is not in {self!r}, which has ranks {self._ranks.tolist()}"
            )
        return self._coordinate

    def _dim(self, argument: int | str | None) -> int:
        """Number of a dimension."""
        if argument is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when "
                    "device_mesh.ndim > 1. If you want to get the list of all the ProcessGroups in the DeviceMesh, please "
                    "use `get_all_groups()` instead."
                )
            return 0
        if isinstance(argument, str):
            if argument not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"Mesh dimension '{argument}' does not exist. Available mesh dimensions are: "
                    f"mesh_dim_names={self.mesh_dim_names}"
                )
            assert self.mesh_dim_names is not None
            return self.mesh_dim_names.index(argument)
        if not -self.ndim <= argument < self.ndim:
            raise IndexError(
                f"Mesh dimension {argument} does not exist: the mesh has {self.ndim}, from 0 to {self.ndim - 1}"
            )
        return argument % self.ndim

    # Meshes of some of the dimensions

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh along some of the dimensions that has this rank, with the same process groups.

        Parameters
        ----------
        mesh_dim_names : str or tuple of str
            Names of the dimensions, in the mesh's order; or one that :meth:`_flatten` made.

        Returns
        -------
        DeviceMesh
            The same object for the same names.

        Raises
        ------
        RuntimeError
            If the mesh has no names, or a name comes twice.
        KeyError
            If a name does not exist, or the names are in another order than the mesh's.
        """
        names = self.mesh_dim_names
        if names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        argument = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if argument == names:
            return self
        if len(argument) == 1 and argument[0] in self._flattened:
            return self._flattened[argument[0]]
        if not argument or any(name not in names for name in argument):
            raise KeyError(
                f"Invalid mesh_dim_names {argument} specified. Valid mesh_dim_names are {[*names, *self._flattened]}."
            )
        if len(set(argument)) != len(argument):
            raise RuntimeError(f"Slicing overlapping dim_names {argument} is not allowed.")
        dims = [names.index(name) for name in argument]
        if dims != sorted(dims):
            raise KeyError(
                f"Invalid mesh_dim_names {argument} specified. Mesh dim indices should be in ascending order."
            )
        mesh = self._slices.get(argument)
        if mesh is None:
            mesh = self._slices[argument] = self._slice(dims, argument)
        return mesh

    def _slice(self, dims: list[int], names: tuple[str, ...]) -> DeviceMesh:
        coordinate = self._coordinate or (0,) * self.ndim
        index = tuple(slice(None) if dim in dims else coordinate[dim] for dim in range(self.ndim))
        mesh = object.__new__(DeviceMesh)
        strides = tuple(self._stride[dim] for dim in dims)
        mesh._describe(self.device_type, self._ranks[index], strides, names, self._get_root_mesh())
        mesh._groups = [self._groups[dim] for dim in dims] if self._groups else []
        return mesh

    def _get_root_mesh(self) -> DeviceMesh:
        """The mesh that this one is a slice of, or this one."""
        return self if self._root is None else self._root

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The mesh's ranks in one dimension, which the root mesh then has under ``mesh_dim_name``, too.

        Without a name it is called as its dimensions, joined by ``_``. All ranks of the mesh call it.
        """
        names = self.mesh_dim_names
        if names is None:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        root = self._get_root_mesh()
        name = "_".join(names) if mesh_dim_name is None else mesh_dim_name
        if self.ndim == 1 and name == names[0]:
            return self
        if name in (root.mesh_dim_names or ()):
            raise ValueError(f"{name!r} is a dimension of {root!r} already: choose another name")
        present = root._flattened.get(name)
        if present is not None:
            if present._ranks.tolist() != self._ranks.ravel().tolist():
                raise ValueError(
                    f"{name!r} is the name of another flattened mesh, {present!r}: choose another name"
                )
            return present
        mesh = object.__new__(DeviceMesh)
        mesh._describe(self.device_type, self._ranks.reshape(-1), (self._stride[-1],), (name,), root)
        mesh._groups = mesh._make_groups([None])
        root._flattened[name] = mesh
        return mesh

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """A mesh over process groups that exist.

        Parameters
        ----------
        group : ProcessGroup or list of ProcessGroup
            This rank's group, or that of each dimension.
        device_type, mesh_dim_names
            See :class:`DeviceMesh`.
        mesh : Tensor, array or nested list of int, optional
            The numbers of the ranks; needed with several groups.

        Returns
        -------
        DeviceMesh

        Raises
        ------
        TypeError
            If ``mesh`` has other elements than integers.
        ValueError
            If ``mesh`` does not have the ranks of the groups, or is left out with several groups.
        RuntimeError
            If a name or the type of device is not valid.
        """
        _check_type(device_type)
        groups: list[Any] = list(group) if isinstance(group, (list, tuple)) else [group]
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if mesh is None:
            if len(groups) > 1:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = get_process_group_ranks(groups[0])
        ranks = _ranks_of(mesh)
        if ranks.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got "
                f"mesh {ranks.tolist()} and {len(groups)} ProcessGroups"
            )
        result = object.__new__(DeviceMesh)
        names = _checked_names(mesh_dim_names, ranks.shape)
        result._describe(device_type, ranks, _strides(ranks.shape), names, None)
        coordinate = result._own_coordinate()
        for dim, each in enumerate(groups):
            index: list[Any] = list(coordinate)
            index[dim] = slice(None)
            members = ranks[tuple(index)].tolist()
            if get_process_group_ranks(each) != members:
                raise ValueError(
                    f"mesh has ranks {members} along dimension {dim} at rank {result._rank}, and the group there has "
                    f"{get_process_group_ranks(each)}"
                )
        result._groups = groups
        return result


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Backends | None = None,
) -> DeviceMesh:
    """The first ranks of the job, mostly all of them, as a mesh of a shape. All ranks call this.

    >>> parallel.init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
    DeviceMesh((replicate=1, shard=1), 'cpu', stride=(1, 1))

    Before :func:`parallel.init_process_group` it calls that.

    Parameters
    ----------
    device_type : str
        Type of the devices, ``"cuda"`` or ``"cpu"``, without an index.
    mesh_shape : tuple of int
        Ranks along each dimension; the last one has neighbours.
    mesh_dim_names : tuple of str, optional
        A name for each dimension.
    backend_override : dict, optional
        Backends of dimensions, by their names or numbers: a name, or a pair of a name and options, which are accepted for
        compatibility. The default group's by default.

    Returns
    -------
    DeviceMesh

    Raises
    ------
    TypeError
        If ``mesh_shape`` is not a sequence of integers.
    ValueError
        If a size is not positive.
    RuntimeError
        If the mesh has more ranks than the job, ``device_type`` has an index, or the names are not as many as
        dimensions, or not unique.
    KeyError
        If ``backend_override`` names a dimension that does not exist.
    """
    shape = tuple(mesh_shape)
    names = _checked_names(mesh_dim_names, shape)
    if any(type(size) is not int for size in shape):
        raise TypeError(f"mesh_shape is a tuple of integers, got {shape}")
    if not shape or min(shape) < 1:
        raise ValueError(f"mesh_shape is a tuple of positive integers, got {shape}")
    _check_type(device_type)
    _set_up(device_type)
    count = int(np.prod(shape))
    if count > get_world_size():
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {get_world_size()}, but found {count} ranks!"
        )
    backends: list[tuple[str | None, Any]] = [(None, None)] * len(shape)
    for key, value in (backend_override or {}).items():
        if isinstance(key, str):
            if key not in (names or ()):
                raise KeyError(f"backend_override names the dimension '{key}': the mesh has {names}")
            dim = (names or ()).index(key)
        elif 0 <= key < len(shape):
            dim = key
        else:
            raise KeyError(f"backend_override names the dimension {key}: the mesh has {len(shape)}")
        backends[dim] = (value, None) if isinstance(value, str) else tuple(value)
    return DeviceMesh(
        device_type,
        np.arange(count).reshape(shape),
        mesh_dim_names=names,
        backend_override=backends,
    )


def _ranks_of(mesh: Any) -> NDArray[Any]:
    ranks = np.asarray(mesh.cpu().numpy() if isinstance(mesh, tensor.Tensor) else mesh)
    if ranks.ndim == 0 or not ranks.size:
        raise ValueError(f"mesh has at least one dimension and one rank; got the shape {ranks.shape}")
    if ranks.dtype.kind not in "iu":
        raise TypeError(f"mesh has the numbers of ranks, integers; got elements of {ranks.dtype}")
    ranks = ranks.astype(np.int64)
    if np.unique(ranks).size != ranks.size:
        raise ValueError(f"ranks list must not contain duplicate entries, got {ranks.tolist()}")
    return ranks


def _checked_names(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = tuple(names)
    if len(set(names)) != len(names):
        raise RuntimeError(
            f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}"
        )
    if len(names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found "
            f"len(mesh_dim_names): {len(names)} and len(mesh_shape): {len(shape)}."
        )
    return names


def _check_type(device_type: str) -> None:
    if not isinstance(device_type, str) or device_type not in ("cpu", "cuda"):
        index = isinstance(device_type, str) and ":" in device_type
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. If you maintained a 'torch.device' object, "
            "it's recommended to pass in 'device.type'."
            if index
            else f"device_type is 'cpu' or 'cuda', got {device_type!r}"
        )


def _set_up(device_type: str) -> None:
    """Join the job, and use the device of this process's number on its machine, unless the program did so."""
    if not is_initialized():
        init_process_group()
    local = get_node_local_rank(-1)
    if device_type == "cuda" and local >= 0 and not tensor.cuda.is_initialized():
        tensor.cuda.set_device(local)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[dim + 1 :])) for dim in range(len(shape)))


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
