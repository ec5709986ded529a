"""Products of matrices added to something: ``beta * input + alpha * a @ b``, in one pass of cuBLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels.dtypes import Category, bool_
from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import empty, maker
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import unrecorded
from tensor.core.plans.copies import COPY, check_no_overlap, copied
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.complex_numbers import conjugate as conjugated
from tensor.operations.pointwise_operation import IN_PLACE
from tensor.operations.shapes import views

from .matrix_products import (
    PRODUCT,
    OnAddresses,
    _delivered,
    bmm,
    check_layouts,
    check_operands,
    check_tensors,
    mm,
    mv,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _conjugate(number: Any) -> Any:
    return number.conjugate() if isinstance(number, complex) else number


def _batch(grad: Tensor, factor: Tensor) -> Tensor:
    """The gradient of a sum of products for each of them."""
    return views.expand(grad, (factor._layout.shape[0], *grad._layout.shape))


def _formula(form: str, by_first: Callable[..., Any], by_second: Callable[..., Any]) -> BackwardFormula:
    """Of ``beta * input + alpha * A B``: ``beta * grad``, and what ``alpha * grad`` and one factor, conjugated, make.

    ``by_first(grad, b)`` is the derivative by A, ``by_second(grad, a)`` that by B.
    """

    def gradients(
        mask: tuple[bool, ...], grad: Tensor, b: Tensor | None, a: Tensor | None, beta: Any, alpha: Any
    ) -> tuple[Any, ...]:
        scaled = grad if alpha == 1 else grad * _conjugate(alpha)
        return (
            None if not mask[0] else grad if beta == 1 else grad * _conjugate(beta),
            None if b is None else by_first(scaled, conjugated(b)),
            None if a is None else by_second(scaled, conjugated(a)),
        )

    name = f"{form.capitalize()}Backward0"
    return BackwardFormula(name, "input a b", joint=Derivative(gradients, needs=("", "b", "a")))


_FORMULAS: dict[str, BackwardFormula] = {
    "addmm": _formula(
        "addmm",
        lambda grad, b: mm(grad, views.transpose(b, 0, 1)),
        lambda grad, a: mm(views.transpose(a, 0, 1), grad),
    ),
    "addmv": _formula(
        "addmv",
        lambda grad, b: views.unsqueeze(grad, 1) * b,
        lambda grad, a: mv(views.transpose(a, 0, 1), grad),
    ),
    "addr": _formula(
        "addr",
        lambda grad, b: mv(grad, b),
        lambda grad, a: mv(views.transpose(grad, 0, 1), a),
    ),
    "addbmm": _formula(
        "addbmm",
        lambda grad, b: bmm(_batch(grad, b), views.transpose(b, 1, 2)),
        lambda grad, a: bmm(views.transpose(a, 1, 2), _batch(grad, a)),
    ),
    "baddbmm": _formula(
        "baddbmm",
        lambda grad, b: bmm(grad, views.transpose(b, 1, 2)),
        lambda grad, a: bmm(views.transpose(a, 1, 2), grad),
    ),
}


def _matrices(form: str, result: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Result and factors as batches of matrices."""
    if form == "baddbmm":
        return result, a, b
    if form == "addmv":
        result, b = views.unsqueeze(result, 1), views.unsqueeze(b, 1)
    elif form == "addr":
        a, b = views.unsqueeze(a, 1), views.unsqueeze(b, 0)
    elif form == "addbmm":
        # The sum over the batch is one product of wider matrices.
        count, rows, inner = a._layout.shape
        a = views.transpose(a, 0, 1).reshape(rows, count * inner)
        b = b.reshape(count * inner, b._layout.shape[2])
    return views.unsqueeze(result, 0), views.unsqueeze(a, 0), views.unsqueeze(b, 0)


def _add_product(
    form: str,
    input: Tensor,
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    factors: tuple[Any, Any],
    out: Tensor | None,
) -> Tensor:
    """``beta * input + alpha * A B`` for checked ``a`` and ``b``, whose product has ``shape``.

    With ``out=IN_PLACE`` it is written to ``input``.
    """
    check_operands(form, input, a, b)
    dtype = a._layout.dtype
    beta, alpha = (_factor(form, number, dtype) for number in factors)
    in_place = out is IN_PLACE
    if in_place:
        _check_target(form, input, shape)
        # What is read must not change while it is written.
        a, b = (x.clone() if x._storage is input._storage else x for x in (a, b))
    layout = contiguous[shape, dtype, a._layout.device_state]
    with unrecorded():
        stretched = views.expand(input, shape)
        # What beta = 0 leaves out may be infinite.
        result = input if in_place else copied(stretched, layout) if beta != 0 else empty(layout)
        three = _matrices(form, result, a, b)
        layout.device_state.plans[PRODUCT, *(x._layout for x in three)](*three, alpha, beta)
        if in_place:
            input._storage.version += 1
    if in_place:
        record_in_place(_FORMULAS[form], input, (input, a, b), context=(beta, alpha))
        return result
    _FORMULAS[form].record((result,), (input, a, b), context=(beta, alpha))
    return _delivered(result, out)


