"""Rules of pointwise operations of one sparse operand, which leave zeros zero, and with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.core.dtypes.scalars import is_number
from tensor.core.memory_format import strided
from tensor.core.modes.grad_mode import modes
from tensor.core.sparse import Coordinates, is_sparse, storage_of
from tensor.operations.creation.factories import zeros
from tensor.operations.definition import catalogue
from tensor.operations.sparse_rules import refusal, rule

from .construction import empty_sparse
from .layouts import copied, to_layout
from .parts import coalesced, plain, sparse_of, structure_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

#: Operations of one operand that leave 0 as it is.
_UNARY = (
    "abs angle asin asinh atan atanh ceil conj conj_physical deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf "
    "log1p nan_to_num neg positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc"
)
#: Those of them that are linear: values of the same coordinates may be added up afterwards.
_LINEAR = frozenset(("neg", "positive", "conj", "conj_physical", "deg2rad", "rad2deg"))


def node(name: str) -> str:
    """Name of the node of an operation, as PyTorch shows it."""
    return f"{''.join(part.capitalize() for part in name.split('_'))}Backward0"


def mapped(x: Tensor, values: Tensor, name: str) -> Tensor:
    """A tensor of other values at the indices of ``x``."""
    return sparse_of(structure_of(x), values, x._layout.shape, node(name))


def without_out(out: Any, name: str) -> None:
    """Check that no ``out`` is given.

    Raises
    ------
    NotImplementedError
        If it is.
    """
    if out is not None:
        raise NotImplementedError(
            f"{name}(): out=... is not implemented for sparse tensors: use the result, or copy_() it"
        )


def writable(x: Tensor, name: str) -> Tensor:
    """The values of a sparse tensor that is to be written in place.

    Raises
    ------
    RuntimeError
        If its history would have to be recorded.
    """
    if modes.recording and x.requires_grad:
        what = (
            "a leaf Variable that requires grad is being used in an in-place operation."
            if x.is_leaf
            else "in-place operations on sparse tensors are not recorded."
        )
        raise RuntimeError(f"{name}(): {what} Use the operation without underscore, or no_grad()")
    return plain(storage_of(x).values)


def written(x: Tensor) -> Tensor:
    """``x``, whose values were written in place."""
    x._storage.version += 1
    return x


def replace_parts(x: Tensor, other: Tensor) -> Tensor:
    """Give ``x`` the structure and the values of ``other``, a tensor of its shape, dtype and layout."""
    storage, origin = storage_of(x), storage_of(other)
    storage.structure, storage.values = origin.structure, origin.values
    return written(x)


def _unary(name: str, function: Callable[..., Tensor]) -> None:
    @rule(name)
    def apply(input: Tensor, *args: Any, out: Any = None, **options: Any) -> Tensor:
        without_out(out, name)
        x = input if name in _LINEAR else coalesced(input)
        return mapped(x, function(values_of(x), *args, **options), name)


def _unary_in_place(name: str, function: Callable[..., Tensor]) -> None:
    @rule(f"{name}_")
    def apply(input: Tensor, *args: Any, **options: Any) -> Tensor:
        if name not in _LINEAR and not structure_of(input).coalesced:
            raise RuntimeError(f"{name}_ requires coalesced input: call coalesce() first, or {name}()")
        values = writable(input, f"{name}_")
        values.copy_(function(values, *args, **options))
        return written(input)


_methods: dict[str, Any] = dict(catalogue.published("Tensor"))
for _name in _UNARY.split():
    _unary(_name, _methods[_name])
    if f"{_name}_" in _methods:
        _unary_in_place(_name, _methods[_name])


def is_scalar(x: Any) -> bool:
    """Whether ``x`` is a number, or a dense tensor without dimensions."""
    return is_number(x) or (isinstance(x, TensorBase) and not is_sparse(x) and not x._layout.shape)


def _by_scalar(name: str, *, linear: bool) -> None:
    """Rules of an operation by a number, or by a tensor without dimensions."""
    function = _methods[name]

    def apply(input: Tensor, other: Any, *, out: Any = None, **options: Any) -> Tensor:
        without_out(out, name)
        _check_divisor(name, input, other)
        x = input if linear and not options.get("rounding_mode") else coalesced(input)
        return mapped(x, function(values_of(x), other, **options), name)

    def apply_in_place(input: Tensor, other: Any, **options: Any) -> Tensor:
        _check_divisor(name, input, other)
        if not structure_of(input).coalesced and (not linear or options.get("rounding_mode")):
            raise RuntimeError(f"{name}_ requires coalesced input: call coalesce() first, or {name}()")
        values = writable(input, f"{name}_")
        _methods[f"{name}_"](values, other, **options)
        return written(input)

    rule(name)(apply)
    rule(f"{name}_")(apply_in_place)


def _check_divisor(name: str, input: Any, other: Any) -> None:
    if not is_sparse(input) or not is_scalar(other):
        shape = list(other._layout.shape) if isinstance(other, TensorBase) else type(other).__name__
        raise RuntimeError(
            f"{name}(): Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )


_by_scalar("div", linear=True)
_by_scalar("floor_divide", linear=False)


@rule("pow")
def pow(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.pow`: by a number that leaves 0 zero."""
    without_out(out, "pow")
    if not is_sparse(input) or not is_number(exponent):
        raise refusal("pow", (input, exponent))
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    x = coalesced(input)
    return mapped(x, values_of(x).pow(exponent), "pow")


