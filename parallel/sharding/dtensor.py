"""``DTensor``: a tensor of which each rank of a mesh holds a part.

It holds this rank's part, and describes the whole: ``shape`` and ``numel()`` are those of the whole tensor. Optimizers
step the parts, each rank its own. What computes elements one by one works on parts; what needs the others' elements (sums,
norms, products) is refused, with a word about :meth:`DTensor.full_tensor`, rather than computed from a part.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import tensor
from nn import Parameter
from parallel.groups.collectives.tensor_collectives import all_gather_into_tensor, all_reduce, broadcast
from parallel.groups.reduce_op import ReduceOp
from tensor import Tensor
from tensor.core.base import view_of
from tensor.core.layout import contiguous
from tensor.core.size import Size
from tensor.methods.operators import Operators
from tensor.methods.overriding.protocol import disabled_torch_function
from tensor.operations.definition.catalogue import published

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.device_mesh import DeviceMesh

__all__ = ["DTensor", "Placement", "Replicate", "Shard", "distribute_tensor"]


class Placement:
    """How a tensor lies along a dimension of a mesh.

    Base class of :class:`Shard` and :class:`Replicate`.
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


@dataclass(frozen=True, slots=True)
class Shard(Placement):
    """Divided among the ranks along a dimension of the tensor.

    Parts have ``ceil(size / ranks)`` rows each; the last ones may have fewer, or none.

    Parameters
    ----------
    dim : int
        The dimension; 0 is the only one that is supported.
    """

    dim: int

    def is_shard(self, dim: int | None = None) -> bool:
        """See :meth:`Placement.is_shard`."""
        return dim in (None, self.dim)


@dataclass(frozen=True, slots=True)
class Replicate(Placement):
    """The whole tensor on each of the ranks.

    >>> parallel.tensor.Replicate()
    Replicate()
    """

    def is_replicate(self) -> bool:
        """See :meth:`Placement.is_replicate`."""
        return True


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a tensor is divided: along its first dimension, over the last dimension of a mesh.

    Attributes
    ----------
    mesh : DeviceMesh
        Of one dimension, or of two, along the first of which parts are replicated.
    shape : tuple of int
        Of the whole tensor, which has a dimension at least.
    """

    mesh: DeviceMesh
    shape: tuple[int, ...]

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One for each dimension of the mesh."""
        return (*[Replicate()] * (self.mesh.ndim - 1), Shard(0))

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

    def bounds(self, rank: int | None = None) -> tuple[int, int]:
        """First row of a rank's part, and the one after its last; of this rank by default."""
        rank = self.mesh.get_local_rank(self.mesh.ndim - 1) if rank is None else rank
        return tuple(min(self.shape[0], self.rows * each) for each in (rank, rank + 1))  # type: ignore[return-value]

    def part_of(self, whole: Tensor) -> Tensor:
        """The part of this rank, a view of the whole tensor."""
        start, end = self.bounds()
        return whole[start:end]

    def local_shape(self) -> tuple[int, ...]:
        """Shape of this rank's part."""
        start, end = self.bounds()
        return (end - start, *self.shape[1:])

    def local_offsets(self) -> tuple[int, ...]:
        """Where this rank's part begins in the whole tensor."""
        return (self.bounds()[0], *[0] * (len(self.shape) - 1))


