"""Parameters, which are trained, and buffers, which are not, of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import Tensor, empty, preserve_format
from tensor.core.base import TensorBase, view_of
from tensor.core.names.absent import hints as _hints
from tensor.methods.overriding.protocol import disabled_torch_function, overrides
from tensor.serialization import keep_class

if TYPE_CHECKING:
    from typing import Self

    from tensor import dtype
    from tensor.core.layout import Layout


class _ParameterType(type(Tensor)):  # type: ignore[misc]
    """Counts tensors of other classes as parameters that :class:`Parameter` made of them."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        # Looked up as an attribute, it would be missing in most, which searches for names like it.
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and "_is_param" in getattr(instance, "__dict__", ())
        )


@keep_class
class Parameter(Tensor, metaclass=_ParameterType):
    """Tensor that is registered as a parameter when it is assigned to an attribute of a :class:`~nn.Module`.

    Parameters
    ----------
    data : Tensor, optional
        Tensor whose memory the parameter shares; an empty one, of shape (0,), by default. Of a subclass of ``Tensor`` that takes
        over operations the parameter is an object too, and an instance of ``Parameter`` nevertheless.
    requires_grad : bool
        Whether it is trained.

    Raises
    ------
    TypeError
        If ``data`` is not a tensor.
    RuntimeError
        If ``detach()`` of such a subclass returns an object of another class.

    Examples
    --------
    >>> nn.Parameter(tensor.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function
    _text_name = "tensor"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        """Parameter over the memory of ``data``."""
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"{cls.__name__}() wants a Tensor, got {type(data).__name__}: make one with tensor.tensor(data)"
            )
        if type(data) is Tensor or not overrides(type(data)):
            result: Self = data.detach().as_subclass(cls)
            result.requires_grad_(requires_grad)
            return result
        detached: Any = data.detach()
        if type(detached) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an instance of "
                f"the same type, but return type {type(detached).__name__} was found instead. To use the type as a Parameter, please "
                "correct the detach() semantics defined by its __torch_function__() implementation."
            )
        detached = detached.requires_grad_(requires_grad)
        detached._is_param = True
        return detached  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        result: Self | None = memo.get(id(self))
        if result is None:
            copied = self.detach().clone(memory_format=preserve_format)
            result = memo[id(self)] = type(self)(copied, self.requires_grad)
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


@keep_class
class Buffer(Tensor):
    """Tensor that is registered as a buffer when it is assigned to an attribute of a :class:`~nn.Module`.

    Parameters
    ----------
    data : Tensor, optional
        Tensor whose memory the buffer shares; an empty one, of shape (0,), by default.
    persistent : bool
        Whether it is part of the module's state dict.

    Raises
    ------
    TypeError
        If ``data`` is not a tensor.
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function
    _text_name = "tensor"

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        """Buffer over the memory of ``data``."""
        if data is None:
            data = empty(0)
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"{cls.__name__}() wants a Tensor, got {type(data).__name__}: make one with tensor.tensor(data)"
            )
        result: Self = data.detach().as_subclass(cls)
        result.requires_grad_(data.requires_grad)
        result.persistent = persistent
        return result


#: The slot of a tensor's layout, which the class below shadows.
_layout: Any = TensorBase.__dict__["_layout"]