@rule("zero_")
def zero_(input: Tensor) -> Tensor:
    """Rule of :meth:`Tensor.zero_`: no element is specified any more; a compressed matrix keeps its elements."""
    values = writable(input, "zero_")
    structure = structure_of(input)
    if not isinstance(structure, Coordinates):
        values.zero_()
        return written(input)
    empty = Coordinates(structure.indices[:, :0].contiguous(), coalesced=True)
    return replace_parts(input, sparse_of(empty, values[:0].contiguous(), input._layout.shape))


@rule("copy_")
def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Rule of :meth:`Tensor.copy_`: between sparse tensors of one layout and shape."""
    if not is_sparse(input) or not is_sparse(src):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {input.type()} and src type = "
            f"{src.type()}: convert one with to_dense() or to_sparse()"
        )
    if input._layout.shape != src._layout.shape:
        raise RuntimeError(
            f"copy_(): expected sparse tensors of one shape, got {list(input._layout.shape)} and {list(src._layout.shape)}"
        )
    writable(input, "copy_")
    origin = to_layout(src.detach(), structure_of(input).layout_name, "copy_")
    moved = origin.to(device=input.device, dtype=input.dtype, non_blocking=non_blocking)
    return replace_parts(input, moved.clone() if moved is src or moved._storage is src._storage else moved)


@rule("clone")
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Rule of :func:`tensor.clone`."""
    return copied(input)


@rule("zeros_like", "empty_like")
def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """Rule of :func:`tensor.zeros_like`: a tensor without specified elements."""
    where = input.device if device is None else device
    own = structure_of(input) if is_sparse(input) else None
    if isinstance(own, Coordinates) and (layout is None or layout is own.layout_name):
        values = storage_of(input).values
        blank = values.new_empty((0, *values._layout.shape[1:]), dtype=dtype, device=where)
        indices = own.indices.new_empty((own.dimensions, 0), device=where)
        result = sparse_of(Coordinates(indices, coalesced=True), blank, input._layout.shape)
        return result.requires_grad_() if requires_grad else result
    layout_name = input.layout if layout is None else layout
    if layout_name is strided:
        return zeros(
            input._layout.shape, dtype=dtype or input.dtype, device=where, requires_grad=requires_grad
        )
    return empty_sparse(input._layout.shape, layout_name, dtype or input.dtype, where, requires_grad)


rule("zeros", "empty")(empty_sparse)