class DTensor(Tensor):
    """A tensor of which each rank of a mesh holds a part: see :mod:`parallel.sharding.dtensor`.

    :func:`parallel.fully_shard` makes parameters such ones, and their gradients. :meth:`from_local` and
    :func:`parallel.tensor.distribute_tensor` make others.

    >>> mesh = parallel.init_device_mesh("cpu", (1,))
    >>> x = parallel.tensor.distribute_tensor(tensor.arange(4.0), mesh, [parallel.tensor.Shard(0)])
    >>> x
    DTensor(local_tensor=tensor([0., 1., 2., 3.]), device_mesh=DeviceMesh((1,), 'cpu', stride=(1,)), placements=(Shard(dim=0),))
    >>> x.mul_(2).full_tensor()
    tensor([0., 2., 4., 6.])
    """

    __slots__ = ("_sharding",)
    __torch_function__ = disabled_torch_function

    _sharding: Sharding

    # What it is

    @property
    def device_mesh(self) -> DeviceMesh:
        """The :class:`parallel.DeviceMesh` among whose ranks the tensor is divided."""
        return self._sharding.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh, a tuple of :class:`Shard` and :class:`Replicate`."""
        return self._sharding.placements

    @property
    def shape(self) -> Size:
        """Shape of the whole tensor, a ``Size``; that of this rank's part is ``to_local().shape``."""
        return Size(self._sharding.shape)

    def size(self, dim: int | None = None) -> Any:
        """Shape of the whole tensor, a ``Size``.

        Parameters
        ----------
        dim : int, optional
            Return the size along this dimension, an int.
        """
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Number of elements of the whole tensor, an int."""
        return self.shape.numel()

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """Strides of the whole tensor, were it contiguous in one memory: a tuple of int.

        Parameters
        ----------
        dim : int, optional
            Return the one along this dimension, an int.
        """
        state: Any = self._layout.device_state
        strides = contiguous[self._sharding.shape, self.dtype, state].strides
        return strides if dim is None else strides[dim]

    def __len__(self) -> int:
        return self._sharding.shape[0]

    def __repr__(self) -> str:
        return (
            f"{'Parameter containing:' + chr(10) if isinstance(self, Parameter) else ''}DTensor(local_tensor="
            f"{self.to_local().detach()!r}, device_mesh={self.device_mesh!r}, placements={self.placements})"
        )

    __str__ = __repr__

    def to_local(self) -> Tensor:
        """The part of this rank.

        A plain tensor of its shape, which shares memory and graph with this one; it may have no elements.
        """
        return self.as_subclass(Tensor)  # type: ignore[no-any-return]

    def full_tensor(self) -> Tensor:
        """The whole tensor, on each rank. All ranks of the mesh call this.

        Returns
        -------
        Tensor
            A new one, on the device of the parts, without a graph.

        Raises
        ------
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        sharding = self._sharding
        local = _plain(self)
        with tensor.no_grad():
            padded = padded_rows(local, sharding)
            whole = local.new_empty((sharding.ranks * sharding.rows, *sharding.shape[1:]))
            all_gather_into_tensor(whole.reshape(-1), padded.reshape(-1), group=shard_group(sharding.mesh))
            return whole if whole.shape == self.shape else whole[: sharding.shape[0]].clone()

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        shape: Sequence[int] | None = None,
    ) -> DTensor:
        """The tensor of which ``local_tensor`` is this rank's part, whose memory it shares.

        Parameters
        ----------
        local_tensor : Tensor
            The part, contiguous; no gradients flow to it.
        device_mesh : DeviceMesh
            Of one dimension, or of two, along the first of which parts are replicated.
        placements : list of Placement, optional
            ``Shard(0)``, after ``Replicate()`` on a mesh of two dimensions.
        shape : sequence of int, optional
            Of the whole tensor; by default all ranks have as many rows as this one.

        Raises
        ------
        NotImplementedError
            For other placements.
        ValueError
            If the part does not have the shape that its rank's part of ``shape`` has.
        """
        check_placements("DTensor.from_local()", device_mesh, placements)
        local = _plain(local_tensor).contiguous()
        if shape is None and local.dim():
            shape = (local.shape[0] * device_mesh.size(device_mesh.ndim - 1), *local.shape[1:])
        return distributed(local, Sharding(device_mesh, tuple(shape or ())))

    # What keeps the class

    def detach(self) -> DTensor:
        """The same tensor without its graph.

        A DTensor that shares the memory of this one.
        """
        return distributed(_plain(self), self._sharding)

    @property
    def data(self) -> Any:
        """As :meth:`detach`.

        What is assigned is a DTensor of the same shape and mesh, or this rank's part of one; ValueError is raised otherwise.
        """
        return self.detach()

    @data.setter
    def data(self, new_data: Tensor) -> None:
        if isinstance(new_data, DTensor):
            self._check(new_data, "data")
        elif tuple(new_data._layout.shape) != self._sharding.local_shape():
            raise ValueError(
                f"data of {_described(self)} is a DTensor like it, or this rank's part of shape "
                f"{list(self._sharding.local_shape())}; got a tensor of shape {list(new_data.shape)}"
            )
        Tensor.data.__set__(self, new_data)  # type: ignore[attr-defined]

    def as_subclass(self, cls: Any) -> Any:
        """See :meth:`tensor.Tensor.as_subclass`; a Parameter of it is divided, too."""
        result = super().as_subclass(ShardedParameter if cls is Parameter else cls)
        if isinstance(result, DTensor):
            result._sharding = self._sharding
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = memo.get(id(self))
        if result is None:
            copied = distributed(_plain(self).clone(), self._sharding)
            result = copied.as_subclass(type(self))
            memo[id(self)] = result.requires_grad_(self.requires_grad)
        return result

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{_described(self)} cannot be pickled: its mesh belongs to this process. Take full_tensor(), or to_local()"
        )

    def copy_(self, src: Any, non_blocking: bool = False) -> DTensor:
        """Set the elements to those of ``src``, a DTensor divided alike, or a whole tensor, of which this rank takes its part.

        Parameters
        ----------
        src : Tensor
            Of the same shape.
        non_blocking : bool
            See :meth:`tensor.Tensor.copy_`.

        Raises
        ------
        ValueError
            If ``src`` has another shape, or another mesh.
        """
        if isinstance(src, DTensor):
            self._check(src, "copy_()")
            source = src.to_local()
        elif tuple(src.shape) == self._sharding.shape:
            source = self._sharding.part_of(src)
        else:
            raise ValueError(
                f"copy_() sets {_described(self)} from a DTensor like it, or from a whole tensor; got a tensor of shape "
                f"{list(src.shape)}"
            )
        self.to_local().copy_(source, non_blocking)
        return self

    def _check(self, other: DTensor, name: str) -> None:
        if other._sharding != self._sharding:
            raise ValueError(
                f"{name}: {_described(self)} and {_described(other)} are not divided alike: use full_tensor() of one"
            )

    @staticmethod
    def norm_over_ranks(tensors: Sequence[DTensor], norm: Tensor, power: float) -> Tensor:
        """The norm of whole tensors from that of the parts on this rank; :mod:`nn.utils.clip_grad` calls it.

        Parameters
        ----------
        tensors : list of DTensor
            Tensors of one mesh.
        norm : Tensor
            The norm of their parts, a scalar, which may be written to.
        power : float
            The p of the p-norm.

        Raises
        ------
        NotImplementedError
            For tensors of several meshes.
        """
        meshes = {each._sharding.mesh for each in tensors}
        if len(meshes) > 1:
            raise NotImplementedError(
                f"the norm of tensors on different meshes, {', '.join(map(repr, meshes))}: clip those of each mesh by themselves"
            )
        group = shard_group(meshes.pop())
        if power == float("inf"):
            all_reduce(norm, ReduceOp.MAX, group=group)
            return norm
        total = norm**power if power else norm
        all_reduce(total, group=group)
        return total ** (1 / power) if power else total

    @staticmethod
    def any_over_ranks(tensors: Sequence[DTensor], flags: list[Tensor]) -> list[Tensor]:
        """Whether a flag is set on any rank, for each of ``flags``; :class:`tensor.amp.GradScaler` calls it.

        Parameters
        ----------
        tensors : list of DTensor
            What the flags are about.
        flags : list of Tensor
            Numbers of this rank, which are written to.
        """
        flags = flags or [tensor.zeros((), device=tensors[0].device)]
        for mesh in {each._sharding.mesh for each in tensors}:
            for flag in flags:
                all_reduce(flag, ReduceOp.MAX, group=shard_group(mesh))
        return flags


