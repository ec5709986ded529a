"""Tensors and parameters from what pickles say of them: views of storages of the file, checked to lie in those."""

from __future__ import annotations

from collections import OrderedDict
from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.layouts import extent
from tensor.core import layout as layouts
from tensor.core.base import TensorBase, view_of
from tensor.core.size import Size
from tensor.serialization.classes import class_named

from .errors import RefusedError, excerpt
from .storages import Stored, check_bools

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

    from .storages import Budget

#: How many dimensions NumPy has arrays of.
_DIMENSIONS = 64
_MOST = 1 << 63
_FAR = 1 << 56
_POINTER = 8


class Tensors:
    """The tensors of one pickle.

    Parameters
    ----------
    budget
        The limit of what is copied.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def tensor(
        self,
        storage: Any,
        offset: Any,
        shape: Any,
        strides: Any,
        requires_grad: Any = False,
        hooks: Any = None,
        metadata: Any = None,
    ) -> Tensor:
        if type(storage) is not Stored or storage.type.untyped:
            raise RefusedError(
                f"its pickle makes a tensor of {excerpt(storage)}, which is no storage with a dtype"
            )
        return self._view(storage, storage.type.dtype, offset, shape, strides, requires_grad, hooks, metadata)

    def tensor_of_dtype(
        self,
        storage: Any,
        offset: Any,
        shape: Any,
        strides: Any,
        requires_grad: Any,
        hooks: Any,
        dtype: Any,
        metadata: Any = None,
    ) -> Tensor:
        if type(storage) is not Stored or not storage.type.untyped or type(dtype) is not dtypes.dtype:
            raise RefusedError(
                f"its pickle makes a tensor of {excerpt(storage)} and {excerpt(dtype)}, which are no storage and dtype"
            )
        if dtype is dtypes.bool_:
            self._budget.charge(storage.storage.capacity)
            check_bools(storage.storage.cpu().bytes(), dtype, "of bytes")
        return self._view(storage, dtype, offset, shape, strides, requires_grad, hooks, metadata)

    def _view(
        self,
        stored: Stored,
        dtype: dtypes.dtype,
        offset: Any,
        shape: Any,
        strides: Any,
        requires_grad: Any,
        hooks: Any,
        metadata: Any,
    ) -> Tensor:
        storage = stored.storage
        if (
            not _are_sizes(shape)
            or not _are_sizes(strides)
            or not _are_sizes((offset,))
            or len(strides) != len(shape)
            or len(shape) > _DIMENSIONS
            or prod(size or 1 for size in shape) >= _MOST
        ):
            raise RefusedError(
                f"its pickle has a tensor of shape {excerpt(shape)} and strides {excerpt(strides)} at element "
                f"{excerpt(offset)}, which there is not"
            )
        start = offset * dtype.itemsize
        # Where a tensor without elements lies does not matter to PyTorch, which lets it begin past the end.
        end = start + extent(shape, strides)[1] * dtype.itemsize
        if end > (storage.capacity if prod(shape) else _FAR):
            raise RefusedError(
                f"its pickle has a tensor of shape {list(shape)}, strides {list(strides)} and type {dtype.name} at element "
                f"{offset}, which does not lie in its storage of {storage.capacity} bytes"
            )
        _check_no_hooks(hooks)
        output = view_of(
            storage, layouts.strided[tuple(shape), tuple(strides), dtype, storage.device_state], start
        )
        if metadata is not None:
            output = self._with_metadata(output, metadata)
        return _requiring_grad(output, requires_grad)

    def _with_metadata(self, output: Tensor, metadata: Any) -> Tensor:
        """Carry out what PyTorch does lazily: conjugation, and a sign."""
        if type(metadata) is not dict or not all(
            key in ("conj", "neg") and type(value) is bool for key, value in metadata.items()
        ):
            raise RefusedError(f"its pickle has a tensor with {excerpt(metadata)}, which is not known here")
        if any(metadata.values()):
            self._budget.charge(output._layout.numel * output._layout.itemsize)
        if metadata.get("conj"):
            output = output.conj()
        return -output if metadata.get("neg") else output

    def parameter(self, data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Tensor:
        _check_no_hooks(hooks)
        if not isinstance(data, TensorBase):
            raise RefusedError(f"its pickle makes a parameter of {excerpt(data)}")
        cls = class_named("Parameter")
        output = data.detach()
        output = _requiring_grad(output if cls is None else output.as_subclass(cls), requires_grad)
        if state is not None:
            self.set_attributes(output, state)
        return output

    def set_attributes(self, output: Any, state: Any) -> None:
        if state is None:
            return
        if type(state) is not dict or not all(type(key) is str for key in state):
            raise RefusedError(f"its pickle sets the attributes of {excerpt(output)} to {excerpt(state)}")
        self._budget.charge(_POINTER * len(state))
        vars(output).update(state)

    def as_parameter(self, data: Any, requires_grad: Any = True) -> Tensor:
        return self.parameter(data, requires_grad, None)


def as_tensor(data: Any) -> Tensor:
    if not isinstance(data, TensorBase):
        raise RefusedError(f"its pickle makes a tensor of {excerpt(data)}")
    return data


def _are_sizes(values: Any) -> bool:
    return type(values) in (tuple, list, Size) and all(
        type(each) is int and 0 <= each < _MOST for each in values
    )


def _check_no_hooks(hooks: Any) -> None:
    if hooks is not None and (type(hooks) not in (dict, OrderedDict) or hooks):
        raise RefusedError("its pickle has a tensor with hooks, which are code: they are not read")


def _requiring_grad(output: Tensor, requires_grad: Any) -> Tensor:
    if type(requires_grad) is not bool:
        raise RefusedError(f"its pickle has a tensor whose requires_grad is {excerpt(requires_grad)}")
    if not requires_grad:
        return output
    dtype = output._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RefusedError(f"its pickle has a tensor of type {dtype.name} that requires a gradient")
    return output.requires_grad_(True)