class _Direct:
    """``device_state.plans[operation, input, a, b]``: ``run(input, a, b, beta, alpha)``, not recorded.

    The result is a new tensor, into which the input was broadcast. ``None`` where :func:`_add_product` has to look: on the
    host, for integers, and for operands that do not fit, beside the factors' own shapes.
    """

    def __init__(self, name: str, shape: Callable[[Layout, Layout], tuple[int, ...]]) -> None:
        self.name = name
        #: Shape of the product of two layouts; raises where there is none.
        self.shape = shape

    def plan(self, input: Layout, a: Layout, b: Layout) -> Callable[..., Tensor] | None:
        """How to add up tensors of given layouts."""
        check_layouts(self.name, a, b)
        shape, device_state = self.shape(a, b), a.device_state
        if not device_state.is_cuda or input.device_state is not device_state or input.dtype is not a.dtype:
            return None
        lead = len(shape) - len(input.shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(input.shape, shape[lead:], strict=True)):
            return None
        spread = input.with_strides(shape, strides_of.broadcast_strides(input.shape, input.strides, shape))
        out = contiguous[shape, a.dtype, device_state]
        multiply = device_state.plans[PRODUCT, out, a, b]
        if not isinstance(multiply, OnAddresses):
            return None
        make, fill, queue = maker(out), device_state.plans[COPY, out, spread], multiply.multiply

        def run(input: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Tensor:
            result = make()
            # What beta = 0 leaves out may be infinite.
            if beta:
                fill(result, input, True)
            first, second = a._storage.address + a._offset, b._storage.address + b._offset
            queue(result._storage.address, first, second, alpha, beta)
            return result

        return run

    def __call__(
        self, input: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any, out: Tensor | None
    ) -> Tensor:
        """The sum, recorded."""
        try:
            left, right = a._layout, b._layout
            run = left.device_state.plans[self, input._layout, left, right]
        except AttributeError:
            check_tensors(self.name, input, a, b)
            raise
        if run is None or out is not None or type(beta) not in _NUMBERS or type(alpha) not in _NUMBERS:
            return _add_product(self.name, input, a, b, self.shape(left, right), (beta, alpha), out)
        result: Tensor = run(input, a, b, beta, alpha)
        if input._autograd is not None or a._autograd is not None or b._autograd is not None:
            _FORMULAS[self.name].record((result,), (input, a, b), context=(beta, alpha))
        return result


_NUMBERS = (int, float)


#: What numbers have, and tensors of one element.
_CONVERSIONS = ("__float__", "__index__", "__complex__")


def _factor(form: str, number: Any, dtype: dtype) -> Any:
    """A factor as a number of the type that is computed in: an integer's fraction goes, as in PyTorch."""
    if not any(hasattr(number, each) for each in _CONVERSIONS):
        raise TypeError(f"{form}(): beta and alpha must be numbers, not {type(number).__name__}")
    if isinstance(number, complex) and not dtype.is_complex:
        raise RuntimeError(f"{form}(): value {number} cannot be converted to type {dtype!r} without overflow")
    return int(number) if dtype.category < Category.FLOATING else number


def _check_target(form: str, input: Tensor, shape: tuple[int, ...]) -> None:
    check_in_place(input)
    check_no_overlap(input._layout)
    if tuple(input._layout.shape) != shape:
        raise RuntimeError(
            f"{form}_(): the result has shape {list(shape)}, which does not fit the tensor to be written, of shape "
            f"{list(input._layout.shape)}"
        )


@operation(in_place=True, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2``; ``input`` broadcasts to the product's shape.

    Raises
    ------
    RuntimeError
        If the factors are not matrices with the same inner size, ``input`` cannot be broadcast to the product's
        shape, or dtypes or devices differ.
    TypeError
        If ``beta`` or ``alpha`` is no number.

    Examples
    --------
    >>> tensor.addmm(tensor.ones(2), tensor.eye(2), tensor.eye(2), alpha=3)
    tensor([[4., 1.],
            [1., 4.]])
    """
    return ADDMM(input, mat1, mat2, beta, alpha, out)


def _matrix_shape(a: Layout, b: Layout) -> tuple[int, ...]:
    left, right = a.shape, b.shape
    if len(left) != 2 or len(right) != 2:
        raise RuntimeError(f"addmm(): mat1 and mat2 must be matrices, got {len(left)}D and {len(right)}D")
    if left[1] != right[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({left[0]}x{left[1]} and {right[0]}x{right[1]})"
        )
    return left[0], right[1]


ADDMM = _Direct("addmm", _matrix_shape)


@operation(in_place=True, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * batch1 @ batch2`` for batches of matrices.

    Raises
    ------
    RuntimeError
        If the factors are not batches of matrices with the same number of matrices and inner size, ``input`` cannot
        be broadcast to the product's shape, or dtypes or devices differ.
    TypeError
        If ``beta`` or ``alpha`` is no number.

    Examples
    --------
    >>> tensor.baddbmm(tensor.ones(1, 2, 2), tensor.ones(1, 2, 3), tensor.ones(1, 3, 2), beta=10)
    tensor([[[13., 13.],
             [13., 13.]]])
    """
    return _BADDBMM(input, batch1, batch2, beta, alpha, out)


def _batches(form: str, a: Layout, b: Layout) -> tuple[int, int, int]:
    """Number, rows and columns of the products of two batches of matrices."""
    left, right = a.shape, b.shape
    if len(left) != 3 or len(right) != 3:
        raise RuntimeError(
            f"{form}(): batch1 and batch2 must be 3D tensors, got {len(left)}D and {len(right)}D"
        )
    if left[0] != right[0] or left[2] != right[1]:
        raise RuntimeError(
            f"{form}(): expected size for first two dimensions of batch2 tensor to be: [{left[0]}, {left[2]}] but "
            f"got: [{right[0]}, {right[1]}]."
        )
    return left[0], left[1], right[2]


_BADDBMM = _Direct("baddbmm", lambda a, b: _batches("baddbmm", a, b))


@operation(in_place=True, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (sum of batch1[i] @ batch2[i])``; ``input`` broadcasts to the product's shape.

    Raises
    ------
    RuntimeError
        If the factors are not batches of matrices with the same number of matrices and inner size, ``input`` cannot
        be broadcast to the product's shape, or dtypes or devices differ.
    TypeError
        If ``beta`` or ``alpha`` is no number.

    Examples
    --------
    >>> tensor.addbmm(tensor.zeros(2, 2), tensor.ones(5, 2, 3), tensor.ones(5, 3, 2))
    tensor([[15., 15.],
            [15., 15.]])
    """
    check_operands("addbmm", batch1, batch2)
    _, rows, columns = _batches("addbmm", batch1._layout, batch2._layout)
    return _add_product("addbmm", input, batch1, batch2, (rows, columns), (beta, alpha), out)


@operation(in_place=True, also="tensor.addmv_", autocast=Autocast(cuda=LOWER))
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * mat @ vec``; ``input`` broadcasts to the product's shape.

    Raises
    ------
    RuntimeError
        If ``mat`` is not a matrix and ``vec`` a vector with as many elements as it has columns, ``input`` cannot be
        broadcast to the product's shape, or dtypes or devices differ.
    TypeError
        If ``beta`` or ``alpha`` is no number.

    Examples
    --------
    >>> tensor.addmv(tensor.ones(2), tensor.eye(2), tensor.tensor([1.0, 2.0]))
    tensor([2., 3.])
    """
    check_operands("addmv", mat, vec)
    left, right = mat._layout.shape, vec._layout.shape
    if len(left) != 2 or len(right) != 1 or left[1] != right[0]:
        raise RuntimeError(f"addmv(): size mismatch, mat {list(left)}, vec {list(right)}")
    return _add_product("addmv", input, mat, vec, (left[0],), (beta, alpha), out)


@operation(in_place=True, autocast=Autocast(cuda=LOWER))
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (vec1 as a column) @ (vec2 as a row)``; ``input`` broadcasts to the product's shape.

    Raises
    ------
    RuntimeError
        If ``vec1`` and ``vec2`` are not vectors, ``input`` cannot be broadcast to the product's shape, dtypes or
        devices differ, or a factor is no integer where the tensors are integers.
    TypeError
        If ``beta`` or ``alpha`` is no number.

    Examples
    --------
    >>> tensor.addr(tensor.zeros(2, 2), tensor.tensor([1.0, 2.0]), tensor.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    check_operands("addr", vec1, vec2)
    left, right = vec1._layout.shape, vec2._layout.shape
    if len(left) != 1 or len(right) != 1:
        raise RuntimeError(
            f"addr: Expected 1-D argument vec1 and vec2, but got {len(left)}-D and {len(right)}-D"
        )
    for which, number in (("beta", beta), ("alpha", alpha)):
        if isinstance(number, (float, complex)) and vec1._layout.dtype.category < Category.FLOATING:
            raise RuntimeError(
                f"addr(): For integral input tensors, argument {which} must not be a floating point number, got {number}"
            )
    shape = (left[0], right[0])
    if vec1._layout.dtype is bool_:
        return _either_or_both(input, vec1, vec2, shape, (beta, alpha), out)
    return _add_product("addr", input, vec1, vec2, shape, (beta, alpha), out)


def _either_or_both(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    shape: tuple[int, ...],
    factors: tuple[Any, Any],
    out: Tensor | None,
) -> Tensor:
    """:func:`addr` of bools, whose sums are ors and whose products are ands."""
    check_operands("addr", input, vec1, vec2)
    beta, alpha = (bool(_factor("addr", number, bool_)) for number in factors)
    in_place = out is IN_PLACE
    if in_place:
        _check_target("addr", input, shape)
    result: Any = views.unsqueeze(vec1, 1) & vec2
    if not alpha:
        result = result.zero_()
    if beta:
        result = views.expand(input, shape) | result
    return input.copy_(result) if in_place else _delivered(result, out)