class UninitializedTensorMixin:
    """Tensor with a dtype and a device, but no shape until :meth:`materialize`.

    It can be converted and moved. Everything else raises ValueError, as every operation needs the layout of its
    operands.
    """

    __slots__ = ()

    #: The class of what :meth:`materialize` leaves.
    cls_to_become: type[Tensor]

    @property
    def _layout(self) -> Layout:
        role = "parameter" if issubclass(self.cls_to_become, Parameter) else "buffer"
        raise ValueError(
            f"Attempted to use an uninitialized {role}, whose shape is not known yet. It is one of a lazy module: call that "
            f"with an input first, or give the {role} a shape with materialize(shape)."
        )

    def materialize(self: Any, shape: Any, device: Any = None, dtype: dtype | None = None) -> None:
        """Become an ordinary parameter or tensor of ``shape`` with uninitialized elements. It remains the same object.

        Parameters
        ----------
        shape : tuple of int
            Its shape.
        device, dtype : optional
            Those that it has by default.
        """
        placeholder = self.data
        data = empty(shape, device=device or placeholder.device, dtype=dtype or placeholder.dtype)
        self.__class__ = self.cls_to_become
        self.data = data

    @property
    def data(self: Any) -> Tensor:
        """A tensor without elements, of the same dtype and device; assigning changes those."""
        return view_of(self._storage, _layout.__get__(self), self._offset)

    @data.setter
    def data(self: Any, new_data: Tensor) -> None:
        """An empty tensor of the same dtype and device; assigning it changes those."""
        self._storage, self._offset, self._array = new_data._storage, new_data._offset, None
        _layout.__set__(self, new_data._layout)

    @property
    def dtype(self) -> dtype:
        """Dtype of the elements."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """Device of the elements."""
        return self.data.device

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a CUDA device."""
        return self.data.is_cuda

    @property
    def shape(self) -> Any:
        """Unknown.

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
        """Unknown until the first input is seen.

        Raises
        ------
        RuntimeError
            Always, as of :attr:`shape`; for one ``dim`` too.
        """
        return self.shape

    def get_device(self) -> int:
        """Index of the device, -1 for the CPU."""
        return self.data.get_device()

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point dtype."""
        return self.data.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the dtype is a complex dtype."""
        return self.data.is_complex()

    def share_memory_(self) -> Any:
        """Not supported.

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
        """Uninitialized of another dtype or on another device.

        Takes the arguments of :meth:`tensor.Tensor.to` and raises as it; the class stays.
        """
        return self._as(self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized on a CUDA device.

        Takes the arguments of :meth:`tensor.Tensor.cuda` and raises as it; the class stays.
        """
        return self._as(self.data.cuda(*args, **kwargs))

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized on the CPU.

        Takes the arguments of :meth:`tensor.Tensor.cpu`; the class stays.
        """
        return self._as(self.data.cpu(*args, **kwargs))

    def type(self, *args: Any, **kwargs: Any) -> Any:
        """Uninitialized of another dtype; without arguments the name of the type.

        Takes the arguments of :meth:`tensor.Tensor.type` and raises as it; the class stays.
        """
        converted = self.data.type(*args, **kwargs)
        return self._as(converted) if isinstance(converted, Tensor) else converted

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        result = memo.get(id(self))
        if result is None:
            result = memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return result

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


for _name in ("half", "bfloat16", "float", "double", "char", "short", "int", "long"):

    def _convert(self: Any, _name: str = _name) -> Any:
        return self._as(getattr(self.data, _name)())

    _convert.__name__, _convert.__doc__ = (
        _name,
        (
            f"Uninitialized of the dtype of ``Tensor.{_name}()``.\n\nThe device and the class stay; there are no elements to convert."
        ),
    )
    setattr(UninitializedTensorMixin, _name, _convert)
del _name, _convert


def is_lazy(param: Any) -> bool:
    """Whether ``param`` is an uninitialized parameter or buffer."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc, override]
    """Parameter of a lazy module, whose shape is not known yet.

    Parameters
    ----------
    requires_grad : bool
        Whether it is trained.
    device, dtype
        Of its elements.
    """

    __slots__ = ()

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: dtype | None = None) -> Self:
        """Parameter without a shape."""
        placeholder: Any = Parameter(empty(0, device=device, dtype=dtype), requires_grad)
        placeholder.__class__ = cls
        result: Self = placeholder
        return result


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[misc, override]
    """Buffer of a lazy module, whose shape is not known yet.

    Parameters
    ----------
    requires_grad : bool
        Whether it requires gradients.
    device, dtype
        Of its elements.
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
        placeholder: Any = Buffer(empty(0, device=device, dtype=dtype), persistent=persistent)
        placeholder.requires_grad_(requires_grad)
        placeholder.__class__ = cls
        result: Self = placeholder
        return result


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
