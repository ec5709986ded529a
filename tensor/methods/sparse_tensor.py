"""``SparseTensor``: the class of sparse tensors, whose methods are rules of operations."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from tensor.core.sparse import (
    Compressed,
    Coordinates,
    register,
    sparse_coo,
    sparse_csr,
    storage_of,
)
from tensor.operations.creation import conversions
from tensor.operations.definition import catalogue
from tensor.operations.sparse import construction, layouts, parts, shapes
from tensor.operations.sparse.elementwise import replace_parts, writable
from tensor.operations.sparse_rules import on_sparse, refusal, rule_of

from .operators import operand
from .overriding.protocol import disabled_torch_function
from .printing import sparse_text
from .tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.memory_format import layout as LayoutName


class SparseTensor(Tensor):
    """A tensor of which only some elements are specified; the others are 0.

    ``tensor.sparse_coo_tensor`` and ``to_sparse()`` make such tensors. Operations without a rule for them raise
    NotImplementedError.
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function

    def __new__(cls, *data: Any, device: Any = None) -> Tensor:  # type: ignore[misc]
        """Refused: raises TypeError."""
        raise TypeError(f"{cls.__name__} is made by tensor.sparse_coo_tensor(...) and to_sparse()")

    # What it is

    @property
    def layout(self) -> LayoutName:
        """``tensor.sparse_coo``, ``tensor.sparse_csr`` or ``tensor.sparse_csc``."""
        return storage_of(self).structure.layout_name

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the layout is ``tensor.sparse_coo``."""
        return self.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is ``tensor.sparse_csr``."""
        return self.layout is sparse_csr

    def stride(self, dim: int | None = None) -> Any:
        """Zeros: there are no strides."""
        rank = len(self._layout.shape)
        return (0,) * rank if dim is None else 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False: the elements lie in parts."""
        return False

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The tensor as ``dtype``; without one, the name of its type."""
        if dtype is not None:
            if isinstance(dtype, dtypes.dtype):
                return self.to(dtype)
            return parts.sparse_of(
                storage_of(self).structure,
                parts.values_of(self).type(dtype, non_blocking),
                self._layout.shape,
                "ToCopyBackward0",
            )
        where = "tensor.cuda" if self._layout.device_state.is_cuda else "tensor"
        return f"{where}.sparse.{conversions.TYPE_NAMES[self._layout.dtype.name]}Tensor"

    @property
    def nbytes(self) -> int:
        """Refused: raises RuntimeError."""
        raise RuntimeError(
            "nbytes is not defined for sparse tensors. If you want the size of the constituent tensors, add the nbytes of the "
            "indices and values. If you want the size of the equivalent dense tensor, multiply numel() by element_size()"
        )

    def data_ptr(self) -> int:
        """Refused: raises RuntimeError."""
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: take that of values() and indices()"
        )

    def untyped_storage(self) -> Any:
        """Refused: raises NotImplementedError."""
        raise NotImplementedError(
            "Cannot access storage of SparseTensorImpl: a sparse tensor has none of its own; take that of values()"
        )

    storage = untyped_storage

    def is_shared(self) -> bool:
        """Whether the memory of the values is shared memory."""
        return storage_of(self).is_shared()

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the values lie in page-locked host memory."""
        return storage_of(self).is_pinned()

    def record_stream(self, stream: Any) -> None:
        """Note that ``stream`` uses the memory of indices and values."""
        storage_of(self).record_stream(stream)

    # The same elsewhere

    def detach(self) -> Tensor:
        """The same tensor without a history."""
        return layouts.detached(self)

    @property
    def data(self) -> Tensor:
        """The same tensor without a history. Assigning another sparse tensor takes its place."""
        return layouts.detached(self)

    @data.setter
    def data(self, new_data: Tensor) -> None:
        if not isinstance(new_data, SparseTensor):
            raise RuntimeError(
                "data of a sparse tensor can be set to a sparse tensor alone: convert it with to_sparse()"
            )
        self._storage, self._layout = new_data._storage, new_data._layout

    def as_subclass(self, cls: Any) -> Any:
        """Refused: raises NotImplementedError, unless ``cls`` is this class."""
        if cls is SparseTensor:
            return self.detach()
        raise NotImplementedError(
            f"a sparse tensor cannot be made a {cls.__name__}: keep it as it is, as a buffer or as the gradient of a dense "
            "parameter, or convert it with to_dense()"
        )

    def to(self, *args: Any, **options: Any) -> Tensor:
        """The sparse tensor with another dtype or device; itself if nothing changes, unless ``copy=True``."""
        return layouts.moved(self, *args, **options)

    def cuda(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The sparse tensor on a CUDA device."""
        values = parts.values_of(self).cuda(device, non_blocking)
        return layouts.moved(self, values.device, non_blocking=non_blocking)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """The sparse tensor on the CPU."""
        return layouts.moved(self, "cpu")

    def type_as(self, other: Tensor) -> Tensor:
        """The sparse tensor with the dtype and device of ``other``."""
        return layouts.moved(self, other.device, other.dtype)

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """The tensor itself."""
        return self

    def share_memory_(self) -> Tensor:
        """Move indices and values to memory that processes share. Returns the tensor."""
        for each in (*storage_of(self).structure.tensors(), storage_of(self).values):
            each.share_memory_()
        return self

    # Dimensions

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The tensor with its dimensions in reverse order."""
        return shapes.permute(self, *range(len(self._layout.shape) - 1, -1, -1))

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The tensor with its last two dimensions swapped."""
        return shapes.transpose(self, -2, -1)

    @property
    def H(self) -> Tensor:  # noqa: N802
        """The conjugate transpose of a matrix."""
        return shapes.transpose(self, 0, 1).conj() if len(self._layout.shape) == 2 else self.conj()

    mH = H  # noqa: N815

    def adjoint(self) -> Tensor:
        """The conjugate transpose: the last two dimensions swapped."""
        return shapes.transpose(self, -2, -1).conj()

    @property  # type: ignore[misc]
    def real(self) -> Tensor:
        """The real parts; the tensor itself if it is real."""
        if not self.is_complex():
            return self
        return parts.sparse_of(
            storage_of(self).structure, parts.values_of(self).real, self._layout.shape, "RealBackward0"
        )

    @property  # type: ignore[misc]
    def imag(self) -> Tensor:
        """The imaginary parts of a complex tensor."""
        return parts.sparse_of(
            storage_of(self).structure, parts.values_of(self).imag, self._layout.shape, "ImagBackward0"
        )

    def t_(self) -> Tensor:
        """:meth:`t` in place. Returns the tensor."""
        return self._shown(shapes.t(self.detach()), "t_")

    def transpose_(self, dim0: int, dim1: int) -> Tensor:
        """:meth:`transpose` in place. Returns the tensor."""
        return self._shown(shapes.transpose(self.detach(), dim0, dim1), "transpose_")

    def _shown(self, other: Tensor, name: str) -> Tensor:
        writable(self, name)
        replace_parts(self, other)
        self._layout = other._layout
        return self

    def __getitem__(self, key: Any) -> Tensor:
        keys = key if isinstance(key, tuple) else (key,)
        if not keys or not all(hasattr(each, "__index__") and not isinstance(each, bool) for each in keys):
            raise refusal("__getitem__ (but for numbers)", (self,))
        result: Tensor = self
        for each in keys:
            result = result.select(0, each.__index__())
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        raise refusal("__setitem__", (self,))

    def __iter__(self) -> Iterator[Tensor]:
        if not self._layout.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(shapes.unbind(self))

    def __bool__(self) -> bool:
        return self.is_nonzero()

    def is_nonzero(self) -> bool:
        """Whether the only element is not 0."""
        if self._layout.numel != 1:
            what = "more than one value" if self._layout.numel else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.to_dense().item())

    def __contains__(self, element: Any) -> bool:
        raise refusal("__contains__", (self,))

    def numpy(self, *, force: bool = False) -> Any:
        """Refused: raises TypeError, unless ``force`` makes a dense copy."""
        if force:
            return self.detach().to_dense().numpy(force=True)
        raise TypeError(f"can't convert {self.layout!r} layout tensor to numpy. Use Tensor.to_dense() first.")

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on {self.layout!r} layout tensor: take that of values(), or of to_dense()"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()

    # Copies, pickles, texts

    def __reduce_ex__(self, protocol: Any) -> Any:
        storage = storage_of(self)
        structure = storage.structure
        described = (
            structure.layout_name.name,
            structure.tensors(),
            storage.values,
            tuple(self._layout.shape),
            structure.coalesced,
            self.requires_grad,
        )
        return (rebuild_sparse, described, self.__dict__) if self.__dict__ else (rebuild_sparse, described)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        result: Tensor | None = memo.get(id(self))
        if result is not None:
            return result
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. Copy a "
                "computed tensor with detach().clone() instead."
            )
        result = layouts.copied(self.detach())
        memo[id(self)] = result
        if self.requires_grad:
            result.requires_grad_()
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def __repr__(self) -> str:
        return sparse_text(self)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)