class ShardedParameter(DTensor, Parameter):
    """A parameter that is divided among ranks."""

    __slots__ = ()


def distributed(local: Tensor, sharding: Sharding) -> DTensor:
    """The tensor of which ``local`` is this rank's part.

    Raises
    ------
    ValueError
        If the part has another shape than it should, or is not contiguous.
    """
    if not sharding.shape or tuple(local._layout.shape) != sharding.local_shape():
        raise ValueError(
            f"of a tensor of shape {list(sharding.shape)} this rank's part on {sharding.mesh!r} has shape "
            f"{list(sharding.local_shape()) if sharding.shape else 'none'}; got {list(local._layout.shape)}"
        )
    result: DTensor = local.detach().as_subclass(DTensor)
    result._sharding = sharding
    return result


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Divide a tensor among the ranks of a mesh, each of which gets a copy of its part. All its ranks call this.

    Parameters
    ----------
    tensor : Tensor
        The whole tensor, of the same shape on all ranks, on the device of this rank.
    device_mesh : DeviceMesh
        Of one dimension, or of two, along the first of which parts are replicated.
    placements : list of Placement, optional
        ``Shard(0)``, after ``Replicate()`` on a mesh of two dimensions.
    src_data_rank : int, optional
        The rank along each dimension of the mesh whose values count; None takes each rank's own.

    Returns
    -------
    DTensor
        A leaf of the graph, which requires gradients if ``tensor`` does.

    Raises
    ------
    ValueError
        Without a mesh, or if the tensor has no dimension.
    NotImplementedError
        For other placements.
    DistBackendError
        If a rank died, or did not come within the group's timeout.
    """
    if device_mesh is None:
        raise ValueError("distribute_tensor() divides a tensor among the ranks of a mesh: pass device_mesh=")
    check_placements("distribute_tensor()", device_mesh, placements)
    if not tensor.dim():
        raise ValueError(
            "distribute_tensor() divides a tensor along its first dimension, and this one has none"
        )
    whole = _plain(tensor).contiguous()
    if src_data_rank is not None:
        whole = whole.clone() if whole._storage is tensor._storage else whole
        for group in device_mesh.get_all_groups():
            broadcast(whole, group=group, group_src=src_data_rank)
    sharding = Sharding(device_mesh, tuple(whole.shape))
    result = distributed(sharding.part_of(whole).clone(), sharding)
    result.requires_grad_(tensor.requires_grad)
    return result


def check_placements(name: str, mesh: DeviceMesh, placements: Sequence[Placement] | None) -> None:
    """Check that a mesh and placements are such as are supported."""
    expected = (*[Replicate()] * (mesh.ndim - 1), Shard(0))
    if mesh.ndim > 2 or (placements is not None and tuple(placements) != expected):
        raise NotImplementedError(
            f"{name} divides tensors by Shard(0) along the last dimension of a mesh of one or two, with Replicate() along the "
            f"other; got placements {placements} on {mesh!r}"
        )


def shard_group(mesh: DeviceMesh) -> Any:
    """The process group among whose ranks tensors on ``mesh`` are divided."""
    return mesh.get_group(mesh.ndim - 1)


def padded_rows(local: Tensor, sharding: Sharding) -> Tensor:
    """``local`` with as many rows as a part has at most; zeros follow."""
    if len(local) == sharding.rows:
        return local
    padded = local.new_zeros((sharding.rows, *sharding.shape[1:]))
    padded[: len(local)].copy_(local)
    return padded


def _plain(x: Tensor) -> Tensor:
    """The elements of this rank, without a graph."""
    result: Tensor = view_of(x._storage, x._layout, x._offset)
    return result


def _described(x: DTensor) -> str:
    return f"the DTensor of shape {list(x._sharding.shape)} on {x._sharding.mesh!r}"


#: Operations on each element by itself.
_ELEMENTWISE = [
    "abs",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "pow",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sign",
    "square",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "clamp",
    "clip",
    "lerp",
    "addcmul",
    "addcdiv",
    "maximum",
    "minimum",
    "isfinite",
    "isnan",
    "isinf",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "multiply",
    "divide",
    "subtract",
    "true_divide",
    "nan_to_num",
    "where",
    "clone",
    "clamp_min",
    "clamp_max",
    "logical_not",
    "logical_and",
    "logical_or",
]
_OPERATORS = "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv pow rpow ipow neg pos abs eq ne lt le gt ge"
#: Methods that copy or set elements.
_METHODS = ["to", "zero_", "fill_", "cpu", "cuda"]
#: What gives elements to Python.
_OF_ELEMENTS = [
    "__getitem__",
    "__setitem__",
    "__iter__",
    "__bool__",
    "__float__",
    "__int__",
    "__array__",
    "item",
    "tolist",
    "numpy",
]


class _Method:
    """A method of :class:`DTensor` in place of one of ``Tensor``."""

    __slots__ = ("_function", "_original")

    def __init__(self, function: Callable[..., Any], original: Callable[..., Any]) -> None:
        self._function = function
        self._original = original

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._original
        return functools.wraps(self._original)(functools.partial(self._function, instance))


def _elementwise(name: str, function: Callable[..., Any]) -> _Method:
    """``function`` of the parts of tensors that are divided alike."""

    def method(self: DTensor, *args: Any, **kwargs: Any) -> Any:
        def part(value: Any) -> Any:
            if isinstance(value, DTensor):
                self._check(value, f"{name}()")
                return value.to_local()
            if isinstance(value, Tensor) and value.dim():
                raise TypeError(
                    f"{name}(): {_described(self)} and a tensor of shape {list(value.shape)} that is not divided: make it a "
                    "DTensor with parallel.tensor.distribute_tensor, or use full_tensor()"
                )
            return value

        local = self.to_local()
        result = function(local, *map(part, args), **{key: part(value) for key, value in kwargs.items()})
        if result is local:
            return self
        if not isinstance(result, Tensor):
            return result
        divided = result.as_subclass(DTensor)
        divided._sharding = self._sharding
        return divided

    return _Method(method, function)


def _refused(name: str, function: Callable[..., Any]) -> _Method:
    def method(self: DTensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{name}: {_described(self)} has a part of its elements here, and this operation would compute with them alone: "
            "use full_tensor() for the whole, or to_local() for the part"
        )

    return _Method(method, function)


def _define() -> None:
    """Give the class its operations: those on elements by themselves, and errors for the others."""
    elementwise = {*_ELEMENTWISE, *(f"{name}_" for name in _ELEMENTWISE), *_METHODS}
    operators = {f"__{name}__" for name in _OPERATORS.split()}
    own = {*vars(DTensor), "__hash__", "__class__"}
    functions = {
        **published("Tensor"),
        **{name: each for name, each in vars(Operators).items() if name.startswith("__") and callable(each)},
        **{name: getattr(Tensor, name) for name in _OF_ELEMENTS},
    }
    for name, function in functions.items():
        if name not in own:
            computes = name in elementwise or name in operators
            setattr(
                DTensor, name, _elementwise(name, function) if computes else _refused(f"{name}()", function)
            )
    # Defined with __eq__, it would be None.
    DTensor.__hash__ = Tensor.__hash__  # type: ignore[method-assign]


_define()
