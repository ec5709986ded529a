"""Tensors that a module keeps: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor, empty, preserve_format
from tensor.core.base import TensorBase, view_of
from tensor.serialization import keep_class

if TYPE_CHECKING:
    from typing import Self

    from tensor import dtype
    from tensor.core.layout import Layout


@keep_class
class Parameter(Tensor):
    """A tensor that becomes a parameter of the :class:`~nn.Module` it is assigned to.

    Parameters
    ----------
    data : Tensor, optional
        The elements, whose memory the parameter shares. Without it the parameter has none, shape (0,).
    requires_grad : bool
        Whether it is trained.

    Raises
    ------
    TypeError
        If ``data`` is no tensor.
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        """Parameter over the memory of ``data``."""
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"{cls.__name__}() wants a Tensor, got {type(data).__name__}: make one with tensor.tensor(data)"
            )
        made: Self = data.detach().as_subclass(cls)
        made.requires_grad_(requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found: Self | None = memo.get(id(self))
        if found is None:
            copied = self.detach().clone(memory_format=preserve_format)
            found = memo[id(self)] = type(self)(copied, self.requires_grad)
        return found

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    __str__ = __repr__


@keep_class
class Buffer(Tensor):
    """A tensor that becomes a buffer of the :class:`~nn.Module` it is assigned to.

    Parameters
    ----------
    data : Tensor, optional
        The elements, whose memory the buffer shares. Without it the buffer has none, shape (0,).
    persistent : bool
        Whether the buffer is part of the module's state dict.
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        """Buffer over the memory of ``data``."""
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"{cls.__name__}() wants a Tensor, got {type(data).__name__}: make one with tensor.tensor(data)"
            )
        made: Self = data.detach().as_subclass(cls)
        made.requires_grad_(data.requires_grad)
        made.persistent = persistent
        return made


#: Where a tensor's layout is, whatever its class makes of the name.
_layout: Any = TensorBase.__dict__["_layout"]


class UninitializedTensorMixin:
    """What has a dtype and a device, and a shape only once it is known: see :meth:`materialize`.

    It can be converted and moved. All else raises an error, as every operation asks for the layout of its operands.
    """

    __slots__ = ()

    #: The class of what :meth:`materialize` leaves.
    cls_to_become: type[Tensor]

    @property
    def _layout(self) -> Layout:
        kind = "parameter" if issubclass(self.cls_to_become, Parameter) else "buffer"
        raise ValueError(
            f"Attempted to use an uninitialized {kind}, whose shape is not known yet. It is one of a lazy module: call that "
            f"with an input first, or give the {kind} a shape with materialize(shape)."
        )

    def materialize(self: Any, shape: Any, device: Any = None, dtype: dtype | None = None) -> None:
        """Become an ordinary parameter or tensor of ``shape`` with undefined contents, and the same object.

        Parameters
        ----------
        device, dtype
            By default those that it has.
        """
        held = self.data
        made = empty(shape, device=device or held.device, dtype=dtype or held.dtype)
        self.__class__ = self.cls_to_become
        self.data = made

    @property
    def data(self: Any) -> Tensor:
        """A tensor without elements, of the same dtype and device; assigning changes those."""
        return view_of(self._storage, _layout.__get__(self), self._offset)

    @data.setter
    def data(self: Any, new_data: Tensor) -> None:
        self._storage, self._offset, self._array = new_data._storage, new_data._offset, None
        _layout.__set__(self, new_data._layout)

    @property
    def dtype(self) -> dtype:
        """Type of the elements that there will be."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """Where the elements will be."""
        return self.data.device

    @property
    def is_cuda(self) -> bool:
        """Whether the elements will be on a CUDA device."""
        return self.data.is_cuda

    @property
    def shape(self) -> Any:
        """Not known.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call the module "
            "with an input to initialize the parameters before accessing their attributes."
        )

    def size(self, dim: int | None = None) -> Any:
        """Not known: as :attr:`shape`."""
        return self.shape

    def get_device(self) -> int:
        """Index of the device, -1 for the CPU."""
        return self.data.get_device()

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point one."""
        return self.data.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the dtype is a complex one."""
        return self.data.is_complex()

    def share_memory_(self) -> Any:
        """Not possible.

        Raises
        ------
        RuntimeError
            Always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call the module with an input to initialize the "
            "parameters before calling `module.share_memory()`."
        )

    def _as(self: Any, converted: Tensor) -> Any:
        """Itself, or one of the dtype and device of ``converted``."""
        if converted.dtype is self.dtype and converted.device == self.device:
            return self
        return type(self)(self.requires_grad, converted.device, converted.dtype)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized of another dtype or on another device."""
        return self._as(self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized on a CUDA device."""
        return self._as(self.data.cuda(*args, **kwargs))

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized on the CPU."""
        return self._as(self.data.cpu(*args, **kwargs))

    def type(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized of another type; without arguments the type's name."""
        found = self.data.type(*args, **kwargs)
        return self._as(found) if isinstance(found, Tensor) else found

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return found

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


for _kind in ("half", "bfloat16", "float", "double", "char", "short", "int", "long"):

    def _convert(self: Any, _kind: str = _kind) -> Any:
        return self._as(getattr(self.data, _kind)())

    _convert.__name__, _convert.__doc__ = _kind, f"Uninitialized of the type of ``Tensor.{_kind}()``."
    setattr(UninitializedTensorMixin, _kind, _convert)
del _kind, _convert


def is_lazy(param: Any) -> bool:
    """Whether ``param`` has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc, override]
    """A parameter whose shape is not known yet, of a lazy module.

    Parameters
    ----------
    requires_grad : bool
        Whether it is trained.
    device, dtype
        Of the elements that there will be.
    """

    __slots__ = ()

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: dtype | None = None) -> Self:
        """Parameter without a shape."""
        made: Any = Parameter(empty(0, device=device, dtype=dtype), requires_grad)
        made.__class__ = cls
        found: Self = made
        return found


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[misc, override]
    """A buffer whose shape is not known yet, of a lazy module.

    Parameters
    ----------
    requires_grad : bool
        Whether gradients are computed of it.
    device, dtype
        Of the elements that there will be.
    persistent : bool
        Whether it is part of the module's state dict.
    """

    __slots__ = ()

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
        persistent: bool = True,
    ) -> Self:
        """Buffer without a shape."""
        made: Any = Buffer(empty(0, device=device, dtype=dtype), persistent=persistent)
        made.requires_grad_(requires_grad)
        made.__class__ = cls
        found: Self = made
        return found