def rebuild_sparse(
    kind: str,
    tensors: tuple[Tensor, ...],
    values: Tensor,
    shape: tuple[int, ...],
    coalesced: bool,
    requires_grad: bool,
) -> Tensor:
    """The sparse tensor of which a pickle tells, after a check of its parts.

    Raises
    ------
    ValueError
        If the layout is unknown, or the parts do not go together.
    """
    if kind not in ("sparse_coo", "sparse_csr", "sparse_csc") or len(tensors) != 1 + (kind != "sparse_coo"):
        raise ValueError(
            f"the pickle has a tensor of {len(tensors)} index tensors in the unknown layout {kind!r}"
        )
    structure: Coordinates | Compressed
    if kind == "sparse_coo":
        structure = Coordinates(tensors[0], coalesced=bool(coalesced))
    else:
        structure = Compressed(tensors[0], tensors[1], by_columns=kind == "sparse_csc")
    try:
        construction.validate(structure, values, shape)
    except (RuntimeError, IndexError, AttributeError, TypeError) as error:
        raise ValueError(f"the pickle is damaged: {error}") from error
    result = parts.sparse_of(structure, values.detach(), shape)
    return result.requires_grad_() if requires_grad else result


def _by_rule(name: str, key: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **options: Any) -> Any:
        rule = rule_of(key)
        if rule is None:
            raise refusal(name, (self,))
        return rule(self, *args, **options)

    method.__name__ = name
    method.__qualname__ = f"SparseTensor.{name}"
    return method


