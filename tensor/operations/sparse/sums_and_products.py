"""Rules of ``+``, ``-`` and ``*`` with sparse operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import promote_types
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.sparse import Coordinates, is_sparse
from tensor.operations.indexing.gather import nonzero_positions
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.shapes.joining import cat
from tensor.operations.sparse_rules import refusal, rule

from .elementwise import is_scalar, mapped, node, replace_parts, without_out, writable, written
from .layouts import to_layout
from .parts import as_coordinates, coalesced, gathered, sparse_of, structure_of, values_of
from .structures import equal_on_host, indices_of, keys_of, same, search_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor


def _check_pair(name: str, a: Tensor, b: Tensor) -> None:
    if a._layout.shape != b._layout.shape:
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but {list(a._layout.shape)} != {list(b._layout.shape)} "
            "(sums with sparse tensors do not broadcast)"
        )
    if a._layout.device_state is not b._layout.device_state:
        raise two_devices(name, a._layout.device, b._layout.device)


def _scaled(values: Tensor, alpha: Any) -> Tensor:
    return values if isinstance(alpha, int) and alpha == 1 else values * alpha


def _recorded(name: str, compute: Callable[..., Tensor], a: Tensor, b: Tensor, alpha: Any) -> Tensor:
    """``a + alpha * b``; the gradient of the sum is that of ``a``, whatever its layout."""
    with unrecorded():
        result = compute(name, a.detach(), b.detach(), alpha)
    (_SUB if name == "sub" else _ADD).record((result,), (a, b), (), (alpha,))
    return result


_ADD, _SUB = (
    BackwardFormula(
        name,
        "a b",
        [
            Derivative(lambda grad, alpha: grad, needs=""),
            Derivative(lambda grad, alpha: _scaled(grad, conjugate(alpha)), needs=""),
        ],
    )
    for name in ("AddBackward0", "SubBackward0")
)


def _sum(name: str, a: Tensor, b: Tensor, alpha: Any) -> Tensor:
    """``a + alpha * b``, both sparse."""
    _check_pair(name, a, b)
    layout_name = structure_of(a).layout_name
    if layout_name is not structure_of(b).layout_name:
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have one layout, but got {a.layout!r} and {b.layout!r}: convert one of "
            "them, as with to_sparse()"
        )
    if same(structure_of(a), structure_of(b)) or equal_on_host(structure_of(a), structure_of(b)):
        return mapped(a, values_of(a) + _scaled(values_of(b), alpha), name)
    x, y = as_coordinates(a), as_coordinates(b)
    if structure_of(x).dimensions != structure_of(y).dimensions:
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have the same number of sparse dimensions, but got "
            f"{structure_of(x).dimensions} and {structure_of(y).dimensions}"
        )
    dtype = promote_types(x.dtype, y.dtype)
    indices = cat([indices_of(structure_of(x)), indices_of(structure_of(y))], 1)
    values = cat([values_of(x).to(dtype), _scaled(values_of(y), alpha).to(dtype)])
    result = sparse_of(Coordinates(indices, coalesced=False), values, a._layout.shape, node(name))
    if not result._layout.device_state.is_cuda and structure_of(x).coalesced and structure_of(y).coalesced:
        # So that sums of sums, as of gradients, do not grow; on a device the host would have to wait.
        result = coalesced(result)
    return result if isinstance(structure_of(a), Coordinates) else to_layout(result, layout_name, name)


def _onto_dense(name: str, dense: Tensor, x: Tensor, alpha: Any) -> Tensor:
    """``dense + alpha * x`` for a sparse ``x``."""
    _check_onto(name, dense, x)
    dtype = promote_types(dense.dtype, x.dtype)
    result = dense.to(dtype)
    return _add_onto(result.clone() if result is dense else result, x, alpha)


def _check_onto(name: str, dense: Tensor, x: Tensor) -> None:
    if dense._layout.shape != x._layout.shape:
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same size, but self has size {list(dense._layout.shape)} while other "
            f"has size {list(x._layout.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    if dense._layout.device_state is not x._layout.device_state:
        raise two_devices(name, dense._layout.device, x._layout.device)


def _add_onto(dense: Tensor, x: Tensor, alpha: Any) -> Tensor:
    """Add ``alpha * x`` to ``dense`` in place."""
    x = coalesced(as_coordinates(x))
    values = _scaled(values_of(x), alpha).to(dense.dtype)
    structure = structure_of(x)
    if not structure.dimensions:
        return dense.add_(values.sum(0))
    return dense.index_put_(tuple(indices_of(structure).unbind(0)), values, accumulate=True)


def _add(name: str, input: Any, other: Any, alpha: Any) -> Tensor:
    if is_sparse(input) and is_sparse(other):
        return _recorded(name, _sum, input, other, alpha)
    if is_sparse(other) and isinstance(input, TensorBase):
        return _recorded(name, _onto_dense, input, other, alpha)
    if (
        is_sparse(input)
        and not isinstance(structure_of(input), Coordinates)
        and isinstance(other, TensorBase)
    ):
        # PyTorch takes this order for compressed matrices alone.
        return _recorded(name, _onto_dense, _scaled(other, alpha), input, 1)
    raise RuntimeError(
        f"{name}(sparse, dense) is not supported. Use {name}(dense, sparse) instead, or convert with to_dense()"
        if is_sparse(input)
        else f"{name}: a number and a sparse tensor cannot be added, as the result would be dense: convert with to_dense()"
    )


@rule("add")
def add(input: Any, other: Any, alpha: Any = 1, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.add`."""
    without_out(out, "add")
    return _add("add", input, other, alpha)


