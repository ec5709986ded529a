"""``DTensor``: a tensor of which each rank of a mesh holds a part.

It holds this rank's part, and describes the whole: ``shape`` and ``numel()`` are those of the whole tensor. Optimizers
step the parts, each rank its own. What computes elements one by one works on parts; what needs the others' elements (sums,
norms, products) is refused, with a word about :meth:`DTensor.full_tensor`, rather than computed from a part.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn

import tensor
from nn import Parameter
from parallel.groups.collectives.tensor_collectives import all_reduce, broadcast
from parallel.groups.reduce_op import ReduceOp
from tensor import Tensor
from tensor.core.base import view_of
from tensor.core.layout import contiguous
from tensor.core.size import Size
from tensor.methods.operators import Operators
from tensor.methods.overriding.protocol import disabled_torch_function
from tensor.operations.definition.catalogue import published

from .placements import Partial, Replicate, Shard, Sharding, checked_placements
from .redistribution import gathered_for_sums, moved, redistributed, summing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.device_mesh import DeviceMesh

    from .placements import Placement

__all__ = ["DTensor", "distribute_tensor"]


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

    __slots__ = ("_for_sums", "_sharding", "_source")
    __torch_function__ = disabled_torch_function

    _sharding: Sharding
    #: What this was gathered from, a part and its sharding; and the elements for what computes terms of their gradient.
    _source: tuple[Tensor, Sharding]
    _for_sums: Tensor

    # What it is

    @property
    def device_mesh(self) -> DeviceMesh:
        """The :class:`parallel.DeviceMesh` among whose ranks the tensor is divided."""
        return self._sharding.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh: a tuple of ``Shard``, ``Replicate`` and ``Partial``."""
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
        return self.shape[0]

    def __repr__(self) -> str:
        return (
            f"{'Parameter containing:' + chr(10) if isinstance(self, Parameter) else ''}DTensor(local_tensor="
            f"{self.to_local().detach()!r}, device_mesh={self.device_mesh!r}, placements={self.placements})"
        )

    __str__ = __repr__

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The part of this rank.

        Parameters
        ----------
        grad_placements : list of Placement, optional
            How its gradient lies: ``Partial()`` where each rank computes a term of it. By default as the tensor does, and whole
            on each rank where the tensor is partial.

        Returns
        -------
        Tensor
            A plain tensor of its shape, which shares memory and graph with this one; it may have no elements.
        """
        local: Tensor = self.as_subclass(Tensor)
        if grad_placements is None:
            return local
        sharding = self._sharding
        dims = len(sharding.shape)
        present = checked_placements("to_local(): grad_placements", sharding.mesh, grad_placements, dims)
        expected = tuple(Replicate() if each.is_partial() else each for each in sharding.placements)
        return moved(
            local,
            lambda x: x.view_as(x),
            lambda gradient: redistributed(gradient, sharding.replaced(present), expected),
        )

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on each rank. All ranks of the mesh call this.

        Parameters
        ----------
        grad_placements : list of Placement, optional
            See :meth:`to_local`.

        Returns
        -------
        Tensor
            On the device of the parts; gradients flow back to them.

        Raises
        ------
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        whole = self.redistribute(placements=[Replicate()] * self._sharding.mesh.ndim)
        local = whole.to_local(grad_placements=grad_placements)
        return local.view_as(local) if local._storage is not self._storage else local.clone()

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
    ) -> DTensor:
        """The same tensor, placed otherwise. All ranks of the mesh call this, and in the backward pass do the opposite.

        >>> mesh = parallel.init_device_mesh("cpu", (1,))
        >>> x = parallel.tensor.distribute_tensor(tensor.ones(4, 2), mesh, [parallel.tensor.Shard(0)])
        >>> x.redistribute(placements=[parallel.tensor.Shard(1)]).placements
        (Shard(dim=1),)

        Parameters
        ----------
        device_mesh : DeviceMesh, optional
            The tensor's own.
        placements : list of Placement
            One for each dimension of the mesh.
        async_op : bool
            Accepted for compatibility: on devices nothing waits in either case.

        Returns
        -------
        DTensor
            This one, if the placements are its own.

        Raises
        ------
        RuntimeError
            Without placements.
        NotImplementedError
            For another mesh.
        DistBackendError
            If a rank died, or did not come within the group's timeout.
        """
        sharding = self._sharding
        if device_mesh is not None and device_mesh != sharding.mesh:
            raise NotImplementedError(
                f"redistribute() stays on the tensor's mesh, {sharding.mesh!r}; got {device_mesh!r}: use full_tensor() and "
                "distribute_tensor()"
            )
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        target = checked_placements("redistribute()", sharding.mesh, placements, len(sharding.shape))
        if target == sharding.placements:
            return self
        local = self.to_local()
        result = wrapped(redistributed(local, sharding, target), sharding.replaced(target))
        if sharding.mesh.ndim == 1 and sharding.placements[0].is_shard() and target[0].is_replicate():
            result._source = local, sharding
        return result

    def for_sums(self) -> Tensor:
        """The elements of this rank, for what computes a term of their gradient on each: the backward pass adds these up.

        A plain tensor. The mesh has one dimension, along which this one is replicated.
        """
        try:
            return self._for_sums
        except AttributeError:
            pass
        source: tuple[Tensor, Sharding] | None = getattr(self, "_source", None)
        local = self.to_local()
        if source is None:
            result = summing(local, self._sharding, 0)
        else:
            part, sharding = source
            result = gathered_for_sums(part, sharding, 0, local.detach())
        if not self.is_leaf:
            # Once for all that read it. A leaf outlives its graphs.
            self._for_sums = result
        return result

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> DTensor:
        """The tensor of which ``local_tensor`` is this rank's part, whose memory it shares. Gradients flow to it.

        Parameters
        ----------
        local_tensor : Tensor
            The part.
        device_mesh : DeviceMesh
            The ranks.
        placements : list of Placement, optional
            One for each dimension of the mesh; replicated by default.
        run_check : bool
            Whether ranks that should have the same elements get those of the first one. All ranks call this then.
        shape : sequence of int, optional
            Of the whole tensor; by default all ranks have parts of the size of this one.
        stride : sequence of int, optional
            Accepted for compatibility.

        Raises
        ------
        ValueError
            If the part does not have the shape that its rank's part of ``shape`` has, or placements are not as many as
            dimensions of the mesh.
        IndexError
            If the tensor has no such dimension.
        """
        local = local_tensor.as_subclass(Tensor)
        chosen = checked_placements("DTensor.from_local()", device_mesh, placements, local.dim())
        if shape is None:
            sizes = list(local.shape)
            for mesh_dim, each in enumerate(chosen):
                if isinstance(each, Shard):
                    sizes[each.dim] *= device_mesh.size(mesh_dim)
            shape = sizes
        sharding = Sharding(device_mesh, tuple(shape), chosen)
        _check_part(local, sharding)
        if run_check:
            with tensor.no_grad():
                for mesh_dim, each in enumerate(chosen):
                    if each.is_replicate():
                        broadcast(local.detach(), group=device_mesh.get_group(mesh_dim), group_src=0)
        # A tensor of its own: as_subclass() returns the argument where that is plain.
        return wrapped(local.view_as(local), sharding)

    @property
    def grad(self) -> Tensor | None:
        """The gradient: a DTensor that lies as this one does, and whole where this one is partial.

        It may be set to such one, to this rank's part of one, or to None; ValueError is raised for one that lies otherwise.
        """
        gradient: Tensor | None = Tensor.grad.__get__(self)
        if gradient is None or tuple(gradient._layout.shape) != self._sharding.local_shape():
            return gradient
        return wrapped(gradient, self._sharding)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if isinstance(grad, DTensor):
            self._check(grad, "grad")
            grad = grad.to_local()
        Tensor.grad.__set__(self, grad)  # type: ignore[attr-defined]

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

    def is_pinned(self, device: Any = None) -> bool:
        """Whether this rank's part is in pinned memory; see :meth:`tensor.Tensor.is_pinned`.

        Parameters
        ----------
        device : device, optional
            As there.
        """
        return bool(_plain(self).is_pinned(device))

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
    def norm_over_ranks(
        tensors: Sequence[DTensor], norm: Callable[[list[Tensor]], Tensor], power: float
    ) -> Tensor:
        """The norm of whole tensors; :mod:`nn.utils.clip_grad` calls it.

        Parameters
        ----------
        tensors : list of DTensor
            Of any meshes, the same ones in the same order on all ranks.
        norm : callable
            The norm of plain tensors, of which there is at least one.
        power : float
            The p of the p-norm.
        """
        together: dict[tuple[int, ...], tuple[list[Any], list[DTensor]]] = {}
        for each in tensors:
            divided = _resolved(each)
            groups = divided._sharding.groups()
            together.setdefault(tuple(map(id, groups)), (groups, []))[1].append(divided)
        norms = []
        for groups, members in together.values():
            parts = [part for each in members if (part := each.to_local()).numel()]
            total = norm(parts) if parts else members[0].to_local().new_zeros(())
            if power != float("inf"):
                total = total**power if power else total
            for group in groups:
                all_reduce(total, ReduceOp.MAX if power == float("inf") else ReduceOp.SUM, group=group)
            norms.append(total ** (1 / power) if power and power != float("inf") else total)
        return norms[0] if len(norms) == 1 else norm(norms)

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
        groups = {id(group): group for each in tensors for group in each._sharding.groups()}
        for group in groups.values():
            for flag in flags:
                all_reduce(flag, ReduceOp.MAX, group=group)
        return flags


class ShardedParameter(DTensor, Parameter):
    """A parameter that is divided among ranks."""

    __slots__ = ()


def wrapped(local: Tensor, sharding: Sharding) -> DTensor:
    """The tensor of which ``local``, a plain one, is this rank's part, with its graph."""
    result: DTensor = local.as_subclass(DTensor)
    result._sharding = sharding
    return result