def _key(name: str, function: Any) -> str:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    own: str = (
        function.__globals__["_function"].__name__
        if "_in_place" in function.__globals__
        else function.__name__
    )
    return f"{own}_" if name.endswith("_") and not own.endswith("_") else own


#: Methods that ask a tensor for nothing but what it is, or are made of others.
_AS_THEY_ARE = frozenset(("smm", "sspaddmm", "softmax_"))

for _name, _function in catalogue.published("Tensor").items():
    if _name not in vars(SparseTensor) and _name not in _AS_THEY_ARE:
        setattr(SparseTensor, _name, _by_rule(_name, _key(_name, _function)))

_CONVERTERS = {
    "bool": dtypes.bool_,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "short": dtypes.int16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "float": dtypes.float32,
    "double": dtypes.float64,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}


def _converter(target: dtype) -> Callable[..., Tensor]:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        return layouts.moved(self, target)

    return convert


for _name, _dtype in _CONVERTERS.items():
    setattr(SparseTensor, _name, _converter(_dtype))

for _name in [
    "map_",
    "apply_",
    "as_strided_",
    "squeeze_",
    "unsqueeze_",
    "swapaxes_",
    "swapdims_",
    "where",
    "dim_order",
    "is_set_to",
    "storage_offset",
    "__dlpack__",
    "__dlpack_device__",
    "__array_wrap__",
]:
    setattr(SparseTensor, _name, _by_rule(_name, _name))


def _operator(name: str, key: str, *, reflected: bool = False) -> None:
    def method(self: Tensor, other: Any) -> Any:
        value = operand(other)
        if value is NotImplemented:
            return NotImplemented
        return on_sparse(key, value, self) if reflected else on_sparse(key, self, value)

    method.__name__ = name
    setattr(SparseTensor, name, method)


for _name, _own in {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "pow": "pow", "matmul": "matmul",
}.items():  # fmt: skip
    _operator(f"__{_name}__", _own)
    _operator(f"__r{_name}__", _own, reflected=True)
    if _name != "matmul":
        _operator(f"__i{_name}__", f"{_own}_")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _operator(f"__{_name}__", _name)
setattr(SparseTensor, "__hash__", object.__hash__)  # noqa: B010 - comparisons took it away
for _name, _own in {"neg": "neg", "abs": "abs", "pos": "positive", "invert": "bitwise_not"}.items():
    setattr(SparseTensor, f"__{_name}__", _by_rule(f"__{_name}__", _own))

register(SparseTensor)