@rule("sub")
def sub(input: Any, other: Any, alpha: Any = 1, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.sub`."""
    without_out(out, "sub")
    return _add("sub", input, other, -alpha)


@rule("rsub")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Rule of :func:`tensor.rsub`."""
    return _add("sub", other, input, -alpha)


def _add_in_place(name: str, input: Tensor, other: Any, alpha: Any) -> Tensor:
    if not is_sparse(input):
        _check_onto(name, input, other)
        if promote_types(input.dtype, other.dtype).category > input.dtype.category:
            raise RuntimeError(
                f"{name}(): result type {other.dtype!r} can't be cast to the desired output type {input.dtype!r}"
            )
        return _add_onto(input, other, alpha)
    if not is_sparse(other):
        raise RuntimeError(
            f"{name[:-1]}(sparse, dense) is not supported. Use {name[:-1]}(dense, sparse) instead, or convert with to_dense()"
        )
    values = writable(input, name)
    if same(structure_of(input), structure_of(other)) or equal_on_host(
        structure_of(input), structure_of(other)
    ):
        _check_pair(name[:-1], input, other)
        values.add_(_scaled(values_of(other).detach(), alpha))
        return written(input)
    result = _sum(name[:-1], input.detach(), other.detach(), alpha)
    if result.dtype is not input.dtype:
        if result.dtype.category > input.dtype.category:
            raise RuntimeError(
                f"{name}(): result type {result.dtype!r} can't be cast to the desired output type {input.dtype!r}"
            )
        result = result.to(input.dtype)
    return replace_parts(input, result)


@rule("add_")
def add_(input: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """Rule of :meth:`Tensor.add_`."""
    return _add_in_place("add_", input, other, alpha)


@rule("sub_")
def sub_(input: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """Rule of :meth:`Tensor.sub_`."""
    return _add_in_place("sub_", input, other, -alpha)


def _with_dense(x: Tensor, dense: Tensor) -> Tensor:
    """The product of a sparse and a dense tensor that broadcasts to it: sparse."""
    shape = x._layout.shape
    try:
        spread = dense.expand(shape)
    except RuntimeError:
        raise RuntimeError(
            f"mul(sparse, dense): the dense operand must broadcast to the shape of the sparse one, {list(shape)}, got "
            f"{list(dense._layout.shape)}"
        ) from None
    if dense._layout.device_state is not x._layout.device_state:
        raise two_devices("mul", x._layout.device, dense._layout.device)
    x = coalesced(x)
    structure = structure_of(x)
    if not structure.dimensions:
        return mapped(x, values_of(x) * spread, "mul")
    return mapped(x, values_of(x) * spread[tuple(indices_of(structure).unbind(0))], "mul")


def _intersection(a: Tensor, b: Tensor) -> Tensor:
    """The product of two sparse tensors."""
    if a._layout.shape != b._layout.shape:
        raise RuntimeError(
            f"mul: expected 'self' and 'other' to have same sizes, but {list(a._layout.shape)} != {list(b._layout.shape)}"
        )
    _check_pair("mul", a, b)
    layout_name = structure_of(a).layout_name
    x, y = coalesced(as_coordinates(a)), coalesced(as_coordinates(b))
    if same(structure_of(a), structure_of(b)) and structure_of(a).coalesced:
        return mapped(a, values_of(a) * values_of(b), "mul")
    left, right = structure_of(x), structure_of(y)
    shape = x._layout.shape
    if left.dimensions != right.dimensions:
        raise RuntimeError(
            f"mul: expected 'self' and 'other' to have the same number of sparse dimensions, but got {left.dimensions} and "
            f"{right.dimensions}"
        )
    indices = indices_of(left)
    if left.count and right.count:
        positions, there = search_keys(keys_of(indices, shape), keys_of(indices_of(right), shape))
        mine = nonzero_positions(there).reshape(-1)
        theirs = positions.index_select(0, mine)
    else:
        mine = theirs = indices.new_empty(0)
    values = gathered(values_of(x), mine) * gathered(values_of(y), theirs)
    joined = Coordinates(indices.index_select(1, mine), coalesced=True)
    return to_layout(sparse_of(joined, values, shape, node("mul")), layout_name, "mul")


@rule("mul")
def mul(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """Rule of :func:`tensor.mul`: by a number, a dense tensor that broadcasts, or elementwise."""
    without_out(out, "mul")
    if not is_sparse(input):
        input, other = other, input
    if is_scalar(other):
        return mapped(input, values_of(input) * other, "mul")
    if not isinstance(other, TensorBase):
        raise refusal("mul", (input,))
    return _intersection(input, other) if is_sparse(other) else _with_dense(input, other)


@rule("mul_")
def mul_(input: Tensor, other: Any) -> Tensor:
    """Rule of :meth:`Tensor.mul_`."""
    if not is_sparse(input):
        # The elements that the sparse operand does not specify become 0.
        return input.mul_(other.to_dense())
    if is_scalar(other):
        writable(input, "mul_").mul_(other)
        return written(input)
    writable(input, "mul_")
    result = mul(input.detach(), other.detach())
    if result.dtype is not input.dtype:
        raise RuntimeError(
            f"mul_(): result type {result.dtype!r} can't be cast to the desired output type {input.dtype!r}"
        )
    return replace_parts(input, result)