def local_part(x: Tensor) -> Tensor:
    """The elements of this rank, with their graph; a plain tensor itself."""
    return x.to_local() if isinstance(x, DTensor) else x


def placed_like(local: Tensor, x: Tensor) -> Tensor:
    """``local`` as a DTensor that lies as ``x`` does; where ``x`` is plain, ``local`` itself."""
    return wrapped(local, x._sharding) if isinstance(x, DTensor) else local


def distributed(local: Tensor, sharding: Sharding) -> DTensor:
    """The tensor of which ``local`` is this rank's part, without a graph.

    Raises
    ------
    ValueError
        If the part has another shape than it should.
    """
    _check_part(local, sharding)
    return wrapped(local.detach(), sharding)


def _check_part(local: Tensor, sharding: Sharding) -> None:
    if tuple(local._layout.shape) != sharding.local_shape():
        raise ValueError(
            f"of a tensor of shape {list(sharding.shape)} this rank's part on {sharding.mesh!r} has shape "
            f"{list(sharding.local_shape())}; got {list(local._layout.shape)}"
        )


def _resolved(x: DTensor) -> DTensor:
    """``x`` with the reductions computed that it is made of."""
    placements = x.placements
    if not any(each.is_partial() for each in placements):
        return x
    return x.redistribute(placements=[Replicate() if each.is_partial() else each for each in placements])


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Place a tensor on a mesh, each of whose ranks gets a copy of its part. All its ranks call this.

    >>> mesh = parallel.init_device_mesh("cpu", (1,))
    >>> parallel.tensor.distribute_tensor(tensor.ones(2, 3), mesh, [parallel.tensor.Shard(1)]).shape
    tensor.Size([2, 3])

    Parameters
    ----------
    tensor : Tensor
        The whole tensor, of the same shape on all ranks, on the device of this rank.
    device_mesh : DeviceMesh
        The ranks.
    placements : list of Placement, optional
        ``Shard`` or ``Replicate`` for each dimension of the mesh; replicated by default.
    src_data_rank : int, optional
        The rank along each dimension of the mesh whose values count; None takes each rank's own.

    Returns
    -------
    DTensor
        A leaf of the graph, which requires gradients if ``tensor`` does.

    Raises
    ------
    ValueError
        Without a mesh, for ``Partial``, and if placements are not as many as dimensions of the mesh.
    IndexError
        If the tensor has no such dimension.
    DistBackendError
        If a rank died, or did not come within the group's timeout.
    """
    if device_mesh is None:
        raise ValueError("distribute_tensor() divides a tensor among the ranks of a mesh: pass device_mesh=")
    chosen = checked_placements("distribute_tensor()", device_mesh, placements, tensor.dim())
    if any(isinstance(each, Partial) for each in chosen):
        raise ValueError(
            f"distribute_tensor() places a whole tensor by Shard and Replicate; got {chosen}: make a partial one with "
            "DTensor.from_local()"
        )
    if isinstance(tensor, DTensor):
        if tensor._sharding != Sharding(device_mesh, tensor._sharding.shape, chosen):
            raise ValueError(f"{_described(tensor)} is placed already: use its redistribute()")
        return tensor
    whole = _plain(tensor).contiguous()
    if src_data_rank is not None:
        whole = whole.clone() if whole._storage is tensor._storage else whole
        for group in device_mesh.get_all_groups():
            broadcast(whole, group=group, group_src=src_data_rank)
    sharding = Sharding(device_mesh, tuple(whole.shape), chosen)
    result = distributed(sharding.part_of(whole).clone().contiguous(), sharding)
    result.requires_grad_(tensor.requires_grad)
    return result


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
_IN_PLACE = {"iadd", "isub", "imul", "itruediv", "ipow"}
#: Methods that copy or set elements.
_METHODS = ["to", "zero_", "fill_", "cpu", "cuda", "pin_memory"]
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
    is_operator = name.startswith("__")
    in_place = name.strip("_") in _IN_PLACE if is_operator else name.endswith("_")
    resolves = name not in _METHODS and not in_place

    def method(self: DTensor, *args: Any, **kwargs: Any) -> Any:
        if resolves:
            self = _resolved(self)

        def part(value: Any) -> Any:
            if isinstance(value, DTensor):
                value = _resolved(value)
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
        return wrapped(result, self._sharding)

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
